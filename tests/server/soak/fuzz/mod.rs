//! Random input of clients: words that are nearly a command. Two servers of different versions get the same input, and
//! have to agree; both stay up, reply, forget no item, and give all memory back.

pub mod grammar;
mod pair;

use self::grammar::Grammar;
use self::pair::Pair;
use super::{Budget, random};
use crate::harness::{Builder, Server, int, ok, supported_servers, wait_until};
use crate::support::sums;
use crate::support::usage::{memory, most_resident};

/// A command, and many of them.
pub type Command = Vec<Vec<u8>>;

fn command(words: &[&[u8]]) -> Command {
    words.iter().map(|word| word.to_vec()).collect()
}

/// The least number of rounds, and the number of commands that go out at once in each.
const ROUNDS: u64 = 500;
const BATCH: usize = 256;

/// A server under fire, and what it was like before.
struct Target {
    server: Server,
    used: i64,
    resident: u64,
}

/// The limits of filters and of values are low, so that growth and merges reach them soon. All objects have one seed: they
/// are the same ones on both servers, and when the choices are made again.
const SETTINGS: [(&str, &str); 6] = [
    ("bf.bloom-filter-max-memory-usage", "16384"),
    ("bf.bloom-memory-usage-limit", "20000"),
    ("bf.bloom-capacity", "100"),
    ("bf.bloom-use-random-seed", "no"),
    // It takes memory at the first call of each command.
    ("latency-tracking", "no"),
    ("slowlog-log-slower-than", "-1"),
];

/// Memory that the server takes for itself from one moment to another, as in the tests of memory.
const NOISE: i64 = 128 * 1024;

/// The most resident memory that a fuzzed server may need beyond that of an idle one: batches of
/// requests and replies with it.
const RESIDENT: u64 = 256 << 20;

impl Target {
    fn new(builder: Builder) -> Self {
        let settings = SETTINGS.iter();
        let builder = settings.fold(builder, |to, (name, value)| to.config(name, value));
        let server = builder.start();
        // Allocations that the server makes once and keeps.
        let mut client = server.client();
        for line in ["BF.ADD first item", "DEBUG DIGEST-VALUE first", "INFO bf"] {
            client.run(line);
        }
        let dump = client.cmd("DUMP first");
        let restore: [&[u8]; 4] = [b"RESTORE", b"second", b"0", dump.as_bytes()];
        assert_eq!(client.call(&restore), ok());
        client.ok("FLUSHALL SYNC");
        drop(client);
        let used = memory(&server, "used_memory");
        let resident = most_resident(server.pid()).expect("it runs");
        Self {
            server,
            used,
            resident,
        }
    }

    /// Checks that nothing remains once the server's keys are deleted.
    #[track_caller]
    fn ends_unharmed(self) {
        let mut client = self.server.client();
        sums::is_balanced(&mut client);
        client.ok("FLUSHALL SYNC");
        client.expect("DBSIZE", int(0));
        sums::is_balanced(&mut client);
        drop(client);
        wait_until("the memory is given back", || {
            (memory(&self.server, "used_memory") - self.used).abs() < NOISE
        });
        let resident = most_resident(self.server.pid()).expect("it runs");
        let grown = resident - self.resident;
        assert!(grown < RESIDENT, "{grown} bytes were in use at once");
        assert!(!self.server.log_contains("BUG REPORT"));
    }
}

#[test]
fn servers_agree_on_random_commands_and_forget_nothing() {
    let test = "servers_agree_on_random_commands_and_forget_nothing";
    let targets = [
        Target::new(Server::builder()),
        Target::new(Server::builder().program(&supported_servers()[1])),
    ];
    let mut random = random(test);
    let mut pair = Pair::with([&targets[0].server, &targets[1].server]);
    let grammar = Grammar::new();
    for _ in Budget::rounds(ROUNDS) {
        let mut commands = Vec::new();
        while commands.len() < BATCH {
            grammar.next(&mut random, &mut commands);
        }
        pair.fire(&commands);
        pair.nothing_is_forgotten();
    }
    pair.ends_complete(test);
    drop(pair);
    targets.into_iter().for_each(Target::ends_unharmed);
}
