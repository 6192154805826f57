//! Objects of tables of fingerprints can be stored at any time, and come back equal: they take whatever a client adds, their
//! replicas and logs take it too, and a refused write changes nothing.

use std::ops::Range;

use valkeybloom_testing::tables::{item, search};

use crate::harness::{Client, Reply, Server, array, digest, error, int, ok, wait_in_sync};
use crate::support::aof::{Command, command, rewrite_aof};
use crate::support::forged::file;
use crate::support::periods::LASTING_WINDOW;
use crate::support::pieces::{load_chunks, pieces};
use crate::support::primary::Link;
use crate::support::protocols::field;

const OVER: &str = "ERR operation exceeds bloom object memory limit";

/// The seed of all filters here, so that they can be merged, and items be chosen by their hashes.
const SEED: &[u8; 32] = b"0123456789abcdefABCDEFGHIJKLMNOP";

fn make(client: &mut Client, key: &str, shape: &str) {
    let mut words = command(&format!("BF.INSERT {key} {shape} SEED"));
    words.push(SEED.to_vec());
    assert_eq!(client.call_words(&words), array([]));
}

/// Returns commands, each with at most a thousand of the items.
fn batches(start: &str, items: &[u32]) -> Vec<Command> {
    let batch = |items: &[u32]| {
        let items = items.iter().map(|number| item(*number));
        command(start).into_iter().chain(items).collect()
    };
    items.chunks(1000).map(batch).collect()
}

/// Calls a command with items. None is refused.
#[track_caller]
fn call(client: &mut Client, start: &str, items: impl IntoIterator<Item = u32>) {
    let items: Vec<u32> = items.into_iter().collect();
    for reply in client.call_all(&batches(start, &items)) {
        let refusal = reply.as_array().iter().find(|reply| reply.is_error());
        assert_eq!(refusal, None, "{start}");
    }
}

/// Returns items whose hashes begin with `bits` zeros.
fn crowd(bits: u32, count: usize) -> Vec<u32> {
    let end = u32::try_from(count << bits).expect("few items") * 3 / 2;
    let first_bytes: Vec<u8> = (0..1 << 8_u32.saturating_sub(bits)).collect();
    let found = search(SEED, end, &first_bytes);
    let crowd = found
        .iter()
        .filter(|(hash, _)| hash.leading_zeros() >= bits);
    let mut crowd: Vec<u32> = crowd.map(|(_, number)| *number).collect();
    crowd.sort_unstable();
    crowd.truncate(count);
    assert_eq!(crowd.len(), count);
    crowd
}

/// Items that are in no crowd.
const fn others(numbers: Range<u32>) -> Range<u32> {
    100_000_000 + numbers.start..100_000_000 + numbers.end
}

/// Checks that a filter has these items.
#[track_caller]
fn has_all(client: &mut Client, key: &str, items: Range<u32>) {
    let items: Vec<u32> = items.collect();
    for missing in client.call_all(&batches(&format!("BF.MISSING {key}"), &items)) {
        assert_eq!(missing, int(0), "{key}");
    }
}

/// Checks that an object can be restored from its dump and from its pieces.
#[track_caller]
fn is_stored(client: &mut Client, key: &str) {
    let (held, dump) = (digest(client, key), client.cmd(&format!("DUMP {key}")));
    client.cmd("DEL copy");
    assert_eq!(client.restore("copy", dump.as_bytes()), ok(), "{key}");
    assert_eq!(digest(client, "copy"), held);
    client.cmd("DEL copy");
    let pieces = pieces(client, key);
    load_chunks(client, "copy", &pieces);
    assert_eq!(digest(client, "copy"), held);
    client.expect("DEL copy", int(1));
}

#[test]
fn filters_of_any_sizes_are_merged() {
    let server = Server::start();
    let mut client = server.client();
    for kind in ["COUNTING", LASTING_WINDOW, "SCALETO 1000000"] {
        for [ours, theirs] in [[0, 3000], [10, 5000], [2000, 8000], [20_000, 1]] {
            client.ok("FLUSHALL");
            for (key, items) in [("a", 0..ours), ("b", ours..ours + theirs)] {
                make(&mut client, key, &format!("CAPACITY 1000000 {kind}"));
                call(&mut client, &format!("BF.MADD {key}"), items);
            }
            client.ok("BF.MERGE a b");
            client.ok("BF.MERGE new b a");
            for key in ["a", "new"] {
                has_all(&mut client, key, 0..ours + theirs);
                is_stored(&mut client, key);
            }
            let held = digest(&mut client, "a");
            assert_eq!(
                digest(&mut client, "new"),
                held,
                "{kind}: {ours} and {theirs}"
            );
            let card = client.cmd("BF.CARD a").as_int();
            let most = i64::from(ours + theirs);
            assert!((most * 98 / 100..=most).contains(&card), "{card} of {most}");
        }
    }
}

/// Returns a server whose filter `k` had many more items, with a replica and a log that know only what it has now.
fn shrunk(items: u32, left: u32) -> (Server, Server) {
    let server = Server::with(&[("appendonly", "yes"), ("appendfsync", "always")]);
    let mut client = server.client();
    make(&mut client, "k", "CAPACITY 1000000 COUNTING");
    call(&mut client, "BF.MADD k", others(0..items));
    call(&mut client, "BF.MDEL k", others(left..items));
    let replica = Server::replica_of(&server).start();
    wait_in_sync(&server, &replica);
    rewrite_aof(&server);
    (server, replica)
}

/// Checks that a replica holds what its primary does, as does the primary after it has read its log.
#[track_caller]
fn is_followed(server: &mut Server, replica: &Server) {
    let mut client = server.client();
    let held = digest(&mut client, "k");
    wait_in_sync(server, replica);
    let mut behind = replica.client();
    assert_eq!(behind.cmd("BF.CARD k"), client.cmd("BF.CARD k"));
    assert_eq!(digest(&mut behind, "k"), held);
    server.kill();
    server.start_again();
    assert_eq!(digest(&mut server.client(), "k"), held);
}

#[test]
fn a_merge_is_followed_after_removals() {
    let (mut server, replica) = shrunk(8000, 4100);
    let mut client = server.client();
    make(&mut client, "source", "CAPACITY 1000000 COUNTING");
    call(&mut client, "BF.MADD source", others(8000..20_000));
    client.ok("BF.MERGE k source");
    is_followed(&mut server, &replica);
}

#[test]
fn additions_of_one_prefix_are_followed_after_removals() {
    let (mut server, replica) = shrunk(16_000, 8200);
    call(&mut server.client(), "BF.MADD k", crowd(7, 300));
    is_followed(&mut server, &replica);
}

#[test]
fn a_counter_that_keeps_one_prefix_is_stored() {
    let mut server = Server::start();
    let mut client = server.client();
    let (crowd, fill) = (crowd(10, 270), others(0..136_000));
    make(&mut client, "k", "CAPACITY 200000 COUNTING");
    call(&mut client, "BF.MADD k", fill.clone());
    call(&mut client, "BF.MADD k", crowd);
    call(&mut client, "BF.MDEL k", fill);
    let held = digest(&mut client, "k");
    is_stored(&mut client, "k");
    server.restart_saving();
    assert_eq!(digest(&mut server.client(), "k"), held);
}

/// A window that was reserved for one item gets new tables with each burst.
#[test]
fn windows_are_stored_after_any_number_of_bursts() {
    const PERIOD_MS: u64 = 3_600_000;
    let (server, other) = (Server::start(), Server::start());
    let mut client = server.client();
    let mut link = Link::begin(&mut client, &file(&[]));
    let reserve = format!("BF.RESERVE k 1e-15 1 WINDOW {PERIOD_MS} PERIODS 1");
    link.send(&mut client, &[command(&reserve)]);
    for burst in 0..20 {
        let items: Vec<u32> = (1500 * burst..1500 * (burst + 1)).collect();
        let at_ms = PERIOD_MS * u64::from(1000 + 2 * burst);
        let add = batches(&format!("BF.INSERT k NOCREATE AT {at_ms} ITEMS"), &items);
        link.send(&mut client, &add);
        let dump = client.cmd("DUMP k");
        let mut other = other.client();
        other.cmd("DEL k");
        assert_eq!(other.restore("k", dump.as_bytes()), ok(), "burst {burst}");
        assert_eq!(digest(&mut other, "k"), digest(&mut client, "k"));
    }
}

/// Objects take any number for a table that they may have given it themselves.
#[test]
fn a_loaded_window_goes_on_from_any_table() {
    let server = Server::start();
    let mut client = server.client();
    make(
        &mut client,
        "k",
        &format!("CAPACITY 1 EXPANSION 1 {LASTING_WINDOW}"),
    );
    let mut pieces = pieces(&mut client, "k");
    // The number of the only table, behind five fields.
    pieces[1].1[40..48].copy_from_slice(&63_u64.to_le_bytes());
    load_chunks(&mut client, "loaded", &pieces);
    call(&mut client, "BF.MADD loaded", 0..1000);
    is_stored(&mut client, "loaded");
}

#[test]
fn counts_have_no_limit() {
    let server = Server::start();
    let mut client = server.client();
    let script = "for i = 1, ARGV[1] do redis.call('BF.MADD', KEYS[1], unpack(ARGV, 2)) end";
    for (capacity, rate) in [(100, 0.5), (1000, 0.05)] {
        make(
            &mut client,
            "k",
            &format!("CAPACITY {capacity} ERROR {rate} COUNTING"),
        );
        let items: Vec<Vec<u8>> = crowd(4, 64).into_iter().map(item).collect();
        let mut eval = vec![
            b"EVAL".to_vec(),
            script.into(),
            b"1".to_vec(),
            b"k".to_vec(),
        ];
        eval.push(b"20000".to_vec());
        eval.extend_from_slice(&items);
        assert_eq!(client.call_words(&eval), Reply::Nil, "{capacity} at {rate}");
        for item in items {
            let count = client.call(&[b"BF.COUNT", b"k", &item]).as_int();
            assert!(count >= 20_000 && count % 20_000 == 0, "{count}");
        }
        is_stored(&mut client, "k");
        client.expect("DEL k", int(1));
    }
}

#[test]
fn saturated_filters_take_anything() {
    let server = Server::with(&[("bf.bloom-saturate-nonscaling", "yes")]);
    let mut client = server.client();
    for kind in ["COUNTING", LASTING_WINDOW] {
        for (capacity, rate) in [(10, 0.5), (10, 0.01), (1000, 0.5)] {
            let shape = format!("CAPACITY {capacity} ERROR {rate} NONSCALING {kind}");
            make(&mut client, "k", &shape);
            call(&mut client, "BF.MADD k", 0..60_000);
            call(&mut client, "BF.MADD k", crowd(6, 600));
            is_stored(&mut client, "k");
            client.expect("DEL k", int(1));
        }
    }
}

/// There is room for a new table, but not for its first entry.
#[test]
fn a_refused_addition_leaves_no_table() {
    let server = Server::start();
    let replica = Server::replica_of(&server).start();
    let (mut client, mut behind) = (server.client(), replica.client());
    for kind in ["COUNTING", LASTING_WINDOW, "SCALETO 1"] {
        make(&mut client, "k", &format!("CAPACITY 10 EXPANSION 1 {kind}"));
        let room = field(&mut client, "k", "CAPACITY");
        let mut items = 0..;
        while client.cmd("BF.CARD k").as_int() < room {
            call(&mut client, "BF.MADD k", items.next());
        }
        let (size, held) = (field(&mut client, "k", "SIZE"), digest(&mut client, "k"));
        let mut refused = 0;
        for more in (0..1000).step_by(8) {
            client.ok(format!(
                "CONFIG SET bf.bloom-memory-usage-limit {}",
                size + more
            ));
            let reply = client.cmd("BF.ADD k stranger");
            if !reply.is_error() {
                break;
            }
            assert_eq!(reply, error(OVER), "{kind}");
            refused += 1;
            assert_eq!(digest(&mut client, "k"), held, "{kind}, {more} more bytes");
            assert_eq!(field(&mut client, "k", "SIZE"), size);
        }
        assert!((1..120).contains(&refused), "{kind}: {refused}");
        client.ok("CONFIG SET bf.bloom-memory-usage-limit 0");
        wait_in_sync(&server, &replica);
        assert_eq!(digest(&mut behind, "k"), digest(&mut client, "k"), "{kind}");
        client.expect("DEL k", int(1));
    }
}
