//! `valkeybloom move`: brings the filters of a server to another, as they are.
//!
//! What is small goes by DUMP and RESTORE, which is one step. What is large, and what the target can't read in
//! that form, goes by BF.SCANDUMP and BF.LOADCHUNK into a key beside ([`place`](super::place)). valkey-bloom has no
//! chunks, so its filters go by DUMP whatever their size, and so do the values of RedisBloom's other types.
//!
//! A key is at the target whole or not at all, and the source is only read: a run that was ended by anything is
//! finished by the next one.

use std::collections::BTreeMap;

use clap::Args;
use redis::{Cmd, Value, cmd};
use serde_json::{Map, json};

use super::difference::{End, Verdict, compare};
use super::dump;
use super::expiry::Expiry;
use super::failure::{Failure, Fault, Result, shown};
use super::keys::{Found, Selection};
use super::place::{Place, Upload, is_beside};
use super::progress::{Progress, Show};
use super::report::{grouped, print_json};
use super::server::{Server, Tls, is_filter};
use super::size::Info;

/// The most bytes of a filter that goes by DUMP: a few chunks.
const DUMP_BYTES: u64 = 16 << 20;

/// The most attempts at a key that changes on the way.
const ATTEMPTS: u32 = 3;

/// Why a key is refused that changed in every attempt.
const CHANGES: &str = "it changes while it is copied: stop its writers, or run this again";

/// Bring the filters of a server to another
#[derive(Args)]
pub struct Move {
    /// The server that has them: redis://user:password@host:port/database, rediss:// for TLS
    from: String,
    /// The server that is to have them
    to: String,
    #[command(flatten)]
    keys: Selection,
    /// Replace filters that are there already
    #[arg(long)]
    replace: bool,
    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,
    /// Compare parameters, items, every bit and the time to live afterwards
    #[arg(long)]
    verify: bool,
}

/// What became of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Moved,
    Replaced,
    Skipped,
    Refused,
}

impl Fate {
    const ALL: [Self; 4] = [Self::Moved, Self::Replaced, Self::Skipped, Self::Refused];

    const fn name(self) -> &'static str {
        match self {
            Self::Moved => "moved",
            Self::Replaced => "replaced",
            Self::Skipped => "skipped",
            Self::Refused => "refused",
        }
    }
}

/// What became of a key, and why.
struct Outcome {
    found: Found,
    fate: Fate,
    bytes: u64,
    reason: Option<String>,
}

/// Why a key is not at the target now.
enum Stop {
    /// It need not be.
    Skipped(String),
    /// It could not be brought.
    Refused(String),
    /// It is not what it was when this attempt began.
    Changed,
    /// No other could, either.
    All(Failure),
}

impl Move {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let from = Server::connect(&self.from, tls)?;
        let to = Server::connect(&self.to, tls)?;
        to.require_module()?;
        let could_not = |fault| from.failure("could not look for filters at", &fault);
        let kinds = self.keys.kinds();
        let filters = self.keys.find(&from).map_err(could_not)?;

        let mut moving = Moving {
            options: self,
            kinds: &kinds,
            from: &from,
            to: &to,
            by_dump: true,
            bytes: 0,
            progress: Progress::new(
                if self.dry_run { Show::Nothing } else { show },
                "moving",
                "bytes",
                Some(filters.len() as u64),
            ),
            done: 0,
        };
        let mut outcomes = Vec::new();
        let mut ended = Ok(());
        for mut found in filters {
            let before = moving.bytes;
            let (fate, reason) = match moving.bring(&mut found) {
                Ok(fate) => (fate, None),
                Err(Stop::Skipped(reason)) => (Fate::Skipped, Some(reason)),
                Err(Stop::Refused(reason)) => (Fate::Refused, Some(reason)),
                Err(Stop::Changed) => (Fate::Refused, Some(CHANGES.to_owned())),
                Err(Stop::All(failure)) => {
                    ended = Err(failure);
                    break;
                }
            };
            moving.done += 1;
            moving.progress.at(moving.done, moving.bytes);
            let bytes = moving.bytes - before;
            outcomes.push(Outcome {
                found,
                fate,
                bytes,
                reason,
            });
        }
        moving.progress.end(moving.bytes);
        let refused = outcomes
            .iter()
            .filter(|of| of.fate == Fate::Refused)
            .count();
        if ended.is_ok() && refused > 0 {
            let text = format!("{refused} of {} keys could not be moved", outcomes.len());
            ended = Err(Failure::new(text));
        }
        if json {
            return print_json(self.in_json(&outcomes), ended);
        }
        self.print(&outcomes, show);
        ended
    }

    fn print(&self, outcomes: &[Outcome], show: Show) {
        for outcome in outcomes {
            let (key, fate) = (shown(&outcome.found.key), outcome.fate);
            match &outcome.reason {
                Some(reason) if fate == Fate::Refused => eprintln!("refused {key}: {reason}"),
                _ if show == Show::Nothing => {}
                Some(reason) => println!("{} {key}: {reason}", fate.name()),
                None if self.dry_run => {
                    println!("{} {key}: {} bytes", fate.name(), grouped(outcome.bytes));
                }
                None if fate == Fate::Replaced => println!("replaced {key}"),
                None => {}
            }
        }
        if show == Show::Nothing {
            return;
        }
        if self.dry_run {
            println!("nothing was written: this was a dry run");
        }
        let mut table: BTreeMap<&str, ([usize; 4], u64)> = BTreeMap::new();
        for outcome in outcomes {
            let row = table.entry(&outcome.found.kind).or_default();
            row.0[outcome.fate as usize] += 1;
            row.1 += outcome.bytes;
        }
        let heads = Fate::ALL.map(Fate::name);
        let [moved, replaced, skipped, refused] = heads;
        println!(
            "{:<10}{moved:>10}{replaced:>10}{skipped:>10}{refused:>10}{:>18}",
            "type", "bytes"
        );
        for (kind, ([moved, replaced, skipped, refused], bytes)) in table {
            let bytes = grouped(bytes);
            println!("{kind:<10}{moved:>10}{replaced:>10}{skipped:>10}{refused:>10}{bytes:>18}");
        }
    }

    fn in_json(&self, outcomes: &[Outcome]) -> Map<String, serde_json::Value> {
        let keys = outcomes.iter().map(|outcome| {
            json!({
                "key": shown(&outcome.found.key),
                "type": outcome.found.kind,
                "outcome": outcome.fate.name(),
                "bytes": outcome.bytes,
                "reason": outcome.reason,
            })
        });
        Map::from_iter([
            ("dry_run".to_owned(), self.dry_run.into()),
            ("keys".to_owned(), keys.collect()),
        ])
    }
}

/// A run.
struct Moving<'m> {
    options: &'m Move,
    /// The types of the keys that are moved.
    kinds: &'m [&'m str],
    from: &'m Server,
    to: &'m Server,
    /// Whether the target reads what the source dumps, as far as is known.
    by_dump: bool,
    /// Bytes of the filters that were brought.
    bytes: u64,
    progress: Progress,
    done: u64,
}

impl Moving<'_> {
    /// Brings a key, as what it is by then if it changes on the way, and returns whether it is new there.
    fn bring(&mut self, found: &mut Found) -> Result<Fate, Stop> {
        let before = self.bytes;
        for _ in 1..ATTEMPTS {
            match self.attempt(found) {
                Err(Stop::Changed) => {
                    self.bytes = before;
                    found.kind = self.kind_now(&found.key)?;
                }
                outcome => return outcome,
            }
        }
        self.attempt(found)
    }

    /// The type that a key has now, which has to be one of those that are moved.
    fn kind_now(&self, key: &[u8]) -> Result<String, Stop> {
        let kind: Result<String, Fault> = self.from.get(key, cmd("TYPE").arg(key));
        match kind.map_err(|fault| self.source(&fault))? {
            kind if self.kinds.contains(&kind.as_str()) => Ok(kind),
            kind if kind == "none" => Err(gone()),
            kind => Err(Stop::Refused(format!(
                "it changed while it was moved: its type is {kind} now"
            ))),
        }
    }

    /// Brings a key as what it was found to be.
    fn attempt(&mut self, found: &Found) -> Result<Fate, Stop> {
        let key = &found.key[..];
        if is_beside(key) {
            return Err(Stop::Skipped(
                "it is left from a run that was ended".to_owned(),
            ));
        }
        let bytes = self.size(found)?;
        let there: String = self
            .to
            .get(key, cmd("TYPE").arg(key))
            .map_err(|fault| self.target(&fault))?;
        let replaceable = there == found.kind || is_filter(&there) && is_filter(&found.kind);
        let fate = match &there[..] {
            "none" => Fate::Moved,
            _ if !self.options.replace => {
                if self.options.verify && replaceable {
                    self.verify(found)?;
                    return Err(Stop::Skipped(
                        "it is there already, and the same".to_owned(),
                    ));
                }
                return Err(Stop::Skipped("it is there already".to_owned()));
            }
            _ if replaceable => Fate::Replaced,
            other => {
                return Err(Stop::Refused(format!("there it is of type {other}")));
            }
        };
        if self.options.dry_run {
            self.bytes += bytes;
            return Ok(fate);
        }
        self.transfer(found, bytes)?;
        if self.options.verify {
            self.verify(found)?;
        }
        Ok(fate)
    }

    /// Bytes of a value at the source.
    fn size(&self, Found { key, kind }: &Found) -> Result<u64, Stop> {
        let size = if is_filter(kind) {
            Info::of(self.from, key).map(|info| Some(info.sums().2))
        } else {
            self.from.get(key, cmd("MEMORY").arg("USAGE").arg(key))
        };
        size.map_err(|fault| self.source(&fault))?.ok_or_else(gone)
    }

    fn transfer(&mut self, found: &Found, bytes: u64) -> Result<(), Stop> {
        let expiry = Expiry::of(self.from, &found.key).map_err(|fault| self.source(&fault))?;
        let expires_ms = expiry.ok_or_else(gone)?.ms;
        if !is_filter(&found.kind) {
            return self.in_one_piece(found, expires_ms, bytes);
        }
        if self.by_dump && bytes <= DUMP_BYTES {
            if self.restore(found, expires_ms, <[u8]>::to_vec)?.is_none() {
                self.bytes += bytes;
                return Ok(());
            }
            self.by_dump = false;
        }
        if self.by_chunks(found, expires_ms)? {
            return Ok(());
        }
        // The source has no chunks.
        self.in_one_piece(found, expires_ms, bytes)
    }

    /// Brings what its server dumps, which is read whatever the version says.
    fn in_one_piece(
        &mut self,
        found: &Found,
        expires_ms: Option<u64>,
        bytes: u64,
    ) -> Result<(), Stop> {
        match self.restore(found, expires_ms, dump::for_any_server)? {
            None => self.bytes += bytes,
            Some(obstacle) => return Err(obstacle),
        }
        Ok(())
    }

    /// Brings it in one step. Returns the obstacle if a server does not do that, so that another way is left.
    fn restore(
        &self,
        Found { key, kind }: &Found,
        expires_ms: Option<u64>,
        seal: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Result<Option<Stop>, Stop> {
        let payload = match dump::payload(self.from, key) {
            Err(fault) if fault.lacks_command() => return Ok(Some(self.source(&fault))),
            payload => payload.map_err(|fault| self.source(&fault))?,
        };
        let payload = payload.ok_or_else(gone)?;
        // The payload says itself what it holds: asked by a command of its own, the type could change in between.
        if !dump::is_of_type(&payload, kind) {
            return Err(Stop::Changed);
        }
        let mut restore = Cmd::new();
        restore.arg("RESTORE").arg(key).arg(expires_ms.unwrap_or(0));
        restore.arg(seal(&payload)).arg("ABSTTL");
        if self.options.replace {
            restore.arg("REPLACE");
        }
        match self.to.call(key, &restore) {
            Ok(_) => Ok(None),
            Err(fault) if dump::is_unreadable(&fault) => Ok(Some(Stop::Refused(
                "the server there can't read it".to_owned(),
            ))),
            Err(fault) if fault.lacks_command() => Ok(Some(self.target(&fault))),
            Err(Fault::Refused(text)) if text.starts_with("BUSYKEY") => Err(taken()),
            Err(fault) => Err(self.target(&fault)),
        }
    }

    /// Brings it in chunks. Returns false if the source has none.
    fn by_chunks(
        &mut self,
        Found { key, kind }: &Found,
        expires_ms: Option<u64>,
    ) -> Result<bool, Stop> {
        let scan = |cursor| dump::scan(self.from, key, cursor);
        let (mut cursor, header) = match scan(0) {
            Err(fault) if fault.lacks_command() => return Ok(false),
            first => first.map_err(|fault| self.source(&fault))?,
        };
        let to = self.to;
        let again = |fault| match fault {
            // The chunks are not those of the header: the filter has grown since, or is another one.
            Fault::Refused(text) if text == "ERR received bad data" => Stop::Changed,
            fault => target(to, &fault),
        };
        let mut upload = Upload::begin(self.to, key, &header).map_err(again)?;
        loop {
            let (next, chunk) = scan(cursor).map_err(|fault| self.source(&fault))?;
            if next == 0 {
                break;
            }
            upload.chunk(next, &chunk).map_err(again)?;
            self.bytes += chunk.len() as u64;
            self.progress.at(self.done, self.bytes);
            cursor = next;
        }
        // Of a window, periods come and go: then these chunks are of no one moment.
        let (_, header_now) = scan(0).map_err(|fault| self.source(&fault))?;
        if header_now != header && self.is_windowed(key)? {
            return Err(Stop::Changed);
        }
        if upload.type_name().map_err(|fault| self.target(&fault))? != *kind {
            return Err(Stop::Changed);
        }
        let place = if self.options.replace {
            Place::Replace
        } else {
            Place::IfFree
        };
        match upload.finish(expires_ms, place) {
            Ok(true) => Ok(true),
            Ok(false) => Err(taken()),
            Err(Fault::Refused(text)) if text.contains("still being loaded") => Err(Stop::Changed),
            Err(fault) => Err(self.target(&fault)),
        }
    }

    fn is_windowed(&self, key: &[u8]) -> Result<bool, Stop> {
        let info = Info::of(self.from, key).map_err(|fault| self.source(&fault))?;
        Ok(info.get::<Value>("Window").is_some())
    }

    fn verify(&self, Found { key, kind }: &Found) -> Result<(), Stop> {
        // It was brought: begun again, it would only be in its own way.
        let changed = || Stop::Refused("it changed after it was moved".to_owned());
        // The target was written before: there is nothing to wait for.
        match compare(self.from, self.to, key, kind, &[]) {
            Ok(Verdict::Same) => Ok(()),
            Ok(Verdict::Different(difference)) => Err(Stop::Refused(difference)),
            Ok(Verdict::Changing) => Err(changed()),
            Ok(Verdict::Gone) => Err(gone()),
            Err(End::From(fault)) => Err(match self.source(&fault) {
                Stop::Changed => changed(),
                stop => stop,
            }),
            Err(End::To(fault)) => Err(self.target(&fault)),
        }
    }

    fn source(&self, fault: &Fault) -> Stop {
        match fault {
            fault if fault.is_missing_key() => gone(),
            fault if fault.is_wrong_type() => Stop::Changed,
            fault => stop(self.from, "could not read from", fault),
        }
    }

    fn target(&self, fault: &Fault) -> Stop {
        target(self.to, fault)
    }
}

fn target(to: &Server, fault: &Fault) -> Stop {
    stop(to, "could not write to", fault)
}

fn stop(server: &Server, what: &str, fault: &Fault) -> Stop {
    if fault.is_final() {
        Stop::All(server.failure(what, fault))
    } else {
        Stop::Refused(format!("{}: {fault}", server.address()))
    }
}

fn gone() -> Stop {
    Stop::Skipped("it is gone".to_owned())
}

fn taken() -> Stop {
    Stop::Skipped("somebody else has made it there meanwhile".to_owned())
}
