//! Feeds: the memory that they take, who reads them, and what an operator sees of both.

use std::collections::HashSet;

use crate::harness::{Client, Server, array, error, int, spaced, wait_until};
use crate::read::{OVERRUN, UNKNOWN, begin, read};
use crate::support::sums;
use crate::support::usage::{memory, nothing_is_being_freed, usage};

fn add_many(client: &mut Client, key: &str, first: u64, count: u64) {
    client.run(format!("BF.MADD {key} {}", spaced(first..first + count)));
}

/// The module with debug assertions waits a second for a reader, not a minute.
#[test]
fn a_feed_counts_as_memory_until_nobody_reads_it() {
    const RING: i64 = 1 << 20;
    let server = Server::builder().checked().start();
    let mut client = server.client();
    client.ok("BF.RESERVE k 0.000001 500000");
    let without = usage(&mut client, "k");
    let mut cursor = begin(&mut client, "k");
    assert!((without..without + 200).contains(&usage(&mut client, "k")));
    let mut last = usage(&mut client, "k");
    for batch in 0..70 {
        add_many(&mut client, "k", batch * 1000, 1000);
        let now = usage(&mut client, "k");
        assert!(now >= last);
        last = now;
        cursor = read(&mut client, "k", &cursor).unwrap().cursor;
    }
    // It has grown to its limit.
    let with = usage(&mut client, "k");
    assert!((RING..RING + 200).contains(&(with - without)), "{with}");
    sums::is_balanced(&mut client);
    let held = memory(&server, "used_memory");
    wait_until("the feed is freed", || usage(&mut client, "k") == without);
    let freed = held - memory(&server, "used_memory");
    assert!((freed - RING).abs() < RING * 3 / 100, "{freed} bytes");
    assert_eq!(read(&mut client, "k", &cursor).unwrap_err(), UNKNOWN);
    sums::is_balanced(&mut client);

    // A client that reads now and then, or fetches the filter, keeps the feed. Feeds of removed keys are looked for, too.
    client.ok("BF.RESERVE fetched 0.01 100");
    let fetched = begin(&mut client, "fetched");
    client.ok("BF.RESERVE gone 0.01 100");
    begin(&mut client, "gone");
    client.ok("BF.RESERVE idle 0.01 100");
    let idle = begin(&mut client, "idle");
    let mut cursor = begin(&mut client, "k");
    client.expect("DEL gone", int(1));
    wait_until("the other feed is freed", || {
        cursor = read(&mut client, "k", &cursor).expect("it is read").cursor;
        client.cmd("BF.SCANDUMP fetched 0 WITHID");
        let probe = usage(&mut client, "idle");
        client.ok("BF.RESERVE twin 0.01 100");
        let twin = usage(&mut client, "twin");
        client.expect("DEL twin", int(1));
        probe == twin
    });
    assert_eq!(read(&mut client, "idle", &idle).unwrap_err(), UNKNOWN);
    assert!(read(&mut client, "fetched", &fetched).is_ok());
    sums::is_balanced(&mut client);
}

#[test]
fn a_feed_takes_no_more_than_its_filter() {
    let (server, mut client) = Server::with_client();
    for capacity in [1, 10, 100, 1000, 10_000] {
        let key = format!("k{capacity}");
        client.ok(format!("BF.RESERVE {key} 0.01 {capacity} EXPANSION 1"));
        let without = usage(&mut client, &key);
        begin(&mut client, &key);
        for batch in 0..4 {
            add_many(&mut client, &key, batch * 5000, 5000);
            // What the filter itself takes, a copy takes.
            client.expect(format!("COPY {key} copy REPLACE"), int(1));
            let own = usage(&mut client, "copy");
            let with = usage(&mut client, &key);
            assert!(
                with - own <= own + 200,
                "{capacity}: {with} of {own}, first {without}"
            );
        }
    }
    nothing_is_being_freed(&server);
    sums::is_balanced(&mut client);
}

/// A reader never keeps a filter from growing: its feed takes what the limit leaves, and shrinks if that is less than it has.
#[test]
fn a_feed_gives_way_to_its_filter() {
    let server = Server::with(&[
        ("bf.bloom-use-random-seed", "no"),
        ("bf.bloom-memory-usage-limit", "10000"),
    ]);
    let mut client = server.client();
    for key in ["read", "twin"] {
        client.ok(format!("BF.RESERVE {key} 0.01 200 EXPANSION 1"));
    }
    let cursor = begin(&mut client, "read");
    let (mut most, mut refused) = (0, false);
    for number in 0..20_000 {
        let added = ["read", "twin"].map(|key| client.cmd(&format!("BF.ADD {key} {number}")));
        assert_eq!(added[0], added[1], "{number}");
        refused |= added[0].is_error();
        let feed = usage(&mut client, "read") - usage(&mut client, "twin");
        let size = field(&mut client, "twin", "Size").expect("every filter has one");
        // Besides the ring, a feed has some words of its own.
        assert!(size + feed <= 10_000 + 200, "{number}: {size} and {feed}");
        most = most.max(feed);
        if refused {
            break;
        }
    }
    assert!(refused && most > 2000, "{most}");
    assert_eq!(read(&mut client, "read", &cursor).unwrap_err(), OVERRUN);
    sums::is_balanced(&mut client);
}

/// Returns a field of BF.INFO, if the filter has it.
fn field(client: &mut Client, key: &str, name: &str) -> Option<i64> {
    let info = client.cmd(&format!("BF.INFO {key} ALL"));
    let (rows, _) = info.as_array().as_chunks::<2>();
    let row = rows.iter().find(|[title, _]| title.text() == name);
    row.map(|[_, value]| value.as_int())
}

fn readers(client: &mut Client, key: &str) -> Option<i64> {
    field(client, key, "Feed readers")
}

/// Returns a sum of INFO.
fn sum(client: &mut Client, name: &str) -> i64 {
    let info = client.cmd("INFO bf").text();
    let name = format!("bf_bloom_{name}:");
    let mut lines = info.lines();
    let value = lines.find_map(|line| line.strip_prefix(&name));
    value.and_then(|value| value.parse().ok()).expect(&name)
}

#[test]
fn each_client_that_reads_is_a_reader() {
    let (server, mut client) = Server::with_client();
    client.ok("BF.RESERVE k 0.01 10000");
    client.expect("COPY k other", int(1));
    let unread = client.cmd("BF.INFO k ALL");
    let wrong = error("ERR invalid information value");
    client.expect("BF.INFO k FEEDREADERS", &wrong);

    // A read counts, wherever it begins, and whatever it finds.
    let mut clients: Vec<Client> = (0..5).map(|_| server.client()).collect();
    let cursor = begin(&mut clients[0], "k");
    assert_eq!(readers(&mut client, "k"), Some(1));
    add_many(&mut client, "k", 0, 100);
    for (count, reader) in (1..).zip(&mut clients) {
        for _ in 0..3 {
            read(reader, "k", &cursor).unwrap();
        }
        assert_eq!(readers(&mut client, "k"), Some(count));
    }
    // But not a read that is refused.
    read(&mut server.client(), "k", "0123456789abcdef-0").unwrap_err();
    client.expect("BF.INFO k FEEDREADERS", array([int(5)]));
    let bytes = field(&mut client, "k", "Feed bytes").expect("it has a feed");
    client.expect("BF.INFO k feedbytes", array([int(bytes)]));
    assert!((2048..2048 + 300).contains(&bytes), "{bytes}");
    assert_eq!(
        client.cmd("BF.INFO other ALL").as_array().len(),
        unread.as_array().len()
    );

    // All scripts are one client.
    for _ in 0..3 {
        let script = "return redis.call('BF.READ', 'other', '$')";
        assert!(!client.call_with("EVAL", &[script, "0"]).is_error());
        assert_eq!(readers(&mut client, "other"), Some(1));
    }
    assert_eq!(sum(&mut client, "num_feeds"), 2);
    assert_eq!(sum(&mut client, "num_feed_readers"), 6);
    let of_other = field(&mut client, "other", "Feed bytes").expect("it has a feed");
    assert_eq!(sum(&mut client, "feed_memory_bytes"), bytes + of_other);

    // A feed that ends takes its readers along.
    client.expect("BF.ADD other new", int(1));
    client.ok("BF.MERGE k other");
    client.expect("DEL other", int(1));
    assert_eq!(readers(&mut client, "k"), None);
    for name in ["num_feeds", "num_feed_readers", "feed_memory_bytes"] {
        assert_eq!(sum(&mut client, name), 0, "{name}");
    }
    sums::is_balanced(&mut client);
}

/// The module with debug assertions waits a second, not a minute.
#[test]
fn a_client_that_reads_no_more_is_no_reader() {
    let server = Server::builder().checked().start();
    let [mut client, mut stays, mut leaves] = [(); 3].map(|()| server.client());
    client.ok("BF.RESERVE k 0.01 1000");
    let unread = client.cmd("BF.INFO k ALL");
    let cursor = begin(&mut stays, "k");
    read(&mut leaves, "k", &cursor).unwrap();
    assert_eq!(readers(&mut client, "k"), Some(2));
    wait_until("one has left", || {
        read(&mut stays, "k", &cursor).unwrap();
        sum(&mut client, "num_feed_readers") == 1
    });
    assert_eq!(readers(&mut client, "k"), Some(1));
    wait_until("nobody reads", || sum(&mut client, "num_feeds") == 0);
    client.expect("BF.INFO k ALL", &unread);
    sums::is_balanced(&mut client);
}

/// However many clients read in turn, the list of readers has at most 1024, and takes no more memory than the filter.
#[test]
fn the_readers_of_a_feed_are_counted_up_to_1024() {
    let (server, mut client) = Server::with_client();
    client.ok("BF.RESERVE small 0.01 100");
    let (cursor, size) = (
        begin(&mut client, "small"),
        field(&mut client, "small", "Size"),
    );
    for _ in 0..100 {
        read(&mut server.client(), "small", &cursor).unwrap();
    }
    let counted = size.expect("a size") / 16;
    assert!(counted < 100);
    assert_eq!(readers(&mut client, "small"), Some(counted));
    client.ok("BF.RESERVE k 0.01 20000");
    let cursor = begin(&mut client, "k");
    for count in 2..1100 {
        read(&mut server.client(), "k", &cursor).unwrap();
        let counted = readers(&mut client, "k");
        assert_eq!(counted, Some(count.min(1024)), "{count}");
    }
    let bytes = field(&mut client, "k", "Feed bytes").expect("it has a feed");
    assert!((16_384..16_384 + 200).contains(&bytes), "{bytes}");
    sums::is_balanced(&mut client);
}

/// A client that may only read takes no memory beyond the limit.
#[test]
fn no_feed_begins_when_memory_is_out() {
    let (server, mut client) = Server::with_client();
    for key in ["read", "unread", "fetched"] {
        client.ok(format!("BF.RESERVE {key} 0.01 1000"));
    }
    let cursor = begin(&mut client, "read");
    let bytes = field(&mut client, "read", "Feed bytes");
    // A filter with an id has no feed for it.
    client.cmd("BF.SCANDUMP fetched 0 WITHID");
    client.ok("CONFIG SET maxmemory 1");
    let text = "OOM command not allowed when used memory > 'maxmemory'.";
    for key in ["unread", "fetched"] {
        client.expect(format!("BF.READ {key} $"), error(text));
        assert_eq!(readers(&mut client, key), None);
    }
    read(&mut client, "read", &cursor).unwrap();
    assert_eq!(begin(&mut client, "read"), cursor);
    // A further reader is served, but not listed.
    let mut other = server.client();
    read(&mut other, "read", &cursor).unwrap();
    assert_eq!(readers(&mut client, "read"), Some(1));
    assert_eq!(field(&mut client, "read", "Feed bytes"), bytes);
    client.ok("CONFIG SET maxmemory 0");
    read(&mut other, "read", &cursor).unwrap();
    assert_eq!(readers(&mut client, "read"), Some(2));
    begin(&mut client, "unread");
}

/// Many filters, and how often a command is called for each of them.
const MANY: i64 = 10_000;

fn reserve_many(client: &mut Client) {
    for number in 0..MANY {
        client.ok(format!("BF.RESERVE k{number} 0.01 10"));
    }
    // The client's buffers grow before memory is compared.
    for number in 0..MANY {
        client.cmd(&format!("BF.SCANDUMP k{number} 0"));
    }
}

/// Returns what MEMORY USAGE says of all filters.
fn usage_of_many(client: &mut Client) -> i64 {
    let keys = 0..MANY;
    keys.map(|number| usage(client, &format!("k{number}")))
        .sum()
}

/// A client that fetches filters leaves nothing with them, and so may do it when memory is out.
#[test]
fn an_id_takes_no_memory() {
    let (server, mut client) = Server::with_client();
    reserve_many(&mut client);
    for (limit, number) in [(0, 0), (1, MANY / 2)] {
        client.ok(format!("CONFIG SET maxmemory {limit}"));
        let (held, counted) = (memory(&server, "used_memory"), usage_of_many(&mut client));
        let mut ids = HashSet::new();
        for number in number..number + MANY / 2 {
            let fetch = format!("BF.SCANDUMP k{number} 0 WITHID");
            let id = client.cmd(&fetch).as_array()[2].text();
            assert_eq!(client.cmd(&fetch).as_array()[2].text(), id);
            assert!(ids.insert(id), "{number}");
        }
        assert_eq!(usage_of_many(&mut client), counted);
        let taken = memory(&server, "used_memory") - held;
        assert!(taken < 12 * MANY / 2, "{taken} bytes");
    }
    sums::is_balanced(&mut client);
}

/// The server's memory grows by what MEMORY USAGE says of feeds.
#[test]
fn all_of_a_feed_is_counted() {
    let (server, mut client) = Server::with_client();
    reserve_many(&mut client);
    let (held, counted) = (memory(&server, "used_memory"), usage_of_many(&mut client));
    for number in 0..MANY {
        begin(&mut client, &format!("k{number}"));
    }
    let counted = usage_of_many(&mut client) - counted;
    assert_eq!(sum(&mut client, "feed_memory_bytes"), counted);
    let taken = memory(&server, "used_memory") - held;
    assert!(
        (taken - counted).abs() < counted / 10,
        "{taken}, counted {counted}"
    );
    sums::is_balanced(&mut client);
}

/// The module with debug assertions waits a second, not a minute. One feed stays open.
#[test]
fn feeds_that_end_leave_nothing_behind() {
    let server = Server::builder().checked().start();
    let mut client = server.client();
    reserve_many(&mut client);
    client.ok("BF.RESERVE read 0.01 10");
    begin(&mut client, "read");
    let held = memory(&server, "used_memory");
    for number in 0..MANY {
        begin(&mut client, &format!("k{number}"));
        client.cmd(&format!("BF.SCANDUMP k{number} 0 WITHID"));
    }
    wait_until("the other feeds have ended", || {
        begin(&mut client, "read");
        sum(&mut client, "num_feeds") == 1
    });
    let left = memory(&server, "used_memory") - held;
    assert!(left < 8 * MANY, "{left} bytes");
}
