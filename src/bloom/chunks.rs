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
//! answers nothing: an object that lacks bits would deny items that it holds.

use super::codec::{DecodeError, RdbRead, RdbWrite, encode_header, header_parts};
use super::filter::HEADER_BYTES;
use super::object::{BloomObject, Parts};
use super::redisbloom;
use super::sizing::Limits;

/// The most bytes of one chunk that is made; one that is taken may be of any size. The protocol allows
/// 16 MiB: copying so much into a reply would keep the server from everything else for 8 ms.
pub const CHUNK_BYTES: usize = 4 << 20;

/// The piece of an object at a cursor, with the cursor of the next one.
#[must_use]
pub fn piece(object: &BloomObject, cursor: u64) -> (u64, Piece<'_>) {
    let Some(offset) = cursor.checked_sub(1) else {
        return (1, Piece::Header(encode_header(object)));
    };
    let mut start = 0;
    for filter in object.filters() {
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
    /// The filters' blobs: they grow from what stands before a bitmap on, as chunks come.
    blobs: Vec<Vec<u8>>,
    /// How many bytes stand before a bitmap.
    before: usize,
    /// Length of each filter's bitmap, in bytes.
    bitmaps: Vec<u64>,
    /// Number of filters whose bitmap is complete.
    complete: usize,
    /// Number of bytes of bitmap that have come.
    loaded: u64,
}

/// What a header announces: an object without its bitmaps.
enum Announced {
    Ours(Parts),
    RedisBlooms(redisbloom::Parts),
}

impl Announced {
    fn read(header: &[u8]) -> Result<Self, DecodeError> {
        match header_parts(header) {
            Ok(parts) => Ok(Self::Ours(parts)),
            // RedisBloom's begins with a number, which may look like our version.
            Err(error) => match redisbloom::decode_header(header) {
                Ok(parts) => Ok(Self::RedisBlooms(parts)),
                Err(_) => Err(error),
            },
        }
    }

    /// Length of each filter's bitmap, in bytes, of what could be an object.
    fn bitmaps(&self) -> Result<Vec<u64>, &'static str> {
        match self {
            Self::Ours(parts) => Ok(BloomObject::without_filters(parts)?.1),
            Self::RedisBlooms(parts) => {
                parts.check()?;
                Ok(parts.links.iter().map(|link| link.bytes).collect())
            }
        }
    }

    /// The bytes that the object takes beside its filters' blobs: at first, and for each filter.
    const fn overhead(&self) -> (u64, u64) {
        let filter = size_of::<super::Filter>() as u64;
        match self {
            Self::Ours(_) => (BloomObject::BASE_BYTES, filter),
            Self::RedisBlooms(_) => (
                BloomObject::BASE_BYTES + size_of::<redisbloom::RedisBloom>() as u64,
                filter + size_of::<redisbloom::Link>() as u64,
            ),
        }
    }

    /// What stands before the bitmaps.
    fn blobs(self) -> Vec<Vec<u8>> {
        match self {
            Self::Ours(parts) => parts.filters.into_iter().map(|f| f.blob).collect(),
            Self::RedisBlooms(parts) => parts.links.into_iter().map(|l| l.bitmap).collect(),
        }
    }

    fn complete(self, blobs: Vec<Vec<u8>>) -> Result<BloomObject, &'static str> {
        match self {
            Self::Ours(mut parts) => {
                for (filter, blob) in parts.filters.iter_mut().zip(blobs) {
                    filter.blob = blob;
                }
                BloomObject::from_parts(parts)
            }
            Self::RedisBlooms(mut parts) => {
                for (link, bitmap) in parts.links.iter_mut().zip(blobs) {
                    link.bitmap = bitmap;
                }
                BloomObject::from_redisbloom(parts)
            }
        }
    }
}

/// What a chunk did.
#[derive(Debug)]
pub enum Progress {
    /// More chunks are to come.
    Partial,
    /// It was the last one: this is the object.
    Complete(BloomObject),
}

impl Partial {
    /// The object that a header announces. Memory for the bitmaps is taken as they come.
    ///
    /// # Errors
    /// Any [`DecodeError`], or `None` in it where the limits do not admit such an object.
    pub fn new(header: &[u8], limits: Limits) -> Result<Self, Option<DecodeError>> {
        let announced = Announced::read(header)?;
        let bitmaps = announced.bitmaps().map_err(DecodeError::from)?;
        let before = match announced {
            Announced::Ours(_) => HEADER_BYTES,
            Announced::RedisBlooms(_) => 0,
        };
        let filters = bitmaps.iter().map(|bytes| bytes + before as u64);
        let (base, per_filter) = announced.overhead();
        let total = filters.clone().try_fold(base, |sum, blob| {
            sum.checked_add(blob.checked_add(per_filter)?)
        });
        let admitted = filters.clone().all(|blob| limits.admit_filter(blob))
            && total.is_some_and(|total| limits.admit_object(total));
        if !admitted {
            return Err(None);
        }
        Ok(Self {
            header: header.to_vec(),
            blobs: announced.blobs(),
            before,
            bitmaps,
            complete: 0,
            loaded: 0,
        })
    }

    /// Whether it will be an object of RedisBloom.
    #[must_use]
    pub const fn is_redisbloom(&self) -> bool {
        self.before == 0
    }

    /// Takes the next chunk, whose end lies at `cursor`.
    ///
    /// # Errors
    /// The chunk does not continue where the last one ended, or is more than the current filter
    /// lacks. Nothing is changed then.
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
        let so_far = (blob.len() - self.before) as u64;
        let lacking = bitmap - so_far;
        if length > lacking {
            return Err("chunk across a filter's end".into());
        }
        // Room grows with what came, to the exact size at last: a claim of 64 MiB and one byte
        // takes little.
        if blob.capacity() - blob.len() < chunk.len() {
            let room = lacking.min(length.max(blob.len() as u64));
            let room = usize::try_from(room).map_err(|_| DecodeError::Truncated)?;
            let reserved = blob.try_reserve_exact(room);
            reserved.map_err(|_| DecodeError::Malformed("no memory for the filter"))?;
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
        let mut cursor = 1;
        let bitmaps = self.blobs.iter().flat_map(|blob| {
            let come = blob.get(self.before..).unwrap_or_default();
            come.chunks(CHUNK_BYTES)
        });
        let chunks = bitmaps.map(move |chunk| {
            cursor += chunk.len() as u64;
            (cursor, chunk)
        });
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
        let blobs: usize = self.blobs.iter().map(Vec::capacity).sum();
        (size_of::<Self>() + self.header.capacity() + tables + blobs) as u64
    }

    /// Writes it as RDB fields, behind a number of filters of 0, which no complete object has: the
    /// header, and the bytes of each filter's bitmap that came.
    pub fn write_rdb(&self, to: &mut impl RdbWrite) {
        if self.is_redisbloom() {
            // The number of items comes first there.
            to.uint(0);
        }
        to.uint(0);
        to.bytes(&self.header);
        for blob in self.blobs.iter().take(self.complete + 1) {
            to.bytes(&blob[self.before..]);
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
