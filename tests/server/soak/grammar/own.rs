//! This module's words for all kinds of Bloom filters. The rate is so low that no answer is wrong: a map is the model.

use std::collections::BTreeMap;

use crate::harness::{Client, array, int, ok};
use crate::soak::Random;

use super::{ITEMS, Peer, Step, Words, ask, item, replies};

/// The rate of all filters.
const RATE: &str = "0.000000001";

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Scaling,
    Fixed,
    Windowed,
    Counting,
    ScaledTo,
}

struct Filter {
    kind: Kind,
    capacity: usize,
    /// Whether it took items beyond its capacity.
    is_saturated: bool,
    /// The items, and how often each was added.
    items: BTreeMap<Vec<u8>, u64>,
}

impl Filter {
    fn add(&mut self, item: &[u8], saturates: bool) -> Option<bool> {
        let is_new = !self.items.contains_key(item);
        if is_new && self.kind == Kind::Fixed && self.items.len() >= self.capacity {
            self.is_saturated |= saturates;
            saturates.then_some(())?;
        }
        *self.items.entry(item.to_vec()).or_default() += 1;
        Some(is_new)
    }

    /// Removes an item once.
    fn remove(&mut self, item: &[u8]) -> bool {
        let Some(count) = self.items.get_mut(item) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.items.remove(item);
        }
        true
    }
}

pub struct Own {
    random: Random,
    filters: BTreeMap<Vec<u8>, Filter>,
    saturates: bool,
}

impl Own {
    fn create(&mut self, key: &[u8]) -> Step {
        let random = &mut self.random;
        let kind = *random.pick(&[
            Kind::Scaling,
            Kind::Fixed,
            Kind::Windowed,
            Kind::Counting,
            Kind::ScaledTo,
        ]);
        let (capacity, shape, of_items) = match kind {
            Kind::Scaling => (50, "EXPANSION 2", ""),
            Kind::Fixed => (20, "NONSCALING", ""),
            Kind::Windowed => (40, "WINDOW 1000000000000 PERIODS 3", "TTL 2000000000000"),
            Kind::Counting => (20, "COUNTING EXPANSION 1", ""),
            Kind::ScaledTo => (20, "SCALETO 30", ""),
        };
        let reserves = random.one_in(2);
        let ratio = *random.pick(&["0.5", "0.3"]);
        let (name, line) = if reserves {
            (
                "BF.RESERVE",
                format!("{RATE} {capacity} {shape} NX EX 1000000"),
            )
        } else {
            let rest = format!("TIGHTENING {ratio} {of_items} {shape}");
            (
                "BF.INSERT",
                format!("ERROR {RATE} CAPACITY {capacity} {rest}"),
            )
        };
        let mut words = Words::new(random, name, key);
        words.add_line(&line);
        let mut filter = Filter {
            kind,
            capacity,
            is_saturated: false,
            items: BTreeMap::new(),
        };
        let reply = if reserves {
            ok()
        } else {
            if words.random.one_in(2) {
                let seed = words.random.bytes(32);
                words.add_cased("SEED");
                words.add(seed);
            }
            words.add_cased("ITEMS");
            let items = words.add_items();
            array(replies(&items, |item| filter.add(item, self.saturates)))
        };
        let step = words.step(reply, false);
        self.filters.insert(key.to_vec(), filter);
        step
    }

    fn change(&mut self, key: &[u8]) -> Step {
        let filter = self.filters.get_mut(key).expect("it is there");
        let name = match self.random.below(4) {
            0 if filter.kind == Kind::Counting => "BF.MDEL",
            0 | 1 => "BF.INSERT",
            2 => "BF.MADD",
            _ => "BF.ADD",
        };
        let mut words = Words::new(&mut self.random, name, key);
        if name == "BF.INSERT" {
            let (option, most) = match filter.kind {
                Kind::Windowed => ("TTL", 3_000_000_000_000),
                _ => ("CAPACITY", 1000),
            };
            words.add_cased("NOCREATE");
            words.add_cased(option);
            let number = 1 + words.random.next() % most;
            words.add_number(number);
            words.add_cased("ITEMS");
        }
        let items = words.add_items_of(name);
        let mut replies = replies(&items, |item| match name {
            "BF.MDEL" => Some(filter.remove(item)),
            _ => filter.add(item, self.saturates),
        });
        let reply = match name {
            "BF.ADD" => replies.remove(0),
            _ => array(replies),
        };
        words.step(reply, false)
    }
}

impl Peer for Own {
    const NAME: &str = "own";
    const READERS: &[&str] = &[];

    fn new(random: Random) -> Self {
        Self {
            random,
            filters: BTreeMap::new(),
            saturates: false,
        }
    }

    fn step(&mut self, steps: &mut Vec<Step>) {
        let key = item(self.random.below(40));
        let next = match (self.random.below(60), self.filters.contains_key(&key)) {
            (0, _) => {
                self.saturates = !self.saturates;
                let mut words = Words::new(&mut self.random, "CONFIG", b"SET");
                words.add("bf.bloom-saturate-nonscaling");
                words.add(if self.saturates { "yes" } else { "no" });
                words.step(ok(), false)
            }
            (1, true) => {
                self.filters.remove(&key);
                Words::new(&mut self.random, "DEL", &key).step(int(1), false)
            }
            (_, true) => self.change(&key),
            (_, false) => self.create(&key),
        };
        steps.push(next);
    }

    fn check(&self, client: &mut Client) {
        for (key, filter) in &self.filters {
            let kind = match filter.kind {
                Kind::Scaling | Kind::Fixed => "bloomfltr",
                Kind::Windowed | Kind::Counting | Kind::ScaledTo => "bloomfltx",
            };
            assert_eq!(ask(client, "TYPE", key, &[]).text(), kind);
            let mut all: Vec<Vec<u8>> = filter.items.keys().cloned().collect();
            if !filter.is_saturated {
                all.extend((0..ITEMS).map(item));
            }
            let count = |item| {
                filter
                    .items
                    .get(item)
                    .map_or(0, |count| count.cast_signed())
            };
            let answers = all.iter().map(|item| int(count(item).min(1)));
            assert_eq!(ask(client, "BF.MEXISTS", key, &all), array(answers));
            if filter.kind == Kind::Counting {
                let query = |item: &Vec<u8>| vec![b"BF.COUNT".to_vec(), key.clone(), item.clone()];
                let counts = client.call_all(&all.iter().map(query).collect::<Vec<_>>());
                let expected = all.iter().map(|item| int(count(item)));
                assert_eq!(counts, expected.collect::<Vec<_>>());
            }
        }
    }
}
