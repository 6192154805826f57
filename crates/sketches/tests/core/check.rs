//! The check of valid objects after memory was moved. Bytes that break its rules are in `refused`, and the fuzz target
//! `decode` checks objects of every kind after each operation.

use std::panic::{AssertUnwindSafe, catch_unwind};

use valkeybloom_sketches::Seed;

use crate::support::{object, params, relocate};

/// Moved cells have to be equal: a header that differs is noticed.
#[test]
fn wrong_moves_are_detected() {
    type Move = fn(&mut Vec<u8>);
    let wrong: [(&str, Move); 6] = [
        ("filters of different seeds", |blob| blob[13] ^= 1),
        ("filter of unknown version", |blob| blob[0] = 3),
        ("filter of zero bits", |blob| blob[1..9].fill(0)),
        ("number of hash functions out of range", |blob| {
            blob[9..13].fill(0);
        }),
        ("filter's length is not what its header says", |blob| {
            blob[1] ^= 1;
        }),
        ("filter's length is not what its header says", |blob| {
            blob.extend([0; 8]);
        }),
    ];
    for expansion in [0, 1, 2] {
        let object = object(&params(10, 0.01, expansion), Seed::new([7; 32]));
        for (what, change) in wrong {
            let mut object = object.try_clone().unwrap();
            let panic = catch_unwind(AssertUnwindSafe(|| {
                relocate(&mut object, || usize::MAX, change);
            }));
            let panic = panic.expect_err("the change is seen");
            let message = panic.downcast_ref::<String>().unwrap();
            assert!(message.starts_with(what), "{expansion}: {message}");
        }
    }
}
