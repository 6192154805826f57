//! The laws of growth by a series of rates: our own, the geometric one, and valkey-bloom's.
//!
//! An item that was never added is found if any filter of the stack claims it, so at most at the sum of the
//! filters' rates. Under our own law filter `i` (from 0) of an object of rate `p` is made for
//! `p / ((i+1)(i+2))`. That series sums to `p`, and tightens slowly. A tightening ratio `r` other than 0.5
//! selects the geometric series `p·(1−r)·rⁱ` (Almeida et al. 2007, with the first term scaled so that the bound
//! is `p` itself). A non-scaling object has one filter, at `p`.
//!
//! The next filter takes as many items as the newest one times the expansion, and at least a sixteenth of what
//! the stack takes already. So its depth is logarithmic, also where the expansion is 1: no more than
//! some 700 filters for 2⁶³ items. Once the object has half of the filters, or of the hash functions, that it may have,
//! the next filter takes at least as many items as all before it.
//!
//! valkey-bloom makes filter `i` for `p·rⁱ`, by the classic formula, and takes the expansion alone. An object
//! that it made goes on so here, bit for bit.

use crate::bloom::filter::{Cells, Filter, Geometry};
use crate::number::{Fraction, power, to_double};

use super::limits::{Depth, Refusal};
use super::params::{Growth, Params};
use super::step::{Standing, Step};
use super::tightening::Tightening;

/// What the next filter takes is at least the whole stack's capacity divided by this.
const LEAST_GROWTH: u64 = 16;

/// A series of rates, and the growth of capacities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    /// What the rates sum to; under valkey-bloom's law, the first of them.
    pub error_rate: Fraction,
    /// The ratio of successive rates, and by whose law they are; 0.5 of ours is our own law.
    pub tightening: Tightening,
    /// What happens when a filter is full.
    pub growth: Growth,
}

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

    /// The rate of filter `index`, or `None` where growth ends because it is too small for a double.
    pub fn rate(&self, index: u64) -> Option<Fraction> {
        let (p, r) = (self.error_rate.get(), self.tightening.ratio());
        let rate = if self.growth == Growth::Fixed {
            p
        } else if !self.tightening.is_ours() {
            // There, growth ends before a double loses digits.
            return Fraction::new(p * power(r, index))
                .filter(|rate| rate.get() > f64::MIN_POSITIVE);
        } else if self.tightening == Tightening::HALF {
            let index = to_double(index);
            p / ((index + 1.0) * (index + 2.0))
        } else {
            p * (1.0 - r) * power(r, index)
        };
        Fraction::new(rate)
    }

    /// The share of the error rate that the first filters use up, so many of them.
    pub fn share_of(&self, filters: u64) -> f64 {
        if self.growth == Growth::Fixed {
            1.0
        } else if self.tightening == Tightening::HALF {
            let filters = to_double(filters);
            filters / (filters + 1.0)
        } else {
            1.0 - power(self.tightening.ratio(), filters)
        }
    }

    /// The rate that a filter was made for. If its size is not the one that this law gives (in a file of
    /// another program), the rate that its own size gives when it is full.
    pub fn filter_rate(&self, index: u64, filter: &Filter) -> f64 {
        let (capacity, size) = (filter.capacity(), filter.geometry());
        let made_at = self.rate(index).filter(|rate| {
            let by_law = self.size(capacity, *rate, size.cells, size.hashes);
            by_law.positions == size.positions
        });
        made_at.map_or_else(|| filter.rate_at(capacity), Fraction::get)
    }

    /// The size of a filter; soonest found if its number of hash functions is near this one.
    fn size(&self, capacity: u64, rate: Fraction, cells: Cells, near: u32) -> Geometry {
        if self.tightening.is_ours() {
            Geometry::for_rate_near(capacity, rate, cells, near)
        } else {
            Geometry::by_formula(capacity, rate, cells)
        }
    }

    /// The capacity of the next filter; what overflows is at least as large as the largest. The rest of the object is
    /// this deep.
    fn next_capacity(&self, at: &Standing, rest: Depth) -> u64 {
        if at.filters == 0 {
            return at.newest;
        }
        let next = at.newest.saturating_mul(self.growth.expansion().into());
        if !self.tightening.is_ours() {
            return next;
        }
        let is_deep = rest.and(at.depth()).is_past_half_of(Depth::most(at.cells));
        let part = if is_deep { 1 } else { LEAST_GROWTH };
        next.max(at.capacity.div_ceil(part))
    }

    pub fn step(&self, at: &Standing, rest: Depth) -> Result<Step, Refusal> {
        let rate = self.rate(at.filters).ok_or(Refusal::RateTooSmall)?;
        let capacity = self.next_capacity(at, rest);
        Ok(Step {
            capacity,
            geometry: self.size(capacity, rate, at.cells, at.hashes),
            link: None,
        })
    }
}

impl Params {
    /// The error rate of filter `index` (from 0), or `None` where it is too small for a double and growth ends.
    pub fn rate(&self, index: u64) -> Option<Fraction> {
        Series::of(self).rate(index)
    }
}
