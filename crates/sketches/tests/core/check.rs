//! The rules of valid objects: every operation keeps them, and bytes that break a single rule are refused in that
//! rule's words, by every form that can express the fault.

use std::panic::{AssertUnwindSafe, catch_unwind};

use valkeybloom_sketches::bloom::{
    Added, Dialect, Growth, Limits, MergeError, Object, Shape, Time, dump, rdb,
};
use valkeybloom_sketches::{DecodeError, Seed};

use crate::plain::Plain;
use crate::support::{
    Rng, begin, counting, object_of, params, read_fields, relocate, through_every_form, windowed,
};
use crate::{bloomfltx, redisbloom};

/// Returns a name and an empty object of each kind, and of `RedisBloom`'s kinds some that are half full.
fn objects() -> Vec<(String, Object)> {
    let seed = Seed::new([7; 32]);
    let mut objects: Vec<_> = [
        ("plain", Shape::plain(params(10, 0.01, 2))),
        ("even", Shape::plain(params(10, 0.01, 1))),
        ("non-scaling", Shape::plain(params(10, 0.01, 0))),
        ("windowed", windowed(params(10, 0.01, 2), 100, 3)),
        (
            "windowed, non-scaling",
            windowed(params(10, 0.01, 0), 100, 3),
        ),
        ("counting", counting(params(10, 0.01, 2))),
        ("counting, non-scaling", counting(params(10, 0.01, 0))),
    ]
    .map(|(name, shape)| (name.to_owned(), object_of(&shape, seed)))
    .into();
    for draft in redisbloom::draft::drafts() {
        let name = format!("version {}, options {}", draft.version, draft.options);
        objects.push((name, draft.read().unwrap()));
    }
    let bits: Vec<_> = objects.iter().map(|(_, o)| o.hasher().bits()).collect();
    assert!(bits.contains(&32) && bits.contains(&64));
    objects
}

#[track_caller]
fn valid(object: &Object, name: &str, after: &str) {
    assert_eq!(object.check(), Ok(()), "{name}, after {after}");
}

fn scales(object: &Object) -> bool {
    object.shape().params.growth != Growth::Fixed
}

/// Returns whether filters are opened, for more items or another period.
fn opens(object: &Object) -> bool {
    scales(object) || object.shape().window().is_some()
}

/// Number of different items.
const ITEMS: u64 = 1 << 15;

/// Adds items from a time on, to counters with an id or without: until it scaled, or to twice what it is for.
/// Returns the time of the last.
fn add_some(object: &mut Object, from_ms: u64, name: &str, rng: &mut Rng) -> u64 {
    let (mut now_ms, mut new, mut opened) = (from_ms, 0, 0);
    let twice = 2 * object.shape().params.capacity;
    for step in 0.. {
        if step >= twice && (opened > 0 || !scales(object)) {
            break;
        }
        assert!(step < ITEMS, "{name} never scales");
        now_ms += rng.next() % 40;
        object.tidy(now_ms);
        let time = Time {
            now_ms,
            ttl_ms: (step % 5 == 0).then(|| 1 + rng.next() % 400),
        };
        let id = (step % 3 > 0).then_some(now_ms);
        let item = (rng.next() % ITEMS).to_le_bytes();
        let (filters, ..) = object.totals();
        let added = object.add(&item, time, id, || Limits::NONE).unwrap();
        valid(object, name, "an add");
        new += u32::from(added == Added::New);
        opened += object.totals().0 - filters;
    }
    assert!(new > 0, "{name} took nothing");
    assert_eq!(opened > 0, opens(object), "{name} opened {opened} filters");
    now_ms
}

/// Returns all that can be done with an object but merging, from a time on.
fn live(mut object: Object, from_ms: u64, name: &str, rng: &mut Rng) -> Object {
    valid(&object, name, "making");
    let now_ms = add_some(&mut object, from_ms, name, rng);
    let is_saturated = object.views().any(|f| f.items() > f.capacity());
    assert!(is_saturated || opens(&object), "{name} is not full");

    let mut removed = 0;
    for item in 0..ITEMS {
        let id = (item % 2 == 0).then_some(from_ms + item);
        removed += u32::from(object.remove(&item.to_le_bytes(), id));
        valid(&object, name, "a removal");
    }
    assert_eq!(removed > 0, object.shape().is_counting(), "{name}");

    let clone = object.try_clone().unwrap();
    valid(&clone, name, "cloning");
    relocate(&mut object, || 1 + rng.below(3), |_| {});
    valid(&object, name, "relocation");
    valid(&through_every_form(&object), name, "a round");

    let mut later = clone;
    let tidied = later.tidy(now_ms + 1_000_000);
    assert_eq!(tidied, object.shape().window().is_some(), "{name}");
    valid(&later, name, "tidying");
    valid(&through_every_form(&later), name, "a round behind it");
    object
}

#[test]
fn objects_of_every_kind_stay_valid() {
    let mut claiming_all = 0;
    for (name, object) in objects() {
        // Each object has its own generator, so that its draws do not shift those of the others.
        let mut rng = Rng::new(1);
        let other = object.try_clone().unwrap();
        let object = live(object, 1_000, &name, &mut rng);
        let mut other = live(other, 1_100, &name, &mut rng);
        other.tidy(1_500);
        let merged = Object::merged(&[&object, &other], Limits::NONE);
        if merged.as_ref().err() == Some(&MergeError::Rates) {
            // All bits of the least one may be set by now.
            let rates = [&object, &other].map(|o| o.estimated_rate(|| 1_500));
            assert!(rates.iter().sum::<f64>() >= 1.0, "{name}: {rates:?}");
            claiming_all += 1;
            continue;
        }
        let merged = merged.unwrap();
        let name = format!("{name}, merged");
        valid(&merged, &name, "merging");
        valid(&through_every_form(&merged), &name, "a round");
        // Objects that do not scale are merged unchanged, and are full.
        if scales(&merged) {
            live(merged, 1_500, &name, &mut rng);
        }
    }
    assert!(claiming_all <= 1);
}

/// Moved cells have to be equal: a header that differs is noticed.
#[test]
fn wrong_moves_are_detected() {
    type Move = fn(&mut Vec<u8>);
    let wrong: [(&str, Move); 6] = [
        ("filters of different seeds", |blob| blob[13] ^= 1),
        ("filter of unknown version", |blob| blob[0] = 3),
        ("filter of zero bits", |blob| blob[1..9].fill(0)),
        ("number of hash functions out of range", |blob| {
            blob[9..13].fill(0);
        }),
        ("filter's length is not what its header says", |blob| {
            blob[1] ^= 1;
        }),
        ("filter's length is not what its header says", |blob| {
            blob.extend([0; 8]);
        }),
    ];
    for (name, object) in objects() {
        if Dialect::of(&object) == Dialect::RedisBloom {
            continue;
        }
        for (what, change) in wrong {
            let mut object = object.try_clone().unwrap();
            let panic = catch_unwind(AssertUnwindSafe(|| {
                relocate(&mut object, || usize::MAX, change);
            }));
            let panic = panic.expect_err("the change is seen");
            let message = panic.downcast_ref::<String>().unwrap();
            assert!(message.starts_with(what), "{name}: {message}");
        }
    }
}

/// A stored form.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Dump,
    Header,
    Fields,
}

const ALL: &[Form] = &[Form::Dump, Form::Header, Form::Fields];
const CUT: &[Form] = &[Form::Dump, Form::Header];
const WHOLE: &[Form] = &[Form::Dump, Form::Fields];

/// The words of a rule, the forms that can say that it is broken, and what breaks it and no other.
type Break<D> = (&'static str, &'static [Form], fn(&mut D));

/// Requires that each form accepts a draft, and refuses one that breaks a rule in the rule's words.
#[track_caller]
fn refused<D: Clone>(
    name: &str,
    draft: &D,
    forms: &[Form],
    read: fn(&D, Form) -> Option<DecodeError>,
    breaks: &[Break<D>],
) {
    for form in forms {
        assert_eq!(read(draft, *form), None, "{form:?} of {name}");
    }
    for (place, (words, forms, change)) in breaks.iter().enumerate() {
        let mut broken = draft.clone();
        change(&mut broken);
        for form in *forms {
            let expected = Some(DecodeError::Malformed(words));
            assert_eq!(read(&broken, *form), expected, "{form:?} {place} of {name}");
        }
    }
}

fn read_bloomfltr(draft: &Plain, form: Form) -> Option<DecodeError> {
    match form {
        Form::Dump => dump::decode(&draft.dump()).err(),
        Form::Header => begin(&draft.header()).err(),
        Form::Fields => rdb::read(Dialect::Bloomfltr, 1, &mut draft.stream()).err(),
    }
}

fn read_bloomfltx(draft: &bloomfltx::draft::Draft, form: Form) -> Option<DecodeError> {
    match form {
        Form::Dump => dump::decode(&draft.dump()).err(),
        Form::Header => begin(&draft.header()).err(),
        Form::Fields => rdb::read(Dialect::Bloomfltx, 1, &mut draft.stream()).err(),
    }
}

fn read_redisbloom(draft: &redisbloom::draft::Draft, form: Form) -> Option<DecodeError> {
    match form {
        Form::Dump => None,
        Form::Header => begin(&draft.header()).err(),
        Form::Fields => read_fields(Dialect::RedisBloom, draft.fields()).err(),
    }
}

#[test]
fn a_broken_rule_of_plain_objects_is_named() {
    let breaks: [Break<Plain>; 14] = [
        ("error rate out of range", ALL, |d| d.error_rate = 1.0),
        ("tightening ratio out of range", ALL, |d| d.tightening = 0.0),
        ("no filters", CUT, |d| d.filters.clear()),
        ("filters of different seeds", ALL, |d| {
            d.filters[1].seed[0] ^= 1;
        }),
        ("filters of different seeds", ALL, |d| {
            d.filters[0].seed[0] ^= 1;
        }),
        ("filter of other cells", ALL, |d| d.filters[0].version = 2),
        ("filter's length is not what its header says", WHOLE, |d| {
            d.filters[1].cut = Some(47);
        }),
        ("capacity of zero", ALL, |d| {
            (d.filters[0].capacity, d.filters[0].items) = (0, 0);
        }),
        ("capacity of zero", ALL, |d| {
            (d.filters[1].capacity, d.filters[1].items) = (0, 0);
        }),
        // In RDB the older filters have no number of items.
        ("filter stacked on one that is not full", CUT, |d| {
            d.filters[0].items = 2;
        }),
        ("filter stacked on one that is not full", CUT, |d| {
            d.filters[0].items = 4;
        }),
        ("more items than capacity", ALL, |d| d.filters[1].items = 7),
        ("sum out of range", ALL, |d| {
            d.filters[1].capacity = (1 << 63) - 3;
        }),
        ("sum out of range", ALL, |d| {
            (d.expansion, d.filters[1].items) = (0, (1 << 63) - 3);
        }),
    ];
    let draft = Plain::valid();
    refused("a plain object", &draft, ALL, read_bloomfltr, &breaks);
}

/// The rules of objects with a window and with counters alike.
const OF_BOTH: [Break<bloomfltx::draft::Draft>; 11] = [
    ("error rate out of range", ALL, |d| d.error_rate = 0.0),
    ("tightening ratio out of range", ALL, |d| d.tightening = 1.0),
    ("capacity out of range", ALL, |d| d.capacity = 0),
    ("capacity out of range", ALL, |d| d.capacity = 1 << 63),
    ("filters of different seeds", ALL, |d| d.seed[31] ^= 1),
    ("filters of different seeds", ALL, |d| {
        d.stacks[0].filters[1].seed[0] ^= 1;
    }),
    ("filter's length is not what its header says", WHOLE, |d| {
        d.stacks[0].filters[1].cut = Some(47);
    }),
    ("capacity of zero", ALL, |d| {
        d.stacks[0].filters[1].capacity = 0;
    }),
    ("sum out of range", ALL, |d| {
        d.stacks[0].filters[1].capacity = u64::MAX;
    }),
    ("no filters", ALL, |d| {
        d.stacks[0].filters.clear();
        d.stacks[0].ranges.clear();
    }),
    ("no filters", ALL, |d| {
        let last = d.stacks.last_mut().unwrap();
        last.filters.clear();
        last.ranges.clear();
    }),
];

#[test]
fn a_broken_rule_of_windows_is_named() {
    let breaks: [Break<bloomfltx::draft::Draft>; 10] = [
        ("filter of other cells", ALL, |d| {
            let filter = &mut d.stacks[1].filters[0];
            (filter.version, filter.bitmap_bytes) = (2, Some(3));
        }),
        ("filter stacked on one that is not full", ALL, |d| {
            d.stacks[0].filters[0].items = 2;
        }),
        ("filter stacked on one that is not full", ALL, |d| {
            d.stacks[0].filters[0].items = 4;
        }),
        ("more items than capacity", ALL, |d| {
            d.stacks[0].filters[1].items = 7;
        }),
        ("more items than capacity", ALL, |d| {
            d.stacks[2].filters[0].items = 4;
        }),
        ("periods out of order", ALL, |d| d.stacks[1].period = 6),
        ("periods out of order", ALL, |d| d.stacks[1].period = 7),
        ("periods out of order", ALL, |d| d.stacks.swap(1, 2)),
        ("sum out of range", ALL, |d| {
            d.stacks[2].filters[0].capacity = 1 << 63;
        }),
        ("sum out of range", ALL, |d| {
            (d.expansion, d.stacks[2].filters[0].items) = (0, 1 << 63);
        }),
    ];
    let mut draft = bloomfltx::draft::Draft::windowed();
    refused("a window", &draft, ALL, read_bloomfltx, &OF_BOTH);
    refused("a window", &draft, ALL, read_bloomfltx, &breaks);
    draft.stacks.clear();
    refused("a window that has passed", &draft, ALL, read_bloomfltx, &[]);
}

#[test]
fn a_broken_rule_of_counters_is_named() {
    let breaks: [Break<bloomfltx::draft::Draft>; 5] = [
        ("no filters", ALL, |d| d.stacks.clear()),
        ("filter of other cells", ALL, |d| {
            let filter = &mut d.stacks[0].filters[1];
            (filter.version, filter.bitmap_bytes) = (1, Some(8));
        }),
        ("periods out of order", ALL, |d| d.stacks[0].period = 1),
        ("sum out of range", ALL, |d| {
            d.stacks[0].filters[0].items = 1 << 63;
        }),
        ("sum out of range", ALL, |d| {
            let filters = &mut d.stacks[0].filters;
            (filters[0].capacity, filters[1].capacity) = (1 << 62, 1 << 62);
        }),
    ];
    let of_ids: [Break<bloomfltx::draft::Draft>; 3] = [
        ("ids out of order", ALL, |d| {
            d.stacks[0].filters[1].took = Some((91, 90));
        }),
        ("ids flag out of range", ALL, |d| {
            d.stacks[0].filters[1].took_flag = Some(2);
        }),
        ("periods out of order", ALL, |d| {
            d.stacks.push(d.stacks[0].clone());
        }),
    ];
    let of_ranges: [Break<bloomfltx::draft::Draft>; 7] = [
        ("ids out of order", ALL, |d| d.stacks[0].ids = (91, 90)),
        ("ranges out of order", ALL, |d| d.stacks[0].ranges[0].0 = 1),
        ("ranges out of order", ALL, |d| d.stacks[0].ranges[1].0 = 0),
        ("ranges out of order", ALL, |d| d.stacks[0].ranges[1].1 = 0),
        ("ranges out of order", ALL, |d| d.stacks[0].ranges[1].1 = 2),
        ("ranges out of order", ALL, |d| {
            d.stacks[0].ranges.swap(0, 1);
        }),
        ("ranges out of order", ALL, |d| {
            d.stacks[0].ranges.push((50, 1));
        }),
    ];
    for (name, draft, own) in [
        ("counters", bloomfltx::draft::Draft::counting(), &of_ids[..]),
        ("ranges", bloomfltx::draft::Draft::ranged(), &of_ranges),
        (
            "several stacks",
            bloomfltx::draft::Draft::merged(),
            &of_ranges,
        ),
    ] {
        for breaks in [&OF_BOTH[..], &breaks, own] {
            refused(name, &draft, ALL, read_bloomfltx, breaks);
        }
    }
}

/// Only RDB fields can report what is wrong with a single link: a header of such links is not one of `RedisBloom`'s,
/// and may be one of ours.
#[test]
fn a_broken_rule_of_redisblooms_objects_is_named() {
    const BOTH: &[Form] = &[Form::Header, Form::Fields];
    const FIELDS: &[Form] = &[Form::Fields];
    let breaks: [Break<redisbloom::draft::Draft>; 14] = [
        ("capacity of zero", BOTH, |d| d.links[0].entries = 0),
        ("capacity of zero", BOTH, |d| d.links[1].entries = 0),
        ("sum out of range", BOTH, |d| d.links[0].entries = 1 << 63),
        ("sum out of range", BOTH, |d| {
            (d.links[0].entries, d.links[1].entries) = (1 << 62, 1 << 62);
        }),
        ("sum out of range", BOTH, |d| {
            let behind = d.links[1].items;
            d.links[0].items = 1 << 63;
            d.items = (1 << 63) + behind;
        }),
        ("items of the filters are not the object's", FIELDS, |d| {
            d.items += 1;
        }),
        ("unknown options", FIELDS, |d| d.options = 16),
        ("growth factor out of range", FIELDS, |d| d.growth = 1 << 32),
        ("error rate out of range", FIELDS, |d| {
            d.links[1].error = 1.0;
        }),
        ("bits per entry out of range", FIELDS, |d| {
            d.links[0].bpe = 0.0;
        }),
        ("number of hash functions out of range", FIELDS, |d| {
            d.links[0].hashes = 0;
        }),
        ("filter of zero bits", FIELDS, |d| d.links[0].bits = 0),
        ("exponent out of range", FIELDS, |d| d.links[0].n2 = 64),
        ("bitmap shorter than its bits", FIELDS, |d| {
            d.links[1].bitmap.clear();
        }),
    ];
    let mut drafts = redisbloom::draft::drafts();
    drafts.retain(|draft| draft.version == 4 && draft.links.len() == 2);
    assert!(drafts.len() > 1);
    for draft in drafts {
        let name = format!("options {}", draft.options);
        refused(&name, &draft, BOTH, read_redisbloom, &breaks);
    }
}
