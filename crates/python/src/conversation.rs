//! What `fetch` and `store` say to a server. `_exchange.py` hands the commands to a client.

use std::sync::{Mutex, PoisonError};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyList, PyString, PyTuple};
use valkeybloom_bindings::{Family, Shared, Sketch, random_seed};
use valkeybloom_near::clock::now;
use valkeybloom_near::conversation::{self as talk, Existing, Failure, Options, Reply};

use super::bloom::Bloom;
use super::cms::CountMin;
use super::cuckoo::CuckooFilter;
use super::errors::raise;
use super::items::{class_of, digits};
use super::locked::detached;
use super::returned::words_of;
use super::tdigest::TDigest;
use super::topk::TopK;

/// An exchange of commands and replies, which fetches an object or stores one.
#[pyclass(frozen, module = "valkeybloom._core")]
pub struct Conversation {
    key: Py<PyBytes>,
    /// The class of the object that is stored.
    class: String,
    own: Mutex<talk::Conversation<PyErr>>,
}

#[pymethods]
impl Conversation {
    /// Begin to fetch the object of a key.
    #[staticmethod]
    fn fetch(key: Bound<'_, PyBytes>) -> PyResult<Self> {
        let seed = random_seed().map_err(raise)?;
        Ok(Self {
            own: Mutex::new(talk::Conversation::fetch(key.as_bytes(), seed)),
            class: String::new(),
            key: key.unbind(),
        })
    }

    /// Begin to store an object under a key.
    #[staticmethod]
    fn store(
        key: Bound<'_, PyBytes>,
        sketch: &Bound<'_, PyAny>,
        replace: bool,
        merge: bool,
        ttl_ms: Option<u64>,
    ) -> PyResult<Self> {
        let (py, class) = (key.py(), class_of(sketch));
        let sketch = copy_of(sketch)?;
        let existing = match (replace, merge) {
            (true, true) => {
                return Err(PyValueError::new_err("a key is either replaced or merged"));
            }
            (true, _) => Existing::Replace,
            (_, true) => Existing::Merge,
            _ => Existing::Keep,
        };
        let options = Options { existing, ttl_ms };
        let name = key.as_bytes();
        let random = getrandom::u64().map_err(std::io::Error::other)?;
        let own = py.detach(|| talk::Conversation::store(b"", name, sketch, options, random));
        Ok(Self {
            key: key.unbind(),
            class,
            own: Mutex::new(own),
        })
    }

    /// Return the words of the command to send next, or None at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(words) = own.next(now()) else {
            return Ok(None);
        };
        words_of(py, &*words).map(Some)
    }

    /// Take a reply.
    fn take(&self, reply: &Bound<'_, PyAny>) -> PyResult<()> {
        let elements: Vec<_> = if let Ok(list) = reply.cast::<PyList>() {
            list.iter()
                .map(|element| bytes_of(&element))
                .collect::<PyResult<_>>()?
        } else if reply.is_none() {
            Vec::new()
        } else {
            vec![bytes_of(reply)?]
        };
        let words: Vec<&[u8]> = elements.iter().map(PyBytesMethods::as_bytes).collect();
        self.learn(reply.py(), Reply::Came(&words))
    }

    /// Take the client's error, with its text if a server refused the command.
    fn fail(&self, error: Bound<'_, PyAny>, refusal: Option<&str>) -> PyResult<()> {
        let py = error.py();
        let error = PyErr::from_value(error);
        self.learn(py, Reply::Failed { error, refusal })
    }

    /// Return the object that was fetched, or None once an object is stored.
    fn end<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = talk::Conversation::Ended(Err(Failure::Unexpected));
        match std::mem::replace(&mut *own, ended).end() {
            Ok(None) => Ok(py.None().into_bound(py)),
            Ok(Some(sketch)) => object_of(py, sketch),
            Err(failure) => Err(self.exception(py, failure)?),
        }
    }
}

impl Conversation {
    fn learn(&self, py: Python<'_>, reply: Reply<'_, PyErr>) -> PyResult<()> {
        detached(py, || {
            let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            own.take(reply);
            Ok(())
        })
    }

    fn exception(&self, py: Python<'_>, failure: Failure<PyErr>) -> PyResult<PyErr> {
        let key = self.key.bind(py);
        let shown = || key.repr().map(|text| text.to_string());
        Ok(match failure {
            Failure::NoKey => PyKeyError::new_err(key.clone().unbind()),
            Failure::NoSketch(kind) => PyTypeError::new_err(format!(
                "{} holds a value of type {kind}, which is not a sketch",
                shown()?
            )),
            Failure::Exists => PyValueError::new_err(format!(
                "{} already exists: pass replace=True, or merge=True to unite both",
                shown()?
            )),
            Failure::NotMergeable => {
                PyValueError::new_err(format!("objects of {} can't be merged", self.class))
            }
            Failure::Undecodable(error) => raise(error.into()),
            Failure::Unexpected => PyTypeError::new_err(format!(
                "the client returned something other than a reply to the command, for {}",
                shown()?
            )),
            Failure::Client(error) => error,
            Failure::Refused { error, text } => {
                let text = format!("store to {}: {text}", shown()?);
                // Some classes, such as those of a cluster's redirections, take other texts.
                let told = error.get_type(py).call1((text,));
                told.map_or(error, PyErr::from_value)
            }
        })
    }
}

/// Returns a part of a reply.
fn bytes_of<'py>(part: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let py = part.py();
    if let Ok(bytes) = part.cast::<PyBytes>() {
        return Ok(bytes.clone());
    } else if let Ok(text) = part.cast::<PyString>() {
        return Ok(PyBytes::new(py, text.to_str()?.as_bytes()));
    } else if part.is_none() {
        return Ok(PyBytes::new(py, b""));
    } else if let Ok(number) = part.cast::<PyInt>()
        && !part.is_instance_of::<PyBool>()
    {
        return Ok(PyBytes::new(py, digits(number)?.as_bytes()));
    }
    // A coroutine that nobody awaits is closed, or Python warns of it.
    if let Some(close) = part.getattr_opt(intern!(py, "close"))? {
        close.call0()?;
    }
    Err(PyTypeError::new_err(format!(
        "execute_command returned {}, not a reply; asynchronous clients need valkeybloom.asyncio",
        class_of(part)
    )))
}

/// Copies an object of any class, because other threads may change it.
fn copy_of(object: &Bound<'_, PyAny>) -> PyResult<Sketch> {
    fn copied<F: Family + Send + Sync>(py: Python<'_>, object: &Shared<F>) -> PyResult<Sketch> {
        let copy = detached(py, || object.read(Family::try_clone)?)?;
        Ok(copy.into_sketch())
    }
    let py = object.py();
    if let Ok(object) = object.cast::<Bloom>() {
        copied(py, &object.get().0)
    } else if let Ok(object) = object.cast::<CuckooFilter>() {
        copied(py, &object.get().0)
    } else if let Ok(object) = object.cast::<CountMin>() {
        copied(py, &object.get().0)
    } else if let Ok(object) = object.cast::<TopK>() {
        copied(py, &object.get().0)
    } else if let Ok(object) = object.cast::<TDigest>() {
        copied(py, &object.get().0)
    } else {
        let text = format!("a sketch is needed, not {}", class_of(object));
        Err(PyTypeError::new_err(text))
    }
}

/// Returns a sketch as an object of its class.
pub fn object_of(py: Python<'_>, sketch: Sketch) -> PyResult<Bound<'_, PyAny>> {
    match sketch {
        Sketch::Bloom(object) => Bloom(Shared::new(object.into())).into_bound_py_any(py),
        Sketch::Cuckoo(object) => CuckooFilter(Shared::new(object.into())).into_bound_py_any(py),
        Sketch::CountMin(object) => CountMin(Shared::new(object.into())).into_bound_py_any(py),
        Sketch::TopK(object) => TopK(Shared::new(object.into())).into_bound_py_any(py),
        Sketch::TDigest(object) => TDigest(Shared::new(object.into())).into_bound_py_any(py),
    }
}
