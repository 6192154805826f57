//! Methods that all classes share.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use valkeybloom_bindings::{Error, Family, Shared};

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
    let written = py.detach(|| write(path, &encoded));
    written.map_err(|error| of_file(py, error, path))
}

/// The longest name of a file, in bytes, on most file systems.
const NAME_BYTES: usize = 255;

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

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = target(path)?;
    let old = path.metadata().ok();
    // A rename would put a file in the place of a pipe or a device.
    if is_open(&path) || old.as_ref().is_some_and(|old| !old.is_file()) {
        return append(&path, bytes);
    }
    let mut digits = [0; 8];
    getrandom::fill(&mut digits).map_err(io::Error::other)?;
    let end = format!(".unfinished-{:016x}", u64::from_ne_bytes(digits));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    if name.len() + end.len() > NAME_BYTES {
        let text = name.to_string_lossy().into_owned();
        let most = NAME_BYTES - end.len();
        let length = (0..=most).rfind(|at| text.is_char_boundary(*at));
        name = text[..length.unwrap_or(0)].into();
    }
    name.push(end);
    let unfinished = path.with_file_name(name);
    // Nobody else has this file, in this process or another one.
    let mut file = File::create_new(&unfinished)?;
    let written = old
        .map_or(Ok(()), |old| {
            // Only root may give files away, and a change of owner may take permissions away.
            let _ = fchown(&file, None, Some(old.gid()));
            let _ = fchown(&file, Some(old.uid()), None);
            file.set_permissions(old.permissions())
        })
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&unfinished, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

/// Returns the path at the end of symbolic links, where there may be no file, or the first one on the way that names an open
/// file.
fn target(path: &Path) -> io::Result<PathBuf> {
    /// The most links that Linux follows.
    const LINKS: usize = 40;
    let mut end = path.to_owned();
    for _ in 0..LINKS {
        if is_open(&end) || !end.is_symlink() {
            return Ok(end);
        }
        let next = std::fs::read_link(&end)?;
        end.set_file_name(next);
    }
    if end.is_symlink() {
        // The system follows as many links from the first one, so this fails with its error.
        path.metadata()?;
    }
    Ok(end)
}

/// Returns whether a path is that of an open file: what it links to may have no path, or one that others still write to.
fn is_open(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    folder.is_some_and(|folder| folder.starts_with("/proc") && folder.ends_with("fd"))
}

/// Writes to the end of a file, a pipe or a device.
fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Those who share the standard output share its position, too, and would write over what is appended at another one.
    if ["/dev/fd/1", "/proc/self/fd/1"].contains(&path.to_string_lossy().as_ref()) {
        io::stdout().write_all(bytes)?;
        return io::stdout().flush();
    }
    let mut open = File::options().append(true).open(path)?;
    open.write_all(bytes)
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
            /// the end of a symbolic link, the file that it points to is replaced. A file keeps its permissions, and its
            /// owner and group where the system permits that; a pipe, a device or an open file, such as /dev/stdout, is
            /// written to. A program that is killed leaves a file beside it, with `.unfinished-` and 16
            /// digits after its name or the beginning of a long one, which may be deleted.
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
