//! Times, cursors, counts and shapes at the ends of their types.

use valkeybloom_sketches::bloom::{self, Dialect, New, Object, Time, chunks};
use valkeybloom_sketches::cuckoo;
use valkeybloom_sketches::topk::{Chance, Collision, Contest, Decay, Derived};
use valkeybloom_sketches::{Seed, Sketch};

use super::{DOUBLES, NUMBERS, dumps};
use crate::support::{
    Moving, ROOMY, begin_partial, bitmaps, counting, object_of, of_valkey_bloom, params, scaled_to,
    through_every_form, tightened, windowed,
};

#[test]
fn any_time_leaves_an_object_valid() {
    let longest = i64::MAX.cast_unsigned();
    for (period_ms, periods) in [
        (1, 1),
        (1, 1440),
        (1000, 3),
        (longest, 1),
        (longest / 1440, 1440),
    ] {
        let shape = windowed(params(4, 0.1, 2), period_ms, periods);
        let mut object = object_of(&shape, Seed::FIXED);
        for now_ms in NUMBERS.into_iter().rev().chain(NUMBERS) {
            for ttl_ms in [None, Some(0), Some(1), Some(u64::MAX)] {
                let time = Time { now_ms, ttl_ms };
                let clock = || now_ms;
                object.tidy(now_ms);
                let item = now_ms.to_le_bytes();
                object.add(&item, time, || ROOMY).unwrap();
                assert!(object.contains(&item, clock), "{shape:?} {time:?}");
                let live = object.live_periods(clock).unwrap();
                assert!((1..=periods + 1).contains(&live), "{shape:?} {time:?}");
                assert!(object.period_items(clock).unwrap() <= object.items(clock));
                assert!(object.reach(bloom::Limits::NONE) > 0);
                assert!((0.0..=1.0).contains(&object.estimated_rate(clock)));
                let union = Object::union(&[&object, &object], Some(now_ms), ROOMY);
                assert!(union.unwrap().is_none());
            }
        }
        through_every_form(&object);
    }
}

/// One object of each kind, law, hash and family of shapes.
#[allow(clippy::cast_possible_truncation, reason = "there are few objects")]
fn blooms() -> Vec<Object> {
    let window = |period_ms, periods| windowed(params(20, 0.1, 2), period_ms, periods);
    let valkey_bloom = tightened(of_valkey_bloom(0.5), params(20, 0.1, 2));
    let mut blooms: Vec<_> = [
        bloom::Shape::plain(params(1, 0.1, 2)),
        bloom::Shape::plain(params(20, 0.1, 0)),
        bloom::Shape::plain(params(5000, 0.001, 2)),
        bloom::Shape::plain(valkey_bloom),
        counting(params(20, 0.1, 2)),
        scaled_to(params(1, 0.1, 2)),
        window(1000, 3),
        window(1, 1440),
    ]
    .iter()
    .flat_map(|shape| [Seed::FIXED, Seed::new([7; 32])].map(|seed| object_of(shape, seed)))
    .collect();
    for expansion in [0, 2] {
        let params = params(20, 0.1, expansion);
        let new = New::RedisBloom { params, factor: 2 };
        blooms.push(Object::make(&new, Seed::FIXED, bloom::Limits::NONE).unwrap());
    }
    for (number, object) in blooms.iter_mut().enumerate() {
        for item in 0..40_u8 {
            let added = object.add(&[number as u8, item], Time::at(0), || bloom::Limits::NONE);
            assert!(added.is_ok());
        }
    }
    blooms
}

#[test]
#[allow(clippy::cast_possible_truncation, reason = "there are few objects")]
fn any_objects_are_merged_or_refused() {
    let blooms = blooms();
    let mut merged = 0;
    for (one, a) in blooms.iter().enumerate() {
        for (other, b) in blooms.iter().enumerate() {
            for now_ms in [None, Some(0), Some(u64::MAX)] {
                let Ok(union) = Object::union(&[a, b], now_ms, bloom::Limits::NONE) else {
                    continue;
                };
                let union = union.unwrap_or_else(|| a.try_clone().unwrap());
                through_every_form(&union);
                merged += 1;
                let of = |number: usize| (0..40_u8).map(move |item| [number as u8, item]);
                let mut items = of(one).chain(of(other));
                let has_all = items.all(|item| union.contains(&item, || 0));
                assert!(has_all || now_ms == Some(u64::MAX));
            }
            // A probe of another hasher stands for a different item.
            let mut copy = b.try_clone().unwrap();
            let probe = a.probe(b"item");
            copy.add_probe(probe, Time::at(0), || bloom::Limits::NONE)
                .unwrap();
            assert!(copy.contains_probe(probe, || 0));
        }
    }
    assert!(merged > 3 * blooms.len(), "{merged}");
}

/// Returns cursors, many of them around the end, and lengths of chunks to load there.
fn cursors(end: u64) -> impl Iterator<Item = (u64, usize)> {
    let cursors = NUMBERS.into_iter().chain([end - 1, end, end + 1, end + 2]);
    cursors.flat_map(|cursor| [0, 1, 1 << 16].map(|length| (cursor, length)))
}

#[test]
fn any_cursor_is_answered_or_refused() {
    for mut object in blooms() {
        let end = if object.parts().is_empty() {
            bitmaps(&object).len() as u64
        } else {
            1 << 52
        };
        for (cursor, _) in cursors(end) {
            let (next, piece) = chunks::piece(&object, cursor).unwrap();
            assert_eq!([next == 0, piece.is_empty()], [cursor > end; 2], "{cursor}");
        }
        let before = Sketch::Bloom(object.try_clone().unwrap()).to_dump();
        for (cursor, length) in cursors(end) {
            if chunks::overwrite(&mut object, cursor, &vec![0xff; length]).is_ok() {
                // An empty chunk changes nothing.
                let within = if length == 0 { 1..=end } else { 2..=end + 1 };
                let is_within = within.contains(&cursor) && length <= 1;
                assert!(is_within, "{cursor} {length}");
                object.check().unwrap();
            }
        }
        if Dialect::of(&object) != Dialect::RedisBloom {
            assert!(Sketch::Bloom(object.try_clone().unwrap()).to_dump() == before);
        }
        let mut partial = begin_partial(&chunks::header(&object).unwrap()).unwrap();
        for (cursor, length) in cursors(end) {
            let is_loaded = partial.load(cursor, &vec![0xff; length]).is_ok();
            assert!(
                !is_loaded || (cursor, length) == (2, 1),
                "{cursor} {length}"
            );
        }
        for begin in NUMBERS {
            relocate_from(begin, |begin, by| object.relocate(begin, by));
        }
    }
}

#[test]
fn any_cursor_and_any_step_of_a_sketch_are_answered_or_refused() {
    for mut sketch in dumps().map(|(_, payload)| Sketch::from_dump(&payload, Seed::FIXED).unwrap())
    {
        let before = sketch.to_dump();
        for begin in NUMBERS {
            relocate_from(begin, |begin, by| match &mut sketch {
                Sketch::Bloom(object) => object.relocate(begin, by),
                Sketch::Cuckoo(object) => object.relocate(begin, by),
                Sketch::CountMin(object) => {
                    object.relocate(by);
                    None
                }
                Sketch::TopK(object) => object.relocate(begin, by),
                Sketch::TDigest(object) => object.relocate(begin, by),
            });
        }
        assert_eq!(sketch.to_dump(), before);
        let Sketch::Cuckoo(mut object) = sketch else {
            continue;
        };
        for (cursor, length) in cursors(object.size()) {
            let (_, chunk) = cuckoo::wire::chunk(&object, cursor).unwrap();
            let is_within = (1..=object.size()).contains(&cursor);
            assert_eq!(!chunk.is_empty(), is_within, "{cursor}");
            let loaded = cuckoo::wire::load(&mut object, cursor, &vec![1; length]);
            let is_within = (2..=object.size() + 1).contains(&cursor) && length == 1;
            assert_eq!(loaded.is_ok(), is_within, "{cursor} {length}");
        }
    }
}

/// Moves memory in single steps, from a step on.
fn relocate_from(begin: u64, mut relocate: impl FnMut(usize, &mut Moving) -> Option<usize>) {
    let mut step = Some(usize::try_from(begin).unwrap());
    while let Some(begin) = step {
        step = relocate(begin, &mut Moving(1));
        assert!(step.is_none_or(|next| next > begin));
    }
}

#[test]
fn any_contest_has_an_outcome() {
    for base in DOUBLES {
        let Some(decay) = Decay::new(base) else {
            assert!(!(base > 0.0 && base <= 1.0), "{base}");
            continue;
        };
        let numbers = NUMBERS.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        for (count, draws) in numbers.iter().flat_map(|n| numbers.map(|m| (*n, m))) {
            let collision = Collision {
                fingerprint: 1,
                cell: u32::MAX,
                owner: 2,
                count,
                draws,
                number: u64::MAX,
            };
            match Derived.contest(&collision, &decay) {
                Contest::Kept(left) => {
                    assert!((1..=count).contains(&left), "{base} {collision:?}");
                }
                Contest::Taken(left) => assert!(left <= draws, "{base} {collision:?}"),
            }
        }
    }
}
