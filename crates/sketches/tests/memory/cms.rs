//! Count-min sketches whose allocations are refused.

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::cms::{CellSize, CountMin, MergeError, Refusal, Shape, Term, wire};

use crate::refusing::each_refused;
use crate::samples::{Fields, Reading, fields_of, item};

fn sample(size: CellSize) -> CountMin {
    let shape = Shape::new(500, 4, size).unwrap();
    let mut sketch = CountMin::new(shape, u64::MAX).unwrap();
    for number in 0..1000 {
        let _ = sketch.increment(&item(number), 1);
    }
    sketch
}

fn fields(sketch: &CountMin) -> Fields {
    fields_of(|to| wire::write_rdb(sketch, to))
}

#[test]
fn count_min_sketches_are_made_read_and_copied() {
    for size in CellSize::ALL {
        let mut refusals = 0;
        let sketch = sample(size);
        let stored = fields(&sketch);
        let same = |copy: &CountMin| assert!(fields(copy) == stored, "other fields");
        refusals += each_refused(
            || (),
            |()| CountMin::new(*sketch.shape(), u64::MAX),
            |made, refused| assert_eq!(made.err(), refused.then_some(Refusal::OutOfMemory)),
        );
        refusals += each_refused(
            || stored.read(),
            |mut from: Reading| wire::read_rdb(wire::RDB_VERSION, &mut from),
            |read, refused| match read {
                Ok(read) => same(&read),
                Err(error) => assert_eq!((error, refused), (DecodeError::NoMemory, true)),
            },
        );
        refusals += each_refused(
            || (),
            |()| sketch.try_clone(),
            |copy, refused| match copy {
                Some(copy) => same(&copy),
                None => assert!(refused),
            },
        );
        assert!(refusals >= 3, "{size:?}: {refusals}");
    }
}

#[test]
fn count_min_sketches_are_merged() {
    let sources: Vec<_> = (0..100).map(|_| sample(CellSize::Eight)).collect();
    let terms: Vec<_> = sources
        .iter()
        .cycle()
        .take(200)
        .map(|source| Term { source, weight: 1 })
        .collect();
    let expected = fields(&CountMin::merged(&terms, true).unwrap());
    let refusals = each_refused(
        || (),
        |()| CountMin::merged(&terms, true),
        |merged, refused| match merged {
            Ok(merged) => assert!(fields(&merged) == expected, "other fields"),
            Err(error) => assert_eq!((error, refused), (MergeError::OutOfMemory, true)),
        },
    );
    // The sources by address, one term for each of them, and the counters.
    assert!(refusals >= 3, "{refusals}");
}
