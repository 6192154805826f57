//! Keys with Bloom objects: storing, replicating and publishing their changes.

use std::ffi::CStr;

use smallvec::SmallVec;
use valkeybloom_protocol::bloom::Moment;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::double_text;
use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Growth, Kind, Limits, Object, Shape};

use crate::ffi::{Argument, Ctx, Str};
use crate::keys::{self, Change, EXPIRE};

use super::receipts::PendingAnswers;
use super::settings;
use super::value::{OVERHEAD_BYTES, Value, memory_bytes};

/// A key opened for reading.
pub type Reader<'k, 'a> = keys::Reader<'k, 'a, Value>;
/// A key opened for writing.
pub type Writer<'k, 'a> = keys::Writer<'k, 'a, Value>;
/// Objects under several keys, to be read together.
pub type Readers<'k, 'a> = keys::Readers<'k, 'a, Value>;

/// The event of a new object.
pub const CREATED: &CStr = c"bloom.reserve";
/// The event of an item added to an object.
pub const ADDED: &CStr = c"bloom.add";
/// The event of an item removed from an object.
pub const REMOVED: &CStr = c"bloom.del";

/// Returns the limits on this server's clients.
pub fn limits() -> Limits {
    settings::limits(OVERHEAD_BYTES)
}

/// Returns the limits on a command. A command that was already executed elsewhere has no limits, but a full
/// non-scaling object takes its items only if `saturate` is set: the capacity is part of the object, and peers
/// replicate commands that were refused.
pub fn limits_for(ctx: Ctx, saturate: bool) -> Limits {
    if ctx.must_obey() {
        Limits {
            saturate,
            ..Limits::NONE
        }
    } else {
        limits()
    }
}

/// Returns the bytes that an object's feed may take.
pub fn feed_bytes(object: &Object) -> u64 {
    settings::feed_bytes(memory_bytes(object))
}

/// Appends an option with a value.
fn push_option<'c>(to: &mut impl Extend<Argument<'c>>, word: &'static CStr, value: Argument<'c>) {
    to.extend([Argument::Word(word), value]);
}

/// Appends the options of a write that the object uses.
fn push_moment<'c>(to: &mut impl Extend<Argument<'c>>, moment: &Moment) {
    let words = [(c"AT", moment.at_ms), (c"TTL", moment.ttl_ms)];
    for (word, number) in words {
        if let Some(number) = number {
            push_option(to, word, Argument::Number(number));
        }
    }
    if moment.saturate {
        to.extend([Argument::Word(c"SATURATE")]);
    }
}

/// Publishes the change of a filter, which was replicated, and its answers, if a receipt keeps them. Without events, the
/// filter has not changed for its readers.
fn publish_with_receipt<'a>(
    mut change: Change<'_, 'a>,
    answers: Option<PendingAnswers<'a>>,
    events: impl IntoIterator<Item = &'static CStr>,
) {
    let appended = answers.and_then(|answers| answers.append(&mut change));
    let mut events = events.into_iter().peekable();
    let keys = match events.peek() {
        Some(_) => change.publish(events),
        None => change.into_keys(),
    };
    if let Some(appended) = appended {
        appended.publish(keys);
    }
}

/// What is published of a new object, besides its parameters.
pub struct Creation<'c, 'a> {
    /// For an object of `RedisBloom`, the header of its chunks before any item was added.
    pub header: Option<Vec<u8>>,
    /// When the key expires, in milliseconds since the epoch.
    pub expires_ms: Option<i64>,
    /// The items that the object holds. Replicas add them to theirs.
    pub items: &'c [Str<'a>],
    /// The moment of the write.
    pub moment: Moment,
    /// The answers of the items, if a receipt keeps them.
    pub answers: Option<PendingAnswers<'a>>,
}

impl<'a> Writer<'_, 'a> {
    /// Stores an object under the empty key, and publishes it.
    pub fn create(self, object: Object, creation: Creation<'_, 'a>) {
        let Creation {
            header,
            expires_ms,
            items,
            moment,
            answers,
        } = creation;
        let shape = object.shape();
        let seed = object.hasher().seed().copied().unwrap_or(Seed::FIXED);
        let mut change = self.store(Value::Complete(object), expires_ms);
        match header {
            None => change.replicate(
                c"BF.INSERT",
                &creation_arguments(&shape, &seed, items, &moment),
            ),
            // Without items, the header is the entire object, on replicas too.
            Some(header) => {
                change.replicate(
                    c"BF.LOADCHUNK",
                    &[Argument::Word(c"1"), Argument::Bytes(&header)],
                );
                if moment.saturate {
                    change.replicate(c"BF.INSERT", &addition_arguments(items, &moment));
                } else if !items.is_empty() {
                    change.replicate(c"BF.MADD", &[Argument::Items(items)]);
                }
            }
        }
        change.replicate_expiry(expires_ms);
        let events = [
            Some(CREATED),
            (!items.is_empty()).then_some(ADDED),
            expires_ms.map(|_| EXPIRE),
        ];
        publish_with_receipt(change, answers, events.into_iter().flatten());
    }

    /// Stores an object decoded from a dump. The key expires at `expires_ms`, if given.
    pub fn create_loaded(self, object: Object, dump: &[u8], expires_ms: Option<i64>) {
        let mut change = self.store(Value::Complete(object), expires_ms);
        change.replicate(c"BF.LOAD", &[Argument::Bytes(dump)]);
        change.replicate_expiry(expires_ms);
        change.publish([CREATED].into_iter().chain(expires_ms.map(|_| EXPIRE)));
    }

    /// Stores a merged object. `tidied` is the moment at which items expired in it, if any did.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`], [`Error::STILL_LOADING`] or [`Error::SAVING`].
    pub fn merge(mut self, object: Object, tidied: Option<Moment>) -> Result<(), Error> {
        let (mut change, event) = if self.exists()? {
            // Replace the object in place, so that the key keeps its time to live.
            let _ = self.update(|held| *held = object)?;
            (self.close(), ADDED)
        } else {
            (self.store(Value::Complete(object), None), CREATED)
        };
        change.replicate_verbatim();
        if let Some(moment) = tidied {
            change.replicate(c"BF.INSERT", &addition_arguments(&[], &moment));
        }
        change.publish([event]);
        Ok(())
    }

    /// Publishes that these items were added to an object of tables, or to a full one. Without items,
    /// publishes that items have expired.
    pub fn publish_added_at(
        self,
        items: &[Str],
        moment: &Moment,
        answers: Option<PendingAnswers<'a>>,
    ) {
        let mut change = self.close();
        change.replicate(c"BF.INSERT", &addition_arguments(items, moment));
        publish_with_receipt(change, answers, (!items.is_empty()).then_some(ADDED));
    }

    /// Publishes that these items were added to a plain object.
    pub fn publish_added(self, items: &[Str], answers: Option<PendingAnswers<'a>>) {
        let mut change = self.close();
        change.replicate(c"BF.MADD", &[Argument::Items(items)]);
        publish_with_receipt(change, answers, [ADDED]);
    }

    /// Publishes the answers of items that did not change the object.
    pub fn publish_answers(self, answers: PendingAnswers<'a>) {
        publish_with_receipt(self.close(), Some(answers), []);
    }
}

/// The arguments of an addition: at most NOCREATE, three options, and ITEMS.
type Arguments<'c> = SmallVec<[Argument<'c>; 8]>;

/// Returns `NOCREATE … [ITEMS …]`: the addition of items to an object of tables, or to a full one.
fn addition_arguments<'c>(items: &'c [Str<'c>], moment: &Moment) -> Arguments<'c> {
    let mut arguments = Arguments::new();
    arguments.push(Argument::Word(c"NOCREATE"));
    push_moment(&mut arguments, moment);
    if !items.is_empty() {
        push_option(&mut arguments, c"ITEMS", Argument::Items(items));
    }
    arguments
}

/// Returns `CAPACITY c ERROR r TIGHTENING t SEED s EXPANSION n|NONSCALING … [ITEMS …]`: every parameter, so
/// that a server with other settings builds the same object.
fn creation_arguments<'c>(
    shape: &Shape,
    seed: &'c Seed,
    new: &'c [Str<'c>],
    moment: &Moment,
) -> Vec<Argument<'c>> {
    let params = shape.params;
    let mut arguments = Vec::new();
    let to = &mut arguments;
    let double = |number| Argument::Text(double_text(number));
    push_option(to, c"CAPACITY", Argument::Number(params.capacity));
    push_option(to, c"ERROR", double(params.error_rate.get()));
    push_option(to, c"TIGHTENING", double(params.tightening.to_stored()));
    push_option(to, c"SEED", Argument::Bytes(seed.as_bytes()));
    match params.growth {
        Growth::Fixed => to.push(Argument::Word(c"NONSCALING")),
        Growth::By(factor) => push_option(to, c"EXPANSION", Argument::Number(factor.get().into())),
    }
    match shape.kind {
        Kind::Windowed(window) => {
            push_option(to, c"WINDOW", Argument::Number(window.period_ms()));
            push_option(to, c"PERIODS", Argument::Number(window.periods()));
        }
        Kind::Counting => to.push(Argument::Word(c"COUNTING")),
        Kind::ScaledTo => push_option(to, c"SCALETO", Argument::Number(params.capacity)),
        Kind::Plain => {}
    }
    push_moment(&mut arguments, moment);
    if !new.is_empty() {
        push_option(&mut arguments, c"ITEMS", Argument::Items(new));
    }
    arguments
}
