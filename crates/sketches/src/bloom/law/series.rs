//! The laws of growth by a series of rates: our own, the geometric one, and valkey-bloom's.
//!
//! An item that was never added is found if any filter of the stack claims it. So the rate of the stack is at most the
//! sum of its filters' rates. Our own law makes filter `i` (from 0) of an object of rate `p` for `p / ((i+1)(i+2))`.
//! That series sums to `p`, and tightens slowly. A tightening ratio `r` other than 0.5 selects the geometric series
//! `p·(1−r)·rⁱ` (Almeida et al. 2007, with the first term scaled so that the bound is `p` itself). A non-scaling
//! object has one filter, at `p`.
//!
//! The capacity of the next filter is the newest one's times the expansion, and at least a sixteenth of the stack's.
//! So the depth of the stack is logarithmic even if the expansion is 1: at most about 700 filters for 2⁶³ items. Once
//! the object has half of the filters, or of the hash functions, that it may have, the capacity of the next filter is
//! at least the stack's.
//!
//! valkey-bloom makes filter `i` for `p·rⁱ`, by the classic formula, and uses the expansion alone. Objects made by
//! valkey-bloom grow the same way here, bit for bit.

use crate::bloom::filter::{Cells, Filter, Geometry};
use crate::number::{Fraction, power, to_double};

use super::limits::{NextFilter, Refusal, State};
use super::params::{Author, Growth, Params, Tightening};

/// The next filter's capacity is at least the whole stack's divided by this.
const LEAST_GROWTH: u64 = 16;

/// Stacks with more hash functions, which only forged ones have, at least double their capacity with each filter.
const MANY_HASHES: u64 = 1 << 20;

/// A series of rates, and the growth of capacities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    /// The sum of the rates; under valkey-bloom's law, the first rate.
    pub error_rate: Fraction,
    /// The ratio of successive rates. Our 0.5 selects our own law.
    ratio: Fraction,
    /// Whose law the rates follow.
    author: Author,
    /// The growth of the stack when its newest filter is full.
    pub growth: Growth,
}

impl Series {
    pub const fn of(params: &Params) -> Self {
        Self {
            error_rate: params.error_rate,
            ratio: params.tightening.ratio,
            author: params.tightening.author,
            growth: params.growth,
        }
    }

    /// Returns the ratio of successive rates, and whose law they follow.
    pub const fn tightening(&self) -> Tightening {
        Tightening {
            ratio: self.ratio,
            author: self.author,
        }
    }

    /// Returns the parameters of this series with a first filter of this capacity.
    pub const fn params(&self, capacity: u64) -> Params {
        Params {
            capacity,
            error_rate: self.error_rate,
            tightening: self.tightening(),
            growth: self.growth,
        }
    }

    /// Returns the rate of filter `index`, or `None` if it is too small for a double and growth ends.
    pub fn rate(&self, index: u64) -> Option<Fraction> {
        let (p, r) = (self.error_rate.get(), self.ratio.get());
        let rate = if self.growth == Growth::Fixed {
            p
        } else if self.author == Author::ValkeyBloom {
            // valkey-bloom ends growth before a double loses digits.
            return Fraction::new(p * power(r, index))
                .filter(|rate| rate.get() > f64::MIN_POSITIVE);
        } else if self.tightening() == Tightening::HALF {
            let index = to_double(index);
            p / ((index + 1.0) * (index + 2.0))
        } else {
            p * (1.0 - r) * power(r, index)
        };
        Fraction::new(rate)
    }

    /// Returns the share of the error rate that the first `filters` filters use up.
    pub fn share_of(&self, filters: u64) -> f64 {
        if self.growth == Growth::Fixed {
            1.0
        } else if self.tightening() == Tightening::HALF {
            let filters = to_double(filters);
            filters / (filters + 1.0)
        } else {
            1.0 - power(self.ratio.get(), filters)
        }
    }

    /// Returns the rate that a filter was made for. If the size is not the one of this law (in a file of another
    /// program), returns the rate of the full filter.
    pub fn filter_rate(&self, index: u64, filter: &Filter) -> f64 {
        let (capacity, size) = (filter.capacity(), filter.geometry());
        let made_at = self.rate(index).filter(|rate| {
            let by_law = self.size(capacity, *rate, size.hashes);
            by_law.positions == size.positions
        });
        made_at.map_or_else(|| filter.rate_at(capacity), Fraction::get)
    }

    /// Returns the size of a filter. The search is fastest if the number of hash functions is near `near`.
    fn size(&self, capacity: u64, rate: Fraction, near: u32) -> Geometry {
        if self.author == Author::Ours {
            Geometry::for_rate_near(capacity, rate, Cells::Bits, near)
        } else {
            Geometry::by_formula(capacity, rate, Cells::Bits)
        }
    }

    /// Returns the capacity of the next filter. It saturates at or above the largest capacity.
    fn next_capacity(&self, at: &State) -> u64 {
        if at.filters == 0 {
            return at.newest;
        }
        let next = at.newest.saturating_mul(self.growth.expansion().into());
        if self.author == Author::ValkeyBloom {
            return next;
        }
        let is_deep = at.all_hashes > MANY_HASHES;
        let part = if is_deep { 1 } else { LEAST_GROWTH };
        next.max(at.capacity.div_ceil(part))
    }

    pub fn step(&self, at: &State) -> Result<NextFilter, Refusal> {
        let rate = self.rate(at.filters).ok_or(Refusal::RateTooSmall)?;
        let capacity = self.next_capacity(at);
        Ok(NextFilter {
            capacity,
            geometry: self.size(capacity, rate, at.hashes),
            link: None,
        })
    }
}

impl Params {
    /// Returns the error rate of filter `index` (from 0), or `None` if it is too small for a double and growth ends.
    pub fn rate(&self, index: u64) -> Option<Fraction> {
        Series::of(self).rate(index)
    }
}
