//! The conversion of items: text is its UTF-8, bytes are themselves, an integer is its decimal digits.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyInt, PyMemoryView, PyString, PyType};
use valkeybloom_bindings::Text;

use super::calls::Call;
use super::errors::raise;

/// Passes the bytes of an item to `visit`.
#[inline(always)]
pub fn with_item<R>(
    item: &Bound<'_, PyAny>,
    visit: impl FnOnce(&[u8]) -> PyResult<R>,
) -> PyResult<R> {
    if let Ok(text) = item.cast_exact::<PyString>() {
        return visit(text.to_str()?.as_bytes());
    }
    if let Ok(bytes) = item.cast_exact::<PyBytes>() {
        return visit(bytes.as_bytes());
    }
    with_other(item, visit)
}

/// Passes the bytes of an item that is neither a plain string nor plain bytes to `visit`.
#[cold]
#[inline(never)]
fn with_other<R>(item: &Bound<'_, PyAny>, visit: impl FnOnce(&[u8]) -> PyResult<R>) -> PyResult<R> {
    let mut one = Text::new();
    push_other(item, &mut one)?;
    let bytes = one.items().map_err(raise)?.next();
    visit(bytes.unwrap_or_default())
}

/// Appends an item.
#[inline(always)]
pub fn push(item: &Bound<'_, PyAny>, to: &mut Text) -> PyResult<()> {
    if let Ok(text) = item.cast_exact::<PyString>() {
        return to.push(text.to_str()?.as_bytes()).map_err(raise);
    }
    push_other(item, to)
}

#[inline(never)]
fn push_other(item: &Bound<'_, PyAny>, to: &mut Text) -> PyResult<()> {
    let pushed = if let Ok(bytes) = item.cast::<PyBytes>() {
        to.push(bytes.as_bytes())
    } else if let Ok(text) = item.cast::<PyString>() {
        to.push(text.to_str()?.as_bytes())
    } else if let Ok(bytes) = item.cast::<PyByteArray>() {
        to.push(&bytes.to_vec())
    } else if item.is_instance_of::<PyMemoryView>() {
        let bytes = item.call_method0("tobytes")?;
        to.push(bytes.cast::<PyBytes>()?.as_bytes())
    } else if let Some(number) = index(item)? {
        if let Ok(number) = number.extract::<i64>() {
            to.push_integer(number)
        } else {
            to.push(digits(&number)?.as_bytes())
        }
    } else {
        let text = format!("an item is str, bytes or int, not {}", class_of(item));
        return Err(PyTypeError::new_err(text));
    };
    pushed.map_err(raise)
}

/// Returns the bytes of any object with a buffer. Other threads can't change `bytes`; anything else is copied.
pub fn bytes_of<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    let _call = Call::begin();
    let view = PyMemoryView::from(data)?;
    Ok(view.call_method0("tobytes")?.cast_into()?)
}

/// Returns the digits of an integer of any size, even if its class overrides `str`.
pub fn digits(number: &Bound<'_, PyInt>) -> PyResult<String> {
    let int = number.py().get_type::<PyInt>();
    let text = int.call_method1("__repr__", (number,))?;
    Ok(text.cast::<PyString>()?.to_str()?.to_owned())
}

/// Returns the value of an integer: an `int`, or one of another class, such as numpy's. A `bool` is refused.
pub fn index<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyInt>>> {
    if let Ok(number) = object.cast::<PyInt>() {
        let is_bool = object.is_instance_of::<PyBool>();
        return Ok((!is_bool).then(|| number.clone()));
    }
    let _call = Call::begin();
    let py = object.py();
    let special = object.get_type().getattr_opt(intern!(py, "__index__"))?;
    let number = special.map(|special| special.call1((object,)));
    match number.transpose() {
        Ok(number) => Ok(number.map(Bound::cast_into).transpose()?),
        // Arrays of numpy are integers only if they have one element.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the name of an object's class.
#[cold]
pub fn class_of(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().name();
    name.map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

/// Returns whether the class of an object, or one of its bases, is of a package.
pub fn is_of(object: &Bound<'_, PyAny>, package: &str) -> PyResult<bool> {
    for class in object.get_type().mro() {
        let module = class.cast::<PyType>()?.module()?;
        let rest = module.to_str()?.strip_prefix(package);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
            return Ok(true);
        }
    }
    Ok(false)
}
