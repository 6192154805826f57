//! An object piece by piece: `ReBloom`'s SCANDUMP and LOADCHUNK, over this type's own bytes.
//!
//! ```text
//!   cursor 0        → (1, header)            all but the cells, small whatever the object's size
//!   cursor c ≥ 1    → (c + n, n bytes)       from offset c − 1 of the filters' cells end to end;
//!                                            at most 4 MiB, and never across a filter's end
//!   past the end    → (0, nothing)
//! ```
//!
//! The loader takes the same pairs in the same order. What is loaded so far is a [`Partial`], which answers
//! nothing: an object that lacks bits would deny items that it holds. An object without filters, such as
//! one whose periods have all passed, is complete with its header.

use std::borrow::Cow;

use crate::bloom::law::Limits;
use crate::bloom::object::{Object, Outline, View};
use crate::machine::memory;

use super::dialect::{self, Dialect};
use super::redisbloom;
use crate::bytes::{CHUNK_BYTES, DecodeError, RdbRead, RdbWrite};

/// What a cursor stands for.
#[derive(Debug)]
pub enum Piece<'o> {
    /// All but the cells.
    Header(Vec<u8>),
    /// Some bytes of one filter's cells; none, past the end.
    Chunk(Cow<'o, [u8]>),
}

impl Piece<'_> {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Header(bytes) => bytes,
            Self::Chunk(bytes) => bytes,
        }
    }
}

/// Returns the cursor of the next piece, and the piece at this one, or `None` if there is no memory for it.
pub fn piece(object: &Object, cursor: u64) -> Option<(u64, Piece<'_>)> {
    let Some(offset) = cursor.checked_sub(1) else {
        return Some((1, Piece::Header(header(object)?)));
    };
    let mut start = 0;
    for view in object.views() {
        let skipped = offset - start;
        if skipped < view.cell_bytes() {
            let chunk = chunk(&view, skipped, CHUNK_BYTES)?;
            return Some((cursor + chunk.len() as u64, Piece::Chunk(chunk)));
        }
        start += view.cell_bytes();
    }
    Some((0, Piece::Chunk(Cow::default())))
}

/// Returns the header, the first of an object's pieces, or `None` if there is no memory for it.
pub fn header(object: &Object) -> Option<Vec<u8>> {
    dialect::write_header(object)
}

/// Returns the chunk of a filter's cells that begins at this byte and has at most this many, or `None` if there is
/// no memory for it.
fn chunk<'o>(view: &View<'o>, begin: u64, most: usize) -> Option<Cow<'o, [u8]>> {
    let index = |byte| usize::try_from(byte).unwrap_or(usize::MAX);
    let end = view.cell_bytes().min(begin + most as u64);
    view.bitmap_part(index(begin)..index(end))
}

/// The chunks of a filter's cells. Each is shorter while there is no memory for a longer one.
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

/// All pieces of an object, each with the cursor of the next: what [`piece`] returns cursor by cursor, in a
/// single pass. Chunks are shorter while there is no memory for longer ones.
///
/// # Panics
/// There is no memory for the header, or for a chunk of one byte: the log that pieces are written to cannot do
/// without them.
pub fn pieces(object: &Object) -> impl Iterator<Item = (u64, Piece<'_>)> {
    let mut cursor = 1;
    let chunks = object.views().flat_map(chunks_of_view).map(move |chunk| {
        cursor += chunk.len() as u64;
        (cursor, Piece::Chunk(chunk))
    });
    let header = piece(object, 0).expect("no memory to write a header");
    std::iter::once(header).chain(chunks)
}

/// The chunks of bitmaps, each with the cursor of the next.
fn chunks_of<'b>(bitmaps: impl Iterator<Item = &'b [u8]>) -> impl Iterator<Item = (u64, &'b [u8])> {
    let mut cursor = 1;
    let chunks = bitmaps.flat_map(|bitmap| bitmap.chunks(CHUNK_BYTES));
    chunks.map(move |chunk| {
        cursor += chunk.len() as u64;
        (cursor, chunk)
    })
}

/// An object, complete or partly loaded.
#[derive(Debug)]
pub enum Value {
    /// An object.
    Complete(Object),
    /// Some chunks are missing.
    Partial(Box<Partial>),
}

/// Loads an object's header, the first of its pieces. Memory for the cells is allocated as they arrive. An object of
/// `RedisBloom` takes its memory at once, since its missing bytes are written as zeros; and with one filter and no items it
/// is complete: so it is created.
///
/// # Errors
/// Any [`DecodeError`], or `None` where the limits do not admit such an object.
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
    let mut filters = outline
        .periods
        .iter_mut()
        .flat_map(|period| &mut period.filters);
    match (filters.next(), filters.next()) {
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
    let object = Object::from_outline(outline).map_err(DecodeError::from)?;
    Ok(Value::Complete(object.ok_or(DecodeError::NoMemory)?))
}

/// Loads a chunk of a complete object of `RedisBloom`, as is done there: the bytes whose end lies at `cursor` are
/// replaced.
///
/// # Errors
/// The chunk is empty, or does not lie in one filter, or the object is not of `RedisBloom`.
pub fn overwrite(object: &mut Object, cursor: u64, chunk: &[u8]) -> Result<(), DecodeError> {
    let end = cursor.checked_sub(1);
    let begin = end.and_then(|end| end.checked_sub(chunk.len() as u64));
    let begin = begin.filter(|_| !chunk.is_empty() && Dialect::of(object) == Dialect::RedisBloom);
    if begin.is_some_and(|begin| object.overwrite(begin, chunk)) {
        Ok(())
    } else {
        Err("chunk outside of the filters".into())
    }
}

/// An object of which the header is loaded, and some of the cells.
#[derive(Debug)]
pub struct Partial {
    header: Box<[u8]>,
    dialect: Dialect,
    /// Its filters' blobs start with their headers, and grow as chunks arrive.
    outline: Outline,
    /// Sum of the blobs' capacities, in bytes.
    blob_bytes: usize,
    /// Bytes of the outline's tables.
    table_bytes: u64,
    /// Number of filters whose cells are complete, and that are not the last one.
    complete: usize,
    /// Where the next one is: its period, and its number there.
    period: usize,
    filter: usize,
    /// Number of bytes of cells loaded.
    loaded: u64,
}

impl Partial {
    /// An object whose header is loaded, and nothing else.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    fn new(header: &[u8]) -> Result<Self, DecodeError> {
        let (dialect, outline) = dialect::read_header(header)?;
        outline.check()?;
        Ok(Self {
            header: memory::copied(header).ok_or(DecodeError::NoMemory)?,
            dialect,
            blob_bytes: outline.filters().map(|f| f.blob.capacity()).sum(),
            table_bytes: outline.table_bytes(),
            outline,
            complete: 0,
            period: 0,
            filter: 0,
            loaded: 0,
        })
    }

    /// The same with the memory that it takes at once.
    fn with_room(header: &[u8]) -> Result<Self, DecodeError> {
        let mut partial = Self::new(header)?;
        partial.reserve().ok_or(DecodeError::NoMemory)?;
        Ok(partial)
    }

    /// Takes the memory for all cells of an object of `RedisBloom`, or returns `None` if there is not enough. So the bytes
    /// that it lacks count against limits before they are written as zeros. Others are written without.
    fn reserve(&mut self) -> Option<()> {
        if self.dialect != Dialect::RedisBloom {
            return Some(());
        }
        let periods = self.outline.periods.iter_mut();
        for filter in periods.flat_map(|period| &mut period.filters) {
            let missing = filter.geometry.blob_bytes() - filter.blob.len() as u64;
            self.blob_bytes += grown(&mut filter.blob, missing)?;
        }
        Some(())
    }

    /// The dialect of the object that it will be.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Takes the next chunk, whose end lies at `cursor`, and returns the object if it was the last one.
    ///
    /// # Errors
    /// The chunk does not continue where the last one ended, or is more than the current filter
    /// lacks, or there is no memory for it. Nothing is changed then.
    pub fn load(&mut self, cursor: u64, chunk: &[u8]) -> Result<Option<Object>, DecodeError> {
        let length = chunk.len() as u64;
        let here = cursor
            .checked_sub(1)
            .and_then(|end| end.checked_sub(length));
        if length == 0 || here != Some(self.loaded) {
            return Err("chunk out of order".into());
        }
        let period = self.outline.periods.get_mut(self.period);
        let filters = period.map_or(&mut [][..], |period| &mut period.filters);
        let filter = filters.get_mut(self.filter);
        let filter = filter.ok_or("chunk behind the last one")?;
        let lacking = filter.geometry.blob_bytes() - filter.blob.len() as u64;
        if length > lacking {
            return Err("chunk across a filter's end".into());
        }
        // Capacity grows with the bytes loaded, to the exact size in the end: a claim of 64 MiB and one
        // byte allocate little.
        let blob = &mut filter.blob;
        if blob.capacity() - blob.len() < chunk.len() {
            let room = lacking.min(length.max(blob.len() as u64));
            self.blob_bytes += grown(blob, room).ok_or(DecodeError::NoMemory)?;
        }
        blob.extend_from_slice(chunk);
        self.loaded += length;
        if length < lacking {
            return Ok(None);
        }
        if self.filter + 1 < filters.len() {
            self.filter += 1;
        } else if self.period + 1 < self.outline.periods.len() {
            (self.period, self.filter) = (self.period + 1, 0);
        } else {
            let object = Object::from_outline(&mut self.outline).map_err(DecodeError::from);
            let object = object.and_then(|object| object.ok_or(DecodeError::NoMemory));
            if object.is_err() {
                self.undo(chunk.len());
            }
            return object.map(Some);
        }
        self.complete += 1;
        Ok(None)
    }

    /// Removes the last bytes that were loaded, all of the current filter.
    fn undo(&mut self, bytes: usize) {
        let period = self.outline.periods.get_mut(self.period);
        if let Some(filter) = period.and_then(|period| period.filters.get_mut(self.filter)) {
            filter.blob.truncate(filter.blob.len() - bytes);
            self.loaded -= bytes as u64;
        }
    }

    /// The pairs that rebuild this state, the header first.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let chunks = chunks_of(self.cells());
        std::iter::once((1, &self.header[..])).chain(chunks)
    }

    /// The cells of each filter loaded so far.
    fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let filters = self.outline.filters();
        filters.map(|filter| &filter.blob[filter.geometry.cells.header_bytes()..])
    }

    /// A copy in memory of its own, or `None` where there is none.
    pub fn try_clone(&self) -> Option<Self> {
        let mut copy = Self::with_room(&self.header).ok()?;
        for (cursor, chunk) in self.pieces().skip(1) {
            copy.load(cursor, chunk).ok()?;
        }
        Some(copy)
    }

    /// The sum of its allocations in bytes, including itself.
    pub fn memory_bytes(&self) -> u64 {
        let own = size_of::<Self>() + self.header.len() + self.blob_bytes;
        own as u64 + self.table_bytes
    }

    /// Writes it as RDB fields. Those of `RedisBloom`'s are the fields of an object there, whose missing bytes are zeros,
    /// marked; of others, a mark that no complete object has, the header, and the cells of each
    /// filter loaded so far.
    pub fn write_rdb(&self, to: &mut impl RdbWrite) {
        if self.dialect == Dialect::RedisBloom
            && redisbloom::write_partial(&self.outline, self.filter, to)
        {
            return;
        }
        for _ in 0..self.dialect.zeros_before_partial() {
            to.uint(0);
        }
        to.bytes(&self.header);
        for cells in self.cells().take(self.complete + 1) {
            to.bytes(cells);
        }
    }

    /// Reads the header and the cells that [`write_rdb`](Self::write_rdb) wrote after its mark.
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
            let index = partial.complete;
            partial.load_next(&from.bytes()?)?;
            // A filter that is not complete is the last one that was written.
            if partial.complete == index {
                return Ok(partial);
            }
        }
    }

    /// An object with this header, and the first bytes of its filters' cells.
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

    /// Loads the bytes behind those that are loaded, which do not complete the object.
    fn load_next(&mut self, chunk: &[u8]) -> Result<(), DecodeError> {
        let cursor = self.loaded.saturating_add(chunk.len() as u64 + 1);
        if !chunk.is_empty() && self.load(cursor, chunk)?.is_some() {
            return Err("complete object among the half loaded".into());
        }
        Ok(())
    }
}

/// Gives a blob room for this many more bytes. Returns by how many its capacity grew, or `None` if there is no memory.
fn grown(blob: &mut Vec<u8>, room: u64) -> Option<usize> {
    let before = blob.capacity();
    blob.try_reserve_exact(usize::try_from(room).ok()?).ok()?;
    Some(blob.capacity() - before)
}
