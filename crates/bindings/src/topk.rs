//! Top-k lists.

use valkeybloom_protocol::error::Error as Refused;
use valkeybloom_protocol::topk::{self as request, error};
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::topk::{self, INCREMENT_MAX, Refusal, Shape};

use super::batch::{Batch, numbers};
use super::error::{Code, Error};
use super::family::family;
use super::random_seed;
use super::words::Command;

family! {
    /// A top-k list.
    TopK(topk::TopK), "top-k list"
}

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
        let words = Command::new(&[b"TOPK.RESERVE", b"key"], words);
        request::require_shape_words(&words)?;
        let shape = request::shape(&words, Origin::Client);
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
    pub fn add_each(&mut self, batch: &Batch, by: Option<&[i64]>) -> Result<Vec<Left>, Error> {
        let mut numbers = numbers(by, batch.len())?;
        for by in by.into_iter().flatten() {
            increment(*by)?;
        }
        let mut left = Vec::new();
        batch.visit(&mut |items| {
            items.zip(&mut numbers).try_for_each(|(item, by)| {
                left.try_reserve(1)?;
                left.extend(self.add(item, by)?);
                Ok(())
            })
        })?;
        Ok(left)
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
}
