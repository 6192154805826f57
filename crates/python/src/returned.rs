//! What calls return: bytes, views of answers, the words of commands.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString, PyTuple};
use valkeybloom_bindings::Error;

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
