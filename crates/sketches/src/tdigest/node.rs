//! Nodes of a digest.

use std::cmp::Ordering;

/// Observations near each other: their mean, and how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Node {
    /// The mean of the observations. It is finite.
    pub mean: f64,
    /// The number of observations. Files of `RedisBloom` may have nodes of weight 0.
    pub weight: i64,
}

impl Node {
    /// Returns the weight as a double.
    pub const fn double_weight(self) -> f64 {
        double(self.weight)
    }

    /// Compares means, then weights: nodes that compare equal have the same bits.
    pub fn total_order(&self, other: &Self) -> Ordering {
        let means = self.mean.total_cmp(&other.mean);
        means.then(self.weight.cmp(&other.weight))
    }

    /// Returns whether sorting by mean leaves one order of these two nodes, with this node first: the other mean is
    /// greater, or the nodes have the same bits.
    pub fn certainly_precedes(&self, other: &Self) -> bool {
        self.mean < other.mean || self.total_order(other).is_eq()
    }
}

/// Returns the double nearest to a weight.
#[allow(clippy::cast_precision_loss, reason = "rounded beyond 2^53")]
pub const fn double(weight: i64) -> f64 {
    weight as f64
}

/// Truncates a weight to an integer; the largest one from 2^63 on.
#[allow(clippy::cast_possible_truncation, reason = "the cast saturates")]
pub const fn whole(weight: f64) -> i64 {
    weight as i64
}
