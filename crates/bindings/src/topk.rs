//! Top-k lists.

use std::ops::ControlFlow;

use valkeybloom_protocol::error::Error as Refused;
use valkeybloom_protocol::topk::{self as request, error};
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::topk::{self, INCREMENT_MAX, Refusal, Shape};
use valkeybloom_sketches::{Sketch, SketchRef};

use super::batch::Batch;
use super::error::{Code, Error};
use super::family::Family;
use super::random_seed;

/// A top-k list.
#[derive(Debug)]
pub struct TopK(topk::TopK);

/// An item that was expelled from the list.
pub type Left = Box<[u8]>;

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::OutOfMemory => Error::NO_MEMORY,
        Refusal::MemoryLimit => error::refused(refusal).into(),
    }
}

fn increment(by: i64) -> Result<u32, Error> {
    let by = u32::try_from(by).ok().filter(|by| *by <= INCREMENT_MAX);
    by.ok_or_else(|| {
        // The server's text contains a run of blanks.
        let text = Error::from(error::BAD_INCREMENT);
        let words: Vec<&str> = text.text().split_whitespace().collect();
        Error::new(Code::Refused, words.join(" "))
    })
}

impl TopK {
    /// Creates the list of TOPK.RESERVE with these words after the key: k alone, or k, width, depth and decay.
    ///
    /// # Errors
    /// [`Code::Refused`] or [`Code::NoMemory`].
    pub fn reserve(words: &[&[u8]]) -> Result<Self, Error> {
        let words = [&[&b"TOPK.RESERVE"[..], b"key"], words].concat();
        request::require_shape_words(&words[..])?;
        let shape = request::shape(&words[..], Origin::Client);
        Self::of_shape(shape.map_err(|refused| match refused {
            Refused::Text(_) if refused == error::NOT_CREATED => Error::NO_MEMORY,
            other => other.into(),
        })?)
    }

    fn of_shape(shape: Shape) -> Result<Self, Error> {
        let made = topk::TopK::new(shape, random_seed()?, u64::MAX);
        made.map(Self).map_err(refused)
    }

    /// Adds an item a number of times. Returns the item that it expelled from the list.
    ///
    /// # Errors
    /// [`Code::Refused`] or [`Code::NoMemory`]. Then nothing has changed.
    pub fn add(&mut self, item: &[u8], by: i64) -> Result<Option<Left>, Error> {
        let added = self.0.add(item, increment(by)?, || u64::MAX);
        Ok(added.map_err(refused)?.left)
    }

    /// Adds items in order: each as often as the number at its index, or once. Returns the items that were expelled
    /// from the list, in order.
    ///
    /// # Errors
    /// [`Code::Refused`]: if there are more or fewer numbers than items, or one is out of range, nothing has changed.
    /// [`Code::NoMemory`]: the items before the first one without room are added.
    pub fn update(&mut self, batch: &Batch, by: Option<&[i64]>) -> Result<Vec<Left>, Error> {
        if let Some(by) = by {
            if by.len() != batch.len() {
                return Err(Error::new(
                    Code::Refused,
                    "there are more or fewer numbers than items",
                ));
            }
            by.iter().try_for_each(|by| increment(*by).map(|_| ()))?;
        }
        let mut by = by.map(<[i64]>::iter);
        let mut left = Vec::new();
        let mut failed = None;
        batch.visit(|mut items| {
            let added = items.try_for_each(|item| {
                let next = by.as_mut().map(|by| by.next().copied().unwrap_or(0));
                left.try_reserve(1)?;
                left.extend(self.add(item, next.unwrap_or(1))?);
                Ok(())
            });
            match added {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(left), Err)
    }

    /// Returns whether an item is in the list.
    pub fn contains(&self, item: &[u8]) -> bool {
        self.0.contains(item)
    }

    /// Looks items up. Writes 1 for each item in the list, 0 for each other, until `answers` is full.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn contains_each(&self, batch: &Batch, answers: &mut [u8]) -> Result<(), Error> {
        let mut answers = answers.iter_mut();
        batch.visit_all(|items| {
            for (item, answer) in items.zip(&mut answers) {
                *answer = self.0.contains(item).into();
            }
        })
    }

    /// Returns the count of an item, which may be too low.
    pub fn count(&self, item: &[u8]) -> u32 {
        self.0.count(item)
    }

    /// Returns the items of the list with their counts, the largest first.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn ranking(&self) -> Result<impl ExactSizeIterator<Item = (&[u8], u32)>, Error> {
        self.0.ranking().ok_or(Error::NO_MEMORY)
    }

    /// Removes all items.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn clear(&mut self) -> Result<(), Error> {
        *self = Self::of_shape(*self.0.shape())?;
        Ok(())
    }

    /// Returns the number of items in the list.
    pub const fn listed(&self) -> u32 {
        self.0.listed()
    }

    /// Returns k, width, depth and decay.
    pub const fn shape(&self) -> &Shape {
        self.0.shape()
    }
}

impl From<topk::TopK> for TopK {
    fn from(object: topk::TopK) -> Self {
        Self(object)
    }
}

impl Family for TopK {
    const NAME: &'static str = "top-k list";

    fn of_sketch(sketch: Sketch) -> Result<Self, Sketch> {
        match sketch {
            Sketch::TopK(object) => Ok(Self(object)),
            other => Err(other),
        }
    }

    fn by_ref(&self) -> SketchRef<'_> {
        SketchRef::TopK(&self.0)
    }

    fn try_clone(&self) -> Result<Self, Error> {
        self.0.try_clone().map(Self).ok_or(Error::NO_MEMORY)
    }

    fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }
}
