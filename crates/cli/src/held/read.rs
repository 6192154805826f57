//! Reads the rows of keys from a server, in batches.

use std::collections::HashSet;

use redis::{Cmd, FromRedisValue, Value};

use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::names::BF_INFO;

use super::pace::{PAGE, Pace};
use super::row::{Details, Row, info_command};
use crate::failure::{Fault, unless_refused};
use crate::info::{Info, InfoReader};
use crate::keys::{Found, Selection};
use crate::server::{Server, on_key};

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
    infos: InfoReader<'s>,
    pace: Pace,
    /// Whether idle times are read.
    idle: bool,
}

impl<'s> Reader<'s> {
    /// Creates a reader that reads `keys_per_second` keys a second, or without a limit for 0.
    pub fn new(server: &'s Server, keys_per_second: u64, idle: bool) -> Self {
        Self {
            server,
            infos: InfoReader::new(server),
            pace: Pace::new(keys_per_second),
            idle,
        }
    }

    /// Finds the selected keys.
    pub fn find(&mut self, selection: &Selection) -> Result<Vec<Found>, Fault> {
        let pace = &mut self.pace;
        selection.scan(self.server, || pace.wait(PAGE))
    }

    /// Finds the given keys, as far as they hold values of these types. A key that is named twice is found once.
    pub fn find_named(&mut self, keys: &[String], kinds: &[&str]) -> Result<Vec<Found>, Fault> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let keys: Vec<&String> = keys.iter().filter(|key| seen.insert(*key)).collect();
        for batch in keys.chunks(self.pace.batch()) {
            self.pace.wait(batch.len() as u64);
            let keys = batch.iter().map(|key| key.as_bytes().to_vec());
            found.extend(self.present(keys.collect(), kinds)?);
        }
        Ok(found)
    }

    /// Returns the keys that hold values of these types now.
    fn present(&self, keys: Vec<Vec<u8>>, kinds: &[&str]) -> Result<Vec<Found>, Fault> {
        let names: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let types = self.server.query_all::<String>(&names, "TYPE");
        let mut found = Vec::new();
        for (key, kind) in keys.into_iter().zip(types) {
            let kind = kind?;
            if kinds.contains(&&kind[..]) {
                found.push(Found { key, kind });
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
            for attempt in 1..=ATTEMPTS {
                let is_last = attempt == ATTEMPTS;
                let again = self.read_batch(batch, is_last, &mut rows, &mut unreadable)?;
                batch = self.present(again, kinds)?;
                if batch.is_empty() {
                    break;
                }
            }
            // Keys that changed each time are left out, like those that are gone.
            take(rows, done);
        }
        Ok(unreadable)
    }

    /// Adds the rows of keys to `all`. Returns the keys that may be gone, or have changed their types. A key whose command
    /// the server refuses may have changed before; at the last attempt, it counts as unreadable.
    fn read_batch(
        &mut self,
        batch: Vec<Found>,
        is_last: bool,
        all: &mut Vec<Row>,
        unreadable: &mut Unreadable,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        self.pace.wait(batch.len() as u64);
        let commands = batch.iter().flat_map(|found| self.commands(found));
        let commands: Vec<_> = commands.collect();
        let mut replies = self.infos.call_all(&commands).into_iter();
        let mut again = Vec::new();
        let mut rows = Vec::new();
        for found in batch {
            match self.row(&found, &mut replies) {
                Ok(Some(row)) => rows.push(row),
                Err(fault) if fault.affects_all_keys() || fault.is_slot_moving() => {
                    return Err(fault);
                }
                Err(fault) if is_last || fault.forbids_calls() => {
                    unreadable.keys += 1;
                    unreadable.reason.get_or_insert_with(|| fault.with_advice());
                }
                Ok(None) | Err(_) => again.push(found.key),
            }
        }
        self.count_listed(&mut rows)?;
        all.append(&mut rows);
        Ok(again)
    }

    /// Returns the commands that describe a key. The idle time comes first, because the others may reset it.
    fn commands(&self, found: &Found) -> impl Iterator<Item = (Vec<u8>, Cmd)> {
        let key = &found.key[..];
        let idle = self.idle.then(|| on_key("OBJECT IDLETIME", key));
        // BF.INFO describes filters of any type, and does not report the type.
        let info = match info_command(&found.kind) {
            BF_INFO => (key.to_vec(), self.infos.command(key)),
            name => on_key(name, key),
        };
        let rest = ["PTTL", "TYPE", "MEMORY USAGE"].map(|name| on_key(name, key));
        idle.into_iter().chain([info]).chain(rest)
    }

    /// Makes a row of the replies to [`commands`](Self::commands). Returns `None` if the key is gone, or has another type.
    fn row(
        &self,
        found: &Found,
        replies: &mut impl Iterator<Item = Result<Value, Fault>>,
    ) -> Result<Option<Row>, Fault> {
        let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
        // Servers refuse idle times if they count how often keys are used.
        let idle_seconds = if self.idle { optional(next())? } else { None };
        let info = next();
        let ttl_ms = optional(next())?;
        let kind: Option<String> = optional(next())?;
        let bytes = optional(next())?;
        if ttl_ms == Some(-2) || kind.is_some_and(|kind| kind != found.kind) {
            return Ok(None);
        }
        let mut row = Row {
            key: found.key.clone(),
            kind: found.kind.clone(),
            bytes,
            ttl_ms,
            idle_seconds,
            ..Row::default()
        };
        match info {
            Ok(info) => row.fill(&Info::try_from(info)?),
            Err(fault) if fault.is(Error::STILL_LOADING) => row.details = Details::PartlyLoaded,
            Err(fault) => return Err(fault),
        }
        Ok(Some(row))
    }

    /// Counts the items in the lists of Top-Ks.
    fn count_listed(&self, rows: &mut [Row]) -> Result<(), Fault> {
        let is_short =
            |row: &&mut Row| matches!(&row.details, Details::TopK(list) if list.k <= LONGEST_LIST);
        let lists: Vec<&mut Row> = rows.iter_mut().filter(is_short).collect();
        let commands = lists.iter().map(|row| on_key("TOPK.LIST", &row.key));
        let replies = self.server.call_all(&commands.collect::<Vec<_>>());
        for (row, reply) in lists.into_iter().zip(replies) {
            let items: Option<Vec<Value>> = optional(reply)?;
            // RedisBloom fills the list with nulls.
            let listed = items.map(|items| items.iter().filter(|it| **it != Value::Nil).count());
            row.items = listed.map(|count| count as u64);
        }
        Ok(())
    }
}

/// Converts a reply; `None` for one that the server refused.
fn optional<T: FromRedisValue>(reply: Result<Value, Fault>) -> Result<Option<T>, Fault> {
    let reply = unless_refused(reply)?;
    Ok(reply.and_then(|value| T::from_redis_value(value).ok()))
}
