//! The class `Follower`, the part of both `Near` that is written in Rust: the copy, its rules, and lookups. What sends
//! commands is in `near.py` and `asyncio.py`.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyTuple};
use valkeybloom_bindings::{Error, Shared, Text};
use valkeybloom_near::clock::{now, now_for};
use valkeybloom_near::{self as near, OPEN, Options, Reply, Request, State, Step};
use valkeybloom_protocol::batch::{COMMAND_ITEMS, next_command};

use super::batches::Source;
use super::bloom::Bloom;
use super::calls::Call;
use super::errors::raise;
use super::items::with_item;
use super::locked::{change, detached, look};
use super::once::{Addition, Receipts};
use super::process::PerProcess;
use super::returned::{self, words_of};
use super::words::{Number, Real};

/// The longest time that is taken, in seconds: 30 years.
const LONGEST: f64 = 1e9;

/// Items that only the server answers, in pieces of a command each.
#[pyclass(frozen, module = "valkeybloom._core")]
struct Pieces {
    items: Text,
    /// The number of items in the pieces so far.
    done: Mutex<usize>,
}

#[pymethods]
impl Pieces {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = *done..self.items.len().min(*done + COMMAND_ITEMS);
        let items = self.items.within(rest).map_err(raise)?;
        let (count, _) = next_command(items.clone().map(<[u8]>::len));
        *done += count;
        let piece = items.take(count).map(|item| returned::bytes(py, item));
        let piece = piece.collect::<PyResult<Vec<_>>>()?;
        (count > 0).then(|| PyTuple::new(py, piece)).transpose()
    }
}

/// A copy of a server's filter, and what it takes to keep it fresh. `Near` is this class with a thread or a task.
#[pyclass(frozen, subclass, module = "valkeybloom._core")]
pub struct Follower {
    options: Options,
    key: Box<[u8]>,
    /// Whether a missing key is an error.
    needs_key: bool,
    own: PerProcess<near::Follower>,
    /// The number of items that the server was asked about.
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
    /// The items that the server was asked about.
    asked: u64,
}

#[pymethods]
impl NearStats {
    fn __repr__(&self) -> String {
        let error = self.last_error.as_ref().map(|text| format!("{text:?}"));
        let (polls, items, bytes) = (self.polls, self.items, self.bytes);
        let (fetches, resyncs, errors) = (self.fetches, self.resyncs, self.errors);
        let (error, asked) = (error.as_deref().unwrap_or("None"), self.asked);
        format!(
            "<NearStats polls={polls} items={items} bytes={bytes} fetches={fetches} resyncs={resyncs} errors={errors} \
             last_error={error} asked={asked}>"
        )
    }
}

fn seconds(name: &str, Number(seconds): Real) -> PyResult<Duration> {
    if seconds > 0.0 && seconds <= LONGEST {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(PyValueError::new_err(format!("bad {name}")))
}

impl Follower {
    /// Returns the follower of this process. A child takes over the copy, unless that was in use at the moment.
    #[inline]
    fn follower(&self) -> &Shared<near::Follower> {
        self.own.get(|parents| {
            let new = near::Follower::new(self.options);
            match parents.try_write() {
                Ok(Some(mut parents)) => std::mem::replace(&mut *parents, new),
                _ => new,
            }
        })
    }

    /// Returns what the copy answers, if it does.
    #[inline]
    fn answer(&self, py: Python<'_>, item: &[u8]) -> PyResult<Option<bool>> {
        look(py, self.follower(), |follower| {
            Ok(follower.contains(item, now_for(follower)))
        })
    }

    /// Returns what the copy answers to a lookup, and counts those that it does not answer.
    #[inline]
    fn look_up(&self, py: Python<'_>, item: &[u8]) -> PyResult<Option<bool>> {
        let answer = self.answer(py, item)?;
        if answer != Some(true) {
            self.require_key(py)?;
        }
        if answer.is_none() {
            self.asked.fetch_add(1, Relaxed);
        }
        Ok(answer)
    }

    /// Looks up a batch in the copy. Returns a byte for each item: 0, 1 or [`OPEN`] and the open items.
    fn answer_each(&self, items: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, Text)> {
        Source::of(items)?.with(items.py(), |batch| {
            let mut found: Vec<u8> = returned::answers(batch.len())?;
            let (mut open, mut at) = (Text::new(), 0);
            self.follower().read(|follower| {
                let now = now();
                batch.visit(&mut |items| {
                    let start = at;
                    follower.contains_each(items.clone(), now, |answer| {
                        found[at] = answer.map_or(OPEN, u8::from);
                        at += 1;
                    });
                    for (item, found) in items.zip(&found[start..]) {
                        if *found == OPEN {
                            open.push(item)?;
                        }
                    }
                    Ok(())
                })
            })??;
            Ok((found, open))
        })
    }

    fn take(&self, py: Python<'_>, reply: Reply<'_>, random: f64) -> PyResult<()> {
        detached(py, || {
            self.follower()
                .write(|follower| follower.take(reply, now(), random))
        })
    }
}

#[pymethods]
impl Follower {
    #[new]
    fn new(
        key: &[u8],
        every: Real,
        max_age: Real,
        confirm: bool,
        refresh: Option<Real>,
        lags: bool,
        needs_key: bool,
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
            needs_key,
            own: PerProcess::new(near::Follower::new(options)),
            asked: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        })
    }

    fn __contains__(slf: &Bound<'_, Self>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = slf.py();
        with_item(item, |bytes| {
            if let Some(found) = slf.get().look_up(py, bytes)? {
                return Ok(found);
            }
            let item = returned::bytes(py, bytes)?;
            let _call = Call::begin();
            slf.call_method1(intern!(py, "_ask"), (item,))?.is_truthy()
        })
    }

    /// Return whether an item is in the filter, or the item's bytes if the server has to be asked.
    #[pyo3(signature = (item, /))]
    fn _look_up<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = item.py();
        with_item(item, |bytes| match self.look_up(py, bytes)? {
            Some(found) => Ok(PyBool::new(py, found).to_owned().into_any()),
            None => Ok(returned::bytes(py, bytes)?.into_any()),
        })
    }

    /// Look up a batch. Return a byte for each item: 0, 1, or 2 if the server has to be asked; and the items to ask for.
    #[pyo3(signature = (items, /))]
    fn _look_up_many<'py>(
        &self,
        items: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyByteArray>, Pieces)> {
        let (found, items_left) = self.answer_each(items)?;
        self.require_key(items.py())?;
        self.asked.fetch_add(items_left.len() as u64, Relaxed);
        let pieces = Pieces {
            items: items_left,
            done: Mutex::new(0),
        };
        Ok((PyByteArray::new(items.py(), &found), pieces))
    }

    /// Begin a call that adds an item. Return None if the copy claims it.
    #[pyo3(signature = (receipts, item, /))]
    fn _begin(&self, receipts: &Receipts, item: &Bound<'_, PyAny>) -> PyResult<Option<Addition>> {
        let py = item.py();
        with_item(item, |bytes| {
            let is_claimed = self.answer(py, bytes)? == Some(true);
            if is_claimed && !look(py, receipts.once(), |once| Ok(once.has_debts()))? {
                return Ok(None);
            }
            let addition = detached(py, || receipts.begin(0, |push| push(bytes, is_claimed)))?;
            Ok(Some(addition))
        })
    }

    /// Begin a call that adds a batch of items.
    #[pyo3(signature = (receipts, items, /))]
    fn _begin_many(&self, receipts: &Receipts, items: &Bound<'_, PyAny>) -> PyResult<Addition> {
        Source::of(items)?.with(items.py(), |batch| {
            let mut claimed = Vec::new();
            claimed.try_reserve_exact(batch.len())?;
            self.follower().read(|follower| {
                let now = now();
                batch.visit(&mut |items| {
                    let note = |answer| claimed.push(answer == Some(true));
                    follower.contains_each(items, now, note);
                    Ok(())
                })
            })??;
            let mut claimed = claimed.into_iter();
            receipts.begin(0, |push| {
                batch.visit(&mut |items| {
                    for (item, is_claimed) in items.zip(&mut claimed) {
                        push(item, is_claimed)?;
                    }
                    Ok(())
                })
            })
        })
    }

    /// Take the answers to the first items of a call's last command, and note that the server has these.
    #[pyo3(signature = (addition, answers, /))]
    fn _take(&self, py: Python<'_>, addition: &Addition, answers: Vec<bool>) -> PyResult<()> {
        change(py, self.follower(), |follower| {
            // Not before the reply came, because then the server has them.
            let now = now();
            addition.with(|addition| {
                for item in addition.take(answers) {
                    follower.keep(item, now);
                }
            });
            Ok(())
        })
    }

    /// Return the copy as a filter of its own, or None if there is none.
    ///
    /// It is what the server had `age` seconds ago, byte for byte. It may lack items that this object has added since.
    fn copy(&self, py: Python<'_>) -> PyResult<Option<Bloom>> {
        let copy = detached(py, || {
            self.follower().read(|follower| {
                let copy = follower.copy();
                let copied = copy.map(|(object, _)| object.try_clone().ok_or(Error::NO_MEMORY));
                copied.transpose()
            })?
        })?;
        Ok(copy.map(|object| Bloom(Shared::new(object.into()))))
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
    /// "syncing": it fetches the copy, or catches up with the filter. "following": it has a copy that answers, and polls.
    /// "missing": there is no such key, so there are no items. "stale": the copy is too old to answer, or lacks what this
    /// object added; it polls. "refused": the filter can't be followed, for the reason in `stats.last_error`; it is tried
    /// again within 2 or 30 seconds, by the reason, or after `every` if it is longer. "closed": it was closed.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<&'static str> {
        if self.is_closed.load(Relaxed) {
            return Ok("closed");
        }
        let state = look(py, self.follower(), |follower| Ok(follower.state(now())))?;
        Ok(state.name())
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
        Ok(words_of(py, words)?.into_any())
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
    fn _take_chunk(
        &self,
        py: Python<'_>,
        cursor: u64,
        bytes: &[u8],
        id: &[u8],
        random: f64,
    ) -> PyResult<()> {
        self.take(py, Reply::Chunk { cursor, bytes, id }, random)
    }

    /// Take a server's error.
    fn _take_refusal(&self, py: Python<'_>, text: &str, random: f64) -> PyResult<()> {
        self.take(py, Reply::Refused(text), random)
    }

    /// Take the reason why there is no reply.
    fn _take_loss(&self, py: Python<'_>, text: &str, random: f64) -> PyResult<()> {
        self.take(py, Reply::Lost(text), random)
    }

    /// Raise KeyError if the key was missing at the last answer of the server, and that is an error.
    #[pyo3(name = "_require_key")]
    fn require_key(&self, py: Python<'_>) -> PyResult<()> {
        if self.needs_key
            && look(py, self.follower(), |follower| {
                Ok(follower.state(now()) == State::Missing)
            })?
        {
            return Err(PyKeyError::new_err(PyBytes::new(py, &self.key).unbind()));
        }
        Ok(())
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
