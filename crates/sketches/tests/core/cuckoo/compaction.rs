//! Compaction: against the rules written down once more, and the work that it takes.

use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Outline};
use valkeybloom_sketches::work;

use crate::support::Rng;

use super::{assert_same, object, slots};
use crate::naive::Naive;

/// Returns the object with the slots and numbers of a naive one.
fn loaded(naive: &Naive) -> Cuckoo {
    let outline = Outline {
        filters: naive.filters.len() as u64,
        first_buckets: naive.first_buckets,
        items: naive.items,
        deletes: naive.deletes,
        bucket_size: naive.size,
        max_iterations: naive.iterations,
        expansion: naive.expansion,
    };
    Cuckoo::from_outline(&outline.check().unwrap(), naive.filters.clone()).unwrap()
}

/// Returns empty filters, each larger than the one before by the expansion.
fn empty(capacity: u64, size: u64, expansion: u64, filters: usize) -> Naive {
    let mut naive = Naive::new(capacity, size, 20, expansion);
    for _ in 1..filters {
        let next = naive.filters.last().unwrap().len() * usize::try_from(expansion).unwrap();
        naive.filters.push(vec![0; next]);
    }
    naive
}

/// Fills each slot with a chance in 1,000 for its filter.
fn fill(naive: &mut Naive, rng: &mut Rng, chances: impl Fn(usize) -> usize) {
    for (number, filter) in naive.filters.iter_mut().enumerate() {
        for slot in filter {
            if rng.below(1000) < chances(number) {
                *slot = u8::try_from(1 + rng.next() % 255).unwrap();
                naive.items += 1;
            }
        }
    }
}

/// Hundreds of filters, of slots as only chunks can bring them.
#[test]
fn many_filters_are_compacted_like_few() {
    let mut rng = Rng::new(73);
    for round in 0..20 {
        let size = *rng.pick(&[1_u8, 2, 3]);
        let capacity = u64::from(size) << (1 + rng.below(4));
        let mut naive = Naive::new(capacity, size.into(), 20, 1);
        // Rather full ones and rather empty ones.
        let emptiness = 1 + rng.below(8);
        let empty = naive.filters[0].clone();
        naive.filters.resize(60 + rng.below(400), empty);
        fill(&mut naive, &mut rng, |_| 1000 - 125 * emptiness);
        let mut header = wire::write_header(&object(capacity, size, 20, 1));
        header[..8].copy_from_slice(&naive.items.to_le_bytes());
        header[24..32].copy_from_slice(&(naive.filters.len() as u64).to_le_bytes());
        let mut object = wire::begin(&header, &Limits::NONE).unwrap();
        let mut cursor = 1;
        for slots in &naive.filters {
            cursor += slots.len() as u64;
            assert_eq!(wire::load(&mut object, cursor, slots), Ok(true));
        }
        assert_same(&object, &naive);
        for number in 0..100_u32 {
            let item = number.to_le_bytes();
            assert_eq!(object.remove(&item), naive.remove(&item), "{round}");
        }
        assert_same(&object, &naive);
        naive.compact(false);
        object.compact();
        assert_same(&object, &naive);
    }
}

/// Filters of one size and of several, nearly full, half full and nearly empty, with buckets of any size.
#[test]
fn filters_of_any_fill_are_compacted_by_the_rules() {
    let mut rng = Rng::new(74);
    let mut dropped = 0;
    for round in 0..100 {
        let size = *rng.pick(&[1_u64, 2, 3, 4, 7, 16, 64, 255]);
        let expansion = *rng.pick(&[1_u64, 1, 2, 4]);
        let filters = match expansion {
            1 => 2 + rng.below(8),
            2 => 2 + rng.below(5),
            _ => 2 + rng.below(2),
        };
        let capacity = size << (rng.below(if size > 16 { 4 } else { 7 }));
        let mut naive = empty(capacity, size, expansion, filters);
        let chances: Vec<usize> = (0..filters)
            .map(|_| *rng.pick(&[0, 5, 500, 950, 995, 1000]))
            .collect();
        fill(&mut naive, &mut rng, |filter| chances[filter]);
        let mut object = loaded(&naive);
        if round % 2 == 0 {
            naive.deletes = naive.items;
            object = loaded(&naive);
            let item = (0..2000_u32)
                .map(u32::to_le_bytes)
                .find(|item| naive.has(item));
            if let Some(item) = item {
                assert!(object.remove(&item) && naive.remove(&item));
                assert_same(&object, &naive);
            }
        }
        object.compact();
        naive.compact(false);
        assert_same(&object, &naive);
        dropped += filters - object.filters().len();
    }
    assert!(dropped > 50, "{dropped} filters dropped");
}

/// The most filters, each with room that nothing fits in: searching all of them for each fingerprint took 20 seconds.
#[test]
fn filters_without_fitting_room_are_visited_once() {
    let filters = 65_535_u64;
    let mut header = wire::write_header(&object(4, 2, 20, 1));
    header[24..32].copy_from_slice(&filters.to_le_bytes());
    let mut object = wire::begin(&header, &Limits::NONE).unwrap();
    for filter in 1..=filters {
        // An even fingerprint has one bucket, of two.
        assert_eq!(
            wire::load(&mut object, 4 * filter + 1, &[2, 2, 0, 0]),
            Ok(true)
        );
    }
    let before = slots(&object);
    work::take();
    assert!(!object.compact());
    let steps = work::take().steps;
    // Three for a bucket of a filter, by each fingerprint of the first batch.
    assert!(steps < 4 * 64 * filters, "{steps}");
    assert_eq!(slots(&object), before);
}

/// Eight nearly full filters: each slot is read once, and each bucket is searched once for room.
#[test]
fn nearly_full_filters_are_passed_over_once() {
    for (size, expansion, filters) in [(1, 1, 8), (2, 1, 8), (64, 1, 8), (2, 1, 32), (4, 2, 8)] {
        let mut rng = Rng::new(75);
        let capacity = size << if size > 16 { 10 } else { 13 };
        let mut naive = empty(capacity, size, expansion, filters);
        fill(&mut naive, &mut rng, |filter| {
            if filter + 1 == filters { 500 } else { 998 }
        });
        let mut object = loaded(&naive);
        work::take();
        assert!(object.compact());
        let work = work::take();
        naive.compact(false);
        assert_same(&object, &naive);
        let size_bytes = object.size();
        // Once for its fingerprints, and once for its room; filters that grow are read again while they are older.
        assert!(work.bytes <= 3 * size_bytes, "{} bytes", work.bytes);
        // Room is looked for where there is some, and again where it was taken.
        let most = size_bytes / 8;
        assert!(work.steps <= most, "{} steps of {most}: {size}", work.steps);
    }
}
