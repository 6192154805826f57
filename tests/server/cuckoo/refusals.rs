//! What is refused, in which words, in both protocols, and that a refusal changes nothing.

use crate::harness::{Server, error, ok};
use crate::support::protocols::in_both_protocols;

use super::items;

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const RESERVE_RANGE: &str = "ERR Capacity must be in the range [2 * BUCKETSIZE, 1073741824]";
const INSERT_RANGE: &str = "ERR Capacity must be in the range [cf-bucket-size * 2, 1073741824]";
const BUCKET_RANGE: &str = "ERR BUCKETSIZE: value must be in the range [1, 255]";
const ITERATIONS_RANGE: &str = "ERR MAXITERATIONS: value must be in the range [1, 65535]";
const EXPANSION_RANGE: &str = "ERR EXPANSION: value must be in the range [0, 32768]";
const UNKNOWN: &str = "ERR Unknown argument received";
const POSITION: &str = "ERR Invalid position";
const CHUNK: &str = "ERR Couldn't load chunk!";
const MEMORY: &str = "ERR Insufficient memory: operation exceeds cuckoo filter memory limit";

/// Commands, and the words in which each is refused. `k` is a filter, `none` no key, `b` a Bloom filter and `s` a
/// string.
const ROWS: &[(&str, &str)] = &[
    ("CF.RESERVE new x", "ERR Bad capacity"),
    ("CF.RESERVE new 64.0", "ERR Bad capacity"),
    ("CF.RESERVE new 18446744073709551616", "ERR Bad capacity"),
    ("CF.RESERVE new x BUCKETSIZE x", "ERR Bad capacity"),
    ("CF.RESERVE new 3", RESERVE_RANGE),
    ("CF.RESERVE new 0", RESERVE_RANGE),
    ("CF.RESERVE new -1", RESERVE_RANGE),
    ("CF.RESERVE new 1073741825", RESERVE_RANGE),
    ("CF.RESERVE new 9 BUCKETSIZE 5", RESERVE_RANGE),
    (
        "CF.RESERVE new 64 BUCKETSIZE x",
        "ERR Couldn't parse BUCKETSIZE",
    ),
    (
        "CF.RESERVE new 64 MAXITERATIONS x",
        "ERR Couldn't parse MAXITERATIONS",
    ),
    (
        "CF.RESERVE new 64 EXPANSION x",
        "ERR Couldn't parse EXPANSION",
    ),
    ("CF.RESERVE new 64 BUCKETSIZE 0", BUCKET_RANGE),
    ("CF.RESERVE new 64 BUCKETSIZE 256", BUCKET_RANGE),
    ("CF.RESERVE new 64 BUCKETSIZE -1", BUCKET_RANGE),
    ("CF.RESERVE new 64 MAXITERATIONS 0", ITERATIONS_RANGE),
    ("CF.RESERVE new 64 MAXITERATIONS 65536", ITERATIONS_RANGE),
    ("CF.RESERVE new 64 EXPANSION -1", EXPANSION_RANGE),
    ("CF.RESERVE new 64 EXPANSION 32769", EXPANSION_RANGE),
    // In RedisBloom's order, whatever the order of the words.
    (
        "CF.RESERVE new 3 EXPANSION x MAXITERATIONS 0",
        ITERATIONS_RANGE,
    ),
    ("CF.RESERVE new 3 EXPANSION x BUCKETSIZE 0", BUCKET_RANGE),
    ("CF.RESERVE new 3 EXPANSION -1", EXPANSION_RANGE),
    ("CF.RESERVE k 3", RESERVE_RANGE),
    // Words that are no options, and options without a value.
    ("CF.RESERVE new 64 SIZE 4", UNKNOWN),
    ("CF.RESERVE new 64 4 BUCKETSIZE", UNKNOWN),
    ("CF.RESERVE new 64 EXPANSION 1 BUCKETSIZE 2 x 1", UNKNOWN),
    ("CF.RESERVE k 64", "ERR item exists"),
    ("CF.INSERT new CAPACITY x ITEMS a", "ERR Bad capacity"),
    ("CF.INSERT new CAPACITY 3 ITEMS a", INSERT_RANGE),
    ("CF.INSERT new CAPACITY -1 ITEMS a", INSERT_RANGE),
    ("CF.INSERT new CAPACITY 1073741825 ITEMS a", INSERT_RANGE),
    ("CF.INSERT k CAPACITY 3 ITEMS a", INSERT_RANGE),
    ("CF.INSERTNX k CAPACITY 8 CAPACITY 3 ITEMS a", INSERT_RANGE),
    ("CF.INSERT k Cxyz 100 ITEMS a", UNKNOWN),
    ("CF.INSERT k NO ITEMS a", UNKNOWN),
    ("CF.INSERT k Iwhat a", UNKNOWN),
    ("CF.INSERT k  ITEMS a", UNKNOWN),
    ("CF.INSERTNX k EXPANSION 2 ITEMS a", UNKNOWN),
    ("CF.INSERT none NOCREATE ITEMS a", "ERR not found"),
    (
        "CF.INSERTNX none NOCREATE CAPACITY 64 ITEMS a",
        "ERR not found",
    ),
    ("CF.INFO none", "ERR not found"),
    ("CF.DEBUG none", "ERR not found"),
    ("CF.SCANDUMP none 0", "ERR not found"),
    ("CF.LOADCHUNK none 2 x", "ERR not found"),
    ("CF.DEL none a", "ERR Not found"),
    ("CF.COMPACT none", "ERR Cuckoo filter was not found"),
    ("CF.SCANDUMP k x", POSITION),
    ("CF.SCANDUMP k -1", POSITION),
    ("CF.SCANDUMP none -1", POSITION),
    ("CF.LOADCHUNK k x y", POSITION),
    ("CF.LOADCHUNK k 0 y", POSITION),
    ("CF.LOADCHUNK none 0 y", POSITION),
    ("CF.LOADCHUNK k 1 y", "ERR item exists"),
    ("CF.LOADCHUNK new 1 y", "ERR Invalid header"),
    ("CF.LOADCHUNK k 2 ", CHUNK),
    ("CF.LOADCHUNK k -1 x", CHUNK),
    ("CF.LOADCHUNK k 100000 x", CHUNK),
    ("CF.LOADCHUNK k 1026 x", CHUNK),
    ("CF.LOADCHUNK k 9223372036854775807 x", CHUNK),
    ("CF.ADD full a", "ERR Filter is full"),
    ("CF.ADDNX full other-44", "ERR Filter is full"),
    ("CF.ADD most a", "ERR Maximum expansions reached"),
    ("CF.ADDNX most a", "ERR Maximum expansions reached"),
    ("CF.INSERT most ITEMS a b", "ERR Maximum expansions reached"),
    (
        "CF.INSERTNX most NOCREATE ITEMS a",
        "ERR Maximum expansions reached",
    ),
    ("CF.RESERVE new 1073741824", MEMORY),
    ("CF.INSERT new CAPACITY 1073741824 ITEMS a", MEMORY),
];

const EACH: &[&str] = &[
    "CF.ADD b a",
    "CF.ADDNX b a",
    "CF.INSERT b ITEMS a",
    "CF.INSERTNX b NOCREATE ITEMS a",
    "CF.EXISTS b a",
    "CF.MEXISTS b a c",
    "CF.COUNT b a",
    "CF.DEL b a",
    "CF.RESERVE b 64",
    "CF.INFO b",
    "CF.DEBUG b",
    "CF.SCANDUMP b 0",
    "CF.LOADCHUNK b 1 x",
    "CF.LOADCHUNK b 2 x",
    "CF.COMPACT b",
];

const ARITY: &[&str] = &[
    "CF.ADD",
    "CF.ADD k",
    "CF.ADD k a b",
    "CF.ADDNX k",
    "CF.ADDNX k a b",
    "CF.EXISTS k",
    "CF.EXISTS k a b",
    "CF.MEXISTS k",
    "CF.COUNT k",
    "CF.COUNT k a b",
    "CF.DEL k",
    "CF.DEL k a b",
    "CF.RESERVE k",
    "CF.RESERVE k 64 BUCKETSIZE",
    "CF.RESERVE k 64 BUCKETSIZE 2 EXPANSION",
    "CF.INSERT k a",
    "CF.INSERT k ITEMS",
    "CF.INSERT k CAPACITY 64",
    "CF.INSERT k NOCREATE CAPACITY",
    "CF.INSERT k NOCREATE ITEMS",
    "CF.INSERTNX k CAPACITY 64 NOCREATE",
    "CF.INFO",
    "CF.INFO k k",
    "CF.DEBUG k k",
    "CF.SCANDUMP k",
    "CF.SCANDUMP k 0 0",
    "CF.LOADCHUNK k 1",
    "CF.LOADCHUNK k 1 x y",
    "CF.COMPACT",
    "CF.COMPACT k k",
];

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        client.cmd(&format!("CF.INSERT k ITEMS {}", items("i", 100)));
        client.cmd("CF.RESERVE full 64 EXPANSION 0");
        client.cmd(&format!(
            "CF.INSERT full ITEMS {}",
            "a ".repeat(8).trim_end()
        ));
        client.cmd(&format!("CF.INSERT full ITEMS {}", items("i", 200)));
        client.cmd("CF.RESERVE most 4");
        client.cmd(&format!("CF.INSERT most ITEMS {}", items("i", 200)));
        client.cmd("BF.ADD b a");
        client.cmd("SET s x");
        let state = client.cmd("DEBUG DIGEST");
        let check = |client: &mut crate::harness::Client, command: &str, expected: &str| {
            assert_eq!(client.cmd(command), error(expected), "{command}");
            assert_eq!(client.cmd("DEBUG DIGEST"), state, "{command}");
        };
        for (command, expected) in ROWS {
            check(client, command, expected);
        }
        for command in EACH {
            check(client, command, WRONG_TYPE);
            check(client, &command.replacen(" b", " s", 1), WRONG_TYPE);
        }
        for command in ARITY {
            let name = command.split(' ').next().unwrap().to_lowercase();
            let text = format!("ERR wrong number of arguments for '{name}' command");
            check(client, command, &text);
        }
        for command in [
            "BF.ADD k a",
            "BF.EXISTS k a",
            "BF.INFO k",
            "BF.LOADCHUNK k 1 x",
        ] {
            check(client, command, WRONG_TYPE);
        }
    });
}

/// Copies of one item need new filters: the limits hold them within one command, too.
#[test]
fn growth_ends_at_the_limits() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        for (reserve, filters) in [
            ("CF.RESERVE k 1024", 32),
            ("CF.RESERVE k 4 EXPANSION 32768", 2),
            ("CF.RESERVE k 33554432 EXPANSION 2", 2),
        ] {
            client.cmd("FLUSHALL");
            assert_eq!(client.cmd(reserve), ok());
            let copies = vec!["one"; 400].join(" ");
            let reply = client.cmd(&format!("CF.INSERT k ITEMS {copies}"));
            let added = crate::support::protocols::truth(resp3, true);
            let added = reply
                .as_array()
                .iter()
                .filter(|reply| **reply == added)
                .count();
            assert_eq!(added, 4 * filters, "{reserve}");
            let own = super::field(client, "k", "Number of filters");
            assert_eq!(own, i64::try_from(filters).unwrap(), "{reserve}");
        }
        // Of one command, the item that needs another filter.
        let refused = client.cmd("CF.ADD k one");
        assert_eq!(refused, error(MEMORY));
    });
}
