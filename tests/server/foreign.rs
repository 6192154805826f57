//! Files that valkey-bloom 1.0 and RedisBloom 8.8 wrote on Valkey 9.1.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{
    Client, Server, array, bulk, digest, error, int, ok, wait_in_sync, wait_until,
};
use crate::support::aof::{on_log, rewrite_aof};
use crate::support::forged::{rdb_version, seal};
use crate::support::pieces::pieces;
use crate::support::primary::played_primary;
use crate::support::recordings::{PROGRAMS, REDISBLOOM, VALKEY_BLOOM, all_are_there, hex, restore};
use crate::support::sums;
use crate::support::usage::nothing_is_being_freed;

#[test]
fn their_rdb_is_loaded() {
    for program in PROGRAMS {
        let recorded = program.objects();
        let mut server = Server::start();
        let reads_it = server.version().valkey && server.version().major >= 9;
        server.shutdown();
        let file = server.dir().join("dump.rdb");
        fs::copy(program.data("dump.rdb"), &file).unwrap();
        if !reads_it {
            let log = server.try_start_again().unwrap_err();
            assert!(log.contains("Wrong signature"), "{log}");
            continue;
        }
        server.start_again();
        all_are_there(&server, &recorded);
        // This program writes it unchanged.
        server.restart_saving();
        all_are_there(&server, &recorded);
        // A replica gets it in the same form.
        let replica = Server::replica_of(&server).start();
        wait_in_sync(&server, &replica);
        all_are_there(&replica, &recorded);
    }
}

/// A replica of such a server gets its file, and then the commands that its clients send.
#[test]
fn their_server_is_replicated() {
    for program in PROGRAMS {
        let recorded = program.objects();
        let server = Server::start();
        let mut client = server.client();
        let rdb = fs::read(program.data("dump.rdb")).unwrap();
        let mut then = Vec::new();
        for words in [
            ["BF.ADD", "grown", "late-1"],
            ["BF.MADD", "late", "late-2"],
            ["BF.ADD", "one", "late-3"],
        ] {
            then.extend(b"*3\r\n");
            for word in words {
                then.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
            }
        }
        let port = played_primary(rdb, Some(then));
        assert_eq!(client.cmd(&format!("REPLICAOF 127.0.0.1 {port}")), ok());
        if !(server.version().valkey && server.version().major >= 9) {
            wait_until("the file is refused", || {
                server.log_contains("Failed trying to load")
            });
            continue;
        }
        let exists = |client: &mut Client, line: &str| client.cmd(line) == int(1);
        wait_until("all has come", || {
            exists(&mut client, "BF.EXISTS one late-3")
        });
        assert!(exists(&mut client, "BF.EXISTS grown late-1"));
        assert!(exists(&mut client, "BF.EXISTS late late-2"));
        assert_eq!(client.cmd("REPLICAOF NO ONE"), ok());
        for object in recorded
            .iter()
            .filter(|o| o.key != "grown" && o.key != "one")
        {
            object.is_there(&mut client);
        }
        let grown = recorded.iter().find(|o| o.key == "grown").unwrap();
        assert_eq!(client.cmd("BF.CARD grown"), int(grown.card + 1));
        assert_eq!(client.cmd("TYPE grown").text(), program.type_name);
        assert_eq!(client.cmd("TYPE late").text(), "bloomfltr");
        sums::is_balanced(&mut client);
    }
}

#[test]
fn their_dumps_are_restored() {
    for program in PROGRAMS {
        let recorded = program.objects();
        let server = Server::start();
        let mut client = server.client();
        for object in &recorded {
            let payload = restore(&mut client, object);
            // The same fields in the same order; strings are compressed alike.
            let dump = client.cmd(&format!("DUMP {}", object.key));
            assert_eq!(dump.as_bytes(), payload, "{}", object.key);
        }
        all_are_there(&server, &recorded);
    }
}

#[test]
fn their_rewritten_logs_are_loaded() {
    for program in PROGRAMS {
        let recorded = program.objects();
        let log = fs::read(program.data("rewritten.aof")).unwrap();
        for (base, since) in [(&log[..], &[][..]), (&[], &log)] {
            let mut server = on_log(base, since);
            all_are_there(&server, &recorded);
            server.restart();
            all_are_there(&server, &recorded);
            // Rewritten by this program, it is the same again.
            rewrite_aof(&server);
            server.restart();
            all_are_there(&server, &recorded);
        }
    }
}

#[test]
fn their_logs_of_commands_are_replayed() {
    for program in PROGRAMS {
        let recorded = program.objects();
        let log = fs::read(program.data("commands.aof")).unwrap();
        for (base, since) in [(&log[..], &[][..]), (&[], &log)] {
            let server = on_log(base, since);
            let mut client = server.client();
            assert_eq!(client.cmd("DBSIZE"), int(8));
            sums::is_balanced(&mut client);
            for object in &recorded {
                if object.type_name == "bloomfltr" {
                    // Commands of that server are executed by its law here, and make the same object.
                    object.is_there(&mut client);
                    object.has_its_dump(&mut client);
                    continue;
                }
                let key = &object.key;
                assert_eq!(client.cmd(&format!("TYPE {key}")).text(), "bloomfltr");
                let answers = object.answers_of(&mut client);
                assert!(
                    answers[..object.added].bytes().all(|digit| digit == b'1'),
                    "{key}"
                );
                // These are built anew from the commands, by this program's law: their false positives differ, and
                // their rates are as requested.
                object.has_its_info(&mut client, false);
                let others = &answers[object.added..];
                assert_eq!(others.len(), 2000);
                let wrong: f64 = others.bytes().map(|digit| f64::from(digit - b'0')).sum();
                // Filters for very few items have more than they should, in their program too.
                let theirs = &object.answers[object.added..];
                let theirs: f64 = theirs.bytes().map(|digit| f64::from(digit - b'0')).sum();
                let most = theirs.max(object.rate * 2000.0);
                // Four standard deviations above what may be expected at the most.
                assert!(wrong <= most + 4.0 * most.sqrt(), "{key}: {wrong}");
            }
        }
    }
}

/// An object from its dump grows like the object that the log makes, far into the next filters.
#[test]
fn an_object_of_valkey_bloom_grows_as_it_does_there() {
    let recorded = VALKEY_BLOOM.objects();
    let log = fs::read(VALKEY_BLOOM.data("commands.aof")).unwrap();
    let (replayed, restored) = (on_log(&log, &[]), Server::start());
    let mut clients = [replayed.client(), restored.client()];
    for object in &recorded {
        restore(&mut clients[1], object);
        let key = &object.key;
        let filters = format!("BF.INFO {key} FILTERS");
        let before = clients[0].cmd(&filters);
        // More than it can hold, up to what one that does not scale refuses.
        for round in 0..40 {
            let items: Vec<String> = (0..200).map(|n| format!("more-{round}-{n}")).collect();
            let add = format!("BF.MADD {key} {}", items.join(" "));
            let [replayed, restored] = clients.each_mut().map(|client| client.cmd(&add));
            assert_eq!(replayed, restored, "{key}");
        }
        let [replayed, restored] = clients.each_mut().map(|client| digest(client, key));
        assert_eq!(replayed, restored, "{key}");
        let grown = clients[0].cmd(&filters) != before;
        assert_eq!(grown, !object.info["Expansion rate"].is_null(), "{key}");
    }
}

/// The stream to a replica of such a server (the file of the full sync, then commands) makes the primary's objects. The
/// commands that it refused are refused again, without an error.
#[test]
fn their_stream_is_replicated_to_the_last_bit() {
    follows("valkey-bloom-1.0-stream", &[]);
    follows(
        "redisbloom-8.8-stream",
        &[
            ("bf.bloom-new-filters", "redisbloom"),
            ("bf.bloom-capacity", "100"),
        ],
    );
}

#[track_caller]
fn follows(recorded: &str, settings: &[(&str, &str)]) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let folder = data.join(recorded);
    let text = fs::read_to_string(folder.join("objects.json")).expect("the file is there");
    let objects: Value = serde_json::from_str(&text).expect("the file is JSON");
    let objects = objects.as_object().expect("an object per key");
    assert_eq!(objects.len(), 27);

    let mut server = Server::with(&[&[("appendonly", "yes")], settings].concat());
    let reads_it = server.version().valkey && server.version().major >= 9;
    server.shutdown();
    let log = server.dir().join("appendonlydir");
    fs::remove_dir_all(&log).unwrap();
    fs::create_dir(&log).unwrap();
    for file in fs::read_dir(folder.join("appendonlydir")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), log.join(file.file_name())).unwrap();
    }
    if !reads_it {
        let log = server.try_start_again().unwrap_err();
        assert!(log.contains("appendonly.aof.1.base.rdb:"), "{log}");
        return;
    }
    server.start_again();
    // While the server loads, it refuses the requests that wait for its start.
    let mut errors = server.info("errorstats");
    errors.remove("errorstat_LOADING");
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!server.log_contains("CRITICAL"));
    let mut client = server.client();
    assert_eq!(client.cmd("DBSIZE"), int(27));
    for (key, object) in objects {
        let card = client.cmd(&format!("BF.CARD {key}"));
        assert_eq!(Some(card.as_int()), object["card"].as_i64(), "{key}");
        let probe: Vec<Vec<u8>> = object["probe"]
            .as_array()
            .expect("items")
            .iter()
            .map(hex)
            .collect();
        let mut ask: Vec<&[u8]> = vec![b"BF.MEXISTS", key.as_bytes()];
        ask.extend(probe.iter().map(Vec::as_slice));
        let answers = client.call(&ask);
        let digits = answers.as_array().iter().map(|a| a.as_int().to_string());
        let recorded = object["answers"].as_str().expect("digits");
        assert_eq!(digits.collect::<String>(), recorded, "{key}");
        let dump = hex(&object["dump"]);
        let version = rdb_version(&mut client);
        let expected = seal(dump[..dump.len() - 10].to_vec(), version);
        let had = client.call(&[b"DUMP", key.as_bytes()]);
        assert!(had.as_bytes() == expected, "{key} has another dump");
    }
    sums::is_balanced(&mut client);
}

#[test]
fn redisblooms_chunks_are_loaded_and_written_again() {
    let recorded = REDISBLOOM.objects();
    let mut server = Server::with(&[("appendonly", "yes"), ("appendfsync", "always")]);
    for object in &recorded {
        let key = object.key.as_bytes();
        for (index, (cursor, chunk)) in object.chunks.iter().enumerate() {
            let mut client = server.client();
            let cursor = cursor.to_string();
            let load: [&[u8]; 4] = [b"BF.LOADCHUNK", key, cursor.as_bytes(), chunk];
            assert_eq!(client.call(&load), ok());
            if index + 1 == object.chunks.len() {
                break;
            }
            // Without items, the header is the whole object.
            if object.card == 0 {
                object.is_there(&mut client);
                continue;
            }
            // Half loaded it has its type, and answers nothing.
            let kind = client.call(&[b"TYPE", key]).text();
            assert_eq!(kind, "MBbloom--");
            let refusal = error("ERR bloom object is still being loaded");
            assert_eq!(client.call(&[b"BF.EXISTS", key, b"item"]), refusal);
            assert_eq!(client.call(&[b"BF.CARD", key]), refusal);
            // So it survives a restart, from either kind of file, and a DUMP.
            if index == 0 && object.key == "grown" {
                let before = digest(&mut client, "grown");
                server.kill();
                server.start_again();
                let mut client = server.client();
                assert_eq!(digest(&mut client, "grown"), before);
                assert_eq!(client.cmd("DEBUG RELOAD"), ok());
                assert_eq!(digest(&mut client, "grown"), before);
                let dump = client.cmd("DUMP grown");
                let restore: [&[u8]; 4] = [b"RESTORE", b"half", b"0", dump.as_bytes()];
                assert_eq!(client.call(&restore), ok());
                assert_eq!(digest(&mut client, "half"), before);
                assert_eq!(client.cmd("DEL half"), int(1));
            }
        }
    }
    all_are_there(&server, &recorded);
    let mut client = server.client();
    for object in &recorded {
        let had = pieces(&mut client, &object.key);
        assert_eq!(had, object.chunks, "{}", object.key);
    }
}

/// An object that is given the same items in the same order becomes the same object, link by link
/// and bit by bit: RedisBloom's growth, hashes and positions.
#[test]
fn an_object_of_redisbloom_grows_as_it_does_there() {
    let recorded = REDISBLOOM.objects();
    let server = Server::start();
    let mut client = server.client();
    for (object, batch) in recorded.iter().flat_map(|o| [(o, 1), (o, 7), (o, 100)]) {
        // The first link, empty: a header of 20 bytes, and 53 bytes for the link; bytes 16 to 24 are its items.
        let header = &object.chunks[0].1;
        let mut first = header[..20 + 53].to_vec();
        first[..8].fill(0);
        first[8..12].copy_from_slice(&1_u32.to_le_bytes());
        first[20 + 16..20 + 24].fill(0);
        let bytes = usize::try_from(u64::from_le_bytes(first[20..28].try_into().unwrap())).unwrap();
        let (key, cursor) = (object.key.as_bytes(), (1 + bytes).to_string());
        assert_eq!(client.cmd("FLUSHALL"), ok());
        let begin: [&[u8]; 4] = [b"BF.LOADCHUNK", key, b"1", &first];
        assert_eq!(client.call(&begin), ok());
        let bits = vec![0; bytes];
        let fill: [&[u8]; 4] = [b"BF.LOADCHUNK", key, cursor.as_bytes(), &bits];
        assert_eq!(client.call(&fill), ok());

        for items in object.probe[..object.added].chunks(batch) {
            let mut add: Vec<&[u8]> = vec![b"BF.MADD", key];
            if batch == 1 {
                add[0] = b"BF.ADD";
            }
            add.extend(items.iter().map(Vec::as_slice));
            assert!(!client.call(&add).is_error());
        }
        object.is_there(&mut client);
        let version = rdb_version(&mut client);
        let expected = seal(object.dump[..object.dump.len() - 10].to_vec(), version);
        let had = client.call(&[b"DUMP", key]);
        assert_eq!(had.as_bytes(), expected, "{} in {batch}s", object.key);
    }
}

/// Payloads and files of a newer Redis have an RDB version that Valkey does not know; from 8.1 on a setting makes it
/// read them all the same.
#[test]
fn a_newer_rdb_version_is_read_if_the_server_can_be_set_to() {
    let object = REDISBLOOM.objects().swap_remove(0);
    let value = object.dump[..object.dump.len() - 10].to_vec();
    let server = Server::start();
    let mut client = server.client();
    // The version of Redis 7.4.
    let payload = seal(value, [12, 0]);
    let restore: [&[u8]; 4] = [b"RESTORE", object.key.as_bytes(), b"0", &payload];
    let refusal = error("ERR DUMP payload version or checksum are wrong");
    assert_eq!(client.call(&restore), refusal);
    let version = server.version();
    let can = version.valkey && (version.major, version.minor) >= (8, 1);
    let reported = client.cmd("CONFIG SET rdb-version-check relaxed");
    assert_eq!(!reported.is_error(), can);
    if can {
        assert_eq!(client.call(&restore), ok());
        object.is_there(&mut client);
    } else {
        assert_eq!(client.call(&restore), refusal);
    }
}

/// The server's own commands work on these values.
#[test]
fn an_object_of_redisbloom_works_like_any_value() {
    let recorded = REDISBLOOM.objects();
    let server = Server::with(&[("notify-keyspace-events", "KEA")]);
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    for object in &recorded {
        restore(&mut client, object);
    }
    let reported = |server: &Server, field: &str| server.info("bf")[field].clone();
    let number = "bf_bloom_num_redisbloom_objects";
    assert_eq!(reported(&server, number), "8");
    assert_eq!(reported(&server, "bf_bloom_num_objects"), "8");

    assert_eq!(client.cmd("COPY grown copy"), int(1));
    let (original, copy) = (digest(&mut client, "grown"), digest(&mut client, "copy"));
    assert_eq!(copy, original);
    assert_eq!(client.cmd("TYPE copy").text(), "MBbloom--");
    assert_eq!(reported(&server, number), "9");
    let size = client.cmd("BF.INFO copy SIZE").as_array()[0].as_int();
    let usage = client.cmd("MEMORY USAGE copy").as_int();
    assert!((size..size + 200).contains(&usage), "{usage} for {size}");

    // A copy that takes another item has another value, and grows by itself.
    let mut events = server.client();
    events.cmd("SUBSCRIBE __keyspace@0__:copy");
    let added = client.cmd("BF.MADD copy surely-not-in-there nor-this");
    assert_eq!(added, array([int(1), int(1)]));
    assert_eq!(
        events.read(),
        array([
            bulk("message"),
            bulk("__keyspace@0__:copy"),
            bulk("bloom.add")
        ])
    );
    assert_ne!(digest(&mut client, "copy"), original);
    assert_eq!(digest(&mut client, "grown"), original);
    wait_in_sync(&server, &replica);
    let mut on_replica = replica.client();
    for key in ["copy", "grown", "wide", "fixed"] {
        assert_eq!(
            digest(&mut on_replica, key),
            digest(&mut client, key),
            "{key}"
        );
    }
    assert_eq!(reported(&replica, number), "9");

    // A full one that does not grow refuses, as one of ours.
    let more: Vec<String> = (0..200).map(|n| format!("more{n}")).collect();
    let reply = client.cmd(&format!("BF.MADD fixed {}", more.join(" ")));
    let last = reply.as_array().last().cloned();
    assert_eq!(last, Some(error("ERR non scaling filter is full")));
    assert_eq!(client.cmd("BF.CARD fixed"), int(500));
    assert_eq!(
        client.cmd("BF.RESERVE one 0.01 100"),
        error("ERR item exists")
    );

    for gone in ["DEL copy", "UNLINK one", "RENAME wide narrow", "DEL narrow"] {
        assert!(!client.cmd(gone).is_error());
        // A renamed value is not counted until its key is opened.
        nothing_is_being_freed(&server);
        sums::is_balanced(&mut client);
    }
    wait_until("they are freed", || reported(&server, number) == "6");
    assert_eq!(client.cmd("FLUSHALL"), ok());
    assert_eq!(reported(&server, number), "0");
}

/// RedisBloom's words after the module's path.
#[test]
fn redisblooms_arguments_are_understood() {
    let server = Server::builder()
        .module_args(&["ERROR_RATE", "0.002", "INITIAL_SIZE", "1234"])
        .start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.ADD seen item"), int(1));
    let info = client.cmd("BF.INFO seen CAPACITY");
    assert_eq!(info, array([int(1234)]));
    assert_eq!(client.cmd("BF.INFO seen ERROR"), array([bulk("0.002")]));
    let refused = Server::builder()
        .module_args(&["ERROR_RATE", "2"])
        .try_start();
    assert!(refused.is_err_and(|log| log.contains("ERROR_RATE")));
}
