//! Reads the rows of keys from a server, in batches.

use redis::{Cmd, FromRedisValue, Value, cmd};

use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::names::TYPES;

use super::pace::{PAGE, Pace};
use super::row::{Details, Row, Ttl, info_command};
use crate::failure::{Fault, unless_refused};
use crate::keys::{Found, Selection};
use crate::server::{Server, is_filter};

/// The longest list of a Top-K that is read to count its items. Longer lists would be a load on the server.
const LONGEST_LIST: u64 = 10_000;

/// The most attempts at a key that changes its type while it is read.
const ATTEMPTS: u32 = 3;

/// What a listing found.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub rows: Vec<Row>,
    pub unreadable: Unreadable,
}

/// The keys that could not be read.
#[derive(Clone, Debug, Default)]
pub struct Unreadable {
    pub keys: u64,
    /// The first reason.
    pub reason: Option<String>,
}

/// Reads rows at a bounded pace.
pub struct Reader<'s> {
    server: &'s Server,
    pace: Pace,
    /// Whether idle times are read.
    idle: bool,
}

/// The outcome of reading a key.
enum Outcome {
    Read(Box<Row>),
    /// The key is gone, or holds something else.
    Gone,
    /// The key may have changed its type.
    Again,
    Unreadable(String),
}

impl<'s> Reader<'s> {
    /// Creates a reader that reads `keys_per_second` keys a second, or without a limit for 0.
    pub fn new(server: &'s Server, keys_per_second: u64, idle: bool) -> Self {
        let pace = Pace::new(keys_per_second);
        Self { server, pace, idle }
    }

    /// Finds the selected keys.
    pub fn find(&mut self, selection: &Selection) -> Result<Vec<Found>, Fault> {
        let pace = &mut self.pace;
        selection.scan(self.server, || pace.wait(PAGE))
    }

    /// Finds the given keys, as far as they hold values of these types.
    pub fn find_named(&mut self, keys: &[String], kinds: &[&str]) -> Result<Vec<Found>, Fault> {
        let mut found = Vec::new();
        for batch in keys.chunks(self.pace.batch()) {
            self.pace.wait(batch.len() as u64);
            let names: Vec<&[u8]> = batch.iter().map(String::as_bytes).collect();
            let types = self.server.get_all::<String>(&names, "TYPE");
            for (key, kind) in names.into_iter().zip(types) {
                let kind = kind?;
                if kinds.contains(&&kind[..]) {
                    let key = key.to_vec();
                    found.push(Found { key, kind });
                }
            }
        }
        Ok(found)
    }

    /// Reads the rows of keys, and passes those of each batch to `take`, with the number of keys that are done. Keys
    /// that changed to one of these types are read as what they are now.
    pub fn read(
        &mut self,
        found: Vec<Found>,
        kinds: &[&str],
        mut take: impl FnMut(Vec<Row>, u64),
    ) -> Result<Unreadable, Fault> {
        let mut unreadable = Unreadable::default();
        let mut done = 0;
        let size = self.pace.batch();
        let mut rest = found.into_iter().peekable();
        while rest.peek().is_some() {
            let mut batch: Vec<Found> = rest.by_ref().take(size).collect();
            let mut rows = Vec::new();
            done += batch.len() as u64;
            for _ in 0..ATTEMPTS {
                batch = self.read_batch(batch, &mut rows, &mut unreadable)?;
                batch = self.with_present_types(batch, kinds)?;
                if batch.is_empty() {
                    break;
                }
            }
            // Keys that changed each time are left out, like those that are gone.
            take(rows, done);
        }
        Ok(unreadable)
    }

    /// Adds the rows of keys to `all`. Returns the keys that may have changed their types.
    fn read_batch(
        &mut self,
        batch: Vec<Found>,
        all: &mut Vec<Row>,
        unreadable: &mut Unreadable,
    ) -> Result<Vec<Found>, Fault> {
        self.pace.wait(batch.len() as u64);
        let commands = batch.iter().flat_map(|found| self.commands(found));
        let commands: Vec<(Vec<u8>, Cmd)> = commands.collect();
        let mut replies = self.server.call_all(&commands).into_iter();
        let mut again = Vec::new();
        let mut rows = Vec::new();
        for found in batch {
            match self.row(&found, &mut replies)? {
                Outcome::Read(row) => rows.push(*row),
                Outcome::Gone => {}
                Outcome::Again => again.push(found),
                Outcome::Unreadable(reason) => {
                    unreadable.keys += 1;
                    unreadable.reason.get_or_insert(reason);
                }
            }
        }
        self.complete(&mut rows)?;
        all.append(&mut rows);
        Ok(again)
    }

    /// Returns the commands that describe a key. The idle time comes first, because the others may reset it.
    fn commands(&self, found: &Found) -> Vec<(Vec<u8>, Cmd)> {
        let idle = self.idle.then_some("OBJECT IDLETIME");
        // BF.INFO describes filters of any type, and does not report the type.
        let last = if is_filter(&found.kind) {
            "TYPE"
        } else {
            "MEMORY USAGE"
        };
        let names = idle
            .into_iter()
            .chain([info_command(&found.kind), "PTTL", last]);
        let commands = names.map(|name| {
            let mut command = Cmd::new();
            let words: Vec<&str> = name.split(' ').collect();
            command.arg(words).arg(&found.key);
            (found.key.clone(), command)
        });
        commands.collect()
    }

    /// Makes a row of the replies to [`commands`](Self::commands).
    fn row(
        &self,
        found: &Found,
        replies: &mut impl Iterator<Item = Result<Value, Fault>>,
    ) -> Result<Outcome, Fault> {
        let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
        // Servers refuse idle times if they count how often keys are used.
        let idle = if self.idle { optional(next())? } else { None };
        let info = next();
        let ttl: Option<i64> = optional(next())?;
        let last: Option<Value> = optional(next())?;
        let (kind, usage) = if is_filter(&found.kind) {
            (
                last.and_then(|kind| String::from_redis_value(kind).ok()),
                None,
            )
        } else {
            (
                None,
                last.and_then(|bytes| u64::from_redis_value(bytes).ok()),
            )
        };
        if kind.is_some_and(|kind| kind != found.kind) {
            return Ok(Outcome::Again);
        }
        let key = found.key.clone();
        let mut row = match info {
            Ok(info) => Row::new(key, &found.kind, info),
            Err(fault) if fault.is(Error::StillLoading) => Row::partly_loaded(key, &found.kind),
            Err(fault) if fault.is_final() || fault.is_temporary() => return Err(fault),
            Err(fault) if fault.lacks_command() => {
                return Ok(Outcome::Unreadable(fault.to_string()));
            }
            Err(_) => return Ok(Outcome::Again),
        };
        row.bytes = row.bytes.or(usage);
        row.idle_seconds = idle;
        row.ttl = match ttl {
            // It expired after it was described.
            Some(-2) => return Ok(Outcome::Gone),
            Some(ms) => Some(u64::try_from(ms).map_or(Ttl::Never, Ttl::Ms)),
            None => None,
        };
        Ok(Outcome::Read(Box::new(row)))
    }

    /// Completes rows that need another command: the lists of Top-Ks, and the bytes of half-loaded filters.
    fn complete(&self, rows: &mut [Row]) -> Result<(), Fault> {
        let command = |row: &Row| match row.details {
            Details::TopK(ref list) if list.k <= LONGEST_LIST => Some(cmd("TOPK.LIST")),
            Details::PartlyLoaded => Some(cmd("MEMORY").arg("USAGE").to_owned()),
            _ => None,
        };
        let rows = rows.iter_mut();
        let wanted = rows.filter_map(|row| command(row).map(|command| (row, command)));
        let (mut rows, commands): (Vec<&mut Row>, Vec<Cmd>) = wanted.unzip();
        let commands = rows.iter().zip(commands).map(|(row, mut command)| {
            command.arg(&row.key);
            (row.key.clone(), command)
        });
        let replies = self.server.call_all(&commands.collect::<Vec<_>>());
        for (row, reply) in rows.iter_mut().zip(replies) {
            if row.details == Details::PartlyLoaded {
                row.bytes = optional(reply)?;
            } else if let Some(items) = optional::<Value>(reply)? {
                row.set_listed(&items);
            }
        }
        Ok(())
    }

    /// Returns the keys that hold values of these types now.
    fn with_present_types(
        &mut self,
        keys: Vec<Found>,
        kinds: &[&str],
    ) -> Result<Vec<Found>, Fault> {
        let names: Vec<&[u8]> = keys.iter().map(|found| &found.key[..]).collect();
        let types = self.server.get_all::<String>(&names, "TYPE");
        let mut found = Vec::new();
        for (Found { key, .. }, kind) in keys.into_iter().zip(types) {
            let kind = kind?;
            if TYPES.contains(&&kind[..]) && kinds.contains(&&kind[..]) {
                found.push(Found { key, kind });
            }
        }
        Ok(found)
    }
}

/// Converts a reply; `None` for one that the server refused.
fn optional<T: FromRedisValue>(reply: Result<Value, Fault>) -> Result<Option<T>, Fault> {
    let reply = unless_refused(reply)?;
    Ok(reply.and_then(|value| T::from_redis_value(value).ok()))
}
