//! Errors as exceptions.

use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use valkeybloom_bindings::{Code, Error};

/// Returns the exception for an error.
#[cold]
pub fn raise(error: Error) -> PyErr {
    let text = error.text().to_owned();
    match error.code() {
        Code::NoMemory => PyMemoryError::new_err(text),
        Code::BadType => PyTypeError::new_err(text),
        Code::Broken => PyRuntimeError::new_err(text),
        Code::Refused | Code::Undecodable | Code::BadBatch => PyValueError::new_err(text),
    }
}
