//! Bytes that are not a count-min sketch.

use std::collections::VecDeque;

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::cms::{CellSize, Overflow, Shape};

use crate::support::{Field, Stream};

use super::{fields_of, read, sketch};

fn uint(value: u64) -> Field {
    Field::Uint(value)
}

fn bytes(length: usize) -> Field {
    Field::Bytes(vec![1; length])
}

const SHAPE: &str = "shape out of range";
const SIZE: &str = "counters of another size";
const CELL: &str = "size of a counter out of range";
const COUNT: &str = "count out of range";
const ENDS: &str = "bytes end too early";
const IMPLIED: &str = "size of a counter that goes without saying";

/// A version, its fields, and why they are refused.
type Row = (i32, Vec<Field>, &'static str);

#[test]
fn other_values_are_refused() {
    let huge = 1 << 62;
    // Three by two.
    let four = |width, depth, length| vec![uint(width), uint(depth), uint(7), bytes(length)];
    let other = |width, depth, length, size| {
        let mut fields = four(width, depth, length);
        fields.push(uint(size));
        fields
    };
    let newer = |width, depth, count, size, length| {
        let numbers = [width, depth, count, size].map(uint);
        [&numbers[..], &[bytes(length)]].concat()
    };
    let (over, double) = (i64::MAX as u64 + 1, Field::Double(3.0));
    let mut many = other(3, 2, 12, 2);
    many[2] = uint(over);
    let rows: Vec<Row> = vec![
        (0, four(0, 2, 0), SHAPE),
        (0, four(3, 0, 0), SHAPE),
        (0, four(4, 2, 24), ENDS),
        (0, four(3, 2, 23), ENDS),
        (0, four(3, 2, 25), ENDS),
        (0, four(3, 2, 0), ENDS),
        // The product of these wraps to 0.
        (0, four(huge, 4, 0), SHAPE),
        (0, four(huge, 1, 0), ENDS),
        (0, four(u64::MAX, 1, 0), SHAPE),
        (0, other(3, 2, 25, 4), IMPLIED),
        (0, other(3, 2, 12, 1), SIZE),
        (0, other(3, 2, 6, 2), SIZE),
        (0, other(3, 2, 12, 0), CELL),
        (0, other(3, 2, 12, 3), CELL),
        (0, other(3, 2, 12, u64::MAX), CELL),
        (0, other(huge, 1, 0, 8), SIZE),
        (0, vec![double, uint(2), uint(7), bytes(24)], ENDS),
        (0, vec![uint(3), uint(2), bytes(8), bytes(24)], ENDS),
        (0, vec![uint(3), uint(2), uint(7), uint(24)], ENDS),
        (0, many, COUNT),
        (1, newer(3, 2, over, 4, 24), COUNT),
        (1, newer(3, 2, 7, 3, 24), CELL),
        (1, newer(3, 2, 7, 0, 24), CELL),
        (1, newer(0, 2, 7, 4, 0), SHAPE),
        (1, newer(3, 2, 7, 4, 23), SIZE),
        (1, newer(3, 2, 7, 8, 24), SIZE),
        (1, newer(huge, 2, 7, 8, 0), SHAPE),
        (1, newer(huge, 1, 7, 8, 0), SIZE),
        (1, four(3, 2, 24), ENDS),
    ];
    for (version, fields, refusal) in rows {
        let shown = format!("{version} {fields:?}");
        let error = read(version, Stream(VecDeque::from(fields))).unwrap_err();
        assert_eq!(error.to_string(), refusal, "{shown}");
    }
    for version in [-1, 2, 1023] {
        let error = read(version, fields_of(&sketch(3, 2, CellSize::Four))).unwrap_err();
        assert_eq!(error, DecodeError::UnsupportedVersion);
    }
}

#[test]
fn a_counter_of_eight_bytes_is_never_negative() {
    let (most, over) = (i64::MAX as u64, i64::MAX as u64 + 1);
    for (counter, is_valid) in [(most, true), (over, false), (u64::MAX, false)] {
        let table = [7, counter, 0]
            .map(u64::to_le_bytes)
            .as_flattened()
            .to_vec();
        let zero = Field::Bytes(table);
        for (version, fields) in [
            (0, vec![uint(3), uint(1), uint(0), zero.clone(), uint(8)]),
            (1, vec![uint(3), uint(1), uint(0), uint(8), zero]),
        ] {
            let read = read(version, Stream(fields.into()));
            assert_eq!(read.is_ok(), is_valid, "{version} {counter}");
        }
    }
}

/// The forms differ in their order alone. A sketch of four bytes takes any count in the older one, because it wraps
/// there.
#[test]
fn both_versions_are_read() {
    for size in CellSize::ALL {
        let mut counted = sketch(5, 3, size);
        counted.increment(b"item", 100, Overflow::Refuse).unwrap();
        let fields = fields_of(&counted);
        let four = size == CellSize::Four;
        assert_eq!(fields.0.len(), if four { 4 } else { 5 });
        let again = read(0, fields.clone()).unwrap();
        super::assert_equal(&again, &counted);
        let mut newer: Vec<_> = fields.0.into_iter().take(4).collect();
        newer.insert(3, uint(size.bytes()));
        super::assert_equal(&read(1, Stream(newer.into())).unwrap(), &counted);
        for count in [u64::MAX, 1 << 63] {
            let mut fields = fields_of(&counted);
            fields.0[2] = uint(count);
            assert_eq!(
                read(0, fields).map(|read| read.count()).ok(),
                four.then_some(count)
            );
        }
    }
}

#[test]
fn shapes_are_bounded() {
    let most = i64::MAX as u64;
    for (width, depth, is_valid) in [
        (1, 1, true),
        (0, 1, false),
        (1, 0, false),
        (1, most, true),
        (1, most + 1, false),
        (most, 1, true),
        (most + 1, 1, false),
        (most / 7, 7, true),
        (most / 7 + 1, 7, false),
        (u64::MAX, 2, false),
    ] {
        let shape = Shape::new(width, depth, CellSize::Four);
        assert_eq!(shape.is_some(), is_valid, "{width} {depth}");
        let bytes = shape.and_then(|shape| shape.bytes());
        let expected = (u128::from(width) * u128::from(depth) * 4).try_into().ok();
        assert_eq!(bytes, expected.filter(|_| is_valid), "{width} {depth}");
    }
}
