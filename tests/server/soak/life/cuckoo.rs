//! Cuckoo filters: the model predicts every answer and every slot.

use super::Life;
use super::model::{Entry, Held, WRONG_TYPE};
use crate::harness::{Client, Reply, array, error, int, nil, ok};
use crate::naive::Naive;
use crate::soak::Random;
use crate::support::cuckoo::{self, field};

/// Items that filters may hold: few, so that some are in several times, and some share a fingerprint.
const ITEMS: usize = 400;

/// The parameters of a filter.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    pub capacity: u64,
    pub bucket_size: u64,
    pub max_iterations: u64,
    pub expansion: u64,
}

/// The settings of a server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The parameters of filters created without options.
    defaults: Params,
    max_filters: usize,
}

impl Settings {
    pub fn of(client: &mut Client) -> Self {
        let mut setting = |name: &str| -> u64 {
            let reported = client.cmd(&format!("CONFIG GET bf.cf-{name}"));
            reported.as_array()[1].text().parse().expect("a number")
        };
        Self {
            defaults: Params {
                capacity: setting("initial-size"),
                bucket_size: setting("bucket-size"),
                max_iterations: setting("max-iterations"),
                expansion: setting("expansion-factor"),
            },
            max_filters: usize::try_from(setting("max-expansions")).expect("a few"),
        }
    }
}

impl Params {
    fn filter(self) -> Naive {
        Naive::new(
            self.capacity,
            self.bucket_size,
            self.max_iterations,
            self.expansion,
        )
    }
}

fn item(number: usize) -> String {
    format!("fingerprint-{number}")
}

/// Returns the header of a filter's chunks.
fn header(filter: &Naive) -> Vec<u8> {
    let filters = filter.filters.len() as u64;
    let short = [filter.size, filter.iterations, filter.expansion];
    cuckoo::header(
        [filter.items, filter.first_buckets, filter.deletes, filters],
        short.map(|number| u16::try_from(number).expect("of 16 bits")),
    )
}

/// Compares a key with the model of it.
#[track_caller]
pub fn check(client: &mut Client, key: &str, filter: &Naive, random: &mut Random) {
    for (name, expected) in [
        ("Number of buckets", filter.first_buckets),
        ("Number of filters", filter.filters.len() as u64),
        ("Number of items inserted", filter.items),
        ("Number of items deleted", filter.deletes),
        ("Bucket size", filter.size),
        ("Expansion rate", filter.expansion),
        ("Max iterations", filter.iterations),
    ] {
        let reported = field(client, key, name).cast_unsigned();
        assert_eq!(reported, expected, "{key}: {name}");
    }
    // A filter without items has no chunks.
    if let Some(((_, first), chunks)) = cuckoo::chunks(client, key).split_first() {
        assert_eq!(*first, header(filter), "{key}");
        let slots: Vec<&[u8]> = chunks.iter().map(|(_, chunk)| chunk.as_slice()).collect();
        assert!(slots == filter.filters, "{key} has other slots");
    } else {
        assert_eq!(filter.items, 0, "{key} gives no chunks");
    }
    let asked: Vec<String> = (0..40).map(|_| item(random.below(ITEMS))).collect();
    let answers = client.cmd(&format!("CF.MEXISTS {key} {}", asked.join(" ")));
    let expected = asked.iter().map(|item| filter.has(item.as_bytes()));
    assert_eq!(answers, array(expected.map(|has| int(has.into()))), "{key}");
    for item in &asked[..3] {
        let count = filter.count(item.as_bytes()).cast_signed();
        let reported = client.cmd(&format!("CF.COUNT {key} {item}"));
        assert_eq!(reported, int(count), "{key} {item}");
    }
}

impl Life {
    /// Takes a step with a cuckoo filter: at this key if it holds one, else mostly at another that does.
    pub(super) fn cuckoo(&mut self, key: &mut String, other: &str) {
        *key = self.key_holding(key.clone(), |_, held| matches!(held, Held::Cuckoo(_)));
        match self.random.below(10) {
            0 => self.reserve_cuckoo(key),
            1..5 => self.add_to_cuckoo(key),
            5..7 => self.remove_from_cuckoo(key),
            7 => self.compact(key),
            _ => self.load_cuckoo(key, other),
        }
    }

    /// Returns the filter that a command acts on, or the reply if there is no filter.
    fn cuckoo_at(&self, key: &str, missing: Reply) -> Result<Naive, Reply> {
        match self.entry(key).map(|entry| &entry.held) {
            None => Err(missing),
            Some(Held::Cuckoo(filter)) => Ok(filter.clone()),
            Some(_) => Err(error(WRONG_TYPE)),
        }
    }

    /// Puts a filter in the place of the one that was there, or where nothing was.
    fn put_cuckoo(&mut self, key: &str, filter: Naive) {
        let expires_ms = self.entry(key).map_or(-1, |entry| entry.expires_ms);
        let held = Held::Cuckoo(filter);
        self.put(key, Entry { held, expires_ms });
    }

    fn reserve_cuckoo(&mut self, key: &str) {
        let bucket_size = *self.random.pick(&[1, 2, 2, 3, 4]);
        let params = Params {
            capacity: 2 * bucket_size + self.random.next() % 200,
            bucket_size,
            max_iterations: *self.random.pick(&[1, 20, 500]),
            expansion: *self.random.pick(&[0, 1, 2, 3]),
        };
        let reply = self.call(&format!(
            "CF.RESERVE {key} {} BUCKETSIZE {} EXPANSION {} MAXITERATIONS {}",
            params.capacity, params.bucket_size, params.expansion, params.max_iterations
        ));
        match self.cuckoo_at(key, ok()) {
            Ok(_) => assert_eq!(reply, error("ERR item exists")),
            Err(expected) => {
                assert_eq!(reply, expected);
                if reply == ok() {
                    self.put_cuckoo(key, params.filter());
                }
            }
        }
    }

    fn add_to_cuckoo(&mut self, key: &str) {
        let settings = self.cuckoo_settings;
        let unless_present = self.random.one_in(2);
        let nx = if unless_present { "NX" } else { "" };
        let mut new = Some(settings.defaults);
        let (line, count) = match self.random.below(3) {
            0 => (format!("CF.ADD{nx} {key}"), None),
            1 => {
                new = None;
                (format!("CF.INSERT{nx} {key} NOCREATE ITEMS"), Some(60))
            }
            _ => {
                let capacity = 4 + self.random.next() % 200;
                new = new.map(|params| Params { capacity, ..params });
                let line = format!("CF.INSERT{nx} {key} CAPACITY {capacity} ITEMS");
                (line, Some(60))
            }
        };
        // Copies of few items make a filter grow.
        let kinds = *self.random.pick(&[3, ITEMS, ITEMS]);
        let most = count.map_or(1, |most| 1 + self.random.below(most));
        let items: Vec<String> = (0..most).map(|_| item(self.random.below(kinds))).collect();
        let reply = self.call(&format!("{line} {}", items.join(" ")));
        let found = self.cuckoo_at(key, error("ERR not found"));
        let mut filter = match (found, new) {
            (Ok(filter), _) => filter,
            (Err(_), Some(params)) if self.entry(key).is_none() => params.filter(),
            (Err(expected), _) => return assert_eq!(reply, expected),
        };
        let at_the_most = error("ERR Maximum expansions reached");
        if filter.filters.len() >= settings.max_filters {
            return assert_eq!(reply, at_the_most);
        }
        let added = items.iter().map(|item| {
            let item = item.as_bytes();
            if unless_present && filter.has(item) {
                0
            } else if filter.add(item, settings.max_filters) {
                1
            } else {
                -1
            }
        });
        let expected: Vec<i64> = added.collect();
        let expected = match (count, expected[0]) {
            (Some(_), _) => array(expected.into_iter().map(int)),
            (None, -1) if filter.expansion == 0 => error("ERR Filter is full"),
            (None, -1) => at_the_most,
            (None, added) => int(added),
        };
        assert_eq!(reply, expected, "{key}");
        self.put_cuckoo(key, filter);
    }

    /// Removes items, present or not: a removal may take another item's fingerprint, as the model predicts.
    fn remove_from_cuckoo(&mut self, key: &str) {
        for _ in 0..=self.random.below(40) {
            let item = item(self.random.below(ITEMS));
            let reply = self.call(&format!("CF.DEL {key} {item}"));
            match self.cuckoo_at(key, error("ERR Not found")) {
                Ok(mut filter) => {
                    let removed = filter.remove(item.as_bytes());
                    assert_eq!(reply, int(removed.into()), "{key} {item}");
                    self.put_cuckoo(key, filter);
                }
                Err(expected) => return assert_eq!(reply, expected),
            }
        }
    }

    fn compact(&mut self, key: &str) {
        let reply = self.call(&format!("CF.COMPACT {key}"));
        match self.cuckoo_at(key, error("ERR Cuckoo filter was not found")) {
            Ok(mut filter) => {
                assert_eq!(reply, ok());
                filter.compact(false);
                self.put_cuckoo(key, filter);
            }
            Err(expected) => assert_eq!(reply, expected),
        }
    }

    /// Loads the chunks of one key under another: the header, and of the slots all or some, in any order.
    fn load_cuckoo(&mut self, key: &str, other: &str) {
        let reply = self.call(&format!("CF.SCANDUMP {key} 0"));
        let whole = match self.cuckoo_at(key, error("ERR not found")) {
            Ok(filter) if filter.items == 0 => return assert_eq!(reply, array([int(0), nil()])),
            Ok(filter) => filter,
            Err(expected) => return assert_eq!(reply, expected),
        };
        let mut chunks = cuckoo::chunks(&mut self.client, key);
        let (_, header) = chunks.remove(0);
        let load: [&[u8]; 4] = [b"CF.LOADCHUNK", other.as_bytes(), b"1", &header];
        let reply = self.client.call(&load);
        self.note(&format!("CF.LOADCHUNK {other} 1: {reply:?}"));
        // It may have been made on the other server, which stacks more filters.
        let is_admitted = whole.filters.len() <= self.cuckoo_settings.max_filters;
        let created = if is_admitted {
            ok()
        } else {
            error("ERR Couldn't create filter!")
        };
        let expected = match self.cuckoo_at(other, created) {
            Ok(_) => error("ERR item exists"),
            Err(expected) => expected,
        };
        assert_eq!(reply, expected);
        if reply != ok() {
            return;
        }
        let mut loaded = whole;
        for slots in &mut loaded.filters {
            slots.fill(0);
        }
        let all = self.random.one_in(2);
        while !chunks.is_empty() {
            let index = self.random.below(chunks.len());
            let (cursor, chunk) = chunks.swap_remove(index);
            if all || self.random.one_in(2) {
                cuckoo::load(&mut self.client, other, &[(cursor, chunk.clone())]);
                self.note(&format!("CF.LOADCHUNK {other} {cursor}"));
                let mut slots = loaded.filters.iter_mut().scan(1, |end, slots| {
                    *end += slots.len();
                    Some((i64::try_from(*end).expect("small"), slots))
                });
                let of_chunk = slots.find(|(end, _)| *end == cursor);
                *of_chunk.expect("a chunk is a filter").1 = chunk;
            }
        }
        self.put_cuckoo(other, loaded);
    }
}
