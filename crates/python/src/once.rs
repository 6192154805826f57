//! The part of `Once`, and of the additions of `Near`, that is written in Rust: which commands are sent, and what their
//! replies mean. What sends them is in `once.py`, `near.py` and `asyncio.py`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use valkeybloom_bindings::{Error, Shared};
use valkeybloom_near::once::{self, Adding, Once};
use valkeybloom_sketches::Forgotten;

use super::batches::Source;
use super::locked::{change, look};
use super::process::{PerProcess, forks};
use super::returned::{self, words_of};

/// The receipts of the additions to a filter.
#[pyclass(frozen, subclass, module = "valkeybloom._core")]
pub struct Receipts {
    key: Box<[u8]>,
    consumer: Option<(Box<[u8]>, u64)>,
    adding: Adding,
    /// Whether the program wants receipts.
    is_on: bool,
    own: PerProcess<Once>,
}

/// A call that adds items.
#[pyclass(frozen, module = "valkeybloom._core")]
pub struct Addition {
    key: Box<[u8]>,
    /// `None` once it has ended.
    call: Mutex<Option<once::Addition>>,
    /// The forks of the process that began it.
    forks: u32,
}

/// What a server's error means to a call.
#[pyclass(frozen, module = "valkeybloom._core")]
pub enum Refusal {
    /// The receipt lacks an answer. It has those from `first` to `end`, without `end`.
    Forgotten { first: u64, end: u64 },
    /// The server has no receipts, which the program needs.
    Lacking {},
    /// The call goes on without receipts.
    Without {},
    /// Anything else.
    Other {},
}

/// Returns the object of a process, with receipts of its own or a consumer's, or without any.
fn made(key: &[u8], consumer: Option<&(Box<[u8]>, u64)>, adding: Adding, is_on: bool) -> Once {
    let receipts = match consumer {
        _ if !is_on => once::Receipts::Off,
        Some((consumer, begin)) => once::Receipts::Consumer(consumer, *begin),
        None => once::Receipts::Own(random()),
    };
    Once::new(key, receipts, adding)
}

/// Returns a number that no other process has.
fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    u128::from_ne_bytes(bytes)
}

impl Receipts {
    /// Returns the object of this process. A child has receipts if the program wants them, unless the server refused those of
    /// its parent.
    pub fn once(&self) -> &Shared<Once> {
        self.own.get(|parents| {
            let refused = matches!(parents.try_read(), Ok(Some(once)) if !once.has_receipts());
            let is_on = self.is_on && !refused;
            made(&self.key, self.consumer.as_ref(), self.adding, is_on)
        })
    }

    /// Begins a call with items. Each comes with whether a copy of the filter claims it.
    pub fn begin(
        &self,
        at: u64,
        items: impl FnOnce(&mut dyn FnMut(&[u8], bool) -> Result<(), Error>) -> Result<(), Error>,
    ) -> Result<Addition, Error> {
        let addition = self.once().write(|once| {
            let mut addition = once.begin(at);
            let pushed =
                items(&mut |item, is_claimed| Ok(once.push(&mut addition, item, is_claimed)?));
            match pushed {
                Ok(()) => Ok(addition),
                Err(error) => {
                    // It may have taken items of failed calls.
                    once.end(addition, false);
                    Err(error)
                }
            }
        })??;
        Ok(Addition {
            key: self.key.clone(),
            call: Mutex::new(Some(addition)),
            forks: forks(),
        })
    }
}

#[pymethods]
impl Receipts {
    #[new]
    fn new(
        key: &[u8],
        consumer: Option<&[u8]>,
        begin: u64,
        is_on: bool,
        creates: bool,
        may_skip_receipts: bool,
    ) -> Self {
        let consumer = consumer.map(|consumer| (consumer.into(), begin));
        let adding = Adding {
            creates,
            may_skip_receipts,
        };
        Self {
            key: key.into(),
            own: PerProcess::new(made(key, consumer.as_ref(), adding, is_on)),
            consumer,
            adding,
            is_on,
        }
    }

    /// Begin a call that adds a batch of items.
    #[pyo3(signature = (items, at, /))]
    fn _begin(&self, items: &Bound<'_, PyAny>, at: u64) -> PyResult<Addition> {
        Source::of(items)?.with(items.py(), |batch| {
            self.begin(at, |push| {
                batch.visit(&mut |items| {
                    for item in items {
                        push(item, false)?;
                    }
                    Ok(())
                })
            })
        })
    }

    /// End a call, whose answers were delivered to the program, or were not.
    #[pyo3(signature = (addition, is_delivered, /))]
    fn _end(&self, py: Python<'_>, addition: &Addition, is_delivered: bool) -> PyResult<()> {
        // The call of a parent is the parent's to end.
        if addition.forks != forks() {
            return Ok(());
        }
        let ended = addition.held().take();
        ended.map_or(Ok(()), |ended| {
            change(py, self.once(), |once| {
                once.end(ended, is_delivered);
                Ok(())
            })
        })
    }

    /// Return whether additions have receipts.
    fn _has_receipts(&self, py: Python<'_>) -> PyResult<bool> {
        look(py, self.once(), |once| Ok(once.has_receipts()))
    }

    /// Return the words of the command that reads where a consumer's receipt ends; None without a consumer.
    fn _position_words<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let words = look(py, self.once(), |once| Ok(once.position_words()))?;
        words.map(|sent| words_of(py, sent)).transpose()
    }

    /// Return the first position without an answer, by the reply to that command. None if it is not a receipt's.
    #[pyo3(signature = (head, /))]
    fn _position_in(&self, py: Python<'_>, head: &[u8]) -> PyResult<Option<u64>> {
        look(py, self.once(), |once| Ok(once.position_in(head)))
    }
}

impl Addition {
    fn held(&self) -> MutexGuard<'_, Option<once::Addition>> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn with<R>(&self, with: impl FnOnce(&mut once::Addition) -> R) -> Option<R> {
        self.held().as_mut().map(with)
    }

    fn answers(&self) -> Vec<bool> {
        let answers = |addition: &mut once::Addition| {
            let answers = addition.answers().into_iter();
            answers.map(Option::unwrap_or_default).collect()
        };
        self.with(answers).unwrap_or_default()
    }
}

#[pymethods]
impl Addition {
    /// Return the words of the command to send next, and the number of items in it. None at the end.
    fn _command<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyTuple>, usize)>> {
        let command = self.with(|addition| {
            let command = addition.command()?;
            let (words, items) = (command.words.iter().map(Vec::as_slice), command.items());
            let count = items.len();
            let key = std::iter::once(&self.key[..]);
            let (name, rest) = (words.clone().take(1), words.skip(1));
            let words = name.chain(key).chain(rest).chain(items);
            Some(words_of(py, words).map(|words| (words, count)))
        });
        command.flatten().transpose()
    }

    /// Return whether the commands have receipts, so that one may be sent again.
    fn _has_receipts(&self) -> bool {
        self.with(|addition| addition.has_receipts())
            .unwrap_or_default()
    }

    /// Take the answers to the first items of the last command.
    #[pyo3(signature = (answers, /))]
    fn _take(&self, answers: Vec<bool>) {
        self.with(|addition| {
            addition.take(answers);
        });
    }

    /// Take the refusal of an item, which stood in a reply after the answers that were taken.
    fn _refuse_item(&self) {
        self.with(once::Addition::refuse_item);
    }

    /// Take a server's error, which came in place of a reply. Return what it means.
    #[pyo3(signature = (text, /))]
    fn _refuse(&self, text: &str) -> Refusal {
        match self.with(|addition| addition.refuse(text)) {
            Some(once::Refusal::Forgotten(Forgotten { from, to })) => Refusal::Forgotten {
                first: from,
                end: to,
            },
            Some(once::Refusal::Lacking) => Refusal::Lacking {},
            Some(once::Refusal::Without) => Refusal::Without {},
            Some(once::Refusal::Other) | None => Refusal::Other {},
        }
    }

    /// Return the answers as a list.
    fn _answers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.answers())
    }

    /// Return the answers as a view of bool.
    fn _view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let answers: Vec<u8> = self.answers().into_iter().map(u8::from).collect();
        returned::view(py, &answers, "?")
    }
}
