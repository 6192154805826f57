//! Values, headers and chunks that are not a cuckoo filter: each is refused with a text, and the server goes on.
//! Nearly all of them have crashed `RedisBloom`, or it took them for something else.

use crate::harness::{Client, Server, digest, error, int, ok};
use crate::support::forged::{Rdb, Refusing};
use crate::support::protocols::{in_both_protocols, truth};

use super::{chunks, header, load};

/// The id of the type, without its encoding version.
const TYPE_ID: u64 = 0x3016_e5a2_8982_1400;

/// A filter to be written in any form, rightly or wrongly.
#[derive(Clone)]
struct Forged {
    version: u64,
    filters: u64,
    first_buckets: u64,
    items: u64,
    deletes: u64,
    bucket_size: u64,
    max_iterations: u64,
    expansion: u64,
    /// Buckets and slots of each filter.
    stored: Vec<(u64, Vec<u8>)>,
}

impl Forged {
    /// Returns a right one, of two filters.
    fn new() -> Self {
        let slots = |buckets: usize| (0..2 * buckets).map(|slot| u8::from(slot % 2 == 0) * 7);
        Self {
            version: 4,
            filters: 2,
            first_buckets: 32,
            items: 96,
            deletes: 3,
            bucket_size: 2,
            max_iterations: 20,
            expansion: 2,
            stored: vec![(32, slots(32).collect()), (64, slots(64).collect())],
        }
    }

    fn numbers(&self) -> [u64; 7] {
        [
            self.filters,
            self.first_buckets,
            self.items,
            self.deletes,
            self.bucket_size,
            self.max_iterations,
            self.expansion,
        ]
    }

    fn value(&self) -> Rdb {
        let value = Rdb::of_type(TYPE_ID | self.version);
        let value = self.numbers().into_iter().fold(value, Rdb::uint);
        let stored = self.stored.iter();
        stored.fold(value, |value, (buckets, slots)| {
            value.uint(*buckets).string(slots)
        })
    }

    /// Returns the header of its chunks.
    fn header(&self) -> Vec<u8> {
        let long = [self.items, self.first_buckets, self.deletes, self.filters];
        let short = [self.bucket_size, self.max_iterations, self.expansion];
        header(long, short.map(|n| u16::try_from(n).expect("16 bits")))
    }
}

/// Returns a right value.
pub fn right() -> Rdb {
    Forged::new().value()
}

/// A fault: its name, the change that makes it, and the text in the log.
type Fault = (&'static str, fn(&mut Forged), &'static str);

/// A fault of each kind. The core's tests have all of them.
const FAULTS: &[Fault] = &[
    (
        "2^64 - 1 filters",
        |f| f.filters = u64::MAX,
        "number of filters out of range",
    ),
    (
        "2^63 buckets",
        |f| f.first_buckets = 1 << 63,
        "number of buckets out of range",
    ),
    (
        "buckets of 256 slots",
        |f| f.bucket_size = 256,
        "bucket size out of range",
    ),
    (
        "a last product that wraps to a small one",
        |f| (f.filters, f.first_buckets, f.expansion) = (5, 16, 32_768),
        "filter out of range",
    ),
    (
        "a slot too few",
        |f| f.stored[0].1.truncate(63),
        "filter of another size than it should be",
    ),
    (
        "a filter that is not there",
        |f| f.stored.truncate(1),
        "bytes end too early",
    ),
    // The server itself finds bytes after the object.
    ("a filter more", |f| f.stored.push((128, vec![0; 256])), ""),
    ("a newer version", |f| f.version = 5, "unsupported version"),
    ("version 1", |f| f.version = 1, "RedisBloom 2.0 or older"),
];

#[test]
fn forged_values_are_refused() {
    let mut refusing = Refusing::start();
    let mut client = refusing.server().client();
    let right = right();
    let payload = right.clone().payload([9, 0]);
    assert_eq!(client.call(&[b"RESTORE", b"right", b"0", &payload]), ok());
    let before = digest(&mut client, "right");
    for (what, spoil, words) in FAULTS {
        let mut forged = Forged::new();
        spoil(&mut forged);
        refusing.refuses(what, &forged.value(), words);
    }
    // Fields of other kinds.
    let ends = "bytes end too early";
    let start = || Rdb::of_type(TYPE_ID | 4);
    let numbers = || Forged::new().numbers().into_iter().fold(start(), Rdb::uint);
    for (what, value, words) in [
        ("nothing", start(), ends),
        ("a double for a number", start().double(2.0), ends),
        ("a number for slots", numbers().uint(32).uint(64), ends),
        ("a number after it", right.uint(1), ""),
    ] {
        refusing.refuses(what, &value, words);
    }
    assert_eq!(digest(&mut client, "right"), before);
}

#[test]
fn forged_headers_are_refused() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        let begin = |client: &mut Client, header: &[u8]| {
            client.call(&[b"CF.LOADCHUNK", b"forged", b"1", header])
        };
        let refused = error("ERR Couldn't create filter!");
        for (what, spoil, _) in &FAULTS[..4] {
            let mut forged = Forged::new();
            spoil(&mut forged);
            assert_eq!(begin(client, &forged.header()), refused, "{what}");
        }
        // Right in themselves, and beyond the limits: one filter over 64 MiB, and more filters than adds could make.
        for (buckets, filters) in [(1 << 26, 1), (1 << 25, 33), (2, 33), (2, 65_535)] {
            let claim = header([1, buckets, 0, filters], [2, 20, 1]);
            assert_eq!(begin(client, &claim), refused, "{filters} of {buckets}");
        }
        // Older headers, and bytes that are not a header.
        let right = Forged::new().header();
        for length in [0, 1, 32, 37, 39, 45, 47] {
            let mut header = right.clone();
            header.resize(length, 0);
            let refused = error("ERR Invalid header");
            assert_eq!(begin(client, &header), refused, "{length} bytes");
        }
        assert_eq!(client.cmd("DBSIZE"), int(0));
        assert_eq!(begin(client, &right), ok());
        let claim = header([100, 2, 0, 32], [2, 20, 1]);
        load(client, "many", &[(1, claim)]);
        assert_eq!(chunks(client, "many").len(), 33);
    });
}

/// Cursors, and how many bytes end at each of them, that do not lie within one of two filters of 64 and 128 slots.
const CHUNKS: &[(i64, usize)] = &[
    (2, 0),
    (2, 2),
    (1 - 64, 64),
    (-1, 1),
    (i64::MIN, 64),
    (65, 65),
    (194, 128),
    (195, 1),
    (i64::MAX, 1),
];

#[test]
fn chunks_outside_of_a_filter_are_refused() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        let right = Forged::new().header();
        for filled in [false, true] {
            load(client, "k", &[(1, right.clone())]);
            if filled {
                load(client, "k", &[(65, vec![1; 64]), (193, vec![2; 128])]);
            }
            let before = digest(client, "k");
            for (cursor, length) in CHUNKS {
                let end = cursor.to_string();
                let chunk = vec![7; *length];
                let words: [&[u8]; 4] = [b"CF.LOADCHUNK", b"k", end.as_bytes(), &chunk];
                let refused = error("ERR Couldn't load chunk!");
                assert_eq!(client.call(&words), refused, "{length} bytes to {cursor}");
            }
            assert_eq!(digest(client, "k"), before);
            assert_eq!(client.cmd("DEL k"), int(1));
        }
    });
}

/// Numbers of items and removals that are wrong come from damaged files, and are loaded. They never wrap.
#[test]
fn damaged_counts_do_not_wrap() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        for (items_claimed, deletes) in [(u64::MAX, 0), (1 << 63, u64::MAX), (1, 0)] {
            let mut forged = Forged::new();
            (forged.items, forged.deletes) = (items_claimed, deletes);
            let payload = forged.value().payload([9, 0]);
            assert_eq!(client.call(&[b"RESTORE", b"k", b"0", &payload]), ok());
            let header = forged.header();
            load(client, "claimed", &[(1, header)]);
            // One has the slots, the other only the claim.
            for (key, holds) in [("k", true), ("claimed", false)] {
                let items = 0..2000;
                items
                    .clone()
                    .for_each(|item| client.send(&format!("CF.DEL {key} {item}")));
                let removed = items.filter(|_| client.read() == truth(resp3, true));
                let removed = removed.count() as u64;
                assert_eq!(removed > 0, holds, "{key}");
                let reported = super::field(client, key, "Number of items inserted");
                let left = items_claimed.saturating_sub(removed);
                let most = i64::try_from(left).unwrap_or(i64::MAX);
                assert_eq!(reported, most, "{key}: {items_claimed} and {deletes}");
            }
            assert_eq!(client.cmd("CF.COMPACT k"), ok());
            assert_eq!(super::field(client, "k", "Number of items deleted"), 0);
            let before = digest(client, "k");
            assert_eq!(client.cmd("DEBUG RELOAD"), ok());
            assert_eq!(digest(client, "k"), before);
            assert_eq!(client.cmd("DEL k claimed"), int(2));
        }
    });
}
