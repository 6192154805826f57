//! Effects of the settings on new objects, their memory and their seed, and on full ones.

use bloomfilter::Bloom;

use crate::harness::{Client, Server, array, bulk, error, int, nil, ok};
use crate::support::pieces::pieces;
use crate::support::protocols::{field, truths};
use crate::support::usage::nothing_is_being_freed;

use super::set;

#[test]
fn new_objects_are_made_as_the_settings_say() {
    let server = Server::start();
    let mut client = server.client();
    set(&mut client, "bf.bloom-capacity", "500");
    set(&mut client, "bf.bloom-expansion", "3");
    set(&mut client, "bf.bloom-fp-rate", "0.0625");
    set(&mut client, "bf.bloom-tightening-ratio", "0.75");
    let reported = |client: &mut Client, key: &str| {
        let info = client.cmd(&format!("BF.INFO {key}"));
        let fields = info.as_array();
        [1, 9, 11, 13].map(|index| fields[index].clone())
    };
    let expected = [int(500), int(3), bulk("0.0625"), bulk("0.75")];
    for (key, create) in [
        ("a", "BF.ADD a item"),
        ("m", "BF.MADD m item"),
        ("i", "BF.INSERT i"),
    ] {
        assert!(!client.cmd(create).is_error());
        assert_eq!(reported(&mut client, key), expected, "{create}");
    }
    // Options of a command override the settings.
    assert_eq!(client.cmd("BF.RESERVE r 0.5 7"), ok());
    let expected = [int(7), int(3), bulk("0.5"), bulk("0.75")];
    assert_eq!(reported(&mut client, "r"), expected);
    let insert = "BF.INSERT o CAPACITY 8 ERROR 0.25 EXPANSION 4 TIGHTENING 0.125";
    assert_eq!(client.cmd(insert), array([]));
    let expected = [int(8), int(4), bulk("0.25"), bulk("0.125")];
    assert_eq!(reported(&mut client, "o"), expected);

    // The rate of filter i is p·(1 − r)·r^i for the ratio r.
    assert_eq!(client.cmd("BF.RESERVE t 0.0625 1 EXPANSION 1"), ok());
    let mut items = 0;
    while field(&mut client, "t", "FILTERS") < 3 {
        client.cmd(&format!("BF.ADD t {items}"));
        items += 1;
    }
    let lines = client.cmd("BF.DEBUG t");
    let rates = lines.as_array()[1..].iter().map(|line| {
        let line = line.text();
        line.split_once(" ratio:")
            .unwrap()
            .1
            .parse::<f64>()
            .unwrap()
    });
    let expected = [1.0, 0.75, 0.5625].map(|power| 0.0625 * 0.25 * power);
    for (rate, expected) in rates.zip(expected) {
        assert!((rate / expected - 1.0).abs() < 1e-12, "{rate} {expected}");
    }

    // An expansion of 0 makes objects that do not grow, unless the command says otherwise.
    set(&mut client, "bf.bloom-expansion", "0");
    assert_eq!(client.cmd("BF.ADD fixed item"), int(1));
    assert_eq!(client.cmd("BF.INFO fixed EXPANSION"), array([nil()]));
    assert_eq!(client.cmd("BF.INFO fixed").as_array().len(), 14);
    assert_eq!(client.cmd("BF.RESERVE scaling 0.01 10 EXPANSION 2"), ok());
    assert_eq!(field(&mut client, "scaling", "EXPANSION"), 2);
    assert_eq!(client.cmd("BF.RESERVE fixed2 0.01 10"), ok());
    assert_eq!(client.cmd("BF.INFO fixed2 EXPANSION"), array([nil()]));
    // A setting does not reach what exists.
    assert_eq!(field(&mut client, "a", "EXPANSION"), 3);
}

#[test]
fn memory_limits_bind() {
    let server = Server::start();
    let mut client = server.client();
    let refused = error("ERR operation exceeds bloom object memory limit");
    // 122 bytes of bitmap and 45 before them.
    set(&mut client, "bf.bloom-filter-max-memory-usage", "166");
    assert_eq!(client.cmd("BF.RESERVE a 0.01 100 NONSCALING"), refused);
    set(&mut client, "bf.bloom_filter_max_memory_usage", "167");
    assert_eq!(client.cmd("BF.RESERVE a 0.01 100 NONSCALING"), ok());
    let size = field(&mut client, "a", "SIZE");
    set(&mut client, "bf.bloom-filter-max-memory-usage", "64mb");

    // All that the object takes.
    set(
        &mut client,
        "bf.bloom-memory-usage-limit",
        &(size - 1).to_string(),
    );
    assert_eq!(client.cmd("BF.RESERVE b 0.01 100 NONSCALING"), refused);
    set(
        &mut client,
        "bf.bloom-memory-usage-limit",
        &size.to_string(),
    );
    assert_eq!(client.cmd("BF.RESERVE b 0.01 100 NONSCALING"), ok());
    assert_eq!(field(&mut client, "b", "SIZE"), size);
    set(&mut client, "bf.bloom-memory-usage-limit", "0");
    assert_eq!(client.cmd("BF.RESERVE c 0.01 1000000"), ok());
}

#[test]
fn large_objects_are_freed_in_the_background() {
    let server = Server::start();
    let mut client = server.client();
    let freed = |server: &Server| server.info("memory")["lazyfreed_objects"].clone();
    assert_eq!(client.cmd("CONFIG RESETSTAT"), ok());
    // Filters of 6 MB and of 70 kB. The small one is freed at once, whatever the threshold is.
    for (threshold, capacity, expected) in [
        ("64mb", 5_000_000, "0"),
        ("4096", 5_000_000, "1"),
        ("4096", 60_000, "1"),
        ("0", 60_000, "1"),
        ("0", 5_000_000, "2"),
    ] {
        set(&mut client, "bf.bloom_large_item_threshold", threshold);
        let reserve = format!("BF.RESERVE k 0.01 {capacity} NONSCALING");
        assert_eq!(client.cmd(&reserve), ok());
        assert_eq!(client.cmd("UNLINK k"), int(1));
        nothing_is_being_freed(&server);
        assert_eq!(freed(&server), expected, "{threshold} {capacity}");
    }
}

/// Returns the seed in the header of an object.
fn seed(client: &mut Client, key: &str) -> Vec<u8> {
    pieces(client, key)[0].1[51..83].to_vec()
}

#[test]
fn the_seed_is_random_or_the_fixed_one() {
    const FIXED: [u8; 32] = [
        89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115,
        62, 152, 136, 135, 48, 127, 151, 205, 40, 7, 51, 131,
    ];
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.ADD a item"), int(1));
    assert_eq!(client.cmd("BF.ADD b item"), int(1));
    let (a, b) = (seed(&mut client, "a"), seed(&mut client, "b"));
    assert!(a != b && a != FIXED && b != FIXED);

    set(&mut client, "bf.bloom-use-random-seed", "no");
    assert_eq!(client.cmd("BF.ADD c item"), int(1));
    assert_eq!(client.cmd("BF.RESERVE d 0.01 100 NONSCALING"), ok());
    assert_eq!(seed(&mut client, "c"), FIXED);
    assert_eq!(seed(&mut client, "d"), FIXED);
    // The positions by which the format is known: the crate's, in 122 bytes.
    assert_eq!(client.cmd("BF.ADD d item"), int(1));
    let header = &pieces(&mut client, "d")[0].1;
    let blob = [
        &header[header.len() - 16 - 45..header.len() - 16],
        &[0; 122],
    ]
    .concat();
    let mut theirs = Bloom::<[u8]>::from_bytes(blob).expect("a filter of the crate");
    theirs.set(b"item");
    assert_eq!(pieces(&mut client, "d")[1].1, theirs.as_slice()[45..]);

    // A seed that is given goes before.
    let given = [7; 32];
    let insert: [&[u8]; 6] = [b"BF.INSERT", b"e", b"SEED", &given, b"ITEMS", b"item"];
    assert_eq!(client.call(&insert), truths(false, &[true]));
    assert_eq!(seed(&mut client, "e"), given);
    set(&mut client, "bf.bloom-use-random-seed", "yes");
    assert_eq!(client.cmd("BF.ADD f item"), int(1));
    assert_ne!(seed(&mut client, "f"), FIXED);
}

#[test]
fn a_full_object_takes_more_if_the_settings_say_so() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.RESERVE k 0.01 100 NONSCALING"), ok());
    set(&mut client, "bf.bloom-saturate-nonscaling", "yes");
    let mut items = 0;
    // Some of these are taken for known ones.
    while client.cmd("BF.CARD k").as_int() < 150 {
        assert!(!client.cmd(&format!("BF.ADD k {items}")).is_error());
        items += 1;
    }
    for item in 0..items {
        assert_eq!(client.cmd(&format!("BF.EXISTS k {item}")), int(1));
    }
    assert_eq!(field(&mut client, "k", "FILTERS"), 1);
    assert_eq!(field(&mut client, "k", "CAPACITY"), 100);
    set(&mut client, "bf.bloom-saturate-nonscaling", "no");
    let full = error("ERR non scaling filter is full");
    let mut new = 0..1000;
    assert!(new.any(|i| client.cmd(&format!("BF.ADD k new{i}")) == full));
    assert_eq!(client.cmd("BF.CARD k"), int(150));
}
