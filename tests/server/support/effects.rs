//! Commands, and what others learn of each: subscribers, clients that watch the key, logs and replicas.

use std::collections::HashMap;

use valkeybloom_sketches::Seed;

use super::aof::Log;
use super::blobs::{Blobs, send};
use super::configured::other_settings;
use super::tables::{self, rows};
use crate::harness::{Client, Server, array, bulk, int, nil, simple, wait_in_sync};

/// A situation, a command, and its effects on the key `k`, and on the receipt `r`.
pub struct Effect {
    /// The commands that prepare the situation.
    pub given: Vec<String>,
    pub command: String,
    /// The events, each of `k` or with its key and a colon before it.
    pub events: Vec<String>,
    /// The commands that replicas and logs get.
    pub sent: Vec<String>,
    /// Whether `k` and `r` change.
    pub changes: [bool; 2],
}

impl Effect {
    /// Reads an outcome: the events, or `-`, or `silent` for a change without events; then the commands sent, if these
    /// are not the command as it came.
    fn of(row: tables::Row) -> Self {
        let (events, sent) = row
            .expected
            .split_once(" | ")
            .map_or((&*row.expected, None), |(events, sent)| {
                (events, Some(sent))
            });
        let changes = events != "-" || sent.is_some();
        let as_it_came = if changes { &*row.command } else { "-" };
        let list = |words: &str, separator| -> Vec<String> {
            let words = words.split(separator).map(str::to_owned);
            words
                .filter(|word| !["", "-", "silent"].contains(&&**word))
                .collect()
        };
        let events = list(events, " ");
        let of_receipt = events
            .iter()
            .filter(|event| event.starts_with("r:"))
            .count();
        let is_alone = of_receipt > 0 && of_receipt == events.len();
        Self {
            events,
            sent: list(sent.unwrap_or(as_it_came), " ; "),
            changes: [changes && !is_alone, of_receipt > 0],
            given: row.given,
            command: row.command,
        }
    }
}

/// Returns the effects in a table.
pub fn of(table: &str) -> impl Iterator<Item = Effect> + use<> {
    rows(table).into_iter().map(Effect::of)
}

/// Returns the channels and messages for these events, the one for the key first.
fn messages(events: &[impl AsRef<str>]) -> Vec<(String, String)> {
    let both = events.iter().flat_map(|event| {
        let event = event.as_ref();
        let (key, event) = event.split_once(':').unwrap_or(("k", event));
        [
            (format!("__keyspace@0__:{key}"), event.to_owned()),
            (format!("__keyevent@0__:{event}"), key.to_owned()),
        ]
    });
    both.collect()
}

/// Returns the messages that a subscriber got since the last call.
pub fn heard(subscriber: &mut Client, client: &mut Client) -> Vec<(String, String)> {
    client.expect("PUBLISH __keyend all", int(1));
    heard_until_end(subscriber)
}

/// Returns the messages that a subscriber gets until one to `__keyend`.
fn heard_until_end(subscriber: &mut Client) -> Vec<(String, String)> {
    let mut heard = Vec::new();
    loop {
        let message = subscriber.read();
        let parts = message.as_array();
        assert_eq!(parts[0], bulk("pmessage"));
        let (channel, text) = (parts[2].text(), parts[3].text());
        if channel == "__keyend" {
            return heard;
        }
        heard.push((channel, text));
    }
}

/// A server with a log and a replica, and everybody who learns of changes.
pub struct Stage {
    pub client: Client,
    watchers: [Client; 2],
    publisher: Client,
    subscribers: [Client; 2],
    follower: Client,
    log: Log,
    _servers: [Server; 2],
}

impl Stage {
    pub fn start(settings: &[(&str, &str)]) -> Self {
        let builder = settings.iter().fold(Server::builder(), |builder, setting| {
            builder.config(setting.0, setting.1)
        });
        let primary = builder
            .config("appendonly", "yes")
            .config("appendfsync", "always")
            .config("aof-use-rdb-preamble", "no")
            .config("bf.bloom-use-random-seed", "no")
            .config("notify-keyspace-events", "KEA")
            .start();
        let replica = other_settings(Server::replica_of(&primary))
            .config("notify-keyspace-events", "KEA")
            .start();
        wait_in_sync(&primary, &replica);
        Self {
            client: primary.client(),
            watchers: [primary.client(), primary.client()],
            publisher: primary.client(),
            subscribers: [&primary, &replica].map(|server| {
                let mut subscriber = server.client();
                subscriber.cmd("PSUBSCRIBE __key*");
                subscriber
            }),
            follower: replica.client(),
            log: Log::of(&primary),
            _servers: [primary, replica],
        }
    }

    /// Runs the commands of a table, each after the commands of its situation, and compares what everybody learns.
    #[track_caller]
    pub fn play(&mut self, table: &str, blobs: &Blobs) {
        for effect in of(table) {
            let Effect { given, command, .. } = &effect;
            let what = format!("{given:?} {command}");
            self.client.ok("FLUSHALL");
            for line in given {
                let reply = send(&mut self.client, line, blobs);
                assert!(!reply.is_error(), "{line}: {reply:?}");
            }
            self.events(&what);
            self.log.since();
            let watched = self.watchers.iter_mut().zip(["k", "r"]);
            watched.for_each(|(watcher, key)| watcher.ok(format!("WATCH {key}")));

            send(&mut self.client, command, blobs);
            let expected = messages(&effect.events);
            assert_eq!(self.events(&what), expected, "{what}");
            assert_eq!(self.sent(blobs), effect.sent, "{what}");
            for (watcher, changes) in self.watchers.iter_mut().zip(effect.changes) {
                watcher.ok("MULTI");
                watcher.expect("PING", simple("QUEUED"));
                let done = if changes {
                    nil()
                } else {
                    array([simple("PONG")])
                };
                watcher.expect("EXEC", &done);
            }
            self.is_replicated(&what);
        }
    }

    /// Checks that the replica holds the same data.
    #[track_caller]
    pub fn is_replicated(&mut self, what: &str) {
        let [own, there] =
            [&mut self.client, &mut self.follower].map(|client| client.cmd("DEBUG DIGEST"));
        assert_eq!(own, there, "{what}");
    }

    /// Returns the events since the last call, which are the same on the replica.
    #[track_caller]
    pub fn events(&mut self, what: &str) -> Vec<(String, String)> {
        // A message goes to replicas in its order among the writes.
        self.publisher.expect("PUBLISH __keyend all", int(1));
        let [reported, by_replica] = self.subscribers.each_mut().map(heard_until_end);
        assert_eq!(reported, by_replica, "{what}");
        reported
    }

    /// Returns the commands in the log since the last call, in a line each. Bytes are shown by their names, times and
    /// seeds by their kind.
    fn sent(&mut self, blobs: &Blobs) -> Vec<String> {
        let named: HashMap<&[u8], &str> = blobs
            .iter()
            .map(|(name, bytes)| (&bytes[..], *name))
            .collect();
        let sent = self.log.since().into_iter().map(|command| {
            let words = command.iter().enumerate().map(|(index, word)| {
                let before = index.checked_sub(1).map(|before| &command[before][..]);
                let is_time = before == Some(b"AT") && word != b"0"
                    || command[0] == b"PEXPIREAT" && index == 2;
                if is_time {
                    let ms: u64 = String::from_utf8_lossy(word).parse().expect("a time");
                    // After this was written, and in this century.
                    assert!((1_700_000_000_000..4_000_000_000_000).contains(&ms), "{ms}");
                    return "<time>".to_owned();
                }
                if let Some(name) = named.get(&word[..]) {
                    return (*name).to_owned();
                }
                match before {
                    Some(b"SEED") if *word == Seed::FIXED.as_bytes() => "<fixed>".to_owned(),
                    Some(b"SEED") if word.len() == 32 => "<random>".to_owned(),
                    _ => word.escape_ascii().to_string(),
                }
            });
            words.collect::<Vec<_>>().join(" ")
        });
        sent.collect()
    }
}

/// The effects of commands for Bloom filters, on a server with other defaults.
pub const BLOOM: &str = "
FULL = BF.INSERT k CAPACITY 2 NONSCALING ITEMS a b
KNOWN = BF.INSERT k ITEMS a
COUNTED = BF.INSERT k COUNTING ITEMS a b
WINDOWED = BF.INSERT k WINDOW 1000000000000 PERIODS 2 TTL 1 ITEMS a
SCALED = BF.INSERT k SCALETO 500 ITEMS a
LOADING = BF.LOADCHUNK k 1 <header>
SRC = BF.INSERT src CAPACITY 100 ITEMS a b
# A creation is sent with every parameter, whoever gave it.
BF.RESERVE k 0.02 100
=> bloom.reserve | BF.INSERT k CAPACITY 100 ERROR 0.02 <ours> EXPANSION 3
BF.RESERVE k 0.1 2 NONSCALING
=> bloom.reserve | BF.INSERT k CAPACITY 2 ERROR 0.1 <ours> NONSCALING
BF.RESERVE k 0.1 2 EXPANSION 0
=> bloom.reserve | BF.INSERT k CAPACITY 2 ERROR 0.1 <ours> NONSCALING
BF.RESERVE k 0.01 100 COUNTING
=> bloom.reserve | BF.INSERT k CAPACITY 100 ERROR 0.01 <table> EXPANSION 3 COUNTING
BF.RESERVE k 0.01 100 WINDOW 1000000000000 PERIODS 2
=> bloom.reserve | BF.INSERT k CAPACITY 100 ERROR 0.01 <table> EXPANSION 3 WINDOW 1000000000000 PERIODS 2 AT <time>
BF.RESERVE k 0.01 100 SCALETO 1000
=> bloom.reserve | BF.INSERT k CAPACITY 1000 ERROR 0.01 <table> EXPANSION 3 SCALETO 1000
BF.INSERT k SCALETO 1000 COUNTING TIGHTENING 0.5 ITEMS a
=> bloom.reserve bloom.add | BF.INSERT k CAPACITY 1000 ERROR 0.03 <table> EXPANSION 3 COUNTING ITEMS a
BF.RESERVE k 0.01 100 NX PX 900000
=> bloom.reserve expire | MULTI ; BF.INSERT k CAPACITY 100 ERROR 0.01 <ours> EXPANSION 3 ; PEXPIREAT k <time> ; EXEC
BF.INSERT k
=> bloom.reserve | BF.INSERT k CAPACITY 50 ERROR 0.03 <ours> EXPANSION 3
bf.insert k expansion 7 tightening 0.25 error 1e-5 capacity 9 items a b a
=> bloom.reserve bloom.add | BF.INSERT k CAPACITY 9 ERROR 1e-5 TIGHTENING 0.25000000000000006 SEED <fixed> EXPANSION 7 ITEMS a b
BF.INSERT k VALIDATESCALETO 1000 SEED <seed> ITEMS a
=> bloom.reserve bloom.add | BF.INSERT k CAPACITY 50 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <seed> EXPANSION 3 ITEMS a
BF.INSERT k COUNTING ITEMS a b a
=> bloom.reserve bloom.add | BF.INSERT k CAPACITY 50 ERROR 0.03 <table> EXPANSION 3 COUNTING ITEMS a b a
BF.INSERT k WINDOW 1000000000000 PERIODS 2 TTL 1 ITEMS a
=> bloom.reserve bloom.add | BF.INSERT k CAPACITY 50 ERROR 0.03 <table> EXPANSION 3 WINDOW 1000000000000 PERIODS 2 AT <time> TTL 1 ITEMS a
bf.add k a
=> bloom.reserve bloom.add | BF.INSERT k CAPACITY 50 ERROR 0.03 <ours> EXPANSION 3 ITEMS a
BF.MADD k a b a
=> bloom.reserve bloom.add | BF.INSERT k CAPACITY 50 ERROR 0.03 <ours> EXPANSION 3 ITEMS a b
CONFIG SET bf.bloom-use-random-seed yes / BF.ADD k a
=> bloom.reserve bloom.add | BF.INSERT k CAPACITY 50 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <random> EXPANSION 3 ITEMS a
CONFIG SET bf.bloom-use-random-seed no / BF.EXISTS k a => -
BF.LOAD k <dump> => bloom.reserve
BF.LOAD k <dump> 900000 => bloom.reserve expire | MULTI ; BF.LOAD k <dump> ; PEXPIREAT k <time> ; EXEC
# An add is sent with what was new.
KNOWN / BF.ADD k b => bloom.add
KNOWN / bf.add k b => bloom.add
KNOWN / BF.ADD k <empty> => bloom.add
KNOWN / BF.MADD k b c => bloom.add
KNOWN / BF.MADD k a b c b => bloom.add | BF.MADD k b c
KNOWN / BF.INSERT k CAPACITY 9 ERROR 0.5 ITEMS a b => bloom.add | BF.MADD k b
KNOWN / BF.INSERT k NOCREATE ITEMS b b c => bloom.add | BF.MADD k b c
# Growth is no event of its own, and adds nothing to what is sent.
BF.INSERT k CAPACITY 1 ITEMS a / BF.ADD k b => bloom.add
BF.INSERT k CAPACITY 1 ITEMS a / BF.MADD k b c d e f => bloom.add
# An item that fails is not sent, nor are those after it. It does not undo those before it.
BF.INSERT k CAPACITY 1 NONSCALING ITEMS a b c
=> bloom.reserve bloom.add | BF.INSERT k CAPACITY 1 ERROR 0.03 <ours> NONSCALING ITEMS a
BF.INSERT k CAPACITY 2 NONSCALING ITEMS a / BF.MADD k b c d => bloom.add | BF.MADD k b
BF.INSERT k CAPACITY 2 NONSCALING ITEMS a / BF.INSERT k ITEMS a b c => bloom.add | BF.MADD k b
BF.INSERT k CAPACITY 2 NONSCALING COUNTING ITEMS a b c
=> bloom.reserve bloom.add | BF.INSERT k CAPACITY 2 ERROR 0.03 <table> NONSCALING COUNTING ITEMS a b
FULL / BF.MADD k a c b => -
FULL / BF.ADD k c => -
FULL / BF.ADD k a => -
# Replicas of other settings have to saturate, too.
FULL / CONFIG SET bf.bloom-saturate-nonscaling yes / BF.MADD k a c d => bloom.add | BF.INSERT k NOCREATE SATURATE ITEMS c d
FULL / BF.ADD k e => bloom.add | BF.INSERT k NOCREATE SATURATE ITEMS e
BF.INSERT k CAPACITY 1 NONSCALING COUNTING ITEMS a / BF.MADD k a c
=> bloom.add | BF.INSERT k NOCREATE SATURATE ITEMS a c
BF.INSERT k CAPACITY 1 NONSCALING WINDOW 1000000000000 PERIODS 2 ITEMS a b c / BF.MADD k a d
=> bloom.add | BF.INSERT k NOCREATE AT <time> SATURATE ITEMS d
CONFIG SET bf.bloom-saturate-nonscaling no / BF.EXISTS k a => -
# Commands that change nothing, or fail.
KNOWN / BF.MADD k a a => -
KNOWN / BF.INSERT k => -
KNOWN / BF.INSERT k NOCREATE ITEMS a => -
KNOWN / BF.RESERVE k 0.01 100 => -
KNOWN / BF.RESERVE k 0.01 100 NX EX 100 => -
KNOWN / BF.LOAD k <dump> => -
KNOWN / BF.LOADCHUNK k 1 <header> => -
KNOWN / BF.LOADCHUNK k 2 x => -
KNOWN / BF.MADD k => -
KNOWN / BF.DEL k a => -
BF.RESERVE k 2 100 => -
BF.RESERVE k 0.01 9223372036854775807 => -
BF.INSERT k NOCREATE ITEMS a => -
BF.INSERT k VALIDATESCALETO 9223372036854775807 ITEMS a => -
BF.LOAD k <cut> => -
BF.LOADCHUNK k 1 <cutheader> => -
BF.MDEL k a b => -
SET k v / BF.ADD k a => -
# Commands that only read.
KNOWN / BF.MEXISTS k a b => -
KNOWN / BF.INFO k => -
KNOWN / BF.SCANDUMP k 0 => -
KNOWN / BF.READ k $ => -
BF.EXISTS k a => -
# A second add of an item counts, and so does a removal, which is sent with what was removed.
COUNTED / BF.ADD k a => bloom.add | BF.INSERT k NOCREATE ITEMS a
COUNTED / BF.MADD k a b a => bloom.add | BF.INSERT k NOCREATE ITEMS a b a
COUNTED / BF.DEL k a => bloom.del
COUNTED / BF.DEL k c => -
COUNTED / BF.MDEL k a x b b => bloom.del | BF.MDEL k a b
COUNTED / BF.MDEL k c a => bloom.del | BF.MDEL k a
COUNTED / BF.MDEL k c d => -
COUNTED / BF.COUNT k a => -
SCALED / BF.MADD k a b => bloom.add | BF.INSERT k NOCREATE ITEMS b
SCALED / BF.ADD k b => bloom.add | BF.INSERT k NOCREATE ITEMS b
SCALED / BF.ADD k a => -
COUNTED / BF.MISSING k a c => -
# Extending an item's stay is an add, though the item is not new. Writes to windows carry a time.
WINDOWED / BF.ADD k a => bloom.add | BF.INSERT k NOCREATE AT <time> ITEMS a
WINDOWED / BF.INSERT k TTL 1 ITEMS a => -
WINDOWED / BF.INSERT k TTL 1 ITEMS a b => bloom.add | BF.INSERT k NOCREATE AT <time> TTL 1 ITEMS b
WINDOWED / BF.INSERT k TTL 2000000000000 ITEMS a => bloom.add | BF.INSERT k NOCREATE AT <time> TTL 2000000000000 ITEMS a
WINDOWED / BF.INSERT k TTL 2000000000001 ITEMS a => -
WINDOWED / BF.INSERT k NOCREATE => -
# The receiver has the sources of a merge.
SRC / BF.MERGE k src => bloom.reserve
SRC / KNOWN / BF.MERGE k src => bloom.add
SRC / COUNTED / BF.MERGE k src => -
COUNTED / BF.INSERT src COUNTING ITEMS a c c / BF.MERGE k src => bloom.add
COUNTED / BF.INSERT src COUNTING ITEMS a / BF.MERGE k src => -
BF.INSERT src SCALETO 500 ITEMS a / BF.MERGE k src => bloom.reserve
KNOWN / BF.MERGE k k => -
KNOWN / BF.MERGE k k none => -
BF.MERGE k none => -
# An object exists once its last chunk is loaded.
BF.LOADCHUNK k 1 <header> => silent
LOADING / BF.LOADCHUNK k 2 x => silent
LOADING / BF.LOADCHUNK k 3 x => -
LOADING / BF.ADD k a => -
LOADING / BF.LOADCHUNK k <end> <bits> => bloom.reserve
LOADING / BF.LOADCHUNK k 1 <header> => -
LOADING / BF.LOADCHUNK k 2 x / BF.LOADCHUNK k 2 x => -
LOADING / BF.LOADCHUNK k <end> <bits> / BF.LOADCHUNK k <end> <bits> => -
BF.LOADCHUNK k 1 <tableheader> => silent
BF.LOADCHUNK k 1 <tableheader> / BF.LOADCHUNK k <pieceend> <piece> => bloom.reserve
BF.LOADCHUNK k 1 <tableheader> / BF.LOADCHUNK k 2 <piece> => -
# The commands of a transaction and of a script stand together, each with its events.
KNOWN / MULTI / BF.ADD k a / BF.ADD k b / BF.MADD k a c / EXEC => bloom.add bloom.add | MULTI ; BF.ADD k b ; BF.MADD k c ; EXEC
KNOWN / MULTI / BF.ADD k a / EXEC => -
KNOWN / EVAL <adds> 1 k b => bloom.add bloom.add | MULTI ; BF.ADD k b ; BF.MADD k x ; EXEC
KNOWN / EVAL <adds> 1 k a => bloom.add | BF.MADD k x
";

/// The parameters of an object of ours that its creation names.
pub const OURS: &str = "TIGHTENING 0.5000000000000001 SEED <fixed>";
/// Those of an object of tables.
pub const TABLE: &str = "TIGHTENING 0.25000000000000006 SEED <fixed>";

/// The effects of commands for cuckoo filters.
pub const CUCKOO: &str = "
ONE = CF.ADD k a
TWO = CF.INSERT k ITEMS a b
FULL = CF.RESERVE k 4 EXPANSION 0 / CF.INSERT k ITEMS foo foo foo foo
CF.RESERVE k 64 => cuckoo.reserve | CF.RESERVE k 64 BUCKETSIZE 2 MAXITERATIONS 20 EXPANSION 1
CF.RESERVE k 777 EXPANSION 3 BUCKETSIZE 3
=> cuckoo.reserve | CF.RESERVE k 777 BUCKETSIZE 3 MAXITERATIONS 20 EXPANSION 3
CF.ADD k a
=> cuckoo.reserve cuckoo.add | MULTI ; CF.RESERVE k 1024 BUCKETSIZE 2 MAXITERATIONS 20 EXPANSION 1 ; CF.INSERT k NOCREATE ITEMS a ; EXEC
CF.INSERTNX k CAPACITY 100 ITEMS a b a
=> cuckoo.reserve cuckoo.add | MULTI ; CF.RESERVE k 100 BUCKETSIZE 2 MAXITERATIONS 20 EXPANSION 1 ; CF.INSERT k NOCREATE ITEMS a b ; EXEC
ONE / CF.ADD k a => cuckoo.add | CF.ADD k a
ONE / CF.ADDNX k a => -
ONE / CF.ADDNX k b => cuckoo.add | CF.ADDNX k b
ONE / CF.INSERT k CAPACITY 9 ITEMS a b => cuckoo.add | CF.INSERT k NOCREATE ITEMS a b
ONE / CF.INSERTNX k ITEMS a b a c => cuckoo.add | CF.INSERT k NOCREATE ITEMS b c
ONE / CF.INSERTNX k ITEMS a a => -
FULL / CF.ADD k foo => -
FULL / CF.INSERT k ITEMS foo foo => -
CF.RESERVE k 4 EXPANSION 0 / CF.INSERT k ITEMS foo foo foo / CF.INSERT k ITEMS foo foo
=> cuckoo.add | CF.INSERT k NOCREATE ITEMS foo
TWO / CF.DEL k a => cuckoo.del | CF.DEL k a
TWO / CF.DEL k c => -
TWO / CF.DEL k a / CF.COMPACT k => - | CF.COMPACT k
TWO / CF.COMPACT k => -
ONE / CF.LOADCHUNK k 2 x => - | CF.LOADCHUNK k 2 x
ONE / CF.LOADCHUNK k 5000 x => -
CF.LOADCHUNK k 1 <cfheader> / CF.LOADCHUNK k 1 <cfheader> => -
ONE / CF.RESERVE k 64 => -
ONE / CF.EXISTS k a => -
ONE / CF.SCANDUMP k 0 => -
";
