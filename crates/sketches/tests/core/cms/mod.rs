//! Count-min sketches: against what RedisBloom recorded, against the rules written down once more, and against bytes
//! that mean harm.

mod life;
mod merging;
mod naive;
mod rates;
mod refused;

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::cms::{CellSize, CountMin, Shape, wire};

use crate::support::Stream;

/// Returns an empty sketch.
fn sketch(width: u64, depth: u64, size: CellSize) -> CountMin {
    CountMin::new(Shape::new(width, depth, size).unwrap(), u64::MAX).unwrap()
}

/// Returns the fields of a sketch in RDB.
fn fields_of(sketch: &CountMin) -> Stream {
    let mut fields = Stream::default();
    wire::write_rdb(sketch, &mut fields);
    fields
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
