//! How far growth goes: against a loop that sizes one filter after the other.

use valkeybloom::bloom::{
    Cells, Filter, Fraction, Geometry, Growth, Limits, MAX_CAPACITY, Object, Params, Refusal, Shape,
};

use crate::support::{fraction, rate_of};

fn params(capacity: u64, error_rate: f64, tightening: f64, expansion: u32) -> Params {
    Params {
        tightening: fraction(tightening),
        ..crate::support::params(capacity, error_rate, expansion)
    }
}

fn reach(params: &Params, limits: Limits) -> (u64, Option<Refusal>) {
    Shape::plain(*params).reach(limits)
}

/// The size of a filter of bits.
fn size(capacity: u64, rate: Fraction) -> Geometry {
    Geometry::for_rate(capacity, rate, Cells::Bits)
}

fn within(filter_bytes: u64, object_bytes: u64) -> Limits {
    Limits {
        filter_bytes,
        object_bytes,
        saturate: false,
    }
}

/// No limit.
const NONE: u64 = u64::MAX;

/// What [`Shape::reach`] means: one filter after the other is sized and added up, until
/// something stops it. `None` where it takes more than so many filters to know, or capacities
/// beyond 64 bits.
fn naive(params: &Params, limits: Limits, most_filters: u64) -> Option<(u64, Option<Refusal>)> {
    let Limits {
        filter_bytes,
        object_bytes,
        ..
    } = limits;
    let over = |bytes: u128, limit| limit != NONE && bytes > u128::from(limit);
    let mut bytes = size_of::<Object>() as u128;
    let (mut total, mut next) = (0_u64, Some(params.capacity));
    for index in 0..most_filters {
        if params.growth == Growth::Fixed && index == 1 || total == MAX_CAPACITY {
            return Some((total, None));
        }
        let capacity = next?;
        let Some(rate) = rate_of(params, index) else {
            return Some((total, Some(Refusal::RateTooSmall)));
        };
        let blob = u128::from(size(capacity, rate).cell_bytes) + 45;
        bytes += blob + size_of::<Filter>() as u128;
        if over(blob, filter_bytes) || over(bytes, object_bytes) {
            return Some((total, Some(Refusal::MemoryLimit)));
        }
        if capacity > MAX_CAPACITY - total {
            return Some((MAX_CAPACITY, None));
        }
        total += capacity;
        next = capacity.checked_mul(u64::from(params.growth.expansion()));
    }
    None
}

#[track_caller]
fn agrees(params: &Params, limits: Limits, most_filters: u64) -> bool {
    let expected = naive(params, limits, most_filters);
    if let Some(expected) = expected {
        let reach = reach(params, limits);
        assert_eq!(reach.0, expected.0, "{params:?}, {limits:?}");
        if reach.0 < MAX_CAPACITY {
            assert_eq!(reach.1, expected.1, "{params:?}, {limits:?}");
        }
    }
    expected.is_some()
}

#[test]
fn reach_of_growing_filters_is_that_of_a_loop() {
    let (mut agreed, mut asked) = (0, 0);
    for expansion in [2, 3, 10, 1000, u32::MAX] {
        for capacity in [1, 10, 1000, 100_000, 1 << 33, 1 << 62, MAX_CAPACITY] {
            for rate in [0.9, 0.5, 0.01, 1e-6, 1e-300, 5e-324] {
                for tightening in [0.5, 0.1, 0.8, 0.999_999, 1e-100] {
                    let params = params(capacity, rate, tightening, expansion);
                    let mut ask = |limits| {
                        asked += 1;
                        agreed += u32::from(agrees(&params, limits, 10_000));
                    };
                    ask(Limits::NONE);
                    for filter_bytes in [0, 100, 64 << 20, 1 << 45, i64::MAX as u64, NONE] {
                        for object_bytes in [0, 1000, 1 << 30, 1 << 46, 1 << 62, NONE] {
                            ask(within(filter_bytes, object_bytes));
                        }
                    }
                }
            }
        }
    }
    assert!(
        agreed > asked / 10 * 9,
        "{agreed} of {asked} were comparable"
    );
}

/// No number holds the next capacity here. It is too large for the limits for all that, and
/// its rate too small.
#[test]
fn a_capacity_beyond_64_bits_is_within_no_limit() {
    let wide = |capacity, rate, tightening| params(capacity, rate, tightening, u32::MAX);
    let first = 1_u64 << 33;
    for limits in [within(1 << 40, NONE), within(NONE, 1 << 40)] {
        let reached = reach(&wide(first, 0.01, 0.5), limits);
        assert_eq!(reached, (first, Some(Refusal::MemoryLimit)), "{limits:?}");
    }
    let second = 10 * u64::from(u32::MAX);
    let reached = reach(&wide(10, 0.01, 0.5), within(NONE, 1 << 46));
    assert_eq!(reached, (10 + second, Some(Refusal::MemoryLimit)));
    let reached = reach(&wide(first, 1e-200, 1e-200), Limits::NONE);
    assert_eq!(reached, (first, Some(Refusal::RateTooSmall)));
}

#[test]
fn reach_of_a_non_scaling_object_is_its_one_filter() {
    for capacity in [1, 100, 1 << 40, MAX_CAPACITY] {
        for rate in [0.9, 0.01, 5e-324] {
            let params = params(capacity, rate, 0.5, 0);
            assert_eq!(reach(&params, Limits::NONE), (capacity, None));
            let blob = size(capacity, params.error_rate).blob_bytes();
            let total = blob + 48 + Object::BASE_BYTES;
            let stopped = (0, Some(Refusal::MemoryLimit));
            assert_eq!(reach(&params, within(blob, total)), (capacity, None));
            assert_eq!(reach(&params, within(blob - 1, total)), stopped);
            assert_eq!(reach(&params, within(blob, total - 1)), stopped);
        }
    }
}

/// Filters of one capacity are not looked at one by one; as long as they are few that must not
/// show, to the byte.
#[test]
fn reach_of_even_filters_is_that_of_a_loop() {
    for (capacity, sizes) in [
        (1, [300, 3000, 100_000, 1_200_000]),
        (10, [300, 3000, 100_000, 1_200_000]),
        (1000, [3000, 100_000, 2_000_000, 30_000_000]),
        (100_000, [300_000, 2_000_000, 100_000_000, 1_000_000_000]),
    ] {
        for rate in [0.9, 0.3, 0.01, 1e-6, 1e-300] {
            for tightening in [0.5, 0.1, 0.8, 0.999] {
                let params = params(capacity, rate, tightening, 1);
                for size in sizes {
                    // Around the limit of the loop too: one byte more or less shows.
                    for object_bytes in size..size + 70 {
                        let limits = within(NONE, object_bytes);
                        assert!(agrees(&params, limits, 20_000), "{limits:?}");
                    }
                }
            }
        }
    }
}

/// A filter's size passes its limit after many filters, of which none is looked at.
#[test]
fn reach_of_even_filters_ends_at_the_limit_of_one_filter() {
    let mut agreed = 0;
    for capacity in [1, 10, 1000, 100_000] {
        for rate in [0.5, 0.01, 1e-200] {
            for tightening in [0.5, 0.1, 0.9, 0.999] {
                let params = params(capacity, rate, tightening, 1);
                for index in [0, 1, 2, 30, 500, 2000] {
                    let Some(rate) = rate_of(&params, index) else {
                        continue;
                    };
                    let bytes = size(capacity, rate).blob_bytes();
                    for filter_bytes in [bytes - 1, bytes, bytes + 1] {
                        let limits = within(filter_bytes, NONE);
                        agreed += u32::from(agrees(&params, limits, 20_000));
                        let limits = within(filter_bytes, 1 << 30);
                        agreed += u32::from(agrees(&params, limits, 20_000));
                    }
                }
            }
        }
    }
    assert!(agreed > 1000, "{agreed} were comparable");
}

#[test]
fn reach_of_even_filters_ends_where_the_rate_does() {
    for capacity in [1, 1000] {
        for rate in [0.5, 0.01, 1e-300, 5e-323] {
            for tightening in [0.01, 0.1, 0.9, 0.99] {
                let params = params(capacity, rate, tightening, 1);
                for limits in [Limits::NONE, within(NONE, NONE), within(1 << 40, 1 << 50)] {
                    assert!(agrees(&params, limits, 100_000));
                    assert_eq!(reach(&params, limits).1, Some(Refusal::RateTooSmall));
                }
            }
        }
    }
}

/// Past some thousands of sizes, many filters are counted at the size of their last. The
/// answer may then be lower than the truth, by the part that `Series::reach_evenly` states,
/// and never higher.
#[test]
fn reach_of_very_many_filters_is_nearly_and_never_above_that_of_a_loop() {
    let mut coarse = 0;
    for (capacity, object_bytes) in [
        (100_000, 20_u64 << 30),
        (100_000, 60 << 30),
        (100_000, 100 << 30),
        (250_000, 60 << 30),
        (1_000_000, 200 << 30),
    ] {
        for rate in [0.3, 0.01, 1e-6] {
            for (tightening, percent) in [(0.5, 99), (0.99, 97)] {
                let params = params(capacity, rate, tightening, 1);
                let limits = within(NONE, object_bytes);
                let (exact, stop) = naive(&params, limits, 1_000_000).unwrap();
                let reach = reach(&params, limits);
                assert_eq!(reach.1, stop);
                assert!(reach.0 <= exact, "{} over {exact}: {params:?}", reach.0);
                let least = exact / 100 * percent;
                assert!(reach.0 >= least, "{} for {exact}: {params:?}", reach.0);
                coarse += u32::from(reach.0 < exact);
            }
        }
    }
    assert!(coarse > 0, "none of them was so many");
}

/// Numbers for which a loop over the filters would not end in a lifetime. That these end at
/// all is what is tested; and what they answer is in bounds.
#[test]
fn reach_ends_soon_whatever_the_numbers() {
    let mut asked = 0;
    for expansion in [0, 1, 2, u32::MAX] {
        for capacity in [1, 2, 1000, 1 << 31, 1 << 61, MAX_CAPACITY] {
            for rate in [1.0 - f64::EPSILON, 0.5, 0.01, 1e-300, 5e-324] {
                for tightening in [0.5, 1.0 - f64::EPSILON, 0.999_999, 0.3, 1e-100, 5e-324] {
                    let params = params(capacity, rate, tightening, expansion);
                    let mut last = 0;
                    for object_bytes in [0, 1 << 20, 1 << 36, 1 << 50, 1 << 62, NONE] {
                        for filter_bytes in [64 << 20, NONE] {
                            let limits = within(filter_bytes, object_bytes);
                            let (reach, _) = reach(&params, limits);
                            assert!(reach <= MAX_CAPACITY);
                            asked += 1;
                            // More room is more items, or as many.
                            if filter_bytes == NONE {
                                assert!(reach >= last, "{params:?}, {limits:?}");
                                last = reach;
                            }
                        }
                    }
                    let (obeyed, _) = reach(&params, Limits::NONE);
                    assert!(obeyed >= last);
                }
            }
        }
    }
    assert_eq!(asked, 4 * 6 * 5 * 6 * 12);
}

/// The settings of a server say "no limit" by the largest number: no sum of bytes is over it.
#[test]
fn what_nothing_stops_reaches_all_that_can_be_counted() {
    for expansion in [1, 2, 3, u32::MAX] {
        for capacity in [1, 1000, MAX_CAPACITY] {
            for limits in [Limits::NONE, within(NONE, NONE)] {
                let params = params(capacity, 0.01, 0.5, expansion);
                assert_eq!(reach(&params, limits), (MAX_CAPACITY, None));
            }
        }
    }
}
