//! `valkeybloom compare`: tells whether two servers hold the same filters, while both are in use.
//!
//! ```text
//!   keys of both ─▶ by DUMP, many at a time ─▶ one by one ─▶ after each pause: those that differ ─▶ one by one, patiently
//! ```
//!
//! Most keys are small and the same, so their payloads are equal. Whatever differs is [compared](super::difference) to the
//! bit, and read again before it counts, because a replica lags behind. Nothing is written.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, json};

use valkeybloom_sketches::bloom::Dialect;

use super::difference::{End, Verdict, compare};
use super::dump;
use super::expiry::Expiry;
use super::failure::{Failure, Fault, Result, shown};
use super::keys::{Found, Selection};
use super::payload;
use super::place::is_beside;
use super::progress::{Progress, Show};
use super::report::print_json;
use super::server::{Server, Tls, dialect_of};

/// The most bytes of a value that is compared by DUMP together with others.
const SMALL_BYTES: u64 = 256 << 10;

/// The most keys, and about the most bytes, that are asked for at a time.
const TOGETHER: usize = 500;
const TOGETHER_BYTES: u64 = 32 << 20;

/// The pauses after which a difference is looked at again.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(150),
    Duration::from_millis(400),
    Duration::from_millis(900),
];

/// Why a key is told as changing.
const CHANGES: &str = "it changes at the source: stop its writers, and compare again";

/// Tell whether two servers hold the same filters
#[derive(Args)]
pub struct Compare {
    /// The server that has them: redis://user:password@host:port/database, rediss:// for TLS
    source: String,
    /// The server that is to have the same
    target: String,
    #[command(flatten)]
    keys: Selection,
}

/// What a comparison of a key came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Same,
    Different,
    Changing,
    OnlySource,
    OnlyTarget,
    Refused,
}

impl Fate {
    const ALL: [Self; 6] = [
        Self::Same,
        Self::Different,
        Self::Changing,
        Self::OnlySource,
        Self::OnlyTarget,
        Self::Refused,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Different => "different",
            Self::Changing => "changing",
            Self::OnlySource => "only at source",
            Self::OnlyTarget => "only at target",
            Self::Refused => "refused",
        }
    }
}

/// A key that is not the same at both servers.
struct Outcome {
    key: Vec<u8>,
    kind: String,
    fate: Fate,
    reason: Option<String>,
}

/// A key that is still to be compared.
struct Job {
    key: Vec<u8>,
    /// Its type at the source; `None` if it is not there.
    here: Option<String>,
    /// Its type at the target.
    there: Option<String>,
    /// A hash of what the source held when it was last read.
    mark: Option<u64>,
    /// Whether the source held the same before and after the last pause.
    rests: bool,
}

impl Job {
    /// The type, if both servers have the same.
    fn kind(&self) -> Option<&str> {
        let kind = self.here.as_deref()?;
        (self.there.as_deref() == Some(kind)).then_some(kind)
    }
}

impl Compare {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let from = Server::connect(&self.source, tls)?;
        let to = Server::connect(&self.target, tls)?;
        to.require_module()?;
        let jobs = jobs(self.find(&from)?, self.find(&to)?);
        let mut comparing = Comparing {
            kinds: self.keys.kinds(),
            from: &from,
            to: &to,
            counts: BTreeMap::new(),
            outcomes: Vec::new(),
            progress: Progress::new(show, "comparing", "keys", Some(jobs.len() as u64)),
            done: 0,
        };
        let mut ended = comparing.all(jobs);
        let Comparing {
            counts,
            mut outcomes,
            progress,
            done,
            ..
        } = comparing;
        progress.end(done);
        outcomes.sort_by(|a, b| a.key.cmp(&b.key));
        if ended.is_ok() && !outcomes.is_empty() {
            let all: u64 = counts.values().flatten().sum();
            let text = format!("{} of {all} keys are not the same", outcomes.len());
            ended = Err(Failure::new(text));
        }
        if json {
            return print_json(in_json(&counts, &outcomes), ended);
        }
        print(&counts, &outcomes, show);
        ended
    }

    fn find(&self, server: &Server) -> Result<Vec<Found>> {
        let found = self.keys.find(server);
        found.map_err(|fault| server.failure("could not look for filters at", &fault))
    }
}

/// The keys of both servers, but for those that a run of `move` or `build` has left beside others.
fn jobs(here: Vec<Found>, there: Vec<Found>) -> Vec<Job> {
    let there = there.into_iter().map(|found| (found.key, found.kind));
    let mut there: HashMap<Vec<u8>, String> = there.collect();
    let mut jobs = Vec::with_capacity(here.len());
    let new = |key, here, there| Job {
        key,
        here,
        there,
        mark: None,
        rests: false,
    };
    for Found { key, kind } in here {
        let other = there.remove(&key);
        jobs.push(new(key, Some(kind), other));
    }
    jobs.extend(
        there
            .into_iter()
            .map(|(key, kind)| new(key, None, Some(kind))),
    );
    jobs.retain(|job| !is_beside(&job.key));
    jobs.sort_by(|a, b| a.key.cmp(&b.key));
    jobs
}

/// As many keys at a time as are asked for together.
fn split(jobs: Vec<Job>) -> impl Iterator<Item = Vec<Job>> {
    let mut jobs = jobs.into_iter();
    std::iter::from_fn(move || {
        let together: Vec<Job> = jobs.by_ref().take(TOGETHER).collect();
        (!together.is_empty()).then_some(together)
    })
}

/// The number of keys of each type, by what became of them.
type Counts = BTreeMap<String, [u64; 6]>;

/// A run.
struct Comparing<'c> {
    /// The types of the keys that are compared.
    kinds: Vec<&'c str>,
    from: &'c Server,
    to: &'c Server,
    counts: Counts,
    outcomes: Vec<Outcome>,
    progress: Progress,
    done: u64,
}

/// What a server has under a key: a payload of DUMP, and when the key expires.
type Held = (Option<Vec<u8>>, Option<Expiry>);

impl Comparing<'_> {
    fn all(&mut self, jobs: Vec<Job>) -> Result<()> {
        let mut left = Vec::new();
        for together in split(jobs) {
            for job in self.together(together)? {
                // It may have changed in between, and filters may be equal whose payloads are not.
                match self.exactly(&job)? {
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
            for mut together in split(std::mem::take(&mut left)) {
                self.look_again(&mut together)?;
                left.extend(self.together(together)?);
            }
        }
        left.into_iter().try_for_each(|job| self.finally(job))
    }

    /// Compares small values by DUMP, and large ones one by one. Returns those that are left to compare.
    fn together(&mut self, jobs: Vec<Job>) -> Result<Vec<Job>> {
        let mut left = Vec::new();
        let mut small = Vec::new();
        let mut bytes = 0;
        for (job, size) in self.sized(jobs)? {
            match size {
                None => left.push(job),
                Some(size) if size > SMALL_BYTES => self.patiently(job)?,
                Some(size) => {
                    small.push(job);
                    bytes += size;
                }
            }
            if bytes >= TOGETHER_BYTES {
                self.by_dump(std::mem::take(&mut small), &mut left)?;
                bytes = 0;
            }
        }
        self.by_dump(small, &mut left)?;
        Ok(left)
    }

    /// The sizes of the values at the source, where both servers have the same type and a size is known.
    fn sized(&self, jobs: Vec<Job>) -> Result<Vec<(Job, Option<u64>)>> {
        let keys: Vec<&[u8]> = jobs.iter().map(|job| &job.key[..]).collect();
        let replies = self.from.get_all::<Option<u64>>(&keys, "MEMORY USAGE");
        let sizes = jobs.into_iter().zip(replies).map(|(job, size)| {
            let size = match size {
                Ok(size) => size.filter(|_| job.kind().is_some()),
                // Whatever is in the way is found by the comparison that follows.
                Err(fault) => stop(self.from, &fault).map(|()| None)?,
            };
            Ok((job, size))
        });
        sizes.collect()
    }

    /// Compares values by DUMP, all at a time.
    fn by_dump(&mut self, jobs: Vec<Job>, left: &mut Vec<Job>) -> Result<()> {
        let keys: Vec<&[u8]> = jobs.iter().map(|job| &job.key[..]).collect();
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
            let mark = mark(&here);
            job.rests = job.mark == Some(mark);
            job.mark = Some(mark);
            left.push(job);
        }
        Ok(())
    }

    /// Asks for the types again, because keys are made and deleted meanwhile.
    fn look_again(&self, jobs: &mut [Job]) -> Result<()> {
        let keys: Vec<&[u8]> = jobs.iter().map(|job| &job.key[..]).collect();
        let here = types(self.from, &keys)?;
        let there = types(self.to, &keys)?;
        for ((job, here), there) in jobs.iter_mut().zip(here).zip(there) {
            (job.here, job.there) = (here, there);
        }
        Ok(())
    }

    /// Ends a key that was not the same after all pauses.
    fn finally(&mut self, job: Job) -> Result<()> {
        let kind = job.kind().unwrap_or_default();
        // A plain filter can be compared while it changes, but the target needs time to catch up with each look at it.
        if !job.rests && (job.mark.is_none() || is_plain(kind)) {
            return self.patiently(job);
        }
        match self.exactly(&job)? {
            Some(Verdict::Same) => self.end(job, Fate::Same, None),
            Some(Verdict::Different(reason)) if job.rests && self.still_rests(&job)? => {
                self.end(job, Fate::Different, Some(reason));
            }
            Some(Verdict::Different(_) | Verdict::Changing) if !is_plain(kind) => {
                self.end(job, Fate::Changing, Some(CHANGES.to_owned()));
            }
            _ => return self.patiently(job),
        }
        Ok(())
    }

    /// Whether the source holds what it held when it was last read.
    fn still_rests(&self, job: &Job) -> Result<bool> {
        let held = held(self.from, &[&job.key])?.swap_remove(0);
        Ok(held.is_some_and(|held| job.mark == Some(mark(&held))))
    }

    /// The type of a key at both servers, if it is one of those that are compared.
    fn kind<'j>(&self, job: &'j Job) -> Option<&'j str> {
        job.kind().filter(|kind| self.kinds.contains(kind))
    }

    /// Compares a key to the bit, without a pause. Returns `None` if there is no such comparison: types differ, or a
    /// server refuses it.
    fn exactly(&self, job: &Job) -> Result<Option<Verdict>> {
        let Some(kind) = self.kind(job) else {
            return Ok(None);
        };
        match compare(self.from, self.to, &job.key, kind, &[]) {
            Ok(verdict) => Ok(Some(verdict)),
            Err(end) => {
                let (server, fault) = self.place(end);
                stop(server, &fault).map(|()| None)
            }
        }
    }

    /// Compares a key to the bit, waits for the target where that lags behind, and ends the key.
    fn patiently(&mut self, mut job: Job) -> Result<()> {
        let mut pauses = PAUSES.iter();
        loop {
            let Some(kind) = self.kind(&job) else {
                self.apart(job);
                return Ok(());
            };
            let ended = match compare(self.from, self.to, &job.key, kind, &PAUSES) {
                Ok(Verdict::Same) => Some((Fate::Same, None)),
                Ok(Verdict::Different(reason)) => Some((Fate::Different, Some(reason))),
                // A plain filter has become another one, whose first look this was.
                Ok(Verdict::Changing) if is_plain(kind) => None,
                Ok(Verdict::Changing) => Some((Fate::Changing, Some(CHANGES.to_owned()))),
                Ok(Verdict::Gone) => None,
                Err(end) => {
                    let (server, fault) = self.place(end);
                    stop(server, &fault)?;
                    let reason = format!("{}: {fault}", server.address());
                    let is_another_value = fault.is_missing_key() || fault.is_wrong_type();
                    (!is_another_value).then_some((Fate::Refused, Some(reason)))
                }
            };
            match (ended, pauses.next()) {
                (Some((fate, reason)), _) => self.end(job, fate, reason),
                (None, None) => self.end(job, Fate::Changing, Some(CHANGES.to_owned())),
                (None, Some(pause)) => {
                    sleep(*pause);
                    self.look_again(std::slice::from_mut(&mut job))?;
                    continue;
                }
            }
            return Ok(());
        }
    }

    /// Ends a key that has no type at one of the servers, or another type.
    fn apart(&mut self, job: Job) {
        let is_one = |kind: &Option<String>| {
            let kind = kind.as_deref();
            kind.is_some_and(|kind| self.kinds.contains(&kind))
        };
        match (&job.here, &job.there) {
            // It has gone from both meanwhile, or is a filter no more.
            (here, there) if !is_one(here) && !is_one(there) => self.next(),
            (Some(_), None) => self.end(job, Fate::OnlySource, None),
            (None, Some(_)) => self.end(job, Fate::OnlyTarget, None),
            (Some(here), Some(there)) => {
                let reason = format!("its type is {there} there, not {here}");
                self.end(job, Fate::Different, Some(reason));
            }
            (None, None) => self.next(),
        }
    }

    /// Counts a key, and keeps it if it is not the same at both servers.
    fn end(&mut self, job: Job, fate: Fate, reason: Option<String>) {
        let kinds = [job.here, job.there];
        let mut kinds = kinds.into_iter().flatten();
        let kind = kinds.find(|kind| self.kinds.contains(&kind.as_str()));
        let kind = kind.unwrap_or_default();
        self.counts.entry(kind.clone()).or_default()[fate as usize] += 1;
        if fate != Fate::Same {
            self.outcomes.push(Outcome {
                key: job.key,
                kind,
                fate,
                reason,
            });
        }
        self.next();
    }

    /// Shows that one more key is done with.
    fn next(&mut self) {
        self.done += 1;
        self.progress.at(self.done, self.done);
    }

    /// The server that failed, and its fault.
    fn place(&self, end: End) -> (&Server, Fault) {
        match end {
            End::From(fault) => (self.from, fault),
            End::To(fault) => (self.to, fault),
        }
    }
}

/// Whether the values of a type are plain Bloom filters: their bits are only ever set.
fn is_plain(kind: &str) -> bool {
    matches!(
        dialect_of(kind),
        Some(Dialect::Bloomfltr | Dialect::RedisBloom)
    )
}

/// Ends the run if the same would happen with every other key.
fn stop(server: &Server, fault: &Fault) -> Result<()> {
    if fault.is_final() {
        return Err(failure(server, fault));
    }
    Ok(())
}

fn failure(server: &Server, fault: &Fault) -> Failure {
    server.failure("could not read from", fault)
}

/// What a server has under keys; `None` for a key that it refuses to tell about.
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

/// Whether both servers have the same value and the same time to live.
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
    payload.is_some_and(|payload| dump::is_of_type(payload, kind))
}

/// A number that differs, in all likelihood, if the value or the time to live does.
fn mark((payload, expiry): &Held) -> u64 {
    let mut hasher = DefaultHasher::new();
    payload.as_deref().map(dump::value).hash(&mut hasher);
    expiry.as_ref().map(Expiry::exact_ms).hash(&mut hasher);
    hasher.finish()
}

/// The types of keys, as of TYPE; `None` for keys that are not there.
fn types(server: &Server, keys: &[&[u8]]) -> Result<Vec<Option<String>>> {
    let replies = server.get_all::<String>(keys, "TYPE").into_iter();
    let kinds = replies.map(|kind| kind.map(|kind| Some(kind).filter(|kind| kind != "none")));
    let kinds: Result<_, Fault> = kinds.collect();
    kinds.map_err(|fault| failure(server, &fault))
}

fn print(counts: &Counts, outcomes: &[Outcome], show: Show) {
    for Outcome {
        key, fate, reason, ..
    } in outcomes
    {
        let (key, fate_name) = (shown(key), fate.name());
        match reason {
            Some(reason) if *fate == Fate::Refused => eprintln!("{fate_name} {key}: {reason}"),
            Some(reason) => println!("{fate_name} {key}: {reason}"),
            None => println!("{fate_name} {key}"),
        }
    }
    if show == Show::Nothing {
        return;
    }
    let row = |kind: &str, cells: [String; 6]| {
        let [same, different, changing, source, target, refused] = cells;
        println!(
            "{kind:<10}{same:>10}{different:>11}{changing:>10}{source:>16}{target:>16}{refused:>9}"
        );
    };
    row("type", Fate::ALL.map(|fate| fate.name().to_owned()));
    for (kind, counts) in counts {
        row(kind, counts.map(|count| count.to_string()));
    }
}

fn in_json(counts: &Counts, outcomes: &[Outcome]) -> Map<String, serde_json::Value> {
    let types = counts.iter().map(|(kind, counts)| {
        let counts = Fate::ALL.into_iter().zip(counts);
        let counts = counts.map(|(fate, count)| (fate.name().to_owned(), json!(count)));
        (kind.clone(), counts.collect())
    });
    let keys = outcomes.iter().map(|outcome| {
        json!({
            "key": shown(&outcome.key),
            "type": outcome.kind,
            "outcome": outcome.fate.name(),
            "reason": outcome.reason,
        })
    });
    Map::from_iter([
        (
            "types".to_owned(),
            serde_json::Value::Object(types.collect()),
        ),
        ("keys".to_owned(), keys.collect()),
    ])
}
