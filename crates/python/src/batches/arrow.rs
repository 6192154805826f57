//! Arrays with Arrow's interface: `__arrow_c_array__` returns an array, `__arrow_c_stream__` a stream of arrays.

use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyString};
use valkeybloom_bindings::arrow::{self, Arrays, ArrowArray, ArrowArrayStream, ArrowSchema};
use valkeybloom_bindings::{Batch, Error, Strided};

use crate::errors::raise;
use crate::items::is_of;

/// An Arrow array, borrowed from the capsules that own it: nothing is released.
pub struct Array<'py> {
    schema: *const ArrowSchema,
    elements: *const ArrowArray,
    _owners: [Bound<'py, PyCapsule>; 2],
}

impl<'py> Array<'py> {
    /// Returns the array of an object, if it has one.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let method = intern!(object.py(), "__arrow_c_array__");
        if !is_readable(object, method)? {
            return Ok(None);
        }
        let pair = object.call_method0(method)?;
        let (schema, array) = pair.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
        let owners = [schema.cast_into::<PyCapsule>()?, array.cast_into()?];
        let schema = owners[0].pointer_checked(Some(c"arrow_schema"))?;
        let array = owners[1].pointer_checked(Some(c"arrow_array"))?;
        Ok(Some(Self {
            schema: schema.cast().as_ptr(),
            elements: array.cast().as_ptr(),
            _owners: owners,
        }))
    }

    pub fn push_to<'b>(&'b self, batch: &mut Batch<'b>) -> Result<(), Error> {
        // SAFETY: the capsules' names said what they point to; they own it, and `self` holds them.
        unsafe { arrow::push(self.schema, self.elements, batch) }
    }

    pub fn numbers(&self) -> Result<Strided<'_>, Error> {
        // SAFETY: the capsules' names said what they point to; they own it, and the elements borrow `self`, which holds them.
        unsafe { arrow::numbers(self.schema, self.elements, 0) }
    }
}

/// Returns whether an object has this method of Arrow's interface, and can be read by it.
fn is_readable(object: &Bound<'_, PyAny>, method: &Bound<'_, PyString>) -> PyResult<bool> {
    if !object.hasattr(method)? || has_objects(object)? {
        return Ok(false);
    }
    // Arrays of pyarrow can be made from any buffers. They know whether the buffers are long enough; the interface does
    // not.
    let validate = intern!(object.py(), "validate");
    if is_of(object, "pyarrow")? && object.hasattr(validate)? {
        object.call_method0(validate)?;
    }
    Ok(true)
}

/// Returns whether a column is of Python's objects, as in polars. Arrow would have their addresses as its bytes.
fn has_objects(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let kinds = if let Some(kind) = object.getattr_opt(intern!(py, "dtype"))? {
        vec![kind]
    } else if let Some(schema) = object.getattr_opt(intern!(py, "schema"))?
        && let Ok(schema) = schema.cast::<PyDict>()
    {
        schema.values().iter().collect()
    } else {
        Vec::new()
    };
    for kind in kinds {
        if kind.str()?.to_str()? == "Object" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the arrays of an object's stream, if it has one.
pub fn read_stream(object: &Bound<'_, PyAny>) -> PyResult<Option<Arrays>> {
    let py = object.py();
    let method = intern!(py, "__arrow_c_stream__");
    if !is_readable(object, method)? {
        return Ok(None);
    }
    let capsule = match object.call_method0(method) {
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
    arrays.map(Some).map_err(raise)
}

/// A pointer that goes to a closure which runs in this thread.
struct Pointer(*mut ArrowArrayStream);

// SAFETY: the closure runs in the thread that made it.
unsafe impl Send for Pointer {}
