//! A filter goes into its place whole: chunk by chunk into a key beside it, which then takes its name.
//!
//! ```text
//!   MULTI  BF.LOADCHUNK beside 1 header   PEXPIRE beside lease                 EXEC
//!          BF.LOADCHUNK beside cursor chunk …
//!   MULTI  PERSIST | PEXPIREAT beside     RENAME beside key                    EXEC
//! ```
//!
//! The key beside is in the slot of the key. It has a time to live from its first moment to its last, so a run
//! that is killed leaves nothing for long, and readers of the key see the old filter or the new one.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crc::{CRC_16_XMODEM, Crc};
use redis::{Cmd, cmd};

use super::failure::Fault;
use super::server::Server;

/// What a key beside begins with, behind the name of its key.
const MARK: &str = ":valkeybloom-unfinished-";

/// How long a key beside outlives the run that made it.
const LEASE: Duration = Duration::from_secs(300);

/// How a filter takes its place.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    /// Whatever is there goes.
    Replace,
    /// What is there stays.
    IfFree,
}

/// A filter on its way to its place. If it does not get there it is deleted.
pub struct Upload<'s> {
    server: &'s Server,
    key: Vec<u8>,
    beside: Vec<u8>,
    leased: Instant,
    placed: bool,
}

impl<'s> Upload<'s> {
    /// Begins a filter with its header, the first of its chunks.
    pub fn begin(server: &'s Server, key: &[u8], header: &[u8]) -> Result<Self, Fault> {
        // Without words: a server that lacks the command repeats them in its reply, which the bytes of a chunk make
        // unreadable.
        match server.call(key, &cmd("BF.LOADCHUNK")) {
            Err(fault) if fault.is_unknown_command() => return Err(fault),
            _ => {}
        }
        let upload = Self {
            server,
            key: key.to_vec(),
            beside: beside(key),
            leased: Instant::now(),
            placed: false,
        };
        server.atomically(key, &[upload.load(1, header), upload.lease()])?;
        Ok(upload)
    }

    /// The next chunk, whose end lies at `cursor`.
    pub fn chunk(&mut self, cursor: u64, chunk: &[u8]) -> Result<(), Fault> {
        if self.leased.elapsed() > LEASE / 10 {
            self.server.call(&self.key, &self.lease())?;
            self.leased = Instant::now();
        }
        self.server.call(&self.key, &self.load(cursor, chunk))?;
        Ok(())
    }

    /// The type of what has come so far, as TYPE names it.
    pub fn type_name(&self) -> Result<String, Fault> {
        self.server.get(&self.key, cmd("TYPE").arg(&self.beside))
    }

    /// Puts the filter, complete now, into its place, to expire at a time in milliseconds since the epoch, if
    /// that is given. Returns whether it is there: not if the place was to be free.
    pub fn finish(mut self, expires_ms: Option<u64>, place: Place) -> Result<bool, Fault> {
        // What lacks chunks is not put into any place.
        self.server
            .call(&self.key, cmd("BF.INFO").arg(&self.beside))?;
        let mut expiry = match expires_ms {
            None => cmd("PERSIST"),
            Some(_) => cmd("PEXPIREAT"),
        };
        expiry.arg(&self.beside).arg(expires_ms);
        let word = match place {
            Place::Replace => "RENAME",
            Place::IfFree => "RENAMENX",
        };
        let mut rename = cmd(word);
        rename.arg(&self.beside).arg(&self.key);
        // Of a filter that stays beside, the time to live comes back.
        let replies = self
            .server
            .atomically(&self.key, &[expiry, rename, self.lease()])?;
        self.placed = replies.get(1) != Some(&redis::Value::Int(0));
        Ok(self.placed)
    }

    fn load(&self, cursor: u64, bytes: &[u8]) -> Cmd {
        let mut load = Cmd::with_capacity(4, bytes.len() + self.beside.len() + 64);
        load.arg("BF.LOADCHUNK");
        load.arg(&self.beside).arg(cursor).arg(bytes);
        load
    }

    fn lease(&self) -> Cmd {
        let mut lease = cmd("PEXPIRE");
        let ms = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
        lease.arg(&self.beside).arg(ms);
        lease
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        if !self.placed {
            // If that fails, its time to live deletes it.
            let mut unlink = cmd("UNLINK");
            let _ = self.server.call(&self.key, unlink.arg(&self.beside));
        }
    }
}

/// The time, in milliseconds since the epoch.
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// Whether a key is one that a run left beside another.
pub fn is_beside(key: &[u8]) -> bool {
    memchr::memmem::find(key, MARK.as_bytes()).is_some()
}

/// A name in the slot of a key that begins as that does, so that who may write to the one may write to the other
/// where an ACL names the start of keys.
fn beside(key: &[u8]) -> Vec<u8> {
    let run = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
    let names = (0_u64..).map(|number| {
        let suffix = format!("{MARK}{run:016x}:{{{number}}}");
        [key, suffix.as_bytes()].concat()
    });
    // If the key has a hash tag, that of the first name is the same; if not, one of some 16,384 fits.
    let mut names = names.filter(|name| slot(name) == slot(key));
    names.next().expect("the numbers reach every slot")
}

/// The slot of a key: CRC-16 of its hash tag, if it has one that is not empty, else of all.
fn slot(key: &[u8]) -> u16 {
    const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
    let tag = key.iter().position(|&b| b == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|&b| b == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    CRC.checksum(tag.unwrap_or(key)) % 16_384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo{hash_tag}"), slot(b"hash_tag"));
        assert_eq!(slot(b"foo{}{bar}"), CRC_OF_ALL);
    }

    /// Of `foo{}{bar}`, as CLUSTER KEYSLOT tells.
    const CRC_OF_ALL: u16 = 8363;

    #[test]
    fn a_key_beside_is_in_the_same_slot_and_begins_alike() {
        for key in [
            &b"seen"[..],
            b"",
            b"{tag}",
            b"a{tag}b",
            b"a{",
            b"a}",
            b"a{}b",
            b"}{",
            b"{{x}}",
            b"\xff\0",
        ] {
            let name = beside(key);
            assert_eq!(slot(&name), slot(key), "{key:?}");
            assert!(name.starts_with(key) && is_beside(&name) && !is_beside(key));
            assert_ne!(name, beside(key));
        }
    }
}
