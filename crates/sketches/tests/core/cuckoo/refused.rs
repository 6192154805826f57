//! Bytes that are not a cuckoo filter.

use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::cuckoo::{ChunkError, Cuckoo, Limits};
use valkeybloom_sketches::{DecodeError, work};
use wire::HeaderError;

use crate::support::Field;

use super::{damaged_fields_of, fields_of, object, read, slots, up_to, within};

/// Returns an object of two filters.
fn sample() -> Cuckoo {
    let mut sample = object(64, 2, 20, 2);
    for number in 0..90_u8 {
        sample.add(&[number], false, || Limits::NONE).unwrap();
    }
    assert_eq!(sample.filters().len(), 2);
    sample
}

/// The fields by their numbers.
const FILTERS: usize = 0;
const BUCKETS: usize = 1;
const ITEMS: usize = 2;
const DELETES: usize = 3;
const SIZE: usize = 4;
const ITERATIONS: usize = 5;
const EXPANSION: usize = 6;
const FIRST_BUCKETS: usize = 7;

const BAD_BUCKETS: &str = "number of buckets out of range";
const BAD_FILTERS: &str = "number of filters out of range";
const BAD_EXPANSION: &str = "expansion out of range";
const TOO_LARGE: &str = "filter out of range";

/// Numbers that are refused in RDB fields, and in a header if its narrower fields can hold them.
#[test]
fn numbers_out_of_range_are_refused() {
    let fields = fields_of(&sample());
    let header = wire::write_header(&sample());
    for (field, numbers, text) in [
        (FILTERS, &[0, 65_536, 65_538, u64::MAX][..], BAD_FILTERS),
        (BUCKETS, &[0, 31, 33, 1 << 56, 1 << 63], BAD_BUCKETS),
        (BUCKETS, &[u64::MAX, 1 << 55, 1 << 44], BAD_BUCKETS),
        (BUCKETS, &[1 << 32], TOO_LARGE),
        (SIZE, &[0, 256, 65_538], "bucket size out of range"),
        (ITERATIONS, &[0, 65_536], "iterations out of range"),
        (EXPANSION, &[0], TOO_LARGE),
        (EXPANSION, &[3], "expansion is no power of two"),
        (EXPANSION, &[32_769, 65_535, 65_536], BAD_EXPANSION),
    ] {
        for &number in numbers {
            let refused = read(fields.with(field, Field::Uint(number))).map(|_| ());
            let what = format!("field {field}: {number}");
            assert_eq!(refused, Err(DecodeError::Malformed(text)), "{what}");
            let place = match field {
                ITEMS => 0..8,
                BUCKETS => 8..16,
                DELETES => 16..24,
                FILTERS => 24..32,
                SIZE => 32..34,
                ITERATIONS => 34..36,
                _ => 36..38,
            };
            let mut forged = header.clone();
            let length = place.len();
            forged[place].copy_from_slice(&number.to_le_bytes()[..length]);
            if length == 8 || number < 1 << 16 {
                let refused = wire::begin(&forged, &Limits::NONE).map(|_| ());
                assert_eq!(refused, Err(HeaderError::Numbers), "{what}");
            }
        }
    }
    // The fields of the first filter, and of the second.
    for buckets in [FIRST_BUCKETS, FIRST_BUCKETS + 2] {
        for wrong in [0, 1, 16, 31, 128, 1 << 55, 1 << 63, u64::MAX] {
            let forged = read(fields.with(buckets, Field::Uint(wrong)));
            let error = "number of buckets that does not follow from the first filter's";
            assert_eq!(forged.err(), Some(error.into()), "{wrong} buckets");
        }
        for length in [0, 1, 63, 65, 127, 129] {
            let forged = read(fields.with(buckets + 1, Field::Bytes(vec![0; length])));
            let error = "filter of the wrong size";
            assert_eq!(forged.err(), Some(error.into()), "{length} bytes");
        }
    }
    let single = fields_of(&object(64, 2, 20, 0));
    assert!(read(single.clone()).is_ok());
    let two = read(single.with(FILTERS, Field::Uint(2)));
    assert!(two.is_err(), "two filters that do not expand");
}

/// A product that overflows 64 bits, or 32.
#[test]
fn claims_beyond_four_gigabytes_are_refused() {
    let mut header = wire::write_header(&sample());
    for (buckets, filters, expansion, admitted) in [
        (1_u64 << 31, 1_u64, 1_u16, true),
        (1 << 31, 60_000, 1, true),
        (1 << 32, 1, 1, false),
        (1 << 31, 2, 2, false),
        (1, 5, 32_768, false),
        (1, 65_535, 2, false),
        (32, 3, 32_768, false),
        (32, 65_535, 32_768, false),
        // 16 * 32768^4 is 2^64.
        (16, 5, 32_768, false),
        (1, 32, 2, true),
    ] {
        header[8..16].copy_from_slice(&buckets.to_le_bytes());
        header[24..32].copy_from_slice(&filters.to_le_bytes());
        header[36..38].copy_from_slice(&expansion.to_le_bytes());
        let begun = wire::begin(&header, &Limits::NONE);
        assert_eq!(begun.is_ok(), admitted, "{buckets}, {filters}, {expansion}");
        if let Ok(begun) = begun {
            // The table alone.
            assert!(begun.memory_bytes() < 100 * filters + 200);
        }
    }
}

#[test]
fn older_and_newer_encodings_are_refused_by_name() {
    let fields = fields_of(&sample());
    for version in [0, 1, 2, 3] {
        let refused = wire::read_rdb(version, &mut fields.clone()).unwrap_err();
        assert!(refused.to_string().contains("RedisBloom 2.0 or older"));
    }
    for version in [5, 1023] {
        let refused = wire::read_rdb(version, &mut fields.clone()).unwrap_err();
        assert_eq!(refused, DecodeError::UnsupportedVersion);
    }
    for length in [0, 1, 32, 37, 39, 45, 47] {
        let mut header = wire::write_header(&sample());
        header.resize(length, 0);
        let refused = wire::begin(&header, &Limits::NONE).unwrap_err();
        assert_eq!(refused, HeaderError::Length);
    }
}

/// Limits on one filter, and on the whole that a client may claim.
#[test]
fn limits_hold_claims() {
    let begin = |limits| wire::begin(&wire::write_header(&sample()), &limits).is_ok();
    assert!(begin(within(4, 128, u64::MAX)));
    assert!(!begin(within(4, 127, u64::MAX)), "one filter");
    assert!(!begin(within(4, 128, 250)), "the object");
    assert!(begin(within(2, 128, u64::MAX)));
    assert!(!begin(within(1, 1000, u64::MAX)), "the number of filters");
}

/// A header of 38 bytes made a table of 65,535 filters before the limits were read.
#[test]
fn limits_come_before_the_table_of_filters() {
    let mut header = wire::write_header(&sample());
    header[24..32].copy_from_slice(&65_535_u64.to_le_bytes());
    header[36..38].copy_from_slice(&1_u16.to_le_bytes());
    for limits in [
        up_to(65_534),
        within(65_535, u64::MAX, 1000),
        within(65_535, 63, u64::MAX),
    ] {
        work::take();
        let refused = wire::begin(&header, &limits).map(|_| ());
        assert_eq!(refused, Err(HeaderError::Numbers), "{limits:?}");
        let steps = work::take().steps;
        assert!(steps < 20, "{steps} steps: {limits:?}");
    }
    assert!(wire::begin(&header, &Limits::NONE).is_ok());
}

/// The sample takes a removal more before it is compacted if a tenth of what it holds was not yet removed: whatever
/// its number of items is.
#[test]
fn no_items_do_not_compact_at_each_removal() {
    let mut right = sample();
    let mut forged = read(fields_of(&right).with(ITEMS, Field::Uint(0))).unwrap();
    let mut compactions = 0;
    for number in 0..90_u8 {
        assert!(forged.remove(&[number]) && right.remove(&[number]));
        assert_eq!(forged.deletes(), right.deletes(), "after {number}");
        compactions += usize::from(right.deletes() == 0);
    }
    assert!((1..20).contains(&compactions), "{compactions}");
    assert_eq!(slots(&forged), slots(&right));
}

/// Damaged files claim items that are not there.
#[test]
fn a_wrong_number_of_items_never_wraps() {
    for (items, deletes) in [(0, 0), (u64::MAX, 0), (u64::MAX, u64::MAX), (1, u64::MAX)] {
        let fields = fields_of(&sample()).with(ITEMS, Field::Uint(items));
        let mut damaged = read(fields.with(DELETES, Field::Uint(deletes))).unwrap();
        assert_eq!((damaged.items(), damaged.deletes()), (items, deletes));
        damaged.add(b"one more", false, || Limits::NONE).unwrap();
        assert_eq!(damaged.items(), items.saturating_add(1));
        for number in 0..90_u8 {
            assert!(damaged.remove(&[number]));
        }
        let left = items.saturating_add(1).saturating_sub(90);
        assert_eq!(damaged.items(), left);
        read(damaged_fields_of(&damaged)).unwrap();
    }
}

#[test]
fn chunks_that_do_not_fit_change_nothing() {
    let mut sample = sample();
    let before = fields_of(&sample);
    // Filters of 64 and 128 slots.
    for (cursor, length) in [
        (0, 1),
        (1, 1),
        (1, 0),
        (2, 0),
        (10, 10),
        (66, 2),
        (65, 65),
        (100, 64),
        (129, 100),
        (193, 0),
        (193, 129),
        (193, 192),
        (194, 1),
        (194, 128),
        (194, 129),
        (195, 1),
        (1 << 32, 64),
        ((1 << 32) + 65, 64),
        (1 << 40, 16),
        (u64::MAX, 1),
        (u64::MAX, 128),
    ] {
        let loaded = wire::load(&mut sample, cursor, &vec![7; length]);
        assert_eq!(
            loaded,
            Err(ChunkError::Misplaced),
            "{length} bytes up to {cursor}"
        );
        assert_eq!(fields_of(&sample), before);
    }
    assert_eq!(wire::load(&mut sample, 193, &[7; 128]), Ok(()));
    assert_eq!(wire::load(&mut sample, 2, &[0]), Ok(()));
    assert_eq!(sample.filters()[1].occupied(), 128);
}
