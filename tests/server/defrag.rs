//! Active defragmentation moves objects, and changes nothing in them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::harness::{Client, Reply, Server, array, digest, int, ok, wait_until};
use crate::support::periods::LASTING_WINDOW;
use crate::support::population::Population;

/// Lets the server defragment as much as it can. Only one that is built with its own jemalloc takes
/// the setting; another's refusal is all that there is to see.
pub fn starts_to_defragment(server: &Server) -> bool {
    let mut client = server.client();
    let settings = [
        "active-defrag-ignore-bytes 1",
        "active-defrag-threshold-lower 1",
        "active-defrag-threshold-upper 2",
        "active-defrag-cycle-min 60",
        "active-defrag-cycle-max 70",
    ];
    for setting in settings {
        client.ok(format!("CONFIG SET {setting}"));
    }
    let reply = client.cmd("CONFIG SET activedefrag yes");
    if reply == ok() {
        assert!(server.has_jemalloc());
        return true;
    }
    let text = reply.text();
    assert!(
        text.contains("Active defragmentation cannot be enabled"),
        "{text}"
    );
    false
}

/// Returns how many of the offered allocations the server moved, and how many it left.
pub fn offered(server: &Server) -> (u64, u64) {
    let info = server.info("bf");
    let field = |name: &str| info[name].parse().expect("a number");
    (
        field("bf_bloom_defrag_hits"),
        field("bf_bloom_defrag_misses"),
    )
}

fn fragmentation(server: &Server) -> f64 {
    let ratio = &server.info("memory")["allocator_frag_ratio"];
    ratio.parse().expect("a number")
}

const OBJECTS: usize = 4_000;

/// Returns the options of an object: a fourth each of those with odd numbers are of each kind.
fn kind(number: usize) -> String {
    match number / 2 % 4 {
        0 => String::new(),
        3 => " SCALETO 1000".to_owned(),
        1 => " COUNTING".to_owned(),
        _ => format!(" {LASTING_WINDOW}"),
    }
}

/// Small objects between holes.
fn fragment(client: &mut Client) {
    for number in 0..OBJECTS {
        // Some sizes, so that the holes are not all of one.
        let capacity = [100, 150, 200, 400][number % 4];
        let kind = kind(number);
        client.send(&format!(
            "BF.INSERT object-{number} CAPACITY {capacity}{kind} ITEMS {number}"
        ));
        if number % 500 == 499 {
            for _ in 0..500 {
                assert!(!client.read().is_error());
            }
        }
    }
    for number in (0..OBJECTS).filter(|number| number % 2 == 0) {
        client.expect(format!("DEL object-{number}"), int(1));
    }
}

fn digests(client: &mut Client) -> BTreeMap<String, String> {
    let keys = client.cmd("KEYS *");
    let keys = keys.as_array().iter().map(|key| key.text());
    keys.map(|key| (key.clone(), digest(client, &key)))
        .collect()
}

/// Makes objects of many filters or shards, each too large to be moved in one step. They grow side by side, so that the filters
/// of deleted objects leave holes between the others.
fn deep(client: &mut Client) {
    for number in 0..40 {
        client.expect(
            format!("BF.INSERT deep-{number} CAPACITY 4 EXPANSION 1"),
            array([]),
        );
    }
    for number in 0..12 {
        let kind = kind(number);
        client.expect(
            format!("BF.INSERT table-{number} CAPACITY 3000{kind}"),
            array([]),
        );
    }
    for round in 0..30 {
        for number in 0..12 {
            let items = round * 2000..round * 2000 + 2000;
            add_many(client, &format!("table-{number}"), items);
        }
    }
    for round in 0..80 {
        for number in 0..40 {
            add_many(
                client,
                &format!("deep-{number}"),
                round * 20..round * 20 + 20,
            );
        }
    }
    for number in 0..40 {
        let filters = client.cmd(&format!("BF.INFO deep-{number} FILTERS"));
        assert!(filters.as_array()[0].as_int() > 60, "{filters:?}");
    }
    for number in (0..40).step_by(2) {
        client.cmd(&format!("DEL deep-{number} table-{number}"));
    }
}

fn add_many(client: &mut Client, key: &str, items: Range<usize>) {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    let reply = client.cmd(&format!("BF.MADD {key} {}", items.join(" ")));
    assert_eq!(reply.as_array().len(), items.len(), "{reply:?}");
}

/// The objects below this number are written to while others are moved.
const WRITTEN: usize = 40;

/// Returns the answers of an object for its item and some others.
fn answers(client: &mut Client, number: usize) -> Reply {
    let others: Vec<String> = (0..30).map(|other| format!("other-{other}")).collect();
    let ask = format!("BF.MEXISTS object-{number} {number} {}", others.join(" "));
    client.cmd(&ask)
}

/// Clients that run until they are stopped.
struct Traffic<'a> {
    server: &'a Server,
    stop: AtomicBool,
    asked: AtomicU64,
    added: AtomicU64,
}

impl Traffic<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Queries the objects that are not written to: their answers never change.
    fn ask(&self, expected: &BTreeMap<usize, Reply>) {
        let mut client = self.server.client();
        for (number, expected) in expected.iter().cycle() {
            if !self.goes_on() {
                return;
            }
            assert_eq!(answers(&mut client, *number), *expected, "{number}");
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds to old and new objects, which grow, and looks up the items. Returns the items of each object, and how
    /// many were new.
    fn add(&self) -> BTreeMap<String, (Vec<String>, i64)> {
        let mut client = self.server.client();
        let mut added = BTreeMap::<String, (Vec<String>, i64)>::new();
        let mut turn = 0;
        while self.goes_on() {
            turn += 1;
            let key = match turn % WRITTEN {
                number if number % 2 == 1 => format!("object-{number}"),
                number => format!("new-{number}"),
            };
            let (items, new) = added.entry(key.clone()).or_default();
            items.push(format!("item-{turn}"));
            *new += client.cmd(&format!("BF.ADD {key} item-{turn}")).as_int();
            let earlier = &items[turn % items.len()];
            client.expect(format!("BF.EXISTS {key} {earlier}"), int(1));
            self.added.fetch_add(1, Ordering::Relaxed);
        }
        added
    }
}

/// Stops the clients also if the test fails, so that it can end.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn objects_are_moved_unchanged_under_traffic() {
    let server = Server::start();
    let mut client = server.client();
    if !starts_to_defragment(&server) {
        return;
    }
    client.ok("CONFIG SET activedefrag no");
    let population = Population::new(&mut client);
    fragment(&mut client);
    let before = digests(&mut client);
    let odd = (1..OBJECTS).step_by(2);
    let quiet = odd.filter(|number| *number >= WRITTEN);
    let expected: BTreeMap<usize, Reply> = quiet
        .map(|number| (number, answers(&mut client, number)))
        .collect();
    let fragmented = fragmentation(&server);
    assert!(fragmented > 1.2, "{fragmented}");
    assert_eq!(offered(&server).0, 0);

    let traffic = Traffic {
        server: &server,
        stop: AtomicBool::new(false),
        asked: AtomicU64::new(0),
        added: AtomicU64::new(0),
    };
    let seen = || {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&traffic.asked), count(&traffic.added))
    };
    let added = thread::scope(|scope| {
        let stop = Stop(&traffic.stop);
        let reader = scope.spawn(|| traffic.ask(&expected));
        let writer = scope.spawn(|| traffic.add());
        wait_until("clients are at work", || seen().0 > 100 && seen().1 > 100);
        assert!(starts_to_defragment(&server));
        wait_until("the first objects are moved", || offered(&server).0 > 0);
        let (asked, added) = seen();
        wait_until("many objects are moved", || {
            offered(&server).0 > OBJECTS as u64 / 4
        });
        wait_until("there is less fragmentation", || {
            fragmentation(&server) < 1.0 + (fragmented - 1.0) * 0.6
        });
        wait_until("clients were served meanwhile", || {
            seen().0 > asked + 100 && seen().1 > added + 100
        });
        drop(stop);
        reader.join().expect("the reader's answers were right");
        writer.join().expect("the writer's answers were right")
    });

    for (key, (items, new)) in &added {
        for item in items {
            client.expect(format!("BF.EXISTS {key} {item}"), int(1));
        }
        // An old object had one item before.
        let before = i64::from(key.starts_with("object-"));
        client.expect(format!("BF.CARD {key}"), int(new + before));
    }
    for (key, before) in &before {
        if !added.contains_key(key) {
            assert_eq!(digest(&mut client, key), *before, "{key}");
        }
    }
    for (number, expected) in &expected {
        assert_eq!(answers(&mut client, *number), *expected, "{number}");
    }
    population.is_unchanged(&mut client);
    population.finish_loading(&mut client, str::to_owned);
    crate::support::sums::is_balanced(&mut client);
}

#[test]
fn objects_of_many_filters_are_moved_in_steps() {
    let server = Server::start();
    let mut client = server.client();
    if !starts_to_defragment(&server) {
        return;
    }
    client.ok("CONFIG SET activedefrag no");
    deep(&mut client);
    let before = digests(&mut client);
    assert_eq!(before.len(), 26);
    assert!(starts_to_defragment(&server));
    // The objects have over 60 blocks each. How many of these lie where the server wants to move them differs
    // from run to run: seldom it is no more than 200.
    wait_until("filters are moved", || {
        let (hits, misses) = offered(&server);
        for number in (1..40).step_by(2) {
            client.run(format!("BF.EXISTS deep-{number} x"));
        }
        for number in (1..12).step_by(2) {
            client.expect(format!("BF.EXISTS table-{number} {}", 999 * number), int(1));
        }
        hits > 20 && hits + misses > 20 * 200
    });
    assert_eq!(digests(&mut client), before);
    // They can still be written to, copied and deleted.
    for key in before.keys() {
        add_many(&mut client, key, 75_000..75_050);
        client.expect(format!("COPY {key} copy REPLACE"), int(1));
        let copy = digest(&mut client, "copy");
        assert_eq!(digest(&mut client, key), copy);
        client.expect(format!("DEL {key}"), int(1));
    }
    crate::support::sums::is_balanced(&mut client);
}

#[test]
fn objects_stay_in_place_if_the_setting_says_so() {
    let server = Server::with(&[("bf.bloom-defrag-enabled", "no")]);
    let mut client = server.client();
    if !starts_to_defragment(&server) {
        assert_eq!(offered(&server), (0, 0));
        return;
    }
    client.ok("CONFIG SET activedefrag no");
    fragment(&mut client);
    let before = digests(&mut client);
    let seen = |field: &str| -> u64 { server.info("stats")[field].parse().expect("a number") };
    let keys = seen("active_defrag_key_hits") + seen("active_defrag_key_misses");
    assert!(starts_to_defragment(&server));
    wait_until("the server has gone through its keys", || {
        seen("active_defrag_key_hits") + seen("active_defrag_key_misses")
            > keys + OBJECTS as u64 / 2
    });
    assert_eq!(offered(&server), (0, 0));
    assert_eq!(digests(&mut client), before);

    // It can be turned on at any time.
    client.ok("CONFIG SET bf.bloom-defrag-enabled yes");
    wait_until("objects are offered", || {
        let (hits, misses) = offered(&server);
        hits > 0 && misses > 0
    });
    assert_eq!(digests(&mut client), before);
}
