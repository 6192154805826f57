//! Objects in chunks: `ReBloom`'s SCANDUMP and LOADCHUNK, over this type's own bytes.
//!
//! ```text
//!   cursor 0        → (1, header)            all but the cells, small whatever the object's size
//!   cursor c ≥ 1    → (c + n, n bytes)       from offset c − 1 of the filters' cells end to end;
//!                                            at most 4 MiB, and never across a filter's end
//!   past the end    → (0, nothing)
//! ```
//!
//! The loader takes the same pairs in the same order. A [`Partial`] holds the bytes loaded so far and serves no
//! lookups: it lacks bits, so it would deny items. An object without filters, such as one whose periods have all
//! expired, is complete with its header.

use std::borrow::Cow;

use crate::bloom::law::Limits;
use crate::bloom::object::{Object, Outline, View};
use crate::machine::memory;

use super::dialect::{self, Dialect};
use super::extent::Extent;
use super::redisbloom;
use crate::bytes::{CHUNK_BYTES, DecodeError, RdbRead, RdbWrite};

/// The bytes at a cursor: the object without its cells, or some bytes of one filter's cells; empty past the end.
pub type Piece<'o> = Cow<'o, [u8]>;

/// Returns the cursor of the next piece and the piece at this cursor, or `None` if allocation fails.
pub fn piece(object: &Object, cursor: u64) -> Option<(u64, Piece<'_>)> {
    let Some(offset) = cursor.checked_sub(1) else {
        return Some((1, header(object)?.into()));
    };
    let mut start = 0;
    for view in object.views() {
        let skipped = offset - start;
        if skipped < view.cell_bytes() {
            let chunk = chunk(&view, skipped, CHUNK_BYTES)?;
            return Some((cursor + chunk.len() as u64, chunk));
        }
        start += view.cell_bytes();
    }
    Some((0, Cow::default()))
}

/// Returns the header, an object's first piece, or `None` if allocation fails.
pub fn header(object: &Object) -> Option<Vec<u8>> {
    dialect::write(object, Extent::Header)
}

/// Returns a chunk of a filter's cells, at most `most` bytes from byte `begin` on, or `None` if allocation fails.
fn chunk<'o>(view: &View<'o>, begin: u64, most: usize) -> Option<Cow<'o, [u8]>> {
    let index = |byte| usize::try_from(byte).unwrap_or(usize::MAX);
    let end = view.cell_bytes().min(begin + most as u64);
    view.bitmap_range(index(begin)..index(end))
}

/// Returns the chunks of a filter's cells. They are shorter while longer ones can't be allocated.
fn chunks_of_view(view: View<'_>) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let longest =
        usize::try_from(view.cell_bytes()).map_or(CHUNK_BYTES, |all| all.min(CHUNK_BYTES));
    let (mut begin, mut most) = (0, longest);
    std::iter::from_fn(move || {
        while begin < view.cell_bytes() {
            assert_ne!(most, 0, "no memory to write a chunk");
            if let Some(chunk) = chunk(&view, begin, most) {
                begin += chunk.len() as u64;
                return Some(chunk);
            }
            most /= 2;
        }
        None
    })
}

/// Returns all pieces of an object, each with the cursor of the next: those of [`piece`], in a single pass. Chunks are
/// shorter while longer ones can't be allocated.
///
/// # Panics
/// If the header, or a chunk of one byte, can't be allocated: the log that pieces are written to depends on them.
pub fn pieces(object: &Object) -> impl Iterator<Item = (u64, Piece<'_>)> {
    let mut cursor = 1;
    let chunks = object.views().flat_map(chunks_of_view).map(move |chunk| {
        cursor += chunk.len() as u64;
        (cursor, chunk)
    });
    let header = piece(object, 0).expect("no memory to write a header");
    std::iter::once(header).chain(chunks)
}

/// An object, complete or partly loaded.
#[derive(Debug)]
pub enum Value {
    /// A complete object.
    Complete(Object),
    /// An object that lacks chunks.
    Partial(Box<Partial>),
}

/// Loads an object's header, its first piece. Memory for the cells is allocated when they arrive. An object of
/// `RedisBloom` takes all its memory at once, since its missing bytes are written as zeros. With one filter and no
/// items it is complete: this is how such an object is created.
///
/// # Errors
/// Any [`DecodeError`], or `None` if the limits don't admit such an object.
pub fn begin(header: &[u8], limits: Limits) -> Result<Value, Option<DecodeError>> {
    let mut partial = Partial::new(header)?;
    let outline = &mut partial.outline;
    let filters = || outline.filters().map(|filter| filter.geometry.blob_bytes());
    let total = outline.overhead() + Object::BASE_BYTES;
    let total = filters().try_fold(total, u64::checked_add);
    let admitted = filters().all(|bytes| bytes <= limits.filter_bytes)
        && total.is_some_and(|total| total <= limits.object_bytes);
    if !admitted {
        return Err(None);
    }
    let first_two = {
        let mut filters = outline.filters_mut();
        (filters.next(), filters.next())
    };
    match first_two {
        (None, _) => {}
        (Some(only), None) if partial.dialect == Dialect::RedisBloom && only.items == 0 => {
            let bytes = usize::try_from(only.geometry.cell_bytes).ok();
            let zeros = bytes
                .and_then(memory::zeroed)
                .ok_or(DecodeError::NoMemory)?;
            only.blob = zeros.into_vec();
        }
        _ => {
            partial.reserve().ok_or(DecodeError::NoMemory)?;
            return Ok(Value::Partial(Box::new(partial)));
        }
    }
    Ok(Value::Complete(Object::from_outline(outline)?))
}

/// Loads a chunk into a complete object of `RedisBloom`, the way `RedisBloom` does: replaces the bytes that end at
/// `cursor`.
///
/// # Errors
/// If the chunk is not within one filter, or the object is not of `RedisBloom`.
pub fn overwrite(object: &mut Object, cursor: u64, chunk: &[u8]) -> Result<(), DecodeError> {
    let end = cursor.checked_sub(1);
    let begin = end.and_then(|end| end.checked_sub(chunk.len() as u64));
    let begin = begin.filter(|_| Dialect::of(object) == Dialect::RedisBloom);
    if begin.is_some_and(|begin| object.overwrite(begin, chunk)) {
        Ok(())
    } else {
        Err("chunk outside of the filters".into())
    }
}

/// An object whose header is loaded, and some of its cells.
#[derive(Debug)]
pub struct Partial {
    header: Box<[u8]>,
    dialect: Dialect,
    /// The outline. Its filters' blobs start with their headers and grow as chunks arrive.
    outline: Outline,
    /// The index of the filter being loaded, of all: those before it are complete.
    filter: usize,
    /// Number of bytes of cells loaded.
    loaded: u64,
}

impl Partial {
    /// Creates an object with its header loaded and nothing else.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    fn new(header: &[u8]) -> Result<Self, DecodeError> {
        let (dialect, outline) = dialect::read_header(header)?;
        outline.check()?;
        let mut header = memory::copied(header).ok_or(DecodeError::NoMemory)?;
        if dialect == Dialect::RedisBloom {
            redisbloom::write_items(&outline, &mut header);
        }
        Ok(Self {
            header,
            dialect,
            outline,
            filter: 0,
            loaded: 0,
        })
    }

    /// Creates an object with its header loaded, and [reserves](Self::reserve) its memory.
    fn with_room(header: &[u8]) -> Result<Self, DecodeError> {
        let mut partial = Self::new(header)?;
        partial.reserve().ok_or(DecodeError::NoMemory)?;
        Ok(partial)
    }

    /// Allocates memory for all cells of an object of `RedisBloom`, or returns `None` if allocation fails. So the
    /// missing bytes count against limits before they are written as zeros. Objects of other dialects are written
    /// without their missing bytes, and reserve nothing.
    fn reserve(&mut self) -> Option<()> {
        if self.dialect != Dialect::RedisBloom {
            return Some(());
        }
        for filter in self.outline.filters_mut() {
            let missing = filter.geometry.blob_bytes() - filter.blob.len() as u64;
            reserve(&mut filter.blob, missing)?;
        }
        Some(())
    }

    /// Returns the dialect of the object.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Loads the next chunk, which ends at `cursor`. Returns the object if the chunk was the last.
    ///
    /// # Errors
    /// If the chunk does not continue where the last one ended, or is longer than the rest of the current filter, or
    /// allocation fails. Nothing is changed then.
    pub fn load(&mut self, cursor: u64, chunk: &[u8]) -> Result<Option<Object>, DecodeError> {
        let length = chunk.len() as u64;
        let end = cursor.checked_sub(1);
        let here = end.and_then(|end| end.checked_sub(length));
        if length == 0 || here != Some(self.loaded) {
            return Err("chunk out of order".into());
        }
        let filter = self.outline.filters_mut().nth(self.filter);
        let filter = filter.ok_or("chunk behind the last one")?;
        let lacking = filter.geometry.blob_bytes() - filter.blob.len() as u64;
        if length > lacking {
            return Err("chunk across a filter's end".into());
        }
        // Capacity grows with the bytes loaded, up to the exact size: a claim of 64 MiB with one byte loaded allocates
        // little.
        let blob = &mut filter.blob;
        if blob.capacity() - blob.len() < chunk.len() {
            let room = lacking.min(length.max(blob.len() as u64));
            reserve(blob, room).ok_or(DecodeError::NoMemory)?;
        }
        blob.extend_from_slice(chunk);
        self.loaded += length;
        if length < lacking {
            return Ok(None);
        }
        if self.outline.filters().nth(self.filter + 1).is_some() {
            self.filter += 1;
            return Ok(None);
        }
        let object = Object::from_outline(&mut self.outline);
        if object.is_err()
            && let Some(filter) = self.outline.filters_mut().nth(self.filter)
        {
            filter.blob.truncate(filter.blob.len() - chunk.len());
            self.loaded -= length;
        }
        object.map(Some)
    }

    /// Returns the object with zeros for its missing bytes, which is what `RedisBloom` has in its place.
    ///
    /// # Errors
    /// Any [`DecodeError`]; other dialects have no such object.
    pub fn filled(&mut self) -> Result<Object, DecodeError> {
        if self.dialect != Dialect::RedisBloom {
            return Err("missing chunks".into());
        }
        self.reserve().ok_or(DecodeError::NoMemory)?;
        for filter in self.outline.filters_mut() {
            let bytes = usize::try_from(filter.geometry.blob_bytes());
            filter
                .blob
                .resize(bytes.map_err(|_| DecodeError::NoMemory)?, 0);
        }
        Object::from_outline(&mut self.outline)
    }

    /// Returns the pieces that rebuild this state, header first, each with the cursor of the next.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut cursor = 1;
        let chunks = self.cells().flat_map(|cells| cells.chunks(CHUNK_BYTES));
        let chunks = chunks.map(move |chunk| {
            cursor += chunk.len() as u64;
            (cursor, chunk)
        });
        std::iter::once((1, &self.header[..])).chain(chunks)
    }

    /// Returns the cells of each filter loaded so far.
    fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let filters = self.outline.filters();
        filters.map(|filter| &filter.blob[filter.geometry.cells.header_bytes()..])
    }

    /// Copies the object, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let mut copy = Self::with_room(&self.header).ok()?;
        for (cursor, chunk) in self.pieces().skip(1) {
            copy.load(cursor, chunk).ok()?;
        }
        Some(copy)
    }

    /// Returns the sum of the allocations in bytes, including `self`.
    pub fn memory_bytes(&self) -> u64 {
        let blobs = self.outline.filters().map(|filter| filter.blob.capacity());
        let own = size_of::<Self>() + self.header.len() + blobs.sum::<usize>();
        own as u64 + self.outline.table_bytes()
    }

    /// Writes the object as RDB fields. An object of `RedisBloom` becomes one with zeros for its missing bytes, and a
    /// mark. For other dialects, the fields are zeros that no complete object begins with, the header, and the cells
    /// of each filter loaded so far.
    pub fn write_rdb(&self, to: &mut impl RdbWrite) {
        if self.dialect == Dialect::RedisBloom
            && redisbloom::write_partial(&self.outline, self.filter, to)
        {
            return;
        }
        // A filter count of 0, in RedisBloom's fields after an item count of 0.
        if self.dialect == Dialect::RedisBloom {
            to.uint(0);
        }
        to.uint(0);
        to.bytes(&self.header);
        for cells in self.cells().take(self.filter + 1) {
            to.bytes(cells);
        }
    }

    /// Reads the header and the cells that [`write_rdb`](Self::write_rdb) writes after the zeros.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn read_rdb(from: &mut impl RdbRead) -> Result<Self, DecodeError> {
        let header = from.bytes()?;
        let mut partial = Self::with_room(&header)?;
        if partial.outline.filters().next().is_none() {
            return Err("no filters".into());
        }
        loop {
            let index = partial.filter;
            partial.load_next(&from.bytes()?)?;
            // An incomplete filter is the last one written.
            if partial.filter == index {
                return Ok(partial);
            }
        }
    }

    /// Creates an object with a header and the first bytes of its filters' cells.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn resumed(header: &[u8], cells: &[Vec<u8>]) -> Result<Self, DecodeError> {
        let mut partial = Self::with_room(header)?;
        for cells in cells {
            partial.load_next(cells)?;
        }
        Ok(partial)
    }

    /// Loads the next bytes, which must not complete the object.
    fn load_next(&mut self, chunk: &[u8]) -> Result<(), DecodeError> {
        let cursor = self.loaded.saturating_add(chunk.len() as u64 + 1);
        if !chunk.is_empty() && self.load(cursor, chunk)?.is_some() {
            return Err("complete object among the half loaded".into());
        }
        Ok(())
    }
}

/// Reserves room for more bytes in a blob, or returns `None` if allocation fails.
fn reserve(blob: &mut Vec<u8>, room: u64) -> Option<()> {
    blob.try_reserve_exact(usize::try_from(room).ok()?).ok()
}
