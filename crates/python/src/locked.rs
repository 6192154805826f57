//! Access to objects behind their locks, for Python's threads.

use pyo3::prelude::*;
use valkeybloom_bindings::{Error, Shared};

use super::errors::raise;
use super::items::with_item;

/// Reads an object for a moment. Keeps the interpreter lock, unless it has to wait for the object.
#[inline]
pub fn look<T: Send + Sync, R: Send>(
    py: Python<'_>,
    object: &Shared<T>,
    look: impl FnOnce(&T) -> Result<R, Error> + Send,
) -> PyResult<R> {
    match object.try_read().map_err(raise)? {
        Some(object) => look(&object).map_err(raise),
        None => detached(py, || object.read(look)?),
    }
}

/// Changes an object in a moment. Keeps the interpreter lock, unless it has to wait for the object.
#[inline]
pub fn change<T: Send + Sync, R: Send>(
    py: Python<'_>,
    object: &Shared<T>,
    change: impl FnOnce(&mut T) -> Result<R, Error> + Send,
) -> PyResult<R> {
    match object.try_write().map_err(raise)? {
        Some(mut object) => change(&mut object).map_err(raise),
        None => detached(py, || object.write(change)?),
    }
}

/// Looks an item up in an object, as [`look`] does.
#[inline]
pub fn look_up<T: Send + Sync, R: Send>(
    object: &Shared<T>,
    item: &Bound<'_, PyAny>,
    answer: impl FnOnce(&T, &[u8]) -> Result<R, Error> + Send,
) -> PyResult<R> {
    with_item(item, |bytes| {
        look(item.py(), object, |object| answer(object, bytes))
    })
}

/// Changes an object by an item, as [`change`] does.
#[inline]
pub fn change_by<T: Send + Sync, R: Send>(
    object: &Shared<T>,
    item: &Bound<'_, PyAny>,
    add: impl FnOnce(&mut T, &[u8]) -> Result<R, Error> + Send,
) -> PyResult<R> {
    with_item(item, |bytes| {
        change(item.py(), object, |object| add(object, bytes))
    })
}

/// Makes an object without the interpreter lock.
pub fn made<T: Send>(
    py: Python<'_>,
    make: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<Shared<T>> {
    detached(py, make).map(Shared::new)
}

/// Runs a longer task without the interpreter lock.
pub fn detached<R: Send>(
    py: Python<'_>,
    run: impl FnOnce() -> Result<R, Error> + Send,
) -> PyResult<R> {
    py.detach(run).map_err(raise)
}
