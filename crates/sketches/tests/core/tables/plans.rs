//! Plans of objects of tables, and what becomes of them.

use std::collections::VecDeque;

use valkeybloom_sketches::bloom::{Limits, Object, PartSize, Refusal, Shape, Time};

use crate::support::{
    ROOMY, Rng, add_each, add_each_at, counting, object_of, params, scaled_to, windowed, within,
};

#[allow(clippy::cast_precision_loss, reason = "a bit more or less is not seen")]
fn double(number: u64) -> f64 {
    number as f64
}

fn share(part: u64, of: u64) -> f64 {
    double(part) / double(of)
}

fn shapes(capacity: u64, rate: f64, expansion: u32) -> Vec<Shape> {
    let params = params(capacity, rate, expansion);
    let window = |periods| windowed(params, 100, periods);
    vec![
        counting(params),
        scaled_to(params),
        window(1),
        window(24),
        window(1440),
    ]
}

/// Adds new items, the same number in each period, until a write is refused. Returns the items, and the refusal.
fn fill(object: &mut Object, items: u64, limits: Limits, rng: &mut Rng) -> Option<Refusal> {
    let window = object
        .shape()
        .window()
        .map_or((100, 1), |w| (w.period_ms(), w.periods() + 1));
    let (period_ms, periods) = window;
    let mut refused = None;
    for period in 0..periods {
        let (now_ms, is_ahead) = (period * period_ms, periods > 1 && period + 1 == periods);
        // The last period is opened ahead.
        let time = Time {
            now_ms: now_ms - if is_ahead { period_ms - 1 } else { 0 },
            ttl_ms: is_ahead.then(|| (periods - 1) * period_ms),
        };
        object.tidy(time.now_ms);
        let count = items * (period + 1) / periods - items * period / periods;
        let items: Vec<_> = (0..count).map(|_| rng.next().to_le_bytes()).collect();
        let added = add_each_at(object, &items, time, limits);
        refused = refused.or(added.last().and_then(|added| added.err()));
    }
    refused
}

#[test]
fn a_plan_is_about_what_an_object_of_tables_becomes() {
    let (mut rng, mut wrong) = (Rng::new(1), Vec::new());
    for rate in [0.1, 0.01, 0.0001] {
        let small = [(0, 0.0), (100, 0.25), (1_000, 0.1)];
        let large = [(10_000, 0.05), (70_000, 0.03), (300_000, 0.03)];
        for (items, most) in small.into_iter().chain(large) {
            for shape in shapes(items.max(1), rate, 2) {
                // A window of this capacity has as many in each of its periods.
                let mut shape = shape;
                shape.params.capacity = items.max(1).div_ceil(shape.most_periods());
                let each = items / shape.most_periods();
                let plan = shape.plan(each, Limits::NONE).unwrap();
                let mut object = object_of(&shape, rng.seed());
                assert_eq!(object.memory_bytes(), plan.first_bytes, "{shape:?}");
                fill(&mut object, each * shape.most_periods(), ROOMY, &mut rng);
                let (planned, real) = (plan.full_bytes, object.memory_bytes());
                let off = share(planned.abs_diff(real), real);
                // The allocated sizes of short fingerprints are few, so that all shards may be above one of them or below.
                let most = if rate > 0.01 { 2.0 * most } else { most };
                if off > most {
                    wrong.push(format!("{planned} planned, {real} taken: {shape:?}"));
                }
                for (part, planned) in object.parts().iter().zip(&plan.parts) {
                    let size = PartSize::Table(part.step, part.table.payload());
                    assert_eq!((planned.size, planned.capacity), (size, part.step.most));
                }
                let refused = shape.plan(each, within(u64::MAX, planned - 1));
                assert_eq!(refused, Err(Refusal::MemoryLimit));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let fixed = counting(params(900, 0.01, 0));
    assert!(fixed.plan(900, Limits::NONE).is_ok());
    assert_eq!(fixed.plan(901, Limits::NONE), Err(Refusal::Full));
}

/// Objects grow at least as far under limits as their reach says, and not much further. They are within the limits then.
#[test]
fn objects_reach_what_limits_admit() {
    let mut rng = Rng::new(2);
    for (object_bytes, filter_bytes, rounds, most) in [
        (2_000, u64::MAX, 100, 1.2),
        (20_000, u64::MAX, 20, 0.45),
        (100_000, u64::MAX, 5, 0.35),
        (1_000_000, u64::MAX, 1, 0.2),
        (u64::MAX, 300_000, 2, 0.25),
    ] {
        for (capacity, expansion) in [(1_000, 1), (1_000_000, 1), (100, 2)] {
            for shape in [
                counting(params(capacity, 0.01, expansion)),
                scaled_to(params(capacity, 0.01, expansion)),
                windowed(params(capacity, 0.01, expansion), 1000, 3),
            ] {
                let limits = within(filter_bytes, object_bytes);
                if object_bytes == u64::MAX && capacity < 1_000_000 {
                    continue;
                }
                let (reach, refusal) = shape.reach(limits);
                for _ in 0..rounds {
                    let mut object = object_of(&shape, rng.seed());
                    assert_eq!(object.reach(limits), reach);
                    let items: Vec<_> = (0..3 * reach).map(|_| rng.next().to_le_bytes()).collect();
                    let added = add_each(&mut object, &items, limits);
                    let refused = added.last().and_then(|added| added.err());
                    assert_eq!(refused, refusal, "{shape:?}");
                    assert!(object.is_within(limits));
                    let (_, held, _) = object.totals();
                    let further = share(held, reach) - 1.0;
                    assert!(
                        (0.0..most).contains(&further),
                        "{held} of {reach}: {shape:?}"
                    );
                }
            }
        }
    }
}

/// Items of a window expire, those of a counter are removed, and still no object refuses items within its capacity.
#[test]
fn objects_that_change_need_no_more_than_limits_admit() {
    let limits = within(u64::MAX, 400_000);
    let mut rng = Rng::new(3);
    for periods in [0, 4, 24, 100] {
        let params = params(10, 0.01, 2);
        let mut shape = match periods {
            0 => counting(params),
            _ => windowed(params, 1000, periods),
        };
        shape.params.capacity = shape.reach(limits).0 / shape.most_periods();
        let reach = shape.params.capacity * shape.most_periods();
        let mut object = object_of(&shape, rng.seed());
        let mut items = VecDeque::new();
        let steps = if periods == 0 { 16 } else { periods };
        let each = reach / steps;
        for step in 0..4 * steps {
            let new: Vec<_> = (0..each).map(|_| rng.next().to_le_bytes()).collect();
            object.tidy(step * 1000);
            for item in &new {
                if periods == 0 && items.len() as u64 == reach {
                    let oldest: [u8; 8] = items.pop_front().unwrap();
                    assert!(object.remove(&oldest));
                }
                items.push_back(*item);
                let added = object.add(item, Time::at(step * 1000), || limits);
                assert!(added.is_ok(), "{periods} periods, step {step} of {reach}");
            }
        }
        assert!(object.is_within(limits));
    }
}

/// The fewest bits with which a table keeps its share of the rate that is left; tables of eight times the expansion follow.
#[test]
fn tables_follow_their_law() {
    for rate in [0.9, 0.5, 0.1, 0.01, 1e-6, 1e-9] {
        for capacity in [1, 7, 1_000, 1 << 20, 1 << 35] {
            for expansion in [0, 1, 2, 1_000] {
                let params = params(capacity, rate, expansion);
                for shape in [
                    counting(params),
                    scaled_to(params),
                    windowed(params, 1, 60_000),
                ] {
                    let reserved = capacity * shape.most_periods();
                    let (mut sum, most_bits) = (0.0, shape.payload().most_bits());
                    let mut steps = Vec::new();
                    for number in 0..if expansion == 0 { 1 } else { 6 } {
                        let part = match (expansion, number) {
                            (0, _) => rate,
                            (_, 0) => rate * 31.0 / 32.0,
                            _ => (rate - sum) * 0.75,
                        };
                        let Ok(step) = shape.table_step(steps.iter().copied()) else {
                            let doubled = 2.0 * double(reserved);
                            assert!(doubled / 2.0_f64.powi(most_bits.cast_signed()) > part);
                            break;
                        };
                        sum += step.rate_at(step.most);
                        steps.push(step);
                        assert!(step.rate_at(step.most) <= part, "{shape:?}");
                        let growth = (8 * u128::from(expansion)).pow(number);
                        let wanted = (u128::from(reserved) * growth).min(i64::MAX as u128);
                        if step.bits < most_bits {
                            assert_eq!(u128::from(step.most), wanted);
                        }
                        let least = 12.max(step.most.ilog2() + 5).min(most_bits);
                        let with_a_bit_less = step.bits.cast_signed() - 1;
                        let is_over = double(step.most) / 2.0_f64.powi(with_a_bit_less) > part;
                        assert!(step.bits == least || is_over, "{shape:?} {number} {step:?}");
                    }
                    assert!(sum <= rate * (1.0 + 1e-9));
                }
            }
        }
    }
}
