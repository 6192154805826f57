//! Limits on plain objects, to the byte: how far they grow, and what is refused then.

use valkeybloom_sketches::bloom::{Added, Dialect, Limits, Object, Refusal, Shape, Time};
use valkeybloom_sketches::{MAX_CAPACITY, Seed};

use crate::sizes::size;
use crate::support::{
    FILTER_BYTES, Field, ROOMY, add_new, dump_of, fields_of, filters, has, items, object, params,
    read_fields, through_every_form, within,
};

/// Returns the memory of an object as the sum of its parts.
fn bytes_of(object: &Object) -> u64 {
    let filters = filters(object).into_iter();
    let blobs: u64 = filters.map(|f| f.geometry().blob_bytes()).sum();
    let table = object.filters().count() as u64 * FILTER_BYTES;
    size_of::<Object>() as u64 + table + blobs
}

/// Adds new items until one is refused, which changes nothing. All that was taken is found then, and its sums are those
/// of its filters.
#[track_caller]
fn fill_up(object: &mut Object, limits: Limits) -> Refusal {
    let mut taken = Vec::new();
    for number in 0_u32..1_000_000 {
        let item = number.to_le_bytes();
        let before = dump_of(object);
        let Err(refusal) = object.add(&item, Time::default(), || limits) else {
            taken.push(item);
            continue;
        };
        for item in taken {
            assert!(has(object, &item) && !add_new(object, &item), "{item:?}");
        }
        assert!(dump_of(object) == before, "changed");
        let filters = filters(object);
        let sums = [
            filters.iter().map(|filter| filter.items()).sum::<u64>(),
            filters.iter().map(|filter| filter.capacity()).sum(),
        ];
        assert_eq!([items(object), object.capacity()], sums);
        assert_eq!(object.totals(), (filters.len() as u64, sums[0], sums[1]));
        assert_eq!(object.memory_bytes(), bytes_of(object));
        assert!(object.is_within(limits), "over its limits");
        assert_eq!(object.reach(limits), object.capacity());
        return refusal;
    }
    panic!("a million items, and none was refused");
}

#[test]
fn a_saturating_object_exceeds_its_capacity_in_one_filter() {
    let saturate = Limits {
        saturate: true,
        ..ROOMY
    };
    for limits in [Limits::NONE, saturate] {
        let mut object = object(&params(100, 0.001, 0), Seed::FIXED);
        for number in 0..500_u32 {
            let item = number.to_le_bytes();
            let added = object.add(&item, Time::default(), || limits);
            assert!(added.is_ok() && has(&object, &item));
        }
        assert_eq!(object.totals().0, 1);
        assert!(items(&object) > 200, "{}", items(&object));
        // More items than capacity is a state that is stored and read as any other.
        let mut object = through_every_form(&object);
        // Commands of a primary exceed the limits; from here on the settings of this server hold.
        assert_eq!(fill_up(&mut object, ROOMY), Refusal::Full);
    }
}

#[test]
fn growth_ends_at_the_last_filter_that_the_limits_admit() {
    // The limits at which each filter just fits, and one byte less.
    let params = params(100, 0.01, 2);
    let blob = |index, capacity| size(&params, index, capacity).0 + 45;
    let (first, second) = (blob(0, 100), blob(1, 200));
    let one = Object::BASE_BYTES + first + FILTER_BYTES;
    let both = one + second + FILTER_BYTES;
    for (filter_bytes, object_bytes, filters) in [
        (first - 1, one, 0),
        (first, one - 1, 0),
        (first, one, 1),
        (second, u64::MAX, 2),
        (second - 1, u64::MAX, 1),
        (u64::MAX, both, 2),
        (u64::MAX, both - 1, 1),
        (second, both, 2),
    ] {
        let limits = within(filter_bytes, object_bytes);
        let made = Object::plain(&params, Seed::FIXED, limits);
        if filters == 0 {
            assert_eq!(made.unwrap_err(), Refusal::MemoryLimit);
            continue;
        }
        let mut object = made.unwrap();
        let promised = object.reach(limits);
        assert_eq!(fill_up(&mut object, limits), Refusal::MemoryLimit);
        assert_eq!(object.totals().0, filters);
        assert_eq!(items(&object), promised);
        assert_eq!(Shape::plain(params).reach(limits).0, promised);
        // A primary's stream is not held up by them.
        let item = b"from the primary";
        let added = object.add(item, Time::default(), || Limits::NONE);
        assert_eq!(added, Ok(Added::New));
        assert_eq!(object.totals().0, filters + 1);
        assert!(!object.is_within(limits));
    }
}

#[test]
fn sizes_beyond_any_machine_are_refused() {
    let few = within(64 << 20, u64::MAX);
    for (capacity, rate, limits, refusal) in [
        // The allocator refuses it if no limit does.
        (1 << 61, 0.01, Limits::NONE, Refusal::OutOfMemory),
        (1 << 61, 0.01, few, Refusal::MemoryLimit),
        (MAX_CAPACITY, 0.01, Limits::NONE, Refusal::OutOfMemory),
        (MAX_CAPACITY, 0.01, few, Refusal::MemoryLimit),
        (MAX_CAPACITY + 1, 0.01, Limits::NONE, Refusal::MemoryLimit),
        (1, 5e-324, Limits::NONE, Refusal::RateTooSmall),
    ] {
        let made = Object::plain(&params(capacity, rate, 2), Seed::FIXED, limits);
        assert_eq!(made.err(), Some(refusal), "{capacity} at {rate}");
    }
}

/// A capacity that does not fit in a number ends growth; nothing wraps around.
#[test]
fn growth_past_the_width_of_a_number_is_refused() {
    // The next capacity is under 2⁶³ but not the sum; over 2⁶³; and twice over 2⁶⁴.
    for expansion in [1, 2, 1 << 30, u32::MAX] {
        // A filter of a few bits is said to be for half of all items that can be counted, and full.
        let mut stream = fields_of(&object(&params(1, 0.5, expansion), Seed::FIXED));
        let capacity = MAX_CAPACITY / 2 + 1;
        stream.0[5] = Field::Uint(capacity);
        stream.0[6] = Field::Uint(capacity);
        let mut object = read_fields(Dialect::Bloomfltr, stream).unwrap();
        let before = dump_of(&object);
        let refusals: Vec<_> = (0..20_u8)
            .filter_map(|item| object.add(&[item], Time::default(), || Limits::NONE).err())
            .collect();
        assert!(!refusals.is_empty());
        assert!(refusals.iter().all(|r| *r == Refusal::MemoryLimit));
        assert!(dump_of(&object) == before);
    }
}
