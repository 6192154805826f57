//! Plans: a planned object equals the real one.

use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Params, Refusal, Shape};

use super::{params, up_to};

fn shape(bucket_size: u8, expansion: u16) -> Shape {
    Shape::new(&params(512, bucket_size, 20, expansion)).unwrap()
}

fn add(object: &mut Cuckoo, item: u64, limits: Limits) -> Result<bool, Refusal> {
    object.add(&item.to_le_bytes(), false, || limits)
}

/// Each filter that is stacked brings the planned bytes and slots, also past the filters that have summaries.
#[test]
fn a_plan_is_what_an_object_becomes() {
    for (bucket_size, expansion, filters) in [(2, 1, 300), (64, 1, 40), (4, 2, 6), (1, 0, 1)] {
        let shape = shape(bucket_size, expansion);
        let limits = up_to(filters);
        let mut object = Cuckoo::new(shape, &limits).unwrap();
        let (mut item, mut seen) = (0, 0);
        let stopped = loop {
            let count = object.filters().len() as u64;
            if count > seen {
                let plan = shape.plan(object.size(), &limits).unwrap();
                assert_eq!(plan.filters, count);
                assert_eq!(plan.slots, object.size());
                assert_eq!(plan.bytes, object.memory_bytes(), "{shape:?}, {count}");
                seen = count;
            }
            item += 1;
            if let Err(refusal) = add(&mut object, item, limits) {
                break refusal;
            }
        };
        let (most, refusal) = shape.reach(&limits);
        assert_eq!((most.filters, refusal), (filters, stopped));
        assert_eq!(shape.plan(most.slots + 1, &limits), Err(stopped));
    }
}

/// A capacity has a slot for each item, and so has no smaller one that the bucket size divides.
#[test]
fn a_capacity_has_a_slot_for_each_item() {
    for bucket_size in [1, 2, 3, 7, 64, 255] {
        let size = u64::from(bucket_size);
        for items in (1..3000).chain([(1 << 29) + 1, (1 << 30) - 1, 1 << 30]) {
            let capacity = Params::capacity_for(items, size);
            let shape = Shape::new(&params(capacity, bucket_size, 20, 1)).expect("it is valid");
            assert!(shape.bytes_of(0) >= Some(items), "{items} of {bucket_size}");
            assert!(capacity < items.max(size + 1) + size);
        }
    }
    assert_eq!(Params::capacity_for((1 << 30) + 1, 255), (1 << 30) + 1);
}

/// The share of other items that are claimed is near the expected one.
#[test]
fn the_expected_rate_is_the_measured_one() {
    for (bucket_size, expansion) in [(1, 1), (2, 1), (4, 2), (16, 1)] {
        let shape = shape(bucket_size, expansion);
        let mut object = Cuckoo::new(shape, &Limits::NONE).unwrap();
        let items = 360;
        for item in 0..items {
            add(&mut object, item, Limits::NONE).unwrap();
        }
        let others = items..items + 200_000;
        let claimed = others.filter(|item| object.contains(&item.to_le_bytes()));
        let measured = f64::from(u32::try_from(claimed.count()).unwrap()) / 200_000.0;
        let expected = shape.rate_at(items);
        let ratio = measured / expected;
        assert!((0.85..1.15).contains(&ratio), "{shape:?}: {ratio}");
    }
}
