//! Commands of a family that are refused: they change nothing.

use crate::harness::{Client, Reply, error};
use crate::support::commands::{self, BLOOM, CUCKOO, Command};
use crate::support::tables::rows;

pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// The refusals of one family, on a client whose key `k` holds a value of it. The keys `bloom`, `cuckoo` and `text` hold
/// others.
pub struct Refusals<'c> {
    client: &'c mut Client,
    /// The commands whose replies no refused command changes.
    state: &'c [&'c str],
    before: Vec<Reply>,
}

impl<'c> Refusals<'c> {
    pub fn of(client: &'c mut Client, state: &'c [&'c str]) -> Self {
        client.run_all(["BF.ADD bloom a", "CF.ADD cuckoo a", "SET text x"]);
        let before = state.iter().map(|command| client.cmd(command)).collect();
        Self {
            client,
            state,
            before,
        }
    }

    #[track_caller]
    pub fn check(&mut self, command: &str, expected: &str) {
        self.client.expect(command, error(expected));
        let now = self.state.iter().map(|command| self.client.cmd(command));
        assert_eq!(now.collect::<Vec<_>>(), self.before, "{command}");
    }

    /// Checks the rows of a table, each a command and its error.
    pub fn check_rows(&mut self, table: &str) {
        for row in rows(table) {
            self.check(&row.command, &row.expected);
        }
    }

    /// Checks the family's commands with too few and too many words and on keys of other types, and the commands of other
    /// families on `k`. Commands that create a value may have an error of their own for keys that exist.
    pub fn check_others(&mut self, prefix: &str, of_creation: &str) {
        let own = |command: &&Command| command.name().starts_with(prefix);
        assert!(commands::all().any(|command| own(&command)), "{prefix}");
        for command in commands::all().filter(own) {
            for (line, error) in command.calls_of_wrong_arity() {
                self.check(&line, &error);
            }
            let creates = command.name().contains(".init") || command.name().ends_with(".reserve");
            let expected = if creates { of_creation } else { WRONG_TYPE };
            let keys = ["bloom", "cuckoo", "text"].into_iter();
            for key in keys.filter(|key| prefix != "cf." || *key != "cuckoo") {
                self.check(
                    &command.on(key),
                    other_type(&command.on(key)).unwrap_or(expected),
                );
            }
        }
        let of_cuckoo = CUCKOO.iter().filter(|_| prefix != "cf.");
        for command in BLOOM.iter().chain(of_cuckoo) {
            let line = command.on("k");
            self.check(&line, other_type(&line).unwrap_or(WRONG_TYPE));
        }
    }
}

/// Returns the error of a command that does not distinguish a key of another type from a missing one.
fn other_type(line: &str) -> Option<&'static str> {
    match line.split(' ').next()? {
        "CF.DEL" => Some("Not found"),
        "CF.COMPACT" => Some("Cuckoo filter was not found"),
        _ => None,
    }
}
