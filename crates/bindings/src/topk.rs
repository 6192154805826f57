//! Top-k lists.

use valkeybloom_protocol::topk::{self as request, error};
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::topk::{self, INCREMENT_MAX, Refusal, Shape};

use super::batch::{Batch, numbers, writer};
use super::error::{Code, Error};
use super::family::family;
use super::random_seed;
use super::words::Command;

family! {
    /// A top-k list.
    TopK(topk::TopK), "top-k list"
}

/// An item that was expelled from the list.
pub type Expelled = Box<[u8]>;

fn no_room(refusal: Refusal) -> Error {
    match refusal {
        Refusal::OutOfMemory => Error::NO_MEMORY,
        Refusal::MemoryLimit => error::refused(refusal).into(),
    }
}

fn increment(by: i64) -> Result<u32, Error> {
    let by = u32::try_from(by).ok().filter(|by| *by <= INCREMENT_MAX);
    by.ok_or_else(|| Error::new(Code::Refused, error::INCREMENT))
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
        Self::of_shape(shape.map_err(|error| match error {
            error::NOT_CREATED => Error::NO_MEMORY,
            other => other.into(),
        })?)
    }

    fn of_shape(shape: Shape) -> Result<Self, Error> {
        let made = topk::TopK::new(shape, random_seed()?, u64::MAX);
        made.map(Self).map_err(no_room)
    }

    /// Adds an item a number of times. Returns the item that it expelled from the list.
    ///
    /// # Errors
    /// [`Code::Refused`] or [`Code::NoMemory`]. Then nothing has changed.
    pub fn add(&mut self, item: &[u8], by: i64) -> Result<Option<Expelled>, Error> {
        self.add_times(item, increment(by)?)
    }

    fn add_times(&mut self, item: &[u8], times: u32) -> Result<Option<Expelled>, Error> {
        let added = self.0.add(item, times, || u64::MAX);
        Ok(added.map_err(no_room)?.left)
    }

    /// Adds items in order: each as often as the number at its index, or once. Returns the items that were expelled
    /// from the list, in order.
    ///
    /// # Errors
    /// [`Code::Refused`]: if there are more or fewer numbers than items, or one is out of range, nothing has changed.
    /// [`Code::NoMemory`]: the items before the first one without room are added.
    pub fn add_each(&mut self, batch: &Batch, by: Option<&[i64]>) -> Result<Vec<Expelled>, Error> {
        let mut increments = Vec::new();
        increments.try_reserve_exact(batch.len())?;
        for by in numbers(by, batch.len())?.take(batch.len()) {
            increments.push(increment(by)?);
        }
        let (mut increments, mut expelled) = (increments.into_iter(), Vec::new());
        batch.visit(&mut |items| {
            items.zip(&mut increments).try_for_each(|(item, times)| {
                expelled.try_reserve(1)?;
                expelled.extend(self.add_times(item, times)?);
                Ok(())
            })
        })?;
        Ok(expelled)
    }

    /// Looks items up. Writes 1 for each item in the list, 0 for each other, until `answers` is full.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn contains_each(&self, batch: &Batch, answers: &mut [u8]) -> Result<(), Error> {
        let mut answer = writer(answers);
        batch.visit_all(|items| items.for_each(|item| answer(self.0.contains(item).into())))
    }

    /// Returns the items of the list with their counts, the largest first.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn ranking(&self) -> Result<impl ExactSizeIterator<Item = (&[u8], u32)>, Error> {
        self.0.ranking().ok_or(Error::NO_MEMORY)
    }

    /// Removes all items. The list gets a new seed, which no answer depends on.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn clear(&mut self) -> Result<(), Error> {
        *self = Self::of_shape(*self.0.shape())?;
        Ok(())
    }
}
