//! Parameters as the words of commands, which are checked as the server checks them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use super::items::digits;

/// A whole number, as its digits: an `int`, or what can be an index, but not a `bool`.
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

/// A number between whole ones, as the shortest text that is read as the same.
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
