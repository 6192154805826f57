//! What `RedisBloom` keeps of a filter, which it calls a *link*.

use std::hash::Hash;

use crate::bloom::filter::{Cells, Filter, Geometry, MAX_HASHES};
use crate::number::Fraction;

/// What a link has besides its bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The rate that it was made for.
    pub error_rate: f64,
    /// Bits per entry, for the record.
    pub bits_per_entry: f64,
    /// As written; positions may be reduced by another number.
    pub bits: u64,
    /// If it is not 0, positions are reduced by two to the power of it.
    pub exponent: u8,
}

impl Link {
    /// What is alike in links of one kind.
    pub fn merge_key(&self) -> impl Eq + Hash + use<> {
        let numbers = [self.error_rate, self.bits_per_entry].map(f64::to_bits);
        (numbers, self.bits, self.exponent)
    }

    /// What positions are reduced by.
    pub const fn modulus(&self) -> u64 {
        match self.exponent {
            0 => self.bits,
            exponent => 1 << (exponent % 64),
        }
    }

    /// The size of its filter, if there can be such a link.
    pub fn geometry(&self, cell_bytes: u64, hashes: u64) -> Result<Geometry, &'static str> {
        if Fraction::new(self.error_rate).is_none() {
            return Err("error rate out of range");
        }
        if !(self.bits_per_entry > 0.0 && self.bits_per_entry.is_finite()) {
            return Err("bits per entry out of range");
        }
        let hashes = u32::try_from(hashes)
            .ok()
            .filter(|hashes| (1..=MAX_HASHES).contains(hashes))
            .ok_or("number of hash functions out of range")?;
        if self.bits == 0 {
            return Err("filter of zero bits");
        }
        if self.exponent > 63 || self.bits < self.modulus() {
            return Err("exponent out of range");
        }
        if cell_bytes > u64::MAX / 16 || cell_bytes * 8 < self.bits {
            return Err("bitmap shorter than its bits");
        }
        let geometry = Geometry {
            positions: self.modulus(),
            cell_bytes,
            hashes,
            cells: Cells::BareBits,
        };
        match Filter::unused(geometry) {
            Some(_) => Ok(geometry),
            None => Err("more bytes than bits"),
        }
    }
}
