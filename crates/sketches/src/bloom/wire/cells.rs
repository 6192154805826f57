//! The cells of a stack that is loaded in chunks: its filters' bytes, end to end.

use crate::bloom::object::{Object, Outline};
use crate::bytes::{CHUNK_BYTES, DecodeError};

use super::dialect::Dialect;

/// The cells of a stack.
#[derive(Debug)]
pub struct Cells {
    pub dialect: Dialect,
    /// The outline. Its filters' blobs start with their headers and grow as chunks arrive.
    pub outline: Outline,
    /// The index of the filter being loaded: those before it are complete.
    pub filter: usize,
    /// Number of bytes of cells loaded.
    pub loaded: u64,
}

impl Cells {
    /// Returns the cells of an object whose header alone is loaded.
    pub const fn new(dialect: Dialect, outline: Outline) -> Self {
        Self {
            dialect,
            outline,
            filter: 0,
            loaded: 0,
        }
    }

    /// Allocates memory for all cells of an object of `RedisBloom`, or returns `None` if allocation fails. Its missing bytes
    /// are written as zeros once they have this memory, which counts against limits.
    ///
    /// Other dialects reserve nothing, except in WebAssembly: it has no pages to move, so memory that grows with the chunks would
    /// be copied, and a program's events would wait for that.
    pub fn reserve(&mut self) -> Option<()> {
        if self.dialect != Dialect::RedisBloom && !cfg!(target_family = "wasm") {
            return Some(());
        }
        for filter in &mut self.outline.filters {
            let missing = filter.geometry.blob_bytes() - filter.blob.len() as u64;
            reserve(&mut filter.blob, missing)?;
        }
        Some(())
    }

    /// Returns whether there is memory for all cells.
    pub fn is_reserved(&self) -> bool {
        let mut filters = self.outline.filters.iter();
        filters.all(|filter| filter.blob.capacity() as u64 >= filter.geometry.blob_bytes())
    }

    /// Takes back all bytes of cells that were not loaded.
    fn keep_loaded(&mut self) {
        let mut left = self.loaded;
        for filter in &mut self.outline.filters {
            let geometry = &filter.geometry;
            let held = left.min(geometry.cell_bytes);
            left -= held;
            let bytes = geometry.blob_bytes() - geometry.cell_bytes + held;
            filter
                .blob
                .truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
    }

    /// Loads the next chunk, which ends at `cursor`. Returns the object if the chunk was the last.
    ///
    /// # Errors
    /// Any [`DecodeError`]. Nothing is changed then.
    pub fn load(&mut self, cursor: u64, chunk: &[u8]) -> Result<Option<Object>, DecodeError> {
        let length = chunk.len() as u64;
        let end = cursor.checked_sub(1);
        let here = end.and_then(|end| end.checked_sub(length));
        if length == 0 || here != Some(self.loaded) {
            return Err("chunk out of order".into());
        }
        let filter = self.outline.filters.get_mut(self.filter);
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
        if self.outline.filters.len() > self.filter + 1 {
            self.filter += 1;
            return Ok(None);
        }
        let object = Object::from_outline(&mut self.outline);
        if object.is_err() {
            self.loaded -= length;
            self.keep_loaded();
        }
        object.map(Some)
    }

    /// Returns the cells of each filter loaded so far.
    pub fn each(&self) -> impl Iterator<Item = &[u8]> {
        let filters = self.outline.filters.iter();
        filters.map(|filter| &filter.blob[filter.geometry.cells.header_bytes()..])
    }

    /// Returns the cells loaded so far in chunks, each with the cursor at its end.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut cursor = 1;
        let chunks = self.each().flat_map(|cells| cells.chunks(CHUNK_BYTES));
        chunks.map(move |chunk| {
            cursor += chunk.len() as u64;
            (cursor, chunk)
        })
    }

    /// Returns whether `length` bytes, one at least, that end at `cursor` are within one filter.
    pub fn has_place(&self, cursor: u64, length: u64) -> bool {
        let Some(end) = cursor.checked_sub(1).filter(|_| length > 0) else {
            return false;
        };
        let mut start = 0;
        self.outline.filters.iter().any(|filter| {
            let filter_end = start + filter.geometry.cell_bytes;
            let begin = end.checked_sub(length).filter(|begin| *begin >= start);
            start = filter_end;
            begin.is_some() && end <= filter_end
        })
    }

    /// Returns the object with zeros for its missing bytes.
    ///
    /// # Errors
    /// Any [`DecodeError`]. Nothing is changed then.
    pub fn filled(&mut self) -> Result<Object, DecodeError> {
        self.reserve().ok_or(DecodeError::NoMemory)?;
        for filter in &mut self.outline.filters {
            let bytes = usize::try_from(filter.geometry.blob_bytes());
            let bytes = bytes.map_err(|_| DecodeError::NoMemory)?;
            filter.blob.resize(bytes, 0);
        }
        let object = Object::from_outline(&mut self.outline);
        if object.is_err() {
            self.keep_loaded();
        }
        object
    }

    /// Allocates as much memory as others have, before anything is loaded, or returns `None` if allocation fails.
    pub fn reserve_as(&mut self, others: &Self) -> Option<()> {
        let others = others.outline.filters.iter();
        for (other, filter) in others.zip(&mut self.outline.filters) {
            let room = other.blob.capacity() - filter.blob.len();
            reserve(&mut filter.blob, room as u64)?;
        }
        Some(())
    }

    /// Returns the sum of the allocations in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let filters = self.outline.filters.iter();
        let blobs: usize = filters.map(|filter| filter.blob.capacity()).sum();
        blobs as u64 + self.outline.bytes_beside_blobs()
    }
}

/// Returns whether these bytes, which end at `cursor`, are among the cells of one filter.
pub fn are_at<'c>(filters: impl Iterator<Item = &'c [u8]>, cursor: u64, bytes: &[u8]) -> bool {
    let begin = cursor.checked_sub(1 + bytes.len() as u64);
    let Some(mut begin) = begin.filter(|_| !bytes.is_empty()) else {
        return false;
    };
    for cells in filters {
        if begin < cells.len() as u64 {
            let at = usize::try_from(begin).map(|begin| &cells[begin..]);
            return at.is_ok_and(|cells| cells.starts_with(bytes));
        }
        begin -= cells.len() as u64;
    }
    false
}

/// Reserves room for more bytes in a blob, or returns `None` if allocation fails.
fn reserve(blob: &mut Vec<u8>, room: u64) -> Option<()> {
    blob.try_reserve_exact(usize::try_from(room).ok()?).ok()
}
