//! The class `Bloom`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use valkeybloom_bindings::{Bloom as Filter, Kind, Moment, Shared, Window, parse_moment};

use super::batches;
use super::chunks::{self, Chunks};
use super::common::{self, common, length, properties};
use super::errors::raise;
use super::locked::{change_by, detached, look, look_up, made};
use super::returned;
use super::words::{Rate, Whole};

/// A Bloom filter: a set of items, in a few bits for each.
///
/// If `item in filter` is False, the item was never added. It is wrongly True for at most `error_rate` of the items
/// that were never added. When the filter holds `capacity` items, a second filter, `expansion` times as large, is
/// stacked on it, and the error rate still holds. With `expansion=None`, a full filter refuses further items. `seed` is
/// 32 bytes, random by default. Filters with equal seeds can be united, such as filters of a server and their copies.
///
/// An item is str (its UTF-8), bytes, bytearray, memoryview or int (its decimal digits), so `42`, `"42"` and `b"42"`
/// are the same item, as on a server. Everything else raises TypeError.
///
/// A batch is a list or any other iterable of items, an array with a buffer (numpy's integers and bytes) or an
/// Arrow array (pyarrow, polars, pandas, DuckDB), which is read in place. Other threads run while a batch is processed.
/// If an item of a batch can't be read, nothing is added.
///
/// >>> from valkeybloom import Bloom
/// >>> seen = Bloom(1_000_000, 0.01)
/// >>> seen.add("a")
/// True
/// >>> seen.update(["a", "b", 3])
/// 2
/// >>> "b" in seen, b"3" in seen, "c" in seen
/// (True, True, False)
/// >>> list(seen.contains_many(["a", "c"]))
/// [True, False]
/// >>> len(seen)
/// 3
#[pyclass(frozen, module = "valkeybloom")]
pub struct Bloom(pub(crate) Shared<Filter>);

/// Makes a filter with the words of BF.RESERVE.
fn make(
    py: Python<'_>,
    capacity: &Whole,
    error_rate: &Rate,
    expansion: Option<Whole>,
    seed: Option<&[u8]>,
    kind: &[&[u8]],
) -> PyResult<Bloom> {
    let mut words = vec![error_rate.word("error_rate")?, capacity.word("capacity")?];
    match &expansion {
        Some(expansion) => words.extend([b"EXPANSION", expansion.word("expansion")?]),
        None => words.push(b"NONSCALING"),
    }
    words.extend_from_slice(kind);
    made(py, || Filter::reserve(&words, seed)).map(Bloom)
}

/// An optional argument as it is passed: it is seldom there, and costs nothing then.
type Argument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Returns the time and the time to live of an addition.
#[inline]
fn moment(ttl_ms: Argument<'_, '_>, at_ms: Argument<'_, '_>) -> PyResult<Moment> {
    if ttl_ms.is_none() && at_ms.is_none() {
        return Ok(Moment::default());
    }
    moment_of([(b"TTL", "ttl_ms", ttl_ms), (b"AT", "at_ms", at_ms)])
}

#[cold]
fn moment_of(options: [(&[u8], &str, Argument<'_, '_>); 2]) -> PyResult<Moment> {
    let mut values = Vec::new();
    for (option, name, value) in options {
        if let Some(value) = value {
            values.push((option, name, value.extract::<Whole>()?));
        }
    }
    let mut words = Vec::new();
    for (option, name, value) in &values {
        words.extend([*option, value.word(name)?]);
        if i64::try_from(value.get(name)?).is_err() {
            return Err(PyValueError::new_err(format!("bad {name}")));
        }
    }
    parse_moment(&words).map_err(raise)
}

fn time(at_ms: Option<Whole>) -> PyResult<Option<u64>> {
    at_ms.map(|at_ms| at_ms.get("at_ms")).transpose()
}

#[pymethods]
impl Bloom {
    #[new]
    #[pyo3(signature = (capacity, error_rate, *, expansion = Some(Whole::of(2)), seed = None), text_signature = "(capacity, error_rate, *, expansion=2, seed=None)")]
    fn new(
        py: Python<'_>,
        capacity: Whole,
        error_rate: Rate,
        expansion: Option<Whole>,
        seed: Option<&[u8]>,
    ) -> PyResult<Self> {
        make(py, &capacity, &error_rate, expansion, seed, &[])
    }

    /// Make a filter whose items expire: a window of `periods` periods, each `window_ms` milliseconds long.
    ///
    /// An item is found for `periods - 1` to `periods` periods. `periods` is at most 60,000. `capacity` is for one
    /// period. Where a method has `at_ms`, it is the time in milliseconds since the epoch, instead of the clock's.
    /// `ttl_ms` is how long items stay, at most the whole window. Items may come late: each goes to its own period, and
    /// ValueError is raised for those that have expired by the time of the latest item.
    ///
    /// >>> from valkeybloom import Bloom
    /// >>> day = Bloom.window(100_000, 0.01, window_ms=3_600_000, periods=24)
    /// >>> day.add("a", at_ms=0)
    /// True
    /// >>> day.contains("a", at_ms=23 * 3_600_000), day.contains("a", at_ms=24 * 3_600_000)
    /// (True, False)
    #[staticmethod]
    #[pyo3(
        signature = (
            capacity, error_rate, *, window_ms, periods,
            expansion = Some(Whole::of(2)), seed = None,
        ),
        text_signature = "(capacity, error_rate, *, window_ms, periods, expansion=2, seed=None)",
    )]
    #[allow(clippy::too_many_arguments, reason = "they are named")]
    fn window(
        py: Python<'_>,
        capacity: Whole,
        error_rate: Rate,
        window_ms: Whole,
        periods: Whole,
        expansion: Option<Whole>,
        seed: Option<&[u8]>,
    ) -> PyResult<Self> {
        let kind = [
            b"WINDOW",
            window_ms.word("window_ms")?,
            b"PERIODS",
            periods.word("periods")?,
        ];
        make(py, &capacity, &error_rate, expansion, seed, &kind)
    }

    /// Make a filter that counts how often items are added, and from which they can be removed.
    ///
    /// It takes memory only for the items that are in it. At an error rate of 1%, `capacity` items that were added once take
    /// 12 to 14.5 bits each.
    ///
    /// >>> from valkeybloom import Bloom
    /// >>> cart = Bloom.counting(1000, 0.01)
    /// >>> cart.update(["a", "a", "b"])
    /// 2
    /// >>> cart.count("a"), cart.remove("a"), cart.count("a")
    /// (2, True, 1)
    #[staticmethod]
    #[pyo3(
        signature = (capacity, error_rate, *, expansion = Some(Whole::of(2)), seed = None),
        text_signature = "(capacity, error_rate, *, expansion=2, seed=None)",
    )]
    fn counting(
        py: Python<'_>,
        capacity: Whole,
        error_rate: Rate,
        expansion: Option<Whole>,
        seed: Option<&[u8]>,
    ) -> PyResult<Self> {
        make(py, &capacity, &error_rate, expansion, seed, &[b"COUNTING"])
    }

    /// Make a filter that begins small, and takes the least memory when it has `capacity` items.
    ///
    /// Use it where `Bloom` would have to be made for many more items than there are at first. At an error rate of 1%,
    /// `capacity` items take 10 to 11.5 bits each.
    ///
    /// >>> from valkeybloom import Bloom
    /// >>> seen = Bloom.scaled_to(1_000_000, 0.01)
    /// >>> seen.update(range(100)), seen.nbytes < 2000
    /// (100, True)
    #[staticmethod]
    #[pyo3(
        signature = (capacity, error_rate, *, expansion = Some(Whole::of(2)), seed = None),
        text_signature = "(capacity, error_rate, *, expansion=2, seed=None)",
    )]
    fn scaled_to(
        py: Python<'_>,
        capacity: Whole,
        error_rate: Rate,
        expansion: Option<Whole>,
        seed: Option<&[u8]>,
    ) -> PyResult<Self> {
        let kind = [b"SCALETO", capacity.word("capacity")?];
        make(py, &capacity, &error_rate, expansion, seed, &kind)
    }

    /// Add an item. Return True if it was new.
    ///
    /// Raises ValueError if the filter is full and does not grow.
    #[pyo3(signature = (item, /, *, ttl_ms = None, at_ms = None))]
    fn add(
        &self,
        item: &Bound<'_, PyAny>,
        ttl_ms: Argument<'_, '_>,
        at_ms: Argument<'_, '_>,
    ) -> PyResult<bool> {
        let moment = moment(ttl_ms, at_ms)?;
        change_by(&self.0, item, |filter, bytes| filter.add(bytes, &moment))
    }

    /// Add a batch of items. Return how many were new.
    ///
    /// Raises ValueError if the filter is full and does not grow. The items before the first one without room are
    /// added, as by BF.MADD.
    ///
    /// >>> from valkeybloom import Bloom
    /// >>> Bloom(100, 0.01).update(str(n % 10) for n in range(50))
    /// 10
    #[pyo3(signature = (items, /, *, ttl_ms = None, at_ms = None))]
    fn update(
        &self,
        items: &Bound<'_, PyAny>,
        ttl_ms: Argument<'_, '_>,
        at_ms: Argument<'_, '_>,
    ) -> PyResult<u64> {
        let moment = moment(ttl_ms, at_ms)?;
        batches::add_each(&self.0, items, |filter, batch| {
            filter.add_each(batch, &moment, &mut [])
        })
    }

    /// Add a batch of items, as `update` does. Return whether each was new, as `contains_many` does. Of equal items, only
    /// the first is new.
    ///
    /// If ValueError is raised, there are no answers.
    ///
    /// >>> from valkeybloom import Bloom
    /// >>> list(Bloom(100, 0.01).add_many(["a", "b", "a"]))
    /// [True, True, False]
    #[pyo3(signature = (items, /, *, ttl_ms = None, at_ms = None))]
    fn add_many<'py>(
        &self,
        items: &Bound<'py, PyAny>,
        ttl_ms: Argument<'_, '_>,
        at_ms: Argument<'_, '_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let moment = moment(ttl_ms, at_ms)?;
        batches::answer_each(items, |batch, new| {
            self.0
                .write(|filter| filter.add_each(batch, &moment, new))?
                .map(drop)
        })
    }

    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        look_up(&self.0, item, |filter, bytes| {
            Ok(filter.contains(bytes, None))
        })
    }

    /// Return whether an item is in the filter at a time. Without `at_ms`, it is `item in filter`.
    #[pyo3(signature = (item, /, *, at_ms = None))]
    fn contains(&self, item: &Bound<'_, PyAny>, at_ms: Option<Whole>) -> PyResult<bool> {
        let at_ms = time(at_ms)?;
        look_up(&self.0, item, |filter, bytes| {
            Ok(filter.contains(bytes, at_ms))
        })
    }

    /// Look up a batch of items. Return a memoryview of bool, one byte for each item.
    ///
    /// `list()` turns it into a list, and `numpy.asarray()` into an array without a copy.
    ///
    /// >>> from valkeybloom import Bloom
    /// >>> seen = Bloom(100, 0.01)
    /// >>> seen.update(["a", "b"])
    /// 2
    /// >>> [item for item, old in zip("abc", seen.contains_many(list("abc"))) if not old]
    /// ['c']
    #[pyo3(signature = (items, /, *, at_ms = None))]
    fn contains_many<'py>(
        &self,
        items: &Bound<'py, PyAny>,
        at_ms: Option<Whole>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let at_ms = time(at_ms)?;
        batches::answer_each(items, |batch, found| {
            self.0
                .read(|filter| filter.contains_each(batch, at_ms, found))?
        })
    }

    /// Take one off the count of an item. Return whether the item was there.
    ///
    /// Raises ValueError unless the filter was made by `Bloom.counting`. Removing an item that was never added may
    /// remove another item. If the filter has grown beyond its capacity, a removal is now and then refused: the item
    /// stays, and the reply is False.
    #[pyo3(signature = (item, /))]
    fn remove(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        change_by(&self.0, item, Filter::remove)
    }

    /// Return how often, at most, an item was added and not removed.
    ///
    /// Raises ValueError unless the filter was made by `Bloom.counting`.
    #[pyo3(signature = (item, /))]
    fn count(&self, item: &Bound<'_, PyAny>) -> PyResult<u64> {
        look_up(&self.0, item, Filter::count)
    }

    /// Return a new filter with the items of this one and of others.
    ///
    /// `at_ms` is the time at which items of a window have expired, instead of now. Raises ValueError with the reason
    /// if the filters can't be united exactly: they need the same seed and kind. `template` makes such filters in
    /// several processes.
    ///
    /// >>> from valkeybloom import Bloom
    /// >>> monday = Bloom(1000, 0.01)
    /// >>> tuesday = Bloom(1000, 0.01, seed=monday.seed)
    /// >>> monday.add("a"), tuesday.add("b")
    /// (True, True)
    /// >>> both = monday | tuesday
    /// >>> "a" in both, "b" in both
    /// (True, True)
    #[pyo3(signature = (*others, at_ms = None))]
    fn union(
        slf: &Bound<'_, Self>,
        others: Vec<Bound<'_, Self>>,
        at_ms: Option<Whole>,
    ) -> PyResult<Self> {
        let at_ms = time(at_ms)?;
        let all = [slf].into_iter().chain(&others);
        let all: Vec<_> = all.map(|f| &f.get().0).collect();
        made(slf.py(), || {
            Shared::read_all(&all, |all| Filter::union(all, at_ms))?
        })
        .map(Self)
    }

    fn __or__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        match other.cast::<Self>() {
            Ok(other) => {
                let union = Self::union(slf, vec![other.clone()], None)?;
                Ok(Py::new(py, union)?.into_any())
            }
            Err(_) => Ok(py.NotImplemented()),
        }
    }

    fn __ior__(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<()> {
        let other = &other.get().0;
        let union = |own: &_, other: &_| Filter::union(&[own, other], None);
        detached(py, || self.0.merge(other, union))
    }

    /// Remove all items. The parameters and the seed stay.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.0.write(Filter::clear)?)
    }

    /// Iterate over chunks: pairs of a cursor and bytes, as BF.LOADCHUNK takes them.
    ///
    /// This call copies the filter, which may change meanwhile.
    fn chunks(&self, py: Python<'_>) -> PyResult<Chunks> {
        Chunks::of(py, &self.0)
    }

    /// Load a filter from its chunks: those of `chunks`, or what BF.SCANDUMP returned.
    ///
    /// >>> from valkeybloom import Bloom
    /// >>> seen = Bloom(1000, 0.01)
    /// >>> Bloom.from_chunks(seen.chunks()) == seen
    /// True
    #[staticmethod]
    #[pyo3(signature = (pairs, /))]
    fn from_chunks(pairs: &Bound<'_, PyAny>) -> PyResult<Self> {
        chunks::load(pairs).map(Self)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.card(py, None).map(length)
    }

    /// Return the number of items at a time. Without `at_ms`, it is `len(filter)`. It leaves out items that the filter
    /// already claimed wrongly when they were added.
    #[pyo3(signature = (*, at_ms = None))]
    fn card(&self, py: Python<'_>, at_ms: Option<Whole>) -> PyResult<u64> {
        let at_ms = time(at_ms)?;
        look(py, &self.0, |filter| Ok(filter.items(at_ms)))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.card(py, None)? > 0)
    }

    /// The present error rate, estimated from the contents.
    #[getter]
    fn estimated_error_rate(&self, py: Python<'_>) -> PyResult<f64> {
        detached(py, || self.0.read(|filter| filter.estimated_rate(None)))
    }

    /// How many times larger the next filter of the stack is; None if the filter does not grow. The next table is eight
    /// times as large as that.
    #[getter]
    fn expansion(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        look(py, &self.0, |filter| {
            let expansion = filter.shape().params.growth.expansion();
            Ok((expansion > 0).then_some(expansion))
        })
    }

    /// The 32 bytes that determine which bits an item sets; None for filters of RedisBloom, which have no seed.
    #[getter]
    fn seed<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let seed = look(py, &self.0, |filter| Ok(filter.seed().copied()))?;
        seed.map(|seed| returned::bytes(py, &seed)).transpose()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.0, |filter| {
            let shape = filter.shape();
            let kind = match shape.kind {
                Kind::Windowed(window) => {
                    let (ms, periods) = (window.period_ms(), window.periods());
                    &format!(".window(window_ms={ms}, periods={periods}, ")
                }
                Kind::Counting => ".counting(",
                Kind::ScaledTo => ".scaled_to(",
                Kind::Plain => "(",
            };
            let (capacity, rate) = (filter.capacity(), shape.params.error_rate.get());
            let items = filter.items(None);
            Ok(format!(
                "<Bloom{kind}capacity={capacity}, error_rate={rate}) of {items} items>"
            ))
        })
    }
}

properties! { Bloom(filter):
    /// The number of items that the filter holds before it grows or is full; in a window, those of all periods.
    capacity: u64 = filter.capacity();
    /// The requested error rate.
    error_rate: f64 = filter.shape().params.error_rate.get();
    /// The number of filters in the stack, or of tables.
    filters: u64 = filter.filter_count();
    /// The length of a period in milliseconds; None without a window.
    window_ms: Option<u64> = filter.shape().window().map(Window::period_ms);
    /// The number of periods; None without a window.
    periods: Option<u64> = filter.shape().window().map(Window::periods);
    /// Whether items can be removed.
    is_counting: bool = filter.shape().is_counting();
}

common!(Bloom, "Bloom(1000, 0.01)");
