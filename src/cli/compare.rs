//! Whether two servers hold the same value under a key: its parameters, its items, every bit and its time to live.

use redis::Value;

use super::dump;
use super::expiry::Expiry;
use super::failure::Fault;
use super::server::{Server, is_filter};
use super::size::Info;

/// Fields of BF.INFO that say something of the server, or follow from the others.
const OF_SERVERS: [&str; 3] = ["Size", "Max scaled capacity", "Estimated error rate"];

/// At which end a server failed.
pub enum End {
    From(Fault),
    To(Fault),
}

/// What differs at the target, in words; `None` if nothing does.
pub fn difference(
    from: &Server,
    to: &Server,
    key: &[u8],
    kind: &str,
) -> Result<Option<String>, End> {
    let compare = if is_filter(kind) { by_chunks } else { by_dump };
    match compare(from, to, key)? {
        None => by_expiry(from, to, key),
        different => Ok(different),
    }
}

/// Compares the times to live.
fn by_expiry(from: &Server, to: &Server, key: &[u8]) -> Result<Option<String>, End> {
    let here = Expiry::of(from, key).map_err(End::From)?;
    let there = Expiry::of(to, key).map_err(End::To)?;
    Ok(match (here, there) {
        // It has expired since its bits were compared.
        (None, _) => None,
        (Some(_), None) => Some("it is gone there".to_owned()),
        (Some(here), Some(there)) => here.difference(&there),
    })
}

/// Compares what BF.INFO and BF.SCANDUMP show.
fn by_chunks(from: &Server, to: &Server, key: &[u8]) -> Result<Option<String>, End> {
    let here = Info::of(from, key).map_err(End::From)?;
    let there = Info::of(to, key).map_err(End::To)?;
    for (name, value) in here.fields() {
        let other = there.fields().get(name).unwrap_or(value);
        if other != value && !OF_SERVERS.contains(&name.as_str()) {
            let (value, other) = (text(value), text(other));
            return Ok(Some(format!("{name} is {other} there, not {value}")));
        }
    }
    let mut theirs = Chunks::new(to, key);
    let mut ours = Chunks::new(from, key);
    match ours.next() {
        // No module but this one and RedisBloom has chunks.
        Err(fault) if fault.lacks_command() => return by_dump(from, to, key),
        Err(fault) => return Err(End::From(fault)),
        Ok(()) => theirs.next().map_err(End::To)?,
    }
    if ours.piece != theirs.piece {
        return Ok(Some("its header is another there".to_owned()));
    }
    (ours.at, theirs.at) = (ours.piece.len(), theirs.piece.len());
    let mut offset = 0;
    loop {
        if ours.rest().is_empty() {
            ours.next().map_err(End::From)?;
        }
        if theirs.rest().is_empty() {
            theirs.next().map_err(End::To)?;
        }
        let length = ours.rest().len().min(theirs.rest().len());
        let pairs = ours.rest().iter().zip(theirs.rest());
        if let Some(at) = pairs.clone().position(|(own, other)| own != other) {
            return Ok(Some(format!(
                "its bits are others there, from byte {}",
                offset + at
            )));
        }
        if length == 0 {
            let same = ours.rest().len() == theirs.rest().len();
            return Ok((!same).then(|| "its length is another there".to_owned()));
        }
        ours.at += length;
        theirs.at += length;
        offset += length;
    }
}

/// Compares the payloads of DUMP.
fn by_dump(from: &Server, to: &Server, key: &[u8]) -> Result<Option<String>, End> {
    let ours = dump::payload(from, key).map_err(End::From)?;
    let theirs = dump::payload(to, key).map_err(End::To)?;
    let same = ours.as_deref().map(dump::value) == theirs.as_deref().map(dump::value);
    Ok((!same).then(|| "its DUMP is another there".to_owned()))
}

fn text(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// The pieces of a filter, one at a time in memory.
struct Chunks<'s> {
    server: &'s Server,
    key: &'s [u8],
    /// Of the next one; `None` behind the last.
    cursor: Option<u64>,
    piece: Vec<u8>,
    /// How much of the piece is done with.
    at: usize,
}

impl<'s> Chunks<'s> {
    const fn new(server: &'s Server, key: &'s [u8]) -> Self {
        Self {
            server,
            key,
            cursor: Some(0),
            piece: Vec::new(),
            at: 0,
        }
    }

    fn rest(&self) -> &[u8] {
        &self.piece[self.at..]
    }

    fn next(&mut self) -> Result<(), Fault> {
        if let Some(cursor) = self.cursor {
            let (next, piece) = dump::scan(self.server, self.key, cursor)?;
            self.cursor = (next != 0).then_some(next);
            (self.piece, self.at) = (piece, 0);
        }
        Ok(())
    }
}
