//! Recordings of valkey-bloom 1.0 and RedisBloom 8.8, replayed: commands, dumps, chunks, files and logs of every family
//! give the recorded bytes and answers, on every way that a value can come.

mod wire;

use std::fs;

use crate::harness::{Builder, Client, Reply, Server, error, int, ok, wait_in_sync};
use crate::support::aof::{command, commands, on_log_of, rewrite_aof, wire};
use crate::support::configured::{MAKERS, made_by};
use crate::support::cuckoo;
use crate::support::forged::rdb_version;
use crate::support::pieces::{Pieces, pieces};
use crate::support::primary::receive;
use crate::support::recordings::{
    ALL, COUNTS, CUCKOO, DIGESTS, REDISBLOOM, REPAIRED_DIGESTS, Recorded, Step, VALKEY_BLOOM,
    agrees, all_are_there, call, has_gaps, restore,
};
use crate::support::sketches::{reseal, starts_on};

/// Adds limits that nothing here keeps: they do not apply to what comes in files, in logs and from a primary. With fewer
/// expansions, RedisBloom would not have replicated what creates a cuckoo filter.
fn limited(builder: Builder) -> Builder {
    like_redisbloom(builder)
        .config("bf.bloom-filter-max-memory-usage", "1")
        .config("bf.bloom-memory-usage-limit", "1")
        .config("bf.cf-max-expansions", "2")
}

/// Counts as RedisBloom 8.8 does.
fn like_redisbloom(builder: Builder) -> Builder {
    builder.config("bf.cms-overflow", "saturate")
}

/// Runs the commands one by one, with the replies that RedisBloom gave, where chance plays no part in them. A replica,
/// with settings of its own, makes the same values.
#[test]
fn commands_have_the_recorded_replies() {
    for recording in [&CUCKOO, &COUNTS, &REPAIRED_DIGESTS] {
        let mut server = like_redisbloom(Server::builder())
            .config("bf.bloom-new-filters", "redisbloom")
            .config("appendonly", "yes")
            .config("aof-use-rdb-preamble", "no")
            .start();
        let replica = limited(Server::replica_of(&server))
            .config("bf.cf-initial-size", "20")
            .config("bf.cf-bucket-size", "7")
            .start();
        wait_in_sync(&server, &replica);
        let mut client = server.client();
        let version = rdb_version(&mut client);
        client.ok("SET mergebad-string x");
        let (by_chance, recorded): (Vec<_>, Vec<_>) = recording
            .objects()
            .into_iter()
            .partition(Recorded::hangs_on_chance);
        let hangs_on_chance = |key: &[u8]| by_chance.iter().any(|o| o.key.as_bytes() == key);
        for mut step in recording.steps() {
            reseal(std::slice::from_mut(&mut step.0), version);
            compress_as_redisbloom(&mut client, &step);
            let (command, recorded) = step;
            let reply = call(&mut client, &command);
            let is_alike = command[0] == b"DUMP";
            let gaps = has_gaps(&String::from_utf8_lossy(&command[1]));
            assert!(
                is_alike || hangs_on_chance(&command[1]) || agrees(&reply, &recorded, gaps),
                "{}: {reply:?}, {recorded}",
                String::from_utf8_lossy(&command.join(&b' '))
            );
        }
        for object in recorded.iter().filter(|o| o.type_name() == "TDIS-TYPE") {
            compress(&mut client, &object.key);
        }
        all_are_there(&server, &recorded);
        wait_in_sync(&server, &replica);
        all_are_there(&replica, &recorded);
        let digests = [&server, &replica].map(|server| server.client().cmd("DEBUG DIGEST"));
        assert_eq!(digests[0], digests[1]);
        server.restart();
        all_are_there(&server, &recorded);
    }
}

/// Compresses a t-digest: its DUMP is that of the compressed one.
fn compress(client: &mut Client, key: &str) {
    let key = key.as_bytes();
    if let Reply::Bulk(dump) = client.call(&[b"DUMP", key]) {
        let restored = client.call(&[b"RESTORE", key, b"0", &dump, b"REPLACE"]);
        assert_eq!(restored, ok());
    }
}

/// Compresses the t-digests that this command compresses in RedisBloom before it reads them, which later answers depend
/// on. Here, commands that read change nothing.
fn compress_as_redisbloom(client: &mut Client, (command, reply): &Step) {
    let words: Vec<_> = command
        .iter()
        .map(|word| String::from_utf8_lossy(word))
        .collect();
    let error = reply["error"].as_str().unwrap_or("overflow");
    let [name, key, words @ ..] = &words[..] else {
        return;
    };
    let compresses = match &**name {
        "DUMP" | "TDIGEST.QUANTILE" | "TDIGEST.CDF" | "TDIGEST.TRIMMED_MEAN" | "TDIGEST.MERGE" => {
            true
        }
        "TDIGEST.RANK" | "TDIGEST.REVRANK" => {
            let [min, max] =
                ["MIN", "MAX"].map(|end| match client.cmd(&format!("TDIGEST.{end} {key}")) {
                    Reply::Double(number) => number,
                    text => text.text().parse().expect("a number"),
                });
            let within = |value: f64| min <= value && value <= max;
            words.iter().any(|word| word.parse().is_ok_and(within))
        }
        "TDIGEST.BYRANK" | "TDIGEST.BYREVRANK" => {
            let observations = match client.cmd(&format!("TDIGEST.INFO {key}")) {
                Reply::Map(pairs) => pairs[6].1.as_int(),
                flat => flat.as_array()[13].as_int(),
            };
            let within = |rank: i64| 0 < rank && rank < observations;
            words.iter().any(|word| word.parse().is_ok_and(within))
        }
        _ => false,
    };
    if !compresses || !error.contains("overflow") {
        return;
    }
    compress(client, key);
    if name == "TDIGEST.MERGE" {
        let sources = words[0].parse().expect("a number");
        words[1..]
            .iter()
            .take(sources)
            .for_each(|source| compress(client, source));
    }
}

/// Restores the dumps and loads the chunks. A replica and a rewritten log have the same.
#[test]
fn dumps_and_chunks_are_loaded() {
    for recording in ALL.iter().chain([&&REPAIRED_DIGESTS]) {
        let mut server = Server::with(&[("appendonly", "yes"), ("aof-use-rdb-preamble", "no")]);
        let mut client = server.client();
        let recorded = recording.objects();
        for object in &recorded {
            restore(&mut client, object);
            let chunks = object.chunks();
            if !chunks.is_empty() {
                assert_eq!(pieces_of(&mut client, object), chunks, "{}", object.key);
                client.expect(format!("DEL {}", object.key), int(1));
                let load = if object.type_name() == "MBbloomCF" {
                    "CF"
                } else {
                    "BF"
                };
                for (cursor, chunk) in &chunks {
                    let (load, cursor) = (format!("{load}.LOADCHUNK"), cursor.to_string());
                    let words = [
                        load.as_bytes(),
                        object.key.as_bytes(),
                        cursor.as_bytes(),
                        chunk,
                    ];
                    assert_eq!(client.call(&words), ok(), "{} {cursor}", object.key);
                }
            }
        }
        all_are_there(&server, &recorded);
        let replica = limited(Server::replica_of(&server)).start();
        wait_in_sync(&server, &replica);
        all_are_there(&replica, &recorded);
        rewrite_aof(&server);
        server.restart();
        all_are_there(&server, &recorded);
    }
}

fn pieces_of(client: &mut Client, object: &Recorded) -> Pieces {
    match object.type_name() {
        "MBbloomCF" => {
            let chunks = cuckoo::chunks(client, &object.key).into_iter();
            chunks
                .map(|(cursor, chunk)| (cursor.cast_unsigned(), chunk))
                .collect()
        }
        _ => pieces(client, &object.key),
    }
}

/// Loads a file at a start, and from a primary.
#[test]
fn files_are_loaded() {
    for recording in ALL {
        let recorded = recording.objects();
        let file = recording.data("dump.rdb");
        let mut server = Server::start();
        if !starts_on(&mut server, &file) {
            continue;
        }
        let mended = server.log_contains("infinite or not numbers: 1");
        assert_eq!(mended, *recording == DIGESTS);
        all_are_there(&server, &recorded);
        server.restart_saving();
        all_are_there(&server, &recorded);
        let replica = limited(Server::builder()).start();
        let file = fs::read(file).expect("it can be read");
        receive(&mut replica.client(), file, &[]);
        all_are_there(&replica, &recorded);
    }
}

/// Loads logs of commands, and logs that were rewritten, as either part of a log.
#[test]
fn logs_are_replayed() {
    let version = rdb_version(&mut Server::start().client());
    for (recording, name) in [
        (&VALKEY_BLOOM, "commands.aof"),
        (&VALKEY_BLOOM, "rewritten.aof"),
        (&REDISBLOOM, "rewritten.aof"),
        (&CUCKOO, "commands.aof"),
        (&CUCKOO, "rewritten.aof"),
        (&COUNTS, "commands.aof"),
        (&COUNTS, "rewritten.aof"),
        (&DIGESTS, "rewritten.aof"),
    ] {
        let mut log = commands(&fs::read(recording.data(name)).expect("the file is there"));
        reseal(&mut log, version);
        let log = wire(&log);
        let mut recorded = recording.objects();
        if name == "commands.aof" {
            // RedisBloom does not log the data of chunks.
            recorded.retain(|object| object.key != "loaded" && !object.hangs_on_chance());
        }
        // What new filters are like here does not matter: these commands are complete.
        for (base, since) in [(&log[..], &[][..]), (&[], &log)] {
            for maker in MAKERS {
                let server = on_log_of(limited(made_by(maker)), base, since);
                all_are_there(&server, &recorded);
            }
        }
    }
}

/// T-digests are what RedisBloom makes of its log, without the queries that compressed them there.
#[test]
fn a_log_of_t_digests_is_replayed() {
    let version = rdb_version(&mut Server::start().client());
    let mut log = commands(&fs::read(REPAIRED_DIGESTS.data("commands.aof")).expect("it is there"));
    reseal(&mut log, version);
    let server = on_log_of(limited(Server::builder()), &wire(&log), b"");
    for object in REPAIRED_DIGESTS.objects() {
        let replayed = object
            .value
            .get("dump_from_aof")
            .map_or("dump", |_| "dump_from_aof");
        // Merges compressed the first between additions; the others come from a dump that had lost one.
        if !["mixed", "mixed:q"].contains(&&*object.key) && !object.key.starts_with("oneloaded:") {
            object.has_bytes(&mut server.client(), replayed);
        }
    }
}

/// Applies the stream of a primary of RedisBloom: bare commands that mean its settings, which are the same here; options
/// that it reads by their first letter or ignores; and growth beyond the limits here.
#[test]
fn bare_commands_of_a_primary_mean_its_settings() {
    let copies = format!("CF.INSERT copies ITEMS {}", vec!["one"; 400].join(" "));
    let log = [
        "CF.ADD bare a",
        "CF.INSERT letters Cxyz 100 Iwhat a b",
        "CF.RESERVE ignored 64 FOO 7 BUCKETSIZE 4 BUCKETSIZE 2",
        "CF.RESERVE EXPANSION 8",
        "CF.RESERVE huge 1073741824",
        "CF.DEL bare none",
        "CF.COMPACT bare",
        &copies,
    ];
    let builder = Server::builder()
        .config("bf.cf-initial-size", "200")
        .config("bf.cf-bucket-size", "4")
        .config("bf.cf-max-iterations", "3");
    let server = on_log_of(builder, &wire(&log.map(command)), b"");
    let mut client = server.client();
    for (key, shape) in [
        ("bare", "buckets:64 items:1 deletes:0 filters:1"),
        ("letters", "buckets:32 items:2 deletes:0 filters:1"),
        ("ignored", "buckets:16 items:0 deletes:0 filters:1"),
        ("EXPANSION", "buckets:2 items:0 deletes:0 filters:1"),
        ("copies", "buckets:64 items:400 deletes:0 filters:50"),
        ("huge", "buckets:268435456 items:0 deletes:0 filters:1"),
    ] {
        let expansion = if key == "EXPANSION" { 8 } else { 1 };
        let line = format!("bktsize:4 {shape} max_iterations:3 expansion:{expansion}");
        assert_eq!(client.cmd(&format!("CF.DEBUG {key}")).text(), line, "{key}");
    }
    client.expect("CF.ADD copies other", error("Maximum expansions reached"));
}
