//! `valkeybloom move`: brings the filters of a server to another, as they are.
//!
//! What is small goes by DUMP and RESTORE, which is one step. What is large, and what the target can't read in
//! that form, goes by BF.SCANDUMP and BF.LOADCHUNK into a key beside ([`place`](super::place)). valkey-bloom has no
//! chunks, so its filters go by DUMP whatever their size, and so do the values of RedisBloom's other types.
//!
//! A key is at the target whole or not at all, and the source is only read: a run that was ended by anything is
//! finished by the next one.

use std::collections::{BTreeMap, HashSet};

use clap::Args;
use redis::{Cmd, Value, cmd};
use serde_json::json;

use crate::bloom::Dialect;

use super::compare::{End, by_dump, difference};
use super::dump;
use super::failure::{Failure, Fault, Result, shown};
use super::place::{Place, Upload, is_beside, now_ms};
use super::progress::{Progress, Show};
use super::report::grouped;
use super::server::{Server, Tls, is_filter};
use super::size::Info;

/// The most bytes of a filter that goes by DUMP: a few chunks.
const DUMP_BYTES: u64 = 16 << 20;

/// How often a filter is begun again that changes on the way.
const ATTEMPTS: u32 = 3;

/// RedisBloom's other types.
const OTHERS: [&str; 4] = ["MBbloomCF", "CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE"];

/// Bring the filters of a server to another
#[derive(Args)]
pub struct Move {
    /// The server that has them: redis://user:password@host:port/database, rediss:// for TLS
    from: String,
    /// The server that is to have them
    to: String,
    /// Only keys that match a pattern, as of KEYS
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    /// Only keys of a type, as of TYPE
    #[arg(long = "type", value_name = "TYPE", value_parser = [
        "bloomfltr", "bloomfltx", "MBbloom--", "MBbloomCF", "CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE",
    ])]
    kind: Option<String>,
    /// Replace filters that are there already
    #[arg(long)]
    replace: bool,
    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,
    /// Compare parameters, items and every bit afterwards
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

/// A key that was found.
struct Found {
    key: Vec<u8>,
    kind: String,
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
    /// No other could, either.
    All(Failure),
}

impl Move {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let from = Server::connect(&self.from, tls)?;
        let to = Server::connect(&self.to, tls)?;
        to.require_module()?;
        let could_not = |fault| from.failure("could not look for filters at", &fault);
        let own = Dialect::ALL.map(|of| of.type_name().to_str().unwrap_or_default());
        let kinds = match &self.kind {
            Some(kind) => vec![kind.as_str()],
            None => own.into_iter().chain(OTHERS).collect(),
        };
        let filters = self.find(&from, &kinds).map_err(could_not)?;

        let mut moving = Moving {
            options: self,
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
        for found in filters {
            let before = moving.bytes;
            let (fate, reason) = match moving.bring(&found) {
                Ok(fate) => (fate, None),
                Err(Stop::Skipped(reason)) => (Fate::Skipped, Some(reason)),
                Err(Stop::Refused(reason)) => (Fate::Refused, Some(reason)),
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
        if json {
            self.print_json(&outcomes);
        } else {
            self.print(&outcomes, show);
        }
        ended?;
        let refused = outcomes
            .iter()
            .filter(|of| of.fate == Fate::Refused)
            .count();
        if refused > 0 {
            let text = format!("{refused} of {} keys could not be moved", outcomes.len());
            return Err(Failure::new(text));
        }
        Ok(())
    }

    /// The keys of these types, of each node.
    fn find(&self, server: &Server, kinds: &[&str]) -> Result<Vec<Found>, Fault> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for node in server.primaries()? {
            for &kind in kinds {
                let mut cursor = 0_u64;
                loop {
                    let mut scan = cmd("SCAN");
                    scan.arg(cursor)
                        .arg("COUNT")
                        .arg(1000)
                        .arg("TYPE")
                        .arg(kind);
                    if let Some(pattern) = &self.pattern {
                        scan.arg("MATCH").arg(pattern);
                    }
                    let page = server.call_on::<(u64, Vec<Vec<u8>>)>(&node, &scan);
                    let (next, keys) = match page {
                        // Servers that have no such type; some say so.
                        Err(Fault::Refused(text)) if text.contains("unknown type") => (0, vec![]),
                        page => page?,
                    };
                    for key in keys {
                        if seen.insert(key.clone()) {
                            let kind = kind.to_owned();
                            all.push(Found { key, kind });
                        }
                    }
                    cursor = next;
                    if cursor == 0 {
                        break;
                    }
                }
            }
        }
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(all)
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

    fn print_json(&self, outcomes: &[Outcome]) {
        let keys = outcomes.iter().map(|outcome| {
            json!({
                "key": shown(&outcome.found.key),
                "type": outcome.found.kind,
                "outcome": outcome.fate.name(),
                "bytes": outcome.bytes,
                "reason": outcome.reason,
            })
        });
        let keys: Vec<_> = keys.collect();
        println!("{}", json!({ "dry_run": self.dry_run, "keys": keys }));
    }
}

/// A run.
struct Moving<'m> {
    options: &'m Move,
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
    /// Brings a filter, and returns whether it is new there.
    fn bring(&mut self, found: &Found) -> Result<Fate, Stop> {
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

    fn transfer(&mut self, Found { key, kind }: &Found, bytes: u64) -> Result<(), Stop> {
        let expires_ms = self.expiry(key)?;
        if !is_filter(kind) {
            return self.in_one_piece(key, expires_ms, bytes);
        }
        if self.by_dump && bytes <= DUMP_BYTES {
            if self.restore(key, expires_ms, <[u8]>::to_vec)? {
                self.bytes += bytes;
                return Ok(());
            }
            self.by_dump = false;
        }
        for _ in 0..ATTEMPTS {
            let before = self.bytes;
            match self.by_chunks(key, expires_ms) {
                Ok(true) => return Ok(()),
                // The source has no chunks.
                Ok(false) => return self.in_one_piece(key, expires_ms, bytes),
                Err(Some(stop)) => return Err(stop),
                Err(None) => self.bytes = before,
            }
        }
        Err(Stop::Refused(
            "it changes while it is copied: stop its writers, or run this again".to_owned(),
        ))
    }

    /// Brings what its server dumps, which is read whatever the version says.
    fn in_one_piece(
        &mut self,
        key: &[u8],
        expires_ms: Option<u64>,
        bytes: u64,
    ) -> Result<(), Stop> {
        if !self.restore(key, expires_ms, dump::for_any_server)? {
            return Err(Stop::Refused("the server there can't read it".to_owned()));
        }
        self.bytes += bytes;
        Ok(())
    }

    /// When it expires, in milliseconds since the epoch.
    fn expiry(&self, key: &[u8]) -> Result<Option<u64>, Stop> {
        let ask = |command| self.from.get::<i64>(key, cmd(command).arg(key));
        let (time, from_now) = match ask("PEXPIRETIME") {
            // Redis 6.2 and older.
            Err(fault) if fault.lacks_command() => (ask("PTTL"), now_ms()),
            time => (time, 0),
        };
        match time.map_err(|fault| self.source(&fault))? {
            -2 => Err(gone()),
            ms => Ok(u64::try_from(ms).ok().map(|ms| ms.saturating_add(from_now))),
        }
    }

    /// Brings it in one step. Returns false if that can't be.
    fn restore(
        &self,
        key: &[u8],
        expires_ms: Option<u64>,
        seal: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Result<bool, Stop> {
        let payload = match dump::payload(self.from, key) {
            Err(fault) if fault.lacks_command() => return Ok(false),
            payload => payload.map_err(|fault| self.source(&fault))?,
        };
        let payload = payload.ok_or_else(gone)?;
        let mut restore = Cmd::new();
        restore.arg("RESTORE").arg(key).arg(expires_ms.unwrap_or(0));
        restore.arg(seal(&payload)).arg("ABSTTL");
        if self.options.replace {
            restore.arg("REPLACE");
        }
        match self.to.call(key, &restore) {
            Ok(_) => Ok(true),
            Err(fault) if dump::is_unreadable(&fault) || fault.lacks_command() => Ok(false),
            Err(Fault::Refused(text)) if text.starts_with("BUSYKEY") => Err(taken()),
            Err(fault) => Err(self.target(&fault)),
        }
    }

    /// Brings it in chunks. Returns false if the source has none; `None` is an error that another attempt may
    /// not have.
    fn by_chunks(&mut self, key: &[u8], expires_ms: Option<u64>) -> Result<bool, Option<Stop>> {
        let scan = |cursor| dump::scan(self.from, key, cursor);
        let (mut cursor, header) = match scan(0) {
            Err(fault) if fault.lacks_command() => return Ok(false),
            first => first.map_err(|fault| self.source(&fault))?,
        };
        let to = self.to;
        let again = |fault| match fault {
            // The chunks are not those of the header: the filter has grown since, or is another one.
            Fault::Refused(text) if text == "ERR received bad data" => None,
            fault => Some(target(to, &fault)),
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
            return Err(None);
        }
        let place = if self.options.replace {
            Place::Replace
        } else {
            Place::IfFree
        };
        match upload.finish(expires_ms, place) {
            Ok(true) => Ok(true),
            Ok(false) => Err(Some(taken())),
            Err(Fault::Refused(text)) if text.contains("still being loaded") => Err(None),
            Err(fault) => Err(Some(self.target(&fault))),
        }
    }

    fn is_windowed(&self, key: &[u8]) -> Result<bool, Stop> {
        let info = Info::of(self.from, key).map_err(|fault| self.source(&fault))?;
        Ok(info.get::<Value>("Window").is_some())
    }

    fn verify(&self, Found { key, kind }: &Found) -> Result<(), Stop> {
        let compare = if is_filter(kind) { difference } else { by_dump };
        match compare(self.from, self.to, key) {
            Ok(None) => Ok(()),
            Ok(Some(difference)) => Err(Stop::Refused(difference)),
            Err(End::From(fault)) => Err(self.source(&fault)),
            Err(End::To(fault)) => Err(self.target(&fault)),
        }
    }

    fn source(&self, fault: &Fault) -> Stop {
        match fault {
            Fault::Refused(text) if text == "ERR not found" => gone(),
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
