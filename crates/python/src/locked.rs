//! Access to objects behind their locks, for Python's threads.

use pyo3::prelude::*;
use valkeybloom_bindings::{Error, Shared};

use super::errors::raise;

/// Reads an object for a moment. Keeps the interpreter lock, unless it has to wait for the object.
#[inline]
pub fn look<T: Send + Sync, R: Send>(
    py: Python<'_>,
    object: &Shared<T>,
    look: impl FnOnce(&T) -> Result<R, Error> + Send,
) -> PyResult<R> {
    let result = match object.try_read(look).map_err(raise)? {
        Ok(result) => result,
        Err(look) => py.detach(|| object.read(look)).map_err(raise)?,
    };
    result.map_err(raise)
}

/// Changes an object in a moment. Keeps the interpreter lock, unless it has to wait for the object.
#[inline]
pub fn change<T: Send + Sync, R: Send>(
    py: Python<'_>,
    object: &Shared<T>,
    change: impl FnOnce(&mut T) -> Result<R, Error> + Send,
) -> PyResult<R> {
    let result = match object.try_write(change).map_err(raise)? {
        Ok(result) => result,
        Err(change) => py.detach(|| object.write(change)).map_err(raise)?,
    };
    result.map_err(raise)
}

/// Runs a longer task without the interpreter lock.
pub fn detached<R: Send>(
    py: Python<'_>,
    run: impl FnOnce() -> Result<R, Error> + Send,
) -> PyResult<R> {
    py.detach(run).map_err(raise)
}
