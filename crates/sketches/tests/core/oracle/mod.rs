//! Filters against the `bloomfilter` and `siphasher` crates: the same bits and the same answers; and against the
//! equations of a filter's size. Users of the crate can read what this project stores, and the other way round.

mod batches;

use std::hash::{Hash, Hasher};

use bloomfilter::Bloom;
use siphasher::sip::SipHasher13;
use valkeybloom_sketches::bloom::{Added, Cells, Geometry, MAX_HASHES, Params, Refusal, dump};
use valkeybloom_sketches::{Fraction, Seed};

use crate::plain::Plain;
use crate::sizes::{self, by_crate, crates, rate_of_size};
use crate::support::{
    Rng, add, add_new, at_each_width, dump_of, filter, filters, fraction, has, has_each, object,
    of_filters, of_valkey_bloom, params, rate_of, tightened, tightening,
};

fn seeds(rng: &mut Rng) -> [Seed; 4] {
    [
        Seed::FIXED,
        Seed::new([0; 32]),
        Seed::new([0xff; 32]),
        rng.seed(),
    ]
}

/// Lengths of items: all up to 300, which has every remainder by 8 and both sides of 256.
fn length(index: usize) -> usize {
    index % 301
}

#[test]
fn hashes_are_siphash_of_the_length_and_the_item() {
    let mut rng = Rng::new(1);
    let lengths = (0..=600).chain([1023, 1024, 1025, 65_535, 65_536, 1 << 20]);
    for length in lengths {
        let item = rng.bytes(length);
        for seed in seeds(&mut rng) {
            let (left, right) = seed.as_bytes().split_first_chunk::<16>().unwrap();
            let hash = |key: &[u8; 16]| {
                let mut hasher = SipHasher13::new_with_key(key);
                item[..].hash(&mut hasher);
                hasher.finish()
            };
            let expected = (hash(left), hash(right.try_into().unwrap()));
            assert_eq!(seed.probe(&item).hashes(), expected, "{length} bytes");
        }
    }
}

/// Filters from a file keep their sizes, even if this program would choose others.
#[test]
fn any_size_and_number_of_hashes_has_the_crates_answers() {
    let mut rng = Rng::new(4);
    for bytes in [1, 2, 3, 5, 8, 13, 64, 100, 1021, 4096] {
        for hashes in [1, 2, 3, 4, 7, 8, 30, 1075, MAX_HASHES] {
            let seed = rng.seed();
            let mut empty = filter(hashes, &seed, 1000, vec![0; bytes]);
            empty.items = 0;
            let mut theirs = Bloom::<[u8]>::from_bytes(empty.blob()).unwrap();
            let mut ours = of_filters(0, vec![empty]);
            for index in 0..50 {
                let item = rng.bytes(length(index));
                assert_eq!(has(&ours, &item), theirs.check(&item));
                let known = theirs.check_and_set(&item);
                assert_eq!(add_new(&mut ours, &item), !known);
                let is_same = filters(&ours)[0].blob() == theirs.as_slice();
                assert!(is_same, "{bytes} bytes, {hashes} hashes, item {index}");
            }
        }
    }
}

/// Stacks of such filters, with items one by one and in batches. Their bits are random, so that some items are in
/// none of them, some in one, and some in many.
#[test]
fn a_stack_of_any_filters_has_the_crates_answers() {
    let mut rng = Rng::new(12);
    let shallow = [1, 2, 3, 8, 9, 16, 17, 31, 33, 64, 65, 66, 130];
    let deep = [500, 1023, 1024, 1025, 1026, 1100];
    for count in shallow.into_iter().chain(deep) {
        let seed = rng.seed();
        let mut stack = Vec::new();
        for _ in 0..count {
            let (bytes, hashes): (&[usize], &[u32]) = if count < 500 {
                let bytes = &[1, 2, 3, 5, 7, 8, 9, 63, 64, 65, 1000, 70_000, 300_000];
                (bytes, &[1, 2, 3, 4, 5, 7, 16, 17, 30])
            } else {
                (&[5, 8, 100, 1000], &[3, 4, 5])
            };
            let (bytes, hashes) = (*rng.pick(bytes), *rng.pick(hashes));
            // A bit is set with probability 7/8, or 1/2, or 1/8; in a deep stack, where nearly all
            // items would be in some filter, with 1/8.
            let bits = rng.bytes(bytes * 3);
            let threes = bits.chunks(3);
            let bitmap = threes.map(|three| match (count + bytes) % 3 {
                0 if count < 500 => three[0] | three[1] | three[2],
                1 if count < 500 => three[0],
                _ => three[0] & three[1] & three[2],
            });
            stack.push(filter(hashes, &seed, 10, bitmap.collect()));
        }
        let theirs = stack
            .iter()
            .map(|filter| Bloom::<[u8]>::from_bytes(filter.blob()).unwrap());
        let theirs: Vec<_> = theirs.collect();
        let ours = of_filters(1, stack);
        let sizes = (0..=70).chain([127, 128, 129, 500]);
        let (mut found, mut asked) = (0, 0);
        for size in sizes.filter(|size| count < 500 || size % 8 < 2) {
            let items: Vec<Vec<u8>> = (0..size).map(|_| rng.item(40)).collect();
            let claimed = |item: &Vec<u8>| theirs.iter().any(|filter| filter.check(item));
            let expected: Vec<bool> = items.iter().map(claimed).collect();
            found += expected.iter().filter(|found| **found).count();
            asked += size;
            at_each_width(|width| {
                let answers = has_each(&ours, &items);
                assert_eq!(answers, expected, "{size} {count} {width:?}");
            });
            for (item, expected) in items.iter().zip(expected) {
                assert_eq!(has(&ours, item), expected, "{item:?}, {count} filters");
            }
        }
        if count > 3 {
            assert!(found > 0, "{count} filters claim nothing");
        }
        assert!(found < asked || count > 8, "{count} filters claim all");
    }
}

/// Returns a capacity, spread over all magnitudes below 2 to the power of `log`, with whole decimal numbers among them.
fn any_capacity(rng: &mut Rng, log: usize) -> u64 {
    match rng.below(3) {
        0 => rng.below(300) as u64 + 1,
        1 => *rng.pick(&[1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000]),
        _ => (rng.next() >> (64 - log + rng.below(log))).max(1),
    }
}

#[test]
fn sizes_by_formula_are_the_crates_and_saturate_beyond_memory() {
    let mut rng = Rng::new(5);
    let mut beyond = 0;
    for _ in 0..300_000 {
        let (capacity, rate) = (any_capacity(&mut rng, 63), any_rate(&mut rng));
        let [classic, ours] = [Geometry::by_formula, Geometry::for_rate]
            .map(|size| size(capacity, fraction(rate), Cells::Bits));
        let (bytes, hashes) = by_crate(capacity, rate);
        // The crate takes the C library's logarithm, whose last digit may be another. It shows beyond a terabyte.
        let off = classic.cell_bytes.abs_diff(bytes);
        if bytes < 1 << 40 {
            assert_eq!((off, classic.hashes), (0, hashes), "{capacity} at {rate:e}");
        }
        assert!(off <= 1 + (bytes >> 51), "{capacity} items at {rate:e}");
        assert!((1..=1 << 60).contains(&ours.cell_bytes));
        // A filter that takes new items alone has to have a bit for each.
        assert!(ours.cell_bytes == 1 << 60 || ours.positions >= capacity);
        for size in [classic, ours] {
            assert!((1..=MAX_HASHES).contains(&size.hashes));
            beyond += usize::from(size.cell_bytes == 1 << 60);
        }
    }
    assert!(beyond > 1000, "only {beyond} sizes were beyond memory");
    // The crate says its number of hashes of an existing filter only.
    for _ in 0..2000 {
        let (capacity, rate) = (rng.next() % 100_000 + 1, any_rate(&mut rng));
        let size = usize::try_from(capacity).unwrap();
        let theirs = Bloom::<[u8]>::new_for_fp_rate_with_seed(size, rate, &[0; 32]).unwrap();
        let expected = (theirs.len() / 8, theirs.number_of_hash_functions());
        assert_eq!(by_crate(capacity, rate), expected, "{capacity} at {rate:e}");
    }
}

/// The least size, by an implementation that tries every number of hash functions.
#[test]
fn sizes_for_a_rate_are_the_least_that_keep_it() {
    let mut rng = Rng::new(13);
    let mut compared = 0;
    while compared < 2_000 {
        let (capacity, rate) = (any_capacity(&mut rng, 28), any_rate(&mut rng));
        let ours = Geometry::for_rate(capacity, fraction(rate), Cells::Bits);
        let name = format!("{capacity} items at {rate:e}");
        // So low a rate takes too many hash functions to try often.
        if rate < 1e-30 && rng.below(50) > 0 {
            continue;
        }
        let Some((bytes, hashes)) = sizes::least(capacity, rate) else {
            assert!(ours.cell_bytes >= sizes::MOST_BYTES, "{name}");
            continue;
        };
        // Beyond a hundred million bytes the last digits of doubles show.
        let off = ours.cell_bytes.abs_diff(bytes);
        assert!(off <= bytes / 100_000_000, "{name}: {ours:?}, not {bytes}");
        if off == 0 && bytes < 100_000_000 {
            assert_eq!(ours.hashes, hashes, "{name}");
        }
        assert_eq!(ours.positions, ours.cell_bytes * 8, "{name}");

        // The rate holds by the equation, and does not with a byte less.
        let rate_at = |bytes, hashes| rate_of_size(capacity, bytes, hashes);
        assert!(rate_at(bytes, ours.hashes) <= rate * (1.0 + 1e-9), "{name}");
        let fewer = (1..=sizes::most_hashes(rate))
            .map(|hashes| {
                let unlucky = (bytes - 1).is_power_of_two() && hashes > 2;
                (bytes.saturating_sub(1 + u64::from(unlucky)), hashes)
            })
            .filter(|(bytes, _)| bytes * 8 > capacity);
        for (bytes, hashes) in fewer {
            let above = rate_at(bytes, hashes) / rate;
            assert!(above > 1.0 - 1e-9, "{name}, {hashes}");
        }
        compared += 1;
    }
}

/// Returns a number strictly between 0 and 1, of any magnitude that a double has.
fn any_rate(rng: &mut Rng) -> f64 {
    loop {
        let rate = match rng.below(4) {
            0 => *rng.pick(&[0.5, 0.1, 0.03, 0.01, 0.005, 0.001, 0.0001, 1e-6, 1e-9]),
            // All bits random: mostly tiny.
            1 => f64::from_bits(rng.next() >> 2),
            // Evenly between 0 and 1.
            2 => f64::from_bits(1.0_f64.to_bits() | rng.next() >> 12) - 1.0,
            // Near 1.
            _ => 1.0 - f64::from_bits(0x3c00_0000_0000_0000 + (rng.next() >> 7)),
        };
        if Fraction::new(rate).is_some() {
            return rate;
        }
    }
}

/// A stack of the crate's filters: each takes what was new in its turn.
struct Stack {
    params: Params,
    seed: Seed,
    filters: Vec<Bloom<[u8]>>,
    /// Capacity of the newest filter, its items, and the items before it.
    capacity: u64,
    items: u64,
    before: u64,
}

impl Stack {
    fn new(params: Params, seed: Seed) -> Self {
        let filters = vec![crates(sizes::size(&params, 0, params.capacity), &seed)];
        Self {
            capacity: params.capacity,
            items: 0,
            before: 0,
            filters,
            params,
            seed,
        }
    }

    /// Returns the dump that valkey-bloom writes for it.
    fn dump(&self) -> Vec<u8> {
        let expansion = self.params.growth.expansion().into();
        let (mut capacity, mut left) = (self.params.capacity, self.before + self.items);
        let filters = self.filters.iter().map(|bloom| {
            let bitmap = bloom.as_slice()[45..].to_vec();
            let hashes = bloom.number_of_hash_functions();
            let mut filter = filter(hashes, &self.seed, capacity, bitmap);
            filter.items = left.min(capacity);
            left -= filter.items;
            capacity *= expansion;
            filter
        });
        let plain = Plain {
            expansion,
            error_rate: self.params.error_rate.get(),
            tightening: self.params.tightening.to_stored(),
            filters: filters.collect(),
            ..Plain::new()
        };
        plain.dump()
    }

    fn contains(&self, item: &[u8]) -> bool {
        self.filters.iter().any(|f| f.check(item))
    }

    fn add(&mut self, item: &[u8]) -> bool {
        if self.contains(item) {
            return false;
        }
        if self.items == self.capacity {
            self.before += self.items;
            let next = sizes::next_capacity(&self.params, self.capacity, self.before);
            self.capacity = next.unwrap();
            let index = self.filters.len() as u64;
            let size = sizes::size(&self.params, index, self.capacity);
            self.filters.push(crates(size, &self.seed));
            self.items = 0;
        }
        self.filters.last_mut().unwrap().set(item);
        self.items += 1;
        true
    }
}

#[test]
fn an_object_equals_the_crates_filters_each_fed_with_its_new_items() {
    let mut rng = Rng::new(7);
    let laws = [0.5, 0.25, 0.75].map(|ratio| [tightening(ratio), of_valkey_bloom(ratio)]);
    let mut rows = vec![
        (1, 0.5, 1, 60),
        (1, 0.01, 2, 500),
        (5, 0.3, 1, 300),
        (10, 0.1, 2, 3000),
        (50, 0.001, 3, 3000),
        (100, 0.01, 1, 4000),
        (7, 0.9, 10, 3000),
        (1000, 0.02, 1, 6000),
    ];
    for capacity in [1, 2, 3, 7, 50, 100, 1000, 4096, 20_000] {
        for rate in [0.99, 0.5, 0.3, 0.1, 0.01, 0.001, 1e-6, 1e-12] {
            rows.extend([0, 2].map(|expansion| (capacity, rate, expansion, 2 * capacity)));
        }
    }
    for (capacity, rate, expansion, items) in rows {
        let seeds = seeds(&mut rng).into_iter().cycle();
        for (&tightening, seed) in laws.as_flattened().iter().zip(seeds) {
            let params = tightened(tightening, params(capacity, rate, expansion));
            let mut ours = object(&params, seed);
            let mut theirs = Stack::new(params, seed);
            let mut members: Vec<Vec<u8>> = Vec::new();
            for index in 0..items {
                if expansion == 0 && theirs.items == capacity {
                    break;
                }
                // Now and then an item comes again.
                let item = if index % 5 == 4 {
                    rng.pick(&members).clone()
                } else {
                    rng.bytes(length(members.len()))
                };
                assert_eq!(add_new(&mut ours, &item), theirs.add(&item));
                members.push(item);
            }
            // At a rate near 1 valkey-bloom's filters are never full.
            if (tightening.is_ours() || rate < 0.5) && items > 2 * capacity {
                assert!(filters(&ours).len() > 2, "{params:?} did not grow");
            }
            assert_eq!(filters(&ours).len(), theirs.filters.len());
            for (ours, theirs) in filters(&ours).into_iter().zip(&theirs.filters) {
                assert!(ours.blob() == theirs.as_slice(), "other bits: {params:?}");
            }
            for ((_, reported), index) in ours.filters().zip(0..) {
                let made_for = rate_of(&params, index).map(Fraction::get);
                assert_eq!(Some(reported), made_for, "{params:?}");
            }
            assert!(members.iter().all(|item| has(&ours, item)));
            for index in 0..500 {
                let item = rng.bytes(length(index));
                assert_eq!(has(&ours, &item), theirs.contains(&item));
            }
        }
    }
}

/// An object of valkey-bloom, built of the crate's filters, grows as it does there to the byte, and ends where it
/// ends there: when the next rate has lost digits.
#[test]
fn an_object_of_valkey_bloom_grows_and_ends_as_it_does_there() {
    let mut rng = Rng::new(14);
    for (capacity, rate, expansion, ratio, filters) in [
        (5, 0.01, 2, 0.5, 9),
        (100, 0.001, 1, 0.5, 12),
        (50, 0.1, 4, 0.25, 5),
        (10, 0.3, 1, 0.9, 8),
        // At 10⁻³⁰⁰ / 2²⁵ for the last time.
        (2, 1e-300, 1, 0.5, 26),
        (2, 1e-300, 1, 1e-7, 2),
    ] {
        let params = tightened(of_valkey_bloom(ratio), params(capacity, rate, expansion));
        let ends = rate < 1e-200;
        let mut theirs = Stack::new(params, rng.seed());
        // It comes by its dump, half grown, and grows here.
        let mut ours = None;
        for _ in 0..1_000_000 {
            let full = theirs.items == theirs.capacity;
            if theirs.filters.len() == filters && full {
                break;
            }
            let item = rng.bytes(12);
            let added = theirs.add(&item);
            match &mut ours {
                Some(ours) => assert_eq!(add_new(ours, &item), added),
                None if theirs.filters.len() == filters.div_ceil(2) => {
                    ours = Some(dump::decode(&theirs.dump()).unwrap());
                }
                None => {}
            }
        }
        let mut ours = ours.unwrap();
        assert!(dump_of(&ours) == theirs.dump(), "other bytes: {params:?}");
        let outcomes = (0..).map(|_| add(&mut ours, &rng.bytes(12)));
        let next = outcomes.take(1000).find(|o| *o != Ok(Added::Present));
        let end = Err(Refusal::RateTooSmall);
        assert_eq!(
            next,
            Some(if ends { end } else { Ok(Added::New) }),
            "{params:?}"
        );
    }
}
