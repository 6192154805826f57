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

use super::difference::{SideFault, Verdict, compare};
use super::dump;
use super::expiry::Expiry;
use super::failure::{Failure, Fault, Result};
use super::keys::{Found, Selection};
use super::outcomes::{Fate, Outcome, Outcomes};
use super::payload;
use super::program::Program;
use super::progress::{Progress, Show};
use super::report::print_json;
use super::server::{Server, Tls, dialect_of, is_filter};
use super::sketches;
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

impl Job {
    /// Returns the type, if both servers have the same.
    fn kind(&self) -> Option<&str> {
        let kind = self.here.as_deref()?;
        (self.there.as_deref() == Some(kind)).then_some(kind)
    }
}

impl Compare {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let from = Server::connect(&self.source, tls)?;
        let to = Server::connect(&self.target, tls)?;
        let program = Program::of(&to)?;
        let jobs = jobs([self.keys.find(&from)?, self.keys.find(&to)?]);
        let mut comparing = Comparing {
            kinds: self.keys.kinds(),
            from: &from,
            to: &to,
            program,
            outcomes: Outcomes::default(),
            progress: Progress::new(show, "comparing", "keys", Some(jobs.len() as u64)),
            done: 0,
        };
        let mut ended = comparing.all(jobs);
        let mut outcomes = comparing.outcomes;
        comparing.progress.end(comparing.done);
        outcomes.listed.sort_by(|a, b| a.key.cmp(&b.key));
        let listed = outcomes.listed.iter();
        let differing = listed.filter(|it| it.fate != Fate::WithinAccuracy).count();
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
            if show != Show::Nothing || outcome.fate != Fate::WithinAccuracy {
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
    /// The target's program.
    program: Program,
    outcomes: Outcomes,
    progress: Progress,
    /// The number of keys that are done.
    done: u64,
}

/// The value under a key, as a payload of DUMP, and the key's time to live.
type Held = (Option<Vec<u8>>, Option<Expiry>);

impl Comparing<'_> {
    fn all(&mut self, jobs: Vec<Job>) -> Result<()> {
        let mut left = Vec::new();
        for batch in batches(jobs) {
            for job in self.batch(batch)? {
                // The value may have changed between the reads, and equal filters may have different payloads.
                match self.without_pause(&job)? {
                    Some(Verdict::Same) => self.end(job, Fate::Same, None),
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
        for (job, size) in self.sized(jobs)? {
            match size {
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

    /// Returns the sizes of the values at the source, where they are known and both servers have the same type.
    fn sized(&self, jobs: Vec<Job>) -> Result<Vec<(Job, Option<u64>)>> {
        let replies = self
            .from
            .get_all::<Option<u64>>(&names(&jobs), "MEMORY USAGE");
        let sizes = jobs.into_iter().zip(replies).map(|(job, size)| {
            let size = match size {
                Ok(size) => size.filter(|_| job.kind().is_some()),
                // The comparison that follows reports any other obstacle.
                Err(fault) => stop(self.from, &fault).map(|()| None)?,
            };
            Ok((job, size))
        });
        sizes.collect()
    }

    /// Compares values by DUMP, all at the same time.
    fn by_dump(&mut self, jobs: Vec<Job>, left: &mut Vec<Job>) -> Result<()> {
        let keys = names(&jobs);
        let here = held(self.from, &keys)?;
        let there = held(self.to, &keys)?;
        for ((mut job, here), there) in jobs.into_iter().zip(here).zip(there) {
            let (Some(here), Some(there)) = (here, there) else {
                left.push(job);
                continue;
            };
            if are_same(&here, &there) && job.kind().is_some_and(|kind| has_type(&here, kind)) {
                self.end(job, Fate::Same, None);
                continue;
            }
            let digest = digest(&here);
            job.stable = job.digest == Some(digest);
            job.digest = Some(digest);
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
        let kind = job.kind().unwrap_or_default();
        // A plain filter can be compared while it changes, but the target needs time to catch up with each read.
        if !job.stable && (job.digest.is_none() || is_plain(kind)) {
            return self.with_pauses(job);
        }
        match self.without_pause(&job)? {
            Some(Verdict::Same) => self.end(job, Fate::Same, None),
            Some(Verdict::WithinAccuracy(how)) => {
                self.end(job, Fate::WithinAccuracy, Some(how.to_owned()));
            }
            Some(Verdict::Different(reason)) if job.stable && self.is_stable(&job)? => {
                self.end(job, Fate::Different, Some(reason));
            }
            Some(Verdict::Different(_) | Verdict::Changing) if !is_plain(kind) => {
                self.end(job, Fate::Changing, Some(CHANGES.to_owned()));
            }
            _ => return self.with_pauses(job),
        }
        Ok(())
    }

    /// Returns whether the source still has the value that was read last.
    fn is_stable(&self, job: &Job) -> Result<bool> {
        let held = held(self.from, &[&job.key])?.swap_remove(0);
        Ok(held.is_some_and(|held| job.digest == Some(digest(&held))))
    }

    /// Returns the type of a key at both servers, if it is one of those that are compared.
    fn kind<'j>(&self, job: &'j Job) -> Option<&'j str> {
        job.kind().filter(|kind| self.kinds.contains(kind))
    }

    /// Compares a key to the bit, without a pause. Returns `None` if that is impossible: types differ, or a server
    /// refuses it.
    fn without_pause(&self, job: &Job) -> Result<Option<Verdict>> {
        let Some(kind) = self.kind(job) else {
            return Ok(None);
        };
        match compare(self.from, self.to, &job.key, kind, &[]) {
            Ok(verdict) => Ok(Some(verdict)),
            Err(fault) => {
                let (server, fault) = self.side(fault);
                stop(server, &fault).map(|()| None)
            }
        }
    }

    /// Compares a key to the bit, pauses while the target lags behind, and ends the key.
    fn with_pauses(&mut self, mut job: Job) -> Result<()> {
        let mut pauses = PAUSES.iter();
        loop {
            let Some(kind) = self.kind(&job) else {
                self.end_mismatch(job);
                return Ok(());
            };
            let changing = || (Fate::Changing, Some(CHANGES.to_owned()));
            let ended = match compare(self.from, self.to, &job.key, kind, &PAUSES) {
                Ok(Verdict::Same) => Some((Fate::Same, None)),
                Ok(Verdict::WithinAccuracy(how)) => {
                    Some((Fate::WithinAccuracy, Some(how.to_owned())))
                }
                Ok(Verdict::Different(reason)) => Some((Fate::Different, Some(reason))),
                // A plain filter was replaced by another one, which was read only once so far.
                Ok(Verdict::Changing) if is_plain(kind) => None,
                Ok(Verdict::Changing) => Some(changing()),
                Ok(Verdict::Gone) => None,
                Err(fault) => {
                    let (server, fault) = self.side(fault);
                    stop(server, &fault)?;
                    let reason = format!("{}: {fault}", server.address());
                    let was_replaced = fault.is(Error::NotFound) || fault.is_wrong_type();
                    (!was_replaced).then_some((Fate::Refused, Some(reason)))
                }
            };
            let pause = pauses.next();
            if let (None, Some(pause)) = (&ended, pause) {
                sleep(*pause);
                self.update_types(std::slice::from_mut(&mut job))?;
                continue;
            }
            let (fate, reason) = ended.unwrap_or_else(changing);
            self.end(job, fate, reason);
            return Ok(());
        }
    }

    /// Ends a key that is missing at one of the servers, or has another type there.
    fn end_mismatch(&mut self, job: Job) {
        let is_compared = |kind: &Option<String>| {
            let kind = kind.as_deref();
            kind.is_some_and(|kind| self.kinds.contains(&kind))
        };
        if !is_compared(&job.here) && !is_compared(&job.there) {
            // The key was deleted at both servers, or no longer holds a filter.
            return self.next();
        }
        let (fate, reason) = match (&job.here, &job.there) {
            (_, None) => (Fate::OnlySource, self.obstacle(&job)),
            (None, _) => (Fate::OnlyTarget, None),
            (Some(here), Some(there)) => {
                let reason = format!("its type is {there} there, not {here}");
                (Fate::Different, Some(reason))
            }
        };
        self.end(job, fate, reason);
    }

    /// Returns the reason why the target can't take a key that only the source has, if there is one.
    fn obstacle(&self, job: &Job) -> Option<String> {
        let kind = job.here.as_deref()?;
        self.program.obstacle_of_type(kind).or_else(|| {
            let payload = (!is_filter(kind)).then(|| dump::payload(self.from, &job.key))?;
            sketches::obstacle(&payload.ok()??, self.program)
        })
    }

    /// Records the outcome of a key.
    fn end(&mut self, job: Job, fate: Fate, reason: Option<String>) {
        let mut kinds = [job.here, job.there].into_iter().flatten();
        let kind = kinds.find(|kind| self.kinds.contains(&kind.as_str()));
        self.outcomes.add(Outcome {
            key: job.key,
            kind: kind.unwrap_or_default(),
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

    /// Returns the server that failed, and its fault.
    fn side(&self, fault: SideFault) -> (&Server, Fault) {
        match fault {
            SideFault::Source(fault) => (self.from, fault),
            SideFault::Target(fault) => (self.to, fault),
        }
    }
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

/// Ends the run if every other key would fail as well.
fn stop(server: &Server, fault: &Fault) -> Result<()> {
    if fault.is_final() {
        return Err(failure(server, fault));
    }
    Ok(())
}

fn failure(server: &Server, fault: &Fault) -> Failure {
    server.failure("could not read from", fault)
}

/// Reads the values under keys; `None` for a key that the server refuses to read.
fn held(server: &Server, keys: &[&[u8]]) -> Result<Vec<Option<Held>>> {
    let payloads = server.get_all::<Option<Vec<u8>>>(keys, "DUMP").into_iter();
    let expiries = Expiry::of_all(server, keys);
    let pairs = payloads.zip(expiries);
    let held = pairs.map(|pair| match pair {
        (Ok(payload), Ok(expiry)) => Ok(Some((payload, expiry))),
        (Err(fault), _) | (_, Err(fault)) => stop(server, &fault).map(|()| None),
    });
    held.collect()
}

/// Returns whether both servers have the same value and the same time to live.
fn are_same(here: &Held, there: &Held) -> bool {
    match (here, there) {
        ((Some(ours), Some(here)), (Some(theirs), Some(there))) => {
            payload::are_same(ours, theirs) && here.difference(there).is_none()
        }
        _ => false,
    }
}

fn has_type((payload, _): &Held, kind: &str) -> bool {
    let payload = payload.as_deref();
    payload.is_some_and(|payload| dump::is_of_type(payload, kind.as_bytes()))
}

/// Returns a hash of the value and the time to live.
fn digest((payload, expiry): &Held) -> u64 {
    let mut hasher = DefaultHasher::new();
    payload.as_deref().map(dump::value).hash(&mut hasher);
    expiry.as_ref().map(Expiry::exact_ms).hash(&mut hasher);
    hasher.finish()
}

/// Returns the types of keys, as TYPE returns them; `None` for missing keys.
fn types(server: &Server, keys: &[&[u8]]) -> Result<Vec<Option<String>>> {
    let replies = server.get_all::<String>(keys, "TYPE").into_iter();
    let kinds = replies.map(|kind| kind.map(|kind| Some(kind).filter(|kind| kind != "none")));
    let kinds: Result<_, Fault> = kinds.collect();
    kinds.map_err(|fault| failure(server, &fault))
}
