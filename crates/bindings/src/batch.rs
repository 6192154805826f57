//! Batches: many items as slices, in the layouts of languages and of Arrow.

use std::ops::ControlFlow;

use valkeybloom_sketches::Slices;

use super::error::{Code, Error};
use super::items::{Items, Layout, Text, Visit};
use super::strided::{Element, Strided};
use super::views::Views;

/// Items in order, in one or more pieces of memory. Nothing is copied but numbers, whose decimal digits are items, and
/// elements of arrays that others may write to at the same time.
#[derive(Debug, Default)]
pub struct Batch<'b> {
    runs: Vec<Run<'b>>,
    len: usize,
}

#[derive(Debug)]
enum Run<'b> {
    Items(Items<'b>),
    Strided(Strided<'b>),
    Chosen { values: Text, places: Vec<u32> },
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

    fn push_items(&mut self, layout: Layout<'b>, len: usize) -> Result<(), Error> {
        self.push(Run::Items(Items::new(layout)), len)
    }

    fn push(&mut self, run: Run<'b>, len: usize) -> Result<(), Error> {
        self.runs.try_reserve(1)?;
        self.runs.push(run);
        self.len = self.len.checked_add(len).ok_or(Error::NO_MEMORY)?;
        Ok(())
    }

    /// Appends the items between offsets of 32 bits, one fewer than there are offsets.
    ///
    /// # Errors
    /// [`Code::BadBatch`]: the offsets do not ascend within the data.
    pub fn push_small(&mut self, data: &'b [u8], offsets: &'b [i32]) -> Result<(), Error> {
        let items = Slices::new(data, offsets)?;
        let len = items.len();
        self.push_items(Layout::Small(items), len)
    }

    /// Appends the items between offsets of 64 bits, one fewer than there are offsets.
    ///
    /// # Errors
    /// [`Code::BadBatch`]: the offsets do not ascend within the data.
    pub fn push_large(&mut self, data: &'b [u8], offsets: &'b [i64]) -> Result<(), Error> {
        let items = Slices::new(data, offsets)?;
        let len = items.len();
        self.push_items(Layout::Large(items), len)
    }

    /// Appends the items of Arrow's views: 16 bytes for each, and buffers for those that are longer than 12 bytes.
    ///
    /// # Errors
    /// [`Code::BadBatch`]: a view points outside of the buffers.
    pub fn push_views(
        &mut self,
        views: &'b [[u8; 16]],
        buffers: Vec<&'b [u8]>,
    ) -> Result<(), Error> {
        self.push_items(Layout::Views(Views::new(views, buffers)?), views.len())
    }

    /// Appends the elements of an array.
    ///
    /// # Errors
    /// [`Code::BadType`] for floats, which can't be items, and [`Code::NoMemory`].
    pub fn push_strided(&mut self, elements: Strided<'b>) -> Result<(), Error> {
        if matches!(elements.element(), Element::Float { .. }) {
            return Err(Error::new(Code::BadType, "a float can't be an item"));
        }
        self.push(Run::Strided(elements), elements.len())
    }

    /// Appends the values at these places, as arrays with a dictionary hold them. The places are below the number of
    /// values.
    pub(crate) fn push_chosen(&mut self, values: Text, places: Vec<u32>) -> Result<(), Error> {
        let len = places.len();
        self.push(Run::Chosen { values, places }, len)
    }

    /// Passes the items to `visit`: each run in one piece, but the elements of arrays in blocks, because they are
    /// copied first. `visit` may stop early.
    ///
    /// # Errors
    /// [`Code::NoMemory`]: there is no memory for a block. Earlier items have been visited.
    pub fn visit(&self, mut visit: impl FnMut(Items<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        self.visit_with(&mut visit)
    }

    fn visit_with(&self, visit: &mut Visit<'_>) -> Result<(), Error> {
        let mut block = Text::new();
        for run in &self.runs {
            let broken_off = match run {
                Run::Items(items) => visit(items.clone()),
                Run::Strided(elements) => elements.each_block(&mut block, visit)?,
                Run::Chosen { values, places } => values.each_block(places, &mut block, visit)?,
            };
            if broken_off.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Passes all items to `visit`, as [`visit`](Self::visit) does.
    ///
    /// # Errors
    /// [`Code::NoMemory`]: there is no memory for a block. Earlier items have been visited.
    pub fn visit_all(&self, mut visit: impl FnMut(Items<'_>)) -> Result<(), Error> {
        self.visit(|items| {
            visit(items);
            ControlFlow::Continue(())
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
        batch.push(Run::Items(self.items()?), self.len())?;
        Ok(batch)
    }
}
