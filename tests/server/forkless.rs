//! A server that saves without a fork. No server does so yet: forkless.c lends the module the API of one, calls its
//! `rdb_save` on a thread, and refuses to open a key for writing while its value is being saved.

use crate::harness::{Plugin, Server, error, int, ok};
use crate::support::blobs::{blobs, send};
use crate::support::population::Population;
use crate::support::protocols::in_both_protocols;
use crate::support::sums;

/// All options of a server that has `1 << 6`.
const ALL_KNOWN: u32 = 0x7f;

fn start(plugin: &Plugin, known_options: u32) -> Server {
    Server::builder()
        .without_module()
        .config("bf.bloom-use-random-seed", "no")
        .after_module(&plugin.line_with_module(known_options))
        .start()
}

/// Unknown bits may get another meaning in a future server. One that migrates slots and lacks the event is named in the
/// log.
#[test]
fn only_options_that_the_server_knows_are_set() {
    let plugin = Plugin::build("forkless.c");
    for (known, set) in [
        (0, 0x07),
        (0x0f, 0x07),
        (0x1f, 0x17),
        (0x3f, 0x37),
        (ALL_KNOWN, 0x77),
        (0xff, 0x77),
    ] {
        let server = start(&plugin, known);
        server.client().expect("FORKLESS.OPTIONS", int(set));
        let logged = server.log_contains("refused the event of atomic slot migrations");
        assert_eq!(logged, known & 1 << 5 != 0, "{known}");
    }
}

/// Reads on the main thread do not change the bytes that the thread saves.
#[test]
fn a_thread_saves_values_while_they_are_read() {
    let plugin = Plugin::build("forkless.c");
    let server = start(&plugin, ALL_KNOWN);
    let mut client = server.client();
    let population = Population::new(&mut client);
    let mut seen = 0;
    for key in population.keys() {
        client.ok(format!("FORKLESS.BEGIN {key}"));
        while client.cmd("FORKLESS.SAVES").as_int() < 30 {
            for command in [
                "BF.MEXISTS {} a b c d e",
                "BF.CARD {}",
                "BF.INFO {}",
                "BF.DEBUG {}",
                "BF.SCANDUMP {} 0",
                "BF.READ {} $",
                "BF.MISSING {} a b",
                "BF.MERGE into {}",
                "CF.MEXISTS {} a b c d e",
                "CF.COUNT {} a",
                "CF.INFO {}",
                "CF.SCANDUMP {} 0",
                "CF.DEL {} nothing",
                "DUMP {}",
                "MEMORY USAGE {}",
                "DEBUG DIGEST-VALUE {}",
                "COPY {} copy REPLACE",
            ] {
                client.cmd(&command.replace("{}", key));
            }
        }
        client.expect("FORKLESS.END", int(0));
        client.run("DEL copy into");
        seen += 1;
    }
    assert!(seen > 10, "one of each kind");
    population.is_unchanged(&mut client);
    sums::is_balanced(&mut client);
}

/// Commands that would write to `k`, or require it to be empty.
const WRITES: &[&str] = &[
    "BF.ADD k a",
    "BF.ADD k new",
    "BF.MADD k a new",
    "BF.INSERT k ITEMS new",
    "BF.INSERT k NOCREATE ITEMS new",
    "BF.RESERVE k 0.01 100",
    "BF.RESERVE k 0.01 100 NX",
    "BF.LOAD k <dump>",
    "BF.LOADCHUNK k 1 <header>",
    "BF.LOADCHUNK k 5 xyz",
    "BF.DEL k a",
    "BF.MDEL k a b",
    "BF.MERGE k like",
];

#[test]
fn keys_that_are_being_saved_refuse_writes() {
    let plugin = Plugin::build("forkless.c");
    let server = start(&plugin, ALL_KNOWN);
    let blobs = blobs(&mut server.client());
    in_both_protocols(&server, |client, _| {
        let mut send = |line: &str| send(client, line, &blobs);
        for kind in ["", "COUNTING ", "WINDOW 1000000000000 PERIODS 2 "] {
            for key in ["k", "like"] {
                let create = format!("BF.INSERT {key} {kind}CAPACITY 100 ITEMS a {key}");
                assert!(!send(&create).is_error());
            }
            let digest = send("DEBUG DIGEST");
            assert_eq!(send("FORKLESS.BEGIN k"), ok());
            for line in WRITES {
                let refusal = error("TRYAGAIN key is being saved, try again");
                assert_eq!(send(line), refusal, "{kind}{line}");
            }
            assert_eq!(send("DEBUG DIGEST"), digest, "{kind}");
            // It can be read, and what else there is can be written to.
            assert!(!send("BF.EXISTS k a").is_error());
            assert!(!send("BF.ADD like c").is_error());
            assert!(!send("BF.MERGE other k").is_error());
            assert_eq!(send("FORKLESS.END"), int(0));
            assert!(!send("BF.ADD k new").is_error());
            assert_ne!(send("DEBUG DIGEST"), digest);
            assert_eq!(send("DEL k like other"), int(3));
        }
        sums::is_balanced(client);
    });
}
