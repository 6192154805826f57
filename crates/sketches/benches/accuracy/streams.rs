//! Synthetic streams of items.

/// A generator of random numbers, `SplitMix64` by Steele, Lea and Flood.
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number at or above 0 and below 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are exact")]
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A distribution of items.
#[derive(Clone, Copy)]
pub enum Distribution {
    Uniform,
    /// The item with the index i has a weight of 1 / (i + 1)ˢ.
    Zipf(f64),
}

impl Distribution {
    pub fn name(self) -> String {
        match self {
            Self::Uniform => "uniform".to_owned(),
            Self::Zipf(s) => format!("Zipf, s = {s:.1}"),
        }
    }

    /// Returns how often each item occurs in a stream.
    pub fn counts(self, items: u32, events: u64, random: &mut Random) -> Vec<u64> {
        let weight = |index: u32| match self {
            Self::Uniform => 1.0,
            Self::Zipf(s) => libm::pow(f64::from(index) + 1.0, -s),
        };
        let sums: Vec<f64> = (0..items)
            .scan(0.0, |sum, index| {
                *sum += weight(index);
                Some(*sum)
            })
            .collect();
        let whole = sums.last().copied().unwrap_or_default();
        let mut counts = vec![0; sums.len()];
        for _ in 0..events {
            let drawn = random.fraction() * whole;
            let index = sums.partition_point(|sum| *sum <= drawn);
            counts[index.min(sums.len() - 1)] += 1;
        }
        counts
    }
}
