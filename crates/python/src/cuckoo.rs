//! The class `CuckooFilter`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use valkeybloom_bindings::{Cuckoo as Filter, Shared};

use super::batches;
use super::chunks::{self, Chunks};
use super::common::{self, common, length, properties};
use super::locked::{change_by, detached, look, look_up, made};
use super::words::Whole;

/// A cuckoo filter: a set of fingerprints, from which items can be removed.
///
/// If `item in filter` is False, the item is not there; if it is True, the item probably is. The parameters are those
/// of CF.RESERVE. `Bloom` documents items and batches.
///
/// >>> from valkeybloom import CuckooFilter
/// >>> carts = CuckooFilter(100_000)
/// >>> carts.add("a"), carts.add("a"), carts.add_new("a")
/// (True, True, False)
/// >>> carts.count("a"), carts.remove("a"), "a" in carts, len(carts)
/// (2, True, True, 1)
#[pyclass(frozen, module = "valkeybloom")]
pub struct CuckooFilter(pub(crate) Shared<Filter>);

#[pymethods]
impl CuckooFilter {
    #[new]
    #[pyo3(signature = (
        capacity, *,
        bucket_size = Whole::of(2), max_iterations = Whole::of(20), expansion = Whole::of(1),
    ), text_signature = "(capacity, *, bucket_size=2, max_iterations=20, expansion=1)")]
    fn new(
        py: Python<'_>,
        capacity: Whole,
        bucket_size: Whole,
        max_iterations: Whole,
        expansion: Whole,
    ) -> PyResult<Self> {
        let words = [
            capacity.word("capacity")?,
            b"BUCKETSIZE",
            bucket_size.word("bucket_size")?,
            b"MAXITERATIONS",
            max_iterations.word("max_iterations")?,
            b"EXPANSION",
            expansion.word("expansion")?,
        ];
        made(py, || Filter::reserve(&words)).map(Self)
    }

    /// Add an item, even if the filter has it already. Return True.
    ///
    /// Raises ValueError if the filter is full and does not grow.
    #[pyo3(signature = (item, /))]
    fn add(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        change_by(&self.0, item, |filter, bytes| filter.add(bytes, false))
    }

    /// Add an item if the filter does not have it. Return whether it was added.
    #[pyo3(signature = (item, /))]
    fn add_new(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        change_by(&self.0, item, |filter, bytes| filter.add(bytes, true))
    }

    /// Add a batch of items, even those that the filter has. Return the number of items.
    #[pyo3(signature = (items, /))]
    fn update(&self, items: &Bound<'_, PyAny>) -> PyResult<u64> {
        batches::add_each(&self.0, items, |filter, batch| {
            filter.add_each(batch, false, &mut [])
        })
    }

    /// Add the items of a batch that the filter does not have. Return how many were added.
    #[pyo3(signature = (items, /))]
    fn update_new(&self, items: &Bound<'_, PyAny>) -> PyResult<u64> {
        batches::add_each(&self.0, items, |filter, batch| {
            filter.add_each(batch, true, &mut [])
        })
    }

    /// Add the items of a batch that the filter does not have. Return whether each was added, as `contains_many` does. Of
    /// equal items, only the first is added.
    ///
    /// If ValueError is raised, there are no answers.
    ///
    /// >>> from valkeybloom import CuckooFilter
    /// >>> list(CuckooFilter(100).add_new_many(["a", "b", "a"]))
    /// [True, True, False]
    #[pyo3(signature = (items, /))]
    fn add_new_many<'py>(&self, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        batches::answer_each(items, |batch, new| {
            self.0
                .write(|filter| filter.add_each(batch, true, new))?
                .map(drop)
        })
    }

    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        look_up(&self.0, item, |filter, bytes| Ok(filter.contains(bytes)))
    }

    /// Look up a batch of items. Return a memoryview of bool, one byte for each item.
    #[pyo3(signature = (items, /))]
    fn contains_many<'py>(&self, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        batches::answer_each(items, |batch, found| {
            self.0.read(|filter| filter.contains_each(batch, found))?
        })
    }

    /// Remove one copy of an item. Return whether the filter had it. Removing an item that was never added may remove
    /// others.
    #[pyo3(signature = (item, /))]
    fn remove(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        change_by(&self.0, item, |filter, bytes| Ok(filter.remove(bytes)))
    }

    /// Count the copies of an item, and of items with the same fingerprint in the same buckets.
    #[pyo3(signature = (item, /))]
    fn count(&self, item: &Bound<'_, PyAny>) -> PyResult<u64> {
        look_up(&self.0, item, |filter, bytes| Ok(filter.count(bytes)))
    }

    /// Move fingerprints into older filters of the stack, and free filters that become empty.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.0.write(|filter| filter.compact()).map(drop))
    }

    /// Remove all items. The parameters stay.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.0.write(Filter::clear)?)
    }

    /// Iterate over chunks: pairs of a cursor and bytes, as CF.LOADCHUNK takes them.
    ///
    /// This call copies the filter, which may change meanwhile.
    fn chunks(&self, py: Python<'_>) -> PyResult<Chunks> {
        Chunks::of(py, &self.0)
    }

    /// Load a filter from its chunks: those of `chunks`, or what CF.SCANDUMP returned.
    #[staticmethod]
    #[pyo3(signature = (pairs, /))]
    fn from_chunks(pairs: &Bound<'_, PyAny>) -> PyResult<Self> {
        chunks::load(pairs).map(Self)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        look(py, &self.0, |filter| Ok(length(filter.items())))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.0, |filter| {
            let (capacity, items) = (filter.size(), filter.items());
            Ok(format!(
                "<CuckooFilter(capacity={capacity}) of {items} items>"
            ))
        })
    }
}

properties! { CuckooFilter(filter):
    /// The number of slots for fingerprints.
    capacity: u64 = filter.size();
    /// The number of filters in the stack.
    filters: usize = filter.filters().len();
    /// The number of slots in a bucket.
    bucket_size: u8 = filter.shape().bucket_size();
    /// The most fingerprints that are moved to make room for one.
    max_iterations: u16 = filter.shape().max_iterations();
    /// How many times larger the next filter of the stack is; 0 if the filter does not grow.
    expansion: u16 = filter.shape().expansion();
}

common!(CuckooFilter, "CuckooFilter(1000)");
