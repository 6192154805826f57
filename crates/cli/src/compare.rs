//! `valkeybloom compare`: reports whether two servers hold the same filters, while both are in use.
//!
//! ```text
//!   keys of both ─▶ small values, by DUMP ─▶ after each pause: those that differ, again ─▶ one at a time, to the bit
//!                ╰▶ large values, one at a time, to the bit
//! ```
//!
//! Most keys are small and the same, so their payloads are equal. A value that still differs after all pauses is
//! [compared to the bit](super::difference). The target may be a replica that lags behind, so a difference counts only if
//! the source did not change during the last pause. If it did change, the key is reported as changing. Only plain Bloom
//! filters can be compared while they change, because their bits are only ever set. Nothing is written.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::take;
use std::slice;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::Dialect;

use super::difference::compare;
use super::dump;
use super::expiry::Expiry;
use super::failure::{Fault, Meaning, Result};
use super::family::dialect_of;
use super::keys::Found;
use super::outcomes::{Fate, Outcome, Outcomes};
use super::pair::{Between, Pair, SideFault, kinds_differ};
use super::progress::{Progress, Show};
use super::report::print_json;
use super::server::{Server, Tls};
use super::sketches::{self, Verdict};
use super::upload::is_temporary;

/// The most bytes, at either server, of a value that is compared by DUMP.
const SMALL_BYTES: u64 = 256 << 10;
/// The most bytes, at either server, of values that are compared by DUMP at the same time.
const BATCH_BYTES: u64 = 32 << 20;
/// The most keys whose types, sizes or values are read at the same time.
const BATCH_KEYS: usize = 500;

/// The pauses after which a difference is checked again. The first are short, because a replica usually lags by
/// milliseconds. Together they give a busy replica 1.5 seconds.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(150),
    Duration::from_millis(400),
    Duration::from_millis(900),
];

/// The reason for a key that is reported as changing.
const CHANGES: &str = "it changes at the source: stop its writers, and compare again";

/// The columns of the table, and their widths.
const COLUMNS: [(Fate, usize); 7] = [
    (Fate::Same, 10),
    (Fate::WithinAccuracy, 17),
    (Fate::Different, 11),
    (Fate::Changing, 10),
    (Fate::OnlySource, 16),
    (Fate::OnlyTarget, 16),
    (Fate::Refused, 9),
];

/// Check whether two servers hold the same filters
#[derive(Args)]
pub struct Compare {
    #[command(flatten)]
    pub between: Between,
}

/// A key that is still to be compared.
#[derive(Default)]
struct Pending {
    key: Vec<u8>,
    /// The key's type at each server; `None` if it is missing there.
    source_kind: Option<String>,
    target_kind: Option<String>,
    /// A hash of the source's value before the last pause, if it was small.
    source_digest: Option<u64>,
}

/// The value under a key, as a payload of DUMP, and the key's expiry time.
type Held = (Vec<u8>, Expiry);

/// The outcome of a key, and the reason for it.
type Ending = (Fate, Option<String>);

impl Compare {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let pair = self.between.connect(tls)?;
        let keys = &self.between.keys;
        let pending = pending(keys.find(&pair.source)?, keys.find(&pair.target)?);
        let total = Some(pending.len() as u64);
        let mut comparing = Comparing {
            pair: &pair,
            outcomes: Outcomes::default(),
            progress: Progress::new(show, "comparing", "keys", total),
            done: 0,
        };
        let ended = comparing.compare_all(pending);
        let mut outcomes = comparing.outcomes;
        comparing.progress.end(comparing.done);
        outcomes.listed.sort_by(|a, b| a.key.cmp(&b.key));
        let differs = |fate| fate != Fate::WithinAccuracy;
        let what = ["is not the same", "are not the same"];
        let ended = ended.and_then(|()| outcomes.require_none(differs, what));
        if json {
            let (types, keys) = (outcomes.types_json(&COLUMNS), outcomes.keys_json());
            return print_json(json!({ "types": types, "keys": keys }), ended);
        }
        for outcome in &outcomes.listed {
            if show != Show::Nothing || differs(outcome.fate) {
                outcome.print(outcome.reason.as_deref());
            }
        }
        if show != Show::Nothing {
            outcomes.print_table(&COLUMNS, None);
        }
        ended
    }
}

/// Returns the keys of both servers, except temporary keys of `move` and `build`, sorted by name.
fn pending(at_source: Vec<Found>, at_target: Vec<Found>) -> Vec<Pending> {
    let mut all: BTreeMap<Vec<u8>, Pending> = BTreeMap::new();
    for Found { key, kind } in at_source {
        all.entry(key).or_default().source_kind = Some(kind);
    }
    for Found { key, kind } in at_target {
        all.entry(key).or_default().target_kind = Some(kind);
    }
    let all = all.into_iter().filter(|(key, _)| !is_temporary(key));
    all.map(|(key, it)| Pending { key, ..it }).collect()
}

/// Splits keys into batches.
fn batches(keys: Vec<Pending>) -> impl Iterator<Item = Vec<Pending>> {
    let mut keys = keys.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<Pending> = keys.by_ref().take(BATCH_KEYS).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

/// The state of a run.
struct Comparing<'c> {
    pair: &'c Pair<'c>,
    outcomes: Outcomes,
    progress: Progress,
    /// The number of keys that are done.
    done: u64,
}

// compare_all ─┬▶ batch, after each pause ─┬▶ by_dump                               small values
//              │                           ╰▶ compare_with_pauses ─▶ compare_once   large values
//              ╰▶ conclude ─▶ compare_once, and perhaps compare_with_pauses         values that still differ
impl Comparing<'_> {
    fn compare_all(&mut self, mut left: Vec<Pending>) -> Result<()> {
        for pause in PAUSES {
            for batch in batches(take(&mut left)) {
                left.extend(self.batch(batch)?);
            }
            if left.is_empty() {
                return Ok(());
            }
            sleep(pause);
            let mut batches = left.chunks_mut(BATCH_KEYS);
            batches.try_for_each(|batch| self.update_kinds(batch))?;
        }
        for mut key in left {
            let ending = self.conclude(&mut key)?;
            self.end(key, ending);
        }
        Ok(())
    }

    /// Compares small values by DUMP, and large ones to the bit. Returns the keys that are left to compare.
    fn batch(&mut self, keys: Vec<Pending>) -> Result<Vec<Pending>> {
        let (mut left, mut small, mut bytes) = (Vec::new(), Vec::new(), 0);
        let sizes = self.sizes(&names(&keys))?;
        for (mut key, size) in keys.into_iter().zip(sizes) {
            key.source_digest = None;
            match size.filter(|_| self.kind(&key).is_some()) {
                None => left.push(key),
                Some(size) if size > SMALL_BYTES => {
                    let ending = self.compare_with_pauses(&mut key)?;
                    self.end(key, ending);
                }
                Some(size) => {
                    if bytes + size > BATCH_BYTES {
                        left.extend(self.by_dump(take(&mut small))?);
                        bytes = 0;
                    }
                    small.push(key);
                    bytes += size;
                }
            }
        }
        left.extend(self.by_dump(small)?);
        Ok(left)
    }

    /// Returns the bytes of values at the server where they are larger; `None` for a key that is missing.
    fn sizes(&self, keys: &[&[u8]]) -> Result<Vec<Option<u64>>> {
        let read = |server: &Server| -> Result<Vec<Option<u64>>> {
            let replies = server.query_all(keys, "MEMORY USAGE").into_iter();
            // A value whose size is unknown may be large.
            let size = |reply| Ok(unless_final(server, reply)?.unwrap_or(Some(u64::MAX)));
            replies.map(size).collect()
        };
        let at_source = read(&self.pair.source)?.into_iter();
        let at_target = read(&self.pair.target)?;
        let larger = |(source, target): (Option<u64>, Option<u64>)| Some(source?.max(target?));
        Ok(at_source.zip(at_target).map(larger).collect())
    }

    /// Compares values by DUMP, all at the same time. Returns the keys that are left to compare.
    fn by_dump(&mut self, keys: Vec<Pending>) -> Result<Vec<Pending>> {
        let mut left = Vec::new();
        let at_source = held(&self.pair.source, &names(&keys))?;
        let at_target = held(&self.pair.target, &names(&keys))?;
        for ((mut key, source), target) in keys.into_iter().zip(at_source).zip(at_target) {
            if let (Some(source), Some(target)) = (source, target) {
                let is_of_type = |kind| dump::is_of_type(&source.0, kind);
                if are_same(&source, &target) && self.kind(&key).is_some_and(is_of_type) {
                    self.end(key, Some((Fate::Same, None)));
                    continue;
                }
                key.source_digest = Some(digest(&source));
            }
            left.push(key);
        }
        Ok(left)
    }

    /// Reads the types again, because keys are created and deleted during the run.
    fn update_kinds(&self, keys: &mut [Pending]) -> Result<()> {
        let at_source = kinds(&self.pair.source, &names(keys))?;
        let at_target = kinds(&self.pair.target, &names(keys))?;
        for ((key, source), target) in keys.iter_mut().zip(at_source).zip(at_target) {
            (key.source_kind, key.target_kind) = (source, target);
        }
        Ok(())
    }

    /// Returns the ending of a key that differed before the last pause; `None` if neither server holds a compared type.
    ///
    /// The pauses of the run are over, so the key gets no others if the source's value before the last one is known: an
    /// unchanged value is different, and a changed value is changing.
    fn conclude(&self, key: &mut Pending) -> Result<Option<Ending>> {
        // Plain filters can be compared while they change. Without a digest, a change would not be noticed.
        let may_settle = key.source_digest.is_none() || self.kind(key).is_some_and(is_plain);
        match self.compare_once(key, &[])? {
            ending @ Some((Fate::Same | Fate::WithinAccuracy, _)) => Ok(ending),
            ending @ Some((Fate::Different, _)) if self.is_unchanged(key)? => Ok(ending),
            Some((Fate::Different | Fate::Changing, _)) if !may_settle => Ok(Some(changing())),
            _ => self.compare_with_pauses(key),
        }
    }

    /// Returns whether the source still has the value that it had before the last pause.
    fn is_unchanged(&self, key: &Pending) -> Result<bool> {
        let held = held(&self.pair.source, &[&key.key])?.swap_remove(0);
        Ok(held.is_some_and(|held| key.source_digest == Some(digest(&held))))
    }

    /// Returns the ending of a key, with pauses of its own while the target lags behind; `None` if neither server holds a
    /// compared type.
    fn compare_with_pauses(&self, key: &mut Pending) -> Result<Option<Ending>> {
        for pause in [Duration::ZERO].into_iter().chain(PAUSES) {
            sleep(pause);
            self.update_kinds(slice::from_mut(key))?;
            let Some(kind) = self.kind(key) else {
                return Ok(self.mismatch(key));
            };
            match self.compare_once(key, &PAUSES)? {
                // A plain filter was replaced by another one, which was read only once so far.
                Some((Fate::Changing, _)) if is_plain(kind) => {}
                None => {}
                ending => return Ok(ending),
            }
        }
        Ok(Some(changing()))
    }

    /// Returns the type of a key, if it is the same at both servers, and one of those that are compared.
    fn kind<'k>(&self, key: &'k Pending) -> Option<&'k str> {
        let kind = self.compared_kind(key);
        kind.filter(|_| key.source_kind == key.target_kind)
    }

    /// Returns the type of a key at the first server where it is one of those that are compared.
    fn compared_kind<'k>(&self, key: &'k Pending) -> Option<&'k str> {
        let kinds = [key.source_kind.as_deref(), key.target_kind.as_deref()];
        let mut kinds = kinds.into_iter().flatten();
        kinds.find(|kind| self.pair.kinds.contains(kind))
    }

    /// Compares a key to the bit, and pauses while the target lags behind. Returns `None` if types differ, or the key was
    /// deleted or replaced meanwhile.
    fn compare_once(&self, key: &Pending, pauses: &[Duration]) -> Result<Option<Ending>> {
        let Some(kind) = self.kind(key) else {
            return Ok(None);
        };
        let (server, fault) = match compare(self.pair, &key.key, kind, pauses) {
            Ok(verdict) => {
                return Ok(Some(match verdict {
                    Verdict::Same => (Fate::Same, None),
                    Verdict::WithinAccuracy(how) => (Fate::WithinAccuracy, Some(how.to_owned())),
                    Verdict::Different(reason) => (Fate::Different, Some(reason)),
                    Verdict::Changing => changing(),
                }));
            }
            Err(SideFault::Source(fault)) => (&self.pair.source, fault),
            Err(SideFault::Target(fault)) => (&self.pair.target, fault),
        };
        if fault.affects_all_keys() {
            return Err(server.failure("could not read from", &fault));
        }
        let was_replaced = fault.is(Error::NOT_FOUND) || fault.means(Meaning::WrongType);
        Ok((!was_replaced).then(|| (Fate::Refused, Some(server.refusal(&fault)))))
    }

    /// Returns the ending of a key that is missing at one of the servers, or has another type there; `None` if neither
    /// server holds a value that is compared.
    fn mismatch(&self, key: &Pending) -> Option<Ending> {
        self.compared_kind(key)?;
        Some(match (&key.source_kind, &key.target_kind) {
            (Some(source), Some(target)) => (Fate::Different, Some(kinds_differ(source, target))),
            (Some(source), None) => {
                let obstacle = self.pair.obstacle(&key.key, source);
                (Fate::OnlySource, obstacle.ok().flatten())
            }
            (None, _) => (Fate::OnlyTarget, None),
        })
    }

    /// Records the ending of a key, unless neither server holds a compared type, and shows that one more is done.
    fn end(&mut self, key: Pending, ending: Option<Ending>) {
        if let Some((fate, reason)) = ending {
            self.outcomes.add(Outcome {
                kind: self.compared_kind(&key).unwrap_or_default().to_owned(),
                key: key.key,
                fate,
                reason,
                bytes: None,
            });
        }
        self.done += 1;
        self.progress.at(self.done, self.done);
    }
}

/// Returns the ending of a key that changed at the source each time.
fn changing() -> Ending {
    (Fate::Changing, Some(CHANGES.to_owned()))
}

fn names(keys: &[Pending]) -> Vec<&[u8]> {
    keys.iter().map(|it| &it.key[..]).collect()
}

/// Returns whether values of a type are plain Bloom filters, whose bits are only ever set.
fn is_plain(kind: &str) -> bool {
    let dialect = dialect_of(kind);
    dialect.is_some_and(|it| matches!(it, Dialect::Bloomfltr | Dialect::RedisBloom))
}

/// Returns a result, or `None` for a fault of a single key. Ends the run if every other key would fail as well.
fn unless_final<T>(server: &Server, result: Result<T, Fault>) -> Result<Option<T>> {
    match result {
        Err(fault) if fault.affects_all_keys() => {
            Err(server.failure("could not read from", &fault))
        }
        result => Ok(result.ok()),
    }
}

/// Reads the values under keys; `None` for a key that is missing, or that the server refuses to read.
fn held(server: &Server, keys: &[&[u8]]) -> Result<Vec<Option<Held>>> {
    let payloads = server.query_all::<Option<Vec<u8>>>(keys, "DUMP");
    let payloads = payloads.into_iter();
    let pairs = payloads.zip(Expiry::of_all(server, keys));
    let held = pairs.map(|(payload, expiry)| {
        let held = payload.and_then(|payload| Ok(payload.zip(Some(expiry?))));
        Ok(unless_final(server, held)?.flatten())
    });
    held.collect()
}

/// Returns whether both servers have the same value and the same expiry time.
fn are_same((source, expires): &Held, (target, target_expires): &Held) -> bool {
    expires.difference(target_expires).is_none() && sketches::are_same(source, target)
}

/// Returns a hash of the value and the expiry time.
fn digest((payload, expiry): &Held) -> u64 {
    let mut hasher = DefaultHasher::new();
    (dump::value(payload), expiry.exact_ms()).hash(&mut hasher);
    hasher.finish()
}

/// Returns the types of keys, as TYPE returns them; `None` for missing keys.
fn kinds(server: &Server, keys: &[&[u8]]) -> Result<Vec<Option<String>>> {
    let replies = server.query_all::<String>(keys, "TYPE").into_iter();
    let kinds = replies.map(|kind| match kind {
        Ok(kind) => Ok(Some(kind).filter(|kind| kind != "none")),
        Err(fault) => Err(server.failure("could not read from", &fault)),
    });
    kinds.collect()
}
