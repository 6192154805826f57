//! Scripts, functions, transactions, and clients that keep copies.

use crate::blobs::{Blobs, blobs, send, send_words};
use crate::cuckoo;
use crate::harness::{
    Client, Reply, Server, array, bulk, double, error, int, map, nil, ok, simple,
};
use crate::pages;
use crate::protocols::{in_both_protocols, truth, truths, with_fixed_seed};

fn eval(client: &mut Client, script: &str, words: &str) -> Reply {
    call_script(client, "EVAL", script, words)
}

/// Runs a script with the key `k` and these arguments.
fn call_script(client: &mut Client, command: &str, script: &str, words: &str) -> Reply {
    let mut args: Vec<&[u8]> = vec![command.as_bytes(), script.as_bytes(), b"1", b"k"];
    args.extend(words.split_whitespace().map(str::as_bytes));
    client.call(&args)
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

const CALL: &str = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
const CALL3: &str = "redis.setresp(3) return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";

#[test]
fn lua_gets_what_a_client_gets() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        // Scripts speak RESP2 at first: what they pass on is numbers, whoever asks.
        let rows = [
            ("BF.RESERVE 0.01 100", ok()),
            ("BF.ADD a", int(1)),
            ("BF.ADD a", int(0)),
            ("BF.EXISTS b", int(0)),
            ("BF.MADD a b c", array([int(0), int(1), int(1)])),
            ("BF.MEXISTS a d", array([int(1), int(0)])),
            ("BF.INSERT NOCREATE ITEMS a d", array([int(0), int(1)])),
            ("BF.CARD", int(4)),
            ("BF.INFO CAPACITY", array([int(100)])),
            ("BF.INFO ERROR", array([bulk("0.01")])),
            ("RENAME bloom", ok()),
            ("CF.RESERVE 100", ok()),
            ("CF.ADD a", int(1)),
            ("CF.ADD a", int(1)),
            ("CF.ADDNX a", int(0)),
            ("CF.EXISTS b", int(0)),
            ("CF.MEXISTS a b", array([int(1), int(0)])),
            ("CF.INSERT NOCREATE ITEMS a b", array([int(1), int(1)])),
            ("CF.INSERTNX ITEMS a c", array([int(0), int(1)])),
            ("CF.COUNT a", int(3)),
            ("CF.DEL a", int(1)),
            ("CF.DEL d", int(0)),
            ("CF.COMPACT", ok()),
            ("CF.SCANDUMP 10000", array([int(0), Reply::Nil])),
            ("RENAME cuckoo", ok()),
        ];
        for (words, reply) in rows {
            assert_eq!(eval(client, CALL, words), reply, "{words}");
        }
        // Then booleans and maps, as scripts can tell.
        let rows = [
            ("BF.ADD e", "boolean"),
            ("BF.ADD e", "boolean"),
            ("BF.EXISTS e", "boolean"),
            ("BF.CARD", "number"),
            ("BF.MADD e f", "table"),
            ("RENAME bloom", "table"),
            ("CF.ADD e", "boolean"),
            ("CF.ADDNX e", "boolean"),
            ("CF.EXISTS f", "boolean"),
            ("CF.DEL e", "boolean"),
            ("CF.COUNT e", "number"),
            ("CF.MEXISTS e f", "table"),
            ("CF.INFO", "table"),
            ("RENAME cuckoo", "table"),
        ];
        assert_eq!(client.cmd("RENAME bloom k"), ok());
        for (words, kind) in rows {
            let script =
                format!("{} ", CALL3.replace("return ", "local reply = ")) + "return type(reply)";
            assert_eq!(eval(client, &script, words), bulk(kind), "{words}");
        }
        let rows = [
            ("BF.ADD g", truth(resp3, true)),
            ("BF.ADD g", truth(resp3, false)),
            ("BF.EXISTS g", truth(resp3, true)),
            (
                "BF.MADD g h",
                array([truth(resp3, false), truth(resp3, true)]),
            ),
            (
                "BF.MEXISTS g i",
                array([truth(resp3, true), truth(resp3, false)]),
            ),
            ("BF.INSERT ITEMS i", array([truth(resp3, true)])),
            ("RENAME bloom", ok()),
            ("CF.ADD g", truth(resp3, true)),
            ("CF.ADDNX g", truth(resp3, false)),
            ("CF.EXISTS g", truth(resp3, true)),
            (
                "CF.MEXISTS g h",
                array([truth(resp3, true), truth(resp3, false)]),
            ),
            ("CF.INSERT ITEMS h", array([truth(resp3, true)])),
            ("CF.INSERTNX ITEMS h i", array([int(0), int(1)])),
            ("CF.DEL h", truth(resp3, true)),
        ];
        assert_eq!(client.cmd("RENAME bloom k"), ok());
        for (words, reply) in rows {
            assert_eq!(eval(client, CALL3, words), reply, "{words}");
        }
        let field = CALL3.replace("return ", "local told = ")
            + " for name, value in pairs(told.map) do return {name.ok, value} end";
        assert_eq!(eval(client, &field, "CF.INFO").as_array().len(), 2);
        assert_eq!(client.cmd("RENAME bloom k"), ok());
        let capacity = array([bulk("Capacity"), int(100)]);
        assert_eq!(eval(client, &field, "BF.INFO CAPACITY"), capacity);
        if resp3 {
            let rate = array([bulk("Error rate"), double(0.01)]);
            assert_eq!(eval(client, &field, "BF.INFO ERROR"), rate);
            let alone = map([(simple("Capacity"), int(100))]);
            assert_eq!(eval(client, CALL3, "BF.INFO CAPACITY"), alone);
        }
        assert_eq!(eval(client, CALL, "BF.CARD"), int(9));
    });
}

#[test]
fn lua_gets_refusals() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        assert_eq!(client.cmd("BF.RESERVE k 0.01 2 NONSCALING"), ok());
        let try_it = "return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))";
        for (words, refusal) in [
            ("BF.RESERVE 0.01 2", "ERR item exists"),
            ("BF.RESERVE 2 2", "ERR (0 < error rate range < 1)"),
            ("BF.INFO X", "ERR invalid information value"),
            ("CF.ADD a", WRONG_TYPE),
            ("CF.DEL a", WRONG_TYPE),
            (
                "CF.RESERVE 3",
                "ERR Capacity must be in the range [2 * BUCKETSIZE, 1073741824]",
            ),
            ("CF.INSERT X a", "ERR Unknown argument received"),
        ] {
            let refused = eval(client, CALL, words);
            assert!(
                refused.is_error() && refused.text().starts_with(refusal),
                "{refused:?}"
            );
            assert_eq!(eval(client, try_it, words), error(refusal));
        }
        // Servers count the words of a command in a script themselves.
        assert!(eval(client, CALL, "BF.ADD").is_error());
        let wrong_type =
            "redis.call('SET', KEYS[1], 'v') return redis.pcall('BF.ADD', KEYS[1], 'a')";
        assert_eq!(eval(client, wrong_type, ""), error(WRONG_TYPE));
        assert_eq!(client.cmd("DEL k"), int(1));
    });
}

/// From Valkey 9.1 on, Lua is given the error in place of the list that it ends.
fn takes_an_error_for_the_list(server: &Server) -> bool {
    let version = server.version();
    version.valkey && (version.major, version.minor) >= (9, 1)
}

#[test]
fn an_item_that_fails_in_a_script_ends_the_list_or_the_script() {
    let server = with_fixed_seed();
    let in_place_of_the_list = takes_an_error_for_the_list(&server);
    let full = "ERR non scaling filter is full";
    in_both_protocols(&server, |client, resp3| {
        for (add, answer) in [
            ("'BF.MADD', KEYS[1], 'a', 'b', 'c', 'd'", 1),
            ("'BF.INSERT', KEYS[1], 'ITEMS', 'a', 'b', 'c', 'd'", 1),
            ("'BF.INSERT', KEYS[1], 'ITEMS', 'a', 'a', 'b', 'c'", 0),
        ] {
            assert_eq!(client.cmd("BF.RESERVE k 1e-9 2 NONSCALING"), ok());
            let tried = format!(
                "local r = redis.pcall({add}) \
                 if r.err then return {{#r, r.err}} end return {{#r, r[2], r[#r].err}}"
            );
            let count = 3 + i64::from(answer == 0);
            let told = if in_place_of_the_list {
                array([int(0), bulk(full)])
            } else {
                array([int(count), int(answer), bulk(full)])
            };
            assert_eq!(eval(client, &tried, ""), told, "{add}");
            // What was added before the item that failed stays.
            assert_eq!(client.cmd("BF.CARD k"), int(2), "{add}");

            let called =
                format!("local r = redis.call({add}) return redis.call('SET', KEYS[1], #r)");
            let reply = eval(client, &called, "");
            if in_place_of_the_list {
                let raised = reply.is_error() && reply.text().starts_with(full);
                assert!(raised, "{add}: {reply:?}");
                assert_eq!(client.cmd("TYPE k"), simple("bloomfltr"), "{add}");
            } else {
                assert_eq!(reply, ok(), "{add}");
                assert_eq!(client.cmd("GET k"), bulk(count.to_string()), "{add}");
            }
            assert_eq!(client.cmd("DEL k"), int(1));
        }
        // A client gets the list from every server.
        assert_eq!(client.cmd("BF.RESERVE k 1e-9 2 NONSCALING"), ok());
        let list = array([truth(resp3, true), truth(resp3, true), error(full)]);
        assert_eq!(client.cmd("BF.MADD k a b c d"), list);
    });
}

#[test]
fn the_script_of_the_page_tells_a_refusal_on_every_server() {
    let script = pages::block("docs/commands.md", "BF.MADD", "lua");
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        assert_eq!(client.cmd("BF.RESERVE k 1e-9 2 NONSCALING"), ok());
        let script = format!("{script} return refused or 'none'");
        for (items, refused) in [
            ("a", "none"),
            ("a b a", "none"),
            ("b c", "ERR non scaling filter is full"),
            ("c", "ERR non scaling filter is full"),
            ("b a", "none"),
        ] {
            assert_eq!(eval(client, &script, items), bulk(refused), "{items}");
        }
        assert_eq!(client.cmd("BF.CARD k"), int(2));
        assert_eq!(client.cmd("SET k string"), ok());
        assert_eq!(eval(client, &script, "a"), bulk(WRONG_TYPE));
    });
}

/// Makes what the commands below are about: a Bloom filter `k`, one with counters `n`, a cuckoo filter `c`.
fn make_filters(client: &mut Client) {
    for line in [
        "BF.ADD k a",
        "BF.INSERT n COUNTING ITEMS a b",
        "CF.INSERT c ITEMS a b",
    ] {
        assert!(!client.cmd(line).is_error(), "{line}");
    }
}

const WRITES: &[&str] = &[
    "BF.ADD k new",
    "BF.MADD k new",
    "BF.INSERT k ITEMS new",
    "BF.RESERVE new 0.01 100",
    "BF.LOAD new <dump>",
    "BF.LOADCHUNK new 1 <header>",
    "BF.MERGE new k",
    "CF.ADD c new",
    "CF.ADDNX c newer",
    "CF.INSERT c ITEMS new",
    "CF.INSERTNX c ITEMS newest",
    "CF.RESERVE new 64",
    "CF.LOADCHUNK new 1 <cfheader>",
];

/// Writes that take no memory.
const REMOVALS: &[&str] = &["BF.DEL n a", "BF.MDEL n b", "CF.DEL c a", "CF.COMPACT c"];

const READS: &[&str] = &[
    "BF.EXISTS k a",
    "BF.MEXISTS k a b",
    "BF.CARD k",
    "BF.INFO k",
    "BF.INFO k SIZE",
    "BF.SCANDUMP k 0",
    "BF.DEBUG k",
    "BF.MISSING k a b",
    "CF.EXISTS c a",
    "CF.MEXISTS c a b",
    "CF.COUNT c a",
    "CF.INFO c",
    "CF.DEBUG c",
    "CF.SCANDUMP c 0",
];

/// Passes a command on to a script or function, its key moved to where these have their keys.
fn through(client: &mut Client, start: &[&str], line: &str, blobs: &Blobs) -> Reply {
    let mut words = line.split(' ');
    let (name, key) = (words.next().unwrap(), words.next().unwrap());
    let words = start.iter().copied().chain(["1", key, name]).chain(words);
    send_words(client, words, blobs)
}

#[test]
fn scripts_that_only_read_may_only_read() {
    let server = Server::start();
    let blobs = blobs(&mut server.client());
    in_both_protocols(&server, |client, _| {
        make_filters(client);
        let library = "#!lua name=bloom\n\
            local function call(keys, args) return redis.call(args[1], keys[1], unpack(args, 2)) end\n\
            redis.register_function{function_name = 'look', callback = call, flags = {'no-writes'}}\n\
            redis.register_function('change', call)\n";
        let load: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()];
        assert_eq!(client.call(&load), bulk("bloom"));

        let before = client.cmd("DEBUG DIGEST");
        let refused = "ERR Write commands are not allowed from read-only scripts.";
        // A script may say so of itself.
        let looks = format!("#!lua flags=no-writes\n{CALL}");
        let reading: [&[&str]; 4] = [
            &["EVAL_RO", CALL],
            &["EVAL", &looks],
            &["FCALL", "look"],
            &["FCALL_RO", "look"],
        ];
        let writes = || WRITES.iter().chain(REMOVALS);
        for start in reading {
            for line in READS {
                let reply = through(client, start, line, &blobs);
                assert!(!reply.is_error(), "{start:?} {line}: {reply:?}");
            }
            for line in writes() {
                let reply = through(client, start, line, &blobs);
                assert!(
                    reply.is_error() && reply.text().starts_with(refused),
                    "{start:?} {line}: {reply:?}"
                );
            }
        }
        let reply = through(client, &["FCALL_RO", "change"], WRITES[0], &blobs);
        assert_eq!(
            reply,
            error("ERR Can not execute a script with write flag using *_ro command.")
        );
        assert_eq!(client.cmd("DEBUG DIGEST"), before);

        for line in writes().chain(READS) {
            let reply = through(client, &["FCALL", "change"], line, &blobs);
            assert!(!reply.is_error(), "{line}: {reply:?}");
            send(client, "DEL new", &blobs);
        }
        assert_eq!(client.cmd("BF.CARD k"), int(2));
        assert_eq!(client.cmd("CF.COUNT c new"), int(2));
        assert_eq!(client.cmd("CF.COUNT c a"), int(0));
    });
}

/// What a server may be told, how it takes it back, what it says of writes then, and whether of those that take no
/// memory, too.
const STATES: &[(&str, &str, &str, bool)] = &[
    (
        "CONFIG SET maxmemory 1",
        "CONFIG SET maxmemory 0",
        "OOM command not allowed when used memory > 'maxmemory'.",
        false,
    ),
    (
        "CONFIG SET min-replicas-to-write 1",
        "CONFIG SET min-replicas-to-write 0",
        "NOREPLICAS Not enough good replicas to write.",
        true,
    ),
    (
        "REPLICAOF 127.0.0.1 1",
        "REPLICAOF NO ONE",
        "READONLY You can't write against a read only replica.",
        true,
    ),
];

#[test]
fn where_writes_are_forbidden_only_reads_are_served() {
    let server = Server::start();
    let blobs = blobs(&mut server.client());
    in_both_protocols(&server, |client, resp3| {
        make_filters(client);
        for (forbid, allow, refused, all) in STATES {
            let before = client.cmd("DEBUG DIGEST");
            assert_eq!(client.cmd(forbid), ok());
            let (more, allowed) = if *all {
                (REMOVALS, &[][..])
            } else {
                (&["BF.ADD k a", "BF.LOADCHUNK new 2 x"][..], REMOVALS)
            };
            for line in WRITES.iter().chain(more) {
                assert_eq!(send(client, line, &blobs), error(refused), "{line}");
                let reply = through(client, &["EVAL", CALL], line, &blobs);
                assert!(
                    reply.is_error() && reply.text().starts_with(refused),
                    "{line}: {reply:?}"
                );
            }
            assert_eq!(client.cmd("DEBUG DIGEST"), before);
            for line in READS.iter().chain(allowed) {
                let reply = client.cmd(line);
                assert!(!reply.is_error(), "{line}: {reply:?}");
                let reply = through(client, &["EVAL", CALL], line, &blobs);
                assert!(!reply.is_error(), "{line}: {reply:?}");
            }
            assert_eq!(client.cmd(allow), ok());
        }
        assert_eq!(client.cmd("BF.ADD k new"), truth(resp3, true));
        assert_eq!(client.cmd("CF.ADD c new"), truth(resp3, true));
    });
}

#[test]
fn transactions_answer_in_one() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        let lines = [
            ("BF.RESERVE k 0.01 100", ok()),
            ("BF.ADD k a", truth(resp3, true)),
            ("BF.MADD k a b", truths(resp3, &[false, true])),
            ("BF.RESERVE k 0.01 100", error("ERR item exists")),
            (
                "BF.INSERT k ITEMS",
                error("ERR wrong number of arguments for 'bf.insert' command"),
            ),
            ("BF.EXISTS k b", truth(resp3, true)),
            (
                "BF.INFO k ITEMS",
                if resp3 {
                    map([(simple("Number of items inserted"), int(2))])
                } else {
                    array([int(2)])
                },
            ),
            ("BF.CARD k", int(2)),
            ("CF.RESERVE c 64", ok()),
            ("CF.ADD c a", truth(resp3, true)),
            ("CF.ADDNX c a", truth(resp3, false)),
            ("CF.INSERT c ITEMS a b", truths(resp3, &[true, true])),
            ("CF.INSERTNX c ITEMS b c", array([int(0), int(1)])),
            ("CF.RESERVE c 64", error("ERR item exists")),
            ("CF.INSERT c X a", error("ERR Unknown argument received")),
            ("CF.ADD k a", error(WRONG_TYPE)),
            ("CF.DEL c a", truth(resp3, true)),
            ("CF.COMPACT c", ok()),
            ("CF.COUNT c a", int(1)),
        ];
        // Nothing is done before EXEC; in a pipeline as one by one.
        assert_eq!(client.cmd("MULTI"), ok());
        assert_eq!(client.cmd("BF.ADD k a"), simple("QUEUED"));
        assert_eq!(server.client().cmd("EXISTS k"), int(0));
        assert_eq!(client.cmd("DISCARD"), ok());
        assert_eq!(client.cmd("EXISTS k"), int(0));

        for _ in 0..50 {
            client.send("DEL k c");
            client.send("MULTI");
            for (line, _) in &lines {
                client.send(line);
            }
            client.send("EXEC");
        }
        for round in 0..50 {
            assert_eq!(client.read(), int(if round > 0 { 2 } else { 0 }));
            assert_eq!(client.read(), ok());
            for (line, _) in &lines {
                assert_eq!(client.read(), simple("QUEUED"), "{line}");
            }
            let replies = lines.iter().map(|(_, reply)| reply.clone());
            assert_eq!(client.read(), array(replies));
        }

        // What the server can see to be wrong ends the transaction.
        assert_eq!(client.cmd("MULTI"), ok());
        assert_eq!(client.cmd("BF.ADD k c"), simple("QUEUED"));
        let wrong = error("ERR wrong number of arguments for 'bf.madd' command");
        assert_eq!(client.cmd("BF.MADD k"), wrong);
        let discarded = "EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(client.cmd("EXEC"), error(discarded));
        assert_eq!(client.cmd("BF.CARD k"), int(2));
    });
}

/// Commands that bring a situation about, a command, and whether it changes the key `k`.
const CHANGES: &[(&[&str], &str, bool)] = &[
    (&[], "BF.ADD k a", true),
    (&[], "BF.MADD k a b", true),
    (&[], "BF.INSERT k", true),
    (&[], "BF.INSERT k ITEMS a", true),
    (&[], "BF.RESERVE k 0.01 100", true),
    (&[], "BF.LOAD k <dump>", true),
    (&[], "BF.LOAD k <dump> 100000", true),
    (&[], "BF.LOADCHUNK k 1 <header>", true),
    (&["BF.ADD k a"], "BF.ADD k a", false),
    (&["BF.ADD k a"], "BF.ADD k b", true),
    (&["BF.ADD k a"], "BF.MADD k a a", false),
    (&["BF.ADD k a"], "BF.MADD k a b", true),
    (&["BF.ADD k a"], "BF.INSERT k", false),
    (&["BF.ADD k a"], "BF.INSERT k ITEMS a", false),
    (&["BF.ADD k a"], "BF.INSERT k NOCREATE ITEMS b", true),
    // Growth comes with an item.
    (&["BF.INSERT k CAPACITY 1 ITEMS a"], "BF.ADD k b", true),
    (&["BF.INSERT k CAPACITY 1 ITEMS a"], "BF.ADD k a", false),
    (FULL, "BF.ADD k a", false),
    (FULL, "BF.ADD k c", false),
    (FULL, "BF.MADD k a c b", false),
    (
        &["BF.INSERT k CAPACITY 2 NONSCALING ITEMS a"],
        "BF.MADD k b c",
        true,
    ),
    (&["BF.ADD k a"], "BF.RESERVE k 0.01 100", false),
    (&["BF.ADD k a"], "BF.LOAD k <dump>", false),
    (&["BF.ADD k a"], "BF.LOADCHUNK k 1 <header>", false),
    (&["BF.ADD k a"], "BF.EXISTS k a", false),
    (&["BF.ADD k a"], "BF.INFO k", false),
    (&["BF.ADD k a"], "BF.SCANDUMP k 0", false),
    (&["BF.ADD k a"], "BF.ADD other a", false),
    (&[], "BF.RESERVE k 0.01 0", false),
    (&[], "BF.RESERVE k 0.01 9223372036854775807", false),
    (&[], "BF.INSERT k NOCREATE ITEMS a", false),
    (&[], "BF.LOAD k <cut>", false),
    (&[], "BF.LOADCHUNK k 1 <cutheader>", false),
    (&["BF.LOADCHUNK k 1 <header>"], "BF.LOADCHUNK k 2 x", true),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.LOADCHUNK k <end> <bits>",
        true,
    ),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.LOADCHUNK k <end> <bits>",
        true,
    ),
    (&["BF.LOADCHUNK k 1 <header>"], "BF.LOADCHUNK k 3 x", false),
    (&["BF.LOADCHUNK k 1 <header>"], "BF.ADD k a", false),
    (&["SET k v"], "BF.ADD k a", false),
    (COUNTED, "BF.ADD k a", true),
    (COUNTED, "BF.DEL k a", true),
    (COUNTED, "BF.DEL k b", false),
    (COUNTED, "BF.DEL k a ID 1", false),
    (COUNTED, "BF.MDEL k b a", true),
    (COUNTED, "BF.MDEL k b c", false),
    (COUNTED, "BF.COUNT k a", false),
    (COUNTED, "BF.MISSING k a b", false),
    (&["BF.ADD k a"], "BF.DEL k a", false),
    (WINDOWED, "BF.ADD k a", true),
    (WINDOWED, "BF.INSERT k TTL 1 ITEMS a", false),
    (WINDOWED, "BF.INSERT k NOCREATE", false),
    (&[], "BF.RESERVE k 0.01 100 PX 100000", true),
    (&["BF.ADD k a"], "BF.RESERVE k 0.01 100 NX", false),
    (&["BF.ADD other a"], "BF.MERGE k other", true),
    (&["BF.ADD k a", "BF.ADD other b"], "BF.MERGE k other", true),
    (&["BF.ADD k a", "BF.ADD other b"], "BF.MERGE other k", false),
    (&["BF.ADD k a"], "BF.MERGE k k", false),
    (&["BF.ADD k a"], "BF.MERGE k none", false),
    (&["BF.ADD k a"], "BF.MERGE k k none", false),
];

/// Those, and the same of cuckoo filters.
fn changes() -> impl Iterator<Item = (&'static [&'static str], &'static str, bool)> {
    CHANGES.iter().copied().chain(cuckoo::changes())
}

const COUNTED: &[&str] = &["BF.INSERT k COUNTING ITEMS a"];
const WINDOWED: &[&str] = &["BF.INSERT k WINDOW 1000000000000 PERIODS 2 TTL 1 ITEMS a"];

const FULL: &[&str] = &["BF.INSERT k CAPACITY 2 NONSCALING ITEMS a b"];

#[test]
fn watch_sees_what_changes_a_key() {
    let server = with_fixed_seed();
    let (mut client, mut other) = (server.client(), server.client());
    let blobs = blobs(&mut client);
    for (given, command, changes) in changes() {
        assert_eq!(client.cmd("FLUSHALL"), ok());
        for line in given {
            assert!(!send(&mut client, line, &blobs).is_error(), "{line}");
        }
        assert_eq!(client.cmd("WATCH k"), ok());
        send(&mut other, command, &blobs);
        assert_eq!(client.cmd("MULTI"), ok());
        assert_eq!(client.cmd("PING"), simple("QUEUED"));
        let done = if changes {
            nil()
        } else {
            array([simple("PONG")])
        };
        assert_eq!(client.cmd("EXEC"), done, "{given:?} {command}");
    }
}

#[test]
fn tracking_clients_hear_of_what_changes_a_key() {
    let server = with_fixed_seed();
    let (mut client, mut other) = (server.client3(), server.client());
    let blobs = blobs(&mut other);
    assert_eq!(client.cmd("CLIENT TRACKING ON"), ok());
    let invalid = |key: &str| [bulk("invalidate"), array([bulk(key)])];
    for (given, command, changes) in changes() {
        for key in ["k", "other"] {
            other.cmd(&format!("DEL {key}"));
        }
        for line in given {
            assert!(!send(&mut other, line, &blobs).is_error(), "{line}");
        }
        // A change that comes for certain stands behind those that may come.
        assert!(!client.cmd("EXISTS k").is_error());
        client.cmd("GET marker");
        send(&mut other, command, &blobs);
        assert_eq!(other.cmd("SET marker v"), ok());
        if changes {
            assert_eq!(
                client.read_push().as_array(),
                invalid("k"),
                "{given:?} {command}"
            );
        } else {
            // So that the next round finds no trace of this one.
            assert!(!client.cmd("EXISTS k").is_error());
        }
        assert_eq!(
            client.read_push().as_array(),
            invalid("marker"),
            "{given:?} {command}"
        );
        if !changes {
            other.cmd("SET k gone");
            assert_eq!(
                client.read_push().as_array(),
                invalid("k"),
                "{given:?} {command}"
            );
        }
    }
    // Each command that reads makes the server remember the key.
    for line in READS {
        let (name, rest) = line.split_once(' ').unwrap();
        let (family, key) = (&name[..2], &rest[..1]);
        let add = if family == "CF" { "CF.ADDNX" } else { "BF.ADD" };
        other.cmd(&format!("DEL {key}"));
        assert_eq!(other.cmd(&format!("{add} {key} a")), int(1));
        assert!(!client.cmd(line).is_error(), "{line}");
        assert_eq!(other.cmd(&format!("{add} {key} a")), int(0));
        assert_eq!(other.cmd(&format!("{add} {key} new")), int(1));
        assert_eq!(client.read_push().as_array(), invalid(key), "{line}");
    }
}
