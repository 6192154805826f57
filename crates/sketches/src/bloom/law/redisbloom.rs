//! `RedisBloom`'s law of growth: half the rate each time, and sizes by its own formulas.
//!
//! An object of `RedisBloom` grows as it would in `RedisBloom`, bit for bit. There, a filter is called a
//! *link*, its capacity *entries*; the fields of a link are written back as they were read.

use crate::bloom::filter::{Cells, Geometry};
use crate::number::{Fraction, MAX_CAPACITY, log2, power, rounded_ln};

use super::limits::Refusal;
use super::link::Link;
use super::params::{Growth, Params};
use super::series::Series;
use super::step::{Standing, Step};
use super::tightening::Tightening;

/// Bits are not rounded up to a power of two.
const NO_ROUND: u32 = 1;
/// Hashes of 64 bits.
const WIDE: u32 = 4;
/// The object does not grow.
const NO_SCALING: u32 = 8;
/// All options that there are; 2 says that a capacity was given as an exponent of two.
const OPTIONS: u32 = 15;

/// The largest rate that an object is made for; a larger one counts as this.
const LARGEST_RATE: f64 = 0.25;

/// What an object of `RedisBloom` has besides its filters.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// Its options, some of `OPTIONS`.
    pub options: u32,
    /// How many times the entries of the newest link the next one has; kept, also where nothing grows.
    pub factor: u32,
    /// One for each filter, oldest first.
    pub all: Vec<Link>,
}

impl Links {
    /// The links of an object, as files hold it.
    pub fn from_stored(options: u64, growth: u64, links: Vec<Link>) -> Result<Self, &'static str> {
        let known = |options: &u32| *options <= OPTIONS;
        let options = u32::try_from(options).ok().filter(known);
        Ok(Self {
            options: options.ok_or("unknown options")?,
            factor: u32::try_from(growth).map_err(|_| "growth factor out of range")?,
            all: links,
        })
    }

    /// What `RedisBloom` 8.8 makes of these parameters: no links yet, and the first. `factor` is recorded also where
    /// nothing grows.
    pub fn begin(params: &Params, factor: u32) -> Result<(Self, Step), Refusal> {
        let rate = params.error_rate.get().min(LARGEST_RATE);
        // Filters that are to follow halve the rate again.
        let (scaling, before) = match params.growth {
            Growth::Fixed => (NO_SCALING, 2.0 * rate),
            Growth::By(_) => (0, rate),
        };
        let links = Self {
            options: NO_ROUND | WIDE | scaling,
            factor,
            all: Vec::new(),
        };
        let first = links.behind(Some(params.capacity), before)?;
        Ok((links, first))
    }

    /// Whether hashes have 64 bits, and not 32.
    pub const fn is_wide(&self) -> bool {
        self.options & WIDE != 0
    }

    pub const fn growth(&self) -> Growth {
        if self.options & NO_SCALING == 0 {
            Growth::from_expansion(self.factor)
        } else {
            Growth::Fixed
        }
    }

    /// The rate of the whole object, if it has one: the links' rates, and the last one's again for all future
    /// links, which halve it. Summed from the last link on, halved rates add up exactly.
    pub fn error_rate(&self) -> Option<Fraction> {
        let rates = self.all.iter().rev().map(|link| link.error_rate);
        let last = self.all.last()?.error_rate;
        let to_come = match self.growth() {
            Growth::Fixed => 0.0,
            Growth::By(_) => last,
        };
        let sum = rates.fold(to_come, |sum, rate| sum + rate);
        Fraction::new(sum).or(Fraction::new(self.all.first()?.error_rate))
    }

    /// Requires that there are links, with a rate for the whole object.
    pub fn check(&self) -> Result<(), &'static str> {
        match self.error_rate() {
            Some(_) => Ok(()),
            None if self.all.is_empty() => Err("no filters"),
            None => Err("error rate out of range"),
        }
    }

    /// The law's parameters in BF.INFO. A link without a rate in range has been refused.
    pub fn series(&self) -> Series {
        Series {
            error_rate: self.error_rate().unwrap_or(Fraction::HALF),
            tightening: Tightening::HALF,
            growth: self.growth(),
        }
    }

    /// The next link: half the rate of the newest, and as many entries as that has times the factor. It may
    /// come after others that are not there yet.
    pub fn step(&self, at: &Standing) -> Result<Step, Refusal> {
        let newest = self.all.last().ok_or(Refusal::MemoryLimit)?;
        let between = at.filters.saturating_sub(self.all.len() as u64);
        self.behind(
            at.newest.checked_mul(self.factor.into()),
            newest.error_rate * power(0.5, between),
        )
    }

    /// The link with this many entries after one of this rate.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the formulas are in doubles; a cast from a double saturates"
    )]
    fn behind(&self, entries: Option<u64>, error_rate: f64) -> Result<Step, Refusal> {
        let mut entries = entries
            .filter(|entries| (1..=MAX_CAPACITY).contains(entries))
            .ok_or(Refusal::MemoryLimit)?;
        let error_rate = error_rate * 0.5;
        let rate = Fraction::new(error_rate).filter(|_| error_rate.is_normal());
        let rate = rate.ok_or(Refusal::RateTooSmall)?.get();
        let bits_per_entry = bits_per_entry(rate);
        let hashes = hashes_of(bits_per_entry);
        let least = entries as f64 * bits_per_entry;
        // More than memory: no limit admits it.
        if least >= (1_u64 << 60) as f64 {
            return Err(Refusal::MemoryLimit);
        }
        let (mut bits, mut exponent) = ((least as u64).max(1), 0);
        if self.options & NO_ROUND == 0 {
            let rounded = log2(least.max(1.0)).floor() as u32 + 1;
            // The surplus takes more entries.
            entries += (((1_u64 << rounded) - bits) as f64 / bits_per_entry) as u64;
            bits = 1 << rounded;
            exponent = rounded.to_le_bytes()[0];
        }
        let cell_bytes = bits.div_ceil(64) * 8;
        let link = Link {
            error_rate,
            bits_per_entry,
            bits: cell_bytes * 8,
            exponent,
        };
        Ok(Step {
            capacity: entries,
            geometry: Geometry {
                positions: link.modulus(),
                cell_bytes,
                hashes,
                cells: Cells::BareBits,
            },
            link: Some(link),
        })
    }
}

/// Bits per entry of a filter with this error rate.
#[allow(
    clippy::approx_constant,
    reason = "ln²2 with the digits that RedisBloom uses"
)]
pub fn bits_per_entry(error_rate: f64) -> f64 {
    -rounded_ln(error_rate) / 0.480_453_013_918_201
}

/// The number of hash functions of a filter with these bits per entry.
#[allow(
    clippy::approx_constant,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ln 2 with the digits that RedisBloom uses; the cast saturates"
)]
pub fn hashes_of(bits_per_entry: f64) -> u32 {
    (0.693_147_180_559_945 * bits_per_entry).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sizes() {
        let links = Links::from_stored((NO_ROUND | WIDE).into(), 1, Vec::new()).unwrap();
        for (rate, entries, bytes, hashes) in [
            (0.005, 100, 144, 8),
            (0.0005, 50_000, 98_880, 11),
            (0.005, 10, 16, 8),
            (0.0025, 20, 32, 9),
            (0.00125, 40, 72, 10),
            (0.000_625, 80, 160, 11),
            (0.0005, 100, 200, 11),
            (0.000_25, 200, 432, 12),
            (0.000_015_625, 3200, 9216, 16),
        ] {
            let step = links.behind(Some(entries), rate * 2.0).unwrap();
            let size = step.geometry;
            assert_eq!(
                (size.cell_bytes, size.positions),
                (bytes, bytes * 8),
                "{rate}"
            );
            assert_eq!((size.hashes, step.capacity), (hashes, entries), "{rate}");
        }
    }
}
