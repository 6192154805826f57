//! Keys with receipts: strings that keep the answers of additions, so that the same answers can be given again.
//!
//! A receipt changes in the same step as its filter. It is read first, then the filter takes the items that are not
//! answered yet, then their answers are appended; and only after that is anything published. Each key is closed before
//! the next one is opened, because opening a key that has expired runs subscribers of its event. A key that was opened
//! for writing in a command does not expire in that command, so none run between the first change and the last, except
//! those of the server's `new` event. If one of those subscribers stores another type under the key, it is left alone.

use std::ffi::CStr;

use valkeybloom_protocol::bloom::{ANSWERED_ANSWERS, ANSWERED_RECEIPT, Once};
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::{Added, Refusal};
use valkeybloom_sketches::{Answers, Receipt, Resize};

use crate::ffi::{Access, Argument, Argv, Keyspace, Str, Text, server};
use crate::keys::{Change, EXPIRE};
use crate::request::{List, reserved};

use super::settings;

/// The event of answers that were appended to a receipt.
const ANSWERED: &CStr = c"bloom.receipt";

/// Where the answers of a command's new items belong.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The key of the receipt.
    pub receipt: Str<'a>,
    /// The position of the first of these items.
    pub first: u64,
}

/// The answers that a receipt has for the first items of a command.
pub struct KnownAnswers<'a> {
    /// The answers.
    pub answers: List<bool>,
    /// Where those of the other items belong.
    pub rest: Place<'a>,
}

/// Looks up the answers of `count` items.
///
/// # Errors
/// [`Error::Forgotten`], [`Error::NO_RECEIPT`], [`Error::WRONG_TYPE`] or [`Error::SAVING`].
pub fn look_up<'a>(
    keys: &mut Keyspace<'a>,
    args: &Argv<'a>,
    once: &Once,
    count: usize,
) -> Result<KnownAnswers<'a>, Error> {
    let Once {
        position, begins, ..
    } = *once;
    let receipt = args.string(once.receipt);
    let mut key = keys.open(receipt, Access::Write);
    let mut text = key.text_mut()?;
    let held = text.as_mut().map(|text| Receipt::read(text.bytes()));
    let held = held.map(|held| held.ok_or(Error::NO_RECEIPT)).transpose()?;
    let next = Receipt::resume(held.as_ref(), position, begins)?;
    let first = next.min(position + count as u64);
    let mut answers = reserved(usize::try_from(first - position).unwrap_or(0))?;
    let answer = |position| held.and_then(|held| held.answer(position)) == Some(true);
    answers.extend((position..first).map(answer));
    let rest = Place { receipt, first };
    Ok(KnownAnswers { answers, rest })
}

/// Answers that are to be appended to a receipt.
pub struct PendingAnswers<'a> {
    receipt: Str<'a>,
    answers: Answers,
}

impl<'a> PendingAnswers<'a> {
    /// Makes an empty list with room for `count` answers.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn with_room(place: Place<'a>, count: usize) -> Result<Self, Error> {
        let answers = Answers::with_room(place.first, count);
        Ok(Self {
            receipt: place.receipt,
            answers: answers.map_err(|_| Error::Refused(Refusal::OutOfMemory))?,
        })
    }

    /// Notes the answers of an addition. Returns `None` if the first item was refused.
    pub fn with_answers(mut self, outcomes: &[Result<Added, Refusal>]) -> Option<Self> {
        let added = outcomes.iter().map_while(|outcome| outcome.ok());
        added.for_each(|added| self.answers.push(added == Added::New));
        (!self.answers.is_empty()).then_some(self)
    }

    /// Appends the answers to the receipt, and replicates that, after the change of the filter was replicated. Returns `None`
    /// if the key has another type now.
    pub fn append(mut self, of_filter: &mut Change<'_, 'a>) -> Option<AppendedReceipt<'a>> {
        let (filter, receipt) = (of_filter.name(), self.receipt);
        let keys = of_filter.keys();
        let mut key = keys.open(receipt, Access::Write);
        let expiry = match key.text_mut() {
            Ok(Some(mut text)) => {
                self.answers.receipt().append_to(&mut text);
                extend_life(&mut text)
            }
            Ok(None) => {
                let expiry = Expiry::of_use(None);
                key.set_text(self.answers.bytes(), expiry.at_ms());
                expiry
            }
            Err(_) => return None,
        };
        let arguments = [
            Argument::Word(c"ONCE"),
            Argument::Items(&[receipt]),
            Argument::Word(c"ANSWERED"),
            Argument::Bytes(self.answers.bytes()),
        ];
        keys.replicate(c"BF.INSERT", filter, &arguments);
        expiry.replicate(keys, receipt);
        Some(AppendedReceipt { receipt, expiry })
    }
}

/// A receipt with new answers, which are replicated and not published yet.
pub struct AppendedReceipt<'a> {
    receipt: Str<'a>,
    expiry: Expiry,
}

impl AppendedReceipt<'_> {
    /// Publishes the answers, with the events that a replica publishes.
    pub fn publish(self, keys: &mut Keyspace) {
        keys.publish(
            self.receipt,
            [ANSWERED].into_iter().chain(self.expiry.event()),
        );
    }
}

/// Lets a receipt that is used expire later, though nothing is appended to it, and publishes that.
pub fn touch<'a>(keys: &mut Keyspace<'a>, receipt: Str<'a>) {
    let mut key = keys.open(receipt, Access::Write);
    let Ok(Some(mut text)) = key.text_mut() else {
        return;
    };
    let expiry = extend_life(&mut text);
    drop(key);
    expiry.replicate(keys, receipt);
    if let Some(event) = expiry.event() {
        keys.publish(receipt, [event]);
    }
}

/// Appends the answers of a command that was executed elsewhere. Words that this module does not replicate change nothing.
pub fn replay<'a>(keys: &mut Keyspace<'a>, args: &Argv<'a>) {
    let receipt = args.string(ANSWERED_RECEIPT);
    let bytes = args.string(ANSWERED_ANSWERS).bytes();
    let Some(new) = Receipt::read(bytes) else {
        return;
    };
    let mut key = keys.open(receipt, Access::Write);
    match key.text_mut() {
        Ok(Some(mut text)) => {
            new.append_to(&mut text);
            drop(key);
        }
        Ok(None) => {
            key.set_text(bytes, None);
        }
        Err(_) => return,
    }
    keys.replicate_verbatim();
    keys.publish(receipt, [ANSWERED]);
}

/// Lets a receipt that is used now expire later.
fn extend_life(text: &mut Text) -> Expiry {
    let expiry = Expiry::of_use(text.expires_ms());
    if expiry != Expiry::Stays {
        text.set_expiry(expiry.at_ms());
    }
    expiry
}

/// A change of the time at which a receipt expires.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Stays,
    /// Milliseconds since the epoch.
    At(i64),
    Never,
}

impl Expiry {
    /// Returns the change for a receipt that is used now and expires at `held_ms`. The new time is a sixteenth later than
    /// it has to be, so that it seldom changes.
    fn of_use(held_ms: Option<i64>) -> Self {
        let ttl_ms = settings::receipt_ttl_ms();
        if ttl_ms == 0 {
            return held_ms.map_or(Self::Stays, |_| Self::Never);
        }
        let least = server::now_ms().saturating_add(ttl_ms);
        let most = least.saturating_add(ttl_ms / 16);
        let is_right = |at_ms: i64| (least..=most).contains(&at_ms.cast_unsigned());
        if held_ms.is_some_and(is_right) {
            Self::Stays
        } else {
            Self::At(most.cast_signed())
        }
    }

    /// Replicates the change as a point in time, because replicas may apply it later.
    fn replicate(self, keys: &mut Keyspace, receipt: Str) {
        match self {
            Self::Stays => {}
            Self::At(ms) => {
                keys.replicate(c"PEXPIREAT", receipt, &[Argument::Text(ms.to_string())]);
            }
            Self::Never => keys.replicate(c"PERSIST", receipt, &[]),
        }
    }

    /// Returns the server's event of the change.
    fn event(self) -> Option<&'static CStr> {
        match self {
            Self::Stays => None,
            Self::At(_) => Some(EXPIRE),
            Self::Never => Some(c"persist"),
        }
    }

    fn at_ms(self) -> Option<i64> {
        match self {
            Self::At(at_ms) => Some(at_ms),
            Self::Stays | Self::Never => None,
        }
    }
}
