//! `valkeybloom move`: copies the filters of a server to another server, unchanged.
//!
//! Small filters go by DUMP and RESTORE, in one step. Large filters, and those whose DUMP the target can't read, go by
//! BF.SCANDUMP and BF.LOADCHUNK into a [temporary key](super::upload). valkey-bloom has no chunks, so its filters go by
//! DUMP whatever their size, like the values of RedisBloom's other types.
//!
//! A key arrives at the target whole or not at all, and the source is only read, so a second run completes an aborted
//! one.

use clap::Args;
use redis::cmd;
use serde_json::json;

use valkeybloom_protocol::bloom::InfoField;
use valkeybloom_protocol::error::Error;

use super::difference::{SideFault, compare};
use super::dump::{self, Chunk};
use super::expiry::Expiry;
use super::failure::{Failure, Fault, Meaning, Result};
use super::family::is_filter;
use super::info::Info;
use super::keys::Found;
use super::outcomes::{Fate, Outcome, Outcomes};
use super::pair::{Between, Pair, kinds_differ};
use super::program::Program;
use super::progress::{Progress, Show};
use super::report::{grouped, print_json, print_line};
use super::server::{Server, Tls};
use super::sketches::{self, Verdict};
use super::upload::{NewExpiry, Upload, is_temporary};

/// The most bytes of a filter that goes by DUMP: a few chunks.
const DUMP_BYTES: u64 = 16 << 20;

/// The most attempts at a key that changes while it is copied.
const ATTEMPTS: u32 = 3;

/// The reason for a key that changed in every attempt.
const CHANGES: &str = "it changes while it is copied: stop its writers, or run this again";

/// Reasons shared by several steps.
const GONE: &str = "it is gone";
const UNREADABLE: &str = "the target can't read it";
const TAKEN: &str = "another client created it at the target";

/// The columns of the table, and their widths.
const COLUMNS: [(Fate, usize); 4] = [
    (Fate::Moved, 10),
    (Fate::Replaced, 10),
    (Fate::Skipped, 10),
    (Fate::Refused, 10),
];

/// The columns of the table of a dry run, and their widths.
const DRY_COLUMNS: [(Fate, usize); 4] = [
    (Fate::WouldMove, 12),
    (Fate::WouldReplace, 15),
    (Fate::Skipped, 10),
    (Fate::Refused, 10),
];

/// Copy the filters of one server to another
#[derive(Args)]
pub struct Move {
    #[command(flatten)]
    pub between: Between,
    /// Replace filters that exist at the target
    #[arg(long)]
    replace: bool,
    /// Only report what would be done, and what the target can't take
    #[arg(long)]
    dry_run: bool,
    /// Compare parameters, items, every bit and the time to live afterwards
    #[arg(long)]
    verify: bool,
}

/// The reason why a key was not copied.
enum Stop {
    /// It need not be copied, or could not be.
    Key(Fate, String),
    /// It changed during this attempt.
    Changed,
    /// No other key could be copied either.
    All(Failure),
}

impl Move {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let pair = self.between.connect(tls)?;
        let filters = self.between.keys.find(&pair.source)?;
        let bar = if self.dry_run { Show::Nothing } else { show };
        let total = Some(filters.len() as u64);
        let mut moving = Moving {
            options: self,
            pair: &pair,
            outcomes: Outcomes::default(),
            bytes: 0,
            progress: Progress::new(bar, "moving", "bytes", total),
            done: 0,
        };
        let mut filters = filters.into_iter();
        let ended = filters.try_for_each(|found| moving.copy_and_record(found));
        let outcomes = moving.outcomes;
        moving.progress.end(moving.bytes);
        let is_refused = |fate| fate == Fate::Refused;
        let what = ["could not be moved"; 2];
        let ended = ended.and_then(|()| outcomes.require_none(is_refused, what));
        if json {
            let found = json!({ "dry_run": self.dry_run, "keys": outcomes.keys_json() });
            return print_json(found, ended);
        }
        self.print(&outcomes, show);
        ended
    }

    fn print(&self, outcomes: &Outcomes, show: Show) {
        for outcome in &outcomes.listed {
            match &outcome.reason {
                _ if show == Show::Nothing && outcome.fate != Fate::Refused => {}
                Some(reason) => outcome.print(Some(reason)),
                None if self.dry_run => {
                    let bytes = grouped(outcome.bytes.unwrap_or(0));
                    outcome.print(Some(&format!("{bytes} bytes")));
                }
                None if outcome.fate == Fate::Replaced => outcome.print(None),
                None => {}
            }
        }
        if show == Show::Nothing {
            return;
        }
        if self.dry_run {
            print_line("nothing was written: this was a dry run");
        }
        let columns = if self.dry_run { &DRY_COLUMNS } else { &COLUMNS };
        outcomes.print_table(columns, Some(18));
    }
}

/// The state of a run.
struct Moving<'m> {
    options: &'m Move,
    pair: &'m Pair<'m>,
    outcomes: Outcomes,
    /// The bytes that were copied.
    bytes: u64,
    progress: Progress,
    /// The number of keys that are done.
    done: u64,
}

impl Moving<'_> {
    /// Copies a key, and records its outcome.
    ///
    /// # Errors
    /// No other key could be copied either.
    fn copy_and_record(&mut self, mut found: Found) -> Result<()> {
        let before = self.bytes;
        let (fate, reason) = match self.copy_with_retries(&mut found) {
            Ok(fate) => (fate, None),
            Err(Stop::Key(fate, reason)) => (fate, Some(reason)),
            Err(Stop::Changed) => (Fate::Refused, Some(CHANGES.to_owned())),
            Err(Stop::All(failure)) => return Err(failure),
        };
        self.done += 1;
        self.progress.at(self.done, self.bytes);
        self.outcomes.add(Outcome {
            key: found.key,
            kind: found.kind,
            fate,
            reason,
            bytes: Some(self.bytes - before),
        });
        Ok(())
    }

    /// Copies a key, again if it changes meanwhile, and updates `found` if the key's type changes. Returns whether the key
    /// is new at the target.
    fn copy_with_retries(&mut self, found: &mut Found) -> Result<Fate, Stop> {
        for _ in 1..ATTEMPTS {
            match self.attempt(found) {
                Err(Stop::Changed) => found.kind = self.kind_now(&found.key)?,
                outcome => return outcome,
            }
        }
        self.attempt(found)
    }

    /// Returns the current type of a key, which must be one of those that are moved.
    fn kind_now(&self, key: &[u8]) -> Result<String, Stop> {
        let kind: String =
            self.or_source_stop(self.pair.source.query(key, cmd("TYPE").arg(key)))?;
        match &kind[..] {
            "none" => Err(skipped(GONE)),
            name if self.pair.kinds.contains(&name) => Ok(kind),
            _ => Err(refused(format!(
                "it changed while it was moved: its type is {kind} now"
            ))),
        }
    }

    /// Copies a key, expecting its known type.
    fn attempt(&mut self, found: &Found) -> Result<Fate, Stop> {
        if is_temporary(&found.key) {
            return Err(skipped("an aborted run left it unfinished"));
        }
        let bytes = self.size(found)?;
        let fate = self.plan(found)?;
        if self.options.dry_run {
            self.bytes += bytes;
            return Ok(fate);
        }
        let before = self.bytes;
        let transferred = self.transfer(found, bytes);
        // Only bytes of keys that arrive count.
        transferred.inspect_err(|_| self.bytes = before)?;
        if self.options.verify {
            self.verify(found)?;
        }
        Ok(fate)
    }

    /// Returns the outcome of a key if nothing goes wrong.
    fn plan(&self, found: &Found) -> Result<Fate, Stop> {
        let (Found { key, kind }, options) = (found, self.options);
        let target: String =
            self.or_target_stop(self.pair.target.query(key, cmd("TYPE").arg(key)))?;
        let is_replaceable = target == *kind || is_filter(&target) && is_filter(kind);
        let fate = match &target[..] {
            "none" if options.dry_run => Fate::WouldMove,
            "none" => Fate::Moved,
            _ if !is_replaceable && (options.replace || options.verify) => {
                return Err(refused(kinds_differ(kind, &target)));
            }
            _ if !options.replace => {
                let mut reason = "the target has it already".to_owned();
                if options.verify {
                    self.verify(found)?;
                    reason += ", and it is the same";
                }
                return Err(skipped(reason));
            }
            _ if options.dry_run => Fate::WouldReplace,
            _ => Fate::Replaced,
        };
        let obstacle = if options.dry_run {
            self.or_source_stop(self.pair.obstacle(key, kind))?
        } else {
            self.pair.capabilities.obstacle_of_type(kind)
        };
        obstacle.map_or(Ok(fate), |obstacle| Err(refused(obstacle)))
    }

    /// Returns the bytes of a value at the source.
    fn size(&self, Found { key, kind }: &Found) -> Result<u64, Stop> {
        let size = if is_filter(kind) {
            let info = Info::brief(&self.pair.source, key);
            info.map(|info| Some(info.of_filter(InfoField::Size).unwrap_or(0)))
        } else {
            self.pair
                .source
                .query(key, cmd("MEMORY").arg("USAGE").arg(key))
        };
        self.or_source_stop(size)?.ok_or_else(|| skipped(GONE))
    }

    fn transfer(&mut self, found: &Found, bytes: u64) -> Result<(), Stop> {
        let expires_ms = self
            .or_source_stop(Expiry::of(&self.pair.source, &found.key))?
            .ms;
        let is_filter = is_filter(&found.kind);
        let is_small = is_filter && bytes <= DUMP_BYTES;
        if is_small && self.restore(found, expires_ms)?.is_none() {
            self.bytes += bytes;
            return Ok(());
        }
        let has_chunks = is_filter && self.pair.capabilities.program != Program::ValkeyBloom;
        if has_chunks && self.by_chunks(found, expires_ms)? {
            return Ok(());
        }
        self.restore(found, expires_ms)?.map_or(Ok(()), Err)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Copies a value by DUMP and RESTORE. Returns the obstacle if the caller may try another way.
    fn restore(
        &self,
        Found { key, kind }: &Found,
        expires_ms: Option<u64>,
    ) -> Result<Option<Stop>, Stop> {
        let payload = match dump::payload(&self.pair.source, key) {
            Err(fault) if fault.forbids_calls() => return Ok(Some(at_source(self.pair, &fault))),
            payload => self.or_source_stop(payload)?,
        };
        // The payload contains its type. A separate TYPE could miss a change between the two commands.
        if !dump::is_of_type(&payload, kind) {
            return Err(Stop::Changed);
        }
        if let Some(obstacle) = self.pair.obstacle_of_length("its DUMP", payload.len()) {
            return Ok(Some(refused(obstacle)));
        }
        let mut restore = cmd("RESTORE");
        restore.arg(key).arg(expires_ms.unwrap_or(0));
        restore.arg(dump::for_any_server(&payload)).arg("ABSTTL");
        if self.options.replace {
            restore.arg("REPLACE");
        }
        match self.pair.target.call(key, &restore) {
            Ok(_) => Ok(None),
            Err(fault) if fault.means(Meaning::Unreadable) => {
                let obstacle = sketches::obstacle(&payload, self.pair.capabilities.program);
                Ok(Some(refused(obstacle.unwrap_or(UNREADABLE.to_owned()))))
            }
            Err(fault) if fault.forbids_calls() => Ok(Some(at_target(self.pair, &fault))),
            // The client may have sent it again, because the first reply was lost.
            Err(fault) if fault.means(Meaning::KeyExists) => {
                match dump::payload(&self.pair.target, key) {
                    Ok(other) if sketches::are_same(&payload, &other) => Ok(None),
                    Err(fault) if !fault.forbids_calls() => Err(at_target(self.pair, &fault)),
                    _ => Err(skipped(TAKEN)),
                }
            }
            Err(fault) => Err(at_target(self.pair, &fault)),
        }
    }

    /// Copies a value in chunks. Returns false if the source has no chunks.
    fn by_chunks(
        &mut self,
        Found { key, kind }: &Found,
        expires_ms: Option<u64>,
    ) -> Result<bool, Stop> {
        let first = match dump::scan_with_id(&self.pair.source, key, 0) {
            Err(fault) if fault.forbids_calls() => return Ok(false),
            first => self.or_source_stop(first)?,
        };
        let pair = self.pair;
        let failed = |fault: Fault| {
            // The chunks do not match the header: the filter has grown or was replaced.
            if fault.is(Error::BAD_CHUNK) {
                Stop::Changed
            } else {
                at_target(pair, &fault)
            }
        };
        let mut upload =
            Upload::begin(&pair.target, key, &first.bytes).map_err(|fault| match fault {
                // The header is whole, so the server does not know what it says.
                fault if fault.is(Error::BAD_CHUNK) => refused(UNREADABLE),
                fault => at_target(pair, &fault),
            })?;
        let mut cursor = first.next;
        loop {
            let chunk = self.next_chunk(key, cursor, first.id.as_deref())?;
            if chunk.next == 0 {
                break;
            }
            if let Some(obstacle) = pair.obstacle_of_length("a chunk of it", chunk.bytes.len()) {
                return Err(refused(obstacle));
            }
            upload.chunk(chunk.next, &chunk.bytes).map_err(failed)?;
            self.bytes += chunk.bytes.len() as u64;
            self.progress.at(self.done, self.bytes);
            cursor = chunk.next;
        }
        // Reads the header again: its id shows a replacement after the last chunk. Filters of RedisBloom have no ids.
        self.next_chunk(key, 0, first.id.as_deref())?;
        if self.or_target_stop(upload.type_name())? != *kind {
            return Err(Stop::Changed);
        }
        match upload.finish(
            expires_ms.map_or(NewExpiry::Unchanged, NewExpiry::At),
            self.options.replace,
        ) {
            Ok(true) => Ok(true),
            Ok(false) => Err(skipped(TAKEN)),
            Err(fault) if fault.is(Error::STILL_LOADING) => Err(Stop::Changed),
            Err(fault) => Err(at_target(pair, &fault)),
        }
    }

    /// Reads a chunk after the first, of the filter with this id.
    fn next_chunk(&self, key: &[u8], cursor: u64, id: Option<&[u8]>) -> Result<Chunk, Stop> {
        let source = &self.pair.source;
        let scanned = match id {
            Some(_) => dump::scan_with_id(source, key, cursor),
            None => dump::scan(source, key, cursor),
        };
        let chunk = self.or_source_stop(scanned)?;
        if chunk.id.as_deref() == id {
            Ok(chunk)
        } else {
            Err(Stop::Changed)
        }
    }

    fn verify(&self, Found { key, kind }: &Found) -> Result<(), Stop> {
        // The key may have been copied. Another attempt would find its own copy at the target.
        let changed = || refused("it changed before it was verified");
        let is_gone = |server: &Server| {
            let kind = server.query::<String>(key, cmd("TYPE").arg(key));
            kind.is_ok_and(|kind| kind == "none")
        };
        // No pauses: the target, which was written to directly, does not lag behind.
        match compare(self.pair, key, kind, &[]) {
            Ok(Verdict::Same | Verdict::WithinAccuracy(_)) => Ok(()),
            Ok(Verdict::Different(difference)) => Err(refused(difference)),
            Ok(Verdict::Changing) => Err(changed()),
            Err(SideFault::Source(fault)) if fault.means(Meaning::WrongType) => Err(changed()),
            Err(SideFault::Source(fault) | SideFault::Target(fault))
                if fault.is(Error::NOT_FOUND) =>
            {
                // It may have expired, but a copy of a deleted key is still there.
                let pair = self.pair;
                let are_gone = is_gone(&pair.source) && is_gone(&pair.target);
                Err(if are_gone { skipped(GONE) } else { changed() })
            }
            Err(SideFault::Source(fault)) => Err(at_source(self.pair, &fault)),
            Err(SideFault::Target(fault)) => Err(at_target(self.pair, &fault)),
        }
    }

    /// Turns a fault at the source into the reason why the copy of a key stops.
    fn or_source_stop<T>(&self, result: Result<T, Fault>) -> Result<T, Stop> {
        result.map_err(|fault| at_source(self.pair, &fault))
    }

    /// Turns a fault at the target into the reason why the copy of a key stops.
    fn or_target_stop<T>(&self, result: Result<T, Fault>) -> Result<T, Stop> {
        result.map_err(|fault| at_target(self.pair, &fault))
    }
}

/// Returns why a fault at the source stops the copy of a key.
fn at_source(pair: &Pair<'_>, fault: &Fault) -> Stop {
    if fault.is(Error::NOT_FOUND) {
        skipped(GONE)
    } else if fault.means(Meaning::WrongType) {
        Stop::Changed
    } else {
        stop(&pair.source, "could not read from", fault)
    }
}

/// Returns why a fault at the target stops the copy of a key.
fn at_target(pair: &Pair<'_>, fault: &Fault) -> Stop {
    stop(&pair.target, "could not write to", fault)
}

fn stop(server: &Server, what: &str, fault: &Fault) -> Stop {
    if fault.affects_all_keys() {
        Stop::All(server.failure(what, fault))
    } else {
        refused(server.refusal(fault))
    }
}

fn skipped(reason: impl Into<String>) -> Stop {
    Stop::Key(Fate::Skipped, reason.into())
}

fn refused(reason: impl Into<String>) -> Stop {
    Stop::Key(Fate::Refused, reason.into())
}
