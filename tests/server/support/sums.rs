//! The sums of INFO bf, and the same sums over the keyspace.

use crate::cuckoo;
use crate::harness::{Client, Reply, ok, simple};
use crate::support::pieces::{object, pieces};
use crate::support::sketches;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    bytes: i64,
    pub objects: i64,
    filters: i64,
    items: i64,
    capacity: i64,
    half_loaded: i64,
    /// The most filters of an object: not a sum, but as exact.
    pub max_filters: i64,
    /// The number of sketches of each family in `sketches::FAMILIES`.
    sketches: [i64; 3],
    sketch_bytes: [i64; 3],
    /// The sums of cuckoo filters.
    cuckoo: Cuckoos,
    cuckoo_bytes: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cuckoos {
    objects: i64,
    filters: i64,
    items: i64,
    slots: i64,
    /// The most filters of an object.
    max_filters: i64,
}

impl Cuckoos {
    /// Adds the object that a reply of CF.INFO describes.
    fn add(&mut self, info: &Reply) {
        let field = |index: usize| info.as_array()[2 * index + 1].as_int();
        let (size, filters, items) = (field(0), field(2), field(3));
        self.objects += 1;
        self.filters += filters;
        // RedisBloom's overhead is in the size.
        let slots = size - 40 - 16 * filters;
        // A header may claim more items than there are slots.
        self.items += items.min(slots);
        self.slots += slots;
        self.max_filters = self.max_filters.max(filters);
    }
}

impl Sums {
    /// Reads the sums of INFO.
    #[track_caller]
    pub fn read(client: &mut Client) -> Self {
        Self::of(&client.cmd("INFO bf").text())
    }

    #[track_caller]
    pub fn of(info: &str) -> Self {
        let field = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|line| line.strip_prefix(':'));
            let value = value.unwrap_or_else(|| panic!("no {name} in {info:?}"));
            value.parse::<i64>().expect("a number, not below 0")
        };
        let of_each = |name: &str| {
            let mut all = [0; 3];
            for (sum, (_, family)) in all.iter_mut().zip(sketches::FAMILIES) {
                *sum = field(&format!("bf_{family}_{name}"));
            }
            all
        };
        Self {
            bytes: field("bf_bloom_total_memory_bytes"),
            objects: field("bf_bloom_num_objects"),
            filters: field("bf_bloom_num_filters_across_objects"),
            items: field("bf_bloom_num_items_across_objects"),
            capacity: field("bf_bloom_capacity_across_objects"),
            half_loaded: field("bf_bloom_num_half_loaded_objects"),
            max_filters: field("bf_bloom_max_filters_in_object"),
            sketches: of_each("num_objects"),
            sketch_bytes: of_each("total_memory_bytes"),
            cuckoo: Cuckoos {
                objects: field("bf_cuckoo_num_objects"),
                filters: field("bf_cuckoo_num_filters_across_objects"),
                items: field("bf_cuckoo_num_items_across_objects"),
                slots: field("bf_cuckoo_num_slots_across_objects"),
                max_filters: field("bf_cuckoo_max_filters_in_object"),
            },
            cuckoo_bytes: field("bf_cuckoo_total_memory_bytes"),
        }
    }

    /// Returns all sums but the bytes: half loaded objects have other spare room in another server.
    pub fn counts(self) -> Self {
        Self {
            bytes: 0,
            sketch_bytes: [0; 3],
            cuckoo_bytes: 0,
            ..self
        }
    }
}

/// The most that MEMORY USAGE counts for a key beyond its value.
const PER_KEY_MAX: i64 = 200;

/// Compares INFO with the sum over BF.INFO of all keys of all databases. The connection is in the
/// first database then.
#[track_caller]
pub fn is_balanced(client: &mut Client) {
    is_balanced_after(client, "what was done");
}

#[track_caller]
pub fn is_balanced_after(client: &mut Client, step: &str) {
    let reported = Sums::read(client);
    let mut sums = Sums::default();
    // BF.INFO does not report the size of half loaded objects; MEMORY USAGE does, key included.
    let mut half_bytes = 0;
    let keyspace = client.cmd("INFO keyspace").text();
    let databases = keyspace.lines().filter_map(|line| {
        let (name, _) = line.split_once(':')?;
        name.strip_prefix("db")?.parse::<u32>().ok()
    });
    for database in databases {
        assert_eq!(client.cmd(&format!("SELECT {database}")), ok());
        let keys = client.cmd("KEYS *");
        let keys = keys.as_array();
        for key in keys {
            client.send_args(&[b"BF.INFO", key.as_bytes()]);
            client.send_args(&[b"CF.INFO", key.as_bytes()]);
            client.send_args(&[b"MEMORY", b"USAGE", key.as_bytes()]);
            client.send_args(&[b"TYPE", key.as_bytes()]);
        }
        let mut windowed = Vec::new();
        for key in keys {
            let [info, cuckoo_info, usage, kind] = [(); 4].map(|()| client.read());
            let mut families = sketches::FAMILIES.iter();
            let family = families.position(|(name, _)| kind == simple(name));
            match info {
                _ if family.is_some() => {
                    let family = family.unwrap_or_default();
                    sums.sketches[family] += 1;
                    sums.sketch_bytes[family] += usage.as_int();
                }
                _ if kind == simple(cuckoo::TYPE) => {
                    sums.cuckoo.add(&cuckoo_info);
                    sums.cuckoo_bytes += usage.as_int();
                }
                Reply::Array(fields) => {
                    sums.objects += 1;
                    sums.bytes += fields[3].as_int();
                    // BF.INFO counts the live periods. Expired periods that are not freed yet are held, too.
                    if fields.contains(&simple("Window")) {
                        windowed.push(key.as_bytes().to_vec());
                        continue;
                    }
                    sums.capacity += fields[1].as_int();
                    sums.filters += fields[5].as_int();
                    sums.max_filters = sums.max_filters.max(fields[5].as_int());
                    sums.items += fields[7].as_int();
                }
                Reply::Error(text) if text == "ERR bloom object is still being loaded" => {
                    sums.objects += 1;
                    sums.half_loaded += 1;
                    half_bytes += usage.as_int();
                }
                other => assert!(other.text().starts_with("WRONGTYPE "), "{other:?}"),
            }
        }
        for key in windowed {
            let held = object(&pieces(client, &String::from_utf8_lossy(&key)));
            let (filters, items, capacity) = held.totals();
            let signed = |number: u64| i64::try_from(number).expect("a number of this size");
            sums.filters += signed(filters);
            sums.max_filters = sums.max_filters.max(signed(filters));
            sums.items += signed(items);
            sums.capacity += signed(capacity);
        }
    }
    assert_eq!(client.cmd("SELECT 0"), ok());
    let beyond = half_bytes - (reported.bytes - sums.bytes);
    assert!(
        (0..=sums.half_loaded * PER_KEY_MAX).contains(&beyond),
        "after {step}: {reported:?} told, {sums:?} and {half_bytes} bytes of what is half loaded are there"
    );
    sums.bytes = reported.bytes;
    let sketches = sums.sketch_bytes.iter_mut().zip(reported.sketch_bytes);
    let cuckoo = (&mut sums.cuckoo_bytes, reported.cuckoo_bytes);
    let values = sums.sketches.into_iter().chain([sums.cuckoo.objects]);
    for ((usage, told_bytes), values) in sketches.chain([cuckoo]).zip(values) {
        let beyond = *usage - told_bytes;
        assert!(
            (0..=values * PER_KEY_MAX).contains(&beyond),
            "after {step}: {usage} bytes of {values} values, {reported:?} told"
        );
        *usage = told_bytes;
    }
    assert_eq!(reported, sums, "after {step}: reported, and counted");
}
