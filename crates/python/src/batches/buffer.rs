//! Arrays with Python's buffers.

use std::ffi::CStr;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use valkeybloom_bindings::{Element, Strided};

use crate::items::is_of;

/// An array of one dimension with a buffer.
pub struct Buffer {
    held: PyUntypedBuffer,
    len: usize,
    stride: isize,
    element: Element,
}

impl Buffer {
    /// Returns the buffer of an object, if it has one, and its elements can be items or numbers.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if !has_buffer(object) {
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
        require_one_dimension(buffer.dimensions())?;
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

/// Returns whether an object has a buffer.
pub fn has_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the check only looks at the object's type.
    unsafe { pyo3::ffi::PyObject_CheckBuffer(object.as_ptr()) != 0 }
}

/// Requires that an array has one dimension.
pub fn require_one_dimension(dimensions: usize) -> PyResult<()> {
    if dimensions == 1 {
        return Ok(());
    }
    let text = format!("a batch has one dimension, not {dimensions}: pass a single column");
    Err(PyTypeError::new_err(text))
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
