//! Micro-benchmarks of the core: times of lookups and additions by size and depth, for single items and in batches, and
//! of the crate that sets the same bits.
//!
//! `cargo bench` runs all of them, `cargo bench -- contains` those whose name contains that word.

mod memory;
mod table;

use bloomfilter::Bloom;
use divan::{Bencher, black_box, counter::ItemsCount};
use valkeybloom_sketches::bloom::{Kind, Limits, Object, Shape, Time, Window, dump};
use valkeybloom_sketches::cms::{self, CellSize, CountMin, Overflow};
use valkeybloom_sketches::cuckoo::{self, Cuckoo};
use valkeybloom_sketches::tdigest::{Compression, TDigest};
use valkeybloom_sketches::topk::{self, TopK};
use valkeybloom_sketches::{Seed, Width};
use valkeybloom_testing::support::{self, Rng, object_of, params};

fn main() {
    divan::main();
}

/// Returns items as long as a short address.
fn items(count: u64, salt: u64) -> Vec<Vec<u8>> {
    let mix = |n: u64| (n ^ salt << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..count)
        .map(|n| format!("item:{:016x}", mix(n)).into_bytes())
        .collect()
}

fn object(capacity: u64, rate: f64, expansion: u32) -> Object {
    support::object(&params(capacity, rate, expansion), Seed::FIXED)
}

/// Panics: a plain object never reads the clock.
fn never() -> u64 {
    unreachable!("a plain object asks for the time")
}

fn add_each(object: &mut Object, items: &[Vec<u8>], now_ms: u64) {
    let items = slices(items);
    object.add_each(items, Time::at(now_ms), || Limits::NONE, |_| ());
}

fn slices(items: &[Vec<u8>]) -> impl ExactSizeIterator<Item = &[u8]> {
    items.iter().map(Vec::as_slice)
}

fn filled(capacity: u64) -> Object {
    let mut object = object(capacity, 0.01, 2);
    add_each(&mut object, &items(capacity.min(1_000_000), 1), 0);
    object
}

/// Capacities of a filter that fits in the cache, one that fits in the second level of the cache, and one in
/// memory.
const SIZES: [u64; 3] = [100_000, 1_000_000, 45_000_000];
/// Numbers of filters in a stack, each with the capacity of its first filter.
const STACKS: [(u64, u64); 5] = [(1, 1000), (10, 1000), (40, 1000), (100, 1), (10, 300_000)];

#[divan::bench(args = [5, 16, 21, 100])]
fn probe(bencher: Bencher, length: usize) {
    let object = object(1000, 0.01, 0);
    let item = vec![b'x'; length];
    bencher.bench(|| object.probe(black_box(&item)));
}

#[divan::bench(args = SIZES)]
fn contains_hit(bencher: Bencher, capacity: u64) {
    let object = filled(capacity);
    each(bencher, &items(capacity.min(1_000_000), 1), |item| {
        object.contains(item, never)
    });
}

#[divan::bench(args = SIZES)]
fn contains_miss(bencher: Bencher, capacity: u64) {
    misses(bencher, &filled(capacity));
}

#[divan::bench(args = SIZES)]
fn contains_miss_of_the_crate(bencher: Bencher, capacity: u64) {
    let size = usize::try_from(capacity).expect("64 bits");
    let mut bloom = Bloom::<[u8]>::new_for_fp_rate_with_seed(size, 0.005, &[7; 32]).expect("sizes");
    for item in items(capacity.min(1_000_000), 1) {
        bloom.set(&item);
    }
    each(bencher, &items(100_000, 2), |item| bloom.check(item));
}

/// Uses words of each width, or the processor's widest words if it lacks that width.
#[divan::bench(args = Width::ALL)]
fn contains_batches_of_100_hits_by_width(bencher: Bencher, width: Width) {
    width.limit_to();
    batches(bencher, &filled(100_000), &items(100_000, 1));
    Width::choose();
}

#[divan::bench(args = SIZES)]
fn contains_batches_of_100(bencher: Bencher, capacity: u64) {
    batches(bencher, &filled(capacity), &items(100_000, 2));
}

/// Looks up items that are not there, one by one.
fn misses(bencher: Bencher, object: &Object) {
    each(bencher, &items(100_000, 2), |item| {
        object.contains(item, || HOUR)
    });
}

/// Looks up batches of 100.
fn batches(bencher: Bencher, object: &Object, items: &[Vec<u8>]) {
    each_batch(bencher, items, |batch| {
        let mut found = 0;
        object.contains_each(slices(batch), || HOUR, |yes| found += u32::from(yes));
        found
    });
}

/// Returns an object of `depth` full filters.
fn stack((depth, capacity): (u64, u64)) -> Object {
    let mut object = object(capacity, 0.001, 1);
    let mut numbers = 1_u64 << 50..;
    while object.filter_count() < depth || object.items(never) < object.capacity() {
        let number = numbers.next().expect("enough numbers");
        let item = number.to_le_bytes();
        let added = object.add(&item, Time::default(), || Limits::NONE);
        added.expect("room");
    }
    object
}

#[divan::bench(args = STACKS)]
fn contains_miss_in_a_stack_of(bencher: Bencher, depth_and_capacity: (u64, u64)) {
    misses(bencher, &stack(depth_and_capacity));
}

#[divan::bench(args = STACKS)]
fn contains_batches_of_100_in_a_stack_of(bencher: Bencher, depth_and_capacity: (u64, u64)) {
    batches(bencher, &stack(depth_and_capacity), &items(100_000, 2));
}

#[divan::bench(args = SIZES)]
fn add_new(bencher: Bencher, capacity: u64) {
    let mut object = object(capacity, 0.01, 0);
    each(bencher, &items(1_000_000, 3), |item| {
        object.add(item, Time::default(), || Limits::NONE)
    });
}

/// The object grows, or has the right size.
#[divan::bench(args = [1000, 1_000_000], sample_count = 3, sample_size = 1)]
fn add_a_million_to_one_of(bencher: Bencher, capacity: u64) {
    let items = items(1_000_000, 4);
    bencher
        .counter(ItemsCount::new(items.len()))
        .bench_local(|| {
            let mut object = object(capacity, 0.01, 2);
            for batch in items.chunks(50) {
                add_each(&mut object, batch, 0);
            }
            object.items(never)
        });
}

/// The number of the current period, the newest of 24.
const HOUR: u64 = 23;

/// Capacities of periods of tables in the cache, and in memory.
const PERIODS: [u64; 2] = [1000, 1_000_000];

/// Such periods with their items, and overfull ones, whose objects have a second table.
const WINDOWS: [(u64, u64); 4] = [
    (1000, 1000),
    (1_000_000, 1_000_000),
    (100, 1000),
    (100_000, 1_000_000),
];

/// Returns an object of 24 periods of `count` items, with half as many in the newest.
fn window((capacity, count): (u64, u64)) -> Object {
    let window = Window::new(1, 24).expect("a window");
    let mut object = shaped(capacity, Kind::Windowed(window));
    for hour in 0..=HOUR {
        let count = if hour == HOUR { count / 2 } else { count };
        for batch in items(count, hour + 10).chunks(50) {
            add_each(&mut object, batch, hour);
        }
    }
    object
}

fn counters(capacity: u64) -> Object {
    let mut object = shaped(capacity, Kind::Counting);
    add_each(&mut object, &items(capacity / 2, 1), 0);
    object
}

fn shaped(capacity: u64, kind: Kind) -> Object {
    let params = params(capacity, 0.01, 2);
    object_of(&Shape { params, kind }, Seed::FIXED)
}

#[divan::bench(args = WINDOWS)]
fn contains_miss_in_a_window(bencher: Bencher, capacity_and_count: (u64, u64)) {
    misses(bencher, &window(capacity_and_count));
}

#[divan::bench(args = WINDOWS)]
fn contains_batches_of_100_in_a_window(bencher: Bencher, capacity_and_count: (u64, u64)) {
    batches(bencher, &window(capacity_and_count), &items(100_000, 2));
}

#[divan::bench(args = PERIODS, sample_count = 3, sample_size = 1)]
fn add_1000_batches_of_100_to_a_window(bencher: Bencher, capacity: u64) {
    add_batches(bencher, &window((capacity, capacity)));
}

#[divan::bench(args = PERIODS)]
fn contains_batches_of_100_hits_in_counters(bencher: Bencher, capacity: u64) {
    let items = items(capacity / 2 / 100 * 100, 1);
    batches(bencher, &counters(capacity), &items);
}

#[divan::bench(args = PERIODS, sample_count = 3, sample_size = 1)]
fn add_1000_batches_of_100_to_counters(bencher: Bencher, capacity: u64) {
    add_batches(bencher, &counters(capacity));
}

/// The window takes 53 MB.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn dump_a_window(bencher: Bencher) {
    let object = window((1_000_000, 1_000_000));
    bencher.bench_local(|| dump::encode(&object));
}

/// The filter takes 53 MB.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn dump_a_filter(bencher: Bencher) {
    let object = object(44_000_000, 0.01, 2);
    bencher.bench_local(|| dump::encode(&object));
}

fn add_batches(bencher: Bencher, object: &Object) {
    let items = items(100_000, 5);
    bencher
        .counter(ItemsCount::new(items.len()))
        .bench_local(|| {
            let mut object = object.try_clone().expect("memory");
            for batch in items.chunks(100) {
                add_each(&mut object, batch, HOUR);
            }
            object.items(|| HOUR)
        });
}

fn cuckoo(capacity: u64) -> Cuckoo {
    let params = cuckoo::Params {
        capacity,
        ..cuckoo::Params::REDISBLOOM
    };
    let shape = cuckoo::Shape::new(&params).expect("valid parameters");
    Cuckoo::new(shape, &cuckoo::Limits::NONE).expect("memory")
}

fn add_each_to_cuckoo(object: &mut Cuckoo, items: &[Vec<u8>]) {
    for batch in items.chunks(100) {
        let limits = || cuckoo::Limits::NONE;
        object.add_each(slices(batch), false, limits, |added| assert!(added.is_ok()));
    }
}

/// Capacities of a cuckoo filter in the second level of the cache, and of one in memory.
const CUCKOOS: [u64; 2] = [100_000, 1 << 26];

#[divan::bench(args = CUCKOOS)]
fn cuckoo_contains_batches_of_100_hits(bencher: Bencher, capacity: u64) {
    let items = items(100_000, 1);
    let mut object = cuckoo(capacity);
    add_each_to_cuckoo(&mut object, &items);
    each_batch(bencher, &items, |batch| found_in(&object, batch));
}

fn found_in(object: &Cuckoo, items: &[Vec<u8>]) -> u32 {
    let mut found = 0;
    object.contains_each(slices(items), |yes| found += u32::from(yes));
    found
}

#[divan::bench(args = CUCKOOS, sample_count = 5, sample_size = 1)]
fn cuckoo_add_1000_batches_of_100(bencher: Bencher, capacity: u64) {
    let items = items(100_000, 5);
    bencher
        .counter(ItemsCount::new(items.len()))
        .with_inputs(|| cuckoo(capacity))
        .bench_local_refs(|object| add_each_to_cuckoo(object, &items));
}

fn count_min(width: u64, depth: u64) -> CountMin {
    let shape = cms::Shape::new(width, depth, CellSize::Four).expect("a valid shape");
    CountMin::new(shape, u64::MAX).expect("memory")
}

/// Widths and depths of count-min sketches: in the second level of the cache, deeper, and in memory.
const COUNT_MINS: [(u64, u64); 3] = [(2000, 7), (2000, 10), (2_000_000, 7)];

#[divan::bench(args = COUNT_MINS)]
fn count_min_estimate(bencher: Bencher, (width, depth): (u64, u64)) {
    let sketch = count_min(width, depth);
    each(bencher, &items(100_000, 1), |item| sketch.estimate(item));
}

#[divan::bench(args = COUNT_MINS)]
fn count_min_increment(bencher: Bencher, (width, depth): (u64, u64)) {
    let mut sketch = count_min(width, depth);
    each(bencher, &items(100_000, 1), |item| {
        sketch.increment(item, 1, Overflow::Refuse)
    });
}

#[divan::bench(args = COUNT_MINS)]
fn count_min_estimate_batches_of_100(bencher: Bencher, (width, depth): (u64, u64)) {
    let sketch = count_min(width, depth);
    each_batch(bencher, &items(100_000, 1), |batch| {
        let mut sum = 0;
        sketch.estimate_each(slices(batch), |estimate| sum += estimate);
        sum
    });
}

#[divan::bench(args = COUNT_MINS)]
fn count_min_increment_batches_of_100(bencher: Bencher, (width, depth): (u64, u64)) {
    let mut sketch = count_min(width, depth);
    each_batch(bencher, &items(100_000, 1), |batch| {
        let pairs = batch.iter().map(|item| (&item[..], 1));
        let mut sum = 0;
        sketch.increment_each(pairs, Overflow::Refuse, |counted| {
            sum += counted.unwrap_or(0);
        });
        sum
    });
}

/// The times that one source of 64 MiB is named.
#[divan::bench(args = [1, 2, 10_000], sample_count = 5, sample_size = 1)]
fn count_min_merge(bencher: Bencher, times: usize) {
    let sketch = count_min(1 << 22, 4);
    let term = cms::Term {
        source: &sketch,
        weight: 1,
    };
    let terms = vec![term; times];
    bencher.bench_local(|| CountMin::merged(&terms, Overflow::Refuse));
}

/// Hashing an item of 64 KiB for each row.
#[divan::bench(args = [7, 64, 1024])]
fn count_min_estimate_of_64_kib(bencher: Bencher, depth: u64) {
    let sketch = count_min(1000, depth);
    let item = vec![7; 64 << 10];
    bencher.bench_local(|| sketch.estimate(black_box(&item)));
}

/// Lengths of top-k lists, widths, and numbers of different items: the default, a usual one, and a long list.
const TOP_KS: [(u64, u64, u64); 3] = [(10, 8, 400), (100, 1000, 400), (10_000, 80_000, 10_000)];

/// Returns a list that has seen all items, and the items.
fn top_k(k: u64, width: u64, count: u64) -> (TopK, Vec<Vec<u8>>) {
    let shape = topk::Shape::new(k, width, 7, 0.9).expect("a shape");
    let mut sketch = TopK::new(shape, Seed::FIXED, u64::MAX).expect("memory");
    let items = items(count, 1);
    for item in items.iter().cycle().take(100_000) {
        sketch.add(item, 1, || u64::MAX).expect("memory");
    }
    (sketch, items)
}

#[divan::bench(args = TOP_KS)]
fn top_k_add(bencher: Bencher, (k, width, count): (u64, u64, u64)) {
    let (mut sketch, items) = top_k(k, width, count);
    each(bencher, &items, |item| sketch.add(item, 1, || u64::MAX));
}

#[divan::bench(args = TOP_KS)]
fn top_k_contains(bencher: Bencher, (k, width, count): (u64, u64, u64)) {
    let (sketch, items) = top_k(k, width, count);
    each(bencher, &items, |item| sketch.contains(item));
}

#[divan::bench(args = TOP_KS)]
fn top_k_count(bencher: Bencher, (k, width, count): (u64, u64, u64)) {
    let (sketch, items) = top_k(k, width, count);
    each(bencher, &items, |item| sketch.count(item));
}

#[divan::bench(args = TOP_KS)]
fn top_k_ranking(bencher: Bencher, (k, width, count): (u64, u64, u64)) {
    let (sketch, _) = top_k(k, width, count);
    bencher.bench_local(|| {
        let ranking = sketch.ranking().expect("memory");
        ranking.map(|(item, _)| item.len()).sum::<usize>()
    });
}

/// Increments of 100,000 at seven cells of another item, by decay and by the owner's count.
#[divan::bench(args = [(0.9, 87), (0.95, 140), (0.99, 700), (0.999, 3000), (0.99999, 1000), (0.99999, 70_000)])]
fn top_k_contest(bencher: Bencher, (decay, count): (f64, u32)) {
    let shape = topk::Shape::new(1, 1, 7, decay).expect("a shape");
    let mut sketch = TopK::new(shape, Seed::FIXED, u64::MAX).expect("memory");
    sketch.add(b"owner", count, || u64::MAX).expect("memory");
    bencher
        .with_inputs(|| sketch.try_clone().expect("memory"))
        .bench_local_refs(|sketch| sketch.add(b"item", 100_000, || u64::MAX));
}

/// Compressions of t-digests.
const DIGESTS: [u64; 4] = [50, 100, 500, 1000];

/// Returns a digest of a million values, and values to add.
fn digest(compression: u64) -> (TDigest, Vec<f64>) {
    let mut digest = TDigest::new(Compression::new(compression).expect("in range"));
    let mut random = Rng::new(0);
    #[allow(clippy::cast_precision_loss, reason = "32 bits are exact")]
    let values = std::iter::repeat_with(|| (random.next() >> 32) as f64);
    let values: Vec<f64> = values.take(1_000_000).collect();
    digest.add_each(&values).expect("finite");
    (digest, values)
}

/// Adds 100 values. Compressions are among the samples.
#[divan::bench(args = DIGESTS, sample_count = 1000, sample_size = 100)]
fn digest_add_batches_of_100(bencher: Bencher, compression: u64) {
    let (mut digest, values) = digest(compression);
    let mut batches = values.chunks(100).cycle();
    bencher.counter(ItemsCount::new(100_u32)).bench_local(|| {
        let batch = batches.next().expect("endless");
        digest.add_each(batch)
    });
}

/// Compresses a copy, as the first query after a write does. The buffer of 5 * `compression` unmerged nodes is nearly
/// full.
#[divan::bench(args = DIGESTS)]
fn digest_first_query(bencher: Bencher, compression: u64) {
    let (mut digest, values) = digest(compression);
    digest.compress();
    let unmerged = usize::try_from(5 * compression).expect("few");
    digest.add_each(&values[..unmerged]).expect("finite");
    bencher
        .with_inputs(|| digest.try_clone().expect("memory"))
        .bench_local_refs(|digest| {
            let compressed = digest.compressed().expect("memory");
            compressed.quantile(0.5)
        });
}

/// Searches the copy that the first query has made.
#[divan::bench(args = DIGESTS)]
fn digest_next_query(bencher: Bencher, compression: u64) {
    let (digest, _) = digest(compression);
    digest.compressed().expect("memory");
    let mut quantiles = (0..1000).map(|part| f64::from(part) / 1000.0).cycle();
    bencher.bench_local(|| {
        let compressed = digest.compressed().expect("memory");
        compressed.quantile(quantiles.next().expect("endless"))
    });
}

#[divan::bench(args = DIGESTS)]
fn digest_merge_of_10(bencher: Bencher, compression: u64) {
    let (digest, _) = digest(compression);
    let sources = [&digest; 10];
    bencher.bench_local(|| TDigest::merged(digest.compression(), sources));
}

/// The size of each compacted filter in bytes: the default limit.
const COMPACTED: usize = 64 << 20;

/// Returns random fingerprints in the slots for whose random number `is_taken` returns true.
fn fingerprints(random: &mut Rng, is_taken: impl Fn(u64) -> bool) -> Vec<u8> {
    let slots = (0..COMPACTED).map(|_| {
        let number = random.next();
        let fingerprint = number.to_le_bytes()[0].max(1);
        fingerprint * u8::from(is_taken(number >> 32))
    });
    slots.collect()
}

/// Returns an object of filters of one size, with enough removals to be due for compaction.
fn of_filters(filters: Vec<Vec<u8>>, bucket_size: u64) -> Cuckoo {
    let (count, slots) = (filters.len() as u64, filters[0].len() as u64);
    let stored = cuckoo::Outline {
        filters: count,
        first_buckets: slots / bucket_size,
        items: slots,
        deletes: slots * count / 10,
        bucket_size,
        max_iterations: 20,
        expansion: 1,
    };
    let outline = stored.check().expect("a valid outline");
    let object = Cuckoo::from_outline(&outline, filters);
    object.expect("such filters, and memory")
}

/// Removes an item from an object of two filters that is due for compaction. The older filter is five sixths full; the
/// newer has a fingerprint in one of `one_in` slots.
#[divan::bench(args = [1_000_000, 100, 2], sample_count = 5, sample_size = 1)]
fn cuckoo_remove_and_compact(bencher: Bencher, one_in: u64) {
    let random = &mut Rng::new(1);
    let filters = [
        fingerprints(random, |n| n % 6 > 0),
        fingerprints(random, |n| n % one_in == 0),
    ];
    let object = || of_filters(filters.to_vec(), 2);
    let known = object();
    let mut items = items(1000, 1).into_iter();
    let item = items.find(|item| known.contains(item)).expect("one in");
    bencher
        .with_inputs(object)
        .bench_local_values(|mut object| {
            assert!(object.remove(&item) && object.deletes() == 0);
            object
        });
}

/// Compacts eight filters, by bucket size: seven are nearly full, and the newest is half full.
#[divan::bench(args = [1, 2, 64], sample_count = 2, sample_size = 1)]
fn cuckoo_compact_eight(bencher: Bencher, bucket_size: u64) {
    let random = &mut Rng::new(1);
    let nearly_full = (0..7).map(|_| fingerprints(random, |n| n % 1000 > 0));
    let mut filters: Vec<_> = nearly_full.collect();
    filters.push(fingerprints(random, |n| n % 2 == 0));
    bencher
        .with_inputs(|| of_filters(filters.clone(), bucket_size))
        .bench_local_values(|mut object| {
            assert!(object.compact());
            object
        });
}

/// Adds 1,000 items to a full filter, with the most iterations that a client may request.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn cuckoo_add_1000_to_full(bencher: Bencher) {
    let params = cuckoo::Params {
        capacity: 65_536,
        bucket_size: 4,
        max_iterations: u16::MAX,
        expansion: 0,
    };
    let full = || {
        let shape = cuckoo::Shape::new(&params).expect("valid parameters");
        let mut object = Cuckoo::new(shape, &cuckoo::Limits::NONE).expect("memory");
        let add = |item: u64| object.add(&item.to_le_bytes(), false, || cuckoo::Limits::NONE);
        assert!((0..1 << 17).map(add).any(|added| added.is_err()));
        object
    };
    let items = items(1000, 1);
    bencher.with_inputs(full).bench_local_values(|mut object| {
        object.add_each(slices(&items), false, || cuckoo::Limits::NONE, |_| ());
        object
    });
}

/// Looks up 10,000 items in an object of `FILTERS_MAX` filters that are full.
#[divan::bench(args = [(1, 1), (512, 2), (510, 255)], sample_count = 3, sample_size = 1)]
fn cuckoo_contains_10000_in_the_deepest(bencher: Bencher, (size, bucket_size): (u64, u64)) {
    let full = vec![7; usize::try_from(size).expect("few")];
    let filters = usize::try_from(cuckoo::FILTERS_MAX).expect("few");
    let object = of_filters(vec![full; filters], bucket_size);
    let items = items(10_000, 1);
    bencher.bench_local(|| found_in(&object, &items));
}

/// Hands one item after the other to an operation.
fn each<T>(bencher: Bencher, items: &[Vec<u8>], mut ask: impl FnMut(&[u8]) -> T) {
    let mut next = items.iter().cycle();
    bencher
        .counter(ItemsCount::new(1_u32))
        .bench_local(|| ask(next.next().expect("an item")));
}

/// Hands batches of 100 items to an operation.
fn each_batch<T>(bencher: Bencher, items: &[Vec<u8>], mut ask: impl FnMut(&[Vec<u8>]) -> T) {
    let mut batches = items.chunks(100).cycle();
    bencher
        .counter(ItemsCount::new(100_u32))
        .bench_local(|| ask(batches.next().expect("a batch")));
}
