//! Unions of objects of tables.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Object, Shape, Time};

use crate::support::{
    ROOMY, Rng, add_at, counting, dump_of, has_at, object_of, params, scaled_to,
    through_every_form, windowed,
};

/// Returns the union of two objects at a time. The second has something new.
#[track_caller]
fn union_of(sources: [&Object; 2], now_ms: impl Into<Option<u64>>) -> Object {
    let union = Object::union(&sources, now_ms.into(), ROOMY).unwrap();
    union.expect("nothing new")
}

/// Returns an object of some of these items, in the last periods before a time.
fn filled(shape: &Shape, items: &[[u8; 8]], now_ms: u64, seed: Seed, rng: &mut Rng) -> Object {
    let mut object = object_of(shape, seed);
    let mut time = now_ms - 500;
    for _ in 0..rng.below(2 * items.len()) {
        time = now_ms.min(time + rng.next() % 3);
        add_at(&mut object, &rng.pick(items)[..], time).unwrap();
        if rng.below(5) == 0 {
            object.remove(&rng.pick(items)[..]);
        }
    }
    object
}

/// The rates are so small that no two items have the same fingerprint: then a union has exactly what its sources have.
#[test]
fn a_union_has_the_larger_counts_and_the_later_periods() {
    let mut rng = Rng::new(1);
    for round in 0..300 {
        let (seed, now_ms) = (rng.seed(), 1_000_000);
        let items: Vec<_> = (0..=rng.below(200))
            .map(|_| rng.next().to_le_bytes())
            .collect();
        let kind = round % 4;
        let sources: Vec<_> = (0..2 + rng.below(2))
            .map(|_| {
                let rate = *rng.pick(&[1e-6, 1e-7, 1e-8]);
                let params = params(*rng.pick(&[5, 50, 500]), rate, *rng.pick(&[1, 2]));
                let shape = match kind {
                    0 => counting(params),
                    1 => scaled_to(params),
                    _ => windowed(params, 100, 1 + kind * 3),
                };
                filled(&shape, &items, now_ms, seed, &mut rng)
            })
            .collect();
        let sources: Vec<_> = sources.iter().collect();
        let given = (round % 2 == 0).then_some(now_ms);
        let union = |sources: &[&Object]| Object::union(sources, given, ROOMY).unwrap();
        let (mut forth, mut back) = (sources.clone(), sources.clone());
        back.reverse();
        for order in [&forth, &back] {
            let merged = union(order).unwrap_or_else(|| order[0].try_clone().unwrap());
            for item in &items {
                let counts = sources.iter().map(|source| source.count(item));
                assert_eq!(merged.count(item), counts.max().unwrap());
                for later in (0..1_500).step_by(50) {
                    let has = |object: &Object| has_at(object, item, now_ms + later);
                    let expected = sources.iter().any(|source| has(source));
                    assert_eq!(has(&merged), expected, "{later}");
                }
            }
            assert!(merged.estimated_rate(|| now_ms) <= merged.shape().params.error_rate.get());
            for source in sources.iter().copied().chain([&merged]) {
                assert!(union(&[&merged, source]).is_none(), "it is changed again");
            }
            through_every_form(&merged);
        }
        // Objects of one table, of one shape, are merged into the same bytes in any order.
        forth.retain(|source| source.filter_count() == 1 && source.shape() == sources[0].shape());
        if let [one, other, ..] = forth[..] {
            let merged = |sources: &[&Object]| {
                let mut merged = Object::merged(sources, ROOMY).unwrap();
                merged.tidy(now_ms);
                dump_of(&merged)
            };
            assert!(merged(&[one, other]) == merged(&[other, one]));
        }
    }
}

/// As rarely as a false positive, an addition makes a second table claim an item. A removal can't tell which table counted
/// the item.
#[test]
fn an_item_that_two_tables_claim_is_not_removed() {
    let mut object = object_of(&counting(params(1000, 0.5, 1)), Seed::FIXED);
    let item = |number: u64| number.to_le_bytes();
    let mut number = 0;
    while object.totals().1 < object.capacity() || object.filter_count() < 2 {
        add_at(&mut object, &item(number), 0).unwrap();
        number += 1;
    }
    let mut counted: Vec<_> = (0..number)
        .filter(|it| object.count(&item(*it)) == 1)
        .collect();
    // The first table has room again, and the second is full.
    let first = counted.iter().position(|it| object.remove(&item(*it)));
    counted.remove(first.unwrap());
    let mut refused = 0;
    for stranger in number..number + 50 {
        add_at(&mut object, &item(stranger), 0).unwrap();
        for it in &counted {
            if object.count(&item(*it)) == 2 {
                let before = dump_of(&object);
                let removed = object.remove(&item(*it));
                // Or the stranger has the same fingerprint.
                refused += u32::from(!removed);
                assert_eq!(dump_of(&object) == before, !removed);
                if removed {
                    add_at(&mut object, &item(*it), 0).unwrap();
                }
            }
        }
        object.remove(&item(stranger));
    }
    assert!(refused > 10, "{refused}");
}

/// A source that was not written since the clock was set back is set back in the union, and hides nothing of the present.
#[test]
fn a_source_from_the_future_hides_nothing_of_the_present() {
    let shape = windowed(params(100, 0.001, 2), 10, 3);
    let mut future = object_of(&shape, Seed::FIXED);
    let mut present = object_of(&shape, Seed::FIXED);
    add_at(&mut future, b"future", 1_000).unwrap();
    add_at(&mut present, b"present", 500).unwrap();
    for sources in [[&future, &present], [&present, &future]] {
        let mut union = union_of(sources, 500);
        assert!(!union.is_ahead(500));
        union.tidy(500);
        for item in [&b"future"[..], b"present"] {
            assert!(has_at(&union, item, 500), "denied");
            assert!(!has_at(&union, item, 550), "still there");
        }
        // A replica has no clock: its sources are tidied first.
        let mut tidied = sources.map(|source| source.try_clone().unwrap());
        for source in &mut tidied {
            source.tidy(500);
            assert!(!source.is_ahead(500));
        }
        let mut replica = union_of(tidied.each_ref(), None);
        replica.tidy(500);
        assert!(dump_of(&replica) == dump_of(&union));
        // At the time of the future, the present has expired.
        let union = Object::union(&sources, Some(1_000), ROOMY).unwrap();
        let union = union.unwrap_or_else(|| sources[0].try_clone().unwrap());
        assert!(has_at(&union, b"future", 1_000) && !has_at(&union, b"present", 1_000));
    }
}

/// The clock was set back, and a window all of whose items had expired takes those of another.
#[test]
fn an_expired_window_takes_items_of_a_source() {
    let shape = windowed(params(100, 0.001, 2), 10, 3);
    let [mut dropped, mut source] = [(); 2].map(|()| object_of(&shape, Seed::FIXED));
    for item in 0..50_u8 {
        add_at(&mut dropped, &[item], 1_000).unwrap();
        add_at(&mut source, &[item, 1], 1_010).unwrap();
    }
    assert!(dropped.tidy(1_050));
    let union = union_of([&dropped, &source], 1_010);
    assert!((0..50_u8).all(|item| has_at(&union, &[item, 1], 1_010)));
    assert_eq!(union.items(|| 1_010), 50);
    through_every_form(&union);
}

/// The clock is set back by less than a period, again and again, and each time a source with an item that goes soon is merged.
#[test]
fn a_union_remembers_how_far_the_clock_got() {
    let shape = windowed(params(100, 0.001, 2), 1000, 24);
    let soon = |now_ms| Time {
        now_ms,
        ttl_ms: Some(2_000),
    };
    let mut object = object_of(&shape, Seed::FIXED);
    object.tidy(1_000_999);
    object.add(b"item", soon(1_000_999), || ROOMY).unwrap();
    let mut now_ms = 1_000_999;
    for number in 0..10_u8 {
        now_ms -= 999;
        let mut source = object_of(&shape, Seed::FIXED);
        source.add(&[number], soon(now_ms), || ROOMY).unwrap();
        object.tidy(now_ms);
        object = union_of([&object, &source], now_ms);
        object.tidy(now_ms);
    }
    assert!(has_at(&object, b"item", now_ms));
    assert!(!has_at(&object, b"item", now_ms + 4_000));
}
