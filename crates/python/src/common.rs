//! Methods that all classes share.

use std::io;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use valkeybloom_bindings::{Error, Family, Shared};

use super::batches;
use super::errors::raise;
use super::locked::detached;

/// Encodes an object without the interpreter lock.
pub fn to_bytes<'py, F: Family + Send + Sync>(
    py: Python<'py>,
    object: &Shared<F>,
) -> PyResult<Bound<'py, PyBytes>> {
    let encoded = detached(py, || object.read(Family::to_bytes)?)?;
    batches::bytes(py, &encoded)
}

/// Decodes an object without the interpreter lock.
pub fn from_bytes<F: Family + Send>(data: &Bound<'_, PyAny>) -> PyResult<Shared<F>> {
    let py = data.py();
    // Any object with a buffer will do. Other threads can't change `bytes`; anything else is copied.
    let data = if let Ok(bytes) = data.cast::<PyBytes>() {
        bytes.clone()
    } else {
        let view = pyo3::types::PyMemoryView::from(data)?;
        view.call_method0("tobytes")?.cast_into()?
    };
    let bytes = data.as_bytes();
    Ok(Shared::new(detached(py, || F::from_bytes(bytes))?))
}

pub fn copy<F: Family + Send + Sync>(py: Python<'_>, object: &Shared<F>) -> PyResult<Shared<F>> {
    let copy = detached(py, || object.read(Family::try_clone)?)?;
    Ok(Shared::new(copy))
}

pub fn equal<F: Family + Send + Sync>(
    py: Python<'_>,
    one: &Shared<F>,
    other: &Shared<F>,
) -> PyResult<bool> {
    detached(py, || {
        Shared::read_all(&[one, other], |both| match both {
            [one, other] => one.equals(other),
            _ => Ok(true),
        })?
    })
}

/// Replaces a file by the bytes of an object, in one step.
pub fn save<F: Family + Send + Sync>(
    py: Python<'_>,
    object: &Shared<F>,
    path: &Path,
) -> PyResult<()> {
    let encoded = detached(py, || object.read(Family::to_bytes)?)?;
    py.detach(|| write(path, &encoded))?;
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".unfinished-{}", std::process::id()));
    let unfinished = path.with_file_name(name);
    let written = std::fs::write(&unfinished, bytes)
        .and_then(|()| std::fs::File::open(&unfinished)?.sync_all())
        .and_then(|()| std::fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

/// Reads an object from a file.
pub fn load<F: Family + Send>(py: Python<'_>, path: PathBuf) -> PyResult<Shared<F>> {
    enum Failed {
        Reading(io::Error),
        Decoding(Error),
    }
    let loaded = py.detach(|| {
        let bytes = std::fs::read(path).map_err(Failed::Reading)?;
        F::from_bytes(&bytes).map_err(Failed::Decoding)
    });
    match loaded {
        Ok(object) => Ok(Shared::new(object)),
        Err(Failed::Reading(error)) if error.kind() == io::ErrorKind::OutOfMemory => {
            Err(raise(Error::NO_MEMORY))
        }
        Err(Failed::Reading(error)) => Err(error.into()),
        Err(Failed::Decoding(error)) => Err(raise(error)),
    }
}

/// Defines the methods that all classes share.
macro_rules! common {
    ($class:ident, $new:literal) => {
        #[pymethods]
        impl $class {
            #[doc = concat!(
                "Encode the object as bytes, which the libraries of all languages read.\n\n",
                "A server reads them, too: a Bloom filter with BF.LOAD, all others with RESTORE.\n\n",
                ">>> x = ", $new, "\n",
                ">>> ", stringify!($class), ".from_bytes(x.to_bytes()) == x\n",
                "True"
            )]
            fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
                common::to_bytes(py, &self.0)
            }

            /// Decode bytes from `to_bytes`, from a server's DUMP, or a payload of BF.LOAD.
            ///
            /// Raises ValueError if they are not an object of this class.
            #[staticmethod]
            #[pyo3(signature = (data, /))]
            fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
                common::from_bytes(data).map(Self)
            }

            /// Replace a file by the bytes of `to_bytes`, in one step.
            fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
                common::save(py, &self.0, &path)
            }

            /// Read a file that `save` wrote.
            #[staticmethod]
            fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
                common::load(py, path).map(Self)
            }

            /// Return an independent copy.
            fn copy(&self, py: Python<'_>) -> PyResult<Self> {
                common::copy(py, &self.0).map(Self)
            }

            fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
                self.copy(py)
            }

            #[pyo3(signature = (memo, /))]
            fn __deepcopy__(&self, py: Python<'_>, memo: &Bound<'_, PyAny>) -> PyResult<Self> {
                let _ = memo;
                self.copy(py)
            }

            fn __reduce__<'py>(
                slf: &Bound<'py, Self>,
            ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
                let from_bytes = slf.get_type().getattr("from_bytes")?;
                Ok((from_bytes, (slf.get().to_bytes(slf.py())?,)))
            }

            fn __richcmp__<'py>(
                &self,
                other: &Bound<'py, PyAny>,
                op: pyo3::pyclass::CompareOp,
            ) -> PyResult<Bound<'py, PyAny>> {
                let py = other.py();
                let wanted = match op {
                    pyo3::pyclass::CompareOp::Eq => true,
                    pyo3::pyclass::CompareOp::Ne => false,
                    _ => return Ok(py.NotImplemented().into_bound(py)),
                };
                let Ok(other) = other.cast::<Self>() else {
                    return Ok(py.NotImplemented().into_bound(py));
                };
                let equal = common::equal(py, &self.0, &other.get().0)?;
                Ok(pyo3::types::PyBool::new(py, equal == wanted).to_owned().into_any())
            }

            /// The object's memory, in bytes.
            #[getter]
            fn nbytes(&self, py: Python<'_>) -> PyResult<u64> {
                look(py, &self.0, |object| Ok(object.memory_bytes()))
            }
        }
    };
}
pub(crate) use common;
