//! Objects of hundreds of filters and more: against the rules written down once more, and the work that they take.

use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Outline};
use valkeybloom_sketches::work;

use crate::support::{Field, Rng};

use super::{add_each, assert_same, fields_of, has_each, object, read};
use crate::naive::Naive;

/// Returns an object without slots, of as many filters of one size.
fn claimed(filters: u64, buckets: u64, bucket_size: u16) -> Cuckoo {
    let mut header = wire::write_header(&object(4, 2, 20, 1));
    header[8..16].copy_from_slice(&buckets.to_le_bytes());
    header[24..32].copy_from_slice(&filters.to_le_bytes());
    header[32..34].copy_from_slice(&bucket_size.to_le_bytes());
    wire::begin(&header, &Limits::NONE).unwrap()
}

/// Adds, removals, chunks, compaction and reloads beyond the filters that are searched one by one.
#[test]
fn a_deep_life_follows_the_rules() {
    let mut rng = Rng::new(76);
    let mut deepest = 0;
    for round in 0..12 {
        let size = *rng.pick(&[1_u8, 2, 3, 17]);
        let capacity = u64::from(size) << rng.below(3);
        let mut naive = Naive::new(capacity, size.into(), 20, 1);
        let empty = naive.filters[0].clone();
        // Just before summaries, just after, or far after.
        let filters = *rng.pick(if size > 16 {
            &[30, 33, 70, 100]
        } else {
            &[254, 257, 520, 700]
        });
        naive.filters.resize(filters, empty);
        let buckets = naive.first_buckets;
        let mut object = claimed(filters as u64, buckets, size.into());
        let fill = rng.below(4);
        for number in 0..filters {
            let slots = &mut naive.filters[number];
            for slot in slots.iter_mut() {
                if rng.below(4) < fill {
                    *slot = u8::try_from(1 + rng.next() % 255).unwrap();
                    naive.items += 1;
                }
            }
            let end = 1 + (number as u64 + 1) * slots.len() as u64;
            assert_eq!(wire::load(&mut object, end, slots), Ok(true));
        }
        // The header said 0 items.
        let items = Field::Uint(naive.items);
        object = read(fields_of(&object).with(2, items)).unwrap();
        for step in 0..600 {
            let item = rng.below(300).to_string().into_bytes();
            match rng.below(20) {
                0..=9 => {
                    let items: Vec<_> = (0..rng.below(8))
                        .map(|_| rng.below(300).to_string().into_bytes())
                        .collect();
                    let unless_present = rng.below(2) == 0;
                    let added = add_each(&mut object, &items, unless_present, Limits::NONE);
                    assert!(added.iter().all(Result::is_ok));
                    for item in &items {
                        if !unless_present || !naive.has(item) {
                            assert!(naive.add(item, 2000));
                        }
                    }
                }
                10..=16 => assert_eq!(object.remove(&item), naive.remove(&item)),
                17 => {
                    // Over what is there, so that the number of items stays right.
                    let number = rng.below(naive.filters.len());
                    let slots = naive.filters[number].len();
                    let slot = rng.below(slots);
                    let before = naive.filters[number][slot];
                    let byte = u8::try_from(1 + rng.below(255)).unwrap() * u8::from(before > 0);
                    naive.filters[number][slot] = byte;
                    let end = 2 + (number * slots + slot) as u64;
                    assert_eq!(wire::load(&mut object, end, &[byte]), Ok(true));
                }
                18 if step % 7 == 0 => {
                    object.compact();
                    naive.compact(false);
                }
                18 => object = read(fields_of(&object)).unwrap(),
                _ => object = object.try_clone().unwrap(),
            }
            let asked: Vec<_> = (0..9)
                .map(|n| (n * step).to_string().into_bytes())
                .collect();
            for (item, own) in asked.iter().zip(has_each(&object, &asked)) {
                assert_eq!(own, naive.has(item), "{round}");
                assert_eq!(object.contains(item), own);
                assert_eq!(object.count(item), naive.count(item));
            }
            if step % 50 == 0 {
                assert_same(&object, &naive);
            }
            deepest = deepest.max(object.filters().len());
        }
        assert_same(&object, &naive);
    }
    assert!(deepest > 512, "{deepest} filters");
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
        let limits = Limits {
            filters: 65_535,
            ..Limits::NONE
        };
        add_each(&mut object, &items, true, limits);
        let steps = work::take().steps;
        assert!(steps < 10_000 * STEPS, "{steps} to add what is full");
        work::take();
        assert!(object.remove(&items[known.unwrap()]));
        let steps = work::take().steps;
        assert!(steps < 2 * STEPS, "{steps} to remove");
    }
}
