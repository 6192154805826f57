//! Count-min sketches, Top-K and t-digests.

use std::collections::BTreeSet;

use crate::harness::{Client, array, double, int, nil, ok};
use valkeybloom_sketches::cms::Overflow;
use valkeybloom_testing::count_min::Naive as CountMin;

use super::super::{ITEMS, any, item};
use super::{JUNK, RedisBloom, Step, Value, Words, ask, fields, whole};

/// Checks a count-min sketch.
pub fn check_counts(client: &mut Client, key: &[u8], counts: &CountMin) {
    let count = i64::try_from(counts.count).expect("small");
    let info = [
        ("width", int(counts.width.cast_signed())),
        ("depth", whole(counts.rows.len())),
        ("count", int(count)),
    ];
    assert_eq!(ask(client, "CMS.INFO", key, &[]), fields(info));
    let pool: Vec<Vec<u8>> = (0..ITEMS).map(item).collect();
    let mut copy = counts.clone();
    let counts = pool
        .iter()
        .map(|item| int(copy.estimate(item).cast_signed()));
    assert_eq!(ask(client, "CMS.QUERY", key, &pool), array(counts));
}

/// A list with room for all its items, so that none leaves it.
pub struct TopK {
    numbers: [u64; 3],
    decay: f64,
    items: BTreeSet<Vec<u8>>,
}

impl TopK {
    pub fn check(&self, client: &mut Client, key: &[u8]) {
        let info = ask(client, "TOPK.INFO", key, &[]);
        let [_, k, _, width, _, depth, _, decay] = info.as_array() else {
            panic!("other fields: {info:?}")
        };
        let numbers = self.numbers.map(|number| int(number.cast_signed()));
        assert_eq!([k, width, depth].map(Clone::clone), numbers);
        let decay = decay.text().parse().expect("a number");
        assert_eq!(double(decay), double(self.decay));
        let items: Vec<Vec<u8>> = self.items.iter().cloned().collect();
        if !items.is_empty() {
            let all = array(vec![int(1); items.len()]);
            assert_eq!(ask(client, "TOPK.QUERY", key, &items), all);
        }
    }
}

/// What a t-digest knows exactly.
#[derive(Clone, Copy)]
pub struct Digest {
    compression: u64,
    pub observations: i64,
    min: f64,
    max: f64,
}

impl Digest {
    fn new(compression: u64) -> Self {
        Self {
            compression,
            observations: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }

    fn add_all(&mut self, other: &Self) {
        self.observations += other.observations;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub fn check(&self, client: &mut Client, key: &[u8]) {
        let info = ask(client, "TDIGEST.INFO", key, &[]);
        let info = [1, 13].map(|place| info.as_array()[place].as_int());
        assert_eq!(info, [self.compression.cast_signed(), self.observations]);
        for (name, end) in [("TDIGEST.MIN", self.min), ("TDIGEST.MAX", self.max)] {
            let own: f64 = ask(client, name, key, &[]).text().parse().expect("digits");
            let is_same = own.total_cmp(&end).is_eq() || own.is_nan() && self.observations == 0;
            assert!(is_same, "{own}, {end}");
        }
    }
}

impl RedisBloom {
    pub fn count(&mut self) -> Step {
        let key = self.key('m', "");
        if self.random.one_in(3) && self.counts(&key).is_some() {
            return self.merge_counts(&key);
        }
        let Some(Value::Counts(counts)) = self.values.get_mut(&key) else {
            // The last two shapes are from the page on these sketches.
            let (name, line, width, depth) = *self.random.pick(&[
                ("CMS.INITBYDIM", "10 3", 10, 3),
                ("CMS.INITBYDIM", "200 7", 200, 7),
                ("CMS.INITBYPROB", "1e-2 .01", 200, 7),
                ("CMS.INITBYPROB", "0.7 1e-9", 3, 30),
            ]);
            let mut words = Words::new(&mut self.random, name, &key);
            words.add_line(line);
            let step = words.step(ok(), true);
            let counts = CountMin::new(width, depth, 4);
            self.values.insert(key, Value::Counts(counts));
            return step;
        };
        let mut words = Words::new(&mut self.random, "CMS.INCRBY", &key);
        let items = words.add_items();
        words.all.truncate(2);
        let mut replies = Vec::new();
        for item in items {
            let by = words.random.next() % 9;
            let counted = counts.increment(&item, by.cast_signed(), Overflow::Refuse);
            replies.push(int(counted.expect("small").cast_signed()));
            words.add(item);
            words.add_number(by);
        }
        words.step(array(replies), true)
    }

    fn counts(&self, key: &[u8]) -> Option<&CountMin> {
        match self.values.get(key) {
            Some(Value::Counts(counts)) => Some(counts),
            _ => None,
        }
    }

    /// Returns one to three keys of a family.
    fn sources(&mut self, family: char, others: &str) -> Vec<Vec<u8>> {
        let count = 1 + self.random.below(3);
        (0..count).map(|_| self.key(family, others)).collect()
    }

    fn merge_counts(&mut self, key: &[u8]) -> Step {
        let sources = self.sources('m', "weights");
        let found: Vec<_> = sources
            .iter()
            .map(|source| self.counts(source).cloned())
            .collect();
        let shape = |counts: &CountMin| (counts.width, counts.rows.len());
        let own = self.counts(key).map(shape).expect("it is there");
        let mut words = Words::new(&mut self.random, "CMS.MERGE", key);
        words.add(sources.len().to_string());
        words.all.extend_from_slice(&sources);
        let mut weights = vec![1; sources.len()];
        if words.random.one_in(2) {
            words.add_cased("WEIGHTS");
            weights.fill_with(|| *words.random.pick(&[0, 1, 2, 3]));
            for weight in &weights {
                words.add(weight.to_string());
            }
        }
        if sources.contains(&b"weights".to_vec()) {
            return words.refused("CMS: wrong number of keys/weights");
        }
        let mut terms = Vec::new();
        for (source, weight) in found.iter().zip(weights) {
            match source {
                None => return words.refused("CMS: key does not exist"),
                Some(source) if shape(source) != own => {
                    return words.refused("CMS: width/depth is not equal");
                }
                Some(source) => terms.push((source, weight)),
            }
        }
        let merged = CountMin::merged(&terms).expect("small numbers");
        let step = words.step(ok(), true);
        self.values.insert(key.to_vec(), Value::Counts(merged));
        step
    }

    pub fn top(&mut self) -> Step {
        let key = self.key('k', "");
        let Some(Value::TopK(list)) = self.values.get_mut(&key) else {
            let numbers = [60, *self.random.pick(&[1000, 4000]), 7];
            let mut words = Words::new(&mut self.random, "TOPK.RESERVE", &key);
            for number in numbers {
                words.add_number(number);
            }
            words.add_any("0.9|1|.5|1e-3");
            let decay = String::from_utf8_lossy(&words.all[5]).parse();
            let list = TopK {
                numbers,
                decay: decay.expect("a number"),
                items: BTreeSet::new(),
            };
            let step = words.step(ok(), true);
            self.values.insert(key, Value::TopK(list));
            return step;
        };
        let name = *self.random.pick(&["TOPK.INCRBY", "TOPK.ADD"]);
        let mut words = Words::new(&mut self.random, name, &key);
        let count = 1 + words.random.below(5);
        for _ in 0..count {
            let item = item(words.random.below(40));
            list.items.insert(item.clone());
            words.add(item);
            if name == "TOPK.INCRBY" {
                let by = 1 + words.random.next() % 100;
                words.add_number(by);
            }
        }
        words.step(array(vec![nil(); count]), true)
    }

    pub fn digest(&mut self) -> Step {
        let key = self.key('t', "");
        if self.random.one_in(3) {
            return self.merge_digests(&key);
        }
        let Some(Value::Digest(digest)) = self.values.get_mut(&key) else {
            let mut compression = 100;
            let mut words = Words::new(&mut self.random, "TDIGEST.CREATE", &key);
            match words.random.below(4) {
                0 => {}
                1 => {
                    // The option may stand last, but so does its value.
                    words.add("7");
                    words.add_cased("COMPRESSION");
                    return words.refused("ERR T-Digest: error parsing compression parameter");
                }
                _ => {
                    compression = *words.random.pick(&[1, 20, 500]);
                    words.add_cased("COMPRESSION");
                    words.add_number(compression);
                }
            }
            let step = words.step(ok(), true);
            self.values
                .insert(key, Value::Digest(Digest::new(compression)));
            return step;
        };
        if self.random.one_in(8) {
            *digest = Digest::new(digest.compression);
            return Words::new(&mut self.random, "TDIGEST.RESET", &key).step(ok(), true);
        }
        let mut words = Words::new(&mut self.random, "TDIGEST.ADD", &key);
        for _ in 0..=words.random.below(60) {
            let text = match words.random.below(3) {
                0 => any(words.random, "+1|.5|5.|-1e5|0|2.5E-3|1e-320|-7"),
                _ => words.random.below(100).to_string().into(),
            };
            let value = String::from_utf8_lossy(&text).parse().expect("a number");
            words.add(text);
            digest.add_all(&Digest {
                observations: 1,
                min: value,
                max: value,
                ..*digest
            });
        }
        words.step(ok(), true)
    }

    /// Beside an option, other words are ignored, and so are repetitions.
    fn merge_digests(&mut self, key: &[u8]) -> Step {
        let sources = self.sources('t', "");
        let of = |values: &std::collections::BTreeMap<_, _>, key: &[u8]| match values.get(key) {
            Some(Value::Digest(digest)) => Some(*digest),
            _ => None,
        };
        let (mut given, mut overrides) = (None, false);
        let mut words = Words::new(&mut self.random, "TDIGEST.MERGE", key);
        words.add(sources.len().to_string());
        words.all.extend_from_slice(&sources);
        let options = words.all.len();
        while !words.random.one_in(3) {
            match words.random.below(4) {
                0 => {
                    words.add_cased("COMPRESSION");
                    let compression = 1 + words.random.next() % 200;
                    match given {
                        None => words.add_number(*given.insert(compression)),
                        Some(_) => words.add_any("x|-1|0|7"),
                    }
                }
                1 => {
                    words.add_cased("OVERRIDE");
                    overrides = true;
                }
                _ => words.add_any(JUNK),
            }
        }
        if words.all.len() > options && given.is_none() && !overrides {
            return words.refused("ERR T-Digest: wrong keyword");
        }
        let found: Option<Vec<Digest>> = sources
            .iter()
            .map(|source| of(&self.values, source))
            .collect();
        let Some(found) = found else {
            return words.refused("ERR T-Digest: key does not exist");
        };
        let own = of(&self.values, key).filter(|_| !overrides);
        let largest = found.iter().map(|digest| digest.compression).max();
        let compression = own.map(|own| own.compression).or(largest);
        let mut merged = Digest::new(given.or(compression).expect("sources"));
        for digest in found.iter().chain(&own) {
            merged.add_all(digest);
        }
        let step = words.step(ok(), true);
        self.values.insert(key.to_vec(), Value::Digest(merged));
        step
    }
}
