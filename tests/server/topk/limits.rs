//! Memory limits and memory.

use crate::harness::{Client, Server, array, error, int, nil, ok, spaced, wait_in_sync};
use crate::support::aof::{Log, command, with_command_log};
use crate::support::usage::{least_limit, memory};

const FULL: &str = "ERR TopK: insufficient memory: operation exceeds topk memory limit";

fn limit(client: &mut Client, setting: &str, bytes: i64) {
    client.ok(format!("CONFIG SET bf.{setting} {bytes}"));
}

/// Both settings limit a list as a whole: with all of its slots when it is created, and with its items afterwards.
#[test]
fn limits_hold_for_clients_alone() {
    let server = Server::start();
    let replica = Server::replica_of(&server)
        .config("bf.bloom-filter-max-memory-usage", "1")
        .config("bf.bloom-memory-usage-limit", "1")
        .start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    for setting in ["bloom-filter-max-memory-usage", "bloom-memory-usage-limit"] {
        // All slots of a short list are allocated together.
        let name = format!("bf.{setting}");
        let bytes = least_limit(&mut client, &name, "TOPK.RESERVE k 100 50 3 0.9");
        limit(&mut client, setting, bytes);
        client.ok("TOPK.RESERVE k 100 50 3 0.9");
        let text = "x".repeat(1000);
        client.expect(format!("TOPK.ADD k {text} b"), array([error(FULL), nil()]));
        limit(&mut client, setting, bytes + 1001);
        client.expect(format!("TOPK.ADD k {text}"), array([nil()]));
        // An item that is listed already takes no memory.
        limit(&mut client, setting, 1);
        client.expect(format!("TOPK.INCRBY k {text} 7"), array([nil()]));
        client.expect("TOPK.ADD k y", array([error(FULL)]));
        client.expect(format!("TOPK.COUNT k {text} y"), array([int(8), int(0)]));
        // Copies and dumps are made whatever the limits.
        let dump = client.cmd("DUMP k");
        assert_eq!(client.restore("restored", dump.as_bytes()), ok());
        client.expect("COPY k copy", int(1));
        wait_in_sync(&server, &replica);
        let digest = client.cmd("DEBUG DIGEST");
        replica.client().expect("DEBUG DIGEST", &digest);
        client.ok("FLUSHALL");
        let default = if setting == "bloom-memory-usage-limit" {
            0
        } else {
            128 << 20
        };
        limit(&mut client, setting, default);
    }
}

/// What a command added before a refusal is replicated, and nothing else.
#[test]
fn what_was_added_before_a_refusal_is_replicated() {
    let server = with_command_log();
    let mut client = server.client();
    let mut log = Log::of(&server);
    let setting = "bloom-filter-max-memory-usage";
    let create = "TOPK.RESERVE k 100 50 3 0.9";
    let bytes = least_limit(&mut client, &format!("bf.{setting}"), create) + 1;
    client.cmd(create);
    client.cmd("TOPK.ADD k a");
    limit(&mut client, setting, bytes + 10);
    log.since();
    let text = "x".repeat(100);
    for (line, sent) in [
        (format!("TOPK.ADD k a b {text} c"), Some("TOPK.ADD k a b")),
        (
            format!("topk.incrby k a 2 d 3 {text} 1 c 1"),
            Some("TOPK.INCRBY k a 2 d 3"),
        ),
        (
            "TOPK.INCRBY k a 2 d 3 e x c 1".to_owned(),
            Some("TOPK.INCRBY k a 2 d 3"),
        ),
        (format!("TOPK.ADD k {text} a"), None),
        ("TOPK.INCRBY k e x a 1".to_owned(), None),
    ] {
        client.cmd(&line);
        assert_eq!(log.since(), Vec::from_iter(sent.map(command)), "{line}");
    }
    // Many items are replicated in parts.
    limit(&mut client, setting, 64 << 20);
    let many = spaced((0..3000).map(|number| format!("item-{number} 1")));
    client.cmd(&format!("TOPK.INCRBY k {many} x y"));
    let sent = log.since();
    let items = sent.iter().filter(|words| words[0] == b"TOPK.INCRBY");
    assert_eq!(items.map(|words| words.len() - 2).sum::<usize>(), 6000);
    let mut server = server;
    let before = client.cmd("DEBUG DIGEST");
    server.restart();
    server.client().expect("DEBUG DIGEST", &before);
}

/// Reserving a large list takes no time and no pages.
#[test]
fn a_large_list_takes_no_pages() {
    let (server, mut client) = Server::with_client();
    client.cmd("CONFIG SET bf.bloom-filter-max-memory-usage 4gb");
    let before = memory(&server, "used_memory_rss");
    client.ok("TOPK.RESERVE k 30000000 10 5 0.9");
    assert!(client.cmd("MEMORY USAGE k").as_int() > 500_000_000);
    let taken = memory(&server, "used_memory_rss") - before;
    assert!(taken < 50_000_000, "{taken} bytes are touched");
    client.cmd("TOPK.ADD k a b a");
    client.expect("TOPK.COUNT k a", array([int(2)]));
}
