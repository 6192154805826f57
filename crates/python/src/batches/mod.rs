//! Batches of items: lists and other iterables, arrays with Python's buffers, Arrow arrays.

mod arrow;
mod buffer;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString};
use valkeybloom_bindings::arrow::Arrays;
use valkeybloom_bindings::{Batch, Error, Shared, Strided, Text};

use self::arrow::Array;
use self::buffer::{Buffer, has_buffer, require_one_dimension};
use super::calls::Call;
use super::errors::raise;
use super::items::{class_of, push};
use super::returned::{answers, view};
use super::words::{Integer, Real};

/// The number of elements that are read between two looks for signals.
const INTERRUPTIBLE: usize = 1 << 16;

/// The items of a Python object.
pub enum Source<'py> {
    /// Copies of its items, made one after another.
    Collected(Text),
    /// In its memory.
    Foreign(Foreign<'py>),
}

/// An array that is read in place.
pub enum Foreign<'py> {
    Buffer(Buffer),
    Array(Array<'py>),
    Arrays(Arrays),
}

impl<'py> Source<'py> {
    /// Finds the items of an object. No Python code runs after that, so all of a batch is there or nothing. If another
    /// thread changes a list while it is read, some of the changes are seen.
    pub fn of(items: &Bound<'py, PyAny>) -> PyResult<Self> {
        let _call = Call::begin();
        let py = items.py();
        if let Ok(list) = items.cast_exact::<PyList>() {
            let mut text = Text::new();
            text.reserve(list.len()).map_err(raise)?;
            return Self::collect(py, list.iter().map(Ok), text);
        }
        if is_an_item(items) {
            return Err(PyTypeError::new_err(
                "a batch of items is needed, not one item",
            ));
        }
        match Foreign::of(items)? {
            Some(array) => Ok(Self::Foreign(array)),
            None => Self::collect(py, iterate(items)?, Text::new()),
        }
    }

    fn collect(
        py: Python<'py>,
        items: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
        mut text: Text,
    ) -> PyResult<Self> {
        each(py, items, |item| push(item, &mut text))?;
        Ok(Self::Collected(text))
    }

    /// Passes the items as a batch to `run`, which runs without the interpreter lock.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&Batch<'_>) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let batch = match self {
            Self::Collected(text) => text.batch(),
            Self::Foreign(array) => array.batch(),
        };
        let batch = batch.map_err(raise)?;
        py.detach(|| run(&batch)).map_err(raise)
    }
}

impl<'py> Foreign<'py> {
    /// Returns the array of an object, if it has Arrow's interface or a buffer.
    fn of(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if let Some(array) = Array::of(object)? {
            return Ok(Some(Self::Array(array)));
        }
        match arrow::read_stream(object)? {
            Some(arrays) => Ok(Some(Self::Arrays(arrays))),
            None => Ok(Buffer::of(object)?.map(Self::Buffer)),
        }
    }

    fn batch(&self) -> Result<Batch<'_>, Error> {
        let mut batch = Batch::new();
        match self {
            Self::Buffer(buffer) => batch.push_strided(buffer.elements())?,
            Self::Array(array) => array.push_to(&mut batch)?,
            Self::Arrays(arrays) => arrays.push_to(&mut batch)?,
        }
        Ok(batch)
    }

    /// Passes the elements as numbers to `visit`, in one or more pieces.
    fn each_numbers(
        &self,
        mut visit: impl FnMut(Strided<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self {
            Self::Buffer(buffer) => visit(buffer.elements()),
            Self::Array(array) => visit(array.numbers()?),
            Self::Arrays(arrays) => arrays.each_numbers(visit),
        }
    }
}

fn is_an_item(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() || is_memory(object)
}

/// Returns whether an object is plain memory, such as a `bytearray` or an `mmap`. Arrays of small integers name their type.
fn is_memory(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    let types = [
        intern!(py, "dtype"),
        intern!(py, "typecode"),
        intern!(py, "_type_"),
    ];
    has_buffer(object)
        && !types
            .iter()
            .any(|name| object.hasattr(name).unwrap_or(false))
        && PyUntypedBuffer::get(object).is_ok_and(|buffer| buffer.item_size() == 1)
}

/// Returns an iterator over an object, unless it is a table, which seems to be a sequence, but not of its rows.
fn iterate<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    let py = object.py();
    // Frames of pandas iterate over the names of their columns. An attribute that is not a number has another purpose.
    if let Some(dimensions) = object.getattr_opt(intern!(py, "ndim"))?
        && let Ok(dimensions) = dimensions.extract()
    {
        require_one_dimension(dimensions)?;
    }
    // Frames that have no rows before they are collected, such as those of polars.
    let has = |name| object.hasattr(name);
    if has(intern!(py, "collect"))? && !has(intern!(py, "__iter__"))? {
        let class = class_of(object);
        let text = format!("a {class} has no items before you call its collect()");
        return Err(PyTypeError::new_err(text));
    }
    object.try_iter()
}

/// Passes elements to `take`. Nothing has changed yet, so signals are handled, such as that of Ctrl-C.
fn each<'py>(
    py: Python<'py>,
    elements: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    mut take: impl FnMut(&Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    for (index, element) in elements.enumerate() {
        if index % INTERRUPTIBLE == INTERRUPTIBLE - 1 {
            py.check_signals()?;
        }
        take(&element?).map_err(|error| at(py, error, index))?;
    }
    Ok(())
}

/// Adds the index of the element to a `TypeError`, or to a `ValueError`, such as that of a text without UTF-8.
#[cold]
fn at(py: Python<'_>, error: PyErr, index: usize) -> PyErr {
    let text = format!("item {index}: {}", error.value(py));
    if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(text)
    } else if error.is_instance_of::<PyValueError>(py) {
        PyValueError::new_err(text)
    } else {
        error
    }
}

/// Returns the whole numbers of an object: an array, or any iterable of `int`.
pub fn integers(object: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let number = |number: &Bound<'_, PyAny>| Ok(number.extract::<Integer>()?.0);
    numbers(object, number, |part, to| part.append_integers(to))
}

/// Returns the numbers of an object: an array, or any iterable of `float`.
pub fn doubles(object: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let number = |number: &Bound<'_, PyAny>| Ok(number.extract::<Real>()?.0);
    numbers(object, number, |part, to| part.append_doubles(to))
}

fn numbers<N>(
    object: &Bound<'_, PyAny>,
    number: impl Fn(&Bound<'_, PyAny>) -> PyResult<N>,
    append: impl Fn(Strided<'_>, &mut Vec<N>) -> Result<(), Error>,
) -> PyResult<Vec<N>> {
    let _call = Call::begin();
    let mut numbers = Vec::new();
    if let Some(array) = Foreign::of(object)? {
        let appended = array.each_numbers(|part| append(part, &mut numbers));
        appended.map_err(raise)?;
    } else {
        each(object.py(), iterate(object)?, |element| {
            let room = numbers.try_reserve(1);
            room.map_err(|error| raise(error.into()))?;
            numbers.push(number(element)?);
            Ok(())
        })?;
    }
    Ok(numbers)
}

/// Adds a batch of items to an object.
pub fn add_each<T: Send + Sync, R: Send>(
    object: &Shared<T>,
    items: &Bound<'_, PyAny>,
    add: impl FnOnce(&mut T, &Batch<'_>) -> Result<R, Error> + Send,
) -> PyResult<R> {
    Source::of(items)?.with(items.py(), |batch| {
        object.write(|object| add(object, batch))?
    })
}

/// Passes a batch of items to `answer`, which fills a table with 1 for each item to which the answer is yes. Returns the
/// table as a view of bool.
pub fn answer_each<'py>(
    items: &Bound<'py, PyAny>,
    answer: impl FnOnce(&Batch<'_>, &mut [u8]) -> Result<(), Error> + Send,
) -> PyResult<Bound<'py, PyAny>> {
    let found = Source::of(items)?.with(items.py(), |batch| {
        let mut found = answers(batch.len())?;
        answer(batch, &mut found)?;
        Ok(found)
    })?;
    view(items.py(), &found, "?")
}
