//! Cuckoo filters: against what RedisBloom recorded, against its rules written down once more, and against bytes
//! that mean harm.

mod compaction;
mod deep;
mod life;
mod plans;
mod refused;

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Outline, Params, Refusal, Shape};

use crate::support::{Rng, Stream, at_each_width};
use valkeybloom_testing::loader;

use crate::naive::{Naive, hashes};

fn params(capacity: u64, bucket_size: u8, max_iterations: u16, expansion: u16) -> Params {
    Params {
        capacity,
        bucket_size,
        max_iterations,
        expansion,
    }
}

/// Returns an empty object.
fn object(capacity: u64, bucket_size: u8, max_iterations: u16, expansion: u16) -> Cuckoo {
    let params = params(capacity, bucket_size, max_iterations, expansion);
    Cuckoo::new(Shape::new(&params).unwrap(), &Limits::NONE).unwrap()
}

/// Returns limits on the number of filters, on a filter and on an object.
const fn within(filters: u64, filter_bytes: u64, object_bytes: u64) -> Limits {
    Limits {
        filters,
        filter_bytes,
        object_bytes,
    }
}

/// Returns limits on the number of filters alone.
const fn up_to(filters: u64) -> Limits {
    within(filters, u64::MAX, u64::MAX)
}

/// Returns the fields of an object in RDB.
fn fields_of(object: &Cuckoo) -> Stream {
    loader::loaded(
        wire::TYPE_NAME,
        wire::RDB_VERSION,
        damaged_fields_of(object),
    )
}

/// Returns the fields of an object with numbers that RedisBloom does not load.
fn damaged_fields_of(object: &Cuckoo) -> Stream {
    Stream::of(|to| wire::write_rdb(object, to))
}

/// Reads all of the fields.
fn read(mut fields: Stream) -> Result<Cuckoo, DecodeError> {
    let object = wire::read_rdb(wire::RDB_VERSION, &mut fields)?;
    assert!(fields.0.is_empty(), "bytes after the object");
    Ok(object)
}

/// Adds items together, and returns the outcomes.
fn add_each<I: AsRef<[u8]>>(
    object: &mut Cuckoo,
    items: &[I],
    unless_present: bool,
    limits: Limits,
) -> Vec<Result<bool, Refusal>> {
    let mut outcomes = Vec::new();
    let items = items.iter().map(AsRef::as_ref);
    object.add_each(
        items,
        unless_present,
        || limits,
        |added| outcomes.push(added),
    );
    outcomes
}

/// Returns which of the items are claimed, looked up together.
fn has_each<I: AsRef<[u8]>>(object: &Cuckoo, items: &[I]) -> Vec<bool> {
    let mut answers = Vec::new();
    object.contains_each(items.iter().map(AsRef::as_ref), |has| answers.push(has));
    answers
}

/// Returns the slots of each filter.
fn slots(object: &Cuckoo) -> Vec<Vec<u8>> {
    let filters = object.filters().iter();
    let of = filters.map(|filter| match filter.slots() {
        [] => vec![0; usize::try_from(filter.size()).unwrap()],
        slots => slots.to_vec(),
    });
    of.collect()
}

fn assert_same(object: &Cuckoo, naive: &Naive) {
    assert_eq!(slots(object), naive.filters);
    assert_eq!(object.items(), naive.items);
    assert_eq!(object.deletes(), naive.deletes);
    assert_eq!(object.outline().first_buckets, naive.first_buckets);
    assert_eq!(object.outline().expansion, naive.expansion);
}

/// Returns the object with the slots and numbers of a naive one.
fn loaded(naive: &Naive) -> Cuckoo {
    let outline = Outline {
        filters: naive.filters.len() as u64,
        first_buckets: naive.first_buckets,
        items: naive.items,
        deletes: naive.deletes,
        bucket_size: naive.size,
        max_iterations: naive.iterations,
        expansion: naive.expansion,
    };
    Cuckoo::from_outline(&outline.check().unwrap(), naive.filters.clone()).unwrap()
}

/// Fills each slot with a chance in 1,000 for its filter.
fn fill(naive: &mut Naive, rng: &mut Rng, chances: impl Fn(usize) -> usize) {
    for (number, filter) in naive.filters.iter_mut().enumerate() {
        for slot in filter {
            if rng.below(1000) < chances(number) {
                *slot = u8::try_from(1 + rng.next() % 255).unwrap();
                naive.items += 1;
            }
        }
    }
}

#[test]
fn the_published_vectors_hold() {
    let seven = [255; 7];
    for (item, hash, fingerprint, buckets) in [
        (&b""[..], 0, 1, [0, 405]),
        (b"a", 0x0717_17d2_d36b_6b11, 196, [273, 261]),
        (b"foo", 0xcdde_3835_8fd2_5b01, 217, [257, 76]),
        (b"item", 0x8fca_5725_f623_94ea, 113, [234, 47]),
        (b"12345678", 0x758f_67d1_62b2_d202, 41, [2, 223]),
        (b"123456789", 0x4977_4902_5167_4330, 57, [304, 285]),
        (&seven, 0x27f9_346d_84b0_966e, 253, [110, 47]),
    ] {
        let (own, one, two) = hashes(item);
        assert_eq!((own, one), (fingerprint, hash));
        assert_eq!([one % 512, two % 512], buckets);
        // Alone in a filter of 512 buckets, an item lies in the first slot of its first bucket, and its copies beside
        // it.
        let mut object = object(1024, 2, 20, 0);
        for copies in 1..=4 {
            object.add(item, false, || Limits::NONE).unwrap();
            assert_eq!(object.count(item), copies);
        }
        let mut expected = vec![0; 1024];
        for bucket in buckets.map(|bucket| usize::try_from(bucket).unwrap()) {
            expected[2 * bucket..2 * bucket + 2].fill(fingerprint);
        }
        assert_eq!(slots(&object), [expected]);
        assert_eq!(object.add(item, false, || Limits::NONE), Err(Refusal::Full));
    }
}

/// Many items are hashed side by side: all that have one length, and item by item where they do not.
#[test]
fn a_batch_puts_each_item_in_its_place() {
    let mut rng = Rng::new(17);
    let bytes: Vec<u8> = (0..40).map(|_| rng.next().to_le_bytes()[0]).collect();
    let item = |salt: usize, length: usize| -> Vec<u8> {
        let salt = salt.to_le_bytes()[0];
        bytes[..length].iter().map(|byte| byte ^ salt).collect()
    };
    for length in 0..32 {
        for count in [1, 7, 8, 9, 63, 64, 65, 130] {
            let same = (0..count).map(|salt| item(salt, length));
            let mixed = (0..count).map(|salt| item(salt, (length + salt * salt) % 40));
            for items in [same.collect::<Vec<_>>(), mixed.collect()] {
                let mut naive = Naive::new(4096, 2, 20, 1);
                assert!(items.iter().all(|item| naive.add(item, 99)));
                at_each_width(|width| {
                    let mut object = object(4096, 2, 20, 1);
                    let added = add_each(&mut object, &items, false, Limits::NONE);
                    assert!(added.iter().all(|added| *added == Ok(true)));
                    assert!(
                        slots(&object) == naive.filters,
                        "{length} {count} {width:?}"
                    );
                });
            }
        }
    }
}

/// In `RedisBloom` 2.2.0 to 2.2.10 eight bytes without a meaning followed.
#[test]
fn a_header_may_end_in_an_address() {
    let mut object = object(64, 2, 20, 2);
    for copies in 0..6_u8 {
        object.add(&[copies % 2], false, || Limits::NONE).unwrap();
    }
    let mut header = wire::write_header(&object);
    header.extend(0x7f12_3456_789a_bcde_u64.to_le_bytes());
    let mut loaded = wire::begin(&header, &Limits::NONE).unwrap();
    for (cursor, chunk) in wire::chunks(&object) {
        assert_eq!(wire::load(&mut loaded, cursor, chunk), Ok(()));
    }
    assert_eq!(fields_of(&loaded).0, fields_of(&object).0);
    for length in 0..=header.len() {
        let is_header = wire::is_header_of(&loaded, &header[..length]);
        assert_eq!(is_header, [38, 46].contains(&length), "{length}");
    }
    header[0] ^= 1;
    assert!(
        !wire::is_header_of(&loaded, &header),
        "another number of items"
    );
}

#[test]
fn sizes_follow_the_capacity() {
    for (capacity, bucket_size, expansion, buckets) in [
        (5, 2, 1, [2, 2, 2]),
        (4, 2, 1, [2, 2, 2]),
        (1024, 2, 2, [512, 1024, 2048]),
        (777, 3, 3, [512, 2048, 8192]),
        (600, 255, 1, [2, 2, 2]),
        (1000, 1, 5, [1024, 8192, 65536]),
    ] {
        let params = params(capacity, bucket_size, 20, expansion);
        let shape = Shape::new(&params).unwrap();
        let own = [0, 1, 2].map(|index| shape.buckets_of(index).unwrap());
        assert_eq!(own, buckets, "{params:?}");
    }
    let single = *object(64, 2, 20, 0).shape();
    assert_eq!(single.buckets_of(1), None);
    // A filter of more than 2^32 bytes is impossible.
    let steep = *object(1 << 20, 2, 20, 32768).shape();
    assert_eq!(steep.bytes_of(0), Some(1 << 20));
    assert_eq!(steep.bytes_of(1), None);
    let even = *object(4, 2, 20, 1).shape();
    assert_eq!(even.bytes_of(65_534), Some(4));
    assert_eq!(even.bytes_of(65_535), None);
}

#[test]
fn parameters_out_of_range_are_refused() {
    for (capacity, bucket_size, max_iterations, expansion, is_valid) in [
        (3, 2, 20, 1, false),
        (4, 2, 20, 1, true),
        ((1 << 30) + 1, 2, 20, 1, false),
        (1 << 30, 2, 20, 1, true),
        (1024, 0, 20, 1, false),
        (1024, 255, 20, 1, true),
        (1024, 2, 0, 1, false),
        (1024, 2, u16::MAX, 1, true),
        (1024, 2, 20, 32_769, false),
        (1024, 2, 20, 32_768, true),
    ] {
        let params = params(capacity, bucket_size, max_iterations, expansion);
        assert_eq!(Shape::new(&params).is_some(), is_valid, "{params:?}");
    }
    assert!(Params::REDISBLOOM.are_valid());
}

/// The limits stop growth, and what they stop changes nothing.
#[test]
fn limits_hold_growth() {
    let item = b"again and again";
    for (limits, filters, refusal) in [
        (up_to(3), 3, Refusal::MaxFilters),
        (within(65_535, 100, u64::MAX), 1, Refusal::MemoryLimit),
        (within(65_535, u64::MAX, 700), 3, Refusal::MemoryLimit),
    ] {
        let mut object = object(64, 2, 20, 2);
        let refused = loop {
            let before = fields_of(&object);
            if let Err(refusal) = object.add(item, false, || limits) {
                assert_eq!(fields_of(&object), before);
                break refusal;
            }
        };
        assert_eq!((object.filters().len(), refused), (filters, refusal));
        assert!(object.memory_bytes() <= limits.object_bytes);
        assert_eq!(object.items(), 4 * filters as u64);
        // Objects from a primary can still grow.
        object.add(item, false, || Limits::NONE).unwrap();
    }
    let shape = Shape::new(&Params::REDISBLOOM).unwrap();
    let refused = Cuckoo::new(shape, &within(65_535, 1023, u64::MAX));
    assert_eq!(refused.unwrap_err(), Refusal::MemoryLimit);
}

/// Memory that an object says it takes.
#[test]
fn memory_is_what_was_allocated() {
    let mut object = object(64, 2, 20, 1);
    let of = |filters: u64, taking: u64| {
        let table = filters * size_of::<valkeybloom_sketches::cuckoo::Buckets>() as u64;
        Cuckoo::BASE_BYTES + table + taking * 64
    };
    assert_eq!(object.memory_bytes(), of(1, 1));
    for number in 0..100_u32 {
        let added = object.add(&number.to_le_bytes(), false, || Limits::NONE);
        added.unwrap();
    }
    let filters = object.filters().len() as u64;
    assert!(filters > 1);
    assert_eq!(object.memory_bytes(), of(filters, filters));
    let copy = object.try_clone().unwrap();
    assert_eq!(copy.memory_bytes(), object.memory_bytes());
    for number in 0..100_u32 {
        object.remove(&number.to_le_bytes());
    }
    object.compact();
    assert_eq!(object.memory_bytes(), of(1, 1));
    // A header claims, and what comes takes.
    let claimed = wire::begin(&wire::write_header(&object), &Limits::NONE).unwrap();
    assert_eq!(claimed.memory_bytes(), of(1, 0));
}
