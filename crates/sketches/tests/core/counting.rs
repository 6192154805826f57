//! Counters without ids: what is removed, and what stays. Random sequences are in `ids`.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Added, Cells, Object, Refusal, Time, dump};

use crate::support::{
    NO_CLOCK, ROOMY, Rng, bitmap, bitmaps, counting, dump_of, grow, object, object_of, params,
    windowed,
};

fn bytes(item: u64) -> [u8; 8] {
    item.to_le_bytes()
}

pub fn add(object: &mut Object, item: u64, id: Option<u64>) -> Result<Added, Refusal> {
    object.add(&bytes(item), Time::default(), id, || ROOMY)
}

pub fn remove(object: &mut Object, item: u64, id: Option<u64>) -> bool {
    object.remove(&bytes(item), id)
}

pub fn has(object: &Object, item: u64) -> bool {
    object.contains(&bytes(item), NO_CLOCK)
}

pub fn count(object: &Object, item: u64) -> u64 {
    object.count(&bytes(item))
}

fn is_zero(object: &Object) -> bool {
    bitmaps(object).iter().all(|cells| *cells == 0)
}

/// Returns whether no counter is in use, but for those that are full, which stay. (An item whose positions are all
/// the same fills one alone.)
fn is_zero_or_full(object: &Object) -> bool {
    bitmaps(object).iter().all(|cells| {
        [cells & 15, cells >> 4]
            .iter()
            .all(|cell| [0, 15].contains(cell))
    })
}

/// A full counter has lost its count: it stays, and nothing is removed.
#[test]
fn full_counters_stay() {
    for adds in [14, 15, 16, 40] {
        let mut object = object_of(&counting(params(10, 0.001, 2)), Seed::FIXED);
        assert_eq!(add(&mut object, 1, None), Ok(Added::New));
        for _ in 1..adds {
            assert_eq!(add(&mut object, 1, None), Ok(Added::Again));
        }
        assert_eq!(object.items(NO_CLOCK), 1);
        assert_eq!(count(&object, 1), adds.min(15));
        let before = dump_of(&object);
        for left in (0..adds).rev() {
            assert_eq!(remove(&mut object, 1, None), adds < 15);
            assert_eq!(count(&object, 1), if adds < 15 { left } else { 15 });
        }
        assert_eq!(dump_of(&object) == before, adds >= 15);
        assert_eq!(has(&object, 1), adds >= 15);
        assert_eq!(is_zero(&object), adds < 15);
        assert!(!remove(&mut object, 1, None));
    }
}

/// If some counters of an item are full, shared with other items, the rest still give its count.
#[test]
fn an_item_that_shares_full_counters_is_removed() {
    let mut object = object_of(&counting(params(20, 0.3, 0)), Seed::FIXED);
    for _ in 0..20 {
        add(&mut object, 1, None).unwrap();
    }
    let mut shared = 0;
    for item in 2..4000 {
        if !has(&object, item) {
            let full = |object: &Object| -> u32 {
                let cells = bitmaps(object);
                cells
                    .iter()
                    .map(|c| u32::from(c & 15 == 15) + u32::from(c >> 4 == 15))
                    .sum()
            };
            let in_use = |object: &Object| -> usize {
                let cells = bitmaps(object);
                cells
                    .iter()
                    .map(|c| usize::from(c & 15 > 0) + usize::from(c >> 4 > 0))
                    .sum()
            };
            let before = (full(&object), in_use(&object), dump_of(&object));
            add(&mut object, item, None).unwrap();
            let hashes = object.views().map(|f| f.geometry().hashes).sum::<u32>() as usize;
            shared += u32::from(in_use(&object) < before.1 + hashes);
            assert!(remove(&mut object, item, None), "item {item}");
            assert!(dump_of(&object) == before.2 && full(&object) == before.0);
        }
    }
    assert!(shared > 20, "{shared} shared a counter");
    assert!(has(&object, 1));
}

#[test]
fn unclaimed_items_are_not_removed() {
    let mut object = object_of(&counting(params(10, 0.001, 2)), Seed::FIXED);
    assert!(!remove(&mut object, 1, None));
    add(&mut object, 1, None).unwrap();
    assert!(!remove(&mut object, 2, None));
    assert!(!remove(&mut object, 1, Some(1)), "no ids were given");
    assert!(remove(&mut object, 1, None));
    assert!(!remove(&mut object, 1, None));
    assert_eq!(object.totals(), (1, 0, 10));
    // Bits are not taken back.
    let mut bits = object_of(&windowed(params(10, 0.001, 2), 10, 2), Seed::FIXED);
    add(&mut bits, 1, None).unwrap();
    assert!(!remove(&mut bits, 1, None));
    assert!(bits.contains(&bytes(1), || 0));
    assert_eq!(count(&bits, 1), 0, "bits do not count");
}

/// All added items are removed again: those that more than one filter claims stay, and they are no more than the rate.
#[test]
#[allow(clippy::cast_precision_loss, reason = "counts are small")]
fn few_removals_are_ambiguous() {
    for (capacity, expansion, filters, rate) in [
        (1_000, 2, 5, 0.01),
        (2_000, 1, 6, 0.05),
        (500, 2, 6, 0.001),
        (20_000, 2, 1, 0.1),
    ] {
        let mut rng = Rng::new(capacity);
        let (mut asked, mut refused) = (0.0, 0.0);
        for _ in 0..4 {
            let shape = counting(params(capacity, rate, expansion));
            let mut object = object_of(&shape, rng.seed());
            let mut items = Vec::new();
            while object.totals().0 < filters || object.totals().1 < object.totals().2 {
                let item = rng.next();
                add(&mut object, item, None).unwrap();
                items.push(item);
            }
            let left = items
                .iter()
                .filter(|item| !remove(&mut object, **item, None));
            let left = left.count();
            assert_eq!(is_zero_or_full(&object), left == 0, "{left} are left");
            assert!(filters > 1 || left == 0, "{left} of one filter");
            asked += items.len() as f64;
            refused += left as f64;
        }
        // Each is held by one filter, and the others claim it at their own rates.
        let most = asked * rate;
        let bound = most + 4.0 * (most * (1.0 - rate)).sqrt();
        assert!(refused <= bound, "{refused} of {asked} at {rate}");
        assert!(refused > 0.0 || filters == 1 || rate <= 0.001);
    }
}

/// Adding and removing for ever needs no more filters than what is held at one time.
#[test]
fn steady_churn_does_not_grow_the_stack() {
    for (expansion, held, filters) in [(2, 900, 1), (2, 6_000, 3), (1, 2_500, 3)] {
        let mut rng = Rng::new(held);
        let mut object = object_of(&counting(params(1_000, 0.01, expansion)), rng.seed());
        let mut items: Vec<u64> = Vec::new();
        while items.len() as u64 != held {
            items.push(rng.next());
            add(&mut object, items[items.len() - 1], None).unwrap();
        }
        assert_eq!(object.totals().0, filters);
        for _ in 0..150_000 {
            let place = rng.below(items.len());
            if remove(&mut object, items[place], None) {
                items[place] = rng.next();
                add(&mut object, items[place], None).unwrap();
            }
        }
        assert_eq!(object.totals().0, filters, "with {held} held");
        let reported = object.items(NO_CLOCK);
        assert!(reported.abs_diff(held) <= held / 10, "{reported} of {held}");
        assert!(items.iter().all(|item| has(&object, *item)));
    }
}

#[test]
#[allow(clippy::cast_precision_loss, reason = "sizes are small")]
fn counters_take_four_times_the_memory_of_bits() {
    let mut rng = Rng::new(4);
    let params = params(50_000, 0.01, 2);
    let mut bits = object(&params, Seed::FIXED);
    grow(&mut bits, &mut rng, |object| object.totals().0 == 3);
    let mut counters = object_of(&counting(params), Seed::FIXED);
    while counters.totals().0 < 3 {
        add(&mut counters, rng.next(), None).unwrap();
    }
    let times = counters.memory_bytes() as f64 / bits.memory_bytes() as f64;
    assert!((3.9..4.1).contains(&times), "{times} times");
    for (counters, bits) in counters.views().zip(bits.views()) {
        // Somewhat more, for what their number of items may be wrong by.
        let more = counters.geometry().positions as f64 / bits.geometry().positions as f64;
        assert!((1.0..1.01).contains(&more), "{more}");
        assert_eq!(counters.geometry().hashes, bits.geometry().hashes);
        assert_eq!(
            bitmap(&counters).len() as u64 * 8 / counters.geometry().positions,
            Cells::Counters.bits()
        );
    }
}

/// Above 65,536 items, the number of items is not compared with the counters each time. It comes back all the same.
#[test]
fn a_wrong_number_of_items_is_noticed_soon() {
    let mut object = object_of(&counting(params(100_000, 0.01, 2)), Seed::FIXED);
    let mut items = 0..;
    let mut add_next = |object: &mut Object, count| {
        for item in items.by_ref().take(count) {
            add(object, item, None).unwrap();
        }
        object.items(NO_CLOCK)
    };
    let known = add_next(&mut object, 80_000);
    for wrong in [known - 10_000, known + 10_000] {
        // The number of items is the last field.
        let mut bytes = dump::encode(&object).unwrap();
        let place = bytes.len() - 8;
        bytes[place..].copy_from_slice(&wrong.to_le_bytes());
        object = dump::decode(&bytes).unwrap();
        let counted = add_next(&mut object, 2 * 16);
        assert!(counted.abs_diff(known) < 2_000, "from {wrong}: {counted}");
    }
}
