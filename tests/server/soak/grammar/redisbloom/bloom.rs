//! Bloom filters.

use crate::harness::{Client, array, bulk, int, nil, ok};
use crate::soak::Random;
use crate::support::aof::Command;
use valkeybloom_testing::draft::{Draft, Link};

use super::super::{any, items, replies};
use super::{JUNK, RedisBloom, Step, Value, Words, ask, fields, whole};

const RATES: &str =
    "0.01|.001|1e-3|1E-2|+0.02|2.e-2|0.25|0.2500001|0.3|0.5|0.9999999|0.00000000001";
/// Rates whose filters take a kilobit for an item.
const SUBNORMAL: &str = "1e-320|2e-310|0.1e-319";

/// A capacity and a rate, with their words.
struct Size {
    entries: u64,
    rate: f64,
    rate_word: Vec<u8>,
}

impl RedisBloom {
    fn size(&mut self) -> Size {
        let entries = *self.random.pick(&[1, 2, 5, 10, 100, 700, 1000]);
        let (rates, entries) = match self.random.below(60) {
            0 => ("0.25", 1 << 30),
            1..4 => (SUBNORMAL, 1000),
            _ => (RATES, entries),
        };
        let rate_word = any(&mut self.random, rates);
        let rate = String::from_utf8_lossy(&rate_word).parse();
        Size {
            entries,
            rate: rate.expect("a number"),
            rate_word,
        }
    }

    /// Options are looked for in all words, the key included, and the first of a name counts. Other words are ignored.
    pub fn reserve(&mut self) -> Step {
        let key = self.key('b', "NONSCALING|nonscaling|EXPANSION|Expansion");
        let size = self.size();
        let mut fixed = key.eq_ignore_ascii_case(b"NONSCALING");
        let mut factor = None;
        let mut words = Words::new(&mut self.random, "BF.RESERVE", &key);
        words.add(size.rate_word);
        words.add_number(size.entries);
        while words.all.len() < 6 && !words.random.one_in(3) {
            match words.random.below(5) {
                0 | 1 => {
                    words.add_cased("EXPANSION");
                    let is_wide = size.entries >= 700 && words.random.one_in(10);
                    let value = if is_wide {
                        32768
                    } else {
                        words.random.next() % 5
                    };
                    match factor {
                        None => words.add_number(*factor.insert(value)),
                        Some(_) => words.add_any(JUNK),
                    }
                }
                2 => {
                    words.add_cased("NONSCALING");
                    fixed = true;
                }
                _ => words.add_any(JUNK),
            }
        }
        if key.eq_ignore_ascii_case(b"EXPANSION") {
            return words.refused("ERR bad expansion");
        }
        if fixed && factor > Some(0) {
            return words.refused("Nonscaling filters cannot expand");
        }
        if self.values.contains_key(&key) {
            return words.refused("ERR item exists");
        }
        let fixed = fixed || factor == Some(0);
        let draft = Draft::made(size.entries, size.rate, factor.unwrap_or(2), fixed);
        let step = words.step(ok(), true);
        self.values.insert(key, Value::Bloom(draft));
        step
    }

    /// A few letters of an option are enough, and the last of a name counts.
    pub fn insert(&mut self) -> Step {
        let key = self.key('b', "NONSCALING|EXPANSION|ITEMS|");
        let (mut rate, mut entries, mut factor) = (0.01, 100, 2);
        let (mut fixed, mut creates) = (false, true);
        let mut sizes: Vec<Size> = (0..8).map(|_| self.size()).collect();
        let mut words = Words::new(&mut self.random, "BF.INSERT", &key);
        while let Some(size) = sizes.pop() {
            match words.random.below(12) {
                0 | 1 => {
                    words.add_any("CAPACITY|Capacity|c|C|Cxyz|cap\0|c\0");
                    words.add_number(size.entries);
                    entries = size.entries;
                }
                2 | 3 => {
                    words.add_any("ERROR|error|er|ER|eR|ERR|Erx|er\0");
                    words.add(size.rate_word);
                    rate = size.rate;
                }
                4 | 5 => {
                    words.add_any("EXPANSION|e|E|EX|ex|EXP|expand|e1|e\0r|es");
                    factor = words.random.next() % 5;
                    words.add_number(factor);
                }
                6 => {
                    words.add_any("NONSCALING|n|N|no|NO|NON|non|nx|nonx|naN|NOXC");
                    fixed = true;
                }
                7 => {
                    words.add_any("NOCREATE|nocreate|NOC|noc|NoCx|nxc|n\0c");
                    creates = false;
                }
                _ => sizes.truncate(1),
            }
        }
        // Filters with a kilobit for an item, and very large ones, stay alone.
        if rate < 1e-300 {
            words.add("c");
            words.add("1000");
            entries = 1000;
        } else if entries > 1000 {
            words.add("er");
            words.add("0.25");
            rate = 0.25;
        }
        words.add_any("ITEMS|items|i|I|Iwhat|ID|in|i\0|ITEM");
        let items = words.add_items();
        if !creates && !self.values.contains_key(&key) {
            return words.refused("ERR not found");
        }
        let draft = Draft::made(entries, rate, factor, fixed || factor == 0);
        let value = self.values.entry(key).or_insert(Value::Bloom(draft));
        let replies = replies(&items, |item| value.draft().add(item));
        words.step(array(replies), true)
    }

    /// Adds items. Refused commands are sent, too.
    pub fn add(&mut self) -> Step {
        let key = self.key('b', "NONSCALING|EXPANSION|");
        let name = *self.random.pick(&["BF.ADD", "BF.MADD"]);
        let mut words = Words::new(&mut self.random, name, &key);
        let items = words.add_items_of(name);
        let default = Value::Bloom(Draft::made(100, 0.01, 2, false));
        let value = self.values.entry(key).or_insert(default);
        let mut replies = replies(&items, |item| value.draft().add(item));
        let reply = match name {
            "BF.ADD" => replies.remove(0),
            _ => array(replies),
        };
        words.step(reply, true)
    }

    /// Loads the chunks of a new filter, or overwrites a part of one that there is.
    pub fn load(&mut self, steps: &mut Vec<Step>) {
        let key = self.key('b', "");
        let random = &mut self.random;
        if let Some(Value::Bloom(draft)) = self.values.get_mut(&key) {
            if random.one_in(4) {
                let cursor = *random.pick(&[1, 2]);
                return steps.push(chunk(random, &key, cursor, Vec::new()).step(ok(), true));
            }
            let index = random.below(draft.links.len());
            let before = draft.links[..index].iter().map(|link| link.bitmap.len());
            let start: usize = 1 + before.sum::<usize>();
            let bits = &mut draft.links[index].bitmap;
            let begin = random.below(bits.len());
            let end = bits.len().min(begin + 1 + random.below(40));
            let bytes = random.bytes(end - begin);
            bits[begin..end].copy_from_slice(&bytes);
            return steps.push(chunk(random, &key, start + end, bytes).step(ok(), true));
        }
        let draft = filled(random);
        steps.push(chunk(random, &key, 1, draft.header()).step(ok(), true));
        let (mut cursor, most) = (1, 1 + random.below(400));
        for bytes in draft.links.iter().flat_map(|link| link.bitmap.chunks(most)) {
            cursor += bytes.len();
            steps.push(chunk(random, &key, cursor, bytes.to_vec()).step(ok(), true));
        }
        self.values.insert(key, Value::Bloom(draft));
    }
}

impl Value {
    fn draft(&mut self) -> &mut Draft {
        match self {
            Self::Bloom(draft) => draft,
            _ => unreachable!("keys have prefixes"),
        }
    }
}

fn chunk<'r>(random: &'r mut Random, key: &[u8], cursor: usize, bytes: Vec<u8>) -> Words<'r> {
    let mut words = Words::new(random, "BF.LOADCHUNK", key);
    words.add(cursor.to_string());
    words.add(bytes);
    words
}

/// Returns a filter with some items.
fn filled(random: &mut Random) -> Draft {
    let mut draft = Draft::made(*random.pick(&[1, 20, 300]), 0.01, 2, random.one_in(3));
    for item in items(random) {
        let _ = draft.add(&item);
    }
    draft
}

/// Returns commands that load a filter in chunks, in any order and between additions, and what RedisBloom has after them.
pub fn loading(random: &mut Random, key: &[u8]) -> (Vec<Command>, Draft) {
    let mut draft = filled(random);
    let mut commands = vec![chunk(random, key, 1, draft.header()).all];
    let (mut chunks, mut cursor, most) = (Vec::new(), 1, 1 + random.below(100));
    for (index, link) in draft.links.iter_mut().enumerate() {
        for (number, bytes) in link.bitmap.chunks(most).enumerate() {
            cursor += bytes.len();
            chunks.push((cursor, index, number * most, bytes.to_vec()));
        }
        link.bitmap.fill(0);
    }
    for last in 1..chunks.len() {
        if random.one_in(2) {
            chunks.swap(last, random.below(last));
        }
    }
    let add = |random: &mut Random, draft: &mut Draft, commands: &mut Vec<Command>| {
        let name = *random.pick(&["BF.MADD", "BF.INSERT", "BF.ADD"]);
        let mut words = Words::new(random, name, key);
        if name == "BF.INSERT" {
            words.add("i");
        }
        let options = words.all.len();
        words.add_items();
        if name == "BF.ADD" {
            words.all.truncate(options + 1);
        }
        let _ = replies(&words.all[options..], |item| draft.add(item));
        commands.push(words.all);
    };
    // Without all chunks, a filter is completed by an addition.
    if random.one_in(2) {
        chunks.truncate(random.below(chunks.len()));
        add(random, &mut draft, &mut commands);
    }
    for (cursor, index, begin, bytes) in chunks {
        if random.one_in(20) {
            add(random, &mut draft, &mut commands);
        }
        if random.one_in(20) {
            let cursor = *random.pick(&[1, 2]);
            commands.push(chunk(random, key, cursor, Vec::new()).all);
        }
        draft.links[index].bitmap[begin..][..bytes.len()].copy_from_slice(&bytes);
        commands.push(chunk(random, key, cursor, bytes).all);
    }
    (commands, draft)
}

/// Checks a filter: its fields, its header and its bits.
pub fn check_bloom(client: &mut Client, key: &[u8], draft: &Draft) {
    let sum = |of: fn(&Link) -> u64| draft.links.iter().map(of).sum::<u64>().cast_signed();
    let factor = int(draft.growth.cast_signed());
    let size = 32 + sum(|link| 64 + link.bitmap.len() as u64);
    let is_fixed = draft.options & 8 != 0;
    let info = fields([
        ("Capacity", int(sum(|link| link.entries))),
        ("Size", int(size)),
        ("Number of filters", whole(draft.links.len())),
        ("Number of items inserted", int(draft.items.cast_signed())),
        ("Expansion rate", if is_fixed { nil() } else { factor }),
    ]);
    assert_eq!(ask(client, "BF.INFO", key, &[]), info);
    let header = ask(client, "BF.SCANDUMP", key, &["0".into()]);
    assert_eq!(header, array([int(1), bulk(draft.header())]));
    let mut cursor = 1;
    for link in &draft.links {
        let piece = ask(client, "BF.SCANDUMP", key, &[cursor.to_string().into()]);
        cursor += link.bitmap.len();
        assert_eq!(piece, array([whole(cursor), bulk(&link.bitmap)]));
    }
}
