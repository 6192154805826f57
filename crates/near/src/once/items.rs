//! Lists of items.

use std::collections::TryReserveError;
use std::ops::Range;

/// A list of items.
#[derive(Clone, Debug, Default)]
pub struct Items {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Items {
    /// Appends an item.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn push(&mut self, item: &[u8]) -> Result<(), TryReserveError> {
        self.bytes.try_reserve(item.len())?;
        self.ends.try_reserve(1)?;
        self.bytes.extend_from_slice(item);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    pub(super) fn iter(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = &[u8]> {
        range.map(|index| self.get(index))
    }

    /// Returns the items of a range. `None` if there is no memory for them.
    pub(super) fn part(&self, mut range: Range<usize>) -> Option<Self> {
        let mut part = Self::default();
        range.try_for_each(|index| part.push(self.get(index)).ok())?;
        Some(part)
    }
}
