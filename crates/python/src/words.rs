//! Parameters as words of commands, so that they are checked as on a server.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

use super::calls::Call;
use super::items::{class_of, digits, index};

/// The digits of a whole number: an `int` or any other index, but not a `bool`. Or the error, which names the argument.
#[derive(Clone, Debug)]
pub struct Whole(Word);

/// The text of a number, or the class of something else.
type Word = Result<String, String>;

fn text<'w>(word: &'w Word, name: &str, kind: &str) -> PyResult<&'w str> {
    let text = word.as_ref().map_err(|class| {
        let text = format!("{name} is {kind}, not {class}");
        PyTypeError::new_err(text)
    });
    text.map(String::as_str)
}

impl Whole {
    /// Returns a number.
    pub fn of(number: u64) -> Self {
        Self(Ok(number.to_string()))
    }

    /// Returns the digits of the argument with this name.
    pub fn word(&self, name: &str) -> PyResult<&[u8]> {
        text(&self.0, name, "an integer").map(str::as_bytes)
    }

    /// Returns the number, or an error if it is negative or has more than 64 bits.
    pub fn get(&self, name: &str) -> PyResult<u64> {
        let number = text(&self.0, name, "an integer")?.parse();
        number.map_err(|_| PyValueError::new_err(format!("bad {name}")))
    }
}

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let digits = index(&number)?.map(|index| digits(&index)).transpose()?;
        Ok(Self(digits.ok_or_else(|| class_of(&number))))
    }
}

/// A number. One that is too large for its type raises `ValueError`, like those that an object refuses, not `OverflowError`.
#[derive(Clone, Copy, Debug)]
pub struct Number<T>(pub T);

/// An integer of 64 bits.
pub type Integer = Number<i64>;
/// A float.
pub type Real = Number<f64>;

impl<'a, 'py, T: FromPyObject<'a, 'py, Error = PyErr>> FromPyObject<'a, 'py> for Number<T> {
    type Error = PyErr;

    fn extract(number: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = number.py();
        let is_plain =
            number.is_exact_instance_of::<PyFloat>() || number.is_exact_instance_of::<PyInt>();
        let _call = (!is_plain).then(Call::begin);
        let extracted = number.extract().map_err(|error: PyErr| {
            if error.is_instance_of::<PyOverflowError>(py) {
                return PyValueError::new_err("a number is too large");
            }
            error
        });
        extracted.map(Self)
    }
}

/// A fraction, as the shortest text that is parsed to the same number. Or the error, which names the argument.
#[derive(Clone, Debug)]
pub struct Rate(Word);

impl Rate {
    /// Returns a number.
    pub fn of(number: f64) -> Self {
        Self(Ok(format!("{number:?}")))
    }

    /// Returns the text of the argument with this name.
    pub fn word(&self, name: &str) -> PyResult<&[u8]> {
        text(&self.0, name, "a number").map(str::as_bytes)
    }
}

impl<'py> FromPyObject<'_, 'py> for Rate {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match number.extract::<Real>() {
            Ok(number) => Ok(Self::of(number.0)),
            Err(error) if error.is_instance_of::<PyTypeError>(number.py()) => {
                Ok(Self(Err(class_of(&number))))
            }
            Err(error) => Err(error),
        }
    }
}
