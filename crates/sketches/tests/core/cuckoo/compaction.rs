//! Compaction: against the rules written down once more, and the work that it takes.

use valkeybloom_sketches::cuckoo::Limits;
use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::work;

use crate::support::Rng;

use super::{assert_same, fill, loaded, object, slots};
use crate::naive::Naive;

/// Returns empty filters, each larger than the one before by the expansion.
fn empty(capacity: u64, size: u64, expansion: u64, filters: usize) -> Naive {
    let mut naive = Naive::new(capacity, size, 20, expansion);
    for _ in 1..filters {
        let next = naive.filters.last().unwrap().len() * usize::try_from(expansion).unwrap();
        naive.filters.push(vec![0; next]);
    }
    naive
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
            // Hundreds of small ones.
            1 if size < 4 && round % 3 == 0 => 60 + rng.below(400),
            1 => 2 + rng.below(8),
            2 => 2 + rng.below(5),
            _ => 2 + rng.below(2),
        };
        let capacity = size << (rng.below(if size > 16 || filters > 9 { 4 } else { 7 }));
        let mut naive = empty(capacity, size, expansion, filters);
        let chances: Vec<usize> = (0..filters)
            .map(|_| *rng.pick(&[0, 5, 500, 950, 995, 1000]))
            .collect();
        fill(&mut naive, &mut rng, |filter| chances[filter]);
        let mut object = loaded(&naive);
        if round % 2 == 0 {
            // The first removal compacts.
            naive.deletes = naive.items;
            object = loaded(&naive);
            for item in (0..100_u32).map(u32::to_le_bytes) {
                assert_eq!(object.remove(&item), naive.remove(&item), "{round}");
            }
            assert_same(&object, &naive);
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
            Ok(())
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
