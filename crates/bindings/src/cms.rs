//! Count-min sketches.

use valkeybloom_protocol::cms::{self as request, error};
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::cms::{self, MergeError, NotCounted, Overflow, Refusal, Shape, Term};

use super::batch::{Batch, numbers, writer};
use super::error::Error;
use super::family::family;
use super::words::Command;

family! {
    /// A count-min sketch.
    CountMin(cms::CountMin), "count-min sketch"
}

impl CountMin {
    /// Creates the sketch of CMS.INITBYDIM with these words after the key: width, depth, and `CELL_SIZE`.
    ///
    /// # Errors
    /// [`Code::Refused`](crate::Code::Refused) or [`Code::NoMemory`](crate::Code::NoMemory).
    pub fn by_size(words: &[&[u8]]) -> Result<Self, Error> {
        let words = Command::new(&[b"CMS.INITBYDIM", b"key"], words);
        request::require_count(&words)?;
        Self::of_shape(request::shape_by_size(&words, Origin::Client)?)
    }

    /// Creates the sketch of CMS.INITBYPROB with these words after the key: error, probability, and `CELL_SIZE`.
    ///
    /// # Errors
    /// [`Code::Refused`](crate::Code::Refused) or [`Code::NoMemory`](crate::Code::NoMemory).
    pub fn by_rates(words: &[&[u8]]) -> Result<Self, Error> {
        let words = Command::new(&[b"CMS.INITBYPROB", b"key"], words);
        request::require_count(&words)?;
        Self::of_shape(request::shape_by_rates(&words)?)
    }

    fn of_shape(shape: Shape) -> Result<Self, Error> {
        let made = cms::CountMin::new(shape, u64::MAX).map(Self);
        made.map_err(|refusal| match refusal {
            Refusal::OutOfMemory => Error::NO_MEMORY,
            Refusal::MemoryLimit => error::not_created(refusal).into(),
        })
    }

    /// Adds a number, which may be negative, to an item's count. Returns the new estimate.
    ///
    /// # Errors
    /// [`Code::Refused`](crate::Code::Refused). Then nothing has changed.
    #[inline]
    pub fn add(&mut self, item: &[u8], by: i64) -> Result<u64, Error> {
        if by == i64::MIN {
            return Err(error::LEAST_INCREMENT.into());
        }
        let counted = self.0.increment(item, by, Overflow::Refuse);
        counted.map_err(not_counted)
    }

    /// Counts items in order: adds to each the number at its index, or 1.
    ///
    /// # Errors
    /// [`Code::Refused`](crate::Code::Refused): if there are more or fewer numbers than items, or one is `i64::MIN`,
    /// nothing has changed. If an item's counters can't hold its number, all other items are counted.
    pub fn add_each(&mut self, batch: &Batch, by: Option<&[i64]>) -> Result<(), Error> {
        let mut numbers = numbers(by, batch.len())?;
        if by.is_some_and(|by| by.contains(&i64::MIN)) {
            return Err(error::LEAST_INCREMENT.into());
        }
        let mut first = None;
        batch.visit_all(|items| {
            let report = |counted: Result<_, _>| first = first.or(counted.err());
            let pairs = items.zip(&mut numbers);
            self.0.increment_each(pairs, Overflow::Refuse, report);
        })?;
        first.map_or(Ok(()), |why| Err(not_counted(why)))
    }

    /// Writes an estimate of each item's count, which is never too low, until `answers` is full.
    ///
    /// # Errors
    /// [`Code::NoMemory`](crate::Code::NoMemory)
    pub fn estimate_each(&self, batch: &Batch, answers: &mut [u64]) -> Result<(), Error> {
        let mut answer = writer(answers);
        batch.visit_all(|items| self.0.estimate_each(items, &mut answer))
    }

    /// Returns the weighted sum of sketches, at least one, as CMS.MERGE makes it. Without weights, each weighs 1.
    ///
    /// # Errors
    /// [`Code::Refused`](crate::Code::Refused) or [`Code::NoMemory`](crate::Code::NoMemory).
    pub fn merged(sketches: &[&Self], weights: Option<&[i64]>) -> Result<Self, Error> {
        if sketches.is_empty() {
            return Err(Error::NOTHING_TO_MERGE);
        }
        let mut terms = Vec::new();
        terms.try_reserve_exact(sketches.len())?;
        let weights = numbers(weights, sketches.len()).map_err(|_| error::WEIGHT_COUNT)?;
        let pairs = sketches.iter().zip(weights);
        terms.extend(pairs.map(|(sketch, weight)| Term {
            source: &sketch.0,
            weight,
        }));
        let merged = cms::CountMin::merged(&terms, Overflow::Refuse).map(Self);
        merged.map_err(|error| match error {
            MergeError::OutOfMemory => Error::NO_MEMORY,
            other => error::not_merged(other).into(),
        })
    }

    /// Removes all counts.
    ///
    /// # Errors
    /// [`Code::NoMemory`](crate::Code::NoMemory)
    pub fn clear(&mut self) -> Result<(), Error> {
        *self = Self::of_shape(*self.0.shape())?;
        Ok(())
    }
}

fn not_counted(why: NotCounted) -> Error {
    error::not_counted(why).into()
}
