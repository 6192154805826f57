//! Operations on a Bloom object, and on a copy that passes through every form. Both stay equal.

use valkeybloom_sketches::bloom::{
    Added, Dialect, Growth, Kind, Limits, Object, Params, Shape, Tightening, Time, Window,
};
use valkeybloom_sketches::{Fraction, Seed};

use super::forms::{assert_survives_each_form, bytes_of};
use super::source::Source;
use crate::support::{Moving, same};

/// Applies every operation to an object, and asserts that it survives each form.
pub(super) fn check(mut object: Object, source: Source) {
    assert_survives_each_form(&object);
    if object.is_plain() {
        check_adds(&mut object);
    }
    let clone = object.try_clone().expect("there is memory");
    assert_eq!(object.relocate(0, &mut Moving(usize::MAX)), None);
    same(&object, &clone);
    operate(object, source);
}

/// Adds some items to a plain object, which never reads the time.
fn check_adds(object: &mut Object) {
    let never = || panic!("a plain object reads the time");
    let limits = Limits {
        filter_bytes: 1 << 10,
        object_bytes: 1 << 14,
        saturate: object.items(never).is_multiple_of(2),
    };
    let items: [&[u8]; 6] = [b"", b"a", b"bc", b"ITEM", &[0xff; 9], &[0; 33]];
    let mut claims = Vec::new();
    object.contains_each(items.into_iter(), never, |claimed| claims.push(claimed));
    assert_eq!(claims, items.map(|item| object.contains(item, never)));
    for item in items {
        let (claimed, before) = (object.contains(item, never), object.items(never));
        // A saturated filter of RedisBloom counts no further.
        let (_, items, capacity) = object.totals();
        let is_growing = object.shape().params.growth != Growth::Fixed;
        let counts = is_growing || items < capacity || Dialect::of(object) != Dialect::RedisBloom;
        let added = object.add(item, Time::default(), || limits);
        assert_eq!(object.check(), Ok(()));
        match added {
            Ok(Added::New) => {
                assert!(!claimed && object.items(never) == before + u64::from(counts));
            }
            Ok(Added::Present) => assert!(claimed && object.items(never) == before),
            Ok(Added::Again) => panic!("counted in an object of bits"),
            Err(_) => assert!(!claimed && object.items(never) == before),
        }
    }
    for limits in [limits, Limits::NONE] {
        assert!(object.reach(limits) >= object.capacity());
    }
    assert_survives_each_form(object);
}

/// Operates on a new object of a random shape.
pub(super) fn operations(mut source: Source) {
    let fraction = |byte| Fraction::new(f64::from(byte).max(0.5) / 256.0).expect("in range");
    let params = Params {
        capacity: u64::from(source.byte() % 32) + 1,
        error_rate: fraction(source.byte()),
        tightening: Tightening::ours(fraction(source.byte())),
        growth: Growth::from_expansion((source.byte() % 4).into()),
    };
    let (kind, seed) = (source.byte() % 4, Seed::new([source.byte(); 32]));
    let (period_ms, periods) = (source.byte(), source.byte());
    let periods = match periods {
        250.. => Window::MAX_PERIODS - u64::from(u8::MAX - periods),
        _ => u64::from(periods % 8) + 1,
    };
    let window = Window::new(u64::from(period_ms) + 1, periods);
    let kind = match kind {
        0 => Kind::Counting,
        1 => Kind::ScaledTo,
        _ => Kind::Windowed(window.expect("in range")),
    };
    let object = Object::new(&Shape { params, kind }, seed, Limits::NONE);
    check(object.expect("there is memory"), source);
}

/// Applies operations at any time to an object, and to a copy that sometimes passes through every form. Asserts that
/// both stay equal.
fn operate(mut object: Object, mut source: Source) {
    let mut copy = object.try_clone().expect("there is memory");
    // The items that were added. A decoded object may hold others.
    let mut held: Vec<[u8; 2]> = Vec::new();
    let mut now = u64::from(source.u16());
    for _ in 0..30 {
        let (what, item) = (source.byte(), [source.byte() % 64, 7]);
        let limits = limits_of(what);
        match what % 8 {
            0..=2 => {
                let ttl_ms = (what & 8 != 0).then(|| source.u16().into());
                let time = Time {
                    now_ms: now,
                    ttl_ms,
                };
                if add(&mut object, &mut copy, &item, time, limits) {
                    held.push(item);
                }
            }
            // Usually only items that were added.
            3 if held.contains(&item) || what & 8 != 0 => {
                let count = object.count(&item);
                let removed = object.remove(&item);
                assert_eq!(copy.remove(&item), removed);
                assert!(!removed || object.shape().is_counting() && count > 0);
            }
            3 => {}
            4 => now = now.saturating_add(source.u16().into()),
            5 => now = now.saturating_sub(source.u16().into()),
            6 => {
                copy = assert_survives_each_form(&object);
                now = match source.byte() {
                    0 => now.saturating_mul(1000),
                    1 => i64::MAX as u64,
                    2 => 0,
                    _ => now.saturating_add(object.shape().window().map_or(1000, Window::ms)),
                };
            }
            _ => {
                if let Ok(merged) = Object::merged(&[&object, &copy], limits) {
                    for item in &held {
                        let claimed = object.contains(item, || now);
                        assert!(!claimed || merged.contains(item, || now));
                    }
                    assert!(merged.is_within(limits));
                    copy = assert_survives_each_form(&merged);
                    object = merged;
                }
            }
        }
        assert_eq!((object.check(), copy.check()), (Ok(()), Ok(())));
        now = now.min(i64::MAX as u64);
        check_answers(&object, if what < 128 { now } else { now / 2 });
        if source.0.is_empty() {
            break;
        }
    }
    assert!(bytes_of(&copy) == bytes_of(&object), "the bytes differ");
    assert_survives_each_form(&object);
}

/// Returns the limits on an operation: some bind soon.
const fn limits_of(what: u8) -> Limits {
    let (filter_bytes, object_bytes, saturate) = match what >> 5 {
        0 | 1 => (1 << 12, 1 << 15, true),
        2 => (1 << 10, 1 << 14, true),
        _ => (1 << 9, 1 << 12, false),
    };
    Limits {
        filter_bytes,
        object_bytes,
        saturate,
    }
}

/// Adds an item to an object and to its copy. Returns whether there was room.
fn add(object: &mut Object, copy: &mut Object, item: &[u8], time: Time, limits: Limits) -> bool {
    let now = time.now_ms;
    tidy(object, copy, now);
    let claimed = object.contains(item, || now);
    let (before, was_within) = (bytes_of(object), object.is_within(limits));
    let added = object.add(item, time, || limits);
    assert_eq!(copy.add(item, time, || limits), added);
    if let Ok(added) = added {
        assert_eq!(added == Added::New, !claimed);
        assert!(object.contains(item, || now), "denied right after the add");
        assert!(!was_within || object.is_within(limits), "over its limits");
    }
    let changes = matches!(added, Ok(Added::New | Added::Again));
    assert!(changes || bytes_of(object) == before, "changed");
    added.is_ok()
}

fn tidy(object: &mut Object, copy: &mut Object, now: u64) {
    let tidied = object.tidy(now);
    assert_eq!(copy.tidy(now), tidied);
    assert!(!object.tidy(now), "not tidy after tidying");
    assert_eq!((object.check(), copy.check()), (Ok(()), Ok(())));
}

/// Asserts that the answers of an object at a time agree with each other.
fn check_answers(object: &Object, now: u64) {
    let items: [&[u8]; 5] = [b"", b"a", &[3, 7], &[9, 7], &[0; 33]];
    let mut claims = Vec::new();
    object.contains_each(items.into_iter(), || now, |claimed| claims.push(claimed));
    assert_eq!(claims, items.map(|item| object.contains(item, || now)));
    let shape = object.shape();
    for item in items {
        let claimed = object.contains(item, || now);
        assert_eq!(object.count(item) > 0, shape.is_counting() && claimed);
    }
    let (count, _, capacity) = object.totals();
    assert_eq!(
        (object.filter_count(), object.capacity()),
        (count, capacity)
    );
    let filters = object.filters().count() + object.parts().len();
    // An older table that has become empty is about to go.
    assert!(filters as u64 >= count);
    for (filter, rate) in object.filters() {
        assert!(
            (0.0..=1.0).contains(&rate),
            "{filter:?} has a rate of {rate}"
        );
    }
    let periods = object.live_periods(|| now);
    assert_eq!(periods.is_some(), shape.window().is_some());
    assert!(periods.is_none_or(|periods| periods <= shape.most_periods()));
    let of_period = object.period_items(|| now);
    assert!(of_period.is_none_or(|items| items <= object.items(|| now)));
    // These two calls take as long as all the others, so they are made rarely.
    if object.items(|| now) % 16 == 1 {
        assert!((0.0..=1.0).contains(&object.estimated_rate(|| now)));
        assert!(object.reach(Limits::NONE) > 0);
    }
}
