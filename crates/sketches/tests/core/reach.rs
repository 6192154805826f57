//! The reach of growth, against a loop that sizes one filter after the other.

use std::collections::HashMap;

use valkeybloom_sketches::bloom::{
    Growth, Kind, Limits, MAX_FILTERS, New, Object, Params, PartSize, Refusal, Shape, Tightening,
    Window,
};
use valkeybloom_sketches::{Fraction, MAX_CAPACITY, Seed};

use crate::sizes::{self, next_capacity};
use crate::support::{
    FILTER_BYTES, Rng, add_each, filters, fraction, grow, object, of_valkey_bloom, rate_of,
    tightened, tightening, within,
};

fn params(capacity: u64, error_rate: f64, ratio: f64, expansion: u32) -> Params {
    let params = crate::support::params(capacity, error_rate, expansion);
    tightened(tightening(ratio), params)
}

/// Returns parameters under valkey-bloom's law.
fn theirs(capacity: u64, error_rate: f64, ratio: f64, expansion: u32) -> Params {
    let params = crate::support::params(capacity, error_rate, expansion);
    tightened(of_valkey_bloom(ratio), params)
}

/// No limit.
const NONE: u64 = u64::MAX;

/// The bytes of a filter besides its bits: the format, the positions, the hash functions and the seed.
const HEADER_BYTES: u64 = 1 + 8 + 4 + 32;

/// The most bytes for which the sizes of [`sizes`] are exact: beyond, the last digits of doubles show.
const EXACT_BYTES: u64 = 100_000_000;

/// The bits of filters by capacity, rate and law, in bytes.
#[derive(Default)]
struct Loop {
    known: HashMap<(u64, u64, bool), u64>,
}

impl Loop {
    /// Returns the bytes of a filter.
    fn blob(&mut self, params: &Params, index: u64, capacity: u64) -> u64 {
        let rate = rate_of(params, index).unwrap().get();
        let key = (capacity, rate.to_bits(), params.tightening.is_ours());
        let size = || sizes::size(params, index, capacity).0;
        HEADER_BYTES + *self.known.entry(key).or_insert_with(size)
    }

    /// Computes [`Shape::reach`] the plain way: one filter after the other is sized and added up, until something stops
    /// it. Returns the number of filters by then, too.
    fn reach(&mut self, params: &Params, limits: Limits) -> (u64, Option<Refusal>, u64) {
        let is_limited = limits.filter_bytes != NONE || limits.object_bytes != NONE;
        let over = |bytes, limit| limit != NONE && bytes > limit;
        let mut bytes = size_of::<Object>() as u64;
        let (mut total, mut next) = (0, Some(params.capacity));
        for index in 0..=MAX_FILTERS {
            if params.growth == Growth::Fixed && index == 1 {
                return (total, Some(Refusal::Full), index);
            }
            if rate_of(params, index).is_none() {
                return (total, Some(Refusal::RateTooSmall), index);
            }
            // A capacity that no number holds is as large as the largest one.
            let capacity = next.unwrap_or(u64::MAX);
            if is_limited {
                let blob = self.blob(params, index, capacity);
                bytes += blob + FILTER_BYTES;
                if over(blob, limits.filter_bytes) || over(bytes, limits.object_bytes) {
                    return (total, Some(Refusal::MemoryLimit), index);
                }
            }
            if capacity > MAX_CAPACITY - total {
                return (MAX_CAPACITY, None, index);
            }
            if index == MAX_FILTERS {
                break;
            }
            total += capacity;
            next = next_capacity(params, capacity, total);
        }
        (total, Some(Refusal::MemoryLimit), MAX_FILTERS)
    }

    /// Compares, and returns the number of filters.
    #[track_caller]
    fn agrees(&mut self, params: &Params, limits: Limits) -> u64 {
        let (total, stop, filters) = self.reach(params, limits);
        let reach = Shape::plain(*params).reach(limits);
        assert_eq!(reach, (total, stop), "{params:?}, {limits:?}");
        filters
    }

    /// Returns the bytes of each filter, and of the object that ends with it, as far as they are exact.
    fn exact_sizes(&mut self, params: &Params) -> Vec<[u64; 2]> {
        let (mut bytes, mut total, mut next) = (size_of::<Object>() as u64, 0, params.capacity);
        let mut sizes = Vec::new();
        while rate_of(params, sizes.len() as u64).is_some() {
            let blob = self.blob(params, sizes.len() as u64, next);
            bytes += blob + FILTER_BYTES;
            if bytes >= EXACT_BYTES {
                break;
            }
            sizes.push([blob, bytes]);
            total += next;
            next = next_capacity(params, next, total).expect("it is small");
        }
        sizes
    }
}

/// Every law, from one item to more than there are, and under limits that a filter or an object just keeps, or exceeds
/// by a byte.
#[test]
fn reach_is_that_of_a_loop() {
    let (mut plain, mut reached) = (Loop::default(), 0);
    for expansion in [0, 1, 2, 3, 1000, u32::MAX] {
        for capacity in [1, 10, 1000, 100_000, 1 << 33, 1 << 62, MAX_CAPACITY] {
            for rate in [0.9, 0.5, 0.01, 1e-6, 1e-300, 5e-324] {
                for ratio in [0.5, 0.1, 0.8, 0.999_999, 1e-100] {
                    for params in [params, theirs] {
                        let params = params(capacity, rate, ratio, expansion);
                        plain.agrees(&params, Limits::NONE);
                        for filter_bytes in [100, 64 << 20, NONE] {
                            for object_bytes in [0, 1000, 1 << 30, 1 << 46, NONE] {
                                plain.agrees(&params, within(filter_bytes, object_bytes));
                            }
                        }
                        if expansion != 1 || capacity > 100_000 || rate < 1e-6 {
                            continue;
                        }
                        let sizes = plain.exact_sizes(&params);
                        for sizes in [0, 1, 2, 30, 199].map(|index| sizes.get(index)) {
                            for off in [-1, 0, 1] {
                                let off = |size: u64| size.saturating_add_signed(off);
                                let Some([filter, object]) = sizes.map(|it| it.map(off)) else {
                                    continue;
                                };
                                plain.agrees(&params, within(filter, NONE));
                                plain.agrees(&params, within(filter, 1 << 30));
                                plain.agrees(&params, within(NONE, object));
                                reached += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(reached > 1000, "{reached} filters were reached");
}

/// Each further filter takes at least a fixed part of the whole. So there are never many, and the computation of the
/// reach visits few.
#[test]
fn stacks_are_never_deeper_than_a_few_hundred_filters() {
    let (mut plain, mut deepest) = (Loop::default(), 0);
    for expansion in [1, 2, 3, 100, u32::MAX] {
        for capacity in [1, 2, 10, 1000, 1 << 40, MAX_CAPACITY] {
            for rate in [1.0 - f64::EPSILON, 0.5, 0.01, 1e-6, 1e-300] {
                for ratio in [0.5, 1.0 - f64::EPSILON, 0.999_999, 0.9, 0.3, 1e-100] {
                    let ours = params(capacity, rate, ratio, expansion);
                    deepest = deepest.max(plain.agrees(&ours, Limits::NONE));
                    // Under valkey-bloom's law it is the rate that ends growth, or the number.
                    let theirs = theirs(capacity, rate, ratio, expansion);
                    plain.agrees(&theirs, Limits::NONE);
                }
            }
        }
    }
    assert!((600..700).contains(&deepest), "{deepest} filters");
    let reach = plain.reach(&params(1, 0.01, 0.5, 1), Limits::NONE);
    let why = "from one item on it takes the most";
    assert_eq!(reach, (MAX_CAPACITY, None, deepest), "{why}");
}

/// The stacks themselves grow as is said here.
#[test]
fn objects_are_as_deep_as_the_loop_says() {
    let mut rng = Rng::new(1);
    let even = Tightening::of_valkey_bloom(fraction(0.999));
    for (first, items, expansion, tightening) in [
        (1, 5000, 1, Tightening::HALF),
        (10, 20_000, 1, Tightening::HALF),
        (1, 20_000, 2, Tightening::HALF),
        (50, 60_000, 1, even),
    ] {
        let params = tightened(tightening, crate::support::params(first, 1e-5, expansion));
        let mut object = object(&params, Seed::FIXED);
        let mut refused = false;
        while !refused && object.totals().1 < items {
            let batch: Vec<_> = (0..1000).map(|_| rng.bytes(8)).collect();
            let outcomes = add_each(&mut object, &batch, Limits::NONE);
            refused = outcomes.iter().any(Result::is_err);
        }
        let (mut next, mut total) = (first, 0);
        for (index, filter) in filters(&object).iter().enumerate() {
            assert!(total < object.totals().1, "filter {index} is not needed");
            assert_eq!(filter.capacity(), next, "filter {index}: {params:?}");
            total += next;
            next = next_capacity(&params, next, total).unwrap();
        }
        assert_eq!(object.totals().2, total);
        let depth = filters(&object).len() as u64;
        assert_eq!(refused, depth == MAX_FILTERS, "{depth} filters: {params:?}");
    }
}

/// Rates rise as filters fill, and stay within what is requested.
#[test]
fn planned_rates_keep_to_the_requested_one() {
    let window = Kind::Windowed(Window::new(1000, 24).unwrap());
    for kind in [Kind::Plain, Kind::Counting, Kind::ScaledTo, window] {
        let shape = Shape {
            params: params(100, 0.01, 0.5, 2),
            kind,
        };
        let plan = shape.plan(5000, Limits::NONE).unwrap();
        let points = plan.points(8);
        assert_eq!(points.len(), 8 * plan.parts.len() + 1);
        assert!(points.is_sorted());
        for (items, bytes, rate) in points {
            assert!((plan.rate_at(items) - rate).abs() < 1e-9, "{items}");
            assert!(rate <= 0.01, "{items}: {rate}");
            assert!(bytes >= plan.first_bytes, "{items}: {bytes}");
        }
        assert!(kind != Kind::Plain || plan.rate_at(plan.capacity()) > 0.004);
    }
}

/// A planned object of filters equals the real one: at its beginning, and full.
#[test]
fn a_plan_is_what_an_object_becomes() {
    let mut rng = Rng::new(2);
    for (capacity, items, expansion) in [(1, 1, 2), (50, 2000, 2), (30, 700, 1), (900, 800, 0)] {
        let own = Shape::plain(params(capacity, 0.01, 0.5, expansion));
        let mut theirs = own;
        theirs.params.tightening = Tightening::like_valkey_bloom(Fraction::HALF);
        let redisbloom = New::RedisBloom {
            params: own.params,
            factor: expansion.max(1),
        };
        for new in [New::Own(own), New::Own(theirs), redisbloom] {
            let plan = new.plan(items, Limits::NONE).unwrap();
            let mut object = Object::make(&new, Seed::FIXED, Limits::NONE).unwrap();
            assert_eq!(object.memory_bytes(), plan.first_bytes);
            grow(&mut object, &mut rng, |object| object.totals().1 >= items);
            assert_eq!(object.memory_bytes(), plan.full_bytes, "{new:?}");
            assert_eq!(object.filter_count(), plan.parts.len() as u64);
            for ((filter, _), part) in object.filters().zip(&plan.parts) {
                assert_eq!(part.capacity, filter.capacity());
                assert_eq!(part.size, PartSize::Filter(filter.geometry()));
            }
            assert_eq!(plan.parts.last().unwrap().object_bytes, plan.full_bytes);

            // The least that the limits have to be.
            let largest = plan.parts.iter().map(|part| part.bytes(0)).max();
            let (largest, bytes) = (largest.unwrap(), plan.full_bytes);
            assert_eq!(new.plan(items, within(largest, bytes)), Ok(plan));
            for limits in [within(largest - 1, bytes), within(largest, bytes - 1)] {
                assert_eq!(new.plan(items, limits), Err(Refusal::MemoryLimit));
            }
        }
    }
    let shape = Shape::plain(params(900, 0.01, 0.5, 0));
    assert_eq!(shape.plan(901, Limits::NONE), Err(Refusal::Full));
    let shape = Shape::plain(params(1, f64::MIN_POSITIVE, 0.3, 2));
    let refused = shape.plan(1 << 40, Limits::NONE);
    assert_eq!(refused, Err(Refusal::RateTooSmall));
}
