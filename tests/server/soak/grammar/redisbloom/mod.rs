//! RedisBloom's words for all five families, and models of what they make, from the pages on its bytes and commands.

mod bloom;
mod cuckoo;
mod sketches;

use std::collections::BTreeMap;

use crate::harness::{Client, Reply, array, int, simple};
use crate::soak::Random;
use valkeybloom_testing::count_min::Naive as CountMin;
use valkeybloom_testing::draft::Draft;
use valkeybloom_testing::naive::Naive;

use super::{Peer, Step, Words, ask, delete_some, key};

use sketches::{Digest, TopK};

pub use bloom::{check_bloom, loading};

/// Words that are not options of BF.RESERVE, CF.RESERVE and TDIGEST.MERGE.
const JUNK: &str = "junk||EX|3600|PX|NX|COUNTING|WINDOW|PERIODS|2|0|TIGHTENING|SEED|ITEMS|CAPACITY|ERROR|NOCREATE|\
    nonscalin|EXPANSIONS|EXPANSION\0|NON";

enum Value {
    Bloom(Draft),
    Cuckoo(Naive),
    Counts(CountMin),
    TopK(TopK),
    Digest(Digest),
}

impl Value {
    /// Returns whether the value is too large to go on with.
    fn is_large(&self) -> bool {
        match self {
            Self::Bloom(draft) => {
                let bytes: usize = draft.links.iter().map(|link| link.bitmap.len()).sum();
                draft.links.len() > 40 || bytes > 300_000
            }
            Self::Cuckoo(filter) => {
                let slots: usize = filter.filters.iter().map(Vec::len).sum();
                filter.filters.len() > 8 || slots > 100_000
            }
            Self::Counts(counts) => counts.count > 1_000_000,
            Self::TopK(_) => false,
            Self::Digest(digest) => digest.observations > 100_000,
        }
    }
}

pub struct RedisBloom {
    random: Random,
    values: BTreeMap<Vec<u8>, Value>,
    made: usize,
}

impl RedisBloom {
    /// Returns a key of a family, or now and then one of others.
    fn key(&mut self, family: char, others: &str) -> Vec<u8> {
        key(&mut self.random, &mut self.made, family, others)
    }
}

/// Returns fields with names, as a reply in RESP2.
fn fields<'f>(pairs: impl IntoIterator<Item = (&'f str, Reply)>) -> Reply {
    let pairs = pairs.into_iter();
    array(pairs.flat_map(|(name, value)| [simple(name), value]))
}

fn whole(value: usize) -> Reply {
    int(i64::try_from(value).expect("small"))
}

impl Peer for RedisBloom {
    const NAME: &str = "redisbloom";
    const READERS: &[&str] = &["redisbloom"];

    fn new(random: Random) -> Self {
        Self {
            random,
            values: BTreeMap::new(),
            made: 0,
        }
    }

    fn step(&mut self, steps: &mut Vec<Step>) {
        let next = match self.random.below(50) {
            0..9 => self.reserve(),
            9..20 => self.insert(),
            20..25 => self.add(),
            25..27 => return self.load(steps),
            27..31 => self.reserve_cuckoo(),
            31..35 => self.insert_cuckoo(),
            35..38 => self.change_cuckoo(),
            38..43 => self.count(),
            43..45 => self.top(),
            _ => self.digest(),
        };
        steps.push(next);
        delete_some(&mut self.random, &mut self.values, Value::is_large, steps);
    }

    fn check(&self, client: &mut Client) {
        assert_eq!(client.cmd("DBSIZE"), whole(self.values.len()));
        for (key, value) in &self.values {
            let kind = match value {
                Value::Bloom(draft) => {
                    check_bloom(client, key, draft);
                    "MBbloom--"
                }
                Value::Cuckoo(filter) => {
                    cuckoo::check(client, key, filter);
                    "MBbloomCF"
                }
                Value::Counts(counts) => {
                    sketches::check_counts(client, key, counts);
                    "CMSk-TYPE"
                }
                Value::TopK(list) => {
                    list.check(client, key);
                    "TopK-TYPE"
                }
                Value::Digest(digest) => {
                    digest.check(client, key);
                    "TDIS-TYPE"
                }
            };
            assert_eq!(ask(client, "TYPE", key, &[]).text(), kind);
        }
    }
}
