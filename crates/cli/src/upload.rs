//! Makes a value under a temporary key, which is then renamed to its key: a filter of chunks, or a sketch that the
//! server fills.
//!
//! ```text
//!   MULTI  BF.LOADCHUNK temporary 1 header   PEXPIRE temporary lease              EXEC
//!          BF.LOADCHUNK temporary cursor chunk …
//!   MULTI  PERSIST | PEXPIRE | PEXPIREAT …     RENAME | RENAMENX temporary key      EXEC
//! ```
//!
//! A sketch begins with the command that creates it, and the commands that add to it take the place of the chunks.
//!
//! The temporary key is in the slot of the key. It always has a time to live, so that a killed run leaves nothing for
//! long. Readers of the key see the old filter or the new one.

use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd};

use valkeybloom_protocol::names::{BF_INFO, BF_LOADCHUNK};

use super::failure::Fault;
use super::server::{Server, slot};

/// Marks a temporary key, after the key's name.
const MARK: &str = ":valkeybloom-unfinished-";

/// The time that a temporary key outlives its run.
const LEASE: Duration = Duration::from_secs(300);

/// When a key expires.
#[derive(Clone, Copy)]
pub enum Expires {
    Never,
    /// At this time, in milliseconds since the epoch.
    At(u64),
    /// After this number of milliseconds.
    After(u64),
}

/// An upload. Dropping an unfinished one deletes its temporary key.
pub struct Upload<'s> {
    server: &'s Server,
    key: Vec<u8>,
    temporary: Vec<u8>,
    /// Whether it may lack chunks.
    is_chunked: bool,
    /// The time of the last renewal of the temporary key's time to live.
    leased: Instant,
    finished: bool,
}

impl<'s> Upload<'s> {
    /// Begins an upload with the filter's header, the first of its chunks.
    pub fn begin(server: &'s Server, key: &[u8], header: &[u8]) -> Result<Self, Fault> {
        // Without arguments: a server that lacks the command repeats them in its error, where the bytes of a chunk would
        // be unreadable.
        match server.call(key, &cmd(BF_LOADCHUNK)) {
            Err(fault) if fault.is_unknown_command() => return Err(fault),
            _ => {}
        }
        Self::start(server, key, true, |temporary| load(temporary, 1, header))
    }

    /// Begins a value that the server fills, with the command that creates it under a key.
    pub fn create(
        server: &'s Server,
        key: &[u8],
        create: impl FnOnce(&[u8]) -> Cmd,
    ) -> Result<Self, Fault> {
        Self::start(server, key, false, create)
    }

    fn start(
        server: &'s Server,
        key: &[u8],
        is_chunked: bool,
        first: impl FnOnce(&[u8]) -> Cmd,
    ) -> Result<Self, Fault> {
        let upload = Self {
            server,
            key: key.to_vec(),
            temporary: temporary(key),
            is_chunked,
            leased: Instant::now(),
            finished: false,
        };
        server.atomically(key, &[first(&upload.temporary), upload.lease()])?;
        Ok(upload)
    }

    /// Returns the temporary key.
    pub fn temporary(&self) -> &[u8] {
        &self.temporary
    }

    /// Renews the time to live of the temporary key, if that is due.
    pub fn renew(&mut self) -> Result<(), Fault> {
        if self.leased.elapsed() > LEASE / 10 {
            self.server.call(&self.key, &self.lease())?;
            self.leased = Instant::now();
        }
        Ok(())
    }

    /// Sends the next chunk, which ends at `cursor`.
    pub fn chunk(&mut self, cursor: u64, chunk: &[u8]) -> Result<(), Fault> {
        self.renew()?;
        let load = load(&self.temporary, cursor, chunk);
        self.server.call(&self.key, &load)?;
        Ok(())
    }

    /// Returns the type of the temporary key, as TYPE returns it.
    pub fn type_name(&self) -> Result<String, Fault> {
        self.server.get(&self.key, cmd("TYPE").arg(&self.temporary))
    }

    /// Renames the complete value to its key. Returns false if the key exists, unless `replace` is set.
    pub fn finish(mut self, expires: Expires, replace: bool) -> Result<bool, Fault> {
        if self.is_chunked {
            // BF.INFO fails for a filter that lacks chunks.
            let mut info = cmd(BF_INFO);
            self.server.call(&self.key, info.arg(&self.temporary))?;
        }
        let (command, time) = match expires {
            Expires::Never => ("PERSIST", None),
            Expires::At(time) => ("PEXPIREAT", Some(time)),
            Expires::After(time) => ("PEXPIRE", Some(time)),
        };
        let mut expiry = cmd(command);
        expiry.arg(&self.temporary).arg(time);
        let mut rename = cmd(if replace { "RENAME" } else { "RENAMENX" });
        rename.arg(&self.temporary).arg(&self.key);
        // If the rename fails, the temporary key needs its time to live again.
        let commands = [expiry, rename, self.lease()];
        let replies = self.server.atomically(&self.key, &commands)?;
        self.finished = replies.get(1) != Some(&Value::Int(0));
        Ok(self.finished)
    }

    fn lease(&self) -> Cmd {
        let mut lease = cmd("PEXPIRE");
        lease.arg(&self.temporary).arg(ms(LEASE));
        lease
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails, the key's time to live deletes it.
            let mut unlink = cmd("UNLINK");
            let _ = self.server.call(&self.key, unlink.arg(&self.temporary));
        }
    }
}

fn load(temporary: &[u8], cursor: u64, bytes: &[u8]) -> Cmd {
    let mut load = Cmd::with_capacity(4, bytes.len() + temporary.len() + 64);
    load.arg(BF_LOADCHUNK).arg(temporary).arg(cursor).arg(bytes);
    load
}

/// Returns a duration in milliseconds.
pub fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns whether a key is a temporary key of a run.
pub fn is_temporary(key: &[u8]) -> bool {
    memchr::memmem::find(key, MARK.as_bytes()).is_some()
}

/// Returns a new name in the slot of a key. It begins with the key's name, because an ACL may grant keys by prefix.
fn temporary(key: &[u8]) -> Vec<u8> {
    let run = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
    let names = (0_u64..).map(|number| {
        let suffix = format!("{MARK}{run:016x}:{{{number}}}");
        [key, suffix.as_bytes()].concat()
    });
    in_slot_of(key, names)
}

/// Returns the first of many names that is in the slot of a key. It is the very first if it has the key's hash tag, and
/// otherwise about one of 16,384.
pub fn in_slot_of(key: &[u8], mut names: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let name = names.find(|name| slot(name) == slot(key));
    name.expect("one of many names is in any slot")
}
