//! Objects in chunks: `ReBloom`'s SCANDUMP and LOADCHUNK, over this type's own bytes.
//!
//! ```text
//!   cursor 0        → (1, header)            all but the cells, small whatever the object's size
//!   cursor c ≥ 1    → (c + n, n bytes)       from offset c − 1 of the filters' cells end to end;
//!                                            at most 4 MiB, and never across a filter's end
//!                   → (e + 1, bytes)         of tables: the entries from position c − 1 to e (`pieces.rs`)
//!   past the end    → (0, nothing)
//! ```
//!
//! The loader takes the same pairs in the same order. A [`Partial`] holds the bytes loaded so far and serves no
//! lookups: it lacks bits, so it would deny items.

use std::borrow::Cow;

use crate::bloom::filter::Filter;
use crate::bloom::law::Limits;
use crate::bloom::object::Object;
use crate::machine::memory;

use super::cells::{Cells, are_at};
use super::dialect::{self, Dialect, Rest};
use super::extent::Extent;
use super::pieces::{self, Pieces};
use super::redisbloom;
use crate::bytes::{CHUNK_BYTES, DecodeError, RdbRead, RdbWrite};

/// The bytes at a cursor: the object without its cells, some bytes of one filter's cells, or entries of tables; empty past the
/// end.
pub type Piece<'o> = Cow<'o, [u8]>;

/// The reason that a header or a chunk is not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The bytes can't be decoded.
    Decode(DecodeError),
    /// The limits don't admit the object.
    TooLarge,
}

crate::error::texts!(LoadError {
    Self::Decode(error) => error.text(),
    Self::TooLarge => "it would exceed the limit on memory",
});

impl From<DecodeError> for LoadError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

/// Returns the cursor of the next piece and the piece at this cursor, or `None` if allocation fails.
pub fn piece(object: &Object, cursor: u64) -> Option<(u64, Piece<'_>)> {
    let Some(offset) = cursor.checked_sub(1) else {
        return Some((1, header(object)?.into()));
    };
    if let Some(tables) = object.tables() {
        if offset >= pieces::END {
            return Some((0, Cow::default()));
        }
        let (end, piece) = pieces::piece(tables, offset)?;
        return Some((end + 1, piece.into()));
    }
    let mut start = 0;
    for filter in object.all_filters() {
        let cells = filter.bitmap();
        let rest = usize::try_from(offset - start)
            .ok()
            .and_then(|begin| cells.get(begin..));
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            let chunk = &rest[..rest.len().min(CHUNK_BYTES)];
            return Some((cursor + chunk.len() as u64, chunk.into()));
        }
        start += cells.len() as u64;
    }
    Some((0, Cow::default()))
}

/// Returns the header, an object's first piece, or `None` if allocation fails.
pub fn header(object: &Object) -> Option<Vec<u8>> {
    dialect::write(object, Extent::Header)
}

/// Returns all pieces of an object, each with the cursor of the next.
///
/// # Panics
/// If a piece can't be allocated: the log that pieces are written to depends on them.
pub fn pieces(object: &Object) -> impl Iterator<Item = (u64, Piece<'_>)> {
    let mut cursor = 0;
    std::iter::from_fn(move || {
        let next = piece(object, cursor).expect("no memory to write a piece");
        cursor = next.0;
        (cursor > 0).then_some(next)
    })
}

/// An object, complete or partly loaded.
#[derive(Debug)]
pub enum Value {
    /// A complete object.
    Complete(Object),
    /// An object that lacks chunks.
    Partial(Box<Partial>),
}

impl Value {
    /// Returns whether the object has these bytes already, its header or a chunk that ends at `cursor`.
    pub fn holds(&self, cursor: u64, bytes: &[u8]) -> bool {
        match self {
            Self::Partial(partial) => partial.holds(cursor, bytes),
            Self::Complete(object) if cursor == 1 => {
                header(object).is_some_and(|held| is_loaded_as(bytes, &held))
            }
            Self::Complete(object) if object.tables().is_some() => {
                let begin = Pieces::begin_of(bytes).and_then(|begin| begin.checked_add(1));
                let held = begin.and_then(|begin| piece(object, begin));
                held.is_some_and(|(end, piece)| end == cursor && *piece == *bytes)
            }
            Self::Complete(object) => {
                let cells = object.all_filters().iter().map(Filter::bitmap);
                are_at(cells, cursor, bytes)
            }
        }
    }
}

/// Returns whether loading a header leads to the held one. They differ where the header claims more items than fit.
fn is_loaded_as(header: &[u8], held: &[u8]) -> bool {
    header == held || Partial::new(header).is_ok_and(|loaded| *loaded.header == *held)
}

/// Loads an object's header, its first piece. Memory for the rest is allocated when it arrives. An object of
/// `RedisBloom` takes all its memory at once, since its missing bytes are written as zeros. With one filter and no
/// items it is complete: this is how such an object is created.
///
/// # Errors
/// Any [`LoadError`].
pub fn begin(header: &[u8], limits: Limits) -> Result<Value, LoadError> {
    let mut partial = Partial::new(header)?;
    let Loading::Cells(cells) = &mut partial.rest else {
        return Ok(Value::Partial(Box::new(partial)));
    };
    let outline = &mut cells.outline;
    let filters = || outline.filters.iter().map(|f| f.geometry.blob_bytes());
    let total = outline.object_bytes_beside_blobs() + Object::BASE_BYTES;
    let total = filters().try_fold(total, u64::checked_add);
    let admitted = filters().all(|bytes| bytes <= limits.filter_bytes)
        && total.is_some_and(|total| total <= limits.object_bytes);
    if !admitted {
        return Err(LoadError::TooLarge);
    }
    match &mut outline.filters[..] {
        [only] if cells.dialect == Dialect::RedisBloom && only.items == 0 => {
            let bytes = usize::try_from(only.geometry.cell_bytes).ok();
            let zeros = bytes
                .and_then(memory::zeroed)
                .ok_or(DecodeError::NoMemory)?;
            only.blob = zeros.into_vec();
            Ok(Value::Complete(Object::from_outline(outline)?))
        }
        _ => {
            cells.reserve().ok_or(DecodeError::NoMemory)?;
            Ok(Value::Partial(Box::new(partial)))
        }
    }
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

/// An object whose header is loaded, and some of what follows.
#[derive(Debug)]
pub struct Partial {
    header: Box<[u8]>,
    rest: Loading,
}

/// What was loaded behind the header.
#[derive(Debug)]
enum Loading {
    Cells(Cells),
    Pieces(Pieces),
}

impl Partial {
    /// Creates an object with its header loaded and nothing else.
    fn new(header: &[u8]) -> Result<Self, DecodeError> {
        let rest = dialect::read_header(header)?;
        let mut header = memory::copied(header).ok_or(DecodeError::NoMemory)?;
        let rest = match rest {
            Rest::Pieces(pieces) => Loading::Pieces(pieces),
            Rest::Cells(dialect, outline) => {
                outline.check()?;
                if dialect == Dialect::RedisBloom {
                    redisbloom::write_items(&outline, &mut header);
                }
                Loading::Cells(Cells::new(dialect, outline))
            }
        };
        Ok(Self { header, rest })
    }

    /// Returns the dialect of the object.
    pub const fn dialect(&self) -> Dialect {
        match &self.rest {
            Loading::Cells(cells) => cells.dialect,
            Loading::Pieces(_) => Dialect::Bloomfltx,
        }
    }

    /// Returns the number of allocations.
    pub fn allocations(&self) -> u64 {
        3 + match &self.rest {
            Loading::Cells(cells) => cells.outline.filters.len(),
            Loading::Pieces(pieces) => pieces.all().len(),
        } as u64
    }

    /// Loads the next chunk, which ends at `cursor`. Returns the object if the chunk was the last.
    ///
    /// # Errors
    /// Any [`DecodeError`]: the chunk is not the next one, is not valid or is longer than the rest of the current filter, or
    /// allocation fails. Nothing is changed then.
    pub fn load(&mut self, cursor: u64, chunk: &[u8]) -> Result<Option<Object>, DecodeError> {
        let pieces = match &mut self.rest {
            Loading::Cells(cells) => return cells.load(cursor, chunk),
            Loading::Pieces(pieces) => pieces,
        };
        if Pieces::end_of(chunk).and_then(|end| end.checked_add(1)) != Some(cursor) {
            return Err("chunk out of order".into());
        }
        let piece = memory::copied(chunk).ok_or(DecodeError::NoMemory)?;
        pieces.push(piece.into_vec())?;
        if pieces.end() < pieces::END {
            return Ok(None);
        }
        let object = pieces.build();
        if object.is_err() {
            pieces.pop();
        }
        object.map(Some)
    }

    /// Does what [`load`](Self::load) does if the limits admit it. They admitted the chunks of a stack with its header.
    ///
    /// # Errors
    /// Any [`LoadError`]. Nothing is changed then.
    pub fn load_within(
        &mut self,
        cursor: u64,
        chunk: &[u8],
        limits: Limits,
    ) -> Result<Option<Object>, LoadError> {
        let bytes = self.memory_bytes().saturating_add(chunk.len() as u64);
        if matches!(self.rest, Loading::Pieces(_)) && bytes > limits.object_bytes {
            return Err(LoadError::TooLarge);
        }
        let object = self.load(cursor, chunk)?;
        if let (Some(object), Loading::Pieces(pieces)) = (&object, &mut self.rest)
            && !object.is_within(limits)
        {
            pieces.pop();
            return Err(LoadError::TooLarge);
        }
        Ok(object)
    }

    /// Returns whether these bytes, the header or a chunk that ends at `cursor`, were loaded already.
    fn holds(&self, cursor: u64, bytes: &[u8]) -> bool {
        match &self.rest {
            _ if cursor == 1 => is_loaded_as(bytes, &self.header),
            Loading::Cells(cells) => are_at(cells.each(), cursor, bytes),
            Loading::Pieces(pieces) => {
                let all = pieces.all();
                let end = cursor.checked_sub(1);
                let place = all.partition_point(|piece| Pieces::end_of(piece) < end);
                let is_held = |piece: &Vec<u8>| Pieces::end_of(piece) == end && *piece == *bytes;
                all.get(place).is_some_and(is_held)
            }
        }
    }

    /// Returns the object with zeros for its missing bytes, which is what `RedisBloom` has in its place.
    ///
    /// # Errors
    /// Any [`DecodeError`]; other dialects have no such object.
    pub fn filled(&mut self) -> Result<Object, DecodeError> {
        let cells = match &mut self.rest {
            Loading::Cells(cells) if cells.dialect == Dialect::RedisBloom => cells,
            _ => return Err("missing chunks".into()),
        };
        cells.filled()
    }

    /// Returns the [`filled`](Self::filled) object with a chunk [overwritten](overwrite).
    ///
    /// # Errors
    /// If the chunk is not within one filter, or any of [`filled`](Self::filled). Then the object still lacks its chunks.
    pub fn overwritten(&mut self, cursor: u64, chunk: &[u8]) -> Result<Object, DecodeError> {
        let length = chunk.len() as u64;
        if !matches!(&self.rest, Loading::Cells(cells) if cells.has_place(cursor, length)) {
            return Err("chunk outside of the filters".into());
        }
        let mut object = self.filled()?;
        overwrite(&mut object, cursor, chunk)?;
        Ok(object)
    }

    /// Returns the pieces that rebuild this state, header first, each with the cursor of the next.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let (cells, pieces) = match &self.rest {
            Loading::Cells(cells) => (Some(cells), None),
            Loading::Pieces(pieces) => (None, Some(pieces)),
        };
        let chunks = cells.into_iter().flat_map(Cells::chunks);
        let pieces = pieces.into_iter().flat_map(Pieces::all);
        let pieces = pieces.map(|piece| (Pieces::end_of(piece).unwrap_or(0) + 1, &piece[..]));
        let header = std::iter::once((1, &self.header[..]));
        header.chain(chunks).chain(pieces)
    }

    /// Copies the object, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let mut copy = Self::new(&self.header).ok()?;
        if let (Loading::Cells(from), Loading::Cells(to)) = (&self.rest, &mut copy.rest) {
            to.reserve_as(from)?;
        }
        for (cursor, chunk) in self.pieces().skip(1) {
            copy.load(cursor, chunk).ok()?;
        }
        Some(copy)
    }

    /// Returns the sum of the allocations in bytes, including `self`.
    pub fn memory_bytes(&self) -> u64 {
        let own = (size_of::<Self>() + self.header.len()) as u64;
        match &self.rest {
            Loading::Pieces(pieces) => own + pieces.memory_bytes(),
            Loading::Cells(cells) => own + cells.memory_bytes(),
        }
    }

    /// Writes the object as RDB fields. An object of `RedisBloom` becomes one with zeros for its missing bytes, and a
    /// mark. For other dialects, the fields are zeros that no complete object begins with, the header, and the cells
    /// of each filter loaded so far, or the pieces and an empty string.
    pub fn write_rdb(&self, to: &mut impl RdbWrite) {
        if let Loading::Cells(cells) = &self.rest
            && cells.dialect == Dialect::RedisBloom
        {
            if cells.is_reserved() && redisbloom::write_partial(&cells.outline, cells.filter, to) {
                return;
            }
            // A filter count of 0, in RedisBloom's fields after an item count of 0.
            to.uint(0);
        }
        to.uint(0);
        to.bytes(&self.header);
        match &self.rest {
            Loading::Cells(cells) => {
                let loaded = cells.each().take(cells.filter + 1);
                loaded.for_each(|cells| to.bytes(cells));
            }
            Loading::Pieces(pieces) => {
                pieces.all().iter().for_each(|piece| to.bytes(piece));
                to.bytes(&[]);
            }
        }
    }

    /// Reads the header and what [`write_rdb`](Self::write_rdb) writes behind it.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn read_rdb(from: &mut impl RdbRead) -> Result<Self, DecodeError> {
        let header = from.bytes()?;
        // What the header claims is not allocated, because the bytes are not there.
        let mut partial = Self::new(&header)?;
        loop {
            let next = from.bytes()?;
            let index = match &partial.rest {
                Loading::Cells(cells) => Some(cells.filter),
                Loading::Pieces(_) if next.is_empty() => return Ok(partial),
                Loading::Pieces(_) => None,
            };
            partial.load_next(&next)?;
            // An incomplete filter is the last one written.
            if let Loading::Cells(cells) = &partial.rest
                && index == Some(cells.filter)
            {
                return Ok(partial);
            }
        }
    }

    /// Creates an object of `RedisBloom` with a header and the first bytes of its filters' cells.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn resumed(header: &[u8], cells: &[Vec<u8>]) -> Result<Self, DecodeError> {
        let mut partial = Self::new(header)?;
        if let Loading::Cells(cells) = &mut partial.rest {
            cells.reserve().ok_or(DecodeError::NoMemory)?;
        }
        for cells in cells {
            partial.load_next(cells)?;
        }
        Ok(partial)
    }

    /// Loads what comes next, which must not complete the object.
    fn load_next(&mut self, chunk: &[u8]) -> Result<(), DecodeError> {
        let cursor = match &self.rest {
            Loading::Cells(cells) => cells.loaded.saturating_add(chunk.len() as u64 + 1),
            Loading::Pieces(_) => Pieces::end_of(chunk).unwrap_or(0).saturating_add(1),
        };
        if !chunk.is_empty() && self.load(cursor, chunk)?.is_some() {
            return Err("complete object among the half loaded".into());
        }
        Ok(())
    }
}
