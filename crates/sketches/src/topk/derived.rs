//! Chance that follows from the sketch, and contests of many draws in time that does not grow with their number.
//!
//! An owner of count `c` loses a unit at a draw with the probability `p = decayᶜ`, which rises with each loss. Three
//! kinds of jumps skip the draws between the events that are rarer:
//!
//! | event | jump |
//! |---|---|
//! | few losses | the draws until the next loss have a geometric distribution |
//! | few draws without a loss | so do those until the next one, with the probability of the current count. Losses make it less, so the event is then accepted with the ratio of the two |
//! | many of both | the draws that `k` losses take are a sum of geometric numbers. One normal number determines the sum for every `k`, by its first four cumulants (Cornish and Fisher 1938), and the largest sum that does not exceed the draws is the outcome |
//!
//! The first two are exact. The third differs from the exact distribution by less than samples of 10,000 sketches
//! reveal.

use crate::machine::work;
use crate::number::{expm1, ln, ln_1p, next_random, to_whole};

use super::chance::{Chance, Collision, Contest, one_by_one};
use super::decay::Decay;

/// Expected draws without a loss, up to which jumps go from one to the next. A margin: 20,000 samples of the contests in
/// `tests/core/topk/chance.rs` fit their exact distributions also without these jumps.
const FEW_FAILURES: f64 = 16.0;

/// Losses, up to which jumps go from one to the next. From 16 on, the samples fit. With 8, their chi-square is 31 standard
/// deviations too high, for a decay of 0.99, a count of 700 and 10,000 draws.
const FEW_LOSSES: u32 = 48;

/// From this decay on, sums of geometric numbers are nearly symmetric. Below, the first [`FEW_LOSSES`] losses, which
/// dominate the sum, are made one by one. A margin, too: the samples fit with any decay here.
const SLOW_DECAY: f64 = 0.99;

/// Chance that follows from the collision alone. Equal sketches have equal outcomes, on every server and after every
/// restart. The number in the collision makes each outcome independent of those before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Derived;

impl Derived {
    /// Contests of up to this many draws are made draw by draw.
    const FEW: u32 = 4;
}

impl Chance for Derived {
    #[inline]
    fn contest(&mut self, collision: &Collision, decay: &Decay) -> Contest {
        let mut random = Generator::of(collision);
        if collision.draws <= Self::FEW || collision.count == 0 {
            one_by_one(collision, decay, || random.draw())
        } else {
            jump(collision, decay, &mut random)
        }
    }
}

/// Returns the outcome of a collision.
fn jump(collision: &Collision, decay: &Decay, random: &mut Generator) -> Contest {
    let mut state = State {
        count: collision.count,
        draws: collision.draws,
    };
    let mut losses = 0;
    loop {
        work::steps(1);
        let loss = decay.probability(state.count);
        let draws = f64::from(state.draws);
        let most_draws = draws.min(f64::from(state.count) / loss);
        let outcome = if most_draws * (1.0 - loss) <= FEW_FAILURES {
            state.skip_losses(loss, decay, random)
        } else if losses < FEW_LOSSES && decay.base() < SLOW_DECAY
            || state.count <= FEW_LOSSES
            || draws * loss < f64::from(FEW_LOSSES)
        {
            losses += 1;
            state.skip_failures(loss, random)
        } else {
            return state.end(decay, random);
        };
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
}

/// The owner's count and the number of draws left, both at least 1 until the contest ends.
struct State {
    count: u32,
    draws: u32,
}

impl State {
    /// Goes on to the next loss, which has this probability at each draw. Returns the outcome at the end.
    fn skip_failures(&mut self, loss: f64, random: &mut Generator) -> Option<Contest> {
        let Some(draws) = self.draws.checked_sub(wait(loss, random)) else {
            return Some(Contest::Kept(self.count));
        };
        self.draws = draws;
        self.lose(1)
    }

    /// Goes on to the next draw that may be without a loss. Returns the outcome at the end.
    fn skip_losses(&mut self, loss: f64, decay: &Decay, random: &mut Generator) -> Option<Contest> {
        let most = self.draws.min(self.count);
        let losses = (wait(1.0 - loss, random) - 1).min(most);
        self.draws -= losses;
        if let Some(outcome) = self.lose(losses) {
            return Some(outcome);
        }
        self.draws -= 1;
        let failure = 1.0 - decay.probability(self.count);
        let units = u32::from(random.fraction() * (1.0 - loss) > failure);
        self.lose(units)
    }

    /// Takes units off that were drawn already. Returns the outcome if the contest has ended.
    fn lose(&mut self, units: u32) -> Option<Contest> {
        self.count -= units;
        if self.count == 0 {
            return Some(Contest::Taken(self.draws + 1));
        }
        (self.draws == 0).then_some(Contest::Kept(self.count))
    }

    /// Returns the outcome of many draws with and without a loss.
    ///
    /// If the sum for all units of the count is within the draws, the item takes the cell, with the draws from the last of
    /// the sum on. Otherwise the losses are the largest `k` whose sum `S₁(k) + deviation(k)` is within the draws, the fixed
    /// point of `k = S₁⁻¹(draws + ½ − deviation(k))`. The half corrects for a whole number that is taken as continuous.
    fn end(&self, decay: &Decay, random: &mut Generator) -> Contest {
        let sums = Sums::new(decay, self.count, normal(random));
        let limit = f64::from(self.draws) + 0.5;
        let all = f64::from(self.count);
        let (mean, deviation) = sums.of(all);
        let least = u64::from(self.count);
        let most = u64::from(self.draws);
        if mean + deviation < limit && least <= most {
            let draws = to_whole(mean + deviation + 0.5).clamp(least, most);
            return Contest::Taken(narrow(most - draws + 1));
        }
        // The deviation changes slowly with the losses, so this converges within a few steps.
        let mut losses = sums.losses(limit);
        for _ in 0..4 {
            let (_, deviation) = sums.of(losses.clamp(1.0, all));
            losses = sums.losses(limit - deviation);
        }
        let losses = to_whole(losses).min(most).min(least - 1);
        Contest::Kept(self.count - narrow(losses))
    }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Draws the number of draws up to and including the first event of this probability.
fn wait(probability: f64, random: &mut Generator) -> u32 {
    let failures = ln(random.fraction()) / ln_1p(-probability);
    narrow(to_whole(failures).saturating_add(1))
}

/// Draws a number of the standard normal distribution (Marsaglia and Bray 1964).
fn normal(random: &mut Generator) -> f64 {
    loop {
        let (x, y) = (2.0 * random.fraction() - 1.0, 2.0 * random.fraction() - 1.0);
        let square = x * x + y * y;
        if 0.0 < square && square < 1.0 {
            return x * (-2.0 * ln(square) / square).sqrt();
        }
    }
}

/// The sums of the geometric numbers of draws that the next losses take, at one normal number.
///
/// The first loss takes `x = d⁻ᶜ` draws on average, where `d` is the decay and `c` the owner's count, and each further
/// loss `d` times as many. So the means of `k` losses, raised to the power `j`, are a geometric series with the sum
/// `Sⱼ = xʲ (1 − dʲᵏ) / (1 − dʲ)`. The cumulants of a geometric number are polynomials of its mean, and those of the
/// sum are the same polynomials of `Sⱼ`:
///
/// | cumulant | value |
/// |---|---|
/// | mean | `S₁` |
/// | variance `σ²` | `S₂ − S₁` |
/// | third, `γσ³` | `2S₃ − 3S₂ + S₁` |
/// | fourth, `κσ⁴` | `6S₄ − 12S₃ + 7S₂ − S₁` |
///
/// The sum at the normal number `z` is then about `S₁ + σ (z + γ(z² − 1)/6 + κ(z³ − 3z)/24 − γ²(2z³ − 5z)/36)`.
///
/// The sums take the powers of the decay as they are. The jumps take [`Decay::probability`], a multiple of 2⁻³¹. With
/// [`FEW_LOSSES`] expected in `INCREMENT_MAX` draws, the two differ by a millionth at most.
struct Sums {
    /// The logarithm of `d`.
    slope: f64,
    /// `xʲ / (1 − dʲ)` for `j` from 1 to 4.
    series: [f64; 4],
    normal: f64,
}

impl Sums {
    fn new(decay: &Decay, count: u32, normal: f64) -> Self {
        let mean = 1.0 / decay.power(count);
        let slope = ln(decay.base());
        let mut power = 1.0;
        let series = [1.0, 2.0, 3.0, 4.0].map(|exponent| {
            power *= mean;
            power / -expm1(exponent * slope)
        });
        Self {
            slope,
            series,
            normal,
        }
    }

    /// Returns `S₁` for `k` losses, and how far the sum at the normal number is above it.
    fn of(&self, losses: f64) -> (f64, f64) {
        // v = 1 − dᵏ and w = dᵏ. The parts are 1 − dʲᵏ = 1 − wʲ with the factor v taken out, which keeps all digits of it.
        let v = -expm1(losses * self.slope);
        let w = 1.0 - v;
        let parts = [
            v,
            v * (1.0 + w),
            v * (1.0 + w + w * w),
            v * (1.0 + w) * (1.0 + w * w),
        ];
        let [s1, s2, s3, s4] = [0, 1, 2, 3].map(|index| self.series[index] * parts[index]);
        let variance = (s2 - s1).max(f64::MIN_POSITIVE);
        let deviation = variance.sqrt();
        let skewness = (2.0 * s3 - 3.0 * s2 + s1) / (variance * deviation);
        let kurtosis = (6.0 * s4 - 12.0 * s3 + 7.0 * s2 - s1) / (variance * variance);
        let z = self.normal;
        let quantile = z + skewness * (z * z - 1.0) / 6.0 + kurtosis * (z * z - 3.0) * z / 24.0
            - skewness * skewness * (2.0 * z * z - 5.0) * z / 36.0;
        (s1, deviation * quantile)
    }

    /// Returns the `k` whose `S₁` is this mean: `ln(1 − mean (1 − d) / x) / ln d`.
    fn losses(&self, mean: f64) -> f64 {
        let part = (mean / self.series[0]).clamp(0.0, 1.0 - f64::EPSILON);
        ln_1p(-part) / self.slope
    }
}

/// The state of a generator of random numbers that follow from a collision.
struct Generator(u64);

impl Generator {
    /// Seeds the generator of a collision with a sum of products by odd constants: the fractions of the square roots
    /// of the first primes.
    #[inline]
    fn of(collision: &Collision) -> Self {
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
    fn draw(&mut self) -> u32 {
        (next_random(&mut self.0) >> 33) as u32
    }

    /// Returns the next random number above 0 and at most 1, a multiple of 2⁻⁵³.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are left")]
    fn fraction(&mut self) -> f64 {
        ((next_random(&mut self.0) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}
