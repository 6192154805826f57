//! Files that valkey-bloom 1.0 and RedisBloom 8.8 wrote on Valkey 9.1.

use std::{env, fs};

use crate::harness::{Server, error, int, ok};
use crate::pages::tables::table;
use crate::support::aof::on_log_of;
use crate::support::configured::MAKERS;
use crate::support::recordings::{
    REDISBLOOM, REDISBLOOM_STREAM, VALKEY_BLOOM_STREAM, all_are_there,
};

/// RedisBloom's log makes filters of ours by default: with the items, at the requested error rate.
#[test]
fn a_log_of_redisbloom_makes_filters_of_ours() {
    let log = fs::read(REDISBLOOM.data("commands.aof")).unwrap();
    let builder = Server::builder().config("bf.bloom-use-random-seed", "no");
    let server = on_log_of(builder, &log, &[]);
    let mut client = server.client();
    for object in REDISBLOOM.objects() {
        let key = &object.key;
        assert_eq!(client.cmd(&format!("TYPE {key}")).text(), "bloomfltr");
        let probe = object.probe();
        let answers = client.call_with(&format!("BF.MEXISTS {key}"), &probe);
        let (added, others) = answers.as_array().split_at(object.added().len());
        assert!(added.iter().all(|answer| *answer == int(1)), "{key}");
        let wrong = others.iter().filter(|answer| **answer == int(1)).count();
        // Filters for very few items have more than they should, in their program too.
        let theirs = object.value["answers"].as_str().unwrap()[added.len()..]
            .matches('1')
            .count();
        let rate = object.value["reserve"][0].as_str().unwrap_or("0.01");
        let most = rate.parse::<f64>().unwrap() * 2000.0;
        let [wrong, theirs] = [wrong, theirs].map(|n| f64::from(u32::try_from(n).unwrap()));
        let most = most.max(theirs);
        // Four standard deviations above what may be expected at the most.
        assert!(wrong <= most + 4.0 * most.sqrt(), "{key}: {wrong}");
    }
}

/// The stream to a replica of such a server (the file of the full sync, then commands) makes the primary's objects;
/// valkey-bloom's under every setting. The commands that it refused are refused again, without an error.
#[test]
fn their_stream_is_replicated_to_the_last_bit() {
    let of_each = MAKERS.map(|maker| (&VALKEY_BLOOM_STREAM, maker));
    let own = [(&REDISBLOOM_STREAM, "redisbloom")];
    for (recording, maker) in of_each.into_iter().chain(own) {
        let mut server = Server::with(&[
            ("appendonly", "yes"),
            ("bf.bloom-new-filters", maker),
            ("bf.bloom-capacity", "100"),
        ]);
        let reads_it = server.version().valkey && server.version().major >= 9;
        server.shutdown();
        let log = server.dir().join("appendonlydir");
        fs::remove_dir_all(&log).unwrap();
        fs::create_dir(&log).unwrap();
        for file in fs::read_dir(recording.data("appendonlydir")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), log.join(file.file_name())).unwrap();
        }
        if !reads_it {
            let log = server.try_start_again().unwrap_err();
            assert!(log.contains("appendonly.aof.1.base.rdb:"), "{log}");
            continue;
        }
        server.start_again();
        // While the server loads, it refuses the requests that wait for its start.
        let mut errors = server.info("errorstats");
        errors.remove("errorstat_LOADING");
        assert!(errors.is_empty(), "{errors:?}");
        assert!(!server.log_contains("CRITICAL"));
        server.client().expect("DBSIZE", int(27));
        all_are_there(&server, &recording.objects());
    }
}

/// An object that is given the same items in the same order becomes the same object, link by link
/// and bit by bit: RedisBloom's growth, hashes and positions.
#[test]
fn an_object_of_redisbloom_grows_as_it_does_there() {
    let recorded = REDISBLOOM.objects();
    let (_server, mut client) = Server::with_client();
    for (object, batch) in recorded.iter().flat_map(|o| [(o, 1), (o, 7), (o, 100)]) {
        // The first link, empty: a header of 20 bytes, and 53 bytes for the link; bytes 16 to 24 are its items.
        let header = &object.chunks()[0].1;
        let mut first = header[..20 + 53].to_vec();
        first[..8].fill(0);
        first[8..12].copy_from_slice(&1_u32.to_le_bytes());
        first[20 + 16..20 + 24].fill(0);
        let bytes = usize::try_from(u64::from_le_bytes(first[20..28].try_into().unwrap())).unwrap();
        let (key, cursor) = (object.key.as_bytes(), (1 + bytes).to_string());
        client.ok("FLUSHALL");
        let begin: [&[u8]; 4] = [b"BF.LOADCHUNK", key, b"1", &first];
        assert_eq!(client.call(&begin), ok());
        let bits = vec![0; bytes];
        let fill: [&[u8]; 4] = [b"BF.LOADCHUNK", key, cursor.as_bytes(), &bits];
        assert_eq!(client.call(&fill), ok());

        for items in object.added().chunks(batch) {
            let mut add: Vec<&[u8]> = vec![b"BF.MADD", key];
            if batch == 1 {
                add[0] = b"BF.ADD";
            }
            add.extend(items.iter().map(Vec::as_slice));
            assert!(!client.call(&add).is_error());
        }
        object.is_there(&mut client);
    }
}

/// Payloads and files of a newer Redis have an RDB version that Valkey does not know; from 8.1 on a setting makes it
/// read them all the same.
#[test]
fn a_newer_rdb_version_is_read_if_the_server_can_be_set_to() {
    let object = REDISBLOOM.objects().swap_remove(0);
    let (server, mut client) = Server::with_client();
    // The version of Redis 7.4.
    let payload = object.payloads([12, 0]).last().unwrap();
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

/// RedisBloom's words after the module's path, old and new, as docs/moving-in.md lists them.
#[test]
fn redisblooms_arguments_are_understood() {
    let rows = table(
        "docs/moving-in.md",
        "<!-- arguments: held against CONFIG GET by a test -->",
    );
    assert_eq!(rows.len(), 8);
    for column in [0, 1] {
        let named: Vec<_> = rows.iter().filter(|row| !row[column].is_empty()).collect();
        // Valid for each setting, and the default of none.
        let value = |row: &[String]| match &*row[2] {
            "bf.bloom-fp-rate" => "0.002",
            "bf.cf-initial-size" => "4096",
            _ => "16",
        };
        let args = named
            .iter()
            .flat_map(|row| [row[column].as_str(), value(row)]);
        let server = Server::builder()
            .module_args(&args.collect::<Vec<_>>())
            .start();
        let mut client = server.client();
        for row in named {
            let set = client.cmd(&format!("CONFIG GET {}", row[2]));
            assert_eq!(set.as_array()[1].text(), value(row), "{}", row[column]);
        }
    }
    for (args, why) in [
        (["ERROR_RATE", "2"], "ERROR_RATE: argument must be"),
        (["bf-error-rate", "x"], "bf-error-rate: argument must be"),
        (["cms-width", "5"], "no setting is called cms-width"),
    ] {
        let refused = Server::builder().module_args(&args).try_start();
        assert!(refused.is_err_and(|log| log.contains(why)), "{args:?}");
    }
}

/// Two modules of the same name, as in a Redis 8 with its own RedisBloom.
#[test]
fn a_second_module_of_the_name_is_refused_with_a_reason() {
    let module = env::var("VALKEYBLOOM_SO").expect("build.sh sets it");
    let refused = Server::builder().config("loadmodule", &module).try_start();
    let why = "\"bf\" not loaded: the server has a module of this name";
    assert!(refused.is_err_and(|log| log.contains(why)));
}
