//! The class `Follower`, the part of `Near` that is written in Rust: the copy, its rules, and lookups. The thread that
//! sends commands is in `near.py`.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

use pyo3::exceptions::{PyBaseException, PyKeyError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use valkeybloom_bindings::{Bloom as Filter, Shared, Text};
use valkeybloom_near::clock::{now, now_for};
use valkeybloom_near::{self as near, Options, Reply, Request, State, Step};
use valkeybloom_protocol::batch::next_command;

use super::batches::{self, Source};
use super::bloom::Bloom;
use super::calls::Call;
use super::errors::raise;
use super::items::with_item;
use super::locked::{change, detached, look};

/// The longest time that is taken, in seconds: 30 years.
const LONGEST: f64 = 1e9;

/// The mark of an item whose answer only the server has.
const OPEN: u8 = 2;

/// The number of forks between the process that loaded the package and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Note that this process is a new child.
#[pyfunction]
pub fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// The follower of a process.
///
/// In a child of `fork`, a lock that another thread held stays locked. So a child has a follower of its own. It takes
/// over the copy, unless that was in use at the moment.
struct Own {
    forks: u32,
    follower: Shared<near::Follower>,
    child: OnceLock<Box<Own>>,
}

impl Own {
    fn new(forks: u32, follower: near::Follower) -> Self {
        Self {
            forks,
            follower: Shared::new(follower),
            child: OnceLock::new(),
        }
    }

    fn of_child(&self, forks: u32, options: Options) -> Box<Self> {
        let new = || near::Follower::new(options);
        let inherited = self
            .follower
            .try_write(|parents| std::mem::replace(parents, new()));
        let inherited = inherited.ok().and_then(Result::ok);
        Box::new(Self::new(forks, inherited.unwrap_or_else(new)))
    }
}

/// What a missing key is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// A filter without items, to which none can be added.
    Empty,
    /// An error.
    Error,
    /// A filter without items, which the server creates when one is added.
    Create,
}

impl Missing {
    fn named(name: &str) -> PyResult<Self> {
        match name {
            "empty" => Ok(Self::Empty),
            "error" => Ok(Self::Error),
            "create" => Ok(Self::Create),
            _ => Err(PyValueError::new_err("bad missing")),
        }
    }

    /// Returns the words around the key of a command that adds items.
    fn adding(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Empty | Self::Error => ("BF.INSERT", &["NOCREATE", "ITEMS"]),
            Self::Create => ("BF.MADD", &[]),
        }
    }
}

/// A copy of a server's filter, and what it takes to keep it fresh. `Near` is this class with a thread.
#[pyclass(frozen, subclass, module = "valkeybloom._core")]
pub struct Follower {
    options: Options,
    key: Box<[u8]>,
    missing: Missing,
    own: Own,
    /// The number of lookups that the server answered.
    asked: AtomicU64,
    is_closed: AtomicBool,
}

/// What a `Near` has done so far.
#[pyclass(frozen, get_all, module = "valkeybloom")]
pub struct NearStats {
    /// The replies of BF.READ.
    polls: u64,
    /// The new items in them.
    items: u64,
    /// The bytes of chunks and hashes received.
    bytes: u64,
    /// The copies that were fetched completely.
    fetches: u64,
    /// The copies that were given up because the filter could no longer be followed.
    resyncs: u64,
    /// The errors, and the commands without a reply.
    errors: u64,
    /// The text of the latest error; None without any.
    last_error: Option<String>,
    /// The lookups that the server answered: one for each item.
    asked: u64,
}

#[pymethods]
impl NearStats {
    fn __repr__(&self) -> String {
        let Self {
            polls,
            items,
            bytes,
            fetches,
            resyncs,
            errors,
            last_error,
            asked,
        } = self;
        let error = last_error
            .as_ref()
            .map_or_else(|| "None".to_owned(), |text| format!("{text:?}"));
        format!(
            "<NearStats polls={polls} items={items} bytes={bytes} fetches={fetches} resyncs={resyncs} errors={errors} \
             last_error={error} asked={asked}>"
        )
    }
}

fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    if seconds > 0.0 && seconds <= LONGEST {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(PyValueError::new_err(format!("bad {name}")))
}

impl Follower {
    #[inline]
    fn follower(&self) -> &Shared<near::Follower> {
        let forks = FORKS.load(Relaxed);
        if self.own.forks == forks {
            return &self.own.follower;
        }
        self.follower_of_child(forks)
    }

    #[cold]
    fn follower_of_child(&self, forks: u32) -> &Shared<near::Follower> {
        let mut own = &self.own;
        while own.forks != forks {
            own = own.child.get_or_init(|| own.of_child(forks, self.options));
        }
        &own.follower
    }

    /// Returns what the copy answers, if it does.
    #[inline]
    fn answer(&self, py: Python<'_>, item: &[u8]) -> PyResult<Option<bool>> {
        look(py, self.follower(), |follower| {
            Ok(follower.contains(item, now_for(follower)))
        })
    }

    /// Looks up a batch in the copy. Returns a byte for each item: 0, 1 or [`OPEN`], and the items for which `is_open`
    /// returns true.
    fn answer_each(
        &self,
        items: &Bound<'_, PyAny>,
        is_open: fn(Option<bool>) -> bool,
    ) -> PyResult<(Vec<u8>, Text)> {
        Source::of(items)?.with(items.py(), |batch| {
            let mut found: Vec<u8> = batches::answers(batch.len())?;
            let (mut open, mut pushed, mut at) = (Text::new(), Ok(()), 0);
            self.follower().read(|follower| {
                let now = now();
                batch.visit_all(|items| {
                    let start = at;
                    follower.contains_each(items.clone(), now, |answer| {
                        found[at] = if is_open(answer) {
                            OPEN
                        } else {
                            answer.unwrap_or_default().into()
                        };
                        at += 1;
                    });
                    for (item, found) in items.zip(&found[start..]) {
                        if *found == OPEN && pushed.is_ok() {
                            pushed = open.push(item);
                        }
                    }
                })
            })??;
            pushed.map(|()| (found, open))
        })
    }

    /// Requires that the key existed at the last answer of the server.
    fn require_key(&self, py: Python<'_>) -> PyResult<()> {
        if self.missing != Missing::Error {
            return Ok(());
        }
        let is_missing = look(py, self.follower(), |follower| {
            Ok(follower.is_fresh(now()) && follower.state() == State::Missing)
        })?;
        if is_missing {
            return Err(no_key(py, &self.key));
        }
        Ok(())
    }

    fn keep(&self, py: Python<'_>, items: &[&[u8]]) -> PyResult<()> {
        change(py, self.follower(), |follower| {
            // Not before the reply came, because then the server has them.
            let now = now();
            for item in items {
                follower.keep(item, now);
            }
            Ok(())
        })
    }

    fn take(&self, py: Python<'_>, reply: Reply<'_>, random: f64) -> PyResult<()> {
        detached(py, || {
            self.follower()
                .write(|follower| follower.take(reply, now(), random))
        })
    }
}

fn no_key(py: Python<'_>, key: &[u8]) -> PyErr {
    PyKeyError::new_err(PyBytes::new(py, key).unbind())
}

/// Requires that the server has the key, which its answer "no" does not tell.
fn require_key_at_server(of: &Bound<'_, Follower>) -> PyResult<()> {
    let (py, follower) = (of.py(), of.get());
    if follower.missing != Missing::Error {
        return Ok(());
    }
    let _call = Call::begin();
    let is_there = is_one(&of.call_method1(intern!(py, "_send"), ("EXISTS",))?)?;
    is_there
        .then_some(())
        .ok_or_else(|| no_key(py, &follower.key))
}

/// Sends a command with an item. Returns whether the reply is 1.
#[cold]
fn send(of: &Bound<'_, Follower>, command: &str, item: &[u8]) -> PyResult<bool> {
    let py = of.py();
    let words = (command, batches::bytes(py, item)?);
    let _call = Call::begin();
    is_one(&of.call_method1(intern!(py, "_send"), words)?)
}

/// Sends a command with options and items, in pieces. Passes the items of a piece and whether their replies are 1 to `take`.
fn send_each(
    of: &Bound<'_, Follower>,
    (command, options): (&str, &[&str]),
    items: &Text,
    mut take: impl FnMut(&[&[u8]], &[bool]) -> PyResult<()>,
) -> PyResult<()> {
    let py = of.py();
    let items: Vec<&[u8]> = items.items().map_err(raise)?.collect();
    let mut left = &items[..];
    let _call = Call::begin();
    while !left.is_empty() {
        let (count, _) = next_command(left.iter().map(|item| item.len()));
        let (piece, later) = left.split_at(count);
        left = later;
        let words = std::iter::once(&command).chain(options);
        let mut words: Vec<_> = words
            .map(|word| PyString::new(py, word).into_any())
            .collect();
        for item in piece {
            words.push(batches::bytes(py, item)?.into_any());
        }
        let replies = of.call_method1(intern!(py, "_send"), PyTuple::new(py, words)?)?;
        let (mut ones, mut end) = (Vec::with_capacity(piece.len()), Ok(()));
        for reply in replies.try_iter()? {
            match is_one(&reply?) {
                Ok(is_one) => ones.push(is_one),
                Err(error) => {
                    end = Err(error);
                    break;
                }
            }
        }
        ones.truncate(piece.len());
        take(&piece[..ones.len()], &ones)?;
        end?;
        if ones.len() < piece.len() {
            let text = format!("{command} returned too few replies");
            return Err(PyValueError::new_err(text));
        }
    }
    Ok(())
}

/// Returns whether a reply is 1 or true. A refusal among the replies to a batch is an exception that was not raised.
fn is_one(reply: &Bound<'_, PyAny>) -> PyResult<bool> {
    if reply.is_instance_of::<PyBaseException>() {
        return Err(PyErr::from_value(reply.clone()));
    }
    Ok(reply.extract::<i64>()? != 0)
}

#[pymethods]
impl Follower {
    #[new]
    fn new(
        key: &[u8],
        every: f64,
        max_age: f64,
        confirm: bool,
        refresh: Option<f64>,
        lags: bool,
        missing: &str,
    ) -> PyResult<Self> {
        let max_age = seconds("max_age", max_age)?;
        let options = Options {
            every: seconds("every", every)?,
            max_age,
            confirm,
            refresh: refresh.map(|s| seconds("refresh", s)).transpose()?,
            lag: if lags { max_age } else { Duration::ZERO },
        };
        if options.max_age <= options.every {
            let text = "(max_age should be larger than every)";
            return Err(PyValueError::new_err(text));
        }
        Ok(Self {
            options,
            key: key.into(),
            missing: Missing::named(missing)?,
            own: Own::new(FORKS.load(Relaxed), near::Follower::new(options)),
            asked: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        })
    }

    fn __contains__(slf: &Bound<'_, Self>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let of = slf.get();
        with_item(item, |bytes| {
            let answer = of.answer(slf.py(), bytes)?;
            if answer != Some(true) {
                of.require_key(slf.py())?;
            }
            if let Some(found) = answer {
                return Ok(found);
            }
            of.asked.fetch_add(1, Relaxed);
            let found = send(slf, "BF.EXISTS", bytes)?;
            if !found {
                require_key_at_server(slf)?;
            }
            Ok(found)
        })
    }

    /// Return whether an item is in the filter. It is `item in near`.
    #[pyo3(signature = (item, /))]
    fn contains(slf: &Bound<'_, Self>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        Self::__contains__(slf, item)
    }

    /// Look up a batch of items. Return a memoryview of bool, one byte for each item.
    ///
    /// A batch is one of those that `Bloom` takes. The server is asked for the items that the copy does not answer, in
    /// commands of up to 10,000 items.
    #[pyo3(signature = (items, /))]
    fn contains_many<'py>(
        slf: &Bound<'py, Self>,
        items: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let of = slf.get();
        let (mut found, open) = of.answer_each(items, |answer| answer.is_none())?;
        of.require_key(slf.py())?;
        of.asked.fetch_add(open.len() as u64, Relaxed);
        let mut missing = found.iter_mut().filter(|found| **found == OPEN);
        let mut is_any_denied = false;
        send_each(slf, ("BF.MEXISTS", &[]), &open, |_, ones| {
            is_any_denied |= ones.contains(&false);
            for (missing, is_one) in missing.by_ref().zip(ones) {
                *missing = (*is_one).into();
            }
            Ok(())
        })?;
        if is_any_denied {
            require_key_at_server(slf)?;
        }
        batches::view(slf.py(), &found, "?")
    }

    /// Add an item to the server's filter. Return True if it was new.
    ///
    /// If the copy claims the item, nothing is sent. If there is no such key, the client's exception is raised, unless
    /// `missing` is "create". A lookup of this object finds the item from now on.
    #[pyo3(signature = (item, /))]
    fn add(slf: &Bound<'_, Self>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (of, py) = (slf.get(), slf.py());
        with_item(item, |bytes| {
            if of.answer(py, bytes)? == Some(true) {
                return Ok(false);
            }
            let mut one = Text::new();
            one.push(bytes).map_err(raise)?;
            let mut is_new = false;
            send_each(slf, of.missing.adding(), &one, |items, ones| {
                is_new = ones.contains(&true);
                of.keep(py, items)
            })?;
            Ok(is_new)
        })
    }

    /// Add a batch of items to the server's filter. Return how many were new.
    ///
    /// Only items that the copy does not claim are sent, in commands of up to 10,000 items. If the server refuses an
    /// item, the client's exception is raised, and the items before it are added. A missing key is as for `add`.
    #[pyo3(signature = (items, /))]
    fn update(slf: &Bound<'_, Self>, items: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (of, mut new) = (slf.get(), 0);
        let (_, open) = of.answer_each(items, |answer| answer != Some(true))?;
        send_each(slf, of.missing.adding(), &open, |items, ones| {
            new += ones.iter().filter(|is_one| **is_one).count();
            of.keep(slf.py(), items)
        })?;
        Ok(new)
    }

    /// Return the copy as a filter of its own, or None if there is none.
    ///
    /// It is what the server had `age` seconds ago, byte for byte. It may lack items that this object has added since.
    fn copy(&self, py: Python<'_>) -> PyResult<Option<Bloom>> {
        let copy = detached(py, || {
            self.follower().read(|follower| {
                let copy = follower.copy();
                copy.map(|(object, _)| Filter::copy_of(object)).transpose()
            })?
        })?;
        Ok(copy.map(|filter| Bloom(Shared::new(filter))))
    }

    /// How old the copy is: the seconds since the last complete poll was sent. None without a copy.
    ///
    /// If the key is missing, it is how old that finding is. The time for which the machine is suspended does not count.
    #[getter]
    fn age(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        look(py, self.follower(), |follower| {
            Ok(follower.age(now()).map(|age| age.as_secs_f64()))
        })
    }

    /// What the object is doing, as a text.
    ///
    /// "syncing": it fetches the copy, or catches up with the filter. "following": it has a copy, and polls. "missing":
    /// there is no such key, so there are no items. "refused": the filter can't be followed, for the reason in
    /// `stats.last_error`; it is tried again every 30 seconds. "closed": it was closed.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<&'static str> {
        if self.is_closed.load(Relaxed) {
            return Ok("closed");
        }
        let state = look(py, self.follower(), |follower| Ok(follower.state()))?;
        Ok(match state {
            State::Syncing => "syncing",
            State::Following => "following",
            State::Missing => "missing",
            State::Refused => "refused",
        })
    }

    /// What has been done so far, as a `NearStats`.
    #[getter]
    fn stats(&self, py: Python<'_>) -> PyResult<NearStats> {
        let stats = look(py, self.follower(), |follower| Ok(follower.stats().clone()))?;
        Ok(NearStats {
            polls: stats.polls,
            items: stats.items,
            bytes: stats.bytes,
            fetches: stats.fetches,
            resyncs: stats.resyncs,
            errors: stats.errors,
            last_error: stats.last_error,
            asked: self.asked.load(Relaxed),
        })
    }

    /// Return the words of the command to send next, or how many seconds to wait.
    fn _next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (step, now) = change(py, self.follower(), |follower| {
            let now = now();
            Ok((follower.next(now), now))
        })?;
        let request: Request = match step {
            Step::Wait(until) => {
                let left = until.saturating_sub(now).as_secs_f64();
                return Ok(left.into_pyobject(py)?.into_any());
            }
            Step::Send(request) => request,
        };
        let words = request.words(&self.key);
        let words = words.iter().enumerate().map(|(place, word)| match place {
            // Clients look the command's name up.
            0 => PyString::new(py, &String::from_utf8_lossy(word)).into_any(),
            _ => PyBytes::new(py, word).into_any(),
        });
        Ok(PyTuple::new(py, words)?.into_any())
    }

    /// Take a reply of BF.READ.
    fn _take_news(
        &self,
        py: Python<'_>,
        cursor: &[u8],
        items: u64,
        hashes: &[u8],
        random: f64,
    ) -> PyResult<()> {
        let news = Reply::News {
            cursor,
            items,
            hashes,
        };
        self.take(py, news, random)
    }

    /// Take a reply of BF.SCANDUMP.
    fn _take_piece(
        &self,
        py: Python<'_>,
        cursor: u64,
        bytes: &[u8],
        id: &[u8],
        random: f64,
    ) -> PyResult<()> {
        self.take(py, Reply::Piece { cursor, bytes, id }, random)
    }

    /// Take a server's error.
    fn _take_refusal(&self, py: Python<'_>, text: &str, random: f64) -> PyResult<()> {
        self.take(py, Reply::Refused(text), random)
    }

    /// Take the reason why there is no reply.
    fn _take_loss(&self, py: Python<'_>, text: &str, random: f64) -> PyResult<()> {
        self.take(py, Reply::Lost(text), random)
    }

    /// Raise KeyError if the key is missing, and that is an error.
    fn _require_key(&self, py: Python<'_>) -> PyResult<()> {
        self.require_key(py)
    }

    /// Return whether the copy answers.
    fn _is_fresh(&self, py: Python<'_>) -> PyResult<bool> {
        look(py, self.follower(), |follower| Ok(follower.is_fresh(now())))
    }

    /// Drop the copy for good.
    fn _close(&self, py: Python<'_>) -> PyResult<()> {
        self.is_closed.store(true, Relaxed);
        let empty = near::Follower::new(self.options);
        let dropped = detached(py, || {
            self.follower().write(|f| std::mem::replace(f, empty))
        })?;
        py.detach(|| drop(dropped));
        Ok(())
    }
}
