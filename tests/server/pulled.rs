//! Subscribers of events in other modules delete, overwrite and move keys while a command of ours runs.

use crate::harness::{Client, Plugin, Reply, Server, error, int, ok, simple, wait_until};
use crate::support::blobs::{Blobs, blobs, send};
use crate::support::sums;
use crate::support::tables::rows;

/// Keys that exist before each command, besides those of its row.
const GIVEN: &[&str] = &[
    "BF.INSERT src CAPACITY 100 ITEMS a b",
    "BF.INSERT other CAPACITY 100 ITEMS x y",
];
const KNOWN: &[&str] = &["BF.INSERT k CAPACITY 100 ITEMS a"];

/// Commands of a subscriber while a command runs.
const PULLS: &[&str] = &[
    "DELETE src",
    "DELETE k",
    "DEL k",
    "UNLINK k",
    "SET k v",
    "RENAME k moved",
    "RENAME other k",
    "COPY other k REPLACE",
    "MOVE k 1",
    "PEXPIRE k 9000000",
    "SET src v",
    "RENAME other src",
    "FLUSHALL",
    "FLUSHALL ASYNC",
    "FLUSHDB",
    "SWAPDB 0 1",
    "BF.ADD k pulled",
    "BF.MADD src a pulled",
    "BF.MERGE k src other",
];

/// Situations, a command that changes `k` in each, and its events.
const WRITES: &str = "
KNOWN = BF.INSERT k CAPACITY 100 ITEMS a
COUNTED = BF.INSERT k COUNTING CAPACITY 100 ITEMS a b
LIKE_W = BF.INSERT k WINDOW 1000000000000 PERIODS 2 CAPACITY 100 ITEMS a
WINDOWED = LIKE_W / BF.INSERT w WINDOW 1000000000000 PERIODS 2 CAPACITY 100 ITEMS b
LOADING = BF.LOADCHUNK k 1 <header>
BF.ADD k a => bloom.reserve ; bloom.add
KNOWN / BF.ADD k b => bloom.add
COUNTED / BF.ADD k b => bloom.add
WINDOWED / BF.ADD k b => bloom.add
BF.MADD k a b => bloom.reserve ; bloom.add
KNOWN / BF.MADD k b c => bloom.add
KNOWN / BF.MADD k a b c => bloom.add
BF.INSERT k CAPACITY 5 => bloom.reserve
BF.INSERT k CAPACITY 5 COUNTING ITEMS a b => bloom.reserve ; bloom.add
KNOWN / BF.INSERT k NOCREATE ITEMS a b => bloom.add
BF.INSERT k ONCE r 0 ITEMS a b => bloom.reserve ; bloom.add
KNOWN / BF.INSERT k ONCE r 7 BEGIN ITEMS a b => bloom.add
COUNTED / BF.INSERT k NOCREATE ITEMS a b => bloom.add
BF.RESERVE k 0.01 100 => bloom.reserve
BF.RESERVE k 0.01 100 EX 9000 => bloom.reserve ; expire
BF.LOAD k <dump> => bloom.reserve
BF.LOAD k <dump> 9000000 => bloom.reserve ; expire
LOADING / BF.LOADCHUNK k <end> <bits> => bloom.reserve
COUNTED / BF.DEL k a => bloom.del
COUNTED / BF.MDEL k a => bloom.del
COUNTED / BF.MDEL k a x b => bloom.del
BF.MERGE k src => bloom.reserve
BF.MERGE k src other => bloom.reserve
KNOWN / BF.MERGE k src other => bloom.add
WINDOWED / BF.MERGE k w => bloom.add
";

/// Commands that create `k`, or add to it.
const CREATIONS: &[&str] = &[
    "BF.ADD k a",
    "BF.MADD k a b",
    "BF.INSERT k CAPACITY 5 ITEMS a b",
    "BF.INSERT k NOCREATE ITEMS a b",
    "BF.INSERT k ONCE r 0 ITEMS a b",
    "BF.RESERVE k 0.01 100",
    "BF.RESERVE k 0.01 100 NX EX 9000",
    "BF.LOAD k <dump> 9000000",
    "BF.LOADCHUNK k 1 <header>",
    "BF.LOADCHUNK k <end> <bits>",
    "BF.DEL k a",
    "BF.MDEL k a b",
    "BF.MERGE k src",
    "BF.MERGE k src other",
    "BF.MERGE k other k src",
];

const READS: &[&str] = &[
    "BF.EXISTS k a",
    "BF.MEXISTS k a b",
    "BF.CARD k",
    "BF.INFO k",
    "BF.INFO k ITEMS",
    "BF.DEBUG k",
    "BF.SCANDUMP k 0",
    "BF.COUNT k a",
    "BF.MISSING k a b",
];

/// A primary with a module that pulls keys away, and a replica without.
struct Stage {
    client: Client,
    follower: Client,
    _servers: [Server; 2],
    _puller: Plugin,
    blobs: Blobs,
}

impl Stage {
    fn new() -> Self {
        let puller = Plugin::build("puller.c");
        let primary = Server::builder()
            .config("bf.bloom-use-random-seed", "no")
            .config("bf.bloom-capacity", "50")
            .after_module(&puller.line())
            .start();
        let replica = Server::replica_of(&primary).start();
        let mut client = primary.client();
        client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
        let blobs = blobs(&mut client);
        let follower = replica.client();
        wait_until("the replica is there", || {
            replica.info("replication")["master_link_status"] == "up"
        });
        Self {
            client,
            follower,
            _servers: [primary, replica],
            _puller: puller,
            blobs,
        }
    }

    /// Empties everything, and brings a situation about.
    fn prepare(&mut self, given: &[&str]) {
        self.client.ok("FLUSHALL");
        for line in GIVEN.iter().chain(given) {
            let done = self.send(line);
            assert!(!done.is_error(), "{line}: {done:?}");
        }
    }

    fn send(&mut self, line: &str) -> Reply {
        send(&mut self.client, line, &self.blobs)
    }

    /// Runs a command while `pull` runs at each event of this name and key; returns the reply, and how often
    /// there was such an event.
    fn pulled(&mut self, command: &str, (event, key): (&str, &str), pull: &str) -> (Reply, i64) {
        assert_eq!(self.send(&format!("PULL.ON {event} {key} {pull}")), ok());
        let reply = self.send(command);
        (reply, self.client.cmd("PULL.OFF").as_int())
    }

    /// Runs the effect of a pull as a command of its own.
    fn pull(&mut self, pull: &str) {
        self.send(&pull.replace("DELETE", "DEL"));
    }

    /// Runs a command while `pull` runs at an event. The outcome has to be that of `first`, the pull and the command, in this
    /// order, and nothing is replicated that subscribers store under a key that expires.
    #[track_caller]
    fn comes_first(
        &mut self,
        given: &[&str],
        command: &str,
        at: (&str, &str),
        first: &str,
        pull: &str,
    ) {
        let row = format!("{command}: at {at:?} {pull}");
        let (reply, times) = self.pulled(command, at, pull);
        assert_eq!(times, 1, "{row}");
        let data = self.data();
        self.prepare(given);
        self.send(first);
        self.pull(pull);
        assert_eq!(reply, self.send(command), "{row}");
        assert_eq!(data, self.data(), "{row}");
    }

    /// Returns the digest of all data, which INFO is the sum over.
    #[track_caller]
    fn data(&mut self) -> Reply {
        wait_until("nothing is being freed", || {
            let memory = self.client.cmd("INFO memory").text();
            memory.contains("lazyfree_pending_objects:0\r")
        });
        sums::is_balanced(&mut self.client);
        self.client.cmd("DEBUG DIGEST")
    }

    /// Returns the data, which the replica must share.
    #[track_caller]
    fn shared_data(&mut self) -> Reply {
        self.client.expect("WAIT 1 60000", int(1));
        let data = self.data();
        self.follower.expect("DEBUG DIGEST", &data);
        data
    }

    /// Lets a key expire when it is opened next. The server informs replicas after subscribers, so that what
    /// subscribers store under the key is not on the replica.
    fn expire(&mut self, key: &str) {
        self.client.expect(format!("PULL.EXPIRE {key}"), int(1));
    }
}

/// A subscriber's command takes effect after the whole command: as if one had been sent after the other.
#[test]
fn subscribers_come_after_the_change() {
    let mut stage = Stage::new();
    for row in rows(WRITES) {
        let given: Vec<&str> = row.given.iter().map(String::as_str).collect();
        let command = &*row.command;
        for event in row.parts() {
            for pull in PULLS {
                let row = format!("{given:?} {command}: at {event} {pull}");
                stage.prepare(&given);
                let (reply, times) = stage.pulled(command, (event, "k"), pull);
                assert_eq!(times, 1, "{row}");
                let data = stage.shared_data();
                stage.prepare(&given);
                assert_eq!(reply, stage.send(command), "{row}");
                stage.pull(pull);
                assert_eq!(data, stage.shared_data(), "{row}");
            }
        }
    }
}

/// A command that finds that its key has expired works on what subscribers have left.
#[test]
fn subscribers_come_before_the_command_whose_key_expires() {
    let mut stage = Stage::new();
    for command in CREATIONS {
        for pull in PULLS {
            stage.prepare(KNOWN);
            stage.expire("k");
            stage.comes_first(KNOWN, command, ("expired", "k"), "DEL k", pull);
        }
    }
}

/// A filter, its receipt, and commands of subscribers that change either.
const ANSWERED: &[&str] = &["BF.INSERT k CAPACITY 100 ITEMS x", REPEATED];
const REPEATED: &str = "BF.INSERT k ONCE r 0 ITEMS a b";
const PULLS_OF_RECEIPT: &[&str] = &[
    "DELETE r",
    "DELETE k",
    "SET r v",
    "RENAME r moved",
    "RENAME other r",
    "PEXPIRE r 9000000",
    "BF.INSERT k ONCE r 2 ITEMS pulled",
    "BF.INSERT k ONCE r 9 BEGIN ITEMS pulled",
    // If the key has expired, this answers for a filter that does not exist.
    "BF.INSERT other ONCE r 2 ITEMS pulled",
    "FLUSHALL",
];

/// A receipt changes in one step with its filter, whenever subscribers run.
#[test]
fn subscribers_see_the_filter_and_the_receipt_together() {
    let mut stage = Stage::new();
    for command in [
        REPEATED,
        "BF.INSERT k ONCE r 1 ITEMS b c",
        "BF.INSERT k ONCE r 2 ITEMS a",
        "BF.INSERT k ONCE r 5 BEGIN ITEMS c",
    ] {
        for pull in PULLS_OF_RECEIPT {
            for at in [("bloom.add", "k"), ("bloom.receipt", "r")] {
                let row = format!("{command}: at {at:?} {pull}");
                stage.prepare(ANSWERED);
                let (reply, times) = stage.pulled(command, at, pull);
                let data = stage.shared_data();
                stage.prepare(ANSWERED);
                assert_eq!(reply, stage.send(command), "{row}");
                if times > 0 {
                    stage.pull(pull);
                }
                assert_eq!(data, stage.shared_data(), "{row}");
            }
            for key in ["k", "r"] {
                // If the receipt has all answers, nobody looks at the filter.
                if (key, command) != ("k", REPEATED) {
                    stage.prepare(ANSWERED);
                    stage.expire(key);
                    let del = format!("DEL {key}");
                    stage.comes_first(ANSWERED, command, ("expired", key), &del, pull);
                }
            }
        }
    }
}

/// For reads, the key was missing.
#[test]
fn reads_of_a_missing_key_report_it_missing() {
    let mut stage = Stage::new();
    for command in READS {
        stage.prepare(&[]);
        let missing = stage.send(command);
        for pull in PULLS {
            for event in ["expired", "keymiss"] {
                let row = format!("{command}: at {event} {pull}");
                stage.prepare(&[]);
                if event == "expired" {
                    assert_eq!(stage.send("BF.ADD k a"), int(1));
                    stage.expire("k");
                }
                let (reply, times) = stage.pulled(command, (event, "k"), pull);
                assert_eq!((reply, times), (missing.clone(), 1), "{row}");
                stage.data();
            }
        }
    }
}

/// If a source expires or is missing, other sources may be deleted: the command reads none of them.
#[test]
fn a_merge_ignores_sources_that_subscribers_delete() {
    let mut stage = Stage::new();
    for command in [
        "BF.MERGE k src gone",
        "BF.MERGE k src other gone",
        "BF.MERGE k src gone other",
        "BF.MERGE k gone src other",
        "BF.MERGE new k src gone other",
    ] {
        for pull in PULLS {
            for event in ["expired", "keymiss"] {
                stage.prepare(KNOWN);
                if event == "expired" {
                    assert_eq!(stage.send("BF.ADD gone a"), int(1));
                    stage.expire("gone");
                }
                let at = (event, "gone");
                let (reply, times) = stage.pulled(command, at, pull);
                assert_eq!(
                    (reply, times),
                    (error("ERR not found"), 1),
                    "{command}: at {at:?} {pull}"
                );
                let data = stage.data();
                stage.prepare(KNOWN);
                stage.pull(pull);
                assert_eq!(data, stage.data(), "{command}: at {at:?} {pull}");
            }
        }
    }
}

/// A destination that subscribers create, when they hear that it is missing, is a source of the merge.
#[test]
fn a_merge_includes_keys_that_subscribers_create() {
    let mut stage = Stage::new();
    for (pull, reply) in [
        ("BF.INSERT k CAPACITY 100 ITEMS pulled", ok()),
        ("COPY other k", ok()),
        ("SET k v", error(WRONG_TYPE)),
        ("DELETE src", error("ERR not found")),
    ] {
        stage.prepare(&[]);
        let pulled = stage.pulled("BF.MERGE k src", ("keymiss", "k"), pull);
        assert_eq!(pulled, (reply, 1), "{pull}");
        let data = stage.data();
        stage.prepare(&[]);
        stage.pull(pull);
        stage.send("BF.MERGE k src");
        assert_eq!(data, stage.data(), "{pull}");
    }
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Nothing is different within a transaction and a script.
#[test]
fn subscribers_come_after_each_change_of_several() {
    let mut stage = Stage::new();
    let script: &[&[u8]] = &[
        b"EVAL",
        b"for i = 1, 3 do redis.call('BF.MADD', KEYS[1], 'a', i) end return redis.call('BF.CARD', KEYS[1])",
        b"1",
        b"k",
    ];
    for pull in PULLS {
        stage.prepare(&[]);
        assert_eq!(stage.send(&format!("PULL.ON bloom.add k {pull}")), ok());
        let replies = {
            assert_eq!(stage.send("MULTI"), ok());
            for command in ["BF.ADD k a", "BF.MADD k a b", "BF.CARD k"] {
                assert_eq!(stage.send(command), simple("QUEUED"));
            }
            stage.send("EXEC")
        };
        let data = stage.shared_data();
        stage.client.call(script);
        stage.shared_data();
        stage.send("PULL.OFF");

        stage.prepare(&[]);
        let mut one_by_one = Vec::new();
        for command in ["BF.ADD k a", "BF.MADD k a b"] {
            let reported = stage.send(command);
            let changed = match &reported {
                Reply::Array(items) => items.contains(&int(1)),
                single => *single == int(1),
            };
            if changed {
                stage.pull(pull);
            }
            one_by_one.push(reported);
        }
        one_by_one.push(stage.send("BF.CARD k"));
        assert_eq!(replies, Reply::Array(one_by_one), "{pull}");
        assert_eq!(data, stage.shared_data(), "{pull}");
    }
}
