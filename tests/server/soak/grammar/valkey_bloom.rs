//! valkey-bloom's words, and a model of its filters over the crate that it uses.

use std::collections::BTreeMap;

use bloomfilter::Bloom;

use crate::harness::{Client, array, int, nil, ok};
use crate::plain::{FIXED, Plain, PlainFilter};
use crate::soak::Random;

use super::{ITEMS, Peer, Step, Words, any, ask, delete_some, item, items, key, replies};

struct Filter {
    cells: Bloom<[u8]>,
    capacity: u64,
    items: u64,
}

/// A filter, and what its creation says.
struct Stack {
    rate: f64,
    ratio: f64,
    /// 0 if it does not grow.
    expansion: u64,
    seed: [u8; 32],
    filters: Vec<Filter>,
}

impl Stack {
    /// Returns what a command without options makes, but for the filters.
    fn new() -> Self {
        Self {
            rate: 0.01,
            ratio: 0.5,
            expansion: 2,
            seed: FIXED,
            filters: Vec::new(),
        }
    }

    fn with_filter(mut self, capacity: u64) -> Self {
        let rates = self
            .filters
            .iter()
            .fold(self.rate, |rate, _| rate * self.ratio);
        let size = usize::try_from(capacity).expect("small");
        let cells = Bloom::new_for_fp_rate_with_seed(size, rates, &self.seed);
        self.filters.push(Filter {
            cells: cells.expect("a size"),
            capacity,
            items: 0,
        });
        self
    }

    fn has(&self, item: &[u8]) -> bool {
        self.filters.iter().any(|filter| filter.cells.check(item))
    }

    fn add(&mut self, item: &[u8]) -> Option<bool> {
        if self.has(item) {
            return Some(false);
        }
        let newest = self.filters.last().expect("one");
        if newest.items == newest.capacity {
            let capacity = newest.capacity * self.expansion;
            (capacity > 0).then_some(())?;
            let grown = std::mem::replace(self, Self::new());
            *self = grown.with_filter(capacity);
        }
        let newest = self.filters.last_mut().expect("one");
        newest.cells.set(item);
        newest.items += 1;
        Some(true)
    }

    /// Returns the command that valkey-bloom sends for the creation.
    fn sent(&self, key: &[u8], items: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (rate, ratio, capacity) = (self.rate, self.ratio, self.filters[0].capacity);
        let line = format!(
            "BF.INSERT <key> CAPACITY {capacity} ERROR {rate} TIGHTENING {ratio} SEED <seed>"
        );
        let growth = match self.expansion {
            0 => " NONSCALING".to_owned(),
            expansion => format!(" EXPANSION {expansion}"),
        };
        let line = line + &growth + if items.is_empty() { "" } else { " ITEMS" };
        let words = line.split(' ').map(|word| match word {
            "<key>" => key.to_vec(),
            "<seed>" => self.seed.to_vec(),
            word => word.into(),
        });
        words.chain(items.iter().cloned()).collect()
    }

    /// Returns the bytes of BF.LOAD.
    fn dump(&self) -> Vec<u8> {
        let filters = self.filters.iter().map(|filter| {
            let bitmap = filter.cells.as_slice()[45..].to_vec();
            PlainFilter {
                hashes: filter.cells.number_of_hash_functions(),
                seed: self.seed,
                ..PlainFilter::new(filter.capacity, filter.items, bitmap)
            }
        });
        let plain = Plain {
            expansion: self.expansion,
            error_rate: self.rate,
            tightening: self.ratio,
            seed_is_random: u64::from(self.seed != FIXED),
            filters: filters.collect(),
            ..Plain::new()
        };
        plain.dump()
    }
}

pub struct ValkeyBloom {
    random: Random,
    stacks: BTreeMap<Vec<u8>, Stack>,
    made: usize,
}

impl ValkeyBloom {
    fn key(&mut self) -> Vec<u8> {
        key(
            &mut self.random,
            &mut self.made,
            'b',
            "NONSCALING|ITEMS||SEED|\0",
        )
    }

    /// Returns a capacity, and a rate with its word.
    fn size(&mut self) -> (u64, Vec<u8>, f64) {
        let word = any(&mut self.random, "0.01|1e-3|.5|0.3|0.9|1E-9|0.02");
        let rate = String::from_utf8_lossy(&word).parse();
        let capacity = *self.random.pick(&[1, 7, 100, 700]);
        (capacity, word, rate.expect("a number"))
    }

    fn reserve(&mut self) -> Step {
        let (key, (capacity, rate_word, rate)) = (self.key(), self.size());
        let mut words = Words::new(&mut self.random, "BF.RESERVE", &key);
        words.add(rate_word);
        words.add_number(capacity);
        let mut stack = Stack {
            rate,
            ..Stack::new()
        };
        match words.random.below(3) {
            0 => {
                words.add_cased("NONSCALING");
                stack.expansion = 0;
            }
            1 => {
                stack.expansion = 1 + words.random.below(4) as u64;
                words.add_cased("EXPANSION");
                words.add_number(stack.expansion);
            }
            _ => {}
        }
        if self.stacks.contains_key(&key) {
            return words.refused("ERR item exists");
        }
        let stack = stack.with_filter(capacity);
        let sent = Some(stack.sent(&key, &[]));
        self.stacks.insert(key, stack);
        Step {
            sent,
            ..words.step(ok(), true)
        }
    }

    /// Composes options. The last of a name counts.
    fn insert(&mut self) -> Step {
        let (key, mut stack, mut entries, mut creates) = (self.key(), Stack::new(), 100, true);
        // NONSCALING goes neither with EXPANSION nor with VALIDATESCALETO.
        let grows = self.random.one_in(2);
        let mut sizes: Vec<_> = (0..8).map(|_| self.size()).collect();
        let mut words = Words::new(&mut self.random, "BF.INSERT", &key);
        while let Some((capacity, rate_word, rate)) = sizes.pop() {
            match words.random.below(9) {
                0 => {
                    entries = capacity;
                    words.add_cased("CAPACITY");
                    words.add_number(capacity);
                }
                1 => {
                    stack.rate = rate;
                    words.add_cased("ERROR");
                    words.add(rate_word);
                }
                2 if grows => {
                    stack.expansion = 1 + words.random.below(4) as u64;
                    words.add_cased("EXPANSION");
                    words.add_number(stack.expansion);
                }
                3 if grows => {
                    words.add_cased("VALIDATESCALETO");
                    words.add_number(1);
                }
                2 | 3 => {
                    stack.expansion = 0;
                    words.add_cased("NONSCALING");
                }
                4 => {
                    stack.ratio = *words.random.pick(&[0.5, 0.3, 0.8]);
                    words.add_cased("TIGHTENING");
                    words.add(stack.ratio.to_string());
                }
                5 => {
                    let seed = words.random.bytes(32);
                    stack.seed = seed[..].try_into().expect("32 bytes");
                    words.add_cased("SEED");
                    words.add(seed);
                }
                6 if words.random.one_in(3) => {
                    creates = false;
                    words.add_cased("NOCREATE");
                }
                _ => sizes.truncate(2),
            }
        }
        let mut items = Vec::new();
        if !words.random.one_in(6) {
            words.add_cased("ITEMS");
            items = words.add_items();
        }
        if !creates && !self.stacks.contains_key(&key) {
            return words.refused("ERR not found");
        }
        Self::added(
            &mut self.stacks,
            &key,
            words,
            &items,
            stack.with_filter(entries),
        )
    }

    fn add(&mut self) -> Step {
        let (key, stack) = (self.key(), Stack::new().with_filter(100));
        let name = *self.random.pick(&["BF.ADD", "BF.MADD"]);
        let mut words = Words::new(&mut self.random, name, &key);
        let items = words.add_items_of(name);
        let mut step = Self::added(&mut self.stacks, &key, words, &items, stack);
        if name == "BF.ADD" {
            step.reply = step.reply.as_array()[0].clone();
        }
        step
    }

    /// Adds items to a filter that there is, or else to this one.
    fn added(
        stacks: &mut BTreeMap<Vec<u8>, Stack>,
        key: &[u8],
        words: Words,
        items: &[Vec<u8>],
        new: Stack,
    ) -> Step {
        let creation = (!stacks.contains_key(key)).then(|| new.sent(key, items));
        let stack = stacks.entry(key.to_vec()).or_insert(new);
        let replies = replies(items, |item| stack.add(item));
        // What added nothing is not sent.
        let mut step = words.step(array(replies.clone()), replies.contains(&int(1)));
        step.sent = creation.or(step.sent);
        step
    }

    fn load(&mut self) -> Step {
        let (key, (_, _, rate)) = (self.key(), self.size());
        let mut stack = Stack {
            rate,
            ..Stack::new()
        };
        if self.random.one_in(2) {
            stack.seed = self.random.bytes(32)[..].try_into().expect("32 bytes");
        }
        let mut stack = stack.with_filter(20);
        for item in items(&mut self.random) {
            let _ = stack.add(&item);
        }
        let mut words = Words::new(&mut self.random, "BF.LOAD", &key);
        words.add(stack.dump());
        if self.stacks.contains_key(&key) {
            return words.refused("BUSYKEY Target key name already exists.");
        }
        self.stacks.insert(key, stack);
        words.step(ok(), true)
    }
}

impl Peer for ValkeyBloom {
    const NAME: &str = "valkey-bloom";
    const READERS: &[&str] = &["own", "valkey-bloom", "redisbloom"];

    fn new(random: Random) -> Self {
        Self {
            random,
            stacks: BTreeMap::new(),
            made: 0,
        }
    }

    fn step(&mut self, steps: &mut Vec<Step>) {
        let next = match self.random.below(20) {
            0..4 => self.reserve(),
            4..12 => self.insert(),
            12..19 => self.add(),
            _ => self.load(),
        };
        steps.push(next);
        let is_deep = |stack: &Stack| stack.filters.len() > 20;
        delete_some(&mut self.random, &mut self.stacks, is_deep, steps);
    }

    fn check(&self, client: &mut Client) {
        let pool: Vec<Vec<u8>> = (0..ITEMS).map(item).collect();
        for (key, stack) in &self.stacks {
            assert_eq!(ask(client, "TYPE", key, &[]).text(), "bloomfltr");
            let sum = |of: fn(&Filter) -> u64| {
                let sum: u64 = stack.filters.iter().map(of).sum();
                int(sum.cast_signed())
            };
            let expansion = match stack.expansion {
                0 => nil(),
                factor => int(factor.cast_signed()),
            };
            for (name, expected) in [
                ("CAPACITY", sum(|filter| filter.capacity)),
                ("ITEMS", sum(|filter| filter.items)),
                ("FILTERS", sum(|_| 1)),
                ("EXPANSION", expansion),
            ] {
                let field = ask(client, "BF.INFO", key, &[name.into()]);
                assert_eq!(field, array([expected]), "{name}");
            }
            let is_rate = |(name, _): &(&str, f64)| *name == "ERROR" || stack.expansion > 0;
            let rates = [("ERROR", stack.rate), ("TIGHTENING", stack.ratio)];
            for (name, rate) in rates.into_iter().filter(is_rate) {
                let field = ask(client, "BF.INFO", key, &[name.into()]);
                let own: f64 = field.as_array()[0].text().parse().expect("digits");
                assert!(own.total_cmp(&rate).is_eq(), "{name}: {own}");
            }
            let answers = pool.iter().map(|item| int(stack.has(item).into()));
            assert_eq!(ask(client, "BF.MEXISTS", key, &pool), array(answers));
        }
    }
}
