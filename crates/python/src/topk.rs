//! The class `TopK`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use valkeybloom_bindings::{Shared, TopK as List, copied};

use super::batches::{self, integers};
use super::common::{self, common, properties};
use super::locked::{change_by, detached, look, look_up, made};
use super::returned;
use super::words::{Integer, Number, Rate, Whole};

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
pub struct TopK(pub(crate) Shared<List>);

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
        made(py, || List::reserve(&words)).map(Self)
    }

    /// Add an item `n` times, 0 to 100,000. Return the item that it expelled from the list, or None.
    #[pyo3(signature = (item, n = Number(1), /), text_signature = "($self, item, n=1, /)")]
    fn add<'py>(
        &self,
        item: &Bound<'py, PyAny>,
        n: Integer,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let left = change_by(&self.0, item, |list, bytes| list.add(bytes, n.0))?;
        left.map(|left| returned::bytes(item.py(), &left))
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
        let left = batches::add_each(&self.0, items, |list, batch| {
            list.add_each(batch, counts.as_deref())
        })?;
        left.iter()
            .map(|left| returned::bytes(items.py(), left))
            .collect()
    }

    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        look_up(&self.0, item, |list, bytes| Ok(list.contains(bytes)))
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
        look_up(&self.0, item, |list, bytes| Ok(list.count(bytes)))
    }

    /// Return the items of the list with their counts, the most frequent first.
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyBytes>, u32)>> {
        let copies = look(py, &self.0, |list| {
            let mut copies = Vec::new();
            for (item, count) in list.ranking()? {
                copies.try_reserve(1)?;
                copies.push((copied(item)?, count));
            }
            Ok(copies)
        })?;
        let pairs = copies.iter();
        pairs
            .map(|(item, count)| Ok((returned::bytes(py, item)?, *count)))
            .collect()
    }

    /// Remove all items.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.0.write(List::clear)?)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        look(py, &self.0, |list| Ok(list.listed() as usize))
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

properties! { TopK(list):
    /// The length of the list when it is full.
    k: u32 = list.shape().k();
    /// The number of cells in a row.
    width: u32 = list.shape().width();
    /// The number of rows.
    depth: u32 = list.shape().depth();
    /// The probability that a count of 1 is lost to another item.
    decay: f64 = list.shape().decay();
}

common!(TopK, "TopK(10, 100, 5)");
