//! Objects of tables of fingerprints can be stored at any time, and come back equal; their replicas and logs take what they take.

use std::ops::Range;

use valkeybloom_testing::tables::{item, search};

use crate::harness::{Client, Server, array, digest, int, ok, wait_in_sync};
use crate::support::aof::{Command, command, rewrite_aof};
use crate::support::periods::LASTING_WINDOW;
use crate::support::pieces::{load_chunks, pieces};

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

#[test]
fn writes_are_followed_after_removals() {
    type Write = fn(&mut Client);
    let writes: [(u32, u32, Write); 2] = [
        (8000, 4100, |client| {
            make(client, "source", "CAPACITY 1000000 COUNTING");
            call(client, "BF.MADD source", others(8000..20_000));
            client.ok("BF.MERGE k source");
        }),
        (16_000, 8200, |client| {
            call(client, "BF.MADD k", crowd(7, 300));
        }),
    ];
    for (items, left, write) in writes {
        let (mut server, replica) = shrunk(items, left);
        let mut client = server.client();
        write(&mut client);
        let held = digest(&mut client, "k");
        wait_in_sync(&server, &replica);
        let mut behind = replica.client();
        assert_eq!(behind.cmd("BF.CARD k"), client.cmd("BF.CARD k"));
        assert_eq!(digest(&mut behind, "k"), held);
        server.kill();
        server.start_again();
        assert_eq!(digest(&mut server.client(), "k"), held);
    }
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

/// Objects take any number for a table that they may have given it themselves.
#[test]
fn a_loaded_window_goes_on_from_any_table() {
    let (_server, mut client) = Server::with_client();
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
