//! The sums of INFO bf, and the same sums over the keyspace.

use crate::harness::{Client, Reply, error, wait_until};
use crate::support::pieces::{object, pieces};

/// The families: the start of the names in INFO, the names of the sums but the bytes, and the command that describes a
/// value.
const FAMILIES: [(&str, &str, &[u8]); 5] = [
    (
        "bloom",
        "num_objects num_filters_across_objects num_items_across_objects capacity_across_objects \
         num_redisbloom_objects num_half_loaded_objects",
        b"BF.INFO",
    ),
    (
        "cuckoo",
        "num_objects num_filters_across_objects num_items_across_objects num_slots_across_objects",
        b"CF.INFO",
    ),
    (
        "cms",
        "num_objects num_counters_across_objects",
        b"CMS.INFO",
    ),
    (
        "topk",
        "num_objects num_items_across_objects num_cells_across_objects",
        b"TOPK.INFO",
    ),
    (
        "tdigest",
        "num_objects num_nodes_across_objects num_observations_across_objects",
        b"TDIGEST.INFO",
    ),
];

/// Returns the index of the family that a type belongs to.
fn family_of(kind: &str) -> Option<usize> {
    Some(match kind {
        "bloomfltr" | "bloomfltx" | "MBbloom--" => 0,
        "MBbloomCF" => 1,
        "CMSk-TYPE" => 2,
        "TopK-TYPE" => 3,
        "TDIS-TYPE" => 4,
        _ => return None,
    })
}

/// The sums of every family, in the order of [`FAMILIES`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    bytes: [i64; 5],
    counts: [[i64; 6]; 5],
    /// The number of feeds, their bytes, and their readers.
    feeds: [i64; 3],
}

impl Sums {
    /// Reads the sums of INFO, once the server frees nothing in the background.
    #[track_caller]
    pub fn read(client: &mut Client) -> Self {
        wait_until("nothing is being freed", || {
            let memory = client.cmd("INFO memory").text();
            memory.contains("lazyfree_pending_objects:0\r\n")
        });
        let info = client.cmd("INFO bf").text();
        let field = |family: &str, name: &str| {
            let name = format!("bf_{family}_{name}:");
            let line = info.lines().find_map(|line| line.strip_prefix(&name));
            let value = line.unwrap_or_else(|| panic!("no {name} in {info:?}"));
            value.parse::<i64>().expect("a number, not below 0")
        };
        let mut sums = Self::default();
        for (index, (family, names, _)) in FAMILIES.iter().enumerate() {
            sums.bytes[index] = field(family, "total_memory_bytes");
            for (to, name) in sums.counts[index].iter_mut().zip(names.split(' ')) {
                *to = field(family, name);
            }
        }
        let names = ["num_feeds", "feed_memory_bytes", "num_feed_readers"];
        sums.feeds = names.map(|name| field("bloom", name));
        sums
    }

    /// Returns the bytes of all values.
    pub fn bytes(self) -> i64 {
        self.bytes.iter().sum()
    }
}

/// Returns the share of a Bloom filter in its family's sums, and in those of feeds.
fn shares_of_bloom(client: &mut Client, key: &[u8], kind: &str) -> ([i64; 6], [i64; 3]) {
    // Without a field, BF.INFO estimates the rate, which takes longer than all the rest of a check.
    let names: [&[u8]; 6] = [
        b"FILTERS",
        b"ITEMS",
        b"CAPACITY",
        b"WINDOW",
        b"FEEDBYTES",
        b"FEEDREADERS",
    ];
    let ask = |name: &[u8]| [FAMILIES[0].2, key, name].map(<[u8]>::to_vec).to_vec();
    let replies = client.call_all(&names.map(ask));
    let fields = replies.iter().map(|reply| match reply {
        Reply::Array(value) => Some(value[0].as_int()),
        _ => None,
    });
    let fields: Vec<_> = fields.collect();
    let of_redisbloom = i64::from(kind == "MBbloom--");
    let counts = match fields[..4] {
        [Some(filters), Some(items), Some(capacity), None] => {
            [1, filters, items, capacity, of_redisbloom, 0]
        }
        // BF.INFO counts the live periods. Expired periods that are not freed yet are held, too.
        [_, _, _, Some(_)] => {
            let held = object(&pieces(client, key));
            let (filters, items, capacity) = held.totals();
            let signed = |number: u64| i64::try_from(number).expect("a number of this size");
            [1, signed(filters), signed(items), signed(capacity), 0, 0]
        }
        _ => {
            let loading = error("ERR bloom object is still being loaded");
            assert_eq!(replies[0], loading);
            [1, 0, 0, 0, of_redisbloom, 1]
        }
    };
    let feed = match fields[4..] {
        [Some(bytes), Some(readers)] => [1, bytes, readers],
        _ => [0; 3],
    };
    (counts, feed)
}

/// Returns the share of a value of another family in its sums.
fn shares(client: &mut Client, key: &[u8], family: usize) -> [i64; 6] {
    let info = client.call(&[FAMILIES[family].2, key]);
    let field = |index: usize| info.as_array()[2 * index + 1].as_int();
    match family {
        1 => {
            let (size, filters, items) = (field(0), field(2), field(3));
            // RedisBloom's overhead is in the size, and a header may claim more items than there are slots.
            let slots = size - 40 - 16 * filters;
            [1, filters, items.min(slots), slots, 0, 0]
        }
        2 => [1, field(0) * field(1), 0, 0, 0, 0],
        3 => {
            let listed = client.call(&[b"TOPK.LIST", key]).as_array().len();
            let listed = i64::try_from(listed).expect("a list");
            [1, listed, field(1) * field(2), 0, 0, 0]
        }
        // Compression, capacity, merged and unmerged nodes, their weights, observations.
        _ => [1, field(2) + field(3), field(6), 0, 0, 0],
    }
}

/// The most that MEMORY USAGE counts for a key beyond its value.
const PER_KEY_MAX: i64 = 200;

/// Compares INFO with the sum over all keys of all databases. The connection is in the first database then.
#[track_caller]
pub fn is_balanced(client: &mut Client) {
    let mut reported = Sums::read(client);
    let found = loop {
        let found = found(client);
        let then = Sums::read(client);
        if then == reported {
            break found;
        }
        // In the meantime a feed ended, or lost a reader.
        assert_eq!(reported.counts, then.counts);
        reported = then;
    };
    assert_eq!(reported.counts, found.counts);
    assert_eq!(reported.feeds, found.feeds);
    for (family, values) in found.counts.map(|counts| counts[0]).into_iter().enumerate() {
        let beyond = found.bytes[family] - reported.bytes[family];
        assert!(
            (0..=values * PER_KEY_MAX).contains(&beyond),
            "{found:?} found, {reported:?} reported"
        );
    }
}

/// Returns the sums over all keys of all databases. The connection is in the first database then.
fn found(client: &mut Client) -> Sums {
    let mut found = Sums::default();
    let keyspace = client.cmd("INFO keyspace").text();
    let databases = keyspace.lines().filter_map(|line| {
        let (name, _) = line.split_once(':')?;
        name.strip_prefix("db")?.parse::<u32>().ok()
    });
    for database in databases {
        client.ok(format!("SELECT {database}"));
        for key in client.cmd("KEYS *").as_array() {
            let key = key.as_bytes();
            let Reply::Simple(kind) = client.call(&[b"TYPE", key]) else {
                panic!("TYPE replies a word");
            };
            let Some(family) = family_of(&kind) else {
                continue;
            };
            found.bytes[family] += client.call(&[b"MEMORY", b"USAGE", key]).as_int();
            let (counts, feed) = if family == 0 {
                shares_of_bloom(client, key, &kind)
            } else {
                (shares(client, key, family), [0; 3])
            };
            for (sum, count) in found.counts[family].iter_mut().zip(counts) {
                *sum += count;
            }
            for (sum, count) in found.feeds.iter_mut().zip(feed) {
                *sum += count;
            }
        }
    }
    client.ok("SELECT 0");
    found
}
