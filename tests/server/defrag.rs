//! Active defragmentation moves objects, and changes nothing in them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::harness::{Client, Reply, Server, digest, digests, int, ok, spaced, wait_until};
use crate::support::periods::LASTING_WINDOW;
use crate::support::population::Population;
use crate::support::protocols::field;
use crate::support::repeated::Repeated;

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

/// Returns commands that make a value of another family.
fn sketch(number: usize) -> [String; 2] {
    let (key, size) = (
        format!("sketch-{number}"),
        [10, 40, 100, 300][number / 8 % 4],
    );
    let numbers = spaced((0..60).map(|value| value * number % 997));
    let (create, add) = match number / 2 % 4 {
        0 => (format!("CF.RESERVE {key} {size}"), "CF.INSERT {} ITEMS"),
        1 => (format!("CMS.INITBYDIM {key} {size} 3"), "CMS.INCRBY {}"),
        2 => (format!("TOPK.RESERVE {key} {size} 10 3 0.9"), "TOPK.ADD {}"),
        _ => (
            format!("TDIGEST.CREATE {key} COMPRESSION {size}"),
            "TDIGEST.ADD {}",
        ),
    };
    [create, format!("{} {numbers}", add.replace("{}", &key))]
}

/// Small objects between holes, and prepared answers of t-digests.
fn fragment(client: &mut Client) {
    for number in 0..OBJECTS {
        // Some sizes, so that the holes are not all of one.
        let capacity = [100, 150, 200, 400][number % 4];
        let kind = kind(number);
        client.run(format!(
            "BF.INSERT object-{number} CAPACITY {capacity}{kind} ITEMS {number}"
        ));
        client.run_all(sketch(number));
        client.cmd(&format!("TDIGEST.QUANTILE sketch-{number} 0.5"));
    }
    for number in (0..OBJECTS).step_by(2) {
        client.expect(format!("DEL object-{number} sketch-{number}"), int(2));
    }
}

/// Commands that change nothing, for a value of each family.
const USES: [&str; 4] = [
    "CF.EXISTS sketch-1 0",
    "CMS.INCRBY sketch-3 0 1 0 -1",
    "TOPK.QUERY sketch-5 0",
    "TDIGEST.QUANTILE sketch-7 0 0.1 0.5 0.9 1",
];

/// Makes objects of many filters or shards, each too large to be moved in one step. They grow side by side, so that the filters
/// of deleted objects leave holes between the others.
fn deep(client: &mut Client) {
    for number in 0..40 {
        client.run(format!("BF.INSERT deep-{number} CAPACITY 4 EXPANSION 1"));
    }
    for number in 0..12 {
        let kind = kind(number);
        client.run(format!("BF.INSERT table-{number} CAPACITY 3000{kind}"));
    }
    for (key, count, rounds, batch) in [("table", 12, 30, 2000), ("deep", 40, 80, 20)] {
        for round in 0..rounds {
            for number in 0..count {
                let items = round * batch..(round + 1) * batch;
                add_many(client, &format!("{key}-{number}"), items);
            }
        }
    }
    for number in 0..40 {
        assert!(field(client, &format!("deep-{number}"), "FILTERS") > 60);
    }
    for number in (0..40).step_by(2) {
        client.cmd(&format!("DEL deep-{number} table-{number}"));
    }
}

fn add_many(client: &mut Client, key: &str, items: Range<usize>) {
    let count = items.len();
    let reply = client.cmd(&format!("BF.MADD {key} {}", spaced(items)));
    assert_eq!(reply.as_array().len(), count, "{reply:?}");
}

/// The objects below this number are written to while others are moved.
const WRITTEN: usize = 40;

/// Returns the answers of an object for its item and some others.
fn answers(client: &mut Client, number: usize) -> Reply {
    let others = spaced((0..30).map(|other| format!("other-{other}")));
    client.cmd(&format!("BF.MEXISTS object-{number} {number} {others}"))
}

/// The items that were added to each object, and how many of them were new.
type Added = BTreeMap<String, (Vec<String>, i64)>;

/// Adds to an old or a new object, which grows, and looks up an earlier item.
fn add(client: &mut Client, added: &mut Added, turn: usize) {
    let key = match turn % WRITTEN {
        number if number % 2 == 1 => format!("object-{number}"),
        number => format!("new-{number}"),
    };
    let (items, new) = added.entry(key.clone()).or_default();
    items.push(format!("item-{turn}"));
    *new += client.cmd(&format!("BF.ADD {key} item-{turn}")).as_int();
    let earlier = &items[turn % items.len()];
    client.expect(format!("BF.EXISTS {key} {earlier}"), int(1));
}

/// Asks for the answers of objects, which have to stay.
fn start_reader(mut client: Client, expected: Vec<(usize, Reply)>) -> Repeated {
    let mut asked = (0..expected.len()).cycle();
    Repeated::start(move |_| {
        let (number, expected) = &expected[asked.next().expect("there are some")];
        assert_eq!(answers(&mut client, *number), *expected, "{number}");
    })
}

fn start_writer(mut client: Client, added: Arc<Mutex<Added>>) -> Repeated {
    Repeated::start(move |turn| {
        let turn = usize::try_from(turn).unwrap();
        add(&mut client, &mut added.lock().unwrap(), turn);
    })
}

fn are_there(client: &mut Client, added: &Added) {
    for (key, (items, new)) in added {
        for item in items {
            client.expect(format!("BF.EXISTS {key} {item}"), int(1));
        }
        // An old object had one item before.
        let before = i64::from(key.starts_with("object-"));
        client.expect(format!("BF.CARD {key}"), int(new + before));
    }
}

#[test]
fn objects_are_moved_unchanged_under_traffic() {
    let (server, mut client) = Server::with_client();
    if !starts_to_defragment(&server) {
        return;
    }
    client.ok("CONFIG SET activedefrag no");
    let population = Population::new(&mut client);
    fragment(&mut client);
    let before = digests(&mut client);
    let odd = (1..OBJECTS).step_by(2);
    let quiet = odd.filter(|number| *number >= WRITTEN);
    let expected: Vec<(usize, Reply)> = quiet
        .map(|number| (number, answers(&mut client, number)))
        .collect();
    let uses = USES.map(|line| client.cmd(line));
    let fragmented = fragmentation(&server);
    assert!(fragmented > 1.2, "{fragmented}");
    assert_eq!(offered(&server).0, 0);

    let reader = start_reader(server.client(), expected.clone());
    let added = Arc::new(Mutex::new(Added::new()));
    let writer = start_writer(server.client(), added.clone());
    let is_served = || [&reader, &writer].into_iter().for_each(Repeated::goes_on);
    is_served();
    assert!(starts_to_defragment(&server));
    wait_until("the first objects are moved", || offered(&server).0 > 0);
    is_served();
    wait_until("many objects are moved", || {
        assert_eq!(USES.map(|line| client.cmd(line)), uses);
        offered(&server).0 > OBJECTS as u64 / 2
    });
    wait_until("there is less fragmentation", || {
        fragmentation(&server) < 1.0 + (fragmented - 1.0) * 0.6
    });
    is_served();
    reader.end();
    writer.end();

    let added = added.lock().unwrap();
    are_there(&mut client, &added);
    for (key, before) in &before {
        if !added.contains_key(key) {
            assert_eq!(digest(&mut client, key), *before, "{key}");
        }
    }
    for (number, expected) in &expected {
        assert_eq!(answers(&mut client, *number), *expected, "{number}");
    }
    client.run_all([
        "CF.ADD sketch-1 a",
        "CMS.INCRBY sketch-3 a 1",
        "TOPK.ADD sketch-5 a",
        "TDIGEST.ADD sketch-7 5",
    ]);
    population.is_unchanged(&mut client);
    population.finish_loading(&mut client, str::to_owned);
    crate::support::sums::is_balanced(&mut client);
}

#[test]
fn objects_of_many_filters_are_moved_in_steps() {
    let (server, mut client) = Server::with_client();
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
