//! Batches of items: lists and other iterables, arrays with Python's buffers, Arrow arrays.

use std::ffi::CStr;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyImportError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyMemoryView, PyString, PyTuple, PyType};
use valkeybloom_bindings::arrow::{self, Arrays, ArrowArray, ArrowArrayStream, ArrowSchema};
use valkeybloom_bindings::{Batch, Element, Error, Shared, Strided, Text};

use super::calls::Call;
use super::errors::raise;
use super::items::{class_of, push};
use super::words::{Integer, Real};

/// The number of elements that are read between two looks for signals.
const INTERRUPTIBLE: usize = 1 << 16;

/// The items of a Python object: in its memory, or collected from it.
pub enum Source<'py> {
    Collected(Text),
    Buffer(Buffer),
    Array(Array<'py>),
    Arrays(Arrays),
}

impl<'py> Source<'py> {
    /// Finds the items of an object. No Python code runs after that, so all of a batch is there or nothing. If another
    /// thread changes a list while it is read, some of the changes are seen.
    pub fn of(items: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(list) = items.cast_exact::<PyList>() {
            let mut text = Text::new();
            text.reserve(list.len()).map_err(raise)?;
            return collected(items.py(), list.iter().map(Ok), text);
        }
        if is_an_item(items) {
            return Err(PyTypeError::new_err(
                "a batch of items is needed, not one item",
            ));
        }
        let _call = Call::begin();
        match foreign(items)? {
            Some(found) => Ok(found),
            None => of_iterable(items),
        }
    }

    /// Passes the items as a batch to `run`, which runs without the interpreter lock.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&Batch<'_>) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let batch = self.batch().map_err(raise)?;
        py.detach(|| run(&batch)).map_err(raise)
    }

    fn batch(&self) -> Result<Batch<'_>, Error> {
        let mut batch = Batch::new();
        match self {
            Self::Collected(text) => return text.batch(),
            Self::Buffer(buffer) => batch.push_strided(buffer.elements())?,
            Self::Array(array) => array.push_to(&mut batch)?,
            Self::Arrays(arrays) => arrays.push_to(&mut batch)?,
        }
        Ok(batch)
    }

    /// Passes the numbers of an array to `visit`, in one or more pieces.
    fn each_numbers(
        &self,
        mut visit: impl FnMut(Strided<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self {
            Self::Collected(_) => Ok(()),
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
    // SAFETY: the check only looks at the object's type.
    (unsafe { pyo3::ffi::PyObject_CheckBuffer(object.as_ptr()) } != 0)
        && !types
            .iter()
            .any(|name| object.hasattr(name).unwrap_or(false))
        && PyUntypedBuffer::get(object).is_ok_and(|buffer| buffer.item_size() == 1)
}

/// Returns the items of an array with a buffer or an Arrow array.
fn foreign<'py>(items: &Bound<'py, PyAny>) -> PyResult<Option<Source<'py>>> {
    if let Some(found) = of_arrow(items)? {
        return Ok(Some(found));
    }
    Ok(Buffer::of(items)?.map(Source::Buffer))
}

/// Passes elements with their indices to `take`. Nothing has changed yet, so signals are handled, such as that of Ctrl-C.
fn each<'py>(
    py: Python<'py>,
    elements: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    mut take: impl FnMut(usize, &Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    for (index, element) in elements.enumerate() {
        if index % INTERRUPTIBLE == INTERRUPTIBLE - 1 {
            py.check_signals()?;
        }
        take(index, &element?)?;
    }
    Ok(())
}

fn collected<'py>(
    py: Python<'py>,
    items: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    mut text: Text,
) -> PyResult<Source<'py>> {
    each(py, items, |index, item| {
        push(item, &mut text).map_err(|error| at(py, error, index))
    })?;
    Ok(Source::Collected(text))
}

fn of_iterable<'py>(items: &Bound<'py, PyAny>) -> PyResult<Source<'py>> {
    // Frames that have no rows before they are collected, such as those of polars, seem to be sequences.
    let has = |name| items.hasattr(name);
    if has(intern!(items.py(), "collect"))? && !has(intern!(items.py(), "__iter__"))? {
        let class = class_of(items);
        let text = format!("a {class} has no items before you call its collect()");
        return Err(PyTypeError::new_err(text));
    }
    collected(items.py(), items.try_iter()?, Text::new())
}

/// Adds the index of the item to a `TypeError`, or to a `ValueError`, such as that of a text without UTF-8.
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

/// An array of one dimension with a buffer.
pub struct Buffer {
    held: PyUntypedBuffer,
    len: usize,
    stride: isize,
    element: Element,
}

impl Buffer {
    /// Returns the buffer of an object, if it has one, and its elements can be items or numbers.
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        // SAFETY: the check only looks at the object's type.
        if unsafe { pyo3::ffi::PyObject_CheckBuffer(object.as_ptr()) } == 0 {
            return Ok(None);
        }
        require_all(object)?;
        // Some arrays can't describe their elements in a buffer, such as times. They are iterated.
        let Ok(buffer) = PyUntypedBuffer::get(object) else {
            return Ok(None);
        };
        let Some(element) = element(buffer.format(), buffer.item_size()) else {
            return Ok(None);
        };
        if buffer.dimensions() != 1 {
            return Err(PyTypeError::new_err("a batch has one dimension"));
        }
        if buffer.suboffsets().is_some() {
            return Ok(None);
        }
        let len = buffer.shape()[0];
        let stride = buffer.strides().first().copied();
        let stride = stride.unwrap_or_else(|| buffer.item_size().cast_signed());
        Ok(Some(Self {
            held: buffer,
            len,
            stride,
            element,
        }))
    }

    pub fn elements(&self) -> Strided<'_> {
        let first = self.held.buf_ptr().cast::<u8>();
        // SAFETY: the exporter keeps the memory of all elements while `self` holds the buffer.
        unsafe { Strided::new(first, self.len, self.stride, self.element) }
    }
}

/// Requires that no element of an array is masked, as in numpy's masked arrays: its buffer holds a value nevertheless.
fn require_all(array: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = array.py();
    // Fields of an array of records are attributes, too.
    if !is_of(array, "numpy.ma")? {
        return Ok(());
    }
    let mask = array.getattr(intern!(py, "mask"))?;
    if !mask.call_method0(intern!(py, "any"))?.is_truthy()? {
        return Ok(());
    }
    let first = mask.call_method0(intern!(py, "argmax"))?;
    Err(PyValueError::new_err(format!("item {first} is null")))
}

/// Returns the kind of a buffer's elements, if they are integers, floats, or bytes of a fixed width.
fn element(format: &CStr, size: usize) -> Option<Element> {
    let format = format.to_bytes();
    let (swapped, code) = match format {
        [b'<', code @ ..] => (cfg!(target_endian = "big"), code),
        [b'>' | b'!', code @ ..] => (cfg!(target_endian = "little"), code),
        [b'@' | b'=', code @ ..] | code => (false, code),
    };
    let bytes = u8::try_from(size)
        .ok()
        .filter(|bytes| [1, 2, 4, 8].contains(bytes));
    let integer = |signed| {
        bytes.map(|bytes| Element::Integer {
            bytes,
            signed,
            swapped,
        })
    };
    match code {
        [b'b' | b'h' | b'i' | b'l' | b'q' | b'n'] => integer(true),
        [b'B' | b'H' | b'I' | b'L' | b'Q' | b'N'] => integer(false),
        [b'f' | b'd'] => bytes
            .filter(|bytes| *bytes >= 4)
            .map(|bytes| Element::Float { bytes, swapped }),
        [count @ .., b's'] if count.iter().all(u8::is_ascii_digit) => Some(Element::Bytes {
            width: size,
            padded: true,
        }),
        _ => None,
    }
}

/// An Arrow array, borrowed from the capsules that own it: nothing is released.
pub struct Array<'py> {
    schema: *const ArrowSchema,
    elements: *const ArrowArray,
    _owners: [Bound<'py, PyCapsule>; 2],
}

impl Array<'_> {
    fn push_to<'b>(&'b self, batch: &mut Batch<'b>) -> Result<(), Error> {
        // SAFETY: the capsules' names said what they point to; they own it, and `self` holds them.
        unsafe { arrow::push(self.schema, self.elements, batch) }
    }

    fn numbers(&self) -> Result<Strided<'_>, Error> {
        // SAFETY: the capsules' names said what they point to; they own it, and the elements borrow `self`, which holds them.
        unsafe { arrow::numbers(self.schema, self.elements, 0) }
    }
}

/// Returns whether the class of an object, or one of its bases, is of a package.
fn is_of(object: &Bound<'_, PyAny>, package: &str) -> PyResult<bool> {
    for class in object.get_type().mro() {
        let module = class.cast::<PyType>()?.module()?;
        let rest = module.to_str()?.strip_prefix(package);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a column is of Python's objects, as in polars. Arrow would have their addresses as its bytes.
fn has_objects(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let kinds = match object.getattr_opt(intern!(py, "dtype"))? {
        Some(kind) => vec![kind],
        None => match object.getattr_opt(intern!(py, "schema"))? {
            Some(schema) if schema.is_instance_of::<PyDict>() => {
                let kinds = schema.call_method0(intern!(py, "values"))?;
                kinds.try_iter()?.collect::<PyResult<_>>()?
            }
            _ => Vec::new(),
        },
    };
    for kind in kinds {
        if kind.str()?.to_str()? == "Object" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the items of an object with Arrow's interface, if it has one.
fn of_arrow<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Source<'py>>> {
    let py = object.py();
    let array = intern!(py, "__arrow_c_array__");
    let stream = intern!(py, "__arrow_c_stream__");
    let (is_array, is_stream) = (object.hasattr(array)?, object.hasattr(stream)?);
    if !is_array && !is_stream {
        return Ok(None);
    }
    if has_objects(object)? {
        return Ok(None);
    }
    // Arrays of pyarrow can be made from any buffers. They know whether the buffers are long enough; the interface does
    // not.
    if is_of(object, "pyarrow")? && object.hasattr(intern!(py, "validate"))? {
        object.call_method0(intern!(py, "validate"))?;
    }
    if is_array {
        let pair = object.call_method0(array)?;
        let (schema, array) = pair.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
        let owners = [schema.cast_into::<PyCapsule>()?, array.cast_into()?];
        let schema = owners[0].pointer_checked(Some(c"arrow_schema"))?;
        let array = owners[1].pointer_checked(Some(c"arrow_array"))?;
        return Ok(Some(Source::Array(Array {
            schema: schema.cast().as_ptr(),
            elements: array.cast().as_ptr(),
            _owners: owners,
        })));
    }
    let capsule = match object.call_method0(stream) {
        Ok(capsule) => capsule.cast_into::<PyCapsule>()?,
        // pandas has the interface, but needs pyarrow for it.
        Err(error) if error.is_instance_of::<PyImportError>(py) => return Ok(None),
        Err(error) => return Err(error),
    };
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    let pointer = Pointer(pointer.cast::<ArrowArrayStream>().as_ptr());
    let arrays = py.detach(move || {
        let pointer = pointer;
        // SAFETY: the capsule's name says what it points to; it owns the stream, and no one else has the capsule.
        unsafe { Arrays::read(pointer.0) }
    });
    Ok(Some(Source::Arrays(arrays.map_err(raise)?)))
}

/// A pointer that goes to a closure which runs in this thread.
struct Pointer(*mut ArrowArrayStream);

// SAFETY: the closure runs in the thread that made it.
unsafe impl Send for Pointer {}

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
    match foreign(object)? {
        None => each(object.py(), object.try_iter()?, |_, element| {
            let room = numbers.try_reserve(1);
            room.map_err(|error| raise(error.into()))?;
            numbers.push(number(element)?);
            Ok(())
        })?,
        Some(found) => {
            let appended = found.each_numbers(|part| append(part, &mut numbers));
            appended.map_err(raise)?;
        }
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

/// Returns values as a memoryview with this format, from which arrays can be made without a copy.
pub fn view<'py>(
    py: Python<'py>,
    values: &[u8],
    format: &'static str,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = bytes(py, values)?;
    PyMemoryView::from(bytes.as_any())?.call_method1("cast", (format,))
}

/// Returns the words of a command. The name is text, because clients look it up.
pub fn words_of(
    py: Python<'_>,
    words: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> PyResult<Bound<'_, PyTuple>> {
    let words = words.into_iter().enumerate();
    let words = words.map(|(place, word)| match place {
        0 => Ok(PyString::new(py, &String::from_utf8_lossy(word.as_ref())).into_any()),
        _ => bytes(py, word.as_ref()).map(Bound::into_any),
    });
    PyTuple::new(py, words.collect::<PyResult<Vec<_>>>()?)
}

/// Copies bytes into a Python object.
pub fn bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |to| {
        to.copy_from_slice(bytes);
        Ok(())
    })
}

/// Allocates a table of answers.
pub fn answers<T: Copy + Default>(count: usize) -> Result<Vec<T>, Error> {
    let mut answers = Vec::new();
    answers.try_reserve_exact(count)?;
    answers.resize(count, T::default());
    Ok(answers)
}
