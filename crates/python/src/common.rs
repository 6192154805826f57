//! Methods that all classes share.

use std::io;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use valkeybloom_bindings::{Error, Family, Shared};
use valkeybloom_files::replace;

use super::calls::Call;
use super::errors::raise;
use super::items::bytes_of;
use super::locked::{detached, made};
use super::returned;

/// Encodes an object without the interpreter lock.
pub fn to_bytes<'py, F: Family + Send + Sync>(
    py: Python<'py>,
    object: &Shared<F>,
) -> PyResult<Bound<'py, PyBytes>> {
    let encoded = detached(py, || object.read(Family::to_bytes)?)?;
    returned::bytes(py, &encoded)
}

/// Decodes an object without the interpreter lock.
pub fn from_bytes<F: Family + Send>(data: &Bound<'_, PyAny>) -> PyResult<Shared<F>> {
    let copy = bytes_of(data)?;
    let bytes = copy.as_bytes();
    made(data.py(), || F::from_bytes(bytes))
}

pub fn copy<F: Family + Send + Sync>(py: Python<'_>, object: &Shared<F>) -> PyResult<Shared<F>> {
    made(py, || object.read(Family::try_clone)?)
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

/// Replaces a file by the bytes of an object, in one step. They are a payload of RESTORE, which ends in a checksum.
pub fn save<F: Family + Send + Sync>(
    py: Python<'_>,
    object: &Shared<F>,
    path: &Path,
) -> PyResult<()> {
    let encoded = detached(py, || object.read(|object| object.by_ref().to_dump()))?;
    let encoded = encoded.ok_or_else(|| raise(Error::NO_MEMORY))?;
    let written = py.detach(|| replace(path, &encoded));
    written.map_err(|error| of_file(py, error, path))
}

/// The path of a file: anything that `open` takes as one.
pub struct FilePath(pub PathBuf);

impl<'py> FromPyObject<'_, 'py> for FilePath {
    type Error = PyErr;

    fn extract(path: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let _call = Call::begin();
        let os = path.py().import("os")?;
        Ok(Self(os.call_method1("fsdecode", (path,))?.extract()?))
    }
}

/// Returns Python's exception for the error of a file, which names it.
fn of_file(py: Python<'_>, error: io::Error, path: &Path) -> PyErr {
    let Some(number) = error.raw_os_error() else {
        return error.into();
    };
    let strerror = |os: Bound<'_, PyModule>| Ok(os.call_method1("strerror", (number,))?.unbind());
    let text: PyResult<Py<PyAny>> = py.import("os").and_then(strerror);
    match text {
        Ok(text) => PyOSError::new_err((number, text, path.as_os_str().to_owned())),
        Err(error) => error,
    }
}

/// Reads an object from a file.
pub fn load<F: Family + Send>(py: Python<'_>, path: PathBuf) -> PyResult<Shared<F>> {
    let bytes = py.detach(|| std::fs::read(&path));
    let bytes = bytes.map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => raise(Error::NO_MEMORY),
        _ => of_file(py, error, &path),
    })?;
    made(py, || F::from_bytes(&bytes))
}

/// Returns a number of items as a length in Python.
pub fn length(items: u64) -> usize {
    let length = usize::try_from(items).unwrap_or(usize::MAX);
    length.min(isize::MAX.cast_unsigned())
}

/// Defines properties of a class: the name, the type and the value of each, which is read from the object.
macro_rules! properties {
    ($class:ident($object:ident): $($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        #[pymethods]
        impl $class {
            $(
                $(#[$doc])*
                #[getter]
                fn $name(&self, py: Python<'_>) -> PyResult<$type> {
                    look(py, &self.0, |$object| Ok($value))
                }
            )*
        }
    };
}
pub(crate) use properties;

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

            /// Write the object to a file, or replace the file, in one step.
            ///
            /// The file has the format of a server's DUMP, which ends in a checksum, and `from_bytes` reads it, too. At
            /// the end of a symbolic link, the file that it points to is replaced; a pipe, a device or an open file, such
            /// as /dev/stdout, is written to. The new file has the old one's permissions, and its owner and group where
            /// the system permits that, but not its access control lists, and other hard links keep the old file. A
            /// program that is killed leaves a file in the same folder, which may be deleted: its name is
            /// `.valkeybloom-`, 16 digits and `.tmp`.
            fn save(&self, py: Python<'_>, path: common::FilePath) -> PyResult<()> {
                common::save(py, &self.0, &path.0)
            }

            /// Read a file that `save` wrote, or one with the bytes of `to_bytes`.
            #[staticmethod]
            fn load(py: Python<'_>, path: common::FilePath) -> PyResult<Self> {
                common::load(py, path.0).map(Self)
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
        }

        common::properties! { $class(object):
            /// The object's memory, in bytes.
            nbytes: u64 = object.memory_bytes();
        }
    };
}
pub(crate) use common;
