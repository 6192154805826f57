//! Objects of RedisBloom that are made here, and those that lack chunks.

use valkeybloom_sketches::bloom::chunks::{Partial, Value};
use valkeybloom_sketches::bloom::{
    Added, Dialect, Limits, New, Object, Params, Refusal, Time, rdb,
};
use valkeybloom_sketches::{MAX_CAPACITY, Seed};
use valkeybloom_testing::loader::loaded;

use crate::draft::drafts;
use crate::support::{
    Field, NO_CLOCK, ROOMY, Stream, add, begin_partial, bitmaps, fields_of, fields_of_partial,
    filters, has, header_of, object, params, through_every_form, within,
};

fn new(params: Params) -> New {
    let factor = params.growth.expansion();
    New::RedisBloom { params, factor }
}

fn made(params: Params, limits: Limits) -> Result<Object, Refusal> {
    Object::make(&new(params), Seed::FIXED, limits)
}

/// Returns an object with one item, and its header.
fn of_one_item() -> (Object, Vec<u8>) {
    let mut object = made(params(100, 0.01, 2), ROOMY).unwrap();
    add(&mut object, b"item").unwrap();
    let header = header_of(&object);
    (object, header)
}

fn read_partial(stream: Stream) -> Partial {
    match read(stream) {
        Value::Partial(partial) => *partial,
        Value::Complete(_) => panic!("complete"),
    }
}

/// Its first filter is sized by the published rules: half the rate where others follow, and 0.25 at most.
#[test]
fn the_first_filter_has_the_published_size() {
    for (rate, capacity, growth, bytes, hashes, reported) in [
        (0.01, 100, 2, 144, 8, 0.005),
        (0.001, 50_000, 2, 98_880, 11, 0.0005),
        (0.02, 500, 0, 512, 6, 0.02),
        (0.3, 50, 2, 32, 4, 0.125),
        (0.9, 50, 0, 24, 3, 0.25),
        (0.25, 50, 0, 24, 3, 0.25),
        (0.01, 1, 2, 8, 8, 0.005),
    ] {
        let object = made(params(capacity, rate, growth), ROOMY).unwrap();
        assert_eq!(Dialect::of(&object), Dialect::RedisBloom);
        let filter = &filters(&object)[0];
        assert_eq!(filter.geometry().cell_bytes, bytes, "{rate} {capacity}");
        assert_eq!(filter.geometry().hashes, hashes, "{rate} {capacity}");
        assert_eq!(filter.capacity(), capacity);
        let (_, made_for) = object.filters().next().unwrap();
        assert_eq!(made_for.to_bits(), f64::to_bits(reported), "{rate}");
    }
}

/// Limits admit an object and how far it grows, before there is one.
#[test]
fn new_objects_keep_the_limits() {
    let growing = params(1000, 0.01, 2);
    let mut object = made(growing, Limits::NONE).unwrap();
    let bytes = object.memory_bytes();
    let exactly = |object_bytes| within(u64::MAX, object_bytes);
    assert!(made(growing, exactly(bytes)).is_ok());
    let refused = made(growing, exactly(bytes - 1));
    assert_eq!(refused.unwrap_err(), Refusal::MemoryLimit);
    let limits = exactly(20_000);
    let (reach, stopped) = new(growing).reach(limits);
    let added = (0_u64..).map(|it| object.add(&it.to_le_bytes(), Time::default(), || limits));
    assert_eq!(added.map(Result::err).find(Option::is_some), Some(stopped));
    assert_eq!(stopped, Some(Refusal::MemoryLimit));
    assert_eq!(object.capacity(), reach);
    // One that does not grow reaches its capacity.
    let fixed = params(1000, 0.01, 0);
    assert_eq!(new(fixed).reach(Limits::NONE), (1000, Some(Refusal::Full)));
    let too_large = params(MAX_CAPACITY, 0.01, 2);
    let none = (0, Some(Refusal::MemoryLimit));
    assert_eq!(new(too_large).reach(Limits::NONE), none);
    // RedisBloom takes rates below the smallest normal double, until half of one is zero.
    let subnormal = made(params(10, 1e-320, 2), Limits::NONE);
    assert_eq!(subnormal.map(|object| object.capacity()).ok(), Some(10));
    let tiny = params(10, 5e-324, 2);
    assert_eq!(made(tiny, Limits::NONE).unwrap_err(), Refusal::RateTooSmall);
}

/// A saturated object counts no more items than its capacity, in every form: RedisBloom 8.12 loads no other one.
#[test]
fn a_saturated_object_counts_up_to_its_capacity() {
    for capacity in [1, 100, 100_000] {
        let mut object = made(params(capacity, 0.01, 0), Limits::NONE).unwrap();
        let mut copy = object.try_clone().unwrap();
        let items: Vec<_> = (0..3 * capacity).map(u64::to_le_bytes).collect();
        let (one_by_one, together) = items.split_at(items.len() / 2);
        let (mut new, mut probes) = (0, Vec::new());
        for batch in one_by_one.chunks(1).chain([together]) {
            object.add_each_probed(
                batch.iter().map(|item| &item[..]),
                || Limits::NONE,
                |added| new += u64::from(added == Ok(Added::New)),
                |probe| probes.push(probe),
            );
        }
        assert!(new > capacity && probes.len() as u64 == new, "{new}");
        assert_eq!(object.totals(), (1, capacity, capacity));
        assert!(items.iter().all(|item| has(&object, item)));
        redisbloom_reads(&fields_of(&object));
        through_every_form(&object);
        // The estimate does not stop where the count does.
        let estimate = object.estimated_rate(NO_CLOCK);
        assert!(capacity == 1 || estimate > 0.1, "{estimate}");
        copy.replay_each(probes.into_iter(), Limits::NONE).unwrap();
        assert_eq!(fields_of(&copy), fields_of(&object));
    }
}

/// Older versions of RedisBloom count more items than the capacity. Such a header is held once it is loaded.
#[test]
fn a_header_may_claim_more_items_than_fit() {
    let (object, header) = of_one_item();
    let cells = bitmaps(&object);
    // The items are in the first 8 bytes, and from byte 16 on of the link, which follows 20 bytes.
    let claiming = |items: u64| {
        let mut header = header.clone();
        header[..8].copy_from_slice(&items.to_le_bytes());
        header[36..44].copy_from_slice(&items.to_le_bytes());
        header
    };
    let mut partial = begin_partial(&claiming(1000)).unwrap();
    let cursor = 1 + cells.len() as u64;
    let complete = partial.load(cursor, &cells).unwrap().unwrap();
    for value in [Value::Partial(partial.into()), Value::Complete(complete)] {
        for (items, is_held) in [(99, false), (100, true), (1000, true)] {
            assert_eq!(value.holds(1, &claiming(items)), is_held, "{items}");
        }
        assert!(!value.holds(1, &header[1..]));
    }
}

/// Requires that RedisBloom's loader accepts the fields of an object.
#[track_caller]
fn redisbloom_reads(fields: &Stream) {
    let dialect = Dialect::RedisBloom;
    loaded(dialect.type_name(), dialect.rdb_version(), fields.clone());
}

fn read(stream: Stream) -> Value {
    let mut stream = stream;
    let value = rdb::read(Dialect::RedisBloom, 4, &mut stream).unwrap();
    assert_eq!(stream, Stream::default(), "fields after it");
    value
}

/// A half loaded object is written as an object that RedisBloom reads, and is read as one that lacks the same chunks.
#[test]
fn half_loaded_objects_are_written_as_whole_ones() {
    for (rate, capacity, growth) in [
        (0.01, 20, 2),
        (0.001, 20, 1),
        (0.02, 300, 0),
        // Rates whose logarithm is a whole number of bits, where a digit of the record decides on the hash functions.
        (0.25, 30, 2),
        (0.25, 30, 0),
        (0.5, 30, 1),
        (0.000_976_562_5, 10, 2),
    ] {
        let mut object = made(params(capacity, rate, growth), ROOMY).unwrap();
        for item in 0..200_u64 {
            let _ = add(&mut object, &item.to_le_bytes());
        }
        let cells = bitmaps(&object);
        let mut partial = begin_partial(&header_of(&object)).unwrap();
        for loaded in 0..cells.len() {
            let fields = fields_of_partial(&partial);
            redisbloom_reads(&fields);
            let mut again = read_partial(fields.clone());
            assert!(again.pieces().eq(partial.pieces()), "{rate} {loaded}");
            assert_eq!(fields_of_partial(&again), fields);
            // It continues at its cursor.
            let cursor = (loaded + 2) as u64;
            let next = &cells[loaded..=loaded];
            let whole = again.load(cursor, next).unwrap();
            match partial.load(cursor, next).unwrap() {
                None => assert!(whole.is_none() && again.pieces().eq(partial.pieces())),
                Some(complete) => {
                    assert_eq!(loaded + 1, cells.len());
                    assert_eq!(fields_of(&complete), fields_of(&object));
                    assert_eq!(fields_of(&whole.unwrap()), fields_of(&object));
                    break;
                }
            }
        }
    }
}

/// A peer adds to half loaded objects: there, missing bytes are zeros.
#[test]
fn half_loaded_objects_are_filled_with_zeros() {
    for draft in drafts().iter().filter(|draft| draft.version == 4) {
        let bytes: usize = draft.links.iter().map(|link| link.bitmap.len()).sum();
        for loaded in [0, 1, bytes / 2, bytes - 1] {
            let mut partial = begin_partial(&draft.header()).unwrap();
            let (mut expected, mut cursor) = (draft.clone(), 1);
            for link in &mut expected.links {
                let length = link.bitmap.len().min(loaded + 1 - cursor);
                let (chunk, missing) = link.bitmap.split_at_mut(length);
                missing.fill(0);
                cursor += length;
                if length > 0 {
                    assert!(partial.load(cursor as u64, chunk).unwrap().is_none());
                }
            }
            assert_eq!(fields_of(&partial.filled().unwrap()), expected.fields());
        }
    }
    let own = object(&params(100, 0.01, 2), Seed::FIXED);
    let mut partial = begin_partial(&header_of(&own)).unwrap();
    assert!(partial.filled().is_err());
}

/// A whole object is never taken for a half loaded one, whatever its record says, if a bit is set after the mark's
/// place.
#[test]
fn whole_objects_are_not_taken_for_half_loaded_ones() {
    for draft in drafts() {
        let object = draft.read().unwrap();
        let fields = fields_of(&object);
        assert!(matches!(read(fields), Value::Complete(_)));
    }
    let (object, header) = of_one_item();
    let mut partial = begin_partial(&header).unwrap();
    let _ = partial.load(3, &[0, 0]).unwrap();
    let mut fields = fields_of_partial(&partial);
    let bitmap = fields.0.iter_mut().find_map(|field| match field {
        Field::Bytes(bitmap) => Some(bitmap),
        _ => None,
    });
    *bitmap.unwrap().last_mut().unwrap() = 1;
    let Value::Complete(whole) = read(fields) else {
        panic!("half loaded");
    };
    // The mark is gone, so what it writes is read again.
    let again = through_every_form(&whole);
    assert_eq!(fields_of(&again).0[7], fields_of(&object).0[7]);
}

/// Bits per entry that were computed with another logarithm are kept, also in a header that has a mark already.
#[test]
fn the_last_digits_of_the_record_are_kept() {
    let (_, header) = of_one_item();
    let record = u64::from_le_bytes(header[52..60].try_into().unwrap());
    for off in -15_i64..=15 {
        let mut header = header.clone();
        header[52..60].copy_from_slice(&record.wrapping_add_signed(off).to_le_bytes());
        let mut partial = begin_partial(&header).unwrap();
        let _ = partial.load(4, &[1, 2, 3]).unwrap();
        let fields = fields_of_partial(&partial);
        redisbloom_reads(&fields);
        let again = read_partial(fields.clone());
        assert!(again.pieces().eq(partial.pieces()), "{off}");
        let Some(Field::Double(marked)) = fields.0.get(7) else {
            panic!("no record: {:?}", fields.0.get(7));
        };
        let plain = begin_partial(&header).unwrap();
        header[52..60].copy_from_slice(&marked.to_le_bytes());
        let marked = begin_partial(&header).unwrap();
        assert_eq!(fields_of_partial(&marked), fields_of_partial(&plain));
    }
}

/// The form of earlier releases, which follows two zeros, is still read.
#[test]
fn the_earlier_form_of_half_loaded_objects_is_read() {
    let (_, header) = of_one_item();
    let bytes = vec![7; 20];
    let [header_field, bytes_field] = [&header, &bytes].map(|it| Field::Bytes(it.clone()));
    let earlier = [Field::Uint(0), Field::Uint(0), header_field, bytes_field];
    let partial = read_partial(Stream(earlier.into()));
    let pieces: Vec<_> = partial.pieces().collect();
    assert_eq!(pieces, [(1, &header[..]), (21, &bytes[..])]);
}

/// A header that claims more than is worth writing as zeros is written in the earlier form, in a few bytes.
#[test]
fn large_claims_are_written_in_few_bytes() {
    let (_, mut header) = of_one_item();
    let bytes = (1_u64 << 30) + 8;
    header[20..28].copy_from_slice(&bytes.to_le_bytes());
    header[28..36].copy_from_slice(&(bytes * 8).to_le_bytes());
    let partial = begin_partial(&header).unwrap();
    let fields = fields_of_partial(&partial);
    assert_eq!(fields.0.len(), 4);
    read_partial(fields);
}
