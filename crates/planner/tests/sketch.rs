//! Requests that no server meets: which field is wrong, and why.

use valkeybloom_planner::{Bloom, CountMin, FaultKind, Limits, Request, TDigest, TopK};
use valkeybloom_protocol::bloom::Maker;
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Growth, Kind};
use valkeybloom_sketches::cms::CellSize;

#[track_caller]
fn assert_refused(request: &dyn Request, kind: FaultKind, field: &str, text: &str) {
    let fault = request.plan(&Limits::default()).expect_err("a fault");
    assert_eq!((fault.kind, fault.field, &*fault.text), (kind, field, text));
}

#[test]
fn each_fault_of_a_bloom_filter_names_its_field() {
    let rate = "that rate is too small for the last filters of its stack";
    let full = "a filter that does not grow would be full before";
    let memory = "it takes more than 256 TiB, which no server can hold";
    let growing = Growth::from_expansion(2);
    for (items, number, start, growth, field, text) in [
        (1000, 5e-324, 10, growing, "rate", rate),
        (1000, 0.01, 10, Growth::Fixed, "items", full),
        (1 << 50, 0.01, 10, growing, "items", memory),
        // The number of bits exceeds all numbers.
        (u64::MAX >> 1, 1e-12, 1 << 60, growing, "items", memory),
    ] {
        let request = Bloom {
            items,
            rate: Fraction::new(number).expect("a fraction"),
            start: Some(start),
            growth,
            kind: Kind::Plain,
            maker: Maker::Own,
            shards: None,
        };
        assert_refused(&request, FaultKind::Impossible, field, text);
    }
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
    let pair = "no sketch has this error and probability";
    let probability = "no sketch has this probability";
    let memory = "it takes more than 256 TiB, which no server can hold";
    for (error, of, kind, field, text) in [
        (1e-300, 0.5, FaultKind::Invalid, "error", pair),
        (1e-14, 0.5, FaultKind::Impossible, "error", memory),
        // Both together have too many counters.
        (1e-17, 1e-30, FaultKind::Invalid, "error", pair),
        // Single precision takes the first for 0, and the second for 1.
        (0.5, 1e-60, FaultKind::Invalid, "probability", probability),
        (
            1e-300,
            1.0 - f64::EPSILON,
            FaultKind::Invalid,
            "probability",
            probability,
        ),
    ] {
        let [error, probability] =
            [error, of].map(|number| Fraction::new(number).expect("a fraction"));
        let request = CountMin {
            error,
            probability,
            cell_size: CellSize::Four,
        };
        assert_refused(&request, kind, field, text);
    }
}
