//! Streams of items and of values, the same on every machine.

use valkeybloom_testing::support::Rng;

/// Random numbers.
pub struct Random(Rng);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// Returns a number at or above 0 and below 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub const fn fraction(&mut self) -> f64 {
        (self.0.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number with the standard normal distribution, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.fraction()));
        radius * libm::cos(std::f64::consts::TAU * self.fraction())
    }
}

/// A distribution of items, which are numbered from 0 on, the most frequent first.
#[derive(Clone, Copy)]
pub enum Distribution {
    Uniform,
    /// Item i has a weight of 1 / (i + 1)ˢ.
    Zipf(f64),
    /// The first items, of this number, together are half of the stream.
    Frequent(u32),
}

impl Distribution {
    fn weight(self, item: u32, items: u32) -> f64 {
        match self {
            Self::Uniform => 1.0,
            Self::Zipf(s) => libm::pow(f64::from(item) + 1.0, -s),
            // Frequent ones differ a little, so that they have an order.
            Self::Frequent(number) if item < number => {
                (1.0 + 0.5 * f64::from(number - item) / f64::from(number)) / f64::from(number)
            }
            Self::Frequent(number) => 1.0 / f64::from(items - number),
        }
    }

    /// Returns an endless stream of items, always the same one.
    pub fn stream(self, items: u32) -> impl Iterator<Item = usize> {
        let mut sum = 0.0;
        let sums: Vec<f64> = (0..items)
            .map(|item| {
                sum += self.weight(item, items);
                sum
            })
            .collect();
        let mut random = Random::new(1);
        std::iter::repeat_with(move || {
            let drawn = random.fraction() * sum;
            let item = sums.partition_point(|sum| *sum <= drawn);
            item.min(sums.len() - 1)
        })
    }
}
