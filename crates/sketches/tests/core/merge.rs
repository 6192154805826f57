//! Merged objects hold the items of all sources, at a rate of at most the sum of theirs. Merging a source again
//! changes nothing, and the result can be stored and grows like any object.

use std::collections::HashSet;

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{
    Dialect, Kind, Limits, MAX_FILTERS, MergeError, Object, Refusal, Shape, Time, dump,
};

use crate::support::{
    NO_CLOCK, ROOMY, Rng, add, bitmaps, counting, dump_of, filter, filters, fraction, grow, has,
    is_full, items, object, of_filters, params, through_every_form, tightened, tightening,
    windowed, within,
};

fn merged(sources: &[Object], limits: Limits) -> Result<Object, MergeError> {
    let sources: Vec<_> = sources.iter().collect();
    Object::merged(&sources, limits)
}

/// Returns the object read from each stored form, which takes the same memory.
#[track_caller]
fn reloaded(object: &Object) -> Object {
    assert_eq!(dump_of(object)[0], 1);
    let read = through_every_form(object);
    let decoded = dump::decode(&dump_of(object)).unwrap();
    assert_eq!(decoded.memory_bytes(), object.memory_bytes());
    read
}

/// Returns an object of `filters` full filters of 512 bits for one item each, all of them different.
fn deep(filters: u64, rng: &mut Rng) -> Object {
    let filters = (0..filters).map(|_| {
        let bits = rng.bytes(64).into_iter().map(|byte| byte & 0x11);
        filter(20, &Seed::new([7; 32]), 1, bits.collect())
    });
    of_filters(1, filters.collect())
}

/// None of their filters has room for another, and there are as many as a stack may have, or one more.
#[test]
fn the_deepest_stacks_are_merged() {
    let mut rng = Rng::new(5);
    let half = MAX_FILTERS / 2;
    let sources = [deep(half, &mut rng), deep(half, &mut rng)];
    let both = merged(&sources, Limits::NONE).unwrap();
    assert_eq!(both.totals(), (2 * half, 2 * half, 2 * half));
    let refused = merged(&[both, deep(1, &mut rng)], Limits::NONE).err();
    assert_eq!(refused, Some(MergeError::Refused(Refusal::MemoryLimit)));
}

/// From rates follow the sizes of filters, which a primary and its replicas each work out for themselves.
#[test]
fn rates_are_the_same_on_every_machine() {
    let object = of_filters(1, vec![filter(20, &Seed::new([7; 32]), 1, vec![0x11; 64])]);
    let filter = filters(&object)[0];
    let rates = [1, 7, 100].map(|items| filter.rate_at(items).to_bits());
    assert_eq!(
        rates,
        [
            0x3ece_2008_9dcd_3b5b,
            0x3f26_7512_b72f_eaca,
            0x3ff0_0000_0000_0000
        ]
    );
}

/// Returns an object with some items, which are added to `held`.
fn source(rng: &mut Rng, seed: Seed, held: &mut HashSet<[u8; 8]>) -> Object {
    let tightening = tightening(*rng.pick(&[0.5, 0.5, 0.8]));
    let capacity = *rng.pick(&[1, 5, 50, 50, 50, 1_000]);
    let rate = *rng.pick(&[0.2, 0.05, 0.05, 0.001]);
    let params = params(capacity, rate, *rng.pick(&[0, 1, 2, 2]));
    let mut source = object(&tightened(tightening, params), seed);
    let most = *rng.pick(&[3, 60, 300]);
    for _ in 0..rng.below(most) {
        let item = rng.below(2_000).to_le_bytes();
        let added = source.add(&item, Time::default(), || Limits::NONE);
        added.unwrap();
        held.insert(item);
    }
    source
}

#[test]
fn a_merged_object_holds_the_items_of_all_sources() {
    let mut rng = Rng::new(1);
    let (mut one, mut several) = (0, 0);
    for _ in 0..400 {
        let seed = rng.seed();
        let mut held = HashSet::new();
        let sources = (0..=rng.below(4)).map(|_| source(&mut rng, seed, &mut held));
        let sources: Vec<_> = sources.collect();
        let rate_of = |object: &Object| object.shape().params.error_rate.get();
        let rates: f64 = sources.iter().map(rate_of).sum();
        let mut object = match merged(&sources, ROOMY) {
            Ok(object) => object,
            Err(error) => {
                assert_eq!(error, MergeError::Rates);
                let mut filters = sources.iter().flat_map(Object::filters);
                let over = filters.any(|(filter, _)| filter.items() > filter.capacity());
                assert!(over || rates > 0.5, "{rates} is a rate");
                continue;
            }
        };
        assert!(rate_of(&object) >= rate_of(&sources[0]));
        let filters: u64 = sources.iter().map(|source| source.totals().0).sum();
        let (united, ..) = object.totals();
        assert!(united <= filters);
        one += u32::from(sources.len() > 1 && united == 1);
        several += u32::from(united > 1);
        assert!(held.iter().all(|item| has(&object, item)), "denied");
        let laws: f64 = object.filters().map(|(_, rate)| rate).sum();
        assert!(laws.is_finite() && object.estimated_rate(NO_CLOCK) <= 1.0);
        for source in &sources {
            let again = Object::union(&[&object, source], None, ROOMY).unwrap();
            assert!(again.is_none(), "another union changes it");
        }
        // It grows like the object that is read again.
        let mut copy = reloaded(&object);
        for _ in 0..300 {
            let item = rng.next().to_le_bytes();
            let outcome = add(&mut object, &item);
            assert_eq!(add(&mut copy, &item), outcome);
            if outcome.is_ok() {
                held.insert(item);
            }
        }
        assert!(dump_of(&copy) == dump_of(&object));
        assert!(held.iter().all(|item| has(&copy, item)), "denied later");
        reloaded(&object);
    }
    assert!(one > 5 && several > 50, "{one} {several}");
}

/// Bits of equal filters are OR-ed where the items have room, and stacked where not.
#[test]
fn equal_filters_become_one_where_there_is_room() {
    let make = |items: std::ops::Range<u64>, seed| {
        let mut object = object(&params(100, 0.01, 2), seed);
        for item in items {
            add(&mut object, &item.to_le_bytes()).unwrap();
        }
        object
    };
    let seed = Seed::FIXED;
    let (left, right) = (make(0..40, seed), make(30..70, seed));
    let both = merged(&[left.try_clone().unwrap(), right], ROOMY).unwrap();
    let (count, items, capacity) = both.totals();
    assert_eq!((count, capacity), (1, 100));
    // An estimate of 70 different items from the bits.
    assert!((65..=75).contains(&items), "{items} items");
    assert!(bitmaps(&both) == bitmaps(&make(0..70, seed)));
    // The rate in BF.INFO is the requested one.
    assert_eq!(both.shape().params.error_rate, fraction(0.01));
    // Too many for one of them: the fuller is full, and the other takes what comes.
    let more = make(100..180, seed);
    let stacked = merged(&[more, left], ROOMY).unwrap();
    let filters = filters(&stacked).into_iter();
    assert!(
        filters
            .map(|f| (f.items(), f.capacity()))
            .eq([(80, 80), (40, 100)])
    );
    reloaded(&stacked);
}

#[test]
fn objects_that_cannot_be_merged_are_refused() {
    let (a, b) = (Seed::new([1; 32]), Seed::new([2; 32]));
    let refused = |sources: &[Object], limits| merged(sources, limits).err();
    assert_eq!(refused(&[], ROOMY), Some(MergeError::Kinds));
    let mut rng = Rng::new(6);
    let mut full_of = |rate, expansion| {
        let mut object = object(&params(100, rate, expansion), a);
        grow(&mut object, &mut rng, |object| is_full(object, 1));
        object
    };
    let loose = [full_of(0.6, 0), full_of(0.6, 0)];
    assert_eq!(refused(&loose, ROOMY), Some(MergeError::Rates));
    let loose = [full_of(0.5, 0), full_of(0.4, 0)];
    assert_eq!(refused(&loose, ROOMY), None);
    // The limit is exact to the byte.
    let sources = [full_of(0.1, 2), full_of(0.01, 2)];
    let bytes = merged(&sources, ROOMY).unwrap().memory_bytes();
    let full = Some(MergeError::Refused(Refusal::MemoryLimit));
    assert_eq!(refused(&sources, within(u64::MAX, bytes)), None);
    assert_eq!(refused(&sources, within(u64::MAX, bytes - 1)), full);
    let blobs = sources
        .iter()
        .map(|it| filters(it)[0].geometry().blob_bytes());
    let largest = blobs.max().unwrap();
    assert_eq!(refused(&sources, within(largest, u64::MAX)), None);
    assert_eq!(refused(&sources, within(largest - 1, u64::MAX)), full);

    let any = |shape: &Shape, seed| Object::new(shape, seed, ROOMY).unwrap();
    let bits = params(100, 0.1, 2);
    let window = windowed(bits, 1_000, 3);
    let shapes = [
        Shape::plain(bits),
        window,
        windowed(bits, 1_000, 4),
        windowed(bits, 999, 3),
        counting(bits),
    ];
    for (place, one) in shapes.iter().enumerate() {
        for (other_place, other) in shapes.iter().enumerate() {
            let sources = [any(one, a), any(other, a)];
            let error = merged(&sources, ROOMY).err();
            let expected = (place != other_place).then_some(MergeError::Kinds);
            assert_eq!(error, expected, "{one:?} and {other:?}");
        }
        let sources = [any(one, a), any(one, b)];
        let error = merged(&sources, ROOMY).err();
        assert_eq!(error, Some(MergeError::Seeds), "{one:?}");
        let single = Object::merged(&[&sources[0]], ROOMY).unwrap();
        let rate = single.shape().params.error_rate.get() / one.params.error_rate.get();
        assert!((1.0..1.01).contains(&rate), "{rate}");
        assert!(bitmaps(&single) == bitmaps(&sources[0]));
        let is_plain = Dialect::of(&single) == Dialect::Bloomfltr;
        assert_eq!(is_plain, one.kind == Kind::Plain);
    }
}

/// Returns the most of `asked` strangers that may be found at a rate: four deviations above the mean.
fn most(asked: f64, rate: f64) -> f64 {
    asked * rate + 4.0 * (asked * rate * (1.0 - rate)).sqrt()
}

#[test]
fn the_rate_is_at_most_the_sum_of_the_rates() {
    let mut rng = Rng::new(2);
    for (expansion, filters, rates) in [
        (2, 3, [0.01, 0.02]),
        (1, 4, [0.02, 0.02]),
        (0, 1, [0.01, 0.03]),
    ] {
        let (mut found, mut asked) = (0.0, 0.0);
        for _ in 0..3 {
            let seed = rng.seed();
            let sources = rates.map(|rate| {
                let mut source = object(&params(1_000, rate, expansion), seed);
                grow(&mut source, &mut rng, |object| is_full(object, filters));
                source
            });
            let mut object = merged(&sources, ROOMY).unwrap();
            let rate = object.shape().params.error_rate.get();
            let sum = 1.001 * (rates[0] + rates[1]);
            assert!(rate > rates[0] && rate <= sum, "{rate}");
            // Full again, after it has grown by itself.
            let (before, ..) = object.totals();
            if expansion > 0 {
                grow(&mut object, &mut rng, |object| is_full(object, before + 2));
            }
            for _ in 0..100_000 {
                let stranger = [rng.next().to_le_bytes(), *b"stranger"].concat();
                found += f64::from(u8::from(has(&object, &stranger)));
                asked += 1.0;
            }
        }
        let expected = asked * rates[0] / 2.0..=most(asked, rates[0] + rates[1]);
        assert!(expected.contains(&found), "{found} of {asked}");
    }
}

/// A full object that scales, and one that does not and took more than it is for.
#[test]
fn a_saturated_filter_is_stored_in_an_object_that_scales() {
    let mut scaling = object(&params(10, 0.01, 2), Seed::FIXED);
    grow(&mut scaling, &mut Rng::new(3), |object| items(object) == 10);
    let mut fixed = object(&params(10, 0.01, 0), Seed::FIXED);
    for item in 0..30_u8 {
        let added = fixed.add(&[item], Time::default(), || Limits::NONE);
        added.unwrap();
    }
    for sources in [[&scaling, &fixed], [&fixed, &scaling], [&fixed, &fixed]] {
        let object = Object::merged(&sources, ROOMY).unwrap();
        let copy = reloaded(&object);
        assert!((0..30_u8).all(|item| has(&copy, &[item])));
    }
}

/// Many filters of one size: some full, and some small enough to be merged into one.
#[test]
fn merging_many_filters_again_changes_nothing() {
    let mut rng = Rng::new(7);
    let sources: Vec<_> = (0..100_u64)
        .map(|number| {
            let mut source = object(&params(1_000, 0.01, 0), Seed::FIXED);
            let items = *rng.pick(&[1_000, 1_000, 300, 2]);
            for item in 0..items {
                add(&mut source, &(1_000 * number + item).to_le_bytes()).unwrap();
            }
            source
        })
        .collect();
    let union = merged(&sources, ROOMY).unwrap();
    let (filters, ..) = union.totals();
    assert!((40..100).contains(&filters), "{filters}");
    let all: Vec<_> = std::iter::once(&union).chain(&sources).collect();
    assert!(Object::union(&all, None, ROOMY).unwrap().is_none());
}

/// Every hour the items of a day, some of them new, are merged into a total: its rate and its number of items follow
/// its content, not the number of merges.
#[test]
fn the_total_of_many_merges_follows_its_content() {
    let seed = Seed::FIXED;
    let make = || object(&params(10_000, 0.01, 2), seed);
    let (mut total, mut day) = (make(), make());
    for hour in 0..100_u64 {
        for item in hour * 50..hour * 50 + 600 {
            add(&mut day, &item.to_le_bytes()).unwrap();
        }
        let merged = Object::union(&[&total, &day], None, ROOMY).unwrap();
        total = merged.unwrap_or(total);
    }
    let different = 99 * 50 + 600;
    assert_eq!(total.shape().params.error_rate, fraction(0.01));
    assert_eq!(filters(&total).len(), 1);
    let items = items(&total);
    assert!(items.abs_diff(different) < different / 50, "{items}");
}
