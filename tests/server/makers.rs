//! `bf.bloom-new-filters`: what it makes has the bits that valkey-bloom 1.0 and RedisBloom 8.8 gave theirs.

use std::fs;

use valkeybloom_sketches::Seed;
use valkeybloom_testing::draft::Draft;
use valkeybloom_testing::loader::Dump;

use crate::harness::{Client, Reply, Server, digest, error, int, ok, spaced, wait_in_sync};
use crate::support::aof::{Log, command, commands, log_is_complete, on_log_of, with_command_log};
use crate::support::configured::made_by as of;
use crate::support::forged::file;
use crate::support::pieces::{load_chunks, load_piece, pieces, split};
use crate::support::primary::receive;
use crate::support::recordings::{REDISBLOOM, Recorded, VALKEY_BLOOM, hex};
use crate::support::sums;
use crate::support::tables::rows;

#[track_caller]
fn has_all(client: &mut Client, recorded: &[Recorded]) {
    for object in recorded {
        object.is_there(client);
    }
    client.expect("DBSIZE", int(8));
    sums::is_balanced(client);
}

/// A saturated filter of RedisBloom's kind counts no more items than its capacity: RedisBloom 8.12 loads no other one.
#[test]
fn a_saturated_filter_counts_up_to_its_capacity() {
    let server = of("redisbloom")
        .config("bf.bloom-saturate-nonscaling", "yes")
        .start();
    let replica = Server::replica_of(&server).start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    client.ok("BF.RESERVE k 0.01 100 NONSCALING");
    let mut new = 0;
    for batch in 0..60 {
        let items = spaced((0..10).map(|item| format!("{batch}-{item}")));
        let added = client.cmd(&format!("BF.MADD k {items}"));
        new += added.as_array().iter().map(Reply::as_int).sum::<i64>();
        client.expect(format!("BF.MISSING k {items}"), int(0));
    }
    assert!(new > 200, "{new}");
    let estimate =
        |client: &mut Client| client.cmd("BF.INFO k ESTIMATEDERROR").as_array()[0].text();
    let rate = estimate(&mut client);
    assert!(rate.parse::<f64>().expect("a number") > 0.1, "{rate}");
    for reload in [false, true] {
        if reload {
            client.ok("DEBUG RELOAD");
        }
        client.expect("BF.CARD k", int(100));
        assert_eq!(estimate(&mut client), rate);
        let header = &pieces(&mut client, "k")[0].1;
        assert_eq!(header[..8], 100_u64.to_le_bytes());
        let dump = Dump::of(client.cmd("DUMP k").as_bytes()).expect("a module's value");
        assert_eq!(dump.check(), Ok(()));
        wait_in_sync(&server, &replica);
        let mut far = replica.client();
        far.expect("BF.CARD k", int(100));
        assert_eq!(digest(&mut far, "k"), digest(&mut client, "k"));
    }
}

/// RedisBloom logs commands as they come: from a client, and from a log or a primary.
#[test]
fn a_log_of_redisbloom_makes_its_objects() {
    let recorded = REDISBLOOM.objects();
    let log = fs::read(REDISBLOOM.data("commands.aof")).expect("the file is there");
    let replayed = on_log_of(of("redisbloom"), &[], &log);
    has_all(&mut replayed.client(), &recorded);

    let server = of("redisbloom").start();
    let mut client = server.client();
    for command in commands(&log) {
        let reply = client.call_words(&command);
        assert!(!reply.is_error(), "{reply:?}");
    }
    has_all(&mut client, &recorded);
    for object in &recorded {
        assert_eq!(pieces(&mut client, &object.key), object.chunks());
    }
}

/// These commands from a client, without the ratio, which only a primary sends.
#[test]
fn the_commands_of_valkey_bloom_make_its_objects() {
    let recorded = VALKEY_BLOOM.objects();
    let log = fs::read(VALKEY_BLOOM.data("commands.aof")).expect("the file is there");
    let server = of("valkey-bloom").start();
    let mut client = server.client();
    for mut command in commands(&log) {
        if let Some(at) = command.iter().position(|word| word == b"TIGHTENING") {
            command.drain(at..at + 2);
        }
        let reply = client.call_words(&command);
        assert!(!reply.is_error(), "{reply:?}");
    }
    has_all(&mut client, &recorded);
}

/// Commands, and what is sent on: `<first>` and the like are headers.
const SENT: &str = "
BF.RESERVE reserved 0.01 100 => BF.LOADCHUNK reserved 1 <first>
BF.ADD added a => MULTI ; BF.LOADCHUNK added 1 <first> ; BF.MADD added a ; EXEC
BF.MADD many a b a => MULTI ; BF.LOADCHUNK many 1 <first> ; BF.MADD many a b ; EXEC
BF.INSERT inserted EXPANSION 3 ITEMS a
=> MULTI ; BF.LOADCHUNK inserted 1 <wider> ; BF.MADD inserted a ; EXEC
BF.RESERVE fixed 0.02 500 NONSCALING => BF.LOADCHUNK fixed 1 <fixed>
# An existing object gets the new items.
BF.MADD added a b => BF.MADD added b
BF.ADD added c => BF.ADD added c
BF.ADD added a => -
BF.INSERT added ITEMS a d => BF.MADD added d
BF.RESERVE refused 0.01 100 EXPANSION 2 NONSCALING => -
BF.RESERVE passing 0.01 100 EX 1000 COUNTING => BF.LOADCHUNK passing 1 <first>
CONFIG SET bf.bloom-new-filters valkey-bloom bf.bloom-use-random-seed no => -
BF.MADD theirs a b a
=> BF.INSERT theirs CAPACITY 100 ERROR 0.01 TIGHTENING 0.5 SEED <seed> EXPANSION 2 ITEMS a b
BF.RESERVE stays 0.02 500 NONSCALING
=> BF.INSERT stays CAPACITY 500 ERROR 0.02 TIGHTENING 0.5 SEED <seed> NONSCALING
";

/// Returns a server that follows `RedisBloom`, and logs each command before it answers.
fn with_log_like_redisbloom() -> Server {
    of("redisbloom")
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("aof-use-rdb-preamble", "no")
        .start()
}

/// The commands sent on, byte for byte.
#[test]
fn creations_are_sent_in_the_peers_words() {
    let server = with_log_like_redisbloom();
    let mut client = server.client();
    let mut log = Log::of(&server);
    let header =
        |entries, rate, growth, is_fixed| Draft::made(entries, rate, growth, is_fixed).header();
    for row in rows(SENT) {
        client.cmd(&row.command);
        let word = |word: &str| match word {
            "<first>" => header(100, 0.01, 2, false),
            "<wider>" => header(100, 0.01, 3, false),
            "<fixed>" => header(500, 0.02, 2, true),
            "<seed>" => Seed::FIXED.as_bytes().to_vec(),
            word => word.as_bytes().to_vec(),
        };
        let parts = row.parts().into_iter();
        let expected = parts.map(|line| line.split(' ').map(word).collect::<Vec<_>>());
        assert_eq!(log.since(), expected.collect::<Vec<_>>(), "{}", row.command);
    }
}

/// RedisBloom accepts empty chunks. They change nothing: a feed goes on, and replicas don't hear of them.
#[test]
fn an_empty_chunk_changes_nothing() {
    let server = with_log_like_redisbloom();
    let mut client = server.client();
    let empty = (3, Vec::new());
    let header = &pieces_of_two_links()[0];
    client.run("BF.MADD complete a b");
    assert_eq!(load_piece(&mut client, "partial", header), ok());
    let begun = client.cmd("BF.READ complete $");
    let cursor = begun.as_array()[0].text();
    let mut log = Log::of(&server);
    assert!(!log.since().is_empty());
    for key in ["complete", "partial"] {
        assert_eq!(load_piece(&mut client, key, &empty), ok());
    }
    assert!(log.since().is_empty());
    let read = client.cmd(&format!("BF.READ complete {cursor}"));
    assert!(!read.is_error(), "{read:?}");
}

/// An empty object of RedisBloom is whole with its header, and takes the chunks that follow, as there.
#[test]
fn an_empty_object_is_whole_with_its_header() {
    let recorded = REDISBLOOM.objects();
    let empty = recorded
        .iter()
        .find(|object| object.key == "empty")
        .expect("it is recorded");
    let (_server, mut client) = Server::with_client();
    let load = |client: &mut Client, cursor: u64, bytes: &[u8]| {
        load_piece(client, "empty", &(cursor, bytes.to_vec()))
    };
    assert_eq!(load(&mut client, 1, &empty.chunks()[0].1), ok());
    empty.is_there(&mut client);
    // The bits of a live copy may be newer than its header: they come in any order, within the filter.
    let bits = vec![0xff; 100];
    assert_eq!(load(&mut client, 1 + 2584, &bits), ok());
    assert_eq!(load(&mut client, 1 + 100, &bits), ok());
    for (cursor, bytes) in [(2586, &bits), (100, &bits), (0, &bits)] {
        assert_eq!(
            load(&mut client, cursor, bytes),
            error("ERR received bad data")
        );
    }
    let expected: Vec<u8> = [vec![0xff; 100], vec![0; 2384], vec![0xff; 100]].concat();
    let had: Vec<u8> = pieces(&mut client, "empty")
        .into_iter()
        .skip(1)
        .flat_map(|(_, bytes)| bytes)
        .collect();
    assert_eq!(had, expected);
    // An object with items takes no more chunks.
    client.expect("BF.ADD empty item", int(1));
    assert_eq!(
        load(&mut client, 101, &[0; 100]),
        error("ERR received bad data")
    );
    sums::is_balanced(&mut client);
}

/// A half loaded object is saved as an object of RedisBloom whose missing bytes are zeros, and is half loaded here.
#[test]
fn a_half_loaded_object_is_written_as_redisbloom_reads_it() {
    let (server, replica) = (Server::start(), Server::start());
    let mut client = server.client();
    for object in REDISBLOOM
        .objects()
        .iter()
        .filter(|object| object.card() > 1)
    {
        let chunks = split(&object.chunks(), 100);
        for loaded in [1, 2, chunks.len() / 2, chunks.len() - 1] {
            let key = &object.key;
            client.ok("FLUSHALL");
            load_chunks(&mut client, key, &chunks[..loaded]);
            let before = digest(&mut client, key);
            // The payload has the length of a whole object: it begins with numbers of items and filters, not with
            // zeros.
            let payload = client.cmd(&format!("DUMP {key}"));
            let whole = hex(&object.value["dump"]);
            assert_eq!(payload.as_bytes()[..14], whole[..14], "{key}");
            for way in ["DEBUG RELOAD", "RESTORE", "REPLICA"] {
                let mut other = match way {
                    "RESTORE" => {
                        let restore = format!("RESTORE {key} 0");
                        let words = [payload.as_bytes(), b"REPLACE"];
                        assert_eq!(client.call_with(&restore, &words), ok());
                        server.client()
                    }
                    "REPLICA" => {
                        replica.client().follow(server.port());
                        wait_in_sync(&server, &replica);
                        replica.client()
                    }
                    way => {
                        client.ok(way);
                        server.client()
                    }
                };
                assert_eq!(digest(&mut other, key), before, "{way}");
            }
            load_chunks(&mut client, key, &chunks[loaded..]);
            wait_in_sync(&server, &replica);
            replica.client().ok("REPLICAOF NO ONE");
            object.is_there(&mut replica.client());
            object.is_there(&mut client);
        }
    }
}

/// Returns the header and the chunks of a filter with two links.
fn pieces_of_two_links() -> Vec<(u64, Vec<u8>)> {
    let source = of("redisbloom").start();
    let mut client = source.client();
    client.ok("BF.RESERVE k 0.01 10 EXPANSION 1");
    for number in 0..15 {
        client.expect(format!("BF.ADD k {number}"), int(1));
    }
    let whole = pieces(&mut client, "k");
    assert_eq!(whole.len(), 3);
    whole
}

/// Returns the command that loads a chunk.
fn load(cursor: u64, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut load = command(&format!("BF.LOADCHUNK k {cursor}"));
    load.push(bytes.to_vec());
    load
}

/// `RedisBloom` adds to an object that lacks chunks. An item that is there already completes it, in the log too.
#[test]
fn a_half_loaded_object_is_completed_by_its_primary() {
    let whole = pieces_of_two_links();
    let mut server = with_command_log();
    let loads = whole[..2]
        .iter()
        .map(|(cursor, bytes)| load(*cursor, bytes));
    let sent: Vec<_> = loads.chain([command("BF.MADD k 0")]).collect();
    receive(&mut server.client(), file(&[]), &sent);
    let mut client = server.client();
    client.expect("BF.MISSING k 0", int(0));
    let before = digest(&mut client, "k");
    // Its AOF began anew when it had the primary's data.
    log_is_complete(&server);
    server.restart();
    assert_eq!(digest(&mut server.client(), "k"), before);
}

/// A peer sends chunks in any order, but this one is past the end.
#[test]
fn a_refused_chunk_does_not_complete_an_object() {
    let whole = pieces_of_two_links();
    let (header, last) = (&whole[0].1, &whole[2]);
    let sent = [load(1, header), load(last.0 + 1, &last.1)];
    let server = Server::start();
    receive(&mut server.client(), file(&[]), &sent);
    let mut client = server.client();
    let loading = error("ERR bloom object is still being loaded");
    client.expect("BF.EXISTS k 0", loading);
    // Within the second filter, it completes the object.
    let server = Server::start();
    receive(
        &mut server.client(),
        file(&[]),
        &[load(1, header), load(last.0, &last.1)],
    );
    server.client().expect("BF.EXISTS k 14", int(1));
}
