//! Windows against a model: the newest period of each item, and a clock that the test sets. Items of the model must
//! be found; other items may be found at the requested rate and no more.

mod model;

use valkeybloom_sketches::bloom::{Added, Limits, Object, Refusal, Time};
use valkeybloom_sketches::{Fraction, Seed};

use crate::support::{
    ROOMY, Rng, add_at, at_each_width, counting, dump_of, has_at, params, through_every_form,
    windowed,
};
use model::{Model, known};

#[test]
fn a_rate_that_is_too_small_is_refused_before_a_capacity_that_is_too_large() {
    let shape = |rate| windowed(params(i64::MAX as u64 - 1, rate, 2), 1_000, 1);
    let made = |rate| Object::new(&shape(rate), Seed::FIXED, Time::at(0), Limits::NONE).err();
    assert_eq!(made(5e-324), Some(Refusal::RateTooSmall));
    assert_eq!(made(0.01), Some(Refusal::OutOfMemory));
}

/// Several windows with odd periods, filled to about what they are for. All in all two million steps.
#[test]
fn random_times_agree_with_the_model() {
    let mut rng = Rng::new(1);
    for (capacity, expansion, period_ms, periods) in [
        (1500, 0, 1_000, 1),
        (1500, 2, 997, 2),
        (200, 2, 7_919, 3),
        (100, 1, 60_013, 7),
        (1500, 0, 1_000_003, 7),
        (1500, 0, 997, 3),
        (100, 2, 12_345, 2),
    ] {
        let shape = windowed(params(capacity, 0.02, expansion), period_ms, periods);
        let now = rng.next() % (1 << 45);
        let mut model = Model::new(shape, now, ROOMY, &mut rng);
        model.run(280_000, 1_000, &mut rng);
        model.keeps_its_rate();
    }
}

/// The smallest numbers there are: periods of a millisecond, times near the epoch, filters of an item.
#[test]
fn random_times_of_tiny_windows_agree_with_the_model() {
    let mut rng = Rng::new(2);
    for (periods, expansion) in [(1, 0), (2, 0), (3, 2), (7, 1), (100, 0), (1_440, 0)] {
        let shape = windowed(params(1, 0.3, expansion), 1, periods);
        for limits in [ROOMY, Limits::NONE] {
            let mut model = Model::new(shape, 0, limits, &mut rng);
            model.run(4_000, 2, &mut rng);
            let fixed = limits == ROOMY && expansion == 0;
            assert_eq!(model.refused > 0, fixed, "{} refused", model.refused);
        }
    }
}

/// A single item in an object: there are no false positives, so the times at which it is found are exact.
#[test]
fn an_item_is_found_for_as_long_as_is_documented() {
    let mut rng = Rng::new(3);
    for _ in 0..20_000 {
        let (period, periods) = (1 + rng.next() % 100, 1 + rng.next() % 8);
        let shape = windowed(params(10, 0.01, 2), period, periods);
        let window = period * periods;
        let now_ms = window + rng.next() % (20 * window);
        let ttl_ms = match rng.below(3) {
            0 => None,
            1 => Some(1 + rng.next() % window),
            _ => Some(1 + rng.next() % (3 * window)),
        };
        let time = Time { now_ms, ttl_ms };
        let mut object = Object::new(&shape, Seed::FIXED, Time::at(now_ms), ROOMY).unwrap();
        let item = b"item";
        assert_eq!(object.add(item, time, None, || ROOMY), Ok(Added::New));
        let end = (now_ms..=now_ms + 2 * window).find(|time| !has_at(&object, item, *time));
        let found_for = end.unwrap() - now_ms;
        let (least, most) = match ttl_ms {
            None => (window - period + 1, window),
            Some(ttl) => (ttl.min(window), ttl.min(window) + period),
        };
        assert!(
            (least..=most).contains(&found_for),
            "for {found_for} with {periods} periods of {period} at {time:?}"
        );
        // It ends with a period, and expired items do not come back.
        assert_eq!((now_ms + found_for) % period, 0);
        for later in [0, 1, period, window, u64::from(u32::MAX)] {
            assert!(!has_at(&object, item, now_ms + found_for + later));
        }
        // Freed or not, it is not found.
        let passed = now_ms + window + period;
        assert_eq!(object.live_periods(|| passed), Some(0));
        let before = object.memory_bytes();
        assert!(object.tidy(passed));
        assert!(object.memory_bytes() < before);
        assert_eq!((object.items(|| passed), object.totals()), (0, (0, 0, 0)));
        assert!(!has_at(&object, item, now_ms));
    }
}

#[test]
fn adding_again_lengthens_a_life_and_never_shortens_it() {
    let shape = windowed(params(100, 0.001, 2), 10, 3);
    let mut object = Object::new(&shape, Seed::FIXED, Time::at(0), ROOMY).unwrap();
    let item = b"item";
    assert_eq!(add_at(&mut object, item, 5), Ok(Added::New));
    assert_eq!(add_at(&mut object, item, 9), Ok(Added::Present));
    // Another period: it is put there too.
    assert_eq!(add_at(&mut object, item, 10), Ok(Added::Again));
    assert_eq!(add_at(&mut object, item, 19), Ok(Added::Present));
    assert_eq!(
        (object.items(|| 19), object.live_periods(|| 19)),
        (2, Some(2))
    );
    assert_eq!(
        [19, 20].map(|now| object.period_items(|| now)),
        [Some(1), Some(0)]
    );
    assert!(has_at(&object, item, 39) && !has_at(&object, item, 40));
    // It lives for a short time anyway, for a long one not yet.
    let time = |now_ms, ttl_ms| Time {
        now_ms,
        ttl_ms: Some(ttl_ms),
    };
    let mut add = |time| object.add(item, time, None, || ROOMY);
    assert_eq!(add(time(19, 1)), Ok(Added::Present));
    assert_eq!(add(time(19, 21)), Ok(Added::Present));
    assert_eq!(add(time(19, 22)), Ok(Added::Again));
    assert_eq!(add(time(19, 30)), Ok(Added::Present));
    // The period ahead was made for it, and is the current one soon.
    assert_eq!(add(Time::at(20)), Ok(Added::Present));
    assert!(has_at(&object, item, 49) && !has_at(&object, item, 50));
}

/// The next write sets periods in the future back with the clock, and they expire one by one.
#[test]
fn a_clock_that_is_set_back_does_not_keep_items_for_ever() {
    let shape = windowed(params(100, 0.001, 2), 10, 3);
    let mut object = Object::new(&shape, Seed::FIXED, Time::at(1_000), ROOMY).unwrap();
    for (item, now) in [(b"a", 1_000), (b"b", 1_010), (b"c", 1_020)] {
        assert_eq!(add_at(&mut object, item, now), Ok(Added::New));
    }
    let found = |object: &Object, now| {
        let items = [b"a", b"b", b"c", b"d"].into_iter();
        let claimed = items.filter(|item| has_at(object, *item, now));
        claimed.count()
    };
    // Reads find them, at any time, and change nothing.
    assert_eq!((found(&object, 500), found(&object, 1_020)), (3, 3));
    assert_eq!(
        (object.live_periods(|| 500), object.items(|| 500)),
        (Some(3), 3)
    );
    assert_eq!(found(&object, 1_030), 2);
    // A little, or far.
    for back_to in [1_005, 500] {
        let mut object = object.try_clone().unwrap();
        assert_eq!(add_at(&mut object, b"d", back_to), Ok(Added::New));
        assert_eq!(
            (object.live_periods(|| back_to), object.items(|| back_to)),
            (Some(3), 4)
        );
        let at = |periods: u64| found(&object, back_to / 10 * 10 + 10 * periods);
        assert_eq!([0, 1, 2, 3, 4].map(at), [4, 4, 3, 1, 0]);
        // The last of them is in the period ahead, where it stays for longer than what is added now.
        let later = back_to + 4;
        assert_eq!(add_at(&mut object, b"c", later), Ok(Added::Present));
        let copy = through_every_form(&object);
        let end = back_to / 10 * 10 + 40;
        assert_eq!((found(&copy, end - 1), found(&copy, end)), (1, 0));
        assert!(object.tidy(end));
        assert_eq!(object.totals(), (0, 0, 0));
    }
}

/// The number of periods never exceeds the divisor of the error rate, however often the clock is set back.
#[test]
fn a_clock_that_is_set_back_again_and_again_adds_nothing_to_the_rate() {
    let shape = windowed(params(100, 0.01, 0), 10, 5);
    let mut object = Object::new(&shape, Seed::FIXED, Time::at(0), ROOMY).unwrap();
    let mut rng = Rng::new(9);
    for _ in 0..30 {
        for now in (1_000..1_100).step_by(10) {
            object.tidy(now);
            for _ in 0..90 {
                let item = rng.next().to_le_bytes();
                let added = object.add(&item, Time::at(now), None, || ROOMY);
                assert!(matches!(added, Ok(_) | Err(Refusal::Full)), "{added:?}");
            }
            assert!(object.periods().len() <= 6, "{}", object.periods().len());
            let rate = object.estimated_rate(|| now);
            assert!(rate <= 0.0105, "{rate}");
        }
    }
}

/// A full window that does not grow keeps its items: adding one of them again is not an error.
#[test]
fn a_full_window_finds_items_of_older_periods() {
    let shape = windowed(params(5, 0.001, 0), 10, 3);
    let mut object = Object::new(&shape, Seed::FIXED, Time::at(0), ROOMY).unwrap();
    assert_eq!(add_at(&mut object, b"old", 0), Ok(Added::New));
    for item in 0..5_u8 {
        assert_eq!(add_at(&mut object, &[item], 10), Ok(Added::New));
    }
    assert_eq!(add_at(&mut object, b"new", 10), Err(Refusal::Full));
    assert_eq!(add_at(&mut object, b"old", 10), Ok(Added::Present));
    assert!(!has_at(&object, b"old", 30), "kept for longer");
}

/// A window in which nothing ends before its time takes as much memory after a thousand rotations as
/// after one.
#[test]
fn memory_is_flat_over_a_thousand_rotations() {
    for (expansion, each) in [(0, 50), (2, 200)] {
        let shape = windowed(params(50, 0.01, expansion), 1_000, 5);
        let mut rng = Rng::new(4);
        let mut object = Object::new(&shape, Seed::FIXED, Time::at(0), ROOMY).unwrap();
        let mut full = 0;
        for period in 0..5_000 {
            let now = period * 1_000 + 500;
            object.tidy(now);
            for _ in 0..each {
                let item = rng.next().to_le_bytes();
                object.add(&item, Time::at(now), None, || ROOMY).unwrap();
            }
            match period {
                // The first two periods stack filters, until the window has adapted.
                0..6 => {}
                6 => full = object.memory_bytes(),
                _ => assert_eq!(object.memory_bytes(), full, "in period {period}"),
            }
        }
        let items = object.items(|| 4_999_500);
        assert!((each * 49 / 10..=each * 5).contains(&items), "{items}");
    }
}

/// Batches of any size, in which items repeat, periods grow or are opened, and limits refuse; with ids, and with
/// removals, after which older filters have room.
#[test]
fn random_batches_are_single_calls() {
    at_each_width(|width| {
        let mut rng = Rng::new(7);
        for turn in 0..60 {
            let mut params = params(
                1 + rng.next() % 80,
                *rng.pick(&[0.3, 0.01]),
                *rng.pick(&[0, 1, 2]),
            );
            if turn % 10 == 9 {
                // Rows of more hash functions than are computed together, and large filters.
                params.error_rate = Fraction::new(1e-7).unwrap();
                params.capacity = 100_000;
            }
            let (counts, ids) = (rng.below(3) > 0, rng.below(2) == 0);
            let shape = if counts {
                counting(params)
            } else {
                windowed(params, 100, 1 + rng.next() % 6)
            };
            let limits = Limits {
                filter_bytes: u64::MAX,
                object_bytes: if rng.below(2) == 0 {
                    u64::MAX
                } else {
                    1_000 + rng.next() % 8_000
                },
                saturate: rng.below(3) == 0,
            };
            let mut together = Object::new(&shape, rng.seed(), Time::at(0), ROOMY).unwrap();
            let mut alone = together.try_clone().unwrap();
            let (mut now_ms, mut id) = (0, 100);
            for step in 0..30 {
                now_ms = (now_ms + rng.next() % 90).saturating_sub(rng.next() % 60);
                let time = Time {
                    now_ms,
                    ttl_ms: (rng.below(3) == 0).then(|| 1 + rng.next() % 800),
                };
                id = (id + rng.next() % 3).saturating_sub(rng.next() % 3);
                let id = (counts && ids && rng.below(5) > 0).then_some(id);
                let range = *rng.pick(&[20, 200, 2_000]);
                let count = *rng.pick(&[1, 2, 64, 65, 130]);
                let items: Vec<_> = (0..count).map(|_| known(rng.below(range))).collect();
                let items = || items.iter().map(|item| &item[..]);
                together.tidy(now_ms);
                alone.tidy(now_ms);
                let mut outcomes = Vec::new();
                together.add_each(items(), time, id, || limits, |o| outcomes.push(o));
                let mut expected = Vec::new();
                for item in items() {
                    expected.push(alone.add(item, time, id, || limits));
                    if expected.last().is_some_and(Result::is_err) {
                        break;
                    }
                }
                let what = format!("{width:?}, {shape:?}, turn {turn}, step {step}");
                assert_eq!(outcomes, expected, "{what}");
                let asked: Vec<_> = (0..2 * count).map(|_| known(rng.below(range))).collect();
                let later = now_ms + rng.next() % 500;
                let mut claims = Vec::new();
                let slices = asked.iter().map(|item| &item[..]);
                together.contains_each(slices, || later, |claimed| claims.push(claimed));
                let expected = asked.iter().map(|item| has_at(&alone, item, later));
                assert!(expected.eq(claims), "{what}");
                if counts && rng.below(2) == 0 {
                    for item in (0..200).map(|_| known(rng.below(range))) {
                        let removed = together.remove(&item, id);
                        assert_eq!(removed, alone.remove(&item, id), "{what}");
                    }
                }
                assert!(dump_of(&together) == dump_of(&alone), "{what}");
                assert_eq!(together.memory_bytes(), alone.memory_bytes(), "{what}");
            }
        }
    });
}

/// The most items that are promised are those that there is room for, to the byte.
#[test]
fn growth_ends_at_the_limits() {
    let mut rng = Rng::new(6);
    for _ in 0..300 {
        let params = params(20, 0.01, *rng.pick(&[1, 2]));
        let windowed = rng.below(2) == 0;
        let shape = if windowed {
            crate::support::windowed(params, 1_000, 3)
        } else {
            counting(params)
        };
        let limits = Limits {
            filter_bytes: u64::MAX,
            object_bytes: 900 + rng.next() % 3_000,
            saturate: false,
        };
        let Ok(mut object) = Object::new(&shape, rng.seed(), Time::at(0), limits) else {
            assert!(
                shape.reach(limits).0 == 0,
                "{:?} of {limits:?}",
                shape.reach(limits)
            );
            continue;
        };
        assert_eq!(
            shape.reach(limits).0,
            object.reach(|| 0, limits),
            "{limits:?}"
        );
        let periods = if windowed { 3 } else { 1 };
        for now_ms in (0..periods).map(|period| period * 1_000) {
            let promised = object.reach(|| now_ms, limits);
            let refusal = loop {
                let item = rng.next().to_le_bytes();
                if let Err(refusal) = object.add(&item, Time::at(now_ms), None, || limits) {
                    break refusal;
                }
                assert!(object.is_within(limits));
            };
            assert_eq!(refusal, Refusal::MemoryLimit);
            let current = object
                .filters(|| now_ms)
                .filter(|(period, ..)| period.unwrap_or(0) == now_ms / 1_000);
            let capacity: u64 = current.map(|(_, filter, _)| filter.capacity()).sum();
            assert_eq!(capacity, promised, "at {now_ms} of {limits:?}");
        }
    }
}
