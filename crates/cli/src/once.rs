//! Runs that count nothing twice, however often a command is sent or the run is started.
//!
//! Beside each key is a receipt, which holds how many items of the run's input are done, and changes in one step with the
//! key. Its name follows from the command line and the files, so the same run finds it again. Additions to Bloom filters
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

/// Runs a command unless an earlier call did.
const STEP: &str = include_str!("once.lua");

/// What can be done after a run that ended early.
#[derive(Clone, Copy, PartialEq)]
enum Rerun {
    /// The same command goes on.
    GoesOn,
    /// The input can't be read again.
    Impossible,
    /// A receipt is gone, so the same command would do the items again.
    ReceiptGone,
    /// The same command fills new keys.
    BeginsAnew,
}

/// The receipts of a run.
pub struct Once<'s> {
    pub server: &'s Server,
    /// One for each key.
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
    is_there: bool,
    /// The number of items that are done.
    end: u64,
    removed: u64,
    refused: u64,
}

impl<'s> Once<'s> {
    /// Finds the receipts that an earlier run may have left.
    pub fn find(
        server: &'s Server,
        keys: &[Vec<u8>],
        subcommand: &str,
        input: &Input,
        show: Show,
    ) -> Result<Self> {
        let (rerun, number) = match input.identity()? {
            // With another number of shards, each has other items.
            Some(mut identity) => {
                identity.extend((keys.len() as u64).to_le_bytes());
                // Hashes of this seed never change.
                let (number, _) = Seed::FIXED.probe(&identity).hashes();
                (Rerun::GoesOn, number)
            }
            None => (Rerun::Impossible, random()),
        };
        let suffix = format!("{subcommand}-{number:016x}");
        let receipts = keys.iter().map(|key| {
            let receipt = KeyReceipt::new(key, &suffix).read(server);
            receipt.map_err(|fault| server.failure_of("read the receipt of", key, &fault))
        });
        let once = Self {
            server,
            receipts: receipts.collect::<Result<_>>()?,
            lease_ms: LEASE_MS,
            rerun: Cell::new(rerun),
            done: Cell::default(),
        };
        let before = once.receipts.iter().map(|receipt| receipt.end).sum();
        if before > 0 && show != Show::Nothing {
            let items = counted(before, "item");
            warn(format_args!("going on after {items} of an earlier run"));
        }
        once.reach(before, true);
        Ok(once)
    }

    /// Makes the receipt of a temporary key.
    pub fn beside(server: &'s Server, temporary: &[u8]) -> Self {
        Self {
            server,
            receipts: vec![KeyReceipt::new(temporary, "build")],
            lease_ms: TEMPORARY_LEASE_MS,
            rerun: Cell::new(Rerun::BeginsAnew),
            done: Cell::default(),
        }
    }

    /// Creates the receipt of the only key, unless it is there. Once a run has begun, it has to be: another one would have
    /// no answers.
    pub fn begin(&self, has_begun: bool) -> Result<(), Fault> {
        let receipt = &self.receipts[0];
        if receipt.is_there {
            return Ok(());
        }
        if has_begun {
            return Err(self.gone(receipt));
        }
        let mut empty = Answers::with_room(0, 0).expect("there is memory for a head");
        let mut set = cmd("SET");
        set.arg(&receipt.name).arg(empty.bytes()).arg("NX");
        self.server
            .call(&receipt.key, set.arg("PX").arg(self.lease_ms))?;
        Ok(())
    }

    /// Notes that a receipt is gone, and returns the fault.
    fn gone(&self, receipt: &KeyReceipt) -> Fault {
        self.rerun.set(Rerun::ReceiptGone);
        let name = shown(&receipt.name);
        Fault::Refused(format!(
            "the receipt {name} is gone: it expired, or was deleted or evicted"
        ))
    }

    /// Returns whether an earlier run did the items of a key before a position.
    pub fn has(&self, index: usize, position: u64) -> bool {
        position <= self.receipts[index].end
    }

    /// Returns whether an earlier run did items.
    pub fn goes_on(&self) -> bool {
        self.receipts.iter().any(|receipt| receipt.end > 0)
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
        eval.arg(STEP).arg(2).arg(key).arg(name);
        eval.arg(&[positions.start, positions.end, self.lease_ms])
            .arg(command);
        eval
    }

    /// Takes the reply to a command. While a slot moves to another node, commands may overtake each other, so one that came
    /// too early is sent again.
    pub fn take(
        &self,
        index: usize,
        command: &Cmd,
        reply: Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        let receipt = &self.receipts[index];
        let reply = match reply {
            Err(fault) if fault.is_temporary() || forgotten(&fault).is_some() => {
                self.server.call(&receipt.key, command)
            }
            reply => reply,
        };
        reply.map_err(|fault| match forgotten(&fault) {
            Some(Forgotten { to: 0, .. }) => self.gone(receipt),
            _ => fault,
        })
    }

    /// Notes that this number of items is done. `are_first` says whether they are the first of the input.
    pub fn reach(&self, done: u64, are_first: bool) {
        if are_first || self.rerun.get() == Rerun::GoesOn {
            self.done.set(done);
            if let Some(note) = self.note() {
                interrupt::say(note);
            }
        }
    }

    /// Returns whether a fault says that answers of earlier calls are lost.
    pub fn is_forgotten(&self, fault: &Fault) -> bool {
        self.rerun.get() == Rerun::ReceiptGone || forgotten(fault).is_some()
    }

    /// Says in a failure of the run what is done, and how to go on.
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
            Rerun::GoesOn if done == 0 => return None,
            Rerun::GoesOn => format!(
                "at least {items} are done; within a week and with unchanged files, the same command goes on there"
            ),
            Rerun::Impossible => format!(
                "the first {items} are done, and some after them may be; pass only the others"
            ),
            Rerun::ReceiptGone => {
                format!("at least {items} are done; the same command would count them twice")
            }
            Rerun::BeginsAnew => return None,
        })
    }

    /// Deletes the receipts at the end of the run. After a failure they stay until they expire.
    pub fn end(self) {
        if self.rerun.get() != Rerun::BeginsAnew {
            interrupt::say("all items are done");
        }
        for KeyReceipt { key, name, .. } in &self.receipts {
            let deleted = self.server.call(key, cmd("UNLINK").arg(name));
            if deleted.is_err() && self.rerun.get() == Rerun::GoesOn {
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
    fn read(mut self, server: &Server) -> Result<Self, Fault> {
        let found: Option<Vec<u8>> = server.get(&self.key, cmd("GET").arg(&self.name))?;
        let Some(found) = found else {
            return Ok(self);
        };
        self.is_there = true;
        let head = found.get(..Receipt::HEAD_BYTES - 1);
        if let Some(end) = head.and_then(Receipt::end_in) {
            self.end = end;
            return Ok(self);
        }
        let numbers = str::from_utf8(&found).ok();
        let numbers = numbers.map(|text| text.split(' ').map_while(|number| number.parse().ok()));
        match numbers.map(Iterator::collect::<Vec<u64>>).as_deref() {
            Some([end, removed, refused]) => {
                (self.end, self.removed, self.refused) = (*end, *removed, *refused);
                Ok(self)
            }
            _ => Err(Fault::Refused(format!(
                "{} is not a receipt",
                shown(&self.name)
            ))),
        }
    }
}

/// Returns what a receipt lacks, if that is the fault.
fn forgotten(fault: &Fault) -> Option<Forgotten> {
    match fault {
        Fault::Refused(text) => Forgotten::read(text),
        Fault::Lost(_) => None,
    }
}
