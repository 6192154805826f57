//! The work that objects of thousands of filters take.

use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Outline};
use valkeybloom_sketches::work;

use super::{add_each, has_each, object, up_to};

/// Returns an object without slots, of as many filters of one size.
fn claimed(filters: u64, buckets: u64, bucket_size: u16) -> Cuckoo {
    let mut header = wire::write_header(&object(4, 2, 20, 1));
    header[8..16].copy_from_slice(&buckets.to_le_bytes());
    header[24..32].copy_from_slice(&filters.to_le_bytes());
    header[32..34].copy_from_slice(&bucket_size.to_le_bytes());
    wire::begin(&header, &Limits::NONE).unwrap()
}

fn items() -> Vec<[u8; 4]> {
    (0..10_000_u32).map(u32::to_le_bytes).collect()
}

/// The most steps for an item.
const STEPS: u64 = 8000;

/// 38 bytes claimed 65,535 filters, which every item was looked up in.
#[test]
fn filters_without_memory_are_not_searched() {
    for bucket_size in [1, 255] {
        let mut object = claimed(65_535, 2, bucket_size);
        work::take();
        assert!(!has_each(&object, &items()).contains(&true));
        let steps = work::take().steps;
        // Each batch visits every filter at most once.
        assert!(steps < 10_000 * STEPS, "{steps}");
        let added = add_each(&mut object, &items()[..100], true, Limits::NONE);
        assert!(added.iter().all(Result::is_ok));
        let steps = work::take().steps;
        assert!(steps < 100 * STEPS + 3 * 65_535, "{steps}");
    }
}

/// The most filters, of one or two full buckets.
#[test]
fn the_deepest_objects_are_not_searched_for_each_item() {
    for (buckets, bucket_size) in [(1_u64, 1_u64), (2, 1), (2, 4), (2, 255)] {
        let outline = Outline {
            filters: 65_535,
            first_buckets: buckets,
            items: 65_535 * buckets * bucket_size,
            deletes: 0,
            bucket_size,
            max_iterations: 20,
            expansion: 1,
        };
        let slots = vec![7_u8; usize::try_from(buckets * bucket_size).unwrap()];
        let outline = outline.check().unwrap();
        let mut object = Cuckoo::from_outline(&outline, vec![slots; 65_535]).unwrap();
        let items = items();
        work::take();
        let known = has_each(&object, &items).iter().position(|has| *has);
        let steps = work::take().steps;
        assert!(steps < 10_000 * STEPS, "{steps} to look up");
        add_each(&mut object, &items, true, up_to(65_535));
        let steps = work::take().steps;
        assert!(steps < 10_000 * STEPS, "{steps} to add what is full");
        work::take();
        assert!(object.remove(&items[known.unwrap()]));
        let steps = work::take().steps;
        assert!(steps < 2 * STEPS, "{steps} to remove");
    }
}
