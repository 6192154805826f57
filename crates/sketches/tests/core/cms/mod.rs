//! Count-min sketches: against what RedisBloom recorded, against the rules written down once more, and against bytes
//! that mean harm.

mod life;
mod merging;
mod rates;
mod refused;

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::cms::{CellSize, CountMin, Shape, wire};

use crate::support::{Rng, Stream};

/// Returns an empty sketch.
fn sketch(width: u64, depth: u64, size: CellSize) -> CountMin {
    CountMin::new(Shape::new(width, depth, size).unwrap(), u64::MAX).unwrap()
}

/// Returns the fields of a sketch in RDB.
fn fields_of(sketch: &CountMin) -> Stream {
    Stream::of(|to| wire::write_rdb(sketch, wire::RDB_VERSION, to))
}

/// Reads all of the fields.
fn read(version: i32, mut fields: Stream) -> Result<CountMin, DecodeError> {
    let sketch = wire::read_rdb(version, &mut fields)?;
    assert!(fields.0.is_empty(), "fields after the sketch");
    Ok(sketch)
}

#[track_caller]
fn assert_equal(one: &CountMin, other: &CountMin) {
    assert_eq!(one.shape(), other.shape());
    assert_eq!(one.count(), other.count());
    assert!(one.table() == other.table(), "other counters");
}

/// Returns an increment that is near an edge of a counter's range now and then.
fn increment(rng: &mut Rng, max: u64) -> i64 {
    let edge = i64::try_from(max).unwrap();
    match rng.below(16) {
        0 => 0,
        1 => -1,
        2 => edge,
        3 => -edge,
        4 => edge / 2 + 1,
        5 => i64::MAX,
        6 => *rng.pick(&[i64::MIN, i64::MIN + 1]),
        7 => -i64::try_from(rng.below(100)).unwrap(),
        8 => (rng.next() >> 1).cast_signed(),
        _ => i64::try_from(rng.below(100)).unwrap(),
    }
}
