//! Reads the rows of keys from a server, in batches.

use std::collections::HashSet;

use redis::{Cmd, FromRedisValue, Value};

use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::names::BF_INFO;

use super::pace::{PAGE, Pace};
use super::row::{Details, Row, info_command};
use crate::failure::{Fault, Meaning, unless_refused};
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
        let keys = keys.iter().map(String::as_bytes);
        let keys: Vec<&[u8]> = keys.filter(|key| seen.insert(*key)).collect();
        for batch in keys.chunks(self.pace.batch()) {
            self.pace.wait(batch.len() as u64);
            let types = self.server.query_all::<String>(batch, "TYPE");
            for (key, kind) in batch.iter().zip(types) {
                let (key, kind) = (key.to_vec(), kind?);
                found.push(Found { key, kind });
            }
        }
        found.retain(|found| kinds.contains(&&found.kind[..]));
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
                batch = self.read_batch(batch, is_last, &mut rows, &mut unreadable)?;
                batch.retain(|found| kinds.contains(&&found.kind[..]));
                if batch.is_empty() {
                    break;
                }
            }
            // Keys that changed each time are left out, like those that are gone.
            take(rows, done);
        }
        Ok(unreadable)
    }

    /// Adds the rows of keys to `all`. Returns the keys that have no row yet, with the types that they have now. A key whose
    /// command the server refuses may have changed before; at the last attempt, it counts as unreadable.
    fn read_batch(
        &mut self,
        batch: Vec<Found>,
        is_last: bool,
        all: &mut Vec<Row>,
        unreadable: &mut Unreadable,
    ) -> Result<Vec<Found>, Fault> {
        self.pace.wait(batch.len() as u64);
        let commands = batch.iter().flat_map(|found| self.commands(found));
        let commands: Vec<_> = commands.collect();
        let of_each = commands.len() / batch.len().max(1);
        let mut replies = self.infos.call_all(&commands).into_iter();
        let mut again = Vec::new();
        let mut rows = Vec::new();
        for mut found in batch {
            let own = replies.by_ref().take(of_each).collect();
            match row(&mut found, self.idle, own) {
                Ok(Some(row)) => rows.push(row),
                Err(fault) if fault.affects_all_keys() || fault.is_slot_moving() => {
                    return Err(fault);
                }
                Err(fault) if is_last || fault.forbids_calls() => {
                    unreadable.keys += 1;
                    unreadable.reason.get_or_insert_with(|| fault.with_advice());
                }
                Ok(None) | Err(_) => again.push(found),
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

    /// Counts the items in the lists of Top-Ks.
    fn count_listed(&self, rows: &mut [Row]) -> Result<(), Fault> {
        let is_short =
            |row: &&mut Row| matches!(&row.details, Details::TopK(list) if list.k <= LONGEST_LIST);
        let lists: Vec<&mut Row> = rows.iter_mut().filter(is_short).collect();
        let commands = lists.iter().map(|row| on_key("TOPK.LIST", &row.key));
        let replies = self.server.call_all(&commands.collect::<Vec<_>>());
        for (row, reply) in lists.into_iter().zip(replies) {
            let items: Option<Vec<Value>> = match optional(reply) {
                // Such a list is only not counted.
                Err(fault) if !fault.affects_all_keys() => None,
                items => items?,
            };
            // RedisBloom fills the list with nulls.
            let listed = items.map(|items| items.iter().filter(|it| **it != Value::Nil).count());
            row.items = listed.map(|count| count as u64);
        }
        Ok(())
    }
}

/// Makes a row of the replies to the [commands](Reader::commands) of a key. Returns `None` if the key is gone, or has another
/// type: `found` has that type then, and "none" for a key that is gone.
fn row(
    found: &mut Found,
    has_idle: bool,
    replies: Vec<Result<Value, Fault>>,
) -> Result<Option<Row>, Fault> {
    let mut replies = replies.into_iter();
    let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
    // Servers refuse idle times if they count how often keys are used.
    let idle_seconds = if has_idle { optional(next())? } else { None };
    let info = next();
    let ttl_ms = optional(next())?;
    // The user may lack the permission for TYPE.
    let (kind, refusal) = match next() {
        Err(fault @ Fault::Refused(_)) => (None, Some(fault)),
        reply => (optional(reply)?, None),
    };
    let bytes = optional(next())?;
    let is_gone = ttl_ms == Some(-2);
    let unread = if is_gone { "none" } else { &found.kind };
    let kind: String = kind.unwrap_or_else(|| unread.to_owned());
    if is_gone || kind != found.kind {
        found.kind = kind;
        return Ok(None);
    }
    let mut row = Row {
        key: found.key.clone(),
        kind,
        bytes,
        ttl_ms,
        idle_seconds,
        ..Row::default()
    };
    match info {
        Ok(info) => row.fill(&Info::try_from(info)?),
        Err(fault) if fault.is(Error::STILL_LOADING) => row.details = Details::PartlyLoaded,
        // Only TYPE could say what the key has become.
        Err(fault) if fault.means(Meaning::WrongType) => return Err(refusal.unwrap_or(fault)),
        Err(fault) => return Err(fault),
    }
    Ok(Some(row))
}

/// Converts a reply; `None` for one that the server refused.
fn optional<T: FromRedisValue>(reply: Result<Value, Fault>) -> Result<Option<T>, Fault> {
    let reply = unless_refused(reply)?;
    Ok(reply.and_then(|value| T::from_redis_value(value).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the replies that a line lists, for a key whose idle time is read: `+` begins a text, `!` an error, and the
    /// rest are numbers or "info", the fields of a cuckoo filter.
    fn replies(line: &str) -> Vec<Result<Value, Fault>> {
        let replies = line.split(", ").map(|reply| match reply.split_at(1) {
            ("!", "lost") => Err(Fault::Lost("lost".to_owned())),
            ("!", error) => Err(Fault::Refused(error.to_owned())),
            ("+", text) => Ok(Value::SimpleString(text.to_owned())),
            _ if reply == "info" => Ok(Value::Map(vec![(
                Value::BulkString("Number of items inserted".into()),
                Value::Int(7),
            )])),
            _ => Ok(Value::Int(reply.parse().expect("a number"))),
        });
        replies.collect()
    }

    /// What the replies to OBJECT IDLETIME, CF.INFO, PTTL, TYPE and MEMORY USAGE say of a cuckoo filter that was found.
    #[test]
    fn a_key_has_a_row_another_type_or_a_fault() {
        for (line, expected) in [
            ("5, info, 9, +MBbloomCF, 90", "7 items"),
            ("!NOPERM, info, !NOPERM, !NOPERM, !NOPERM", "7 items"),
            ("5, !ERR not found, -2, +none, -1", "now none"),
            ("5, !ERR not found, -2, !NOPERM type, -1", "now none"),
            // It was made again meanwhile.
            ("5, !ERR not found, -2, +MBbloomCF, 90", "now MBbloomCF"),
            ("5, !WRONGTYPE, 9, +TopK-TYPE, 90", "now TopK-TYPE"),
            ("5, info, 9, +TopK-TYPE, 90", "now TopK-TYPE"),
            ("5, !WRONGTYPE, 9, +MBbloomCF, 90", "WRONGTYPE"),
            ("5, !WRONGTYPE, 9, !NOPERM type, 90", "NOPERM type"),
            ("5, !NOPERM info, 9, !NOPERM type, 90", "NOPERM info"),
            ("5, info, 9, !lost, 90", "lost"),
            ("5, 7, 9, +MBbloomCF, 90", "unexpected reply"),
        ] {
            let kind = "MBbloomCF".to_owned();
            let mut found = Found { key: vec![], kind };
            let text = match row(&mut found, true, replies(line)) {
                Ok(Some(row)) => format!("{} items", row.items.expect("they are known")),
                Ok(None) => format!("now {}", found.kind),
                Err(fault) => fault.to_string(),
            };
            assert!(text.starts_with(expected), "{line}: {text}");
        }
    }
}
