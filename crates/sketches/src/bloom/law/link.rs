//! The fields that `RedisBloom` keeps of a filter, which it calls a *link*.

use std::hash::Hash;

use crate::bloom::filter::{Cells, Filter, Geometry, MAX_HASHES};
use crate::number::{Fraction, rounded_ln};

/// The fields of a link besides its bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The error rate that the link was made for.
    pub error_rate: f64,
    /// Bits per entry, for information only.
    pub bits_per_entry: f64,
    /// The number of bits, as written. Positions may be reduced by another [modulus](Self::modulus).
    pub bits: u64,
    /// If this is not 0, positions are reduced modulo two to the power of it.
    pub exponent: u8,
}

impl Link {
    /// Returns a key that is equal for links whose filters can be merged.
    pub fn merge_key(&self) -> impl Eq + Hash + use<> {
        let numbers = [self.error_rate, self.bits_per_entry].map(f64::to_bits);
        (numbers, self.bits, self.exponent)
    }

    /// Returns the modulus of positions.
    pub const fn modulus(&self) -> u64 {
        match self.exponent {
            0 => self.bits,
            exponent => 1 << (exponent % 64),
        }
    }

    /// Returns the size of the filter of a link that was made here.
    pub fn own_geometry(&self) -> Geometry {
        Geometry {
            positions: self.modulus(),
            cell_bytes: self.bits / 8,
            hashes: hashes_of(self.bits_per_entry),
            cells: Cells::BareBits,
        }
    }

    /// Returns the size of the link's filter, or why there can be no such link.
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
            cell_bytes,
            hashes,
            ..self.own_geometry()
        };
        let unused = Filter::unused(geometry).ok_or("more bytes than bits");
        unused.map(|_| geometry)
    }
}

/// Returns the bits per entry of a filter with this error rate.
#[allow(
    clippy::approx_constant,
    reason = "ln²2 with the digits that RedisBloom uses"
)]
pub fn bits_per_entry(error_rate: f64) -> f64 {
    -rounded_ln(error_rate) / 0.480_453_013_918_201
}

/// Returns the number of hash functions of a filter with these bits per entry.
#[allow(
    clippy::approx_constant,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ln 2 with the digits that RedisBloom uses; the cast saturates"
)]
pub fn hashes_of(bits_per_entry: f64) -> u32 {
    (0.693_147_180_559_945 * bits_per_entry).ceil() as u32
}
