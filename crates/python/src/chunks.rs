//! Chunks of objects, as SCANDUMP returns and LOADCHUNK takes them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use valkeybloom_bindings::{Chunked, Error, Family, Loader, Shared};

use super::calls::Call;
use super::errors::raise;
use super::items::bytes_of;
use super::locked::detached;
use super::returned;
use super::words::Whole;

type ChunkAfter = dyn Fn(u64) -> Result<(u64, Vec<u8>), Error> + Send + Sync;

/// An iterator over the chunks of a filter.
#[pyclass(frozen, module = "valkeybloom")]
pub struct Chunks {
    /// Returns the chunk after a cursor, of a copy, because other threads may change the filter meanwhile.
    chunk_after: Box<ChunkAfter>,
    /// The cursor of the next chunk.
    next: AtomicU64,
    begun: AtomicBool,
}

impl Chunks {
    pub fn of<F: Chunked + Send + Sync + 'static>(
        py: Python<'_>,
        filter: &Shared<F>,
    ) -> PyResult<Self> {
        let copy = detached(py, || filter.read(Family::try_clone)?)?;
        Ok(Self {
            chunk_after: Box::new(move |cursor| copy.chunk(cursor)),
            next: AtomicU64::new(0),
            begun: false.into(),
        })
    }
}

#[pymethods]
impl Chunks {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(u64, Bound<'py, PyBytes>)>> {
        let cursor = self.next.load(Ordering::Relaxed);
        if cursor == 0 && self.begun.swap(true, Ordering::Relaxed) {
            return Ok(None);
        }
        let (next, chunk) = detached(py, || (self.chunk_after)(cursor))?;
        self.next.store(next, Ordering::Relaxed);
        match next {
            0 => Ok(None),
            _ => Ok(Some((next, returned::bytes(py, &chunk)?))),
        }
    }
}

/// Loads an object from an iterable of its chunks.
pub fn load<F: Chunked>(pairs: &Bound<'_, PyAny>) -> PyResult<Shared<F>> {
    let _call = Call::begin();
    let mut loader = Loader::<F>::default();
    for pair in pairs.try_iter()? {
        let [cursor, chunk] = pair?.extract::<[Bound<'_, PyAny>; 2]>()?;
        let cursor = cursor.extract::<Whole>()?.get("cursor")?;
        if cursor != 0 {
            let chunk = bytes_of(&chunk)?;
            loader.load(cursor, chunk.as_bytes()).map_err(raise)?;
        }
    }
    loader.end().map(Shared::new).map_err(raise)
}
