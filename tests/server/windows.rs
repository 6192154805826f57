//! Objects with periods: items expire by the server's clock, and by the times in a log or from a primary.

use crate::harness::{
    Reply, Server, array, boolean, bulk, digest, error, int, simple, wait_in_sync, wait_until,
};
use crate::support::aof::{Command, Log, command, on_log_of, wire, with_command_log};
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

#[test]
fn info_reports_the_window() {
    let server = Server::start();
    let mut client = server.client3();
    let create = format!("BF.INSERT k {LASTING_WINDOW} CAPACITY 10 TTL 1 ITEMS a b");
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

/// The parameters of the windows of these logs.
const SHAPE: &str = "CAPACITY 50 ERROR 1e-6 TIGHTENING 0.25 EXPANSION 1 WINDOW 1000 PERIODS 4";

/// Returns a server on a log, and one that had the log from a primary. Their objects are equal.
fn on_both_ways(log: &[Command]) -> [Server; 2] {
    let both = [
        on_log_of(other_settings(Server::builder()), &[], &wire(log)),
        on_link_of(other_settings(Server::builder()), log),
    ];
    let [one, other] = both.each_ref().map(|server| {
        let mut client = server.client();
        sums::is_balanced(&mut client);
        digest(&mut client, "k")
    });
    assert_eq!(one, other);
    both
}

fn insert(at_ms: u64, options: &str, items: impl IntoIterator<Item = String>) -> Command {
    let mut words = command(&format!("BF.INSERT k {options} AT {at_ms} ITEMS"));
    words.extend(items.into_iter().map(String::into_bytes));
    words
}

/// Items expire when the clock is set forward. When it is set back, they are set back with it, and expire in turn.
#[test]
fn a_window_follows_its_clock_over_a_million_periods() {
    const FAR: u64 = 1_000_000_000;
    let log = [
        insert(40_500, SHAPE, ["a".to_owned()]),
        insert(40_500 + FAR, "NOCREATE", ["b".to_owned()]),
        insert(50_500, "NOCREATE", ["c".to_owned()]),
        // Sooner than the window's end.
        insert(50_600, "NOCREATE TTL 1", ["d".to_owned()]),
    ];
    for mut server in on_both_ways(&log) {
        let mut client = server.client();
        let held = object(&pieces(&mut client, "k"));
        let found =
            |ms: u64| ["a", "b", "c", "d"].map(|item| held.contains(item.as_bytes(), || ms));
        assert_eq!(found(50_999), [false, true, true, true]);
        assert_eq!(found(53_999), [false, true, true, false]);
        assert_eq!(found(54_999), [false, true, true, false]);
        assert_eq!(found(55_000), [false; 4]);
        // By the server's clock, that is half a century ago.
        let limits =
            "CONFIG SET bf.bloom-filter-max-memory-usage 64mb bf.bloom-memory-usage-limit 0";
        client.ok(limits);
        client.expect("BF.MISSING k a b c d", int(4));
        client.expect("BF.CARD k", int(0));
        client.expect("BF.MADD k b e", array([int(1), int(1)]));
        assert_eq!(field(&mut client, "k", "FILTERS"), 1);
        server.restart_saving();
        sums::is_balanced(&mut server.client());
    }
}

/// A load far above the capacity begins tables. When it falls, they drain, and go.
#[test]
fn tables_come_and_go_with_the_load_of_a_window() {
    let items = |period: u64, count: u64| (0..count).map(move |item| format!("{period}-{item}"));
    let mut log = vec![insert(0, SHAPE, [])];
    log[0].pop();
    let mut tables = Vec::new();
    for (load, periods) in [(30, 0_u64..6), (6000, 6..10), (30, 10..60)] {
        let (last, end) = (periods.end - 1, periods.end * 1000);
        for period in periods {
            // Items of the period before are kept for as long again.
            let kept = items(period.saturating_sub(1), load.min(30));
            let at = period * 1000 + 500;
            log.push(insert(at, "NOCREATE", items(period, load).chain(kept)));
        }
        for server in on_both_ways(&log) {
            let mut client = server.client();
            let held = object(&pieces(&mut client, "k"));
            for period in last - 3..=last {
                for item in items(period, 30) {
                    assert!(
                        held.contains(item.as_bytes(), || end - 1),
                        "{item} at {end}"
                    );
                }
            }
            let strangers = (0..10_000).map(|number: u32| number.to_le_bytes());
            let claimed = strangers.filter(|item| held.contains(item, || end - 1));
            assert!(claimed.count() < 3, "at {end}");
            tables.push(field(&mut client, "k", "FILTERS"));
        }
    }
    assert!(tables[2] > 1, "{tables:?}");
    assert_eq!([&tables[..2], &tables[4..]], [&[1, 1]; 2], "{tables:?}");
}
