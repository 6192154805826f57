//! Items in order, and their layouts in memory.

use std::ops::Range;

use valkeybloom_sketches::Slices;

use super::error::Error;
use super::views::Views;

/// The number of elements that are written as text at a time. They fit in the cache.
pub(crate) const BLOCK: usize = 1024;

/// Takes items, once for each block: a pointer, so that what it does with them is compiled once.
pub type Visit<'v> = dyn FnMut(Items<'_>) -> Result<(), Error> + 'v;

/// Items of a batch, in order. They are borrowed from it, or from a buffer that is reused.
#[derive(Clone, Debug)]
pub enum Items<'i> {
    /// Between offsets of 32 bits.
    Small(Slices<'i, i32>),
    /// Between offsets of 64 bits.
    Large(Slices<'i, i64>),
    /// Arrow's views.
    Views(Views<'i>),
}

impl<'i> Iterator for Items<'i> {
    type Item = &'i [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'i [u8]> {
        match self {
            Self::Small(items) => items.next(),
            Self::Large(items) => items.next(),
            Self::Views(items) => items.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Small(items) => items.size_hint(),
            Self::Large(items) => items.size_hint(),
            Self::Views(items) => items.size_hint(),
        }
    }
}

impl ExactSizeIterator for Items<'_> {}

/// Items that are collected one by one: their bytes end to end.
#[derive(Debug, Default)]
pub struct Text {
    data: Vec<u8>,
    /// The start of each item, and the end of the last one.
    offsets: Vec<i64>,
}

impl Text {
    /// Creates a text without items.
    pub const fn new() -> Self {
        Self {
            data: Vec::new(),
            offsets: Vec::new(),
        }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all items, and keeps the memory.
    pub fn clear(&mut self) {
        self.data.clear();
        self.offsets.clear();
    }

    /// Makes room for this many items.
    ///
    /// # Errors
    /// [`Code::NoMemory`](crate::Code::NoMemory)
    pub fn reserve(&mut self, items: usize) -> Result<(), Error> {
        self.offsets.try_reserve(items.saturating_add(1))?;
        Ok(())
    }

    /// Appends an item.
    ///
    /// # Errors
    /// [`Code::NoMemory`](crate::Code::NoMemory)
    #[inline]
    pub fn push(&mut self, item: &[u8]) -> Result<(), Error> {
        if self.data.capacity() - self.data.len() < item.len() {
            self.data.try_reserve(item.len())?;
        }
        if self.offsets.capacity() - self.offsets.len() < 2 {
            self.offsets.try_reserve(2)?;
        }
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        self.data.extend_from_slice(item);
        self.offsets.push(self.data.len().cast_signed() as i64);
        Ok(())
    }

    /// Appends the decimal digits of a number.
    ///
    /// # Errors
    /// [`Code::NoMemory`](crate::Code::NoMemory)
    #[inline]
    pub fn push_integer(&mut self, number: impl itoa::Integer) -> Result<(), Error> {
        self.push(itoa::Buffer::new().format(number).as_bytes())
    }

    /// Returns an iterator over the items.
    ///
    /// # Errors
    /// [`Code::BadBatch`](crate::Code::BadBatch), which does not happen: the offsets always ascend.
    pub fn items(&self) -> Result<Items<'_>, Error> {
        self.within(0..self.len())
    }

    /// Returns an iterator over the items of a range.
    ///
    /// # Errors
    /// [`Code::BadBatch`](crate::Code::BadBatch): the range is not within the items.
    pub fn within(&self, range: Range<usize>) -> Result<Items<'_>, Error> {
        let offsets = self.offsets.get(range.start..=range.end);
        Ok(Items::Large(Slices::new(
            &self.data,
            offsets.unwrap_or_default(),
        )?))
    }

    /// Returns the item at a place, the empty one past the end.
    fn get(&self, place: u32) -> &[u8] {
        let offset = |index: usize| usize::try_from(*self.offsets.get(index)?).ok();
        let start = place as usize;
        let ends = offset(start).zip(offset(start + 1));
        let item = ends.and_then(|(start, end)| self.data.get(start..end));
        item.unwrap_or_default()
    }

    /// Copies the items at these places, a block at a time.
    pub(crate) fn each_block(
        &self,
        places: &[u32],
        block: &mut Self,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        for places in places.chunks(BLOCK) {
            block.clear();
            for place in places {
                block.push(self.get(*place))?;
            }
            visit(block.items()?)?;
        }
        Ok(())
    }
}
