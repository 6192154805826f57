//! `valkeybloom compare`: reports whether two servers hold the same filters, while both are in use.
//!
//! ```text
//!   keys of both ─▶ by DUMP, in batches ─▶ one at a time ─▶ after each pause: those that differ ─▶ one at a time, with pauses
//! ```
//!
//! Most keys are small and the same, so their payloads are equal. Values that differ are [compared](super::difference)
//! to the bit, and read again before a difference counts, because a replica lags behind. Nothing is written.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::Dialect;

use super::difference::{SideFault, compare};
use super::dump;
use super::expiry::Expiry;
use super::failure::{Failure, Fault, Result};
use super::keys::{Found, Selection};
use super::outcomes::{Fate, Outcome, Outcomes};
use super::program::Target;
use super::progress::{Progress, Show};
use super::report::print_json;
use super::server::{Server, Tls, dialect_of, is_filter};
use super::sketches::{self, Verdict};
use super::upload::is_temporary;

/// The most bytes of a value that is compared by DUMP in a batch.
const SMALL_BYTES: u64 = 256 << 10;

/// The most keys of a batch.
const BATCH_KEYS: usize = 500;
/// The bytes after which a batch ends.
const BATCH_BYTES: u64 = 32 << 20;

/// The pauses after which a difference is checked again.
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
    (Fate::SAME, 10),
    (Fate::WITHIN_ACCURACY, 17),
    (Fate::DIFFERENT, 11),
    (Fate::CHANGING, 10),
    (Fate::ONLY_SOURCE, 16),
    (Fate::ONLY_TARGET, 16),
    (Fate::REFUSED, 9),
];

/// Check whether two servers hold the same filters
#[derive(Args)]
pub struct Compare {
    /// The source: redis://user:password@host:port/database, rediss:// for TLS
    source: String,
    /// The target
    target: String,
    #[command(flatten)]
    keys: Selection,
}

/// A key that is still to be compared.
struct Job {
    key: Vec<u8>,
    /// The key's type at the source; `None` for a missing key.
    here: Option<String>,
    /// The key's type at the target; `None` for a missing key.
    there: Option<String>,
    /// A hash of the source's last read value.
    digest: Option<u64>,
    /// Whether the source had the same value before and after the last pause.
    stable: bool,
}

impl Compare {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let from = Server::connect(&self.source, tls)?;
        let to = Server::connect(&self.target, tls)?;
        let target = Target::of(&to)?;
        let jobs = jobs([self.keys.find(&from)?, self.keys.find(&to)?]);
        let mut comparing = Comparing {
            kinds: self.keys.kinds(),
            from: &from,
            to: &to,
            target,
            outcomes: Outcomes::default(),
            progress: Progress::new(show, "comparing", "keys", Some(jobs.len() as u64)),
            done: 0,
        };
        let mut ended = comparing.all(jobs);
        let mut outcomes = comparing.outcomes;
        comparing.progress.end(comparing.done);
        outcomes.listed.sort_by(|a, b| a.key.cmp(&b.key));
        let listed = outcomes.listed.iter();
        let differing = listed.filter(|it| it.fate != Fate::WITHIN_ACCURACY).count();
        if ended.is_ok() && differing > 0 {
            let all = outcomes.keys();
            ended = Err(Failure::new(format!(
                "{differing} of {all} keys are not the same"
            )));
        }
        if json {
            let (types, keys) = (outcomes.types_json(&COLUMNS), outcomes.keys_json());
            return print_json(json!({ "types": types, "keys": keys }), ended);
        }
        for outcome in &outcomes.listed {
            if show != Show::Nothing || outcome.fate != Fate::WITHIN_ACCURACY {
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
fn jobs(found: [Vec<Found>; 2]) -> Vec<Job> {
    let mut kinds: BTreeMap<Vec<u8>, [Option<String>; 2]> = BTreeMap::new();
    for (side, found) in found.into_iter().enumerate() {
        for Found { key, kind } in found {
            kinds.entry(key).or_default()[side] = Some(kind);
        }
    }
    kinds.retain(|key, _| !is_temporary(key));
    let jobs = kinds.into_iter().map(|(key, [here, there])| Job {
        key,
        here,
        there,
        digest: None,
        stable: false,
    });
    jobs.collect()
}

/// Splits keys into batches.
fn batches(jobs: Vec<Job>) -> impl Iterator<Item = Vec<Job>> {
    let mut jobs = jobs.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<Job> = jobs.by_ref().take(BATCH_KEYS).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

/// The state of a run.
struct Comparing<'c> {
    /// The types of the keys that are compared.
    kinds: Vec<&'c str>,
    from: &'c Server,
    to: &'c Server,
    /// What the target takes.
    target: Target,
    outcomes: Outcomes,
    progress: Progress,
    /// The number of keys that are done.
    done: u64,
}

/// The value under a key, as a payload of DUMP, and the key's time to live.
type Held = (Vec<u8>, Expiry);

/// The outcome of a key, and the reason for it.
type Ending = (Fate, Option<String>);

impl Comparing<'_> {
    fn all(&mut self, jobs: Vec<Job>) -> Result<()> {
        let mut left = Vec::new();
        for batch in batches(jobs) {
            for job in self.batch(batch)? {
                // The value may have changed between the reads, and equal filters may have different payloads.
                match self.look(&job, &[])? {
                    Some((Fate::SAME, _)) => self.end(job, Fate::SAME, None),
                    _ => left.push(job),
                }
            }
        }
        for pause in PAUSES {
            if left.is_empty() {
                break;
            }
            sleep(pause);
            for mut batch in batches(std::mem::take(&mut left)) {
                self.update_types(&mut batch)?;
                left.extend(self.batch(batch)?);
            }
        }
        left.into_iter().try_for_each(|job| self.last_attempt(job))
    }

    /// Compares small values by DUMP, and large values one at a time. Returns the keys that are left to compare.
    fn batch(&mut self, jobs: Vec<Job>) -> Result<Vec<Job>> {
        let mut left = Vec::new();
        let mut small = Vec::new();
        let mut bytes = 0;
        let keys = names(&jobs);
        let sizes = self.from.get_all::<Option<u64>>(&keys, "MEMORY USAGE");
        for (job, size) in jobs.into_iter().zip(sizes) {
            // The comparison that follows reports other obstacles.
            let size = unless_final(self.from, size)?.flatten();
            match size.filter(|_| self.kind(&job).is_some()) {
                None => left.push(job),
                Some(size) if size > SMALL_BYTES => self.with_pauses(job)?,
                Some(size) => {
                    small.push(job);
                    bytes += size;
                }
            }
            if bytes >= BATCH_BYTES {
                self.by_dump(std::mem::take(&mut small), &mut left)?;
                bytes = 0;
            }
        }
        self.by_dump(small, &mut left)?;
        Ok(left)
    }

    /// Compares values by DUMP, all at the same time.
    fn by_dump(&mut self, jobs: Vec<Job>, left: &mut Vec<Job>) -> Result<()> {
        let keys = names(&jobs);
        let here = held(self.from, &keys)?;
        let there = held(self.to, &keys)?;
        for ((mut job, here), there) in jobs.into_iter().zip(here).zip(there) {
            if let (Some(here), Some(there)) = (here, there) {
                let kind = self.kind(&job);
                if are_same(&here, &there) && kind.is_some_and(|it| dump::is_of_type(&here.0, it)) {
                    self.end(job, Fate::SAME, None);
                    continue;
                }
                let digest = Some(digest(&here));
                job.stable = job.digest == digest;
                job.digest = digest;
            }
            left.push(job);
        }
        Ok(())
    }

    /// Reads the types again, because keys are created and deleted during the run.
    fn update_types(&self, jobs: &mut [Job]) -> Result<()> {
        let keys = names(jobs);
        let here = types(self.from, &keys)?;
        let there = types(self.to, &keys)?;
        for ((job, here), there) in jobs.iter_mut().zip(here).zip(there) {
            (job.here, job.there) = (here, there);
        }
        Ok(())
    }

    /// Ends a key that still differed after all pauses.
    fn last_attempt(&mut self, job: Job) -> Result<()> {
        let is_plain = self.kind(&job).is_some_and(is_plain);
        // A plain filter can be compared while it changes, but the target needs time to catch up with each read.
        if !job.stable && (job.digest.is_none() || is_plain) {
            return self.with_pauses(job);
        }
        let (fate, reason) = match self.look(&job, &[])? {
            Some(found @ (Fate::SAME | Fate::WITHIN_ACCURACY, _)) => found,
            Some(found @ (Fate::DIFFERENT, _)) if job.stable && self.is_stable(&job)? => found,
            Some((Fate::DIFFERENT | Fate::CHANGING, _)) if !is_plain => changing(),
            _ => return self.with_pauses(job),
        };
        self.end(job, fate, reason);
        Ok(())
    }

    /// Returns whether the source still has the value that was read last.
    fn is_stable(&self, job: &Job) -> Result<bool> {
        let held = held(self.from, &[&job.key])?.swap_remove(0);
        Ok(held.is_some_and(|held| job.digest == Some(digest(&held))))
    }

    /// Returns the type of a key, if it is the same at both servers, and one of those that are compared.
    fn kind<'j>(&self, job: &'j Job) -> Option<&'j str> {
        let kind = job.here.as_deref().filter(|kind| self.kinds.contains(kind));
        kind.filter(|_| job.here == job.there)
    }

    /// Compares a key to the bit, and pauses while the target lags behind. Returns `None` if types differ, or the key was
    /// deleted or replaced meanwhile.
    fn look(&self, job: &Job, pauses: &[Duration]) -> Result<Option<Ending>> {
        let Some(kind) = self.kind(job) else {
            return Ok(None);
        };
        let (server, fault) = match compare(self.from, self.to, &job.key, kind, pauses) {
            Ok(Verdict::Same) => return Ok(Some((Fate::SAME, None))),
            Ok(Verdict::WithinAccuracy(how)) => {
                return Ok(Some((Fate::WITHIN_ACCURACY, Some(how.to_owned()))));
            }
            Ok(Verdict::Different(reason)) => return Ok(Some((Fate::DIFFERENT, Some(reason)))),
            Ok(Verdict::Changing) => return Ok(Some(changing())),
            Err(SideFault::Source(fault)) => (self.from, fault),
            Err(SideFault::Target(fault)) => (self.to, fault),
        };
        let was_replaced = fault.is(Error::NOT_FOUND) || fault.code() == "WRONGTYPE";
        let reason = format!("{}: {fault}", server.address());
        unless_final::<()>(server, Err(fault))?;
        Ok((!was_replaced).then_some((Fate::REFUSED, Some(reason))))
    }

    /// Compares a key to the bit, pauses while the target lags behind, and ends the key.
    fn with_pauses(&mut self, mut job: Job) -> Result<()> {
        let mut pauses = PAUSES.iter();
        loop {
            let Some(kind) = self.kind(&job) else {
                self.end_mismatch(job);
                return Ok(());
            };
            let ending = match self.look(&job, &PAUSES)? {
                // A plain filter was replaced by another one, which was read only once so far.
                Some((Fate::CHANGING, _)) if is_plain(kind) => None,
                ending => ending,
            };
            match (ending, pauses.next()) {
                (None, Some(pause)) => sleep(*pause),
                (ending, _) => {
                    let (fate, reason) = ending.unwrap_or_else(changing);
                    self.end(job, fate, reason);
                    return Ok(());
                }
            }
            self.update_types(std::slice::from_mut(&mut job))?;
        }
    }

    /// Ends a key that is missing at one of the servers, or has another type there.
    fn end_mismatch(&mut self, job: Job) {
        if self.compared_kind(&job).is_none() {
            // The key was deleted at both servers, or no longer holds a filter.
            return self.next();
        }
        let (fate, reason) = match (&job.here, &job.there) {
            (_, None) => (Fate::ONLY_SOURCE, self.obstacle(&job)),
            (None, _) => (Fate::ONLY_TARGET, None),
            (Some(here), Some(there)) => {
                let reason = format!("its type is {there} there, not {here}");
                (Fate::DIFFERENT, Some(reason))
            }
        };
        self.end(job, fate, reason);
    }

    /// Returns the type of a key at the first server where it is one of those that are compared.
    fn compared_kind<'j>(&self, job: &'j Job) -> Option<&'j String> {
        let mut kinds = [&job.here, &job.there].into_iter().flatten();
        kinds.find(|kind| self.kinds.contains(&kind.as_str()))
    }

    /// Returns the reason why the target can't take a key that only the source has, if there is one.
    fn obstacle(&self, job: &Job) -> Option<String> {
        let kind = job.here.as_deref()?;
        self.target.obstacle_of_type(kind).or_else(|| {
            let payload = (!is_filter(kind)).then(|| dump::payload(self.from, &job.key))?;
            sketches::obstacle(&payload.ok()?, self.target.program)
        })
    }

    /// Records the outcome of a key.
    fn end(&mut self, job: Job, fate: Fate, reason: Option<String>) {
        self.outcomes.add(Outcome {
            kind: self.compared_kind(&job).cloned().unwrap_or_default(),
            key: job.key,
            fate,
            reason,
            bytes: None,
        });
        self.next();
    }

    /// Shows that one more key is done.
    fn next(&mut self) {
        self.done += 1;
        self.progress.at(self.done, self.done);
    }
}

/// The outcome of a key that changed in every attempt.
fn changing() -> Ending {
    (Fate::CHANGING, Some(CHANGES.to_owned()))
}

fn names(jobs: &[Job]) -> Vec<&[u8]> {
    jobs.iter().map(|job| &job.key[..]).collect()
}

/// Returns whether values of a type are plain Bloom filters, whose bits are only ever set.
fn is_plain(kind: &str) -> bool {
    matches!(
        dialect_of(kind),
        Some(Dialect::Bloomfltr | Dialect::RedisBloom)
    )
}

/// Returns a result, or `None` for a fault of a single key. Ends the run if every other key would fail as well.
fn unless_final<T>(server: &Server, result: Result<T, Fault>) -> Result<Option<T>> {
    match result {
        Err(fault) if fault.is_final() => Err(failure(server, &fault)),
        result => Ok(result.ok()),
    }
}

fn failure(server: &Server, fault: &Fault) -> Failure {
    server.failure("could not read from", fault)
}

/// Reads the values under keys; `None` for a key that is missing, or that the server refuses to read.
fn held(server: &Server, keys: &[&[u8]]) -> Result<Vec<Option<Held>>> {
    let payloads = server.get_all::<Option<Vec<u8>>>(keys, "DUMP").into_iter();
    let pairs = payloads.zip(Expiry::of_all(server, keys));
    let held = pairs.map(|(payload, expiry)| {
        let held = payload.and_then(|payload| Ok(payload.zip(Some(expiry?))));
        Ok(unless_final(server, held)?.flatten())
    });
    held.collect()
}

/// Returns whether both servers have the same value and the same time to live.
fn are_same((ours, here): &Held, (theirs, there): &Held) -> bool {
    sketches::are_same(ours, theirs) && here.difference(there).is_none()
}

/// Returns a hash of the value and the time to live.
fn digest((payload, expiry): &Held) -> u64 {
    let mut hasher = DefaultHasher::new();
    (dump::value(payload), expiry.exact_ms()).hash(&mut hasher);
    hasher.finish()
}

/// Returns the types of keys, as TYPE returns them; `None` for missing keys.
fn types(server: &Server, keys: &[&[u8]]) -> Result<Vec<Option<String>>> {
    let replies = server.get_all::<String>(keys, "TYPE").into_iter();
    let kinds = replies.map(|kind| kind.map(|kind| Some(kind).filter(|kind| kind != "none")));
    let kinds: Result<_, Fault> = kinds.collect();
    kinds.map_err(|fault| failure(server, &fault))
}
