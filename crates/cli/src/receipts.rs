//! Runs that count each item once, however often a command is sent or the run is started.
//!
//! Beside each key is a receipt. It holds how many items of the run's input are done, and changes in one step with the key.
//! Its name is derived from the command line and the files, so the same run finds it again. Additions to Bloom filters
//! have receipts of the module, all other commands those of a script.

use std::cell::Cell;
use std::ops::Range;

use redis::{Cmd, Value, cmd};

use valkeybloom_near::once::receipt_prefix;
use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_sketches::{Answers, Forgotten, Receipt, Seed};

use super::failure::{Failure, Fault, Result, shown};
use super::interrupt;
use super::lines::Input;
use super::progress::Show;
use super::report::{counted, warn};
use super::server::Server;
use super::upload::random;

/// How long a receipt outlives the last command of its run, in milliseconds: a week, or as long as a temporary key.
const LEASE_MS: u64 = 7 * 24 * 3_600_000;
const TEMPORARY_LEASE_MS: u64 = 300_000;

/// Runs a command, unless its receipt says that an earlier call did.
const SCRIPT: &str = include_str!("receipts.lua");

/// What the same command does after a run that ended early.
#[derive(Clone, Copy, PartialEq)]
enum Rerun {
    /// It continues after the items that are done.
    Continues,
    /// It has no input: a pipe can't be read again.
    LacksInput,
    /// It counts the items twice, because a receipt is gone.
    CountsTwice,
    /// It can't use what is done.
    Discards,
}

/// The receipts of a run, one for each key.
pub struct RunReceipts<'s> {
    pub server: &'s Server,
    receipts: Vec<KeyReceipt>,
    lease_ms: u64,
    rerun: Cell<Rerun>,
    /// The number of items that are known to be done.
    done: Cell<u64>,
}

/// The receipt of a key, and what an earlier run left in it.
#[derive(Default)]
struct KeyReceipt {
    key: Vec<u8>,
    name: Vec<u8>,
    exists: bool,
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
    ) -> Result<Self> {
        let (rerun, number) = match input.identity()? {
            // With another number of shards, each has other items.
            Some(mut identity) => {
                identity.extend((keys.len() as u64).to_le_bytes());
                // Hashes of this seed never change.
                let (number, _) = Seed::FIXED.probe(&identity).hashes();
                (Rerun::Continues, number)
            }
            None => (Rerun::LacksInput, random()),
        };
        let suffix = format!("{subcommand}-{number:016x}");
        let receipts = keys.iter().map(|key| {
            let receipt = KeyReceipt::new(key, &suffix).read(server);
            receipt.map_err(|fault| server.failure_of("read the receipt of", key, &fault))
        });
        Ok(Self {
            server,
            receipts: receipts.collect::<Result<_>>()?,
            lease_ms: LEASE_MS,
            rerun: Cell::new(rerun),
            done: Cell::default(),
        })
    }

    /// Makes the receipt of a temporary key.
    pub fn of_temporary(server: &'s Server, temporary: &[u8]) -> Self {
        Self {
            server,
            receipts: vec![KeyReceipt::new(temporary, "build")],
            lease_ms: TEMPORARY_LEASE_MS,
            rerun: Cell::new(Rerun::Discards),
            done: Cell::default(),
        }
    }

    /// Says after how many items the run continues, if an earlier run did any.
    pub fn resume(&self, done: u64, show: Show) {
        if done > 0 && show != Show::Nothing {
            let items = counted(done, "item");
            warn(format_args!("going on after {items} of an earlier run"));
        }
        self.set_done(done, true);
    }

    /// Creates the receipt of the only key, unless it exists. Of a run that continues, it must exist: a new one would have
    /// no answers.
    pub fn create(&self, continues: bool) -> Result<(), Fault> {
        let receipt = &self.receipts[0];
        if receipt.exists {
            return Ok(());
        }
        if continues {
            return Err(self.report_lost(receipt));
        }
        let mut empty = Answers::with_room(0, 0).expect("there is memory for a head");
        let mut set = cmd("SET");
        set.arg(&receipt.name).arg(empty.bytes()).arg("NX");
        self.server
            .call(&receipt.key, set.arg("PX").arg(self.lease_ms))?;
        Ok(())
    }

    /// Returns the fault of a receipt that is gone.
    fn report_lost(&self, receipt: &KeyReceipt) -> Fault {
        self.rerun.set(Rerun::CountsTwice);
        let name = shown(&receipt.name);
        Fault::Refused(format!(
            "the receipt {name} is gone: it expired, or was deleted or evicted"
        ))
    }

    /// Returns whether an earlier run did the items of a key up to a position.
    pub fn is_done(&self, index: usize, end: u64) -> bool {
        end <= self.receipts[index].end
    }

    /// Returns the number of items that earlier runs did.
    pub fn done_before(&self) -> u64 {
        self.receipts.iter().map(|receipt| receipt.end).sum()
    }

    /// Returns the numbers of items that an earlier run removed, and whose removal was refused to it.
    pub fn removals(&self) -> (u64, u64) {
        (self.receipts[0].removed, self.receipts[0].refused)
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

    /// Returns the reply to a command, which is sent again if it came too early: commands may overtake each other while a
    /// slot moves to another node.
    pub fn retry(
        &self,
        index: usize,
        command: &Cmd,
        mut reply: Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        let receipt = &self.receipts[index];
        let is_early = |fault: &Fault| fault.is_temporary() || forgotten(fault).is_some();
        if reply.as_ref().is_err_and(is_early) {
            reply = self.server.call(&receipt.key, command);
        }
        reply.map_err(|fault| match forgotten(&fault) {
            Some(Forgotten { to: 0, .. }) => self.report_lost(receipt),
            _ => fault,
        })
    }

    /// Sets the number of items that are done. `are_first` says whether they are the first of the input: only these can be
    /// left out of an input that can't be read again.
    pub fn set_done(&self, done: u64, are_first: bool) {
        if are_first || self.rerun.get() == Rerun::Continues {
            self.done.set(done);
            if let Some(note) = self.note() {
                interrupt::say(note);
            }
        }
    }

    /// Notes that the same command can't use what is done.
    pub fn discard(&self) {
        self.rerun.set(Rerun::Discards);
    }

    /// Returns whether a fault says that answers of earlier calls are lost.
    pub fn lost_answers(&self, fault: &Fault) -> bool {
        self.rerun.get() == Rerun::CountsTwice || forgotten(fault).is_some()
    }

    /// Adds to a failure of the run what is done, and how to go on.
    pub fn explain(&self, failure: Failure) -> Failure {
        match self.note() {
            Some(note) => failure.and(&note),
            None => failure,
        }
    }

    /// Returns what is done, and how to go on; `None` if the same command begins with the first item.
    fn note(&self) -> Option<String> {
        let done = self.done.get();
        let items = counted(done, "item");
        Some(match self.rerun.get() {
            Rerun::Discards => return None,
            Rerun::Continues if done == 0 => return None,
            Rerun::Continues => format!(
                "at least {items} are done; within a week and with unchanged files, the same command goes on there"
            ),
            Rerun::LacksInput => format!(
                "the first {items} are done, and some after them may be; pass only the others"
            ),
            Rerun::CountsTwice => {
                format!("at least {items} are done; the same command would count them twice")
            }
        })
    }

    /// Deletes the receipts at the end of the run. After a failure they stay until they expire.
    pub fn delete(self) {
        if self.rerun.get() != Rerun::Discards {
            interrupt::say("all items are done");
        }
        for KeyReceipt { key, name, .. } in &self.receipts {
            let deleted = self.server.call(key, cmd("UNLINK").arg(name));
            if deleted.is_err() && self.rerun.get() == Rerun::Continues {
                warn(format_args!(
                    "valkeybloom: all items are done, but the receipt {} could not be deleted: delete it before these files are used again",
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
            ..Self::default()
        }
    }

    /// Reads what an earlier run left: a receipt of the module, or the numbers that the script keeps.
    fn read(self, server: &Server) -> Result<Self, Fault> {
        let found: Option<Vec<u8>> = server.get(&self.key, cmd("GET").arg(&self.name))?;
        let Some(found) = found else {
            return Ok(self);
        };
        let of_module = found.get(..Receipt::HEAD_BYTES - 1);
        let of_module = of_module.and_then(Receipt::end_in).map(|end| [end, 0, 0]);
        let of_script = || {
            let numbers = str::from_utf8(&found).ok()?.split(' ');
            let numbers: Result<Vec<u64>, _> = numbers.map(str::parse).collect();
            numbers.ok()?.try_into().ok()
        };
        let Some([end, removed, refused]) = of_module.or_else(of_script) else {
            let name = shown(&self.name);
            return Err(Fault::Refused(format!("{name} is not a receipt")));
        };
        Ok(Self {
            exists: true,
            end,
            removed,
            refused,
            ..self
        })
    }
}

/// Returns what a receipt lacks, if that is the fault.
fn forgotten(fault: &Fault) -> Option<Forgotten> {
    match fault {
        Fault::Refused(text) => Forgotten::read(text),
        Fault::Lost(_) => None,
    }
}
