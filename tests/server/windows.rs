//! Objects with periods: items expire by the server's clock, and by the times in a log or from a primary.

use crate::harness::{
    Reply, Server, array, boolean, bulk, digest, error, int, simple, wait_in_sync, wait_until,
};
use crate::support::aof::{Log, command, on_log_of, wire, with_command_log};
use crate::support::configured::other_settings;
use crate::support::periods::LASTING_WINDOW;
use crate::support::pieces::{object, pieces};
use crate::support::primary::on_link_of;
use crate::support::protocols::field;
use crate::support::sums;

/// An object that is not written to is held; the next write drops what has expired, and says so to replicas.
#[test]
fn items_expire_unless_they_are_added_again() {
    let server = with_command_log();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    client.ok("BF.RESERVE k 0.000001 100 WINDOW 200 PERIODS 4");
    let both = array([int(1), int(1)]);
    client.expect("BF.MADD k passing kept", &both);
    wait_until("what was added once has passed", || {
        // In one transaction, so that no time passes in between.
        client.ok("MULTI");
        client.cmd("BF.ADD k kept");
        client.cmd("BF.MEXISTS k kept passing");
        let replies = client.cmd("EXEC");
        let found = replies.as_array()[1].as_array();
        assert_eq!(found[0], int(1));
        found[1] == int(0)
    });
    wait_until("all has passed", || {
        client.cmd("BF.MISSING k kept passing") == int(2)
    });
    for name in ["ITEMS", "LIVEPERIODS", "PERIODITEMS"] {
        assert_eq!(field(&mut client, "k", name), 0, "{name}");
    }
    client.expect("BF.CARD k", int(0));
    assert_eq!(client.cmd("BF.DEBUG k").as_array()[0], bulk("size:0"));
    sums::is_balanced(&mut client);

    let mut log = Log::of(&server);
    log.since();
    for _ in 0..2 {
        client.expect("BF.INSERT k", array([]));
    }
    // The first is logged, since time has passed; the second changed nothing.
    let [logged] = &log.since()[..] else {
        panic!("not one command");
    };
    assert_eq!(logged[..4], command("BF.INSERT k NOCREATE AT"));
    wait_in_sync(&server, &replica);
    let mut behind = replica.client();
    assert_eq!(digest(&mut behind, "k"), digest(&mut client, "k"));
    sums::is_balanced(&mut client);
    sums::is_balanced(&mut behind);
}

/// Replicas merge without a clock, and learn the time afterwards.
#[test]
fn a_merge_is_followed_by_its_time() {
    let server = with_command_log();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    client.ok("CONFIG SET bf.bloom-use-random-seed no");
    for key in ["k", "source"] {
        client.ok(format!("BF.RESERVE {key} 0.01 100 WINDOW 100 PERIODS 1000"));
        client.expect(format!("BF.ADD {key} {key}"), int(1));
    }
    wait_until("a period has begun that has no items", || {
        field(&mut client, "source", "PERIODITEMS") == 0
    });
    let mut log = Log::of(&server);
    log.since();
    client.ok("BF.MERGE k source");
    let logged = log.since();
    let [_, merge, time, _] = &logged[..] else {
        panic!("not two commands in a transaction: {logged:?}");
    };
    assert_eq!(*merge, command("BF.MERGE k source"));
    assert_eq!(time[..4], command("BF.INSERT k NOCREATE AT"));
    wait_in_sync(&server, &replica);
    let mut behind = replica.client();
    assert_eq!(digest(&mut behind, "k"), digest(&mut client, "k"));
}

#[test]
fn info_reports_the_window() {
    let server = Server::start();
    let mut client = server.client3();
    let create = format!("BF.INSERT k {LASTING_WINDOW} CAPACITY 10 ERROR 1e-9 TTL 1 ITEMS a b");
    assert_eq!(client.cmd(&create).as_array().len(), 2);
    client.expect("BF.ADD k a", boolean(false));
    let Reply::Map(rows) = client.cmd("BF.INFO k ALL") else {
        panic!("no map");
    };
    let row = |name, value| (simple(name), int(value));
    // Ten items for each period, and for one more.
    assert_eq!(rows[0], row("Capacity", 30));
    assert_eq!(rows[2], row("Number of filters", 1));
    assert_eq!(rows[3], row("Number of items inserted", 2));
    assert_eq!(rows[8].0, simple("Estimated error rate"));
    let of_window = [
        row("Window", 1_000_000_000_000),
        row("Periods", 2),
        row("Live periods", 2),
        row("Items in current period", 1),
        (simple("Kind"), bulk("window")),
    ];
    assert_eq!(rows[9..], of_window);
    let debug = client.cmd("BF.DEBUG k");
    let [size, line] = debug.as_array() else {
        panic!("not one table: {debug:?}");
    };
    assert_eq!(*size, bulk("size:2"));
    assert!(line.text().contains(" capacity:30 size:2 "), "{line:?}");
}

/// A creation with a window and counters, or with too many periods, is refused from any source, and the commands
/// after it are executed.
#[test]
fn logs_and_primaries_send_the_time() {
    let params = "CAPACITY 20 ERROR 1e-6 TIGHTENING 0.5 EXPANSION 2";
    let stream = [
        "SELECT 0",
        &format!("BF.INSERT both {params} WINDOW 1000 PERIODS 5 COUNTING AT 5 ITEMS a"),
        &format!("BF.INSERT order {params} COUNTING WINDOW 1000 PERIODS 5 AT 5 ITEMS a"),
        &format!("BF.INSERT long {params} WINDOW 1000 PERIODS 60001 AT 5 ITEMS a"),
        &format!("BF.INSERT counted {params} COUNTING ITEMS a"),
        &format!("BF.INSERT k {params} WINDOW 1000 PERIODS 4 AT 40500 ITEMS a"),
        "BF.INSERT k NOCREATE AT 42500 TTL 4000 ITEMS b",
    ];
    let stream = stream.map(command);
    let logged = on_log_of(other_settings(Server::builder()), &[], &wire(&stream));
    let replica = on_link_of(other_settings(Server::builder()), &stream);
    for server in [&logged, &replica] {
        let mut client = server.client();
        client.expect("DBSIZE", int(2));
        let held = object(&pieces(&mut client, "k"));
        let found = |ms: u64| [b"a", b"b"].map(|item| held.contains(item, || ms));
        assert_eq!(found(43_999), [true, true]);
        assert_eq!(found(44_000), [false, true]);
        assert_eq!(found(46_999), [false, true]);
        assert_eq!(found(47_000), [false, false]);
        sums::is_balanced(&mut client);
        // The words that a client would read.
        let log = server.log();
        let reported = log.matches("ERR WINDOW and COUNTING cannot be combined");
        assert_eq!(reported.count(), 2, "{log}");
        assert_eq!(log.matches("ERR bad periods").count(), 1, "{log}");
    }
}

#[test]
fn clients_cannot_send_the_time() {
    let server = Server::start();
    let replica = Server::replica_of(&server)
        .config("replica-read-only", "no")
        .start();
    let mut client = server.client();
    client.expect(
        format!("BF.INSERT k {LASTING_WINDOW} ITEMS a"),
        array([int(1)]),
    );
    wait_in_sync(&server, &replica);
    let before = digest(&mut client, "k");
    let refused = error("ERR unknown argument received");
    let script = "#!lua name=time\nredis.register_function('tell', \
        function(keys, args) return redis.pcall(args[1], keys[1], unpack(args, 2)) end)";
    let load: [&[u8]; 3] = [b"FUNCTION", b"LOAD", script.as_bytes()];
    assert_eq!(client.call(&load), bulk("time"));
    wait_in_sync(&server, &replica);
    for client in [&mut client, &mut replica.client()] {
        for words in ["AT 5 ITEMS b", "NOCREATE AT 5"] {
            let line = format!("BF.INSERT k {words}");
            client.expect(&line, &refused);
            // In a transaction, a script and a function as well.
            client.ok("MULTI");
            client.expect(&line, simple("QUEUED"));
            client.expect("EXEC", array([refused.clone()]));
            let call = format!("FCALL tell 1 k BF.INSERT {words}");
            client.expect(&call, &refused);
            let script = b"return redis.pcall('BF.INSERT', KEYS[1], unpack(ARGV))";
            let mut eval: Vec<&[u8]> = vec![b"EVAL", script, b"1", b"k"];
            eval.extend(words.split(' ').map(str::as_bytes));
            assert_eq!(client.call(&eval), refused, "{line}");
        }
        assert_eq!(digest(client, "k"), before);
    }
}
