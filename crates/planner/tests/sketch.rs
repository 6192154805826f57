//! Requests of sketches that no server meets: which field is wrong, and why.

use valkeybloom_planner::{CountMin, FaultKind, Limits, Request, TDigest, TopK};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::cms::CellSize;

#[track_caller]
fn assert_refused(request: &dyn Request, kind: FaultKind, field: &str, text: &str) {
    let fault = request.plan(&Limits::default()).expect_err("a fault");
    assert_eq!((fault.kind, fault.field, &*fault.text), (kind, field, text));
}

#[test]
fn each_fault_of_a_top_k_names_its_field() {
    const MOST: u64 = u32::MAX as u64;
    for (k, width, depth, decay, field, text) in [
        (0, 1, 1, 0.9, "k", "K is not within 1 to 4294967295"),
        (MOST + 1, 1, 1, 0.9, "k", "K is not within 1 to 4294967295"),
        (
            1,
            0,
            1,
            0.9,
            "width",
            "the width is not within 1 to 4294967295",
        ),
        (1, 1, 0, 0.9, "depth", "the depth is not within 1 to 32"),
        (1, 1, 33, 0.9, "depth", "the depth is not within 1 to 32"),
        (
            1,
            1,
            1,
            0.0,
            "decay",
            "the decay is not above 0 and at most 1",
        ),
        (
            1,
            1,
            1,
            f64::NAN,
            "decay",
            "the decay is not above 0 and at most 1",
        ),
        (
            1,
            MOST,
            2,
            0.9,
            "width",
            "there are more than 4294967295 cells",
        ),
    ] {
        let request = TopK {
            k,
            width,
            depth,
            decay,
        };
        assert_refused(&request, FaultKind::Invalid, field, text);
    }
}

#[test]
fn each_fault_of_a_t_digest_names_its_field() {
    for compression in [0, 100_001] {
        let text = "the compression is not within 1 to 100000";
        assert_refused(
            &TDigest { compression },
            FaultKind::Invalid,
            "compression",
            text,
        );
    }
}

#[test]
fn each_fault_of_a_count_min_sketch_names_its_field() {
    for (error, kind, text) in [
        (
            1e-300,
            FaultKind::Invalid,
            "no sketch has this error and probability",
        ),
        (
            1e-14,
            FaultKind::Impossible,
            "it takes more than 256 TiB, which no server can hold",
        ),
    ] {
        let request = CountMin {
            error: Fraction::new(error).expect("a fraction"),
            probability: Fraction::HALF,
            cell_size: CellSize::Four,
        };
        assert_refused(&request, kind, "error", text);
    }
}
