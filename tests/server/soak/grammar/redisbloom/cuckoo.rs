//! Cuckoo filters.

use crate::harness::{Client, array, bulk, int, ok};
use valkeybloom_testing::naive::Naive;

use super::{JUNK, RedisBloom, Step, Value, Words, ask, fields, whole};

/// Options of CF.RESERVE, and their values when none is given.
const OPTIONS: [(&str, u64); 3] = [("BUCKETSIZE", 2), ("MAXITERATIONS", 20), ("EXPANSION", 1)];

impl RedisBloom {
    /// Options are looked for in all words, the key included, and the first of a name counts. Other words are ignored.
    pub fn reserve_cuckoo(&mut self) -> Step {
        let key = self.key('c', "expansion|MaxIterations");
        let capacity = *self.random.pick(&[16, 50, 64, 777, 3000]);
        let is_key = |(name, _): (&str, _)| key.eq_ignore_ascii_case(name.as_bytes());
        let mut given = OPTIONS.map(|option| is_key(option).then_some(capacity));
        let mut words = Words::new(&mut self.random, "CF.RESERVE", &key);
        words.add_number(capacity);
        while !words.random.one_in(3) {
            let index = words.random.below(2 * OPTIONS.len());
            let Some((name, _)) = OPTIONS.get(index) else {
                words.add_any(JUNK);
                continue;
            };
            words.add_cased(name);
            let value = *words.random.pick(&[1, 2, 3, 4, 8]);
            let value = value - u64::from(*name == "EXPANSION");
            match given[index] {
                None => words.add_number(*given[index].insert(value)),
                Some(_) => words.add_any("x|-1||0.5|99999"),
            }
        }
        // The number of words is odd.
        if words.all.len().is_multiple_of(2) {
            words.add("odd");
        }
        if self.values.contains_key(&key) {
            return words.refused("ERR item exists");
        }
        let [size, iterations, expansion] =
            [0, 1, 2].map(|index| given[index].unwrap_or(OPTIONS[index].1));
        let filter = Naive::new(capacity, size, iterations, expansion);
        let step = words.step(ok(), true);
        self.values.insert(key, Value::Cuckoo(filter));
        step
    }

    /// The first letter of an option is enough, and the last capacity counts.
    pub fn insert_cuckoo(&mut self) -> Step {
        let key = self.key('c', "");
        let nx = self.random.one_in(2);
        let name = if nx { "CF.INSERTNX" } else { "CF.INSERT" };
        let (mut capacity, mut creates) = (1024, true);
        let mut words = Words::new(&mut self.random, name, &key);
        while !words.random.one_in(2) {
            if words.random.one_in(3) {
                words.add_any("NOCREATE|n|N|nope|Non");
                creates = false;
            } else {
                words.add_any("CAPACITY|c|Cxyz|cap");
                capacity = *words.random.pick(&[4, 40, 1000]);
                words.add_number(capacity);
            }
        }
        words.add_any("ITEMS|i|Iwhat|I");
        let items = words.add_items();
        if !creates && !self.values.contains_key(&key) {
            return words.refused("ERR not found");
        }
        let default = Value::Cuckoo(Naive::new(capacity, 2, 20, 1));
        let filter = self.values.entry(key).or_insert(default).cuckoo();
        let replies = items.iter().map(|item| {
            if nx && filter.has(item) {
                return int(0);
            }
            int(if filter.add(item, usize::MAX) { 1 } else { -1 })
        });
        words.step(array(replies), true)
    }

    pub fn change_cuckoo(&mut self) -> Step {
        let key = self.key('c', "");
        let name = *self
            .random
            .pick(&["CF.ADD", "CF.ADDNX", "CF.DEL", "CF.COMPACT"]);
        let mut words = Words::new(&mut self.random, name, &key);
        let one = words.add_items().swap_remove(0);
        words.all.truncate(if name == "CF.COMPACT" { 2 } else { 3 });
        let default = match (name, self.values.contains_key(&key)) {
            ("CF.DEL", false) => return words.refused("Not found"),
            ("CF.COMPACT", false) => return words.refused("Cuckoo filter was not found"),
            _ => Value::Cuckoo(Naive::new(1024, 2, 20, 1)),
        };
        let filter = self.values.entry(key).or_insert(default).cuckoo();
        let reply = match name {
            "CF.DEL" => int(filter.remove(&one).into()),
            "CF.COMPACT" => {
                filter.compact(false);
                ok()
            }
            "CF.ADDNX" if filter.has(&one) => int(0),
            _ if filter.add(&one, usize::MAX) => int(1),
            _ => return words.refused("Filter is full"),
        };
        words.step(reply, true)
    }
}

impl Value {
    fn cuckoo(&mut self) -> &mut Naive {
        match self {
            Self::Cuckoo(filter) => filter,
            _ => unreachable!("keys have prefixes"),
        }
    }
}

/// Checks a filter: its fields and its slots.
pub fn check(client: &mut Client, key: &[u8], filter: &Naive) {
    let bytes: usize = filter.filters.iter().map(|filter| 16 + filter.len()).sum();
    let info = [
        ("Size", 40 + bytes as u64),
        ("Number of buckets", filter.first_buckets),
        ("Number of filters", filter.filters.len() as u64),
        ("Number of items inserted", filter.items),
        ("Number of items deleted", filter.deletes),
        ("Bucket size", filter.size),
        ("Expansion rate", filter.expansion),
        ("Max iterations", filter.iterations),
    ];
    let info = info.map(|(name, number)| (name, int(number.cast_signed())));
    assert_eq!(ask(client, "CF.INFO", key, &[]), fields(info));
    let mut cursor = 1;
    for slots in filter.filters.iter().filter(|_| filter.items > 0) {
        let piece = ask(client, "CF.SCANDUMP", key, &[cursor.to_string().into()]);
        cursor += slots.len();
        assert_eq!(piece, array([whole(cursor), bulk(slots)]));
    }
}
