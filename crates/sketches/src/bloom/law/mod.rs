//! The laws of growth: the next filter of a stack, and how far growth can go.
//!
//! | law | file | objects |
//! |---|---|---|
//! | our own, and the geometric one | `series.rs` | this module's own |
//! | valkey-bloom's | `series.rs` | made by valkey-bloom, or for it |
//! | `RedisBloom`'s | `redisbloom.rs` | made by `RedisBloom`, or for it |
//!
//! Objects that are tables of fingerprints grow by the law of `tables.rs`.
//!
//! A new law is a file here, a variant of [`Law`], and a row above.

mod limits;
mod link;
mod params;
mod redisbloom;
mod series;
mod tables;

use crate::bloom::filter::{Cells, Filter};
use crate::machine::memory;
use crate::number::{Fraction, MAX_CAPACITY};

pub use limits::{Limits, MAX_FILTERS, NextFilter, Refusal, State};
pub use link::{Link, bits_per_entry, hashes_of};
pub use params::{Growth, Params, Tightening};
pub use redisbloom::Links;
pub use series::Series;
pub use tables::TableStep;

/// The law by which a stack grows.
#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// A series of rates.
    Series(Series),
    /// `RedisBloom`'s law.
    RedisBloom(Box<Links>),
}

impl Law {
    /// Returns the law of an object that this module makes.
    pub const fn of(params: &Params) -> Self {
        Self::Series(Series::of(params))
    }

    /// Returns the law of a new object of `RedisBloom`, whose growth factor is recorded even if it does not grow.
    pub fn of_redisbloom(params: &Params, factor: u32) -> Result<Self, Refusal> {
        Ok(Self::RedisBloom(Box::new(Links::new(params, factor)?)))
    }

    /// Copies the law, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        Some(match self {
            Self::Series(series) => Self::Series(*series),
            Self::RedisBloom(links) => Self::RedisBloom(Box::new(Links {
                all: memory::copied(&links.all)?.into_vec(),
                ..**links
            })),
        })
    }

    /// Returns the law as a series: the sum of the rates, their ratio, and the growth of capacities.
    pub fn series(&self) -> Series {
        match self {
            Self::Series(series) => *series,
            Self::RedisBloom(links) => links.series(),
        }
    }

    pub const fn growth(&self) -> Growth {
        match self {
            Self::Series(series) => series.growth,
            Self::RedisBloom(links) => links.growth(),
        }
    }

    /// Returns the kind of cells under this law.
    pub const fn cells(&self) -> Cells {
        match self {
            Self::Series(_) => Cells::Bits,
            Self::RedisBloom(_) => Cells::BareBits,
        }
    }

    /// Returns the error rate that was requested for the whole stack, or 0 if the law does not keep to it.
    pub const fn requested_rate(&self) -> f64 {
        match self {
            Self::Series(series) if series.tightening().is_ours() => series.error_rate.get(),
            Self::Series(_) | Self::RedisBloom(_) => 0.0,
        }
    }

    /// Returns the law of a union of such stacks: RedisBloom's with these links, or else our own with this error rate.
    pub fn of_union(&self, error_rate: Fraction, links: Vec<Link>) -> Self {
        match self {
            Self::Series(own) => Self::of(&Params {
                error_rate,
                tightening: own.tightening().as_ours(),
                ..own.params(0)
            }),
            Self::RedisBloom(own) => Self::RedisBloom(Box::new(Links {
                all: links,
                ..**own
            })),
        }
    }

    /// Returns the links of `RedisBloom`'s law, or `None` for other laws.
    pub const fn links(&self) -> Option<&Links> {
        match self {
            Self::Series(_) => None,
            Self::RedisBloom(links) => Some(links),
        }
    }

    /// Records the link of a filter that is about to be stacked, under `RedisBloom`'s law.
    pub fn enter(&mut self, step: &NextFilter) -> Result<(), Refusal> {
        if let (Self::RedisBloom(links), Some(link)) = (self, step.link) {
            let room = links.all.try_reserve_exact(1);
            room.map_err(|_| Refusal::OutOfMemory)?;
            links.all.push(link);
        }
        Ok(())
    }

    pub fn step(&self, at: &State, limits: Limits) -> Result<NextFilter, Refusal> {
        let step = self.next(at)?;
        step.admit(at, limits)?;
        Ok(step)
    }

    /// Returns the next filter, whether or not limits admit it.
    fn next(&self, at: &State) -> Result<NextFilter, Refusal> {
        match self {
            Self::Series(series) => series.step(at),
            Self::RedisBloom(links) => links.step(at),
        }
    }

    /// Takes the steps of growth until there is a filter, and room for `items`. Passes each step to `each`, with the
    /// state after it.
    pub fn grow(
        &self,
        at: &mut State,
        items: u64,
        limits: Limits,
        mut each: impl FnMut(&NextFilter, &State),
    ) -> Result<(), Refusal> {
        while at.filters == 0 || at.capacity < items {
            if at.filters > 0 && self.growth() == Growth::Fixed {
                return Err(Refusal::Full);
            }
            let step = self.step(at, limits)?;
            at.push(&step);
            each(&step, at);
        }
        Ok(())
    }

    /// Returns the capacity that growth reaches, and what stops it there. Nothing does if the capacity is
    /// [`MAX_CAPACITY`].
    pub fn reach(&self, mut at: State, limits: Limits) -> (u64, Option<Refusal>) {
        loop {
            if at.filters > 0 && self.growth() == Growth::Fixed {
                return (at.capacity, Some(Refusal::Full));
            }
            let step = match self.next(&at) {
                Ok(step) => step,
                Err(refusal) => return (at.capacity, Some(refusal)),
            };
            match step.admit(&at, limits) {
                Ok(()) => at.push(&step),
                // Only the sum of capacities overflows, so no limit stops growth.
                Err(_) if !step.fits_number(&at) && step.is_within(&at, limits) => {
                    return (MAX_CAPACITY, None);
                }
                Err(refusal) => return (at.capacity, Some(refusal)),
            }
        }
    }

    pub fn filter_rate(&self, index: usize, filter: &Filter) -> f64 {
        match self {
            Self::Series(series) => series.filter_rate(index as u64, filter),
            Self::RedisBloom(links) => links.all.get(index).map_or(0.0, |l| l.error_rate),
        }
    }

    /// Returns the law's allocations in bytes, without `self`.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.links().map_or(0, |links| {
            Links::BASE_BYTES + (links.all.capacity() * size_of::<Link>()) as u64
        })
    }
}
