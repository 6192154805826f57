//! Makes a value under a temporary key, which is then renamed to its key: a filter of chunks, or a sketch that the
//! server fills.
//!
//! The crate `near` has the commands, each of which may arrive twice. A sketch begins with the command that creates it,
//! and the commands that add to it take the place of the chunks.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redis::{Cmd, cmd};

use valkeybloom_near::conversation::{self, Finish, GONE, Words};
pub use valkeybloom_near::conversation::{NewExpiry, is_temporary};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::names::{BF_INFO, BF_LOADCHUNK};

use super::failure::{Fault, Meaning};
use super::server::Server;

/// An upload. Dropping it deletes its temporary key.
pub struct Upload<'s> {
    server: &'s Server,
    commands: conversation::Upload,
    /// Whether the value is loaded in chunks, so that it may lack some.
    is_chunked: bool,
}

impl<'s> Upload<'s> {
    /// Begins an upload with the filter's header, the first of its chunks.
    pub fn begin(server: &'s Server, key: &[u8], header: &[u8]) -> Result<Self, Fault> {
        Self::create(server, key, &[BF_LOADCHUNK.as_bytes(), b"1", header])
    }

    /// Begins a value with the command that creates it, and its words after the key.
    pub fn create(server: &'s Server, key: &[u8], create: &[&[u8]]) -> Result<Self, Fault> {
        // Called without its words first, because the script's error does not name a command that the server lacks.
        if let Err(fault) = server.call(key, Cmd::new().arg(create[0]))
            && fault.means(Meaning::UnknownCommand)
        {
            return Err(fault);
        }
        let number = getrandom::u64().expect("the system has random numbers");
        let mut upload = Self {
            server,
            commands: conversation::Upload::new(b"", key, number),
            is_chunked: create[0] == BF_LOADCHUNK.as_bytes(),
        };
        let begin = command(upload.commands.begin(create, now()));
        server.call(key, &begin)?;
        Ok(upload)
    }

    /// Returns the temporary key.
    pub fn temporary(&self) -> &[u8] {
        self.commands.temporary()
    }

    /// Renews the time to live of the temporary key, if that is due.
    pub fn renew(&mut self) -> Result<(), Fault> {
        if self.commands.is_due(now()) {
            self.renew_now()?;
        }
        Ok(())
    }

    fn renew_now(&mut self) -> Result<(), Fault> {
        let renew = command(self.commands.renew(now()));
        let is_there: bool = self.server.query(self.commands.key(), &renew)?;
        is_there.then_some(()).ok_or_else(gone)
    }

    /// Sends the next chunk, which ends at `cursor`.
    pub fn chunk(&mut self, cursor: u64, chunk: &[u8]) -> Result<(), Fault> {
        self.renew()?;
        let load = command(self.commands.load(BF_LOADCHUNK, cursor, chunk));
        match self.server.call(self.commands.key(), &load) {
            // A key that is not there has the same error, so a renewal shows which it is.
            Err(fault) if fault.is(Error::BAD_CHUNK) => {
                self.renew_now()?;
                Err(fault)
            }
            loaded => loaded.map(drop),
        }
    }

    /// Returns the type of the temporary key, as TYPE returns it.
    pub fn type_name(&self) -> Result<String, Fault> {
        let (key, mut ask) = (self.commands.key(), cmd("TYPE"));
        let kind: String = self.server.query(key, ask.arg(self.temporary()))?;
        if kind == "none" {
            Err(gone())
        } else {
            Ok(kind)
        }
    }

    /// Renames the complete value to its key. Returns false if the key exists, unless `replace` is set.
    pub fn finish(self, expiry: NewExpiry, replace: bool) -> Result<bool, Fault> {
        if self.is_chunked {
            // This module's BF.INFO fails for a filter that lacks chunks.
            let mut info = cmd(BF_INFO);
            let found = self
                .server
                .call(self.commands.key(), info.arg(self.temporary()));
            found.map_err(or_gone)?;
        }
        let how = if replace {
            Finish::Replace(expiry)
        } else {
            Finish::Keep(expiry)
        };
        let finish = command(self.commands.finish(how));
        let there = self.server.query::<String>(self.commands.key(), &finish);
        let there = there.map_err(or_gone)?;
        Ok(there == "none")
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        // If this fails, the key's time to live deletes it.
        let unlink = command(self.commands.unlink());
        let _ = self.server.call(self.commands.key(), &unlink);
    }
}

/// Returns the fault of a call on the temporary key, or that the key is gone.
fn or_gone(fault: Fault) -> Fault {
    let by_script = matches!(&fault, Fault::Refused(text) if text.contains(GONE));
    if by_script || fault.is(Error::NOT_FOUND) {
        gone()
    } else {
        fault
    }
}

fn gone() -> Fault {
    Fault::Gone("its temporary key".to_owned())
}

fn command(words: Words<'_>) -> Cmd {
    let bytes = words.iter().map(|word| word.len() + 16).sum();
    let mut command = Cmd::with_capacity(words.len(), bytes);
    for word in words {
        command.arg(&word[..]);
    }
    command
}

/// Returns the time since the first call.
fn now() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}
