//! `RedisBloom`'s law of growth: each filter has half the rate of the one before, and sizes follow `RedisBloom`'s
//! formulas.
//!
//! An object of `RedisBloom` grows the way it would there, bit for bit. `RedisBloom` calls a filter a *link* and its
//! capacity *entries*. The fields of a link are written back the way they were read.

use crate::machine::memory;
use crate::number::{Fraction, MAX_CAPACITY, log2, power, to_double, to_whole};

use super::limits::{NextFilter, Refusal, State};
use super::link::{Link, bits_per_entry};
use super::params::{Growth, Params, Tightening};
use super::series::Series;

/// Option: bits are not rounded up to a power of two.
const NO_ROUND: u32 = 1;
/// Option: hashes have 64 bits.
const WIDE: u32 = 4;
/// Option: the object does not grow.
const NO_SCALING: u32 = 8;
/// All options. Option 2 means that the capacity was given as a power of two.
const OPTIONS: u32 = 15;

/// The largest rate of a new object. A larger requested rate counts as this.
const LARGEST_RATE: f64 = 0.25;

/// The fields of an object of `RedisBloom` besides its filters.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// The options, a subset of `OPTIONS`.
    pub options: u32,
    /// The factor from the newest link's entries to the next one's. Stored even if the object does not grow.
    pub factor: u32,
    /// A link for each filter, oldest first.
    pub all: Vec<Link>,
}

impl Links {
    /// Size of the fields without the links, in bytes.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(32) as u64;

    /// Creates links from the fields of a file.
    pub fn from_stored(options: u64, growth: u64, links: Vec<Link>) -> Result<Self, &'static str> {
        let known = |options: &u32| *options <= OPTIONS;
        let options = u32::try_from(options).ok().filter(known);
        Ok(Self {
            options: options.ok_or("unknown options")?,
            factor: u32::try_from(growth).map_err(|_| "growth factor out of range")?,
            all: links,
        })
    }

    /// Returns the fields of a new object, the way `RedisBloom` 8.8 makes it for these parameters. They have the link
    /// of its first filter, which is stacked next. `factor` is recorded even if the object does not grow.
    pub fn new(params: &Params, factor: u32) -> Result<Self, Refusal> {
        let rate = params.error_rate.get().min(LARGEST_RATE);
        // A scaling object halves the rate of its first filter too; doubling undoes that for a non-scaling one.
        let (scaling, before) = match params.growth {
            Growth::Fixed => (NO_SCALING, 2.0 * rate),
            Growth::By(_) => (0, rate),
        };
        let mut links = Self {
            options: NO_ROUND | WIDE | scaling,
            factor,
            all: memory::reserved(1).ok_or(Refusal::OutOfMemory)?,
        };
        let first = links.link_after(Some(params.capacity), before)?;
        links.all.extend(first.link);
        Ok(links)
    }

    /// Returns whether hashes have 64 bits rather than 32.
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

    /// Returns the rate of the whole object, if it is in range: the sum of the links' rates, plus the last rate once
    /// more for all future links, which keep halving it. Starting from the last link, halved rates add up exactly.
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

    /// Checks that there are links, with a valid rate for the whole object.
    pub fn check(&self) -> Result<(), &'static str> {
        match self.error_rate() {
            Some(_) => Ok(()),
            None if self.all.is_empty() => Err("no filters"),
            None => Err("error rate out of range"),
        }
    }

    /// Returns the law's parameters in BF.INFO. Links without a rate in range were refused before.
    pub fn series(&self) -> Series {
        Series::of(&Params {
            capacity: 0,
            error_rate: self.error_rate().unwrap_or(Fraction::HALF),
            tightening: Tightening::HALF,
            growth: self.growth(),
        })
    }

    /// Returns the next filter. Its link has half the rate of the newest, and its entries times the factor. `at` may
    /// include filters that have no link yet.
    pub fn step(&self, at: &State) -> Result<NextFilter, Refusal> {
        if at.filters == 0
            && let Some(first) = self.all.first()
        {
            return Ok(NextFilter {
                capacity: at.newest,
                geometry: first.own_geometry(),
                link: None,
            });
        }
        // There is one: `new` makes it, and `check` refuses stored objects without any.
        let newest = self.all.last().ok_or(Refusal::MemoryLimit)?;
        let between = at.filters.saturating_sub(self.all.len() as u64);
        self.link_after(
            at.newest.checked_mul(self.factor.into()),
            newest.error_rate * power(0.5, between),
        )
    }

    /// Returns the link with this many entries that follows one with this rate.
    fn link_after(&self, entries: Option<u64>, error_rate: f64) -> Result<NextFilter, Refusal> {
        let entries = entries.filter(|entries| (1..=MAX_CAPACITY).contains(entries));
        let mut entries = entries.ok_or(Refusal::MemoryLimit)?;
        let error_rate = Fraction::new(error_rate * 0.5).ok_or(Refusal::RateTooSmall)?;
        let error_rate = error_rate.get();
        let bits_per_entry = bits_per_entry(error_rate);
        let least = to_double(entries) * bits_per_entry;
        // This exceeds any memory, so no limit admits it.
        if least >= to_double(1 << 60) {
            return Err(Refusal::MemoryLimit);
        }
        let (mut bits, mut exponent) = (to_whole(least).max(1), 0);
        if self.options & NO_ROUND == 0 {
            let rounded = to_whole(log2(least.max(1.0)).floor()) + 1;
            // The surplus bits hold more entries.
            entries += to_whole(to_double((1 << rounded) - bits) / bits_per_entry);
            bits = 1 << rounded;
            // It is at most 60, because `least` is below 2⁶⁰.
            exponent = u8::try_from(rounded).unwrap_or(u8::MAX);
        }
        let link = Link {
            error_rate,
            bits_per_entry,
            bits: bits.next_multiple_of(64),
            exponent,
        };
        Ok(NextFilter {
            capacity: entries,
            geometry: link.own_geometry(),
            link: Some(link),
        })
    }
}
