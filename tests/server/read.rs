//! BF.READ: the items that were new to a filter since a cursor, and what makes a cursor unknown.

use valkeybloom_sketches::Probe;

use crate::cluster::pair;
use crate::harness::cluster::id;
use crate::harness::{
    Client, Reply, Server, array, bulk, error, int, ok, spaced, wait_in_sync, wait_until,
};
use crate::support::pieces::{self, load_piece, pieces};
use crate::support::protocols::{in_both_protocols, with_fixed_seed};
use crate::support::sums;
use crate::support::usage::nothing_is_being_freed;

pub const UNKNOWN: &str = "RESYNC unknown feed: the filter was replaced, merged into or not read for a minute, or the \
     server is a different one, or was restarted";
pub const OVERRUN: &str = "RESYNC feed overrun: it no longer holds all items since the cursor";
pub const MISSING: &str = "ERR not found";

/// A reply of BF.READ.
#[derive(Debug)]
pub struct News {
    pub cursor: String,
    items: i64,
    probes: Vec<Probe>,
}

fn probes(bytes: &[u8]) -> Vec<Probe> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    assert_eq!(bytes.len() % 16, 0);
    let pairs = bytes.chunks(16).map(|pair| pair.split_at(8));
    pairs
        .map(|(a, b)| Probe::from_hashes(word(a), word(b)))
        .collect()
}

/// Reads a key from a cursor, perhaps with options after it; or returns the error.
pub fn read(client: &mut Client, key: &str, from: &str) -> Result<News, String> {
    let reply = client.cmd(&format!("BF.READ {key} {from}"));
    if reply.is_error() {
        return Err(reply.text());
    }
    let [Reply::Bulk(cursor), Reply::Int(items), Reply::Bulk(bytes)] = reply.as_array() else {
        panic!("{reply:?}");
    };
    Ok(News {
        cursor: String::from_utf8(cursor.clone()).expect("a cursor is text"),
        items: *items,
        probes: probes(bytes),
    })
}

#[track_caller]
pub fn begin(client: &mut Client, key: &str) -> String {
    let news = read(client, key, "$").expect("the key can be read");
    assert_eq!(news.probes, []);
    news.cursor
}

/// How a client makes a filter of each kind.
const KINDS: [(&str, &str); 3] = [
    ("own", "bloomfltr"),
    ("valkey-bloom", "bloomfltr"),
    ("redisbloom", "MBbloom--"),
];

#[test]
fn a_reader_gets_the_new_items_in_order() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        for (maker, kind) in KINDS {
            client.ok(format!("CONFIG SET bf.bloom-new-filters {maker}"));
            client.ok("FLUSHALL");
            client.run("BF.RESERVE k 0.0001 1000");
            client.run("BF.ADD k before");
            client.expect("TYPE k", Reply::Simple(kind.to_owned()));
            let object = pieces::object(&pieces(client, "k"));
            let of = |items: &[&str]| -> Vec<Probe> {
                items.iter().map(|i| object.probe(i.as_bytes())).collect()
            };

            let start = begin(client, "k");
            let (feed, sequence) = start.split_once('-').expect("two parts");
            // The items before the feed count.
            assert_eq!((feed.len(), sequence), (16, "1"));
            // Nothing is new: the cursor stays, also in a second feed of the same key.
            assert_eq!(begin(client, "k"), start);
            client.expect(
                format!("BF.READ k {start}"),
                array([bulk(&start), int(1), bulk("")]),
            );

            client.cmd("BF.ADD k a");
            client.cmd("BF.ADD k a");
            client.cmd("BF.MADD k b before a c b");
            client.cmd("BF.INSERT k ITEMS d");
            client.cmd("BF.INSERT k NOCREATE ITEMS d e before");
            client.cmd("BF.EXISTS k f");
            let news = read(client, "k", &start).unwrap();
            assert_eq!(news.probes, of(&["a", "b", "c", "d", "e"]), "{maker}");
            assert_eq!(
                (news.items, news.cursor.as_str()),
                (6, &*format!("{feed}-6"))
            );
            // The same again, and in parts, each with the number of items that the filter had there.
            assert_eq!(read(client, "k", &start).unwrap().probes, news.probes);
            let mut cursor = start.clone();
            for (count, items, expected) in [
                (2, 3, of(&["a", "b"])),
                (1, 4, of(&["c"])),
                (10, 6, of(&["d", "e"])),
                (1, 6, vec![]),
            ] {
                let part = read(client, "k", &format!("{cursor} max_count {count}")).unwrap();
                assert_eq!((part.items, part.probes), (items, expected), "{maker}");
                cursor = part.cursor;
            }
            assert_eq!(cursor, news.cursor);
            assert_eq!(begin(client, "k"), news.cursor);
        }
        client.ok("CONFIG SET bf.bloom-new-filters own");
        sums::is_balanced(&mut server.client());
    });
}

#[test]
fn a_reply_has_65536_items_at_most_unless_asked_for_more() {
    let server = Server::with(&[("bf.bloom-feed-bytes", "4mb")]);
    let mut client = server.client();
    client.ok("BF.RESERVE k 0.000001 2000000");
    let start = begin(&mut client, "k");
    let mut added = 0;
    for batch in 0..75 {
        let items = spaced(batch * 1000..(batch + 1) * 1000);
        let reply = client.cmd(&format!("BF.MADD k {items}"));
        added += reply.as_array().iter().filter(|r| **r == int(1)).count();
    }
    assert!(added > 70_000);
    let first = read(&mut client, "k", &start).unwrap();
    assert_eq!((first.probes.len(), first.items), (65_536, 65_536));
    let rest = read(&mut client, "k", &first.cursor).unwrap();
    assert_eq!(rest.probes.len(), added - 65_536);
    let all = read(
        &mut client,
        "k",
        &format!("{start} MAX_COUNT 9223372036854775807"),
    );
    assert_eq!(all.unwrap().probes, [first.probes, rest.probes].concat());
}

/// What happens to the key `k`, line by line, and the error that a reader of it gets with a cursor from before. A line
/// begins with its condition: `~` means that the line is repeated until the key is gone.
pub const ENDS: &[(&str, &str)] = &[
    ("DEL k", MISSING),
    ("DEL k / BF.ADD k a", UNKNOWN),
    ("UNLINK k / BF.INSERT k CAPACITY 1000 ITEMS a b", UNKNOWN),
    ("RENAME k away", MISSING),
    ("RENAME k away / BF.ADD k a", UNKNOWN),
    ("RENAME other k", UNKNOWN),
    ("COPY other k REPLACE", UNKNOWN),
    ("COPY k copy / RENAME copy k", UNKNOWN),
    ("RESTORE k 0 <k> REPLACE", UNKNOWN),
    ("RESTORE k 0 <other> REPLACE", UNKNOWN),
    ("BF.MERGE k other", UNKNOWN),
    ("BF.MERGE k other / BF.ADD k z", UNKNOWN),
    ("DEL k / BF.MERGE k other", UNKNOWN),
    (
        "DEL k / BF.LOADCHUNK k 1 <header>",
        "ERR bloom object is still being loaded",
    ),
    ("DEL k / <chunks>", UNKNOWN),
    (
        "SET k v",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
    ),
    ("FLUSHDB", MISSING),
    ("FLUSHDB ASYNC", MISSING),
    ("FLUSHALL", MISSING),
    ("FLUSHALL ASYNC", MISSING),
    ("FLUSHALL SYNC / BF.ADD k a", UNKNOWN),
    ("FLUSHALL ASYNC / BF.ADD k a", UNKNOWN),
    ("SWAPDB 0 1", MISSING),
    ("SELECT 1 / BF.ADD k a / SELECT 0 / SWAPDB 0 1", UNKNOWN),
    ("MOVE k 1", MISSING),
    ("MOVE k 1 / BF.ADD k a", UNKNOWN),
    ("PEXPIRE k 1 / ~PING", MISSING),
    ("PEXPIRE k 1 / ~PING / BF.ADD k a", UNKNOWN),
    (
        "CONFIG SET maxmemory-policy allkeys-random maxmemory 1 / ~PING / CONFIG SET maxmemory 0",
        MISSING,
    ),
    ("DEBUG RELOAD", UNKNOWN),
    ("CONFIG SET bf.bloom-feed-bytes 1024 / <65 items>", OVERRUN),
    (
        "CONFIG SET bf.bloom-feed-bytes 1024 / <65 items> / BF.MERGE k other",
        UNKNOWN,
    ),
];

/// Makes the keys of [`ENDS`], and returns a cursor of `k`.
pub fn given(client: &mut Client) -> String {
    client.all_ok([
        "FLUSHALL",
        "CONFIG SET bf.bloom-feed-bytes 1mb",
        "BF.RESERVE k 0.000001 1000",
        "BF.RESERVE other 0.000001 1000",
    ]);
    client.run("BF.MADD k a b c");
    client.run("BF.MADD other c d");
    let cursor = begin(client, "k");
    client.run("BF.ADD k e");
    cursor
}

/// Does what a row of [`ENDS`] says.
pub fn happen(client: &mut Client, event: &str) {
    let dumps = [("<k>", "k"), ("<other>", "other")]
        .map(|(name, key)| (name, client.cmd(&format!("DUMP {key}")).as_bytes().to_vec()));
    let own = pieces(client, "k");
    for line in event.split(" / ") {
        run(client, line, &dumps, &own);
    }
}

fn run(client: &mut Client, line: &str, dumps: &[(&str, Vec<u8>)], own: &pieces::Pieces) {
    let reply = match line {
        "<chunks>" => {
            pieces::load_chunks(client, "k", own);
            return;
        }
        "<65 items>" => {
            let items = spaced((0..65).map(|i| format!("new{i}")));
            client.cmd(&format!("BF.MADD k {items}"))
        }
        "BF.LOADCHUNK k 1 <header>" => load_piece(client, "k", &own[0]),
        line if line.starts_with('~') => {
            return wait_until("the key is gone", || {
                client.cmd(&line[1..]);
                client.cmd("EXISTS k") == int(0)
            });
        }
        line => {
            let words = line.split(' ').map(|word| {
                let named = dumps.iter().find(|(name, _)| *name == word);
                named.map_or(word.as_bytes(), |(_, dump)| dump)
            });
            client.call(&words.collect::<Vec<_>>())
        }
    };
    assert!(!reply.is_error(), "{line}: {reply:?}");
}

/// Returns the id of `k` with its header.
const WITH_ID: &str = "BF.SCANDUMP k 0 WITHID";

#[test]
fn what_makes_a_cursor_unknown() {
    let server = Server::with(&[
        ("bf.bloom-use-random-seed", "no"),
        ("enable-debug-command", "yes"),
    ]);
    in_both_protocols(&server, |client, _| {
        for (event, expected) in ENDS {
            let cursor = given(client);
            let id = client.cmd(WITH_ID).as_array()[2].clone();
            assert_eq!(id, bulk(&cursor[..16]), "{event}");
            happen(client, event);
            if let Reply::Array(header) = client.cmd(WITH_ID) {
                let keeps_id = *expected == OVERRUN;
                assert_eq!(header[2] == id, keeps_id, "{event}");
            }
            client.expect(format!("BF.READ k {cursor}"), error(expected));
            if expected.starts_with("RESYNC") {
                // The reader begins anew, and goes on.
                let cursor = begin(client, "k");
                client.run("BF.ADD k later");
                let news = read(client, "k", &cursor).expect(event);
                assert_eq!(news.probes.len(), 1, "{event}");
            }
            sums::is_balanced(&mut server.client());
        }
        client.ok("CONFIG SET maxmemory-policy noeviction");
    });
    nothing_is_being_freed(&server);
}

/// What leaves the feed as it is: the filter only took items, or nothing happened to it.
const STAYS: &[&str] = &[
    "BF.ADD k a",
    "BF.DEL k a",
    "BF.MDEL k a",
    "BF.INSERT k NOCREATE TTL 5 ITEMS a",
    "BF.LOADCHUNK k 1 x",
    "BF.LOADCHUNK k 5 x",
    "BF.LOAD k x",
    "BF.RESERVE k 0.01 100",
    "BF.MERGE k counting",
    "BF.MERGE k k",
    "BF.MERGE copy k",
    "BF.INFO k",
    "BF.SCANDUMP k 0",
    "COPY k other REPLACE",
    "DUMP k",
    "PEXPIRE k 100000000",
    "PERSIST k",
    "RENAME k away / RENAME away k",
    "SWAPDB 0 1 / SWAPDB 0 1",
    "MULTI / BF.EXISTS k a / EXEC",
    "SAVE",
    "BF.READ k $",
];

#[test]
fn what_leaves_a_cursor_valid() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        for event in STAYS {
            let cursor = given(client);
            client.ok("BF.RESERVE counting 0.01 100 COUNTING");
            for line in event.split(" / ") {
                client.cmd(line);
            }
            client.run("BF.ADD k f");
            let news = read(client, "k", &cursor).expect(event);
            assert_eq!((news.probes.len(), news.items), (2, 5), "{event}");
            let id = client.cmd(WITH_ID).as_array()[2].clone();
            assert_eq!(id, bulk(&cursor[..16]), "{event}");
        }
    });
}

/// Filters of tables have no feed, but an id, which says that they lost no item.
#[test]
fn an_id_changes_with_the_loss_of_items() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        for (kind, event, keeps_id) in [
            ("COUNTING", "BF.ADD k b", true),
            ("COUNTING", "BF.DEL k b", true),
            ("COUNTING", "BF.DEL k a", false),
            ("COUNTING", "BF.MDEL k b a", false),
            ("WINDOW 3600000 PERIODS 2", "BF.ADD k b", true),
            ("WINDOW 5 PERIODS 2", "~BF.ADD k b", false),
        ] {
            client.cmd("FLUSHALL");
            client.ok(format!("BF.RESERVE k 0.01 100 {kind}"));
            client.run("BF.ADD k a");
            let id = |client: &mut Client| client.cmd(WITH_ID).as_array()[2].clone();
            let before = id(client);
            if let Some(line) = event.strip_prefix('~') {
                wait_until("periods have expired", || {
                    client.cmd(line);
                    id(client) != before
                });
            } else {
                client.run(event);
            }
            assert_eq!(id(client) == before, keeps_id, "{kind} {event}");
        }
    });
}

/// An empty filter of `RedisBloom` takes chunks although it is complete.
#[test]
fn chunks_over_a_complete_filter_end_its_feed() {
    let server = Server::with(&[("bf.bloom-new-filters", "redisbloom")]);
    let mut client = server.client();
    for key in ["k", "from"] {
        client.ok(format!("BF.RESERVE {key} 0.01 1000"));
    }
    client.expect("BF.ADD from a", int(1));
    let cursor = begin(&mut client, "k");
    let chunk = &pieces(&mut client, "from")[1];
    assert_eq!(
        load_piece(&mut client, "k", &(3, b"x".repeat(1 << 20))),
        error("ERR received bad data")
    );
    assert!(read(&mut client, "k", &cursor).is_ok());
    assert_eq!(load_piece(&mut client, "k", chunk), ok());
    assert_eq!(read(&mut client, "k", &cursor).unwrap_err(), UNKNOWN);
}

/// A full filter of RedisBloom's kind counts no further. A reader in the middle of its feed gets the number there, too.
#[test]
fn a_full_filter_has_a_number_of_items_at_each_cursor() {
    for (maker, _) in KINDS {
        let server = Server::with(&[
            ("bf.bloom-new-filters", maker),
            ("bf.bloom-saturate-nonscaling", "yes"),
        ]);
        let mut client = server.client();
        client.ok("BF.RESERVE k 1e-12 10 NONSCALING");
        client.cmd("BF.MADD k a b c d e f g");
        let mut cursor = begin(&mut client, "k");
        client.cmd("BF.ADD k h");
        client.cmd("BF.MADD k i j k l m");
        let counted = |items: i64| {
            if maker == "redisbloom" {
                items.min(10)
            } else {
                items
            }
        };
        for items in 8..=13 {
            let part = read(&mut client, "k", &format!("{cursor} MAX_COUNT 1")).unwrap();
            assert_eq!(
                (part.items, part.probes.len()),
                (counted(items), 1),
                "{maker}"
            );
            cursor = part.cursor;
        }
        assert_eq!(begin(&mut client, "k"), cursor);
        client.expect("BF.CARD k", int(counted(13)));
    }
}

#[test]
fn cursors_of_no_feed_are_unknown() {
    let (_server, mut client) = Server::with_client();
    client.ok("BF.RESERVE k 0.01 1000");
    // Nobody has begun to read.
    assert_eq!(
        read(&mut client, "k", "0123456789abcdef-0").unwrap_err(),
        UNKNOWN
    );
    let cursor = begin(&mut client, "k");
    let (feed, _) = cursor.split_once('-').expect("two parts");
    for wrong in [format!("{feed}-1"), "0123456789abcdef-0".to_owned()] {
        assert_eq!(
            read(&mut client, "k", &wrong).unwrap_err(),
            UNKNOWN,
            "{wrong}"
        );
    }
    let mut feeds: Vec<_> = (0..100)
        .map(|number| {
            client.ok(format!("BF.RESERVE k{number} 0.01 10"));
            begin(&mut client, &format!("k{number}"))
        })
        .collect();
    feeds.sort();
    feeds.dedup();
    assert_eq!(feeds.len(), 100);
}

#[test]
fn a_replica_has_its_own_feed() {
    let primary = Server::start();
    let replica = Server::replica_of(&primary).start();
    let (mut near, mut far) = (primary.client(), replica.client());
    near.ok("BF.RESERVE k 0.0001 1000");
    wait_in_sync(&primary, &replica);
    let (here, there) = (begin(&mut near, "k"), begin(&mut far, "k"));
    assert_ne!(here, there);
    near.cmd("BF.ADD k a");
    near.cmd("BF.MADD k a b c");
    near.cmd("BF.INSERT k ITEMS d a");
    wait_in_sync(&primary, &replica);
    let at = read(&mut near, "k", &here).unwrap();
    let of_replica = read(&mut far, "k", &there).unwrap();
    assert_eq!((at.probes.len(), at.items), (4, 4));
    assert_eq!((of_replica.probes, of_replica.items), (at.probes, 4));
    assert_eq!(read(&mut far, "k", &at.cursor).unwrap_err(), UNKNOWN);

    // A failover: who read the replica goes on, who read the old primary begins anew.
    far.ok("REPLICAOF NO ONE");
    far.cmd("BF.ADD k e");
    assert_eq!(read(&mut far, "k", &there).unwrap().probes.len(), 5);
    assert_eq!(read(&mut far, "k", &at.cursor).unwrap_err(), UNKNOWN);
    sums::is_balanced(&mut far);

    // The old primary gets everything anew.
    let follow = format!("REPLICAOF 127.0.0.1 {}", replica.port());
    near.cmd("BF.ADD k lost");
    near.ok(&follow);
    wait_in_sync(&replica, &primary);
    assert_eq!(read(&mut near, "k", &at.cursor).unwrap_err(), UNKNOWN);
    nothing_is_being_freed(&primary);
    sums::is_balanced(&mut near);
}

#[test]
fn feeds_stay_behind_when_slots_migrate() {
    let (first, second) = pair();
    let version = first.version();
    if !version.valkey || version.major < 9 {
        return;
    }
    let (mut near, mut far) = (first.client(), second.client());
    near.ok("BF.RESERVE k 0.0001 1000");
    let cursor = begin(&mut near, "k");
    let slots = format!("SLOTSRANGE 1 16383 NODE {}", id(&second));
    near.ok(format!("CLUSTER MIGRATESLOTS {slots}"));
    wait_until("the other serves the slots", || {
        !far.cmd("BF.CARD k").is_error()
    });
    assert_eq!(read(&mut far, "k", &cursor).unwrap_err(), UNKNOWN);
    let moved = read(&mut near, "k", &cursor).unwrap_err();
    assert!(moved.starts_with("MOVED "), "{moved}");
}

/// Scripts that may only read can read a feed, and so can users who may only run BF.READ.
#[test]
fn reading_is_no_write() {
    let (server, mut client) = Server::with_client();
    client.ok("BF.RESERVE k 0.01 100");
    client.ok("ACL SETUSER reader on nopass %R~k resetchannels -@all +bf.read");
    let mut reader = server.client();
    reader.ok("AUTH reader any");
    let cursor = begin(&mut reader, "k");
    let refused = reader.cmd("BF.SCANDUMP k 0").text();
    assert!(refused.starts_with("NOPERM "), "{refused}");
    let script = "return redis.call('BF.READ', KEYS[1], ARGV[1])";
    let reply = client.call_with("EVAL_RO", &[script, "1", "k", &cursor]);
    assert_eq!(reply, array([bulk(&cursor), int(0), bulk("")]));
    // A read signals no change, and no reader of another key is disturbed.
    let mut watching = server.client();
    watching.ok("BF.RESERVE other 0.01 100");
    watching.ok("WATCH other");
    begin(&mut client, "other");
    watching.ok("MULTI");
    watching.cmd("BF.CARD other");
    watching.expect("EXEC", array([int(0)]));
}
