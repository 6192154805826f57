//! Random numbers that follow from a collision.

use crate::number::next_random;

use super::chance::Collision;

/// The state of a generator.
pub struct Generator(u64);

impl Generator {
    /// Seeds the generator of a collision with a sum of products by odd constants: the fractions of the square roots
    /// of the first primes.
    #[inline]
    pub fn of(collision: &Collision) -> Self {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let products = [
            (collision.number, 0x6a09_e667_f3bc_c909),
            (
                pair(collision.fingerprint, collision.owner),
                0xbb67_ae85_84ca_a73b,
            ),
            (pair(collision.cell, collision.count), 0x3c6e_f372_fe94_f82b),
            (u64::from(collision.draws), 0xa54f_f53a_5f1d_36f1),
        ];
        let products = products.map(|(number, constant): (u64, u64)| number.wrapping_mul(constant));
        Self(products.into_iter().fold(0, u64::wrapping_add))
    }

    /// Returns the next random number below 2³¹.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "31 bits are left")]
    pub fn draw(&mut self) -> u32 {
        (next_random(&mut self.0) >> 33) as u32
    }

    /// Returns the next random number above 0 and at most 1, a multiple of 2⁻⁵³.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are left")]
    pub fn fraction(&mut self) -> f64 {
        ((next_random(&mut self.0) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}
