//! The rules of valid objects: every operation keeps them. Bytes that break a rule are in `refused`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{
    Added, Dialect, Growth, Limits, MergeError, Object, Shape, Time,
};

use crate::draft;
use crate::support::{
    Rng, counting, object_of, params, relocate, said_of, scaled_to, through_every_form, windowed,
};

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
        ("scaled", scaled_to(params(10, 0.01, 2))),
    ]
    .map(|(name, shape)| (name.to_owned(), object_of(&shape, seed)))
    .into();
    for draft in draft::drafts() {
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

/// Returns whether filters or tables are opened for more items. A window may have room for all.
fn opens(object: &Object) -> bool {
    scales(object) && object.shape().window().is_none()
}

/// Number of different items.
const ITEMS: u64 = 1 << 15;

/// Adds items from a time on, until it scaled, or to twice what it is for.
/// Returns the time of the last.
fn add_some(object: &mut Object, from_ms: u64, name: &str, rng: &mut Rng) -> u64 {
    let (mut now_ms, mut new, mut opened) = (from_ms, 0, 0);
    let twice = 2 * object.shape().params.capacity;
    for step in 0.. {
        if step >= twice && (opened > 0 || !opens(object)) {
            break;
        }
        assert!(step < ITEMS, "{name} never scales");
        now_ms += rng.next() % 40;
        object.tidy(now_ms);
        let time = Time {
            now_ms,
            ttl_ms: (step % 5 == 0).then(|| 1 + rng.next() % 400),
        };
        let item = (rng.next() % ITEMS).to_le_bytes();
        let (filters, ..) = object.totals();
        let added = object.add(&item, time, || Limits::NONE).unwrap();
        valid(object, name, "an add");
        new += u32::from(added == Added::New);
        opened += object.totals().0 - filters;
    }
    assert!(new > 0, "{name} took nothing");
    assert!(opened > 0 || !opens(object), "{name} opened none");
    now_ms
}

/// Returns all that can be done with an object but merging, from a time on.
fn live(mut object: Object, from_ms: u64, name: &str, rng: &mut Rng) -> Object {
    valid(&object, name, "making");
    let now_ms = add_some(&mut object, from_ms, name, rng);
    // Those of RedisBloom count no further.
    let (_, items, capacity) = object.totals();
    let is_full = items >= capacity;
    assert!(
        is_full || opens(&object) || object.shape().window().is_some(),
        "{name} is not full"
    );

    let mut removed = 0;
    for item in 0..ITEMS {
        removed += u32::from(object.remove(&item.to_le_bytes()));
        valid(&object, name, "a removal");
    }
    assert_eq!(removed > 0, object.shape().is_counting(), "{name}");

    let clone = object.try_clone().unwrap();
    valid(&clone, name, "cloning");
    relocate(&mut object, || 1 + rng.below(3), |_| {});
    valid(&object, name, "relocation");
    assert!(said_of(&object) == said_of(&clone), "{name} moved");
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
        if Dialect::of(&object) != Dialect::Bloomfltr {
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
