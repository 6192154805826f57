//! Streams of items whose counts are known.

/// A stream of random items, numbered from 0 on in the order of their probability.
pub struct Stream {
    /// The sum of the probabilities up to each item.
    cumulative: Vec<f64>,
    state: u64,
}

impl Stream {
    /// Makes a stream of items whose probabilities are in proportion to these weights.
    fn of_weights(weights: impl Iterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let sums = weights.map(|weight| {
            sum += weight;
            sum
        });
        let mut cumulative: Vec<f64> = sums.collect();
        for part in &mut cumulative {
            *part /= sum;
        }
        Self {
            cumulative,
            state: 1,
        }
    }

    /// Makes a stream of `items` items, in which item `n` has a probability in proportion to (n + 1)⁻ˢ.
    pub fn zipf(items: u32, s: f64) -> Self {
        Self::of_weights((1..=items).map(|rank| f64::from(rank).powf(-s)))
    }

    /// Makes a stream of `items` items. The first `frequent` items together are half of the stream.
    pub fn uniform_with_frequent(items: u32, frequent: u32) -> Self {
        let weights = (0..items).map(|item| {
            let number = if item < frequent {
                frequent
            } else {
                items - frequent
            };
            // Frequent ones differ a little, so that they have an order.
            let more = if item < frequent {
                0.5 * f64::from(frequent - item) / f64::from(frequent)
            } else {
                0.0
            };
            (1.0 + more) / f64::from(number)
        });
        Self::of_weights(weights)
    }

    /// Returns the number of the next item.
    pub fn next(&mut self) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        #[allow(clippy::cast_precision_loss, reason = "53 bits are left")]
        let fraction = ((bits ^ bits >> 31) >> 11) as f64 / (1_u64 << 53) as f64;
        let item = self.cumulative.partition_point(|sum| *sum <= fraction);
        item.min(self.cumulative.len() - 1)
    }

    /// Returns the number of different items.
    pub fn items(&self) -> usize {
        self.cumulative.len()
    }
}
