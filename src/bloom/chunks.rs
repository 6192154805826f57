//! An object piece by piece: `ReBloom`'s SCANDUMP and LOADCHUNK, over this type's own bytes.
//!
//! ```text
//!   cursor 0        → (1, header)            all but the bitmaps, small whatever the object's size
//!   cursor c ≥ 1    → (c + n, n bytes)       from offset c − 1 of the bitmaps laid end to end;
//!                                            at most 4 MiB, and never across a filter's end
//!   past the end    → (0, nothing)
//! ```
//!
//! The loader takes the same pairs in the same order. What has come so far is a [`Partial`], which
//! answers nothing: an object that lacks bits would deny items that it holds. An object without filters,
//! as one of which all periods have passed, is complete with its header.

use super::any::{AnyObject, Family};
use super::codec::{self, DecodeError, RdbRead, RdbWrite};
use super::extended::{Announced as Stacked, Extended, ExtendedParts};
use super::filter::{Filter, HEADER_BYTES};
use super::object::{BloomObject, Parts};
use super::redisbloom;
use super::sizing::{Cell, Limits};

/// The most bytes of one chunk that is made; one that is taken may be of any size. The protocol allows
/// 16 MiB: copying so much into a reply would keep the server from everything else for 8 ms.
pub const CHUNK_BYTES: usize = 4 << 20;

/// The piece of an object at a cursor, with the cursor of the next one.
#[must_use]
pub fn piece(object: &BloomObject, cursor: u64) -> (u64, Piece<'_>) {
    piece_of(cursor, || codec::encode_header(object), object.filters())
}

/// The same for any object.
#[must_use]
pub fn piece_of_any(object: &AnyObject, cursor: u64) -> (u64, Piece<'_>) {
    match object {
        AnyObject::Plain(object) => piece(object, cursor),
        AnyObject::Extended(object) => {
            let header = || codec::encode_extended_header(object);
            piece_of(cursor, header, object.all_filters())
        }
    }
}

fn piece_of<'o>(
    cursor: u64,
    header: impl FnOnce() -> Vec<u8>,
    filters: impl IntoIterator<Item = &'o Filter>,
) -> (u64, Piece<'o>) {
    let Some(offset) = cursor.checked_sub(1) else {
        return (1, Piece::Header(header()));
    };
    let mut start = 0;
    for filter in filters {
        let bitmap = filter.bitmap();
        let skipped = usize::try_from(offset - start).unwrap_or(usize::MAX);
        if let Some(rest) = bitmap.get(skipped..).filter(|rest| !rest.is_empty()) {
            let chunk = &rest[..rest.len().min(CHUNK_BYTES)];
            return (cursor + chunk.len() as u64, Piece::Chunk(chunk));
        }
        start += bitmap.len() as u64;
    }
    (0, Piece::Chunk(&[]))
}

/// All pieces of an object, each with the cursor behind it: what [`piece_of_any`] gives for one cursor after
/// the other, in a single pass.
pub fn pieces_of_any(object: &AnyObject) -> impl Iterator<Item = (u64, Piece<'_>)> {
    let chunks = chunks_of(object.all_filters().map(Filter::bitmap));
    let chunks = chunks.map(|(cursor, chunk)| (cursor, Piece::Chunk(chunk)));
    std::iter::once(piece_of_any(object, 0)).chain(chunks)
}

/// The chunks of bitmaps, each with the cursor behind it.
fn chunks_of<'b>(bitmaps: impl Iterator<Item = &'b [u8]>) -> impl Iterator<Item = (u64, &'b [u8])> {
    let mut cursor = 1;
    let chunks = bitmaps.flat_map(|bitmap| bitmap.chunks(CHUNK_BYTES));
    chunks.map(move |chunk| {
        cursor += chunk.len() as u64;
        (cursor, chunk)
    })
}

/// What a cursor stands for.
#[derive(Debug)]
pub enum Piece<'o> {
    /// All but the bitmaps.
    Header(Vec<u8>),
    /// Some bytes of one bitmap; none, past the end.
    Chunk(&'o [u8]),
}

impl Piece<'_> {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Header(bytes) => bytes,
            Self::Chunk(bytes) => bytes,
        }
    }
}

/// An object of which the header has come, and some of the bitmaps.
#[derive(Debug)]
pub struct Partial {
    header: Vec<u8>,
    family: Family,
    /// The filters' blobs: they grow from what stands before a bitmap on, as chunks come.
    blobs: Vec<Vec<u8>>,
    /// Sum of their capacities, in bytes.
    blob_bytes: usize,
    /// Length of each filter's bitmap, in bytes.
    bitmaps: Vec<u64>,
    /// Number of filters whose bitmap is complete.
    complete: usize,
    /// Number of bytes of bitmap that have come.
    loaded: u64,
}

/// What a header announces: an object without its bitmaps.
enum Announced {
    Plain(Parts),
    RedisBloom(redisbloom::Parts),
    Extended(ExtendedParts),
}

/// What is to come of an object, once its header is found to be one.
struct Outline {
    family: Family,
    /// What stands before each bitmap.
    blobs: Vec<Vec<u8>>,
    /// Length of each bitmap in bytes.
    bitmaps: Vec<u64>,
    /// The bytes that the object takes beside its filters' blobs.
    overhead: u64,
}

impl Announced {
    fn read(header: &[u8]) -> Result<Self, DecodeError> {
        // RedisBloom's begins with a number, which may look like a version of ours.
        let error = match codec::extended_header_parts(header) {
            Ok(Some(parts)) => return Ok(Self::Extended(parts)),
            Ok(None) => match codec::header_parts(header) {
                Ok(parts) => return Ok(Self::Plain(parts)),
                Err(error) => error,
            },
            Err(error) => error,
        };
        let theirs = redisbloom::decode_header(header);
        theirs.map(Self::RedisBloom).map_err(|_| error)
    }

    /// Checks that this could be an object.
    fn outline(self) -> Result<Outline, &'static str> {
        let per_filter = size_of::<Filter>();
        let (family, blobs, bitmaps, base, per_filter): (_, Vec<_>, Vec<_>, _, _) = match self {
            Self::Plain(parts) => {
                let bitmaps = BloomObject::without_filters(Cell::Bit, &parts)?.1;
                let blobs = parts.filters.into_iter().map(|f| f.blob).collect();
                let base = BloomObject::BASE_BYTES;
                (Family::Plain, blobs, bitmaps, base, per_filter)
            }
            Self::RedisBloom(parts) => {
                parts.check()?;
                let bitmaps = parts.links.iter().map(|link| link.bytes).collect();
                let blobs = parts.links.into_iter().map(|l| l.bitmap).collect();
                let base = BloomObject::BASE_BYTES + size_of::<redisbloom::RedisBloom>() as u64;
                let per_filter = per_filter + size_of::<redisbloom::Link>();
                (Family::RedisBloom, blobs, bitmaps, base, per_filter)
            }
            Self::Extended(parts) => {
                let (_, stacks) = parts.check()?;
                let bitmaps = stacks.iter().flat_map(|s| &s.lengths).copied().collect();
                let periods: u64 = stacks.iter().map(Stacked::overhead).sum();
                let base = Extended::BASE_BYTES + periods;
                let blobs = stacks.into_iter().flat_map(Stacked::blobs).collect();
                (Family::Extended, blobs, bitmaps, base, per_filter)
            }
        };
        Ok(Outline {
            overhead: base + (bitmaps.len() * per_filter) as u64,
            family,
            blobs,
            bitmaps,
        })
    }

    fn complete(self, blobs: Vec<Vec<u8>>) -> Result<AnyObject, &'static str> {
        match self {
            Self::Plain(mut parts) => {
                for (filter, blob) in parts.filters.iter_mut().zip(blobs) {
                    filter.blob = blob;
                }
                Ok(AnyObject::Plain(BloomObject::from_parts(parts)?))
            }
            Self::RedisBloom(mut parts) => {
                for (link, bitmap) in parts.links.iter_mut().zip(blobs) {
                    link.bitmap = bitmap;
                }
                Ok(AnyObject::Plain(BloomObject::from_redisbloom(parts)?))
            }
            Self::Extended(mut parts) => {
                let filters = parts.stacks.iter_mut().flat_map(|stack| &mut stack.filters);
                for (filter, blob) in filters.zip(blobs) {
                    filter.blob = blob;
                }
                Ok(AnyObject::Extended(Box::new(Extended::from_parts(parts)?)))
            }
        }
    }
}

/// What a header is the start of, and the whole of where there are no filters.
#[derive(Debug)]
pub enum Begun {
    /// Chunks are to come.
    Partial(Partial),
    /// There are none: this is the object.
    Complete(AnyObject),
}

/// Takes an object's header, the first of its pieces.
///
/// # Errors
/// Any [`DecodeError`], or `None` in it where the limits do not admit such an object.
pub fn begin(header: &[u8], limits: Limits) -> Result<Begun, Option<DecodeError>> {
    match Announced::read(header)? {
        Announced::Extended(parts) if parts.stacks.is_empty() => {
            let object = Announced::Extended(parts).complete(Vec::new());
            let object = object.map_err(DecodeError::from)?;
            if object.is_within(limits) {
                Ok(Begun::Complete(object))
            } else {
                Err(None)
            }
        }
        announced => Partial::of(announced, header, limits).map(Begun::Partial),
    }
}

/// What a chunk did.
#[derive(Debug)]
pub enum Progress {
    /// More chunks are to come.
    Partial,
    /// It was the last one: this is the object.
    Complete(AnyObject),
}

const fn bytes_before_bitmap(family: Family) -> usize {
    match family {
        Family::RedisBloom => 0,
        Family::Plain | Family::Extended => HEADER_BYTES,
    }
}

impl Partial {
    /// The object that a header announces, which has filters ([`begin`] takes any). Memory for the
    /// bitmaps is taken as they come.
    ///
    /// # Errors
    /// Any [`DecodeError`], or `None` in it where the limits do not admit such an object.
    pub fn new(header: &[u8], limits: Limits) -> Result<Self, Option<DecodeError>> {
        Self::of(Announced::read(header)?, header, limits)
    }

    fn of(
        announced: Announced,
        header: &[u8],
        limits: Limits,
    ) -> Result<Self, Option<DecodeError>> {
        let Outline {
            family,
            blobs,
            bitmaps,
            overhead,
        } = announced.outline().map_err(DecodeError::from)?;
        let before = bytes_before_bitmap(family) as u64;
        let mut filters = bitmaps.iter().map(|bytes| bytes + before);
        let total = filters.clone().try_fold(overhead, u64::checked_add);
        let admitted = filters.all(|blob| limits.admit_filter(blob))
            && total.is_some_and(|total| limits.admit_object(total));
        // There would be no last chunk to complete it.
        if bitmaps.is_empty() {
            return Err(Some("no filters".into()));
        }
        if !admitted {
            return Err(None);
        }
        Ok(Self {
            header: header.to_vec(),
            family,
            blob_bytes: blobs.iter().map(Vec::capacity).sum(),
            blobs,
            bitmaps,
            complete: 0,
            loaded: 0,
        })
    }

    /// The family of the object that it will be.
    #[must_use]
    pub const fn family(&self) -> Family {
        self.family
    }

    /// Takes the next chunk, whose end lies at `cursor`.
    ///
    /// # Errors
    /// The chunk does not continue where the last one ended, or is more than the current filter
    /// lacks, or there is no memory for it. Nothing is changed then.
    pub fn load(&mut self, cursor: u64, chunk: &[u8]) -> Result<Progress, DecodeError> {
        let length = chunk.len() as u64;
        let here = cursor
            .checked_sub(1)
            .and_then(|end| end.checked_sub(length));
        if length == 0 || here != Some(self.loaded) {
            return Err("chunk out of order".into());
        }
        let blob = self.blobs.get_mut(self.complete);
        let bitmap = self.bitmaps.get(self.complete);
        let (Some(blob), Some(bitmap)) = (blob, bitmap) else {
            return Err("chunk behind the last one".into());
        };
        let so_far = (blob.len() - bytes_before_bitmap(self.family)) as u64;
        let lacking = bitmap - so_far;
        if length > lacking {
            return Err("chunk across a filter's end".into());
        }
        // Room grows with what came, to the exact size at last: a claim of 64 MiB and one byte
        // takes little.
        if blob.capacity() - blob.len() < chunk.len() {
            let room = lacking.min(length.max(blob.len() as u64));
            let room = usize::try_from(room).map_err(|_| DecodeError::Truncated)?;
            let before = blob.capacity();
            let reserved = blob.try_reserve_exact(room);
            reserved.map_err(|_| DecodeError::NoMemory)?;
            self.blob_bytes += blob.capacity() - before;
        }
        blob.extend_from_slice(chunk);
        self.loaded += length;
        if length < lacking {
            return Ok(Progress::Partial);
        }
        self.complete += 1;
        if self.complete < self.bitmaps.len() {
            return Ok(Progress::Partial);
        }
        let blobs = std::mem::take(&mut self.blobs);
        let object = Announced::read(&self.header)?.complete(blobs)?;
        Ok(Progress::Complete(object))
    }

    /// The pairs that build this state again, the header first.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let before = bytes_before_bitmap(self.family);
        let blobs = self.blobs.iter();
        let chunks = chunks_of(blobs.map(move |blob| blob.get(before..).unwrap_or_default()));
        std::iter::once((1, &self.header[..])).chain(chunks)
    }

    /// A copy in memory of its own.
    ///
    /// # Errors
    /// Any [`DecodeError`] of the constructor and of [`load`](Self::load): out of memory only.
    pub fn try_clone(&self) -> Result<Self, Option<DecodeError>> {
        let mut copy = Self::new(&self.header, Limits::Obey)?;
        for (cursor, chunk) in self.pieces().skip(1) {
            copy.load(cursor, chunk)?;
        }
        Ok(copy)
    }

    /// The number of bytes that its allocations asked for, itself included.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let tables = self.blobs.capacity() * size_of::<Vec<u8>>()
            + self.bitmaps.capacity() * size_of::<u64>();
        (size_of::<Self>() + self.header.capacity() + tables + self.blob_bytes) as u64
    }

    /// Writes it as RDB fields, behind a number of filters of 0, which no complete object has: the
    /// header, and the bytes of each filter's bitmap that came.
    pub fn write_rdb(&self, to: &mut impl RdbWrite) {
        if self.family == Family::RedisBloom {
            // The number of items comes first there.
            to.uint(0);
        }
        to.uint(0);
        to.bytes(&self.header);
        for blob in self.blobs.iter().take(self.complete + 1) {
            to.bytes(&blob[bytes_before_bitmap(self.family)..]);
        }
    }

    /// Reads what [`write_rdb`](Self::write_rdb) wrote behind the 0.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn read_rdb(from: &mut impl RdbRead) -> Result<Self, DecodeError> {
        let header = from.bytes()?;
        let refused = |error: Option<DecodeError>| error.unwrap_or(DecodeError::Truncated);
        let mut partial = Self::new(&header, Limits::Obey).map_err(refused)?;
        loop {
            let index = partial.complete;
            let chunk = from.bytes()?;
            if !chunk.is_empty() {
                let cursor = partial.loaded.saturating_add(chunk.len() as u64 + 1);
                if let Progress::Complete(_) = partial.load(cursor, &chunk)? {
                    return Err("complete object among the half loaded".into());
                }
            }
            // A filter that is not complete is the last one that was written.
            if partial.complete == index {
                return Ok(partial);
            }
        }
    }
}
