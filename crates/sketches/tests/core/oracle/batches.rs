//! Batches on filters that are too large for the fuzz target `batch` are single calls.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Added, Limits, Object, Params, Time};

use valkeybloom_testing::fuzz::batch::{same_additions, same_answers};

use crate::support::{
    ROOMY, Rng, add_new, at_each_width, filters, grow, is_half_full, object, of_valkey_bloom,
    params, tightened,
};

/// Returns items for a batch: new ones, members, and ones that came earlier in the same batch.
fn batch(size: usize, members: &[Vec<u8>], rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut items: Vec<Vec<u8>> = Vec::new();
    for _ in 0..size {
        let item = match rng.below(4) {
            0 if !items.is_empty() => rng.pick(&items).clone(),
            1 if !members.is_empty() => rng.pick(members).clone(),
            _ => rng.item(40),
        };
        items.push(item);
    }
    items
}

/// Asks and adds batches of every size up to 70 and some larger ones, and compares with single calls.
fn batches_are_single_calls(start: &Object, members: &[Vec<u8>], rng: &mut Rng) {
    at_each_width(|_| same_batches(start, members, rng));
}

fn same_batches(start: &Object, members: &[Vec<u8>], rng: &mut Rng) {
    for size in (0..=70).chain([127, 128, 129, 200]) {
        let items = batch(size, members, rng);
        same_answers(start, &items);
        let [mut batch, mut single] = [(); 2].map(|()| start.try_clone().unwrap());
        same_additions(&mut batch, &mut single, &items, ROOMY);
    }
}

/// Returns an object grown to `filters` filters, the newest of them half full, and its items.
fn grown(params: &Params, filters: usize, rng: &mut Rng) -> (Object, Vec<Vec<u8>>) {
    let mut grown = object(params, rng.seed());
    let members = grow(&mut grown, rng, |object| is_half_full(object, filters));
    (grown, members)
}

/// Filters of 256 KiB and more have their memory sent for ahead: that must change nothing, not
/// where a batch opens the first such filter either.
#[test]
fn a_batch_on_big_filters_is_single_calls() {
    let mut rng = Rng::new(9);
    let (large, members) = grown(&params(300_000, 0.01, 2), 1, &mut rng);
    assert!(filters(&large)[0].blob().len() > 256 * 1024);
    batches_are_single_calls(&large, &members[..1000], &mut rng);

    // More hash functions than are worked out ahead.
    let many_hashes = tightened(of_valkey_bloom(0.5), params(300, 1e-7, 2));
    let (tight, members) = grown(&many_hashes, 3, &mut rng);
    assert!(filters(&tight)[0].geometry().hashes > 16);
    batches_are_single_calls(&tight, &members, &mut rng);

    // A small filter, nearly full, followed by a large one.
    let mut opening = object(&params(40, 0.01, 10_000), rng.seed());
    let members: Vec<Vec<u8>> = (0..20).map(|_| rng.bytes(16)).collect();
    for item in &members {
        add_new(&mut opening, item);
    }
    batches_are_single_calls(&opening, &members, &mut rng);
    grow(&mut opening, &mut rng, |object| object.totals().0 == 2);
    assert!(filters(&opening)[1].blob().len() > 256 * 1024);
    batches_are_single_calls(&opening, &members, &mut rng);
}

/// Limits are looked up where an object has to grow, and not for every item.
#[test]
fn limits_are_looked_up_for_growth_only() {
    let mut rng = Rng::new(11);
    let mut object = object(&params(10, 1e-9, 1), Seed::FIXED);
    let items: Vec<Vec<u8>> = (0..95).map(|_| rng.bytes(16)).collect();
    let asked = std::cell::Cell::new(0);
    let limits = || {
        asked.set(asked.get() + 1);
        Limits::NONE
    };
    let time = Time::default();
    object.add_each(items.iter().map(Vec::as_slice), time, limits, |_| ());
    assert_eq!(filters(&object).len(), 10);
    assert_eq!(asked.get(), 9);
    // Nor for items that are known, though the newest filter be full.
    for item in items.iter().chain(&items[..5]) {
        assert_eq!(object.add(item, time, limits), Ok(Added::Present));
    }
    assert_eq!(asked.get(), 9);
}
