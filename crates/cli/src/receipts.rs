//! Runs that count each item once, however often a command is sent or the run is started.
//!
//! Beside each key is a receipt. It holds how many items of the run's input are done, and changes in one step with the key.
//! Its name is derived from the command line and the files, so the same run finds it again. Additions to Bloom filters
//! have receipts of the module, all other commands those of a script.

use std::cell::RefCell;
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

/// How long a receipt of the script outlives the last command of its run, in milliseconds: a week, or as long as a temporary
/// key. The module keeps its own ones for `bf.bloom-receipt-ttl`, which is a week by default.
const LEASE_MS: u64 = 7 * 24 * 3_600_000;
const TEMPORARY_LEASE_MS: u64 = 300_000;

const SCRIPT: &str = include_str!("receipts.lua");

const CONTINUES: &str = "with unchanged files, and as long as the server keeps the receipt (a week by default), the same command continues from there";
const APPLIES_TWICE: &str = "the same command would apply them twice";
const PASS_LATER: &str = "pass only the later items, some of which may be done too";

/// What is known about a run: what the same command does after it, and which items are done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It begins anew, whatever is done.
    Restarts,
    /// It reads the input again, after the items that are done: at least this number.
    Continues(u64),
    /// It would apply items again, because a receipt is gone. At least this number are done.
    Lost(u64),
    /// It has no input, because a pipe can't be read again.
    Pipe(Piped),
}

/// Which items of a pipe are done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Piped {
    /// None: no command got an answer, and no reply was lost.
    Nothing,
    /// Perhaps some, but it is unknown which.
    Unknown,
    /// The first ones.
    First(u64),
}

/// The receipts of a run, one for each key, and what is known about the run. Each method that changes the number of items
/// that are done also sets what the process reports if it is interrupted.
pub struct RunReceipts<'s> {
    pub server: &'s Server,
    receipts: Vec<KeyReceipt>,
    lease_ms: u64,
    /// Whether items are sent in the order of the input, so that a receipt's items are the first.
    sends_in_order: bool,
    /// In a cell because replies are taken through `&self`: callers share the receipts.
    state: RefCell<State>,
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
        Ok(Self::new(server, receipts, LEASE_MS, state))
    }

    /// Makes the receipt of a temporary key.
    pub fn of_temporary(server: &'s Server, temporary: &[u8]) -> Self {
        let receipts = vec![KeyReceipt::new(temporary, "build")];
        Self::new(server, receipts, TEMPORARY_LEASE_MS, State::Restarts)
    }

    fn new(server: &'s Server, receipts: Vec<KeyReceipt>, lease_ms: u64, state: State) -> Self {
        Self {
            server,
            sends_in_order: receipts.len() == 1,
            receipts,
            lease_ms,
            state: RefCell::new(state),
        }
    }

    /// Notes that the items of a block are not sent in the order of the input.
    pub fn out_of_order(self) -> Self {
        Self {
            sends_in_order: false,
            ..self
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
        self.set_first_done(done);
    }

    /// Creates the receipt of the only key, unless it exists. A continuing run requires the receipt: a new one would have no
    /// answers.
    pub fn create(&self, continues: bool) -> Result<(), Fault> {
        let receipt = self.single();
        if receipt.contents.is_some() {
            return Ok(());
        }
        if continues {
            self.state.borrow_mut().lose();
            return Err(Fault::Refused(receipt.gone()));
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
        let receipts = self.receipts.iter();
        receipts.map(|receipt| receipt.contents().end).sum()
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

    /// Settles the reply to a command for a key:
    /// - Sends the command again if it came too early: commands may overtake each other while a slot moves to another node.
    /// - Notes what the reply shows about the run: whether more items may be done, or fewer because a receipt is older than
    ///   its replies (as after a failover), or is gone.
    /// - Replaces the fault of a receipt that is gone by one that says so.
    pub fn settle(
        &self,
        index: usize,
        command: &Cmd,
        mut reply: Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        let receipt = &self.receipts[index];
        let is_early = |fault: &Fault| fault.is_slot_moving() || forgotten(fault).is_some();
        if reply.as_ref().is_err_and(is_early) {
            reply = self.server.call(&receipt.key, command);
        }
        let mut state = self.state.borrow_mut();
        if !matches!(reply, Err(Fault::Refused(_))) {
            *state = state.with_unknown();
        }
        reply.map_err(|fault| match forgotten(&fault) {
            Some(Forgotten { to: 0, .. }) => {
                state.lose();
                Fault::Refused(receipt.gone())
            }
            Some(Forgotten { to, .. }) => {
                state.forget(to, self.sends_in_order);
                state.announce();
                fault
            }
            None => fault,
        })
    }

    /// Sets the number of items that are done, which are the first of the input.
    pub fn set_first_done(&self, done: u64) {
        let mut state = self.state.borrow_mut();
        state.set_first_done(done);
        state.announce();
    }

    /// Sets the number of items that are done, within a block. If they are not the first of the input, a run whose input can't
    /// be read again ignores it: such items can't be left out.
    pub fn set_done_in_block(&self, done: u64) {
        let is_pipe = matches!(*self.state.borrow(), State::Pipe(_));
        if self.sends_in_order || !is_pipe {
            self.set_first_done(done);
        }
    }

    /// Notes that the same command begins anew, whatever is done.
    pub fn discard(&self) {
        *self.state.borrow_mut() = State::Restarts;
    }

    /// Returns whether a fault says that answers of earlier calls are lost.
    pub fn lost_answers(&self, fault: &Fault) -> bool {
        let receipts = &self.receipts;
        let is_gone = |text: &str| receipts.iter().any(|receipt| receipt.gone() == text);
        forgotten(fault).is_some() || matches!(fault, Fault::Refused(text) if is_gone(text))
    }

    /// Adds to a failure of the run what is done, and how to continue.
    pub fn explain(&self, failure: Failure) -> Failure {
        match self.state.borrow().note() {
            Some(note) => failure.with_note(&note),
            None => failure,
        }
    }

    /// Deletes the receipts at the end of the run. After a failure they stay until they expire.
    pub fn delete(self) {
        let state = *self.state.borrow();
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

impl State {
    fn set_first_done(&mut self, done: u64) {
        match self {
            Self::Restarts => {}
            Self::Continues(before) | Self::Lost(before) => *before = done,
            Self::Pipe(_) if done == 0 => {}
            Self::Pipe(before) => *before = Piped::First(done),
        }
    }

    /// Notes that a receipt is gone.
    fn lose(&mut self) {
        if let Self::Continues(done) = *self {
            *self = Self::Lost(done);
        }
    }

    /// Takes back items that a key's receipt no longer has: the key has the first `to` of its items.
    fn forget(&mut self, to: u64, is_in_order: bool) {
        match self {
            Self::Restarts => {}
            Self::Continues(done) | Self::Lost(done) => *done = to.min(*done),
            Self::Pipe(Piped::First(done)) if is_in_order => *done = to.min(*done),
            Self::Pipe(done) => *done = Piped::Unknown,
        }
    }

    /// Returns what is known if more items may be done.
    fn with_unknown(self) -> Self {
        match self {
            Self::Pipe(Piped::Nothing) => Self::Pipe(Piped::Unknown),
            _ => self,
        }
    }

    /// Sets what the process reports if it is interrupted. The command that an interrupt leaves without a reply may be done.
    fn announce(self) {
        if let Some(note) = self.with_unknown().note() {
            interrupt::say(note);
        }
    }

    /// Returns what is done, and how to continue; `None` if the same command begins with the first item.
    fn note(self) -> Option<String> {
        let some = || "some items may be done".to_owned();
        let at_least = |done| format!("at least {}", are_done(done));
        match self {
            Self::Restarts | Self::Continues(0) | Self::Pipe(Piped::Nothing) => None,
            Self::Continues(done) => Some(format!("{}; {CONTINUES}", at_least(done))),
            Self::Lost(0) => Some(format!("{}; {APPLIES_TWICE}", some())),
            Self::Lost(done) => Some(format!("{}; {APPLIES_TWICE}", at_least(done))),
            Self::Pipe(Piped::Unknown) => Some(some()),
            Self::Pipe(Piped::First(done)) => {
                Some(format!("the first {}; {PASS_LATER}", are_done(done)))
            }
        }
    }
}

/// Returns a text like "5 items are done".
fn are_done(items: u64) -> String {
    let be = if items == 1 { "is" } else { "are" };
    format!("{} {be} done", counted(items, "item"))
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
        let Some(found) = found else {
            return Ok(self);
        };
        let contents = Contents::of_module(&found).or_else(|| Contents::of_script(&found));
        if contents.is_none() {
            let name = shown(&self.name);
            return Err(Fault::Refused(format!("{name} is not a receipt")));
        }
        Ok(Self { contents, ..self })
    }

    /// Returns what an earlier run left, or zeros.
    fn contents(&self) -> Contents {
        self.contents.unwrap_or_default()
    }

    /// Says that the receipt is gone.
    fn gone(&self) -> String {
        let name = shown(&self.name);
        format!(
            "the receipt {name} is gone: it expired, was deleted or evicted, or is on another server"
        )
    }
}

impl Contents {
    /// Reads a receipt of the module.
    fn of_module(bytes: &[u8]) -> Option<Self> {
        let end = Receipt::read(bytes)?.end();
        Some(Self {
            end,
            ..Self::default()
        })
    }

    /// Reads the numbers that the script keeps.
    fn of_script(bytes: &[u8]) -> Option<Self> {
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
        Fault::LoginRefused | Fault::Lost(_) | Fault::Unusable(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_is_done_and_how_to_continue() {
        for (state, parts) in [
            (State::Restarts, &[][..]),
            (State::Continues(0), &[]),
            (
                State::Continues(5000),
                &["at least 5,000 items are done", CONTINUES],
            ),
            (State::Lost(0), &["some items may be done", APPLIES_TWICE]),
            (State::Lost(1), &["at least 1 item is done", APPLIES_TWICE]),
            (State::Pipe(Piped::Nothing), &[]),
            (State::Pipe(Piped::Unknown), &["some items may be done"]),
            (
                State::Pipe(Piped::First(5000)),
                &["the first 5,000 items are done", PASS_LATER],
            ),
        ] {
            let note = (!parts.is_empty()).then(|| parts.join("; "));
            assert_eq!(state.note(), note, "{state:?}");
        }
    }

    #[test]
    fn items_that_an_older_receipt_lacks_are_not_done() {
        let first = |done| State::Pipe(Piped::First(done));
        for (state, to, is_in_order, expected) in [
            (State::Continues(5000), 3000, false, State::Continues(3000)),
            // Another key's items may be done.
            (State::Continues(5000), 7000, false, State::Continues(5000)),
            (first(5000), 3000, true, first(3000)),
            // Some of a pipe's first 3,000 items may come after others in their block.
            (first(5000), 3000, false, State::Pipe(Piped::Unknown)),
        ] {
            let mut found = state;
            found.forget(to, is_in_order);
            assert_eq!(found, expected);
        }
    }
}
