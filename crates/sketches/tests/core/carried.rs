//! Values of sketches: those that RedisBloom wrote are kept unchanged, and other values are refused.

use serde_json::Value;

use valkeybloom_sketches::carried::{Carried, Sketch};
use valkeybloom_sketches::{DecodeError, Relocate};

use crate::foreign::{fields_of_type, unhex};
use crate::support::{Field, Stream};

const SKETCHES: &str = include_str!("../../../../tests/data/redisbloom-8.8-cuckoo/sketches.json");

/// RDB version and checksum at the end of a DUMP.
const FOOTER_BYTES: usize = 10;

const fn type_id(sketch: Sketch) -> u64 {
    match sketch {
        Sketch::CountMin => 0x08c4_a4f9_360f_1000,
        Sketch::TopK => 0x4e8a_4af9_360f_1000,
        Sketch::TDigest => 0x4c32_12f9_360f_1000,
    }
}

/// Returns the name, type and fields of each recorded value, and its DUMP without compression.
fn recorded() -> Vec<(String, Sketch, Stream, Vec<u8>)> {
    let all: Value = serde_json::from_str(SKETCHES).unwrap();
    let all = all.as_object().unwrap().iter().map(|(key, value)| {
        let is = |sketch: &Sketch| value["type"] == sketch.type_name().to_str().unwrap();
        let sketch = Sketch::ALL.into_iter().find(is).unwrap();
        let dump = |name: &str| unhex(value[name].as_str().unwrap());
        let fields = fields_of_type(&dump("dump_plain"), type_id(sketch));
        assert_eq!(fields_of_type(&dump("dump"), type_id(sketch)), fields);
        (key.clone(), sketch, fields, dump("dump_plain"))
    });
    let all: Vec<_> = all.collect();
    assert_eq!(all.len(), 9);
    all
}

fn read(sketch: Sketch, fields: &Stream) -> Result<Carried, DecodeError> {
    let mut from = fields.clone();
    let carried = Carried::read(sketch, &mut from)?;
    assert_eq!(from, Stream::default(), "left over");
    Ok(carried)
}

fn fields_of(carried: &Carried) -> Stream {
    let mut fields = Stream::default();
    carried.write(&mut fields);
    fields
}

#[test]
fn written_values_are_kept() {
    for (key, sketch, fields, _) in recorded() {
        let carried = read(sketch, &fields).unwrap();
        assert_eq!(carried.sketch(), sketch, "{key}");
        assert_eq!(fields_of(&carried), fields, "{key}");
        assert_eq!(fields_of(&carried.try_clone().unwrap()), fields, "{key}");
        let bytes = fields.0.iter().map(|field| match field {
            Field::Bytes(bytes) => bytes.len(),
            Field::Uint(_) | Field::Double(_) => 8,
        });
        let bytes: usize = bytes.sum();
        assert_eq!(carried.parts().map(<[u8]>::len).sum::<usize>(), bytes);
        assert!(carried.memory_bytes() >= bytes as u64);
    }
}

/// The payload for RESTORE is RedisBloom's own DUMP, but for the version of the form and the checksum, which
/// the test on servers sees to.
#[test]
fn payloads_are_dumps() {
    for (key, sketch, fields, dump) in recorded() {
        let payload = read(sketch, &fields).unwrap().payload();
        assert_eq!(payload.len(), dump.len(), "{key}");
        let value = dump.len() - FOOTER_BYTES;
        assert_eq!(payload[..value], dump[..value], "{key}");
        assert_eq!(payload[value..value + 2], [9, 0], "{key}");
    }
}

/// Moves one part at a time, and all of them to another place.
struct OneByOne(usize);

impl Relocate for OneByOne {
    fn should_stop(&mut self) -> bool {
        true
    }

    fn table<T>(&mut self, _table: Vec<T>) -> Vec<T> {
        unreachable!("there are no filters")
    }

    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
        self.0 += 1;
        blob.to_vec().into()
    }
}

#[test]
fn each_part_is_moved_once() {
    for (key, sketch, fields, _) in recorded() {
        let mut carried = read(sketch, &fields).unwrap();
        let (mut next, mut by) = (Some(0), OneByOne(0));
        while let Some(cursor) = next {
            next = carried.relocate(cursor, &mut by);
        }
        assert_eq!(by.0, carried.parts().count(), "{key}");
        assert_eq!(fields_of(&carried), fields, "{key}");
    }
}

/// A recorded value to change, the fields to change, and why it is refused then.
type Row<'a> = (&'a str, &'a [(usize, Field)], &'a str);

const fn uint(at: usize, value: u64) -> (usize, Field) {
    (at, Field::Uint(value))
}

const fn double(at: usize, value: f64) -> (usize, Field) {
    (at, Field::Double(value))
}

fn bytes(at: usize, length: usize) -> (usize, Field) {
    (at, Field::Bytes(vec![0; length]))
}

#[test]
fn other_values_are_refused() {
    const SIZE: &str = "size out of range";
    const LENGTH: &str = "string of another length";
    const DECAY: &str = "decay out of range";
    const COMPRESSION: &str = "compression out of range";
    const CAPACITY: &str = "capacity of another compression";
    const NODES: &str = "nodes above the capacity";
    const ENDS: &str = "bytes end too early";
    let huge = 1 << 62;
    let rows: &[Row] = &[
        // Three by two.
        ("cms-empty", &[uint(0, 0)], "no counters"),
        ("cms-empty", &[uint(1, 0)], "no counters"),
        ("cms-empty", &[uint(0, 4)], LENGTH),
        (
            "cms-empty",
            &[uint(0, huge), uint(1, 4), bytes(3, 0)],
            LENGTH,
        ),
        (
            "cms-empty",
            &[uint(0, huge), uint(1, 1), bytes(3, 0)],
            LENGTH,
        ),
        ("cms-empty", &[bytes(3, 0)], LENGTH),
        ("cms-empty", &[bytes(3, 23)], LENGTH),
        ("cms-empty", &[bytes(3, 25)], LENGTH),
        ("cms-empty", &[double(0, 3.0)], ENDS),
        ("cms-empty", &[bytes(2, 8)], ENDS),
        ("cms-empty", &[uint(3, 0)], ENDS),
        // Two items, four by two cells.
        ("topk-empty", &[uint(0, 0)], SIZE),
        ("topk-empty", &[uint(1, 0)], SIZE),
        ("topk-empty", &[uint(2, 0)], SIZE),
        ("topk-empty", &[uint(0, 1 << 32)], SIZE),
        ("topk-empty", &[uint(1, 1 << 32)], SIZE),
        ("topk-empty", &[uint(2, u64::MAX)], SIZE),
        (
            "topk-empty",
            &[uint(1, u64::from(u32::MAX)), uint(2, u64::from(u32::MAX))],
            LENGTH,
        ),
        ("topk-empty", &[double(3, 0.0)], DECAY),
        ("topk-empty", &[double(3, -0.5)], DECAY),
        ("topk-empty", &[double(3, 1.000_001)], DECAY),
        ("topk-empty", &[double(3, f64::NAN)], DECAY),
        ("topk-empty", &[bytes(4, 63)], LENGTH),
        ("topk-empty", &[bytes(4, 65)], LENGTH),
        ("topk-empty", &[bytes(5, 47)], LENGTH),
        ("topk-empty", &[bytes(5, 24)], LENGTH),
        ("topk-empty", &[uint(0, 3), bytes(5, 72)], ENDS),
        ("topk-empty", &[uint(0, u64::from(u32::MAX))], LENGTH),
        ("topk-empty", &[bytes(6, 0)], "item without its end"),
        (
            "topk-empty",
            &[(7, Field::Bytes(b"item".to_vec()))],
            "item without its end",
        ),
        ("topk-empty", &[uint(7, 0)], ENDS),
        ("topk-empty", &[uint(3, 1)], ENDS),
        // A compression of 100, with five nodes.
        ("tdigest-few", &[double(0, 0.999)], COMPRESSION),
        ("tdigest-few", &[double(0, f64::NAN)], COMPRESSION),
        ("tdigest-few", &[double(0, f64::INFINITY)], COMPRESSION),
        ("tdigest-few", &[double(0, -100.0)], COMPRESSION),
        ("tdigest-few", &[double(0, 1e18)], COMPRESSION),
        ("tdigest-few", &[double(0, 101.0)], CAPACITY),
        ("tdigest-few", &[uint(3, 611)], CAPACITY),
        ("tdigest-few", &[uint(3, u64::MAX)], CAPACITY),
        ("tdigest-few", &[uint(4, 611)], NODES),
        ("tdigest-few", &[uint(4, u64::MAX)], NODES),
        ("tdigest-few", &[uint(5, 606)], NODES),
        ("tdigest-few", &[uint(5, u64::MAX)], NODES),
        ("tdigest-few", &[uint(4, 6)], ENDS),
        ("tdigest-few", &[uint(4, 610)], ENDS),
        ("tdigest-few", &[uint(9, 1)], ENDS),
        ("tdigest-few", &[bytes(0, 8)], ENDS),
    ];
    let recorded = recorded();
    for (key, changes, refusal) in rows {
        let found = recorded.iter().find(|(name, ..)| name == key);
        let (_, sketch, fields, _) = found.unwrap();
        let mut fields = fields.clone();
        for (at, field) in *changes {
            fields.0[*at] = field.clone();
        }
        let error = read(*sketch, &fields).unwrap_err();
        assert_eq!(error.to_string(), *refusal, "{key} {changes:?}");
    }
}

#[test]
fn values_that_end_early_are_refused() {
    for (key, sketch, fields, _) in recorded() {
        for length in 0..fields.0.len() {
            let cut = Stream(fields.0.iter().take(length).cloned().collect());
            let refused = read(sketch, &cut);
            assert_eq!(
                refused.err(),
                Some(DecodeError::Truncated),
                "{key} {length}"
            );
        }
    }
}
