//! The law of objects that are tables of fingerprints: how many items each table is for, and the bits of its fingerprints.
//!
//! A table of *n* fingerprints of *p* bits claims an item that was never added with a probability of at most *n* / 2ᵖ. The
//! first table of an object, for *N* items, has the fewest bits with which *N* / 2ᵖ is at most 31/32 of the object's rate.
//! Each further one has the fewest that take at most ¾ of the rate left by the tables before it. A non-scaling object has one
//! table, which may take all of it.
//!
//! A table takes memory only for what is in it, and each doubling of *N* costs a bit of each item. So a table is for eight
//! times as many items as the expansion says: an object that was reserved too small has few tables.

use crate::number::{Fraction, MAX_CAPACITY, power, to_double};
use crate::table::{Payload, Table, expected_bytes, largest_bytes};

use super::limits::Refusal;
use super::params::{Growth, Params};

/// The share of the rate that is left which a further table may take.
const NEXT_SHARE: f64 = 0.75;

/// The number of times that a table is larger than the expansion says.
const GROWTH: u64 = 8;

/// How many items a table is for, and the bits of its fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStep {
    /// The number of the step, from 0.
    pub number: u64,
    /// The most fingerprints for which the rate is kept.
    pub most: u64,
    /// The bits of a fingerprint.
    pub bits: u32,
}

impl TableStep {
    /// The share of the rate that the first table may take: most objects never have another.
    pub const FIRST_SHARE: f64 = 31.0 / 32.0;

    /// The most tables of an object. Growth never comes to as many: each table takes 3/8 of the rate that is left, or is for
    /// eight times as many items as the one before, or takes a 32nd of all. The first happens at most 89 times until no
    /// fingerprint is long enough, the last 32 times.
    pub const MOST: usize = 128;

    /// Returns the step that follows those before it, which were taken by an object that was reserved for this number of items.
    ///
    /// # Errors
    /// [`Refusal::RateTooSmall`]: no fingerprint is long enough.
    pub fn after(
        before: impl Iterator<Item = Self>,
        params: &Params,
        reserved: u64,
        payload: Payload,
    ) -> Result<Self, Refusal> {
        let first = reserved.clamp(1, MAX_CAPACITY);
        let (mut number, mut wanted, mut left) = (0, first, params.error_rate.get());
        let mut share = match params.growth {
            Growth::Fixed => 1.0,
            Growth::By(_) => Self::FIRST_SHARE,
        };
        let factor = GROWTH.saturating_mul(params.growth.expansion().into());
        for step in before {
            left -= step.rate_at(step.most);
            wanted = step.most.saturating_mul(factor).min(MAX_CAPACITY);
            number = step.number.saturating_add(1);
            share = NEXT_SHARE;
        }
        let rate = Fraction::new(left * share).ok_or(Refusal::RateTooSmall)?;
        let (most, bits) = size(wanted, first, rate, payload)?;
        Ok(Self { number, most, bits })
    }

    /// Returns the probability with which the table, with this number of items, claims one that was never added.
    #[must_use]
    pub fn rate_at(&self, items: u64) -> f64 {
        (to_double(items) * power(0.5, self.bits.into())).min(1.0)
    }

    /// Returns the expected bytes of the table with this number of items.
    pub fn bytes(&self, payload: Payload, items: u64) -> u64 {
        expected_bytes(self.bits, payload, items)
    }

    /// Returns the bytes that the table with this number of items does not exceed, except once in a million times.
    pub fn largest_bytes(&self, payload: Payload, items: u64) -> u64 {
        largest_bytes(self.bits, payload, items)
    }
}

/// Returns the number of items that a table is for, at most `wanted`, and the fewest bits that keep its rate.
fn size(wanted: u64, first: u64, rate: Fraction, payload: Payload) -> Result<(u64, u32), Refusal> {
    let keeps_rate = |most: u64, bits: u32| to_double(most) * power(0.5, bits.into()) <= rate.get();
    let mut most = wanted;
    while !keeps_rate(most, payload.most_bits()) {
        most /= 2;
        // A table for fewer items than the first would not be worth a lookup.
        if most < first {
            return Err(Refusal::RateTooSmall);
        }
    }
    // With fewer than four bits more than it takes to number them, fingerprints would crowd.
    let least = Table::LEAST_BITS.max(most.ilog2() + 5);
    let bits = (least..payload.most_bits()).find(|bits| keeps_rate(most, *bits));
    Ok((most, bits.unwrap_or(payload.most_bits())))
}
