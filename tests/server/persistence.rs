//! An object is the same after every way of keeping, copying and moving it.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::harness::{
    Client, PATIENCE, Reply, Server, array, bulk, digest, error, int, ok, wait_until,
};
use crate::support::aof::{rewrite_aof, with_command_log};
use crate::support::configured::configure;
use crate::support::forged::{Forged, ForgedFilter};
use crate::support::pieces::load_chunks;
use crate::support::population::{Population, Seen};
use crate::support::random::Random;
use crate::support::sums;

fn same_name(key: &str) -> String {
    key.to_owned()
}

#[test]
fn objects_survive_in_an_rdb() {
    let mut server = Server::start();
    let population = Population::new(&mut server.client());
    assert_eq!(server.client().cmd("SAVE"), ok());
    server.kill();
    server.start_again();
    population.is_unchanged(&mut server.client());
    server.restart_saving();
    population.is_unchanged(&mut server.client());
    sums::is_balanced(&mut server.client());
    population.finish_loading(&mut server.client(), same_name);
}

#[test]
fn objects_survive_a_reload() {
    let server = Server::start();
    let mut client = server.client();
    let population = Population::new(&mut client);
    assert_eq!(client.cmd("DEBUG RELOAD"), ok());
    population.is_unchanged(&mut client);
    sums::is_balanced(&mut client);
    population.finish_loading(&mut client, same_name);
}

#[test]
fn objects_survive_in_a_log_of_commands() {
    let mut server = with_command_log();
    let population = Population::new(&mut server.client());
    server.kill();
    server.start_again();
    let mut client = server.client();
    population.is_unchanged(&mut client);
    sums::is_balanced(&mut client);
    assert_eq!(client.cmd("DEBUG LOADAOF"), ok());
    population.is_unchanged(&mut client);
    sums::is_balanced(&mut client);
    population.finish_loading(&mut client, same_name);
}

#[test]
fn objects_survive_in_a_rewritten_log() {
    let mut server = with_command_log();
    let population = Population::new(&mut server.client());
    rewrite_aof(&server);
    server.kill();
    server.start_again();
    population.is_unchanged(&mut server.client());
    sums::is_balanced(&mut server.client());
    // A rewrite of rewritten objects.
    rewrite_aof(&server);
    server.kill();
    server.start_again();
    population.is_unchanged(&mut server.client());
    population.finish_loading(&mut server.client(), same_name);
}

#[test]
fn objects_survive_in_a_log_behind_an_rdb() {
    let mut server = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("aof-use-rdb-preamble", "yes"),
    ]);
    let population = Population::new(&mut server.client());
    rewrite_aof(&server);
    let mut client = server.client();
    // Behind the RDB: more of an object in it, and one that was loaded to its end.
    let items: Vec<Vec<u8>> = (0..500).map(|i| format!("late {i}").into_bytes()).collect();
    let mut add: Vec<&[u8]> = vec![b"BF.MADD", b"twenty-filters-2"];
    add.extend(items.iter().map(Vec::as_slice));
    assert_eq!(client.cmd("COPY twenty-filters twenty-filters-2"), int(1));
    assert!(!client.call(&add).is_error());
    assert_eq!(client.cmd("COPY half-2 half-2-2"), int(1));
    let half = population.specimens.iter().find(|s| s.key == "half-2");
    let half = half.expect("it is one of them");
    load_chunks(&mut client, "half-2-2", &half.rest);
    let late = Seen::of(&mut client, "twenty-filters-2", &items);
    server.kill();
    server.start_again();
    let mut client = server.client();
    population.is_unchanged(&mut client);
    assert!(Seen::of(&mut client, "twenty-filters-2", &items) == late);
    assert_eq!(client.cmd("PERSIST half-2-2"), int(1));
    assert_eq!(digest(&mut client, "half-2-2"), population.whole("half-2"));
}

#[test]
fn a_file_is_loaded_whatever_the_settings() {
    let tight = "bf.bloom-filter-max-memory-usage 1\nbf.bloom-memory-usage-limit 1\n\
        bf.bloom-capacity 7\nbf.bloom-expansion 0\nbf.bloom-fp-rate 0.5\n\
        bf.bloom-tightening-ratio 0.9\nbf.bloom-use-random-seed no\n\
        bf.cf-initial-size 20\nbf.cf-bucket-size 7\nbf.cf-max-expansions 1\n";
    for log in [None, Some(false), Some(true)] {
        let mut server = match log {
            None => Server::start(),
            Some(_) => with_command_log(),
        };
        let population = Population::new(&mut server.client());
        match log {
            None => server.shutdown_save(),
            Some(rewritten) => {
                if rewritten {
                    rewrite_aof(&server);
                }
                server.kill();
            }
        }
        configure(&server, tight);
        server.start_again();
        let mut client = server.client();
        let refused = client.cmd("BF.RESERVE new 0.01 100");
        assert_eq!(
            refused,
            error("ERR operation exceeds bloom object memory limit")
        );
        for specimen in &population.specimens {
            let now = digest(&mut client, &specimen.key);
            assert_eq!(now, specimen.seen.digest, "{} {log:?}", specimen.key);
        }
    }
}

#[test]
fn objects_survive_dump_and_restore() {
    let server = Server::start();
    let mut client = server.client();
    let population = Population::new(&mut client);
    let restore = |client: &mut Client, key: &str, to: &str, ttl: &str, options: &[&[u8]]| {
        let dump = client.cmd(&format!("DUMP {key}"));
        let mut args: Vec<&[u8]> = vec![b"RESTORE", to.as_bytes(), ttl.as_bytes()];
        args.push(dump.as_bytes());
        args.extend(options);
        client.call(&args)
    };
    let copy = |key: &str| format!("{key}-copy");
    for key in population.keys() {
        assert_eq!(restore(&mut client, key, &copy(key), "0", &[]), ok());
        let busy = error("BUSYKEY Target key name already exists.");
        assert_eq!(restore(&mut client, key, &copy(key), "0", &[]), busy);
    }
    population.is_copied(&mut client, copy);

    // Over an object of another kind, half loaded ones too, and over a string.
    assert_eq!(client.cmd("SET over x"), ok());
    for specimen in &population.specimens {
        let reply = restore(&mut client, &specimen.key, "over", "0", &[b"REPLACE"]);
        assert_eq!(reply, ok());
        let over = digest(&mut client, "over");
        assert_eq!(over, specimen.lasting.digest, "{}", specimen.key);
    }

    for key in population.keys() {
        let reply = restore(&mut client, key, &copy(key), "5000000", &[b"REPLACE"]);
        assert_eq!(reply, ok());
        let ttl = client.cmd(&format!("PTTL {}", copy(key))).as_int();
        assert!((4_900_000..=5_000_000).contains(&ttl), "{ttl}");
    }
    population.is_copied(&mut client, copy);
    let time = "33000000000000";
    let options: [&[u8]; 2] = [b"REPLACE", b"ABSTTL"];
    for key in population.keys() {
        let reply = restore(&mut client, key, &copy(key), time, &options);
        assert_eq!(reply, ok());
        let expires = client.cmd(&format!("PEXPIRETIME {}", copy(key)));
        assert_eq!(expires, int(33_000_000_000_000));
    }
    population.is_copied(&mut client, copy);
    population.is_unchanged(&mut client);
    population.finish_loading(&mut client, copy);
    population.finish_loading(&mut client, same_name);
}

#[test]
fn copies_equal_their_originals() {
    let server = Server::start();
    let mut client = server.client();
    let population = Population::new(&mut client);
    let copy = |key: &str| format!("{key}-copy");
    for key in population.keys() {
        let reply = client.cmd(&format!("COPY {key} {}", copy(key)));
        assert_eq!(reply, int(1));
        let reply = client.cmd(&format!("COPY {key} {}", copy(key)));
        assert_eq!(reply, int(0));
        let reply = client.cmd(&format!("COPY {key} {key} DB 3"));
        assert_eq!(reply, int(1));
        let reply = client.cmd(&format!("COPY {key} one DB 4 REPLACE"));
        assert_eq!(reply, int(1));
    }
    for key in population.keys() {
        let seconds = client.cmd(&format!("PEXPIRETIME {key}"));
        let reply = client.cmd(&format!("PEXPIRETIME {}", copy(key)));
        assert_eq!(reply, seconds, "{key}");
    }
    population.is_copied(&mut client, copy);
    assert_eq!(client.cmd("SELECT 3"), ok());
    population.is_unchanged(&mut client);
    population.finish_loading(&mut client, same_name);
    assert_eq!(client.cmd("SELECT 4"), ok());
    assert_eq!(client.cmd("DBSIZE"), int(1));

    // A copy is independent.
    assert_eq!(client.cmd("SELECT 0"), ok());
    let more: Vec<String> = (0..100).map(|i| format!("more {i}")).collect();
    let mut add: Vec<&[u8]> = vec![b"BF.MADD", b"one-filter-copy"];
    add.extend(more.iter().map(String::as_bytes));
    assert!(client.call(&add).as_array().contains(&int(1)));
    assert_eq!(client.cmd("DEL one-filter-copy"), int(1));
    population.is_unchanged(&mut client);
    population.finish_loading(&mut client, copy);
    population.finish_loading(&mut client, same_name);
}

#[test]
fn objects_migrate() {
    let (from, to) = (Server::start(), Server::start());
    let (mut near, mut far) = (from.client(), to.client());
    let population = Population::new(&mut near);
    let keys: Vec<&str> = population.keys().collect();
    let port = to.port().to_string();
    let migrate = |near: &mut Client, options: &str| {
        let keys = keys.join(" ");
        let options = format!("{options}KEYS {keys}");
        near.cmd(&format!("MIGRATE 127.0.0.1 {port}  0 60000 {options}"))
    };
    // The time to live travels as what is left of it.
    let keeps_times = |far: &mut Client| {
        for specimen in &population.specimens {
            let expires = far.cmd(&format!("PEXPIRETIME {}", specimen.key));
            let late = expires.as_int() - specimen.seen.expires_ms;
            let most = i64::try_from(PATIENCE.as_millis()).expect("a minute");
            assert!((-1..most).contains(&late), "{}: {late}", specimen.key);
        }
    };
    assert_eq!(migrate(&mut near, "COPY "), ok());
    keeps_times(&mut far);
    population.is_copied(&mut far, same_name);
    population.is_unchanged(&mut near);

    assert!(migrate(&mut near, "").text().contains("BUSYKEY"));
    assert_eq!(migrate(&mut near, "REPLACE "), ok());
    keeps_times(&mut far);
    population.is_copied(&mut far, same_name);
    assert_eq!(near.cmd("DBSIZE"), int(0));
    sums::is_balanced(&mut near);
    sums::is_balanced(&mut far);
    population.finish_loading(&mut far, same_name);
}

#[test]
fn a_time_to_live_is_a_point_in_time() {
    let mut server = with_command_log();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.ADD k item"), int(1));
    let object = Forged::new();
    let load: [&[u8]; 4] = [b"BF.LOAD", b"long", &object.dump(), b"500000"];
    assert_eq!(client.call(&load), ok());
    let short: [&[u8]; 4] = [b"BF.LOAD", b"short", &object.dump(), b"400"];
    assert_eq!(client.call(&short), ok());
    let lasting: [&[u8]; 4] = [b"BF.LOAD", b"lasting", &object.dump(), b"0"];
    assert_eq!(client.call(&lasting), ok());
    let times: Vec<Reply> = ["long", "short", "lasting"]
        .iter()
        .map(|key| client.cmd(&format!("PEXPIRETIME {key}")))
        .collect();
    assert!(times[0].as_int() > times[1].as_int() + 400_000);
    assert_eq!(times[2], int(-1));
    server.kill();
    wait_until(
        "the short one's time comes while the server is down",
        || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("after 1970").as_millis()
                > u128::try_from(times[1].as_int()).expect("a time")
        },
    );
    server.start_again();
    let mut client = server.client();
    assert_eq!(client.cmd("PEXPIRETIME long"), times[0]);
    assert_eq!(client.cmd("PEXPIRETIME lasting"), int(-1));
    assert_eq!(client.cmd("EXISTS short"), int(0));
    assert_eq!(client.cmd("BF.CARD short"), int(0));

    rewrite_aof(&server);
    server.kill();
    server.start_again();
    let mut client = server.client();
    assert_eq!(client.cmd("PEXPIRETIME long"), times[0]);
    assert_eq!(client.cmd("BF.CARD long"), int(20));
    assert_eq!(client.cmd("KEYS lon*"), array([bulk("long")]));
}

/// The filters of a large object, each of 64 MiB less a header.
const LARGE_FILTERS: usize = 10;
const LARGE_BITMAP: u64 = (64 << 20) - 45;

#[test]
fn an_object_larger_than_any_argument_survives_a_rewrite() {
    let mut server = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "no"),
        ("aof-use-rdb-preamble", "no"),
        ("auto-aof-rewrite-percentage", "0"),
    ]);
    let mut client = server.client();
    let capacity = 50_000_000;
    let mut filter = ForgedFilter::new(capacity, capacity, Vec::new());
    filter.bitmap_bytes = Some(LARGE_BITMAP);
    filter.hashes = 7;
    let mut object = Forged::new();
    object.expansion = 1;
    object.filters = vec![filter; LARGE_FILTERS];
    load_chunks(&mut client, "large", &[(1, object.header())]);

    let mut random = Random(64);
    let mut block = vec![0; 16 << 20];
    let (mut cursor, mut left) = (1, 0);
    for _ in 0..LARGE_FILTERS {
        left += LARGE_BITMAP;
        while left > 0 {
            // A word in each page makes the blocks differ; the rest repeats.
            for page in block.chunks_exact_mut(4096) {
                page[..8].copy_from_slice(&random.next().to_le_bytes());
            }
            let length = left.min(block.len() as u64);
            cursor += length;
            left -= length;
            let chunk = &block[..usize::try_from(length).expect("a block")];
            let end = cursor.to_string();
            let args: [&[u8]; 4] = [b"BF.LOADCHUNK", b"large", end.as_bytes(), chunk];
            assert_eq!(client.call(&args), ok());
        }
    }
    let items = i64::try_from(capacity).expect("fits") * 10;
    assert_eq!(client.cmd("BF.CARD large"), int(items));
    assert_eq!(client.cmd("BF.INFO large FILTERS"), array([int(10)]));
    let before = digest(&mut client, "large");
    rewrite_aof(&server);
    // The log of how it was built is gone, so this is what the rewrite made of it.
    let base = fs::metadata(server.dir().join("appendonlydir/appendonly.aof.2.base.aof"));
    let base = base.expect("a rewrite makes the second base file").len();
    assert!(base > 10 * LARGE_BITMAP && base < 10 * LARGE_BITMAP + 100_000);
    server.kill();
    server.start_again();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.CARD large"), int(items));
    assert_eq!(digest(&mut client, "large"), before);
}
