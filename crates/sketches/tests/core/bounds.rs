//! The most that a command may cost on any accepted object, in counted work, not in time.
//!
//! Forged filters hold all positions of an item but the last, so that a lookup reads all of them in every filter. The
//! `bloomfilter` crate computes the positions of an item.

use bloomfilter::Bloom;
use valkeybloom_sketches::bloom::{Added, Limits, Object, Refusal};
use valkeybloom_sketches::{Seed, work};

use crate::support::{
    NO_CLOCK, ROOMY, Rng, add, add_each, filter, has, has_each, object, of_filters,
    of_valkey_bloom, params, tightened,
};

/// The most steps for one item in a lookup of many: 25 µs, at two thirds of a nanosecond each.
const STEPS_OF_ITEM: u64 = 38_000;

/// The most steps of any command beside its items: 10 ms, at some nanoseconds each.
const STEPS_OF_COMMAND: u64 = 3_000_000;

/// The most hash functions of an object in which each item is looked up to the end.
const PATIENCE: u32 = 6 << 10;

const ITEMS: u64 = 200;

/// Returns the cells of a filter that holds all positions of an item but the last; `None` where that is one of the
/// others too.
fn all_but_last(item: &[u8], bytes: usize, hashes: u32, seed: &Seed) -> Option<Vec<u8>> {
    let of = |hashes| {
        let mut bloom =
            Bloom::<[u8]>::from_bytes(filter(hashes, seed, 0, vec![0; bytes]).blob()).unwrap();
        bloom.set(item);
        bloom.as_slice()[45..].to_vec()
    };
    let cells = of(hashes - 1);
    (cells != of(hashes)).then_some(cells)
}

/// Returns an item, and an object of equal filters that hold all but its last position. `None` where there is hardly any
/// such item, since the positions are fewer than the hash functions.
fn nearly_held(
    filters: usize,
    bytes: usize,
    hashes: u32,
    rng: &mut Rng,
) -> Option<(Vec<u8>, Object)> {
    let seed = Seed::new([7; 32]);
    (0..100).find_map(|_| {
        let item = rng.bytes(8);
        let cells = all_but_last(&item, bytes, hashes, &seed)?;
        let filter = filter(hashes, &seed, 1, cells);
        Some((item, of_filters(1, vec![filter; filters])))
    })
}

fn steps_of<T>(action: impl FnOnce() -> T) -> (u64, T) {
    work::take();
    let result = action();
    (work::take().steps, result)
}

#[test]
fn lookups_end_at_the_limit_of_hash_functions() {
    let mut rng = Rng::new(1);
    for (filters, hashes, bytes, deep) in [
        (1100, 1100, 400, true),
        (7, 1000, 400, true),
        (6, 1024, 400, false),
        (1100, 5, 16, false),
        (1100, 6, 16, true),
        (1100, 7, 16, true),
    ] {
        let (item, mut object) = nearly_held(filters, bytes, hashes, &mut rng).unwrap();
        let in_use = u32::try_from(filters).unwrap() * (hashes - 1);
        let name = format!("{filters} filters of {hashes} hash functions");
        let claimed = deep && in_use >= PATIENCE;
        let (steps, found) = steps_of(|| has(&object, &item));
        assert_eq!(found, claimed, "{name}");
        assert!(steps < STEPS_OF_ITEM, "{name}: {steps} steps");
        let items = vec![&item; usize::try_from(ITEMS).unwrap()];
        let (steps, found) = steps_of(|| has_each(&object, &items));
        assert!(found.into_iter().all(|found| found == claimed), "{name}");
        assert!(steps < ITEMS * STEPS_OF_ITEM, "{name}: {steps} steps");
        // It is known or added, and found from then on; there may be no filter after the deepest.
        match add(&mut object, &item) {
            Err(Refusal::RateTooSmall) if !claimed && filters == 1100 => continue,
            added => assert_eq!(added.unwrap() == Added::Present, claimed, "{name}"),
        }
        assert!(has(&object, &item), "{name}");
        assert_eq!(has_each(&object, &items[..1]), [true], "{name}");
    }
}

/// Objects that a program made stay below the limit: the deepest possible stack answers like its filters.
#[test]
fn the_deepest_stack_answers_as_its_filters_do() {
    let mut rng = Rng::new(2);
    let params = tightened(of_valkey_bloom(0.5), params(1, 0.3, 1));
    let mut stack = object(&params, rng.seed());
    let mut members = Vec::new();
    loop {
        let item = rng.bytes(9);
        if add(&mut stack, &item).is_err() {
            break;
        }
        members.push(item);
    }
    let hashes = stack.filters().map(|(filter, _)| filter.geometry().hashes);
    assert!(hashes.sum::<u32>() > 10 * PATIENCE);
    let strangers: Vec<_> = (0..3_000).map(|_| rng.bytes(9)).collect();
    let items: Vec<_> = members.iter().chain(&strangers).collect();
    let theirs: Vec<_> = stack
        .filters()
        .map(|(filter, _)| Bloom::<[u8]>::from_bytes(filter.blob().to_vec()).unwrap())
        .collect();
    let claimed = |item: &&Vec<u8>| theirs.iter().any(|filter| filter.check(&item[..]));
    let expected: Vec<bool> = items.iter().map(claimed).collect();
    let (steps, together) = steps_of(|| has_each(&stack, &items));
    assert!(together == expected);
    assert!(steps < items.len() as u64 * STEPS_OF_ITEM / 4, "{steps}");
    for (item, expected) in items.iter().zip(&expected).step_by(7) {
        assert_eq!(has(&stack, item), *expected);
    }
    assert!(expected[..members.len()].iter().all(|held| *held));
}

/// Objects of many shapes, each with an item that its filters nearly hold.
#[test]
fn no_shape_makes_a_command_slow() {
    let mut rng = Rng::new(4);
    let mut accepted = 0;
    for _ in 0..150 {
        let [hashes, bytes, filters] = [(1, 10), (3, 7), (1, 11)].map(|(least, more)| {
            let most = 1 << (least + rng.below(more + 1));
            1 + rng.below(most)
        });
        let (hashes, bytes) = (1 + u32::try_from(hashes).unwrap().min(1_099), 8 + bytes);
        let filters = filters.min(1_100);
        let Some((item, mut object)) = nearly_held(filters, bytes, hashes, &mut rng) else {
            continue;
        };
        accepted += 1;
        let name = format!("{filters} filters, {hashes} hash functions, {bytes} bytes");
        let items = vec![&item; usize::try_from(ITEMS).unwrap()];
        let each = steps_of(|| has_each(&object, &items)).0 / ITEMS;
        assert!(each < STEPS_OF_ITEM, "{name}: {each} steps");
        let at_once = [
            steps_of(|| has(&object, &item)).0,
            steps_of(|| object.estimated_rate(NO_CLOCK)).0,
            steps_of(|| object.filters().count()).0,
            steps_of(|| object.reach(ROOMY)).0,
        ];
        let others: Vec<_> = (0..ITEMS).map(|_| rng.bytes(8)).collect();
        let adds = steps_of(|| add_each(&mut object, &others, Limits::NONE));
        let adds = adds.0 / ITEMS;
        assert!(adds < STEPS_OF_ITEM, "{name}: {adds} steps");
        let most = at_once.into_iter().max().unwrap_or(0);
        assert!(most < STEPS_OF_COMMAND, "{name}: {most} steps");
    }
    assert!(accepted > 30, "{accepted} of them are valid");
}
