//! Parameters as words of commands, so that they are checked as on a server.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use super::items::digits;

/// The digits of a whole number: an `int` or any other index, but not a `bool`.
#[derive(Clone, Debug)]
pub struct Whole(String);

impl Whole {
    /// Returns a number.
    pub fn of(number: u64) -> Self {
        Self(number.to_string())
    }

    /// Returns the digits.
    pub fn word(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns the number, or an error if it is negative or has more than 64 bits.
    pub fn get(&self, name: &str) -> PyResult<u64> {
        let number = self.0.parse();
        number.map_err(|_| PyValueError::new_err(format!("bad {name}")))
    }
}

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if number.is_instance_of::<PyBool>() {
            return Err(PyTypeError::new_err("an integer is needed, not bool"));
        }
        if let Ok(number) = number.cast::<PyInt>() {
            return Ok(Self(digits(&number)?));
        }
        let index = number
            .py()
            .import("operator")?
            .call_method1("index", (number,))?;
        Ok(Self(digits(index.cast::<PyInt>()?)?))
    }
}

/// An integer of 64 bits. A server refuses larger ones, so they raise `ValueError`, not `OverflowError`.
#[derive(Clone, Copy, Debug)]
pub struct Integer(pub i64);

impl<'py> FromPyObject<'_, 'py> for Integer {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        number.extract().map(Self).map_err(|error: PyErr| {
            if error.is_instance_of::<PyOverflowError>(number.py()) {
                return PyValueError::new_err("a number is too large");
            }
            error
        })
    }
}

/// A fraction, as the shortest text that is parsed to the same number.
#[derive(Clone, Debug)]
pub struct Rate(String);

impl Rate {
    /// Returns a number.
    pub fn of(number: f64) -> Self {
        Self(format!("{number:?}"))
    }

    /// Returns the text.
    pub fn word(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl<'py> FromPyObject<'_, 'py> for Rate {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::of(number.extract::<f64>()?))
    }
}
