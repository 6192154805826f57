//! Runs that count each item once, however often a command is sent or the run is started.
//!
//! Beside each key is a receipt. It holds how many items of the run's input are done, and changes in one step with the key.
//! Its name is derived from the key, the subcommand, the format and the files, and the number of shards, so the same run finds
//! it again. Additions to Bloom filters have receipts of the module, all other commands those of a script.

mod state;
mod status;

use std::ops::Range;

use redis::{Cmd, Value, cmd};

use valkeybloom_near::once::receipt_prefix;
use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_sketches::{Answers, Forgotten, Receipt, Seed};

use self::state::{Piped, State};
use self::status::Status;
use super::failure::{Fault, Result, shown};
use super::interrupt;
use super::lines::Input;
use super::progress::Show;
use super::report::{counted, warn};
use super::server::Server;
use super::upload::random;

pub use self::state::Reason;
pub use self::status::Sending;

/// How long a receipt of the script outlives the last command of its run, in milliseconds: a week. The module keeps its own
/// ones for `bf.bloom-receipt-ttl`, which is a week by default.
const LEASE_MS: u64 = 7 * 24 * 3_600_000;
/// The same for the receipt of a temporary key, which no other run needs: a day, because only commands renew it, and none are
/// sent while the input pauses.
const TEMPORARY_LEASE_MS: u64 = 24 * 3_600_000;

const SCRIPT: &str = include_str!("receipts.lua");

/// The receipts of a run, one for each key, and what is known about the run.
pub struct RunReceipts<'s> {
    pub server: &'s Server,
    receipts: Vec<KeyReceipt>,
    lease_ms: u64,
    pub status: Status,
}

/// The receipt of a key.
struct KeyReceipt {
    key: Vec<u8>,
    name: Vec<u8>,
    /// What an earlier run left in it, if it exists.
    contents: Option<Contents>,
}

/// What a receipt holds.
#[derive(Clone, Copy, Default)]
struct Contents {
    /// The number of items that are done.
    end: u64,
    removed: u64,
    refused: u64,
}

impl<'s> RunReceipts<'s> {
    /// Reads the receipts that an earlier run may have left.
    pub fn read(
        server: &'s Server,
        keys: &[Vec<u8>],
        subcommand: &str,
        input: &Input,
        sending: Sending,
    ) -> Result<Self> {
        let (state, number) = match input.identity()? {
            // With another number of shards, each has other items.
            Some(mut identity) => {
                identity.extend((keys.len() as u64).to_le_bytes());
                // Hashes of this seed never change.
                let (number, _) = Seed::FIXED.probe(&identity).hashes();
                (State::Continues(0), number)
            }
            // If a command for one of several keys is refused, those for the others are done nevertheless.
            None if keys.len() > 1 => (State::Pipe(Piped::Unknown), random()),
            None => (State::Pipe(Piped::Nothing), random()),
        };
        let suffix = format!("{subcommand}-{number:016x}");
        let receipts = keys.iter().map(|key| {
            let receipt = KeyReceipt::new(key, &suffix).read(server);
            receipt.map_err(|fault| server.failure_of("read the receipt of", key, &fault))
        });
        let receipts = receipts.collect::<Result<_>>()?;
        Ok(Self {
            server,
            receipts,
            lease_ms: LEASE_MS,
            status: Status::new(state, sending),
        })
    }

    /// Makes the receipt of a temporary key.
    pub fn of_temporary(server: &'s Server, temporary: &[u8]) -> Self {
        Self {
            server,
            receipts: vec![KeyReceipt::new(temporary, "build")],
            lease_ms: TEMPORARY_LEASE_MS,
            // Nothing continues after the receipts of temporary keys.
            status: Status::new(State::Restarts, Sending::OutOfOrder),
        }
    }

    /// Returns the receipt of the only key.
    fn single(&self) -> &KeyReceipt {
        assert_eq!(self.receipts.len(), 1, "the run has one key");
        &self.receipts[0]
    }

    /// Announces after how many items of an earlier run this run continues, and notes them as done.
    pub fn resume(&self, done: u64, show: Show) {
        if done > 0 && show != Show::Nothing {
            let items = counted(done, "item");
            warn(format_args!("going on after {items} of an earlier run"));
        }
        self.status.set_first_done(done);
    }

    /// Creates the receipt of the only key, unless it exists. A continuing run requires the receipt: a new one would have no
    /// answers.
    pub fn create(&self, continues: bool) -> Result<(), Fault> {
        let receipt = self.single();
        if receipt.contents.is_some() {
            return Ok(());
        }
        if continues {
            self.status.forget(0);
            return Err(receipt.gone());
        }
        let mut empty = Answers::with_room(0, 0).expect("there is memory for a head");
        // If another process of this run creates it first, both use it.
        let mut set = cmd("SET");
        set.arg(&receipt.name).arg(empty.bytes()).arg("NX");
        self.server
            .call(&receipt.key, set.arg("PX").arg(self.lease_ms))?;
        Ok(())
    }

    /// Returns whether an earlier run did the items of a key up to a position.
    pub fn is_done(&self, index: usize, end: u64) -> bool {
        end <= self.receipts[index].contents().end
    }

    /// Returns the number of items that earlier runs did.
    pub fn done_before(&self) -> u64 {
        self.receipts.iter().map(|key| key.contents().end).sum()
    }

    /// Returns the numbers of items that an earlier run removed from the only key, and whose removal was refused to it.
    pub fn removals(&self) -> (u64, u64) {
        let contents = self.single().contents();
        (contents.removed, contents.refused)
    }

    /// Returns a command on a key, up to its items, which have these positions in the key's input.
    pub fn command(&self, index: usize, positions: Range<u64>, command: &str) -> Cmd {
        let KeyReceipt { key, name, .. } = &self.receipts[index];
        if command == BF_INSERT {
            let mut insert = cmd(command);
            insert.arg(key).arg("ONCE").arg(name).arg(positions.start);
            return insert;
        }
        let mut eval = cmd("EVAL");
        eval.arg(SCRIPT).arg(2).arg(key).arg(name);
        eval.arg(&[positions.start, positions.end, self.lease_ms])
            .arg(command);
        eval
    }

    /// Sends a command for a key again if it came too early: commands may overtake each other while a slot moves to another
    /// node. Then notes what the reply shows about the run: whether more items may be done, or fewer because the key's receipt is
    /// older than its replies (as after a failover), or is gone. Replaces the fault of a receipt that is gone by one that says so.
    pub fn settle(
        &self,
        index: usize,
        command: &Cmd,
        mut reply: Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        if reply
            .as_ref()
            .is_err_and(|fault| forgotten(fault).is_some())
        {
            reply = self.server.call(&self.receipts[index].key, command);
        }
        let Err(fault @ Fault::Refused(_)) = &reply else {
            self.status.note_call();
            return reply;
        };
        if let Some(Forgotten { to, .. }) = forgotten(fault) {
            self.status.forget(to);
            if to == 0 {
                return Err(self.receipts[index].gone());
            }
        }
        reply
    }

    /// Deletes the receipts at the end of the run. After a failure they stay until they expire.
    pub fn delete(self) {
        let state = self.status.state();
        if state != State::Restarts {
            interrupt::say("all items are done");
        }
        for KeyReceipt { key, name, .. } in &self.receipts {
            let deleted = self.server.call(key, cmd("UNLINK").arg(name));
            if deleted.is_err() && matches!(state, State::Continues(_)) {
                warn(format_args!(
                    "all items are done, but the receipt {} could not be deleted: delete it before these files are used again",
                    shown(name)
                ));
            }
        }
    }
}

impl KeyReceipt {
    fn new(key: &[u8], suffix: &str) -> Self {
        Self {
            key: key.to_vec(),
            name: [&receipt_prefix(key)[..], suffix.as_bytes()].concat(),
            contents: None,
        }
    }

    /// Reads what an earlier run left.
    fn read(self, server: &Server) -> Result<Self, Fault> {
        let found: Option<Vec<u8>> = server.query(&self.key, cmd("GET").arg(&self.name))?;
        let invalid = || Fault::Refused(format!("{} is not a receipt", shown(&self.name)));
        let read = |found: Vec<u8>| Contents::read(&found).ok_or_else(invalid);
        let contents = found.map(read).transpose()?;
        Ok(Self { contents, ..self })
    }

    /// Returns what an earlier run left, or zeros.
    fn contents(&self) -> Contents {
        self.contents.unwrap_or_default()
    }

    /// Returns the fault of a receipt that is gone.
    fn gone(&self) -> Fault {
        Fault::ReceiptGone(shown(&self.name).into_owned())
    }
}

impl Contents {
    /// Reads a receipt of the module, or the numbers that the script keeps.
    fn read(bytes: &[u8]) -> Option<Self> {
        if let Some(receipt) = Receipt::read(bytes) {
            let end = receipt.end();
            return Some(Self {
                end,
                ..Self::default()
            });
        }
        let numbers = str::from_utf8(bytes).ok()?.split(' ');
        let numbers: Result<Vec<u64>, _> = numbers.map(str::parse).collect();
        let [end, removed, refused] = numbers.ok()?.try_into().ok()?;
        Some(Self {
            end,
            removed,
            refused,
        })
    }
}

/// Returns what a receipt lacks, if that is the fault.
fn forgotten(fault: &Fault) -> Option<Forgotten> {
    match fault {
        Fault::Refused(text) => Forgotten::read(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_of_the_module_and_of_the_script_are_read() {
        let mut answers = Answers::with_room(7, 3).expect("there is memory");
        for is_new in [true, false, true] {
            answers.push(is_new);
        }
        let read = |bytes: &[u8]| {
            let found = Contents::read(bytes)?;
            Some([found.end, found.removed, found.refused])
        };
        assert_eq!(read(answers.bytes()), Some([10, 0, 0]));
        assert_eq!(read(b"0 0 0"), Some([0, 0, 0]));
        assert_eq!(read(b"5000 1200 3"), Some([5000, 1200, 3]));
        for other in [
            "",
            "5000 1200",
            "5000 1200 3 1",
            "5000 1200 -3",
            "5000 1200 \u{e9}",
        ] {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
    }
}
