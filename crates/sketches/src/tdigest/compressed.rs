//! Queries over compressed nodes.
//!
//! ```text
//!   nodes    ├──a──┼───────────b───────────┼───────────c───────────┤
//!   weight      1              4                       4
//!   before   0     1                       5
//!   middle      ½              3                       7
//!   value       a   ╱╱╱╱╱╱╱╱╱╱ b ╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱ c ╱╱╱╱  max
//! ```
//!
//! A position on the axis is a number of observations. `at` returns the value at a position: between the middles of two nodes,
//! it is on a straight line between their means. A node of weight 1 is a single observation, so its value stays for half a
//! weight on either side of its middle; so does the smallest or largest observation, in the first or last node, for a weight of
//! 1 at the end. `cdf_within` goes back from a value to its position, and returns it as a share of the total, here 9.

use crate::machine::{memory, work};

use super::node::{Node, double};

/// A node, and what queries need to know about the nodes before it.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    pub node: Node,
    /// The sum of the weights before the node.
    before: f64,
    /// The sum of the weights before the middle of the node.
    middle: f64,
    /// The largest mean up to the node. It is the node's own mean, unless rounding left means out of order.
    reach: f64,
    /// In the first of successive nodes with the same mean, the sum of their weights; 0 in the others.
    tied: f64,
}

/// Compressed nodes with running sums, so that a query is a binary search.
#[derive(Debug)]
pub struct Marks {
    nodes: Vec<Marked>,
    /// The sum of all weights.
    total: f64,
}

impl Marks {
    /// Prepares compressed nodes, or returns `None` if allocation fails. Sums run from the first node to the last, each
    /// rounded, so they are those of a loop over the nodes.
    pub fn new(nodes: &[Node], total: f64) -> Option<Self> {
        work::bytes(size_of::<Marked>() * nodes.len());
        let mut marked: Vec<Marked> = memory::reserved(nodes.len())?;
        let mut first_of_tie = 0;
        for &node in nodes {
            let weight = node.double_weight();
            let (before, middle, reach) = match marked.last() {
                None => (0.0, weight / 2.0, node.mean),
                Some(last) => {
                    let last_weight = last.node.double_weight();
                    let before = last.before + last_weight;
                    let middle = last.middle + 0.5 * (last_weight + weight);
                    (before, middle, last.reach.max(node.mean))
                }
            };
            if marked.last().is_none_or(|last| last.node.mean != node.mean) {
                first_of_tie = marked.len();
            }
            marked.push(Marked {
                node,
                before,
                middle,
                reach,
                tied: 0.0,
            });
            marked[first_of_tie].tied += weight;
        }
        Some(Self {
            nodes: marked,
            total,
        })
    }

    /// Returns the nodes, in ascending order of their means.
    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        self.nodes.iter().map(|marked| marked.node)
    }

    /// Copies the nodes to the front of a slice, which is at least as long. Returns how many they are, and the sum of
    /// their weights.
    pub fn copy_nodes(&self, to: &mut [Node]) -> (usize, f64) {
        for (to, node) in to.iter_mut().zip(self.nodes()) {
            *to = node;
        }
        (self.nodes.len(), self.total)
    }

    /// Returns the size of the allocation in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Marked>()) as u64
    }

    /// Moves the allocation.
    pub fn relocate(&mut self, by: impl FnOnce(Vec<Marked>) -> Vec<Marked>) {
        self.nodes = by(std::mem::take(&mut self.nodes));
    }
}

/// A digest whose nodes are compressed, for queries. If it is empty, values and shares are `NaN`, and ranks are −2.
///
/// Values that files from elsewhere leave undefined, 0/0 for example, are one fixed `NaN`.
#[derive(Clone, Copy, Debug)]
pub struct Compressed<'d> {
    pub(super) marks: &'d Marks,
    pub(super) min: f64,
    pub(super) max: f64,
    /// The number of observations before the compression, which may round it.
    pub(super) observations: i64,
}

impl Compressed<'_> {
    /// Returns the value below which the share `quantile` of the observations lies; NaN unless it is from 0 to 1.
    pub fn quantile(&self, quantile: f64) -> f64 {
        if !(0.0..=1.0).contains(&quantile) {
            return f64::NAN;
        }
        match &*self.marks.nodes {
            [] => f64::NAN,
            [only] => only.node.mean,
            nodes => self.within(self.at(nodes, quantile * self.marks.total)),
        }
    }

    /// Returns the share of the observations that are below `value`, plus half the share of those equal to it; NaN for NaN.
    pub fn cdf(&self, value: f64) -> f64 {
        let nodes = &*self.marks.nodes;
        if nodes.is_empty() || value.is_nan() {
            f64::NAN
        } else if value < self.min {
            0.0
        } else if value > self.max {
            1.0
        } else {
            fixed(self.cdf_within(nodes, value).clamp(0.0, 1.0))
        }
    }

    /// Returns the number of observations below a value plus half of those equal to it, rounded to the nearest integer,
    /// halves down; −1 below the smallest observation, their number above the largest, and −2 if the digest is empty or
    /// the value is NaN.
    pub fn rank(&self, value: f64) -> i64 {
        self.rank_or(value, -1, self.observations, |below, _| {
            let whole = below.floor();
            if below - whole <= 0.5 {
                whole
            } else {
                below.ceil()
            }
        })
    }

    /// Returns the number of observations above a value plus half of those equal to it, rounded; the number of all
    /// observations below the smallest, −1 above the largest, and −2 if the digest is empty or the value is NaN.
    pub fn reverse_rank(&self, value: f64) -> i64 {
        self.rank_or(value, self.observations, -1, |below, observations| {
            (observations - below.round()).round()
        })
    }

    #[allow(clippy::cast_possible_truncation, reason = "the cast saturates")]
    fn rank_or(&self, value: f64, below: i64, above: i64, within: impl Fn(f64, f64) -> f64) -> i64 {
        if self.marks.nodes.is_empty() || value.is_nan() {
            -2
        } else if value < self.min {
            below
        } else if value > self.max {
            above
        } else {
            let observations = double(self.observations);
            let rank = within(self.cdf(value) * observations, observations) as i64;
            // A double may round the number of observations up.
            rank.max(0).min(self.observations)
        }
    }

    /// Returns the value of the observation with a rank, counted from 0 at the smallest; infinity past the end.
    pub fn by_rank(&self, rank: u64) -> f64 {
        self.value_at(rank, self.min, f64::INFINITY, |rank, _| rank)
    }

    /// Returns the value of the observation with a rank, counted from 0 at the largest; negative infinity past the end.
    pub fn by_reverse_rank(&self, rank: u64) -> f64 {
        self.value_at(rank, self.max, f64::NEG_INFINITY, |rank, observations| {
            (observations - rank) - 1.0
        })
    }

    #[allow(clippy::cast_precision_loss, reason = "ranks beyond 2^53 are rounded")]
    fn value_at(
        &self,
        rank: u64,
        first: f64,
        beyond: f64,
        forward: impl Fn(f64, f64) -> f64,
    ) -> f64 {
        let nodes = &*self.marks.nodes;
        if nodes.is_empty() {
            return f64::NAN;
        }
        if rank == 0 {
            return first;
        }
        if rank >= self.observations.cast_unsigned() {
            return beyond;
        }
        let observations = double(self.observations);
        let target = forward(rank as f64, observations) / observations * self.marks.total;
        match nodes {
            [only] => only.node.mean,
            _ if target < 1.0 => self.min,
            _ => self.within(self.at(nodes, target)),
        }
    }

    /// Returns the mean of the observations between two quantiles; NaN unless 0 ≤ `low` ≤ `high` ≤ 1.
    pub fn trimmed_mean(&self, low: f64, high: f64) -> f64 {
        if !(0.0 <= low && low <= high && high <= 1.0) {
            return f64::NAN;
        }
        let nodes = &*self.marks.nodes;
        let Some(last) = nodes.last() else {
            return f64::NAN;
        };
        if let [only] = nodes {
            return only.node.mean;
        }
        let low = (self.marks.total * low).floor();
        let high = (self.marks.total * high).ceil();
        let sum = |scale: f64| {
            let (mut sum, mut count) = (0.0, 0.0);
            for marked in nodes {
                let share = share_between(marked, low, high);
                sum += marked.node.mean * (share / scale);
                count += share;
                if marked.before + marked.node.double_weight() >= high {
                    break;
                }
            }
            (sum, count)
        };
        let (total, count) = sum(1.0);
        if count == 0.0 {
            let holds_low = |marked: &&Marked| marked.before + marked.node.double_weight() > low;
            return nodes.iter().find(holds_low).unwrap_or(last).node.mean;
        }
        work::bytes(size_of_val(nodes));
        self.within(if f64::is_finite(total) {
            total / count
        } else {
            // The sum of large means overflows, their mean does not.
            sum(count).0
        })
    }

    /// Returns an answer between the smallest and the largest observation, which rounding may leave.
    fn within(&self, answer: f64) -> f64 {
        fixed(answer.clamp(self.min, self.max))
    }

    /// Returns the value at a position from 0 to the number of observations. There are at least two nodes.
    fn at(&self, nodes: &[Marked], target: f64) -> f64 {
        let (first, last) = (nodes[0].node, nodes[nodes.len() - 1].node);
        let outermost = |node: Node, end: f64, from_end: f64| {
            // In digests made here, the outermost means are the smallest and largest observation.
            if node.mean == end {
                return end;
            }
            let half = node.double_weight() / 2.0;
            on_the_way(end, (from_end - 1.0) / (half - 1.0), node.mean)
        };
        if first.weight > 1 && target < first.double_weight() / 2.0 {
            return outermost(first, self.min, target);
        }
        if target > self.marks.total - 1.0 {
            return self.max;
        }
        let half = last.double_weight() / 2.0;
        let from_end = self.marks.total - target;
        if last.weight > 1 && from_end <= half {
            return outermost(last, self.max, from_end);
        }
        // The first node whose successor's middle is past the target.
        let index = nodes[1..].partition_point(|marked| marked.middle <= target);
        let Some([left, right]) = nodes.get(index..index + 2) else {
            // This needs weights that add up to less than the total.
            let above = (target - self.marks.total) - half;
            return between(last.mean, above, self.max, half - above);
        };
        let (mut from_left, mut to_right) = (target - left.middle, right.middle - target);
        if left.node.weight == 1 {
            if from_left < 0.5 {
                return left.node.mean;
            }
            from_left -= 0.5;
        }
        if right.node.weight == 1 {
            if to_right <= 0.5 {
                return right.node.mean;
            }
            to_right -= 0.5;
        }
        between(left.node.mean, to_right, right.node.mean, from_left)
    }

    /// Returns the share of the observations up to a value between the smallest and the largest.
    fn cdf_within(&self, nodes: &[Marked], value: f64) -> f64 {
        let total = self.marks.total;
        let (first, last) = (nodes[0].node, nodes[nodes.len() - 1].node);
        if nodes.len() == 1 {
            return 0.5;
        }
        let beyond = |node: Node, end: f64| {
            if value == end {
                return 0.5 / total;
            }
            let half = node.double_weight() / 2.0;
            (1.0 + share_of(end, value, node.mean) * (half - 1.0)) / total
        };
        if value < first.mean {
            return beyond(first, self.min);
        }
        if value > last.mean {
            return 1.0 - beyond(last, self.max);
        }
        // The first node that is not below the value.
        let index = nodes.partition_point(|marked| marked.reach < value);
        if index + 1 >= nodes.len() && value == last.mean {
            return 1.0 - 0.5 / total;
        }
        let at = &nodes[index];
        if at.node.mean == value {
            return (at.before + at.tied / 2.0) / total;
        }
        let below = &nodes[index - 1];
        if below.node.weight == 1 && at.node.weight == 1 {
            return (below.before + 1.0) / total;
        }
        let half_of_one = |node: Node| if node.weight == 1 { 0.5 } else { 0.0 };
        let (from, to) = (half_of_one(below.node), half_of_one(at.node));
        let weight = below.node.double_weight();
        let room = (0.5 * (weight + at.node.double_weight()) - from) - to;
        let base = (below.before + weight / 2.0) + from;
        let (left, right) = (below.node.mean, at.node.mean);
        let part = room * (value - left) / (right - left);
        let part = if part.is_finite() {
            part
        } else {
            room * share_of(left, value, right)
        };
        (base + part) / total
    }
}

/// Returns how much of a node's weight lies between two positions. The upper one is measured from where the node
/// begins, even if the lower one took a part: `RedisBloom`'s results are kept.
fn share_between(marked: &Marked, low: f64, high: f64) -> f64 {
    let weight = marked.node.double_weight();
    let below = f64::max(low - marked.before, 0.0).min(weight);
    f64::max(high - marked.before, 0.0).min(weight - below)
}

/// Returns the mean of two values with these weights, which is between them.
fn between(one: f64, one_weight: f64, other: f64, other_weight: f64) -> f64 {
    let ((low, low_weight), (high, high_weight)) = if one <= other {
        ((one, one_weight), (other, other_weight))
    } else {
        ((other, other_weight), (one, one_weight))
    };
    let weight = low_weight + high_weight;
    let mut mean = (low * low_weight + high * high_weight) / weight;
    if !mean.is_finite() {
        mean = low * (low_weight / weight) + high * (high_weight / weight);
    }
    let mean = if mean < high { mean } else { high };
    if low > mean { low } else { mean }
}

/// Returns the value at a share of the way from one value to another.
fn on_the_way(from: f64, share: f64, to: f64) -> f64 {
    let distance = to - from;
    if distance.is_finite() {
        from + share * distance
    } else {
        from * (1.0 - share) + to * share
    }
}

/// Returns how far a value is on the way from one value to another, from 0 to 1.
fn share_of(from: f64, value: f64, to: f64) -> f64 {
    let share = (value - from) / (to - from);
    if share.is_finite() && (to - from).is_finite() {
        share
    } else {
        // The distance of the halves does not overflow.
        (value / 2.0 - from / 2.0) / (to / 2.0 - from / 2.0)
    }
}

/// Replaces any NaN by the one that all processors agree on.
fn fixed(answer: f64) -> f64 {
    if answer.is_nan() { f64::NAN } else { answer }
}
