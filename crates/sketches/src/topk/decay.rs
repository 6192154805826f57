//! The probability that an owner's cell loses a unit.

use crate::number::power;

/// The largest random number of a draw. `RedisBloom` divides the numbers of C's `rand()` by it.
const DRAW_MAX: f64 = 2_147_483_647.0;

/// The number of random numbers of a draw.
const DRAWS: f64 = 2_147_483_648.0;

/// The powers of a sketch's decay.
#[derive(Clone, Debug)]
pub struct Decay {
    base: f64,
    /// Exponents 0 to 15.
    ones: [f64; 16],
    /// Exponents 0, 16, … 240.
    sixteens: [f64; 16],
    /// Exponent 256.
    rest: f64,
}

impl Decay {
    /// Computes the powers of a number, or returns `None` if it is not above 0 and at most 1.
    pub fn new(base: f64) -> Option<Self> {
        (base > 0.0 && base <= 1.0).then(|| Self::of(base))
    }

    /// Computes the powers of a number that a shape has.
    pub(super) fn of(base: f64) -> Self {
        let powers = |step: u64| {
            let mut exponent = 0;
            [(); 16].map(|()| {
                let value = power(base, exponent);
                exponent += step;
                value
            })
        };
        Self {
            base,
            ones: powers(1),
            sixteens: powers(16),
            rest: power(base, 256),
        }
    }

    /// Returns whether every draw takes a unit off.
    pub fn is_certain(&self) -> bool {
        self.base >= 1.0
    }

    /// Returns the decay.
    pub const fn base(&self) -> f64 {
        self.base
    }

    /// Returns the decay to the power of a count, or 0 if that is too small for a double.
    #[inline]
    pub fn power(&self, count: u32) -> f64 {
        let index = |bits: u32| (bits & 15) as usize;
        let low = self.ones[index(count)] * self.sixteens[index(count >> 4)];
        match count >> 8 {
            0 => low,
            more => low * power(self.rest, more.into()),
        }
    }

    /// Returns whether a cell of this count loses a unit at a draw of `random`, a number below 2³¹.
    #[inline]
    pub fn loses(&self, count: u32, random: u32) -> bool {
        f64::from(random) < self.power(count) * DRAW_MAX
    }

    /// Returns the probability that a cell of this count loses a unit at a draw: the share of the 2³¹ numbers with
    /// which it [`loses`](Self::loses).
    pub fn probability(&self, count: u32) -> f64 {
        (self.power(count) * DRAW_MAX).ceil() / DRAWS
    }
}
