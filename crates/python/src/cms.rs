//! The class `CountMin`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use valkeybloom_bindings::{CountMin as Sketch, Shared};

use super::batches::{self, Source, integers};
use super::calls::Call;
use super::common::{self, common, properties};
use super::locked::{change_by, detached, look, look_up, made};
use super::returned::{self, answers};
use super::words::{Integer, Number, Rate, Whole};

/// A count-min sketch: estimates of how often items were counted, in memory that does not grow with the items. An
/// estimate may be too high, but is never too low.
///
/// It has `depth` rows of `width` counters of `cell_size` bytes (1, 2, 4 or 8). `Bloom` documents items
/// and batches.
///
/// >>> from valkeybloom import CountMin
/// >>> hits = CountMin(2000, 5)
/// >>> hits.add("/index"), hits.add("/index", 9)
/// (1, 10)
/// >>> hits.update(["/about", "/index"], [3, 1])
/// >>> hits.query("/index"), list(hits.query_many(["/about", "/none"]))
/// (11, [3, 0])
#[pyclass(frozen, module = "valkeybloom")]
pub struct CountMin(pub(crate) Shared<Sketch>);

/// Appends the option for the size of counters to words.
fn with_cell_size<'a>(words: [&'a [u8]; 2], cell_size: &'a Whole) -> PyResult<[&'a [u8]; 4]> {
    let size = cell_size.word("cell_size")?;
    Ok([words[0], words[1], b"CELL_SIZE", size])
}

#[pymethods]
impl CountMin {
    #[new]
    #[pyo3(signature = (width, depth, *, cell_size = Whole::of(4)), text_signature = "(width, depth, *, cell_size=4)")]
    fn new(py: Python<'_>, width: Whole, depth: Whole, cell_size: Whole) -> PyResult<Self> {
        let words = with_cell_size([width.word("width")?, depth.word("depth")?], &cell_size)?;
        made(py, || Sketch::by_size(&words)).map(Self)
    }

    /// Make a sketch whose estimates exceed the true counts by more than `error` times the sum of all counts with
    /// `probability` at most.
    ///
    /// >>> from valkeybloom import CountMin
    /// >>> CountMin.from_rates(0.001, 0.01).width
    /// 2000
    #[staticmethod]
    #[pyo3(
        signature = (error, probability, *, cell_size = Whole::of(4)),
        text_signature = "(error, probability, *, cell_size=4)",
    )]
    fn from_rates(
        py: Python<'_>,
        error: Rate,
        probability: Rate,
        cell_size: Whole,
    ) -> PyResult<Self> {
        let words = with_cell_size(
            [error.word("error")?, probability.word("probability")?],
            &cell_size,
        )?;
        made(py, || Sketch::by_rates(&words)).map(Self)
    }

    /// Add `n`, which may be negative, to the count of an item. Return the new estimate.
    ///
    /// Raises ValueError if a counter would overflow or fall below 0.
    #[pyo3(signature = (item, n = Number(1), /), text_signature = "($self, item, n=1, /)")]
    fn add(&self, item: &Bound<'_, PyAny>, n: Integer) -> PyResult<u64> {
        change_by(&self.0, item, |sketch, bytes| sketch.add(bytes, n.0))
    }

    /// Count a batch of items: each once, or as often as the number at its index in `counts`, a batch of int.
    ///
    /// Raises ValueError if a counter would overflow or fall below 0. All other items are counted, as by CMS.INCRBY.
    #[pyo3(signature = (items, /, counts = None))]
    fn update(&self, items: &Bound<'_, PyAny>, counts: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let counts = counts.map(integers).transpose()?;
        batches::add_each(&self.0, items, |sketch, batch| {
            sketch.add_each(batch, counts.as_deref())
        })
    }

    /// Return an estimate of an item's count, which is never too low.
    #[pyo3(signature = (item, /))]
    fn query(&self, item: &Bound<'_, PyAny>) -> PyResult<u64> {
        look_up(&self.0, item, |sketch, bytes| Ok(sketch.estimate(bytes)))
    }

    /// Return an estimate for each item of a batch, which is never too low: a memoryview of 64-bit integers.
    #[pyo3(signature = (items, /))]
    fn query_many<'py>(&self, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let source = Source::of(items)?;
        let counts = source.with(items.py(), |batch| {
            let mut counts = answers::<u64>(batch.len())?;
            self.0
                .read(|sketch| sketch.estimate_each(batch, &mut counts))??;
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(8 * counts.len())?;
            bytes.extend(counts.into_iter().flat_map(u64::to_ne_bytes));
            Ok(bytes)
        })?;
        returned::view(items.py(), &counts, "Q")
    }

    /// Return a new sketch: the weighted sum of sketches of equal width, depth and cell size. Each pair is a sketch and its weight.
    ///
    /// >>> from valkeybloom import CountMin
    /// >>> one, two = CountMin(2000, 5), CountMin(2000, 5)
    /// >>> one.add("a", 5), two.add("a", 1)
    /// (5, 1)
    /// >>> CountMin.merged([(one, 1), (two, 10)]).query("a")
    /// 15
    #[staticmethod]
    #[pyo3(signature = (pairs, /))]
    fn merged(py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (mut sketches, mut weights) = (Vec::new(), Vec::new());
        let _call = Call::begin();
        for pair in pairs.try_iter()? {
            let [sketch, weight] = pair?.extract::<[Bound<'_, PyAny>; 2]>()?;
            sketches.push(sketch.cast_into::<Self>()?);
            weights.push(weight.extract::<Integer>()?.0);
        }
        let all: Vec<_> = sketches.iter().map(|sketch| &sketch.get().0).collect();
        made(py, || {
            Shared::read_all(&all, |all| Sketch::merged(all, Some(&weights)))?
        })
        .map(Self)
    }

    /// Remove all counts.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.0.write(Sketch::clear)?)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.0, |sketch| {
            let (width, depth) = (sketch.shape().width(), sketch.shape().depth());
            let total = sketch.count();
            Ok(format!(
                "<CountMin(width={width}, depth={depth}) of {total} counts>"
            ))
        })
    }
}

properties! { CountMin(sketch):
    /// The number of counters in a row.
    width: u64 = sketch.shape().width();
    /// The number of rows.
    depth: u64 = sketch.shape().depth();
    /// The size of a counter in bytes.
    cell_size: u64 = sketch.shape().cell_size().bytes();
    /// The sum of all counts.
    total: u64 = sketch.count();
}

common!(CountMin, "CountMin(2000, 5)");
