//! Batches: many items as slices, in the layouts of languages and of Arrow.

use std::ops::ControlFlow;

use valkeybloom_sketches::{BadOffsets, Slices};

use super::error::{Code, Error};
use super::strided::{BLOCK, Element, Strided};
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

/// Takes items, once for each block: a pointer, so that what it does with them is compiled once.
pub(crate) type Visit<'v> = dyn FnMut(Items<'_>) -> ControlFlow<()> + 'v;

/// Items of a batch, in order. They are borrowed from it, or from a buffer that is reused.
#[derive(Clone, Debug)]
pub struct Items<'i>(Layout<'i>);

#[derive(Clone, Debug)]
enum Layout<'i> {
    Small(Slices<'i, i32>),
    Large(Slices<'i, i64>),
    Views(Views<'i>),
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
        self.push(Run::Items(Items(layout)), len)
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

impl From<BadOffsets> for Error {
    fn from(error: BadOffsets) -> Self {
        Self::new(Code::BadBatch, error.to_string())
    }
}

impl<'i> Iterator for Items<'i> {
    type Item = &'i [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'i [u8]> {
        match &mut self.0 {
            Layout::Small(items) => items.next(),
            Layout::Large(items) => items.next(),
            Layout::Views(items) => items.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Layout::Small(items) => items.size_hint(),
            Layout::Large(items) => items.size_hint(),
            Layout::Views(items) => items.size_hint(),
        }
    }
}

impl ExactSizeIterator for Items<'_> {}

/// Items that are collected one by one: their bytes end to end.
#[derive(Debug)]
pub struct Text {
    data: Vec<u8>,
    /// The start of each item, and the end of the last one.
    offsets: Vec<i64>,
}

impl Default for Text {
    fn default() -> Self {
        Self::new()
    }
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
    /// [`Code::NoMemory`]
    pub fn reserve(&mut self, items: usize) -> Result<(), Error> {
        self.offsets.try_reserve(items.saturating_add(1))?;
        Ok(())
    }

    /// Appends an item.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
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
    /// [`Code::NoMemory`]
    #[inline]
    pub fn push_integer(&mut self, number: impl itoa::Integer) -> Result<(), Error> {
        self.push(itoa::Buffer::new().format(number).as_bytes())
    }

    /// Returns the items.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn batch(&self) -> Result<Batch<'_>, Error> {
        let mut batch = Batch::new();
        batch.push_large(&self.data, &self.offsets)?;
        Ok(batch)
    }

    /// Returns an iterator over the items.
    ///
    /// # Errors
    /// [`Code::BadBatch`], which does not happen: the offsets always ascend.
    pub fn items(&self) -> Result<Items<'_>, Error> {
        let slices = Slices::new(&self.data, &self.offsets)?;
        Ok(Items(Layout::Large(slices)))
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
    fn each_block(
        &self,
        places: &[u32],
        block: &mut Self,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        for places in places.chunks(BLOCK) {
            block.clear();
            for place in places {
                block.push(self.get(*place))?;
            }
            if visit(block.items()?).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
