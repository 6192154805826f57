//! Runs that count each item once, however often a command is sent or the run is started.
//!
//! Beside each key is a receipt. It holds how many items of the run's input are done, and changes in one step with the key.
//! Its name is derived from the key, the subcommand, the format and the files, and the number of shards, so the same run finds
//! it again. Additions to Bloom filters have receipts of the module, all other commands those of a script.

mod receipt;
mod state;
mod status;

use std::ops::Range;

use redis::{Cmd, Value, cmd};

use valkeybloom_sketches::{Forgotten, Seed};

use self::receipt::KeyReceipt;
use self::state::{Piped, State};
use self::status::Status;
use super::failure::{Fault, Result, shown};
use super::interrupt;
use super::lines::Input;
use super::progress::Show;
use super::report::{counted, warn};
use super::server::Server;

pub use self::state::Reason;
pub use self::status::Sending;

/// How long a receipt outlives the last command of its run, in milliseconds: a week. One of the module does so until it has an
/// answer; then the module keeps it for `bf.bloom-receipt-ttl`.
const LEASE_MS: u64 = 7 * 24 * 3_600_000;
/// The same for the receipt of a temporary key, which no other run needs: a day, because only commands renew it, and none are
/// sent while the input pauses.
const TEMPORARY_LEASE_MS: u64 = 24 * 3_600_000;

/// The receipts of a run, one for each key, and what is known about the run.
pub struct RunReceipts {
    receipts: Vec<KeyReceipt>,
    status: Status,
}

impl RunReceipts {
    /// Names the receipts of a run with this input and command, and reads those that an earlier run may have left.
    pub fn read(
        server: &Server,
        keys: &[Vec<u8>],
        subcommand: &str,
        command: &str,
        input: &Input,
        sending: Sending,
    ) -> Result<Self> {
        let mut run = Self::new(keys, subcommand, input.identity()?, sending);
        for receipt in &mut run.receipts {
            let found = server.query(&receipt.key, cmd("GET").arg(&receipt.name));
            let taken = found.and_then(|found| receipt.take(found, command));
            taken
                .map_err(|fault| server.failure_of("read the receipt of", &receipt.key, &fault))?;
        }
        Ok(run)
    }

    /// Names the receipts of a run by the identity of its input, which is `None` if the input can be read only once.
    pub fn new(
        keys: &[Vec<u8>],
        subcommand: &str,
        identity: Option<Vec<u8>>,
        sending: Sending,
    ) -> Self {
        let (state, number) = if let Some(mut identity) = identity {
            // With another number of shards, each has other items.
            identity.extend((keys.len() as u64).to_le_bytes());
            // Hashes of this seed never change.
            let (number, _) = Seed::FIXED.probe(&identity).hashes();
            (State::Continues(0), number)
        } else {
            // If a command for one of several keys is refused, those for the others are done nevertheless.
            let piped = match keys {
                [_] => Piped::Nothing,
                _ => Piped::Unknown,
            };
            let number = getrandom::u64().expect("the system has random numbers");
            (State::Pipe(piped), number)
        };
        let suffix = format!("{subcommand}-{number:016x}");
        let receipts = keys.iter();
        let receipts = receipts.map(|key| KeyReceipt::new(key, &suffix, LEASE_MS));
        Self {
            receipts: receipts.collect(),
            status: Status::new(state, sending),
        }
    }

    /// Names the receipt of a temporary key.
    pub fn of_temporary(key: &[u8]) -> Self {
        Self {
            receipts: vec![KeyReceipt::new(key, "build", TEMPORARY_LEASE_MS)],
            // Nothing continues after the receipts of temporary keys.
            status: Status::new(State::Restarts, Sending::OutOfOrder),
        }
    }

    /// Returns what is known about the run.
    pub const fn status(&self) -> &Status {
        &self.status
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

    /// Creates the receipt of the only key by a `call`, unless it exists. A continuing run requires the receipt: a new one would
    /// have no answers.
    pub fn create(
        &self,
        continues: bool,
        call: impl FnOnce(&[u8], &Cmd) -> Result<Value, Fault>,
    ) -> Result<(), Fault> {
        let receipt = self.single();
        if receipt.exists() {
            return Ok(());
        }
        if continues {
            self.status.forget(0);
            return Err(receipt.gone());
        }
        call(&receipt.key, &receipt.creation()).map(drop)
    }

    /// Returns whether an earlier run did the items of a key up to a position.
    pub fn is_done(&self, index: usize, end: u64) -> bool {
        end <= self.receipts[index].kept().done
    }

    /// Returns the number of items that earlier runs did.
    pub fn done_before(&self) -> u64 {
        self.receipts.iter().map(|key| key.kept().done).sum()
    }

    /// Returns the numbers of items that an earlier run removed from the only key, and whose removal was refused to it.
    pub fn removals(&self) -> (u64, u64) {
        let kept = self.single().kept();
        (kept.removed, kept.refused)
    }

    /// Returns a command on a key, up to its items, which have these positions in the key's input.
    pub fn command(&self, index: usize, positions: Range<u64>, command: &str) -> Cmd {
        self.receipts[index].command(positions, command)
    }

    /// Calls a command for a key `again` if it came too early: commands may overtake each other while a slot moves to another
    /// node. Then notes what the reply shows about the run: whether more items may be done, or fewer because the key's receipt is
    /// older than its replies (as after a failover), or is gone. Replaces the fault of a receipt that is gone by one that says so.
    pub fn settle(
        &self,
        index: usize,
        mut reply: Result<Value, Fault>,
        again: impl FnOnce() -> Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        if forgotten(&reply).is_some() {
            reply = again();
        }
        if let Some(Forgotten { to, .. }) = forgotten(&reply) {
            self.status.forget(to);
            if to == 0 {
                return Err(self.receipts[index].gone());
            }
        } else if !matches!(reply, Err(Fault::Refused(_))) {
            self.status.note_call();
        }
        reply
    }

    /// Deletes the receipts at the end of the run. After a failure they stay until they expire. A single server deletes all in one
    /// step: the same command would begin anew with the keys that have none, and go on with the others.
    pub fn delete(self, server: &Server) {
        let state = self.status.state();
        if state != State::Restarts {
            interrupt::say("all items are done");
        }
        let step = if server.is_cluster() {
            1
        } else {
            self.receipts.len()
        };
        for receipts in self.receipts.chunks(step) {
            let names: Vec<&[u8]> = receipts.iter().map(|receipt| &receipt.name[..]).collect();
            let deleted = server.call(&receipts[0].key, cmd("UNLINK").arg(&names));
            if deleted.is_err() && matches!(state, State::Continues(1..) | State::Begun) {
                let (of, it) = match names[..] {
                    [_] => ("receipt", "it"),
                    _ => ("receipts", "them"),
                };
                let names: Vec<_> = names.into_iter().map(shown).collect();
                warn(format_args!(
                    "all items are done, but the {of} {} could not be deleted: delete {it} before these files are used again",
                    names.join(", ")
                ));
            }
        }
    }
}

/// Returns what a key's receipt lacks, if the reply says so.
fn forgotten(reply: &Result<Value, Fault>) -> Option<Forgotten> {
    match reply {
        Err(Fault::Refused(text)) => Forgotten::read(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(state: State, sending: Sending) -> RunReceipts {
        RunReceipts {
            receipts: vec![KeyReceipt::new(b"k", "build-7", LEASE_MS)],
            status: Status::new(state, sending),
        }
    }

    #[test]
    fn the_same_input_has_the_same_receipts() {
        let names = |keys: &[&str], subcommand, identity: Option<&[u8]>| {
            let keys: Vec<_> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
            let identity = identity.map(<[u8]>::to_vec);
            let run = RunReceipts::new(&keys, subcommand, identity, Sending::InOrder);
            let names = run.receipts.into_iter();
            let names = names.map(|it| String::from_utf8(it.name).expect("ASCII"));
            (names.collect::<Vec<_>>(), run.status.state())
        };
        let (first, state) = names(&["k"], "build", Some(b"list"));
        assert_eq!(state, State::Continues(0));
        // Another version of the program has to find it.
        assert_eq!(first, ["{k}:once:build-a32f1645a117c8ef"]);
        for (keys, subcommand, identity) in [
            (&["k"][..], "build", &b"other"[..]),
            (&["k"], "remove", b"list"),
            (&["k", "l"], "build", b"list"),
        ] {
            let (other, state) = names(keys, subcommand, Some(identity));
            assert_eq!((other.len(), state), (keys.len(), State::Continues(0)));
            assert_ne!(other[0], first[0]);
        }
        let (pipe, state) = names(&["k"], "build", None);
        assert_eq!(state, State::Pipe(Piped::Nothing));
        assert_ne!(pipe, names(&["k"], "build", None).0);
        let (_, state) = names(&["k", "l"], "build", None);
        assert_eq!(state, State::Pipe(Piped::Unknown));
    }

    #[test]
    fn a_run_that_continues_needs_its_receipt() {
        let mut receipts = run(State::Continues(7), Sending::ForAnswers);
        let gone = receipts.create(true, |_, _| unreachable!("it continues"));
        assert!(matches!(gone, Err(Fault::Gone(_))), "{gone:?}");
        let state = receipts.status.state();
        assert_eq!(state, State::Discarded(Reason::AnswersLost));
        let taken = receipts.receipts[0].take(Some(b"0 0 0".to_vec()), "CF.DEL");
        taken.expect("it is a receipt");
        for continues in [false, true] {
            let created = receipts.create(continues, |_, _| unreachable!("it exists"));
            created.expect("both use it");
        }
    }

    #[test]
    fn a_run_that_begins_creates_its_receipt() {
        let receipts = run(State::Continues(0), Sending::ForAnswers);
        let mut calls = Vec::new();
        let created = receipts.create(false, |key, command| {
            calls.push((key.to_vec(), command.get_packed_command()));
            Ok(Value::Okay)
        });
        created.expect("it is created");
        let command = receipts.receipts[0].creation().get_packed_command();
        assert_eq!(calls, [(b"k".to_vec(), command)]);
        let lost = receipts.create(false, |_, _| Err(Fault::Lost("no reply".to_owned())));
        assert!(matches!(lost, Err(Fault::Lost(_))), "{lost:?}");
    }

    #[test]
    fn a_reply_says_what_may_be_done() {
        let refused = |text: &str| Err(Fault::Refused(text.to_owned()));
        let short = |to| refused(&Forgotten { from: 0, to }.to_string());
        let lost = || Err(Fault::Lost("no reply".to_owned()));
        let gone = || Err(KeyReceipt::new(b"k", "build-7", LEASE_MS).gone());
        let (pipe, unknown) = (State::Pipe(Piped::Nothing), State::Pipe(Piped::Unknown));
        let continues = State::Continues;
        for (state, reply, again, settled, expected) in [
            (pipe, Ok(Value::Okay), None, Ok(Value::Okay), unknown),
            (pipe, lost(), None, lost(), unknown),
            (pipe, refused("OOM"), None, refused("OOM"), pipe),
            // A command before it was on its way.
            (
                pipe,
                short(7),
                Some(Ok(Value::Okay)),
                Ok(Value::Okay),
                unknown,
            ),
            (pipe, short(7), Some(refused("OOM")), refused("OOM"), pipe),
            (
                continues(9),
                short(7),
                Some(short(7)),
                short(7),
                continues(7),
            ),
            (
                continues(9),
                short(0),
                Some(short(0)),
                gone(),
                State::Lost(9),
            ),
        ] {
            let receipts = run(state, Sending::InOrder);
            let mut again = again.into_iter();
            let found = receipts.settle(0, reply, || again.next().expect("it is not sent again"));
            assert!(again.next().is_none(), "it is sent again");
            let [found, settled] = [found, settled].map(|it| format!("{it:?}"));
            assert_eq!((found, receipts.status.state()), (settled, expected));
        }
    }
}
