//! Batches: many items as slices, in the layouts of languages and of Arrow.

use valkeybloom_sketches::Slices;

use super::error::{Code, Error};
use super::items::{Items, Text, Visit};
use super::strided::{Element, Strided};
use super::views::Views;

/// Items in order, in one or more pieces of memory.
///
/// Items between offsets and items of views stay where they are. A [visit](Self::visit) copies others, a block at a time:
/// elements of arrays, because integers become decimal digits and others may write to the memory; and the values of
/// dictionaries and runs, which need not be side by side.
#[derive(Debug, Default)]
pub struct Batch<'b> {
    runs: Vec<Run<'b>>,
    /// The number of items in all runs.
    len: usize,
}

/// Items in one piece of memory.
#[derive(Debug)]
enum Run<'b> {
    Items(Items<'b>),
    Strided(Strided<'b>),
    /// The values at these places, which are below the number of values.
    Chosen {
        values: Text,
        places: Vec<u32>,
    },
}

impl Run<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Items(items) => items.len(),
            Self::Strided(elements) => elements.len(),
            Self::Chosen { places, .. } => places.len(),
        }
    }
}

impl<'b> Batch<'b> {
    /// Creates a batch without items.
    pub const fn new() -> Self {
        Self {
            runs: Vec::new(),
            len: 0,
        }
    }

    /// Returns the number of items.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no items.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn push(&mut self, run: Run<'b>) -> Result<(), Error> {
        // Arrays whose elements lie in one place have any length.
        let len = self.len.checked_add(run.len()).ok_or(Error::NO_MEMORY)?;
        self.runs.try_reserve(1)?;
        self.runs.push(run);
        self.len = len;
        Ok(())
    }

    /// Appends the items between offsets of 32 bits, one fewer than there are offsets.
    ///
    /// # Errors
    /// [`Code::BadBatch`]: the offsets do not ascend within the data. [`Code::NoMemory`]
    pub fn push_small(&mut self, data: &'b [u8], offsets: &'b [i32]) -> Result<(), Error> {
        self.push(Run::Items(Items::Small(Slices::new(data, offsets)?)))
    }

    /// Appends the items between offsets of 64 bits, one fewer than there are offsets.
    ///
    /// # Errors
    /// [`Code::BadBatch`]: the offsets do not ascend within the data. [`Code::NoMemory`]
    pub fn push_large(&mut self, data: &'b [u8], offsets: &'b [i64]) -> Result<(), Error> {
        self.push(Run::Items(Items::Large(Slices::new(data, offsets)?)))
    }

    /// Appends the items of Arrow's views: 16 bytes for each, and buffers for those that are longer than 12 bytes.
    ///
    /// # Errors
    /// [`Code::BadBatch`]: a view points outside of the buffers. [`Code::NoMemory`]
    pub fn push_views(
        &mut self,
        views: &'b [[u8; 16]],
        buffers: Vec<&'b [u8]>,
    ) -> Result<(), Error> {
        self.push(Run::Items(Items::Views(Views::new(views, buffers)?)))
    }

    /// Appends the elements of an array.
    ///
    /// # Errors
    /// [`Code::BadType`] for floats, which can't be items, and [`Code::NoMemory`].
    pub fn push_strided(&mut self, elements: Strided<'b>) -> Result<(), Error> {
        if matches!(elements.element(), Element::Float { .. }) {
            return Err(Error::new(Code::BadType, "a float can't be an item"));
        }
        self.push(Run::Strided(elements))
    }

    /// Appends the values at these places, as arrays with a dictionary hold them. The places are below the number of
    /// values.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub(crate) fn push_chosen(&mut self, values: Text, places: Vec<u32>) -> Result<(), Error> {
        self.push(Run::Chosen { values, places })
    }

    /// Passes the items to `visit`: what stays in place in one piece, copies in blocks.
    ///
    /// # Errors
    /// The first error of `visit`, or [`Code::NoMemory`]: there is no memory for a block. Earlier items have been
    /// visited.
    pub fn visit(&self, visit: &mut Visit<'_>) -> Result<(), Error> {
        let mut block = Text::new();
        self.runs.iter().try_for_each(|run| match run {
            Run::Items(items) => visit(items.clone()),
            Run::Strided(elements) => elements.each_block(&mut block, visit),
            Run::Chosen { values, places } => values.each_block(places, &mut block, visit),
        })
    }

    /// Passes all items to `visit`, as [`visit`](Self::visit) does.
    ///
    /// # Errors
    /// [`Code::NoMemory`]: there is no memory for a block. Earlier items have been visited.
    pub fn visit_all(&self, mut visit: impl FnMut(Items<'_>)) -> Result<(), Error> {
        self.visit(&mut |items| {
            visit(items);
            Ok(())
        })
    }
}

impl Text {
    /// Returns the items as a batch.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn batch(&self) -> Result<Batch<'_>, Error> {
        let mut batch = Batch::new();
        batch.push(Run::Items(self.items()?))?;
        Ok(batch)
    }
}

/// Returns a function that writes one answer after another, until `answers` is full.
pub fn writer<T>(answers: &mut [T]) -> impl FnMut(T) {
    let mut places = answers.iter_mut();
    move |answer| {
        if let Some(place) = places.next() {
            *place = answer;
        }
    }
}

/// Returns the number for each item of a batch: the one at its index in `by`, or 1.
///
/// # Errors
/// [`Code::Refused`]: there are more or fewer numbers than items.
pub fn numbers(by: Option<&[i64]>, items: usize) -> Result<impl Iterator<Item = i64>, Error> {
    if by.is_some_and(|by| by.len() != items) {
        let text = "there are more or fewer numbers than items";
        return Err(Error::new(Code::Refused, text));
    }
    let numbers = by.into_iter().flatten().copied();
    Ok(numbers.chain(std::iter::repeat(1)))
}

/// Copies values.
///
/// # Errors
/// [`Code::NoMemory`]
pub fn copied<T: Copy>(values: &[T]) -> Result<Vec<T>, Error> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(values.len())?;
    copy.extend_from_slice(values);
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_values_are_visited_in_blocks() {
        let mut values = Text::new();
        for value in [b"a", b"b"] {
            values.push(value).unwrap();
        }
        let places: Vec<u32> = (0..2500).map(|index| index % 2).collect();
        let mut batch = Batch::new();
        batch.push_chosen(values, places).unwrap();
        let (mut blocks, mut found) = (Vec::new(), Vec::new());
        batch
            .visit_all(|items| {
                blocks.push(items.len());
                found.extend(items.map(|item| item[0]));
            })
            .unwrap();
        assert_eq!(blocks, [1024, 1024, 452]);
        assert_eq!(found, b"ab".repeat(1250));
    }
}
