//! Random input of clients: words that are nearly a command. The server always stays up, replies, and gives all memory
//! back.

mod grammar;
mod model;
mod words;

use crate::harness::{Client, Server, int, ok, wait_until};
use crate::support::sums;
use crate::support::usage::{memory, most_resident};

/// A command, and many of them.
type Command = Vec<Vec<u8>>;

fn command(words: &[&[u8]]) -> Command {
    words.iter().map(|word| word.to_vec()).collect()
}

/// A server under fire, and what it was like before.
struct Target {
    server: Server,
    used: i64,
    resident: u64,
}

/// The most bytes of one filter for a client's command, and of a value. Little, so that growth and merges reach them soon.
const FILTER_LIMIT: u32 = 16_384;
const VALUE_LIMIT: u32 = 20_000;

/// Memory that the server takes for itself from one moment to another, as in the tests of memory.
const NOISE: i64 = 128 * 1024;

/// The most resident memory that a fuzzed server may need beyond that of an idle one: batches of
/// requests and replies with it.
const RESIDENT: u64 = 256 << 20;

impl Target {
    fn new() -> Self {
        let limits = [FILTER_LIMIT, VALUE_LIMIT].map(|limit| limit.to_string());
        let server = Server::with(&[
            ("bf.bloom-filter-max-memory-usage", &limits[0]),
            ("bf.bloom-memory-usage-limit", &limits[1]),
            ("bf.bloom-capacity", "100"),
            // Objects are the same ones when a seed is run again.
            ("bf.bloom-use-random-seed", "no"),
            // It takes memory at the first call of each command.
            ("latency-tracking", "no"),
            ("slowlog-log-slower-than", "-1"),
        ]);
        // Allocations that the server makes once and keeps.
        let mut client = server.client();
        for line in ["BF.ADD first item", "DEBUG DIGEST-VALUE first", "INFO bf"] {
            assert!(!client.cmd(line).is_error(), "{line}");
        }
        let dump = client.cmd("DUMP first");
        let restore: [&[u8]; 4] = [b"RESTORE", b"second", b"0", dump.as_bytes()];
        assert_eq!(client.call(&restore), ok());
        assert_eq!(client.cmd("FLUSHALL SYNC"), ok());
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
    fn ends_unharmed(self, mut client: Client) {
        sums::is_balanced(&mut client);
        assert_eq!(client.cmd("FLUSHALL SYNC"), ok());
        assert_eq!(client.cmd("DBSIZE"), int(0));
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
