//! Tables of fingerprints against maps: random operations, on random fingerprints and on crowded ones. Only memory refuses.

use std::collections::BTreeMap;

use valkeybloom_sketches::table::{Filling, Held, Kept, Payload, Period, Refused, Table};
use valkeybloom_sketches::work;

use crate::support::{Rng, Weighing};

/// What a table has to hold: 0, the count or the period of each fingerprint.
type Map = BTreeMap<u64, u64>;

/// Returns a fingerprint and its value, as in a map.
fn pair(held: Held) -> (u64, u64) {
    (held.fingerprint, held.value)
}

/// The fingerprints that a round draws.
#[derive(Clone, Copy, Debug)]
struct Draw {
    bits: u32,
    /// The number of different ones.
    range: u64,
    /// How far apart they are, as a power of two.
    spread: u32,
    /// Whether half of them have one of a few values.
    has_favourites: bool,
}

impl Draw {
    fn new(rng: &mut Rng, payload: Payload) -> Self {
        let widest = *rng.pick(&[12, 16, 24, payload.most_bits()]);
        let bits = *rng.pick(&(12..=widest).collect::<Vec<_>>());
        let log = bits.min(6 + u32::try_from(rng.below(11)).unwrap());
        let most = bits - log;
        let any = u32::try_from(rng.below(60)).unwrap() % (most + 1);
        Self {
            bits,
            range: 1 << log,
            spread: *rng.pick(&[0, any, most, most]),
            has_favourites: rng.below(3) == 0,
        }
    }

    fn next(self, rng: &mut Rng) -> u64 {
        let is_favourite = self.has_favourites && rng.below(2) == 0;
        let range = if is_favourite { 5 } else { self.range };
        (rng.next() % range) << self.spread
    }

    /// Returns a fingerprint that may be in no table.
    fn any(self, rng: &mut Rng) -> u64 {
        rng.next() >> (64 - self.bits)
    }

    fn either(self, rng: &mut Rng) -> u64 {
        if rng.below(2) == 0 {
            self.any(rng)
        } else {
            self.next(rng)
        }
    }
}

/// Returns a limit on the memory of a table of this size, or none.
fn limit_near(bytes: u64, rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0 => rng.next() % (bytes + 1),
        1 => bytes + rng.next() % 300,
        _ => u64::MAX,
    }
}

/// A table and the map that it has to equal.
struct Pair {
    table: Table,
    map: Map,
    draw: Draw,
    /// The periods of a window, or 0.
    window: u64,
    current: u64,
    /// The period about which the clock goes on and back, if it does.
    about: Option<u64>,
    dropped: u64,
}

impl Pair {
    fn new(rng: &mut Rng, payload: Payload) -> Self {
        let draw = Draw::new(rng, payload);
        let window = match payload {
            Payload::Period(periods) => periods.into(),
            Payload::Nothing | Payload::Count => 0,
        };
        Self {
            table: Table::new(draw.bits, payload).unwrap(),
            map: Map::new(),
            draw,
            window,
            current: window + 2 + *rng.pick(&[0, 1, 1 << 20, 1 << 50]),
            about: None,
            dropped: 0,
        }
    }

    /// Sets the clock on or back, and drops what has expired.
    fn turn_clock(&mut self, rng: &mut Rng) {
        let window = self.window;
        let by = match rng.below(20) {
            0 => rng.next() % (3 * window),
            1 => window + rng.next() % (window / 16 + 3),
            2 => 1_000_000,
            3..=6 => rng.next() % (window / 8 + 2),
            _ => 1,
        };
        let newest = self.map.values().copied().fold(self.dropped, u64::max);
        self.current = match self.about {
            Some(about) => about + rng.next() % window,
            None if rng.below(3) > 0 => self.current + by,
            None => self.current.saturating_sub(by),
        };
        self.current = self.current.max(window + 2).max(newest.saturating_sub(1));
        let oldest = self.current + 1 - window;
        self.map.retain(|_, period| *period >= oldest);
        self.dropped = self.dropped.max(oldest);
        let Table::Lives(lives) = &mut self.table else {
            panic!("no periods")
        };
        lives.drop_before(Period(oldest));
        assert_eq!(lives.dropped(), Period(self.dropped), "{:?}", self.draw);
    }

    /// Adds a fingerprint, or takes it off the table, and requires that the table keeps to a limit on memory.
    fn write(&mut self, rng: &mut Rng, additions: usize) {
        let pace = 8 + additions * additions / 8;
        if self.window > 0 && (self.about.is_some() || rng.below(pace) == 0) {
            self.turn_clock(rng);
        }
        let (fingerprint, draw) = (self.draw.next(rng), self.draw);
        let bytes = self.table.memory_bytes();
        let most = limit_near(bytes, rng);
        let old = self.map.get(&fingerprint).copied();
        let written = match &mut self.table {
            Table::Set(set) => set.add(fingerprint, &|| most).map(|is_new| {
                assert_eq!(is_new, old.is_none(), "{draw:?}");
                0
            }),
            Table::Counts(counts) if rng.below(100) >= additions => {
                let count = counts.count_down(fingerprint);
                assert_eq!(count, old.unwrap_or(0), "{draw:?}");
                self.map.remove(&fingerprint);
                if count > 1 {
                    self.map.insert(fingerprint, count - 1);
                }
                return;
            }
            Table::Counts(counts) => counts.count_up(fingerprint, &|| most).map(|count| {
                assert_eq!(count, old.unwrap_or(0), "{draw:?}");
                count + 1
            }),
            Table::Lives(lives) => {
                let current = self.current;
                let any = rng.next() % (self.window + 9);
                let late = match self.about {
                    Some(_) => any,
                    None => *rng.pick(&[0, 1, 2, any, self.window]),
                };
                let oldest = (current + 1 - self.window).max(self.dropped);
                let period = (current + 1).saturating_sub(late).max(oldest);
                let kept = lives.keep(fingerprint, Period(period), Period(current), &|| most);
                kept.map(|kept| {
                    let expected = match old {
                        None => Kept::New,
                        Some(old) if old < period => Kept::Extended,
                        Some(_) => Kept::Unchanged,
                    };
                    assert_eq!(kept, expected, "{draw:?}");
                    old.unwrap_or(0).max(period)
                })
            }
        };
        match written {
            Ok(payload) => {
                self.map.insert(fingerprint, payload);
            }
            Err(refused) => {
                assert_eq!(refused, Refused::MemoryLimit, "{draw:?}");
                assert!(most < u64::MAX, "{draw:?}");
            }
        }
        let bytes_now = self.table.memory_bytes();
        assert!(bytes_now <= bytes.max(most), "{draw:?}: {bytes_now}");
    }

    /// Looks up a fingerprint, at any time.
    fn look_up(&self, rng: &mut Rng) {
        let fingerprint = self.draw.either(rng);
        let found = self.map.get(&fingerprint).copied();
        if let Table::Counts(counts) = &self.table {
            assert_eq!(counts.count_of(fingerprint), found.unwrap_or(0));
        }
        let oldest = match rng.below(4) {
            _ if self.window == 0 => 0,
            0 => 0,
            1 => self.current + rng.next() % 1_000_000,
            _ => (self.current + 2).saturating_sub(rng.next() % (self.window + 3)),
        };
        let is_there = found.is_some_and(|payload| payload >= oldest);
        let (table, oldest, draw) = (&self.table, Period(oldest), self.draw);
        if rng.below(32) == 0 {
            let mut answers = [!is_there; 40];
            table.contains_each(&[fingerprint; 40], oldest, &mut answers);
            assert_eq!(answers, [is_there; 40], "{draw:?}");
        }
        assert_eq!(table.contains(fingerprint, oldest), is_there, "{draw:?}");
    }

    /// Requires that the table holds what the map does, and takes as much memory as it says.
    fn check(&mut self, rng: &mut Rng) {
        let (table, draw) = (&mut self.table, self.draw);
        let (mut weighing, bytes) = (Weighing::default(), table.memory_bytes());
        let mut next = Some(0);
        while let Some(first) = next {
            next = table.relocate(first, &mut weighing);
        }
        assert_eq!(bytes, weighing.bytes, "{draw:?}");
        let held = table.iter(0..u64::MAX).map(pair);
        assert!(held.eq(self.map.clone()), "{draw:?}");
        assert_eq!(table.fingerprints(), self.map.len() as u64, "{draw:?}");
        let mut periods = Map::new();
        for period in self.map.values().filter(|_| self.window > 0) {
            *periods.entry(*period).or_default() += 1;
        }
        let of_table = table
            .periods()
            .iter()
            .map(|(period, count)| (period.0, *count));
        assert!(of_table.eq(periods), "{draw:?}");
        let (one, other) = (draw.either(rng), draw.either(rng));
        let range = one.min(other)..one.max(other);
        let expected = self.map.range(range.clone());
        let expected = expected.map(|(key, value)| (*key, *value));
        assert!(table.iter(range).map(pair).eq(expected), "{draw:?}");
    }

    /// Makes the table anew.
    fn refill(&mut self) {
        self.table = self.refilled();
        self.dropped = (self.current + 1).saturating_sub(self.window);
    }

    /// Returns the table made anew.
    fn refilled(&self) -> Table {
        let (bits, payload) = (self.draw.bits, self.table.payload());
        let entries = self.map.values().map(|held| payload.entries(*held)).sum();
        filled(bits, payload, entries, self.current, &self.map)
    }
}

fn filled(bits: u32, payload: Payload, entries: u64, current: u64, map: &Map) -> Table {
    let mut filling = Filling::new(bits, payload, entries, Period(current)).unwrap();
    for (fingerprint, held) in map {
        filling.push(*fingerprint, *held).unwrap();
    }
    Table::filled(filling).unwrap()
}

/// Runs rounds of random operations, and returns their number.
fn run(rng: &mut Rng, payload: Payload, most: usize) -> usize {
    let mut pair = Pair::new(rng, payload);
    let mut done = 0;
    for additions in [95, 20, 70, 0, 120, 50, 0] {
        let operations = rng.below(most);
        for _ in 0..operations {
            pair.write(rng, additions);
            pair.look_up(rng);
        }
        if pair.window > 0 {
            // All expires, and shards of different bases are joined.
            pair.about = Some(pair.current + pair.window + 1);
            for _ in 0..rng.below(60) {
                pair.write(rng, 100);
            }
            pair.about = None;
        }
        done += 2 * operations;
        pair.check(rng);
        if rng.below(2) == 0 {
            pair.table = pair.table.try_clone().unwrap();
        } else {
            pair.refill();
        }
        pair.check(rng);
    }
    if pair.window > 0 {
        pair.current += 3 * pair.window;
        pair.map.clear();
        let Table::Lives(lives) = &mut pair.table else {
            panic!("no periods")
        };
        lives.drop_before(Period(pair.current + 1 - pair.window));
        for _ in 0..3 * pair.table.shards() {
            pair.table.sweep_next();
        }
        pair.check(rng);
        let (bytes, shards) = (pair.table.memory_bytes(), pair.table.shards());
        assert!(shards == 1 && bytes < 300, "{:?}: {bytes}", pair.draw);
    }
    done
}

#[test]
fn tables_are_maps() {
    let mut rng = Rng::new(48);
    for _ in 0..4 {
        for _ in 0..4 {
            run(&mut rng, Payload::Count, 6_000);
            run(&mut rng, Payload::Nothing, 12_000);
        }
        for periods in [1, 2, 3, 15, 16, 17, 24, 31, 33, 1_440, 60_000] {
            run(&mut rng, Payload::Period(periods), 3_000);
        }
    }
}

/// A table whose shard has too many entries for it is swept without a split: that would be tried at each step.
#[test]
fn sweeps_split_nothing() {
    let map: Map = (0..3_000).map(|number| (number << 20, 0)).collect();
    let mut table = filled(40, Payload::Nothing, 1, 0, &map);
    work::take();
    table.sweep_next();
    assert_eq!((work::take().steps, table.shards()), (0, 1));
    let Table::Set(set) = &mut table else {
        panic!("periods")
    };
    assert!(set.add(1, &|| u64::MAX).unwrap());
    assert_eq!(table.shards(), 2);
}

/// Crowds of any size, in any order, are tables like others: they grow, shrink, and are calm again.
#[test]
fn crowds_come_and_go() {
    let mut rng = Rng::new(53);
    let bits = 48;
    for payload in [Payload::Nothing, Payload::Count, Payload::Period(24)] {
        let mut pair = Pair::new(&mut rng, payload);
        (pair.draw.bits, pair.draw.spread) = (bits, 0);
        pair.table = Table::new(bits, payload).unwrap();
        let current = pair.current;
        // Honest ones, and those of two crowds, one of which comes in ascending order.
        let honest: Vec<_> = (0..20_000).map(|_| rng.next() >> (64 - bits)).collect();
        let crowd = (0..200_000).map(|_| (7 << 28) | (rng.next() >> 40));
        let ascending =
            (0..60_000_u64).map(|number| (5 << 44) + number * number % 977 + 977 * number);
        let all: Vec<_> = honest.into_iter().chain(crowd).chain(ascending).collect();
        let mut slowest = 0;
        for fingerprint in &all {
            let bytes = pair.table.memory_bytes();
            let held = match &mut pair.table {
                Table::Set(set) => {
                    set.add(*fingerprint, &|| u64::MAX).unwrap();
                    0
                }
                Table::Counts(counts) => counts.count_up(*fingerprint, &|| u64::MAX).unwrap() + 1,
                Table::Lives(lives) => {
                    let (period, current) = (Period(current - fingerprint % 20), Period(current));
                    let kept = lives.keep(*fingerprint, period, current, &|| u64::MAX);
                    kept.unwrap();
                    period.0
                }
            };
            slowest = slowest.max(pair.table.memory_bytes().saturating_sub(bytes));
            pair.map.insert(*fingerprint, held);
        }
        pair.check(&mut rng);
        let most = 2 * u64::from(bits) / 8 * pair.map.len() as u64;
        let bytes = pair.table.memory_bytes();
        assert!(bytes < most, "{bytes}");
        assert!(slowest < 1 << 20, "no step is large: {slowest}");
        pair.table = pair.table.try_clone().unwrap();
        pair.check(&mut rng);
        let refilled = pair.refilled();
        assert!(refilled.iter(0..u64::MAX).eq(pair.table.iter(0..u64::MAX)));
        let Table::Counts(counts) = &mut pair.table else {
            pair.table = refilled;
            pair.check(&mut rng);
            continue;
        };
        for (number, fingerprint) in all.iter().enumerate() {
            if number % 100 > 0 && pair.map.remove(fingerprint).is_some() {
                while counts.count_down(*fingerprint) > 1 {}
            }
        }
        pair.check(&mut rng);
        let shards = pair.table.shards();
        assert!(shards < 40, "{shards}");
    }
}

/// Tables of each size are made anew, of as few shards as it takes.
#[test]
fn tables_of_each_size_are_made_anew() {
    let mut rng = Rng::new(52);
    for payload in [Payload::Nothing, Payload::Count, Payload::Period(24)] {
        for number in [0, 1, 2, 1023, 1024, 1025, 2048, 2049, 3073, 12_288, 12_289] {
            let mut pair = Pair::new(&mut rng, payload);
            (pair.draw.bits, pair.draw.spread) = (30, 0);
            while pair.map.len() < number {
                let value = match payload {
                    Payload::Nothing => 0,
                    Payload::Count => 1 + rng.next() % 9,
                    Payload::Period(_) => pair.current + 1 - rng.next() % (pair.window + 1),
                };
                pair.map.insert(rng.next() >> 34, value);
            }
            pair.refill();
            let entries = pair.map.values().map(|held| payload.entries(*held));
            let entries = usize::try_from(entries.sum::<u64>()).unwrap();
            assert_eq!(pair.table.shards(), entries.div_ceil(1_024).max(1));
            pair.check(&mut rng);
        }
    }
}

/// Tables of random fingerprints, of as many bits as a rate of 1 % needs, take the memory that the page of the module says.
#[test]
#[allow(clippy::cast_precision_loss, reason = "the numbers are small")]
fn memory_follows_the_fingerprints() {
    for number in [1_000, 10_000, 100_000, 1_000_000_u64] {
        let bits = (100 * number).next_power_of_two().ilog2();
        let mut rng = Rng::new(50);
        let tables = [(Payload::Count, 2.0), (Payload::Nothing, 0.0)];
        let mut tables = tables.map(|(payload, tag)| (Table::new(bits, payload).unwrap(), tag));
        for _ in 0..number {
            let fingerprint = rng.next() >> (64 - bits);
            for (table, _) in &mut tables {
                match table {
                    Table::Counts(counts) => drop(counts.count_up(fingerprint, &|| u64::MAX)),
                    Table::Set(set) => drop(set.add(fingerprint, &|| u64::MAX)),
                    Table::Lives(_) => {}
                }
            }
        }
        let [_, (plain, _)] = &tables;
        let map = plain.iter(0..u64::MAX).map(pair).collect();
        let again = filled(bits, Payload::Nothing, plain.fingerprints(), 0, &map);
        for (table, tag) in tables.iter().chain([&(again, 0.0)]) {
            let more = 8.0 * table.memory_bytes() as f64 / number as f64 - tag - f64::from(bits)
                + libm::log2(number as f64);
            assert!((2.5..=4.0).contains(&more), "{number}: {more}");
        }
    }
}
