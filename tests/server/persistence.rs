//! An object is the same after every way of keeping, copying and moving it.

use std::fs;

use crate::harness::{Client, Server, digest, error, int, ok, spaced};
use crate::support::aof::{part, rewrite_aof, with_command_log};
use crate::support::configured::configure;
use crate::support::periods::LASTING_WINDOW;
use crate::support::population::Population;
use crate::support::sums;

fn same_name(key: &str) -> String {
    key.to_owned()
}

fn crash(server: &mut Server) {
    server.kill();
    server.start_again();
}

fn command(server: &Server, line: &str) {
    server.client().ok(line);
}

/// Starts a server that is down with settings under which none of the objects could be made.
fn start_with_tight_settings(server: &mut Server) {
    let tight = "bf.bloom-filter-max-memory-usage 1\nbf.bloom-memory-usage-limit 1\n\
        bf.bloom-capacity 7\nbf.bloom-expansion 0\nbf.bloom-fp-rate 0.5\n\
        bf.bloom-tightening-ratio 0.9\nbf.bloom-use-random-seed no\n\
        bf.cf-initial-size 20\nbf.cf-bucket-size 7\nbf.cf-max-expansions 1\n";
    configure(server, tight);
    server.start_again();
    let refused = error("ERR operation exceeds bloom object memory limit");
    server.client().expect("BF.RESERVE new 0.01 100", &refused);
}

/// A way of keeping data, and its name.
type Way = (&'static str, fn(&mut Server));

/// Takes a population along a journey.
#[track_caller]
fn keep(mut server: Server, ways: &[Way]) {
    let population = Population::new(&mut server.client());
    for (name, way) in ways {
        eprintln!("by {name}");
        way(&mut server);
        // BF.INFO reports how far objects can still grow.
        let limits = "bf.bloom-filter-max-memory-usage 64mb bf.bloom-memory-usage-limit 0";
        command(&server, &format!("CONFIG SET {limits}"));
        let mut client = server.client();
        population.is_unchanged(&mut client);
        sums::is_balanced(&mut client);
    }
    population.finish_loading(&mut server.client(), same_name);
}

#[test]
fn objects_survive_in_files() {
    let ways: [Way; 4] = [
        ("DEBUG RELOAD", |server| command(server, "DEBUG RELOAD")),
        ("SAVE and a crash", |server| {
            command(server, "SAVE");
            crash(server);
        }),
        ("SHUTDOWN SAVE", Server::restart_saving),
        ("a file under tight settings", |server| {
            server.shutdown_save();
            start_with_tight_settings(server);
        }),
    ];
    keep(Server::start(), &ways);
}

#[test]
fn objects_survive_in_logs() {
    let ways: [Way; 7] = [
        ("a log of commands", crash),
        ("DEBUG LOADAOF", |server| command(server, "DEBUG LOADAOF")),
        ("a log of commands under tight settings", |server| {
            server.kill();
            start_with_tight_settings(server);
        }),
        ("a rewritten log", |server| {
            rewrite_aof(server);
            crash(server);
        }),
        ("a log rewritten twice, under tight settings", |server| {
            rewrite_aof(server);
            server.kill();
            start_with_tight_settings(server);
        }),
        ("an RDB before the log", |server| {
            command(server, "CONFIG SET aof-use-rdb-preamble yes");
            rewrite_aof(server);
            crash(server);
        }),
        ("commands after a rewritten log", |server| {
            command(server, "CONFIG SET aof-use-rdb-preamble no");
            rewrite_aof(server);
            let mut client = server.client();
            let new = client.cmd("BF.MADD one-filter-2 a b c");
            assert_eq!(new.as_array().len(), 3);
            crash(server);
            let mut client = server.client();
            client.expect("BF.MISSING one-filter-2 a b c d", int(1));
            client.expect("DEL one-filter-2", int(1));
        }),
    ];
    keep(with_command_log(), &ways);
}

#[test]
fn copies_equal_their_originals() {
    let (server, other) = (Server::start(), Server::start());
    let (mut client, mut far) = (server.client(), other.client());
    let population = Population::new(&mut client);
    let restore = |client: &mut Client, key: &str, to: &str, options: &[&[u8]]| {
        let dump = client.cmd(&format!("DUMP {key}"));
        let args: [&[u8]; 4] = [b"RESTORE", to.as_bytes(), b"0", dump.as_bytes()];
        client.call(&[&args, options].concat())
    };
    let busy = error("BUSYKEY Target key name already exists.");
    let copied = |key: &str| format!("{key}-copy");
    let restored = |key: &str| format!("{key}-restored");
    for key in population.keys() {
        let (copy, to) = (copied(key), restored(key));
        for to in [&copy, &format!("{key} DB 3"), "one DB 4 REPLACE"] {
            client.expect(format!("COPY {key} {to}"), int(1));
        }
        client.expect(format!("COPY {key} {copy}"), int(0));
        let expires = client.cmd(&format!("PEXPIRETIME {key}"));
        client.expect(format!("PEXPIRETIME {copy}"), &expires);
        assert_eq!(restore(&mut client, key, &to, &[]), ok());
        assert_eq!(restore(&mut client, key, &to, &[]), busy);
    }
    population.is_copied(&mut client, copied);
    population.is_copied(&mut client, restored);
    // Over an object of another kind, half loaded ones too.
    for specimen in &population.specimens {
        let replaced = restore(&mut client, &specimen.key, "over", &[b"REPLACE"]);
        assert_eq!(replaced, ok());
        let over = digest(&mut client, "over");
        assert_eq!(over, specimen.lasting.digest, "{}", specimen.key);
    }

    // A copy is independent.
    population.finish_loading(&mut client, copied);
    population.finish_loading(&mut client, restored);
    client.expect("BF.ADD one-filter-copy of-its-own", int(1));
    population.is_unchanged(&mut client);
    command(&server, "SWAPDB 0 3");
    population.is_unchanged(&mut client);
    let moved =
        "RENAME {key} away / MOVE away 5 / SELECT 5 / RENAME away {key} / MOVE {key} 0 / SELECT 0";
    for key in population.keys() {
        client.run_all(moved.replace("{key}", key).split(" / "));
    }
    population.is_unchanged(&mut client);
    sums::is_balanced(&mut client);

    let keys: Vec<&str> = population.keys().collect();
    let to = format!("MIGRATE 127.0.0.1 {}  0 60000", other.port());
    for option in ["COPY", "REPLACE"] {
        client.ok(format!("{to} {option} KEYS {}", keys.join(" ")));
        population.is_copied(&mut far, same_name);
    }
    client.expect("DBSIZE", int(0));
    sums::is_balanced(&mut client);
    sums::is_balanced(&mut far);
    population.finish_loading(&mut far, same_name);
}

/// An object whose dump would be larger than a BF.LOAD in a log may be is written in chunks.
#[test]
fn objects_larger_than_one_argument_survive_a_rewrite() {
    let mut server = with_command_log();
    command(&server, "CONFIG SET bf.bloom-filter-max-memory-usage 128mb");
    let items = spaced(0..100_000);
    let keys = [
        ("plain", "NONSCALING"),
        ("counting", "COUNTING"),
        ("windowed", LASTING_WINDOW),
        ("scaled", "SCALETO 60000000"),
    ];
    let mut client = server.client();
    for (key, options) in keys {
        client.ok(format!("BF.RESERVE {key} 0.01 60000000 {options}"));
        let add = format!("BF.MADD {key} {items}");
        assert_eq!(client.cmd(&add).as_array().len(), 100_000, "{key}");
    }
    let size = client.cmd("BF.INFO plain SIZE").as_array()[0].as_int();
    assert!(size > 64 << 20, "{size}");
    let before = keys.map(|(key, _)| digest(&mut client, key));
    rewrite_aof(&server);
    crash(&mut server);
    let mut client = server.client();
    assert_eq!(keys.map(|(key, _)| digest(&mut client, key)), before);
    let log = fs::read(part(&server, ".2.base.aof")).expect("it can be read");
    let chunks = log.windows(12).filter(|bytes| *bytes == b"BF.LOADCHUNK");
    assert!(chunks.count() > 17);
    sums::is_balanced(&mut client);
    client.expect("BF.ADD plain 1999", int(0));
}
