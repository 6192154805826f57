//! Our own law of growth, and the geometric one: filters whose rates are a series that sums to the
//! requested rate.
//!
//! An item that was never added is found if any filter of the stack claims it, so at most at the sum of the
//! filters' rates. Under our own law filter `i` (from 0) of an object of rate `p` is made for
//! `p / ((i+1)(i+2))`. That series tightens slowly, so that the thousandth filter needs about 20 bits an
//! item more than the first, where halving each time would need 1,400. A tightening ratio `r` other than
//! 0.5 selects the geometric series `p·(1−r)·rⁱ` (Almeida et al. 2007, with the first term scaled so that
//! the bound is `p` itself). A non-scaling object has one filter, at `p`.

use crate::bloom::filter::{Cells, Filter, Geometry};
use crate::bloom::number::{Fraction, MAX_CAPACITY, Powers, exp, ln, power};

use super::limits::{Limits, Refusal};
use super::params::{Growth, Params};
use super::step::{Standing, Step};

/// A series of rates, and the growth of capacities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    /// What the rates sum to.
    pub error_rate: Fraction,
    /// [`Fraction::HALF`] for our own law, else the ratio of the geometric one.
    pub tightening: Fraction,
    /// What happens when a filter is full.
    pub growth: Growth,
}

/// How many sizes are computed one by one, before filters of almost the same size are taken together.
const EXACT_STEPS: u32 = 1 << 14;

impl Series {
    pub const fn of(params: &Params) -> Self {
        Self {
            error_rate: params.error_rate,
            tightening: params.tightening,
            growth: params.growth,
        }
    }

    /// The parameters of such a series that begins with this capacity.
    pub const fn params(&self, capacity: u64) -> Params {
        Params {
            capacity,
            error_rate: self.error_rate,
            tightening: self.tightening,
            growth: self.growth,
        }
    }

    /// The rate of filter `index`, or `None` where a double can't hold it.
    pub fn rate(&self, index: u64) -> Option<Fraction> {
        self.rate_by(index, power)
    }

    /// The same, given a way to compute powers of the tightening ratio.
    #[allow(clippy::cast_precision_loss, reason = "the law needs no exact index")]
    fn rate_by(&self, index: u64, power: impl FnOnce(f64, u64) -> f64) -> Option<Fraction> {
        let (p, r) = (self.error_rate.get(), self.tightening.get());
        let rate = if self.growth == Growth::Fixed {
            p
        } else if self.tightening == Fraction::HALF {
            p / ((index as f64 + 1.0) * (index as f64 + 2.0))
        } else {
            p * (1.0 - r) * power(r, index)
        };
        Fraction::new(rate)
    }

    /// The share of the error rate that the first filters use up, so many of them.
    #[allow(clippy::cast_precision_loss, reason = "the law needs no exact index")]
    pub fn share_of(&self, filters: u64) -> f64 {
        if self.growth == Growth::Fixed {
            1.0
        } else if self.tightening == Fraction::HALF {
            filters as f64 / (filters as f64 + 1.0)
        } else {
            1.0 - power(self.tightening.get(), filters)
        }
    }

    /// The rate that a filter was made for. If its size is not the one that this law gives (in a file of
    /// another program), the rate that its own size gives when it is full.
    pub fn filter_rate(&self, index: u64, filter: &Filter) -> f64 {
        let (capacity, size) = (filter.capacity(), filter.positions());
        let made_at = self
            .rate(index)
            .filter(|rate| Geometry::for_rate(capacity, *rate, filter.cells()).positions == size);
        made_at.map_or_else(|| filter.rate_at(capacity), Fraction::get)
    }

    pub fn step(&self, at: &Standing) -> Result<Step, Refusal> {
        // A capacity that overflows is at least as large as the largest.
        let capacity = at.next_capacity.unwrap_or(u64::MAX);
        Self::filter(self.rate(at.filters), capacity, at.cells)
    }

    fn filter(rate: Option<Fraction>, capacity: u64, cells: Cells) -> Result<Step, Refusal> {
        let rate = rate.ok_or(Refusal::RateTooSmall)?;
        Ok(Step {
            capacity,
            geometry: Geometry::for_rate(capacity, rate, cells),
            link: None,
        })
    }

    /// The capacity that growth reaches, and what stops it: nothing, if it reaches [`MAX_CAPACITY`] first.
    pub fn reach(&self, mut at: Standing, limits: Limits) -> (u64, Option<Refusal>) {
        let expansion = self.growth.expansion();
        let admitted = |at: &Standing| {
            let step = self.step(at)?;
            step.admit(at, limits).map(|()| step)
        };
        let stop = match expansion {
            0 if at.filters > 0 => return (at.capacity, Some(Refusal::MemoryLimit)),
            0 => match admitted(&at) {
                Ok(step) => return (step.capacity, None),
                Err(stop) => stop,
            },
            1 => self.reach_evenly(&mut at, limits),
            // Capacities at least double: at most 63 rounds.
            _ => loop {
                match admitted(&at) {
                    Ok(step) => at.push(1, &step, expansion),
                    Err(stop) => break stop,
                }
            },
        };
        // If only the number's width stops it, nothing does.
        let next = at.next_capacity.unwrap_or(u64::MAX);
        let would_fit = self.step(&at).is_ok_and(|step| step.is_within(&at, limits));
        if next > MAX_CAPACITY - at.capacity && would_fit {
            (MAX_CAPACITY, None)
        } else {
            (at.capacity, Some(stop))
        }
    }

    /// Growth by filters of one capacity, of which there can be 2⁶³, as far as it goes; returns what stops
    /// it. Their sizes only rise with the index, so most of them are not computed: runs of equal size are
    /// skipped, and past [`EXACT_STEPS`] a run is also what differs by less than one part in 256, counted at
    /// its largest size.
    fn reach_evenly(&self, at: &mut Standing, limits: Limits) -> Refusal {
        let Some(each) = at.next_capacity else {
            return Refusal::MemoryLimit;
        };
        let powers = Powers::of(self.tightening.get());
        let cells = at.cells;
        let possible = |index| {
            let rate = self.rate_by(index, |_, exponent| powers.get(exponent));
            let step = Self::filter(rate, each, cells)?;
            if step.geometry.blob_bytes() <= limits.filter_bytes {
                Ok(step)
            } else {
                Err(Refusal::MemoryLimit)
            }
        };
        let most = (MAX_CAPACITY - at.capacity) / each;
        // A prefix, since sizes only rise.
        let mut left = partition(most, |n| possible(at.filters + n).is_ok());
        if limits.object_bytes == u64::MAX {
            at.filters += left;
            at.capacity += left * each;
            left = 0;
        }
        let mut steps = 0;
        while left > 0 {
            steps += 1;
            let (run, step) = if steps < EXACT_STEPS {
                let Ok(here) = possible(at.filters) else {
                    break;
                };
                let same = |n: u64| {
                    let there = possible(at.filters + n);
                    there.is_ok_and(|step| step.geometry == here.geometry)
                };
                let guess = self.last_of_size(&here).saturating_sub(at.filters);
                (run(left, guess.saturating_add(1), same), here)
            } else {
                let run = (at.filters / 256).clamp(1, left);
                let Ok(last) = possible(at.filters + run - 1) else {
                    break;
                };
                (run, last)
            };
            let room = limits.object_bytes.saturating_sub(at.bytes) / step.cost();
            let run = run.min(room);
            if run == 0 {
                return Refusal::MemoryLimit;
            }
            at.push(run, &step, 1);
            left -= run;
        }
        possible(at.filters).err().unwrap_or(Refusal::MemoryLimit)
    }

    /// The number of the last filter that is no larger than this one, approximately.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a guess; a cast from a double saturates"
    )]
    fn last_of_size(&self, step: &Step) -> u64 {
        let square = std::f64::consts::LN_2 * std::f64::consts::LN_2;
        let ln_rate = -(step.geometry.positions as f64) * square / step.capacity as f64;
        let (p, r) = (self.error_rate.get(), self.tightening.get());
        let index = if self.tightening == Fraction::HALF {
            (p / exp(ln_rate) + 0.25).sqrt() - 1.5
        } else {
            (ln_rate - ln(p * (1.0 - r))) / ln(r)
        };
        index as u64
    }
}

/// How many numbers from 0 below `end` satisfy a claim that holds up to some number and then no more.
fn partition(end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// As [`partition`], for a claim that holds for 0, and a guess that is nearly always right.
fn run(end: u64, guess: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let guess = guess.clamp(1, end);
    if guess > 1 && !holds(guess - 1) {
        return 1 + partition(guess - 2, |n| holds(1 + n));
    }
    let mut step = 0;
    while guess + step < end && holds(guess + step) {
        step = 2 * step + 1;
    }
    let low = guess + step / 2;
    low + partition(end.min(guess + step) - low, |n| holds(low + n))
}

impl Params {
    /// The error rate of filter `index` (from 0), or `None` where a double can't hold it and growth ends.
    pub fn rate(&self, index: u64) -> Option<Fraction> {
        Series::of(self).rate(index)
    }
}
