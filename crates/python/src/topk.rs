//! The class `TopK`.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use valkeybloom_bindings::{Family, Shared, TopK as List};

use super::batches::{self, Source, integers};
use super::common::{self, common};
use super::errors::raise;
use super::items::with_item;
use super::locked::{change, detached, look};
use super::words::{Integer, Rate, Whole};

/// A top-k list: the most frequent items of a stream, in memory that does not grow with the stream.
///
/// The parameters are those of TOPK.RESERVE. `Bloom` documents items and batches. Items are returned as bytes.
///
/// >>> from valkeybloom import TopK
/// >>> top = TopK(2, 100, 5)
/// >>> top.update(["a"] * 5 + ["b"] * 3)
/// []
/// >>> top.add("c", 4)
/// b'b'
/// >>> top.list(), "a" in top, "b" in top
/// ([(b'a', 5), (b'c', 4)], True, False)
#[pyclass(frozen, module = "valkeybloom")]
pub struct TopK(Shared<List>);

#[pymethods]
impl TopK {
    #[new]
    #[pyo3(signature = (k, width = Whole::of(8), depth = Whole::of(7), decay = Rate::of(0.9)), text_signature = "(k, width=8, depth=7, decay=0.9)")]
    fn new(py: Python<'_>, k: Whole, width: Whole, depth: Whole, decay: Rate) -> PyResult<Self> {
        let words = [
            k.word("k")?,
            width.word("width")?,
            depth.word("depth")?,
            decay.word("decay")?,
        ];
        let list = detached(py, || List::reserve(&words))?;
        Ok(Self(Shared::new(list)))
    }

    /// Add an item `n` times, 0 to 100,000. Return the item that it expelled from the list, or None.
    #[pyo3(signature = (item, n = Integer(1), /), text_signature = "($self, item, n=1, /)")]
    fn add<'py>(
        &self,
        item: &Bound<'py, PyAny>,
        n: Integer,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let left = with_item(item, |bytes| {
            change(item.py(), &self.0, |list| list.add(bytes, n.0))
        })?;
        left.map(|left| batches::bytes(item.py(), &left))
            .transpose()
    }

    /// Add a batch of items: each once, or as often as the number at its index in `counts`, a batch of int. Return the
    /// items that were expelled from the list, in order.
    #[pyo3(signature = (items, /, counts = None))]
    fn update<'py>(
        &self,
        items: &Bound<'py, PyAny>,
        counts: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let counts = counts.map(integers).transpose()?;
        let source = Source::of(items)?;
        let left = source.with(items.py(), |batch| {
            self.0.write(|list| list.update(batch, counts.as_deref()))?
        })?;
        left.iter()
            .map(|left| batches::bytes(items.py(), left))
            .collect()
    }

    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_item(item, |bytes| {
            look(item.py(), &self.0, |list| Ok(list.contains(bytes)))
        })
    }

    /// Return whether each item of a batch is in the list: a memoryview of bool, one byte for each item.
    #[pyo3(signature = (items, /))]
    fn contains_many<'py>(&self, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        batches::answer_each(items, |batch, found| {
            self.0.read(|list| list.contains_each(batch, found))?
        })
    }

    /// Return an estimate of the count of an item, in the list or not. It may be too low.
    #[pyo3(signature = (item, /))]
    fn count(&self, item: &Bound<'_, PyAny>) -> PyResult<u32> {
        with_item(item, |bytes| {
            look(item.py(), &self.0, |list| Ok(list.count(bytes)))
        })
    }

    /// Return the items of the list with their counts, the most frequent first.
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyBytes>, u32)>> {
        let copies = look(py, &self.0, |list| {
            let mut copies = Vec::new();
            for (item, count) in list.ranking()? {
                copies.try_reserve(1)?;
                let mut copy = Vec::new();
                copy.try_reserve_exact(item.len())?;
                copy.extend_from_slice(item);
                copies.push((copy, count));
            }
            Ok(copies)
        })?;
        let pairs = copies.iter();
        pairs
            .map(|(item, count)| Ok((batches::bytes(py, item)?, *count)))
            .collect()
    }

    /// Remove all items.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.write(List::clear))
            .map_err(raise)?
            .map_err(raise)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        look(py, &self.0, |list| Ok(list.listed() as usize))
    }

    /// The length of the list when it is full.
    #[getter]
    fn k(&self, py: Python<'_>) -> PyResult<u32> {
        look(py, &self.0, |list| Ok(list.shape().k()))
    }

    /// The number of cells in a row.
    #[getter]
    fn width(&self, py: Python<'_>) -> PyResult<u32> {
        look(py, &self.0, |list| Ok(list.shape().width()))
    }

    /// The number of rows.
    #[getter]
    fn depth(&self, py: Python<'_>) -> PyResult<u32> {
        look(py, &self.0, |list| Ok(list.shape().depth()))
    }

    /// The probability that a count of 1 is lost to another item.
    #[getter]
    fn decay(&self, py: Python<'_>) -> PyResult<f64> {
        look(py, &self.0, |list| Ok(list.shape().decay()))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.0, |list| {
            let (shape, listed) = (list.shape(), list.listed());
            let (k, width, depth) = (shape.k(), shape.width(), shape.depth());
            Ok(format!(
                "<TopK({k}, {width}, {depth}, {}) of {listed} items>",
                shape.decay()
            ))
        })
    }
}

common!(TopK, "TopK(10, 100, 5)");
