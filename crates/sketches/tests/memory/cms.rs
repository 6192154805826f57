//! Count-min sketches whose allocations are refused.

use valkeybloom_sketches::cms::{
    CellSize, CountMin, MergeError, Overflow, Refusal, Shape, Term, wire,
};

use crate::refusing::{Family, each_refused_of};
use crate::samples::item;
use valkeybloom_testing::support::Stream;

fn sample(size: CellSize) -> CountMin {
    let shape = Shape::new(500, 4, size).unwrap();
    let mut sketch = CountMin::new(shape, u64::MAX).unwrap();
    for number in 0..1000 {
        let _ = sketch.increment(&item(number), 1, Overflow::Refuse);
    }
    sketch
}

const FAMILY: Family<CountMin> = Family {
    write: |sketch, to| wire::write_rdb(sketch, wire::RDB_VERSION, to),
    read: |from| wire::read_rdb(wire::RDB_VERSION, from),
    copy: CountMin::try_clone,
};

#[test]
fn count_min_sketches_are_made_read_and_copied() {
    for size in CellSize::ALL {
        let sketch = sample(size);
        let refusals = each_refused_of(
            || CountMin::new(*sketch.shape(), u64::MAX),
            |made, refused| assert_eq!(made.err(), refused.then_some(Refusal::OutOfMemory)),
        );
        let refusals = refusals + FAMILY.is_read_and_copied(&sketch);
        assert!(refusals >= 2, "{size:?}: {refusals}");
    }
}

#[test]
fn count_min_sketches_are_merged() {
    let fields = |sketch: &CountMin| Stream::of(|to| (FAMILY.write)(sketch, to));
    for (size, weight, overflow) in [
        (CellSize::Eight, 1, Overflow::Refuse),
        (CellSize::Four, 1 << 32, Overflow::Saturate),
    ] {
        let sources: Vec<_> = (0..100).map(|_| sample(size)).collect();
        let twice = sources.iter().chain(&sources);
        let terms: Vec<_> = twice.map(|source| Term { source, weight }).collect();
        let expected = fields(&CountMin::merged(&terms, overflow).unwrap());
        let refusals = each_refused_of(
            || CountMin::merged(&terms, overflow),
            |merged, refused| match merged {
                Ok(merged) => assert!(fields(&merged) == expected, "other fields"),
                Err(error) => assert_eq!((error, refused), (MergeError::OutOfMemory, true)),
            },
        );
        // The sources by address, one term for each of them, and the counters.
        assert!(refusals >= 3, "{refusals}");
    }
}
