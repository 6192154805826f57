//! Merging sorted nodes.

use crate::number;

use super::node::Node;

/// Merges sorted nodes with their neighbours, as far as the compression allows, towards the front. Returns how many
/// nodes are left. `total` is the sum of the weights, at least 2.
///
/// A node may have at most the weight `q·(1−q)·2π·total·ln(total) / compression`, where `q` is the share of the
/// observations up to its beginning, and up to its end. The first and last node stay alone, so their means are the
/// smallest and largest observation.
pub fn merge_neighbours(nodes: &mut [Node], total: f64, compression: f64) -> usize {
    let normalizer = compression / (std::f64::consts::TAU * total * number::ln(total));
    let Some(mut last) = nodes.first().copied() else {
        return 0;
    };
    let share = |weight: f64| {
        let q = weight / total;
        q * (1.0 - q)
    };
    // The weight before the last node, and the limit that follows from it.
    let (mut before, mut limit) = (0.0, 0.0);
    let mut end = 0;
    for index in 1..nodes.len() {
        let node = nodes[index];
        let weight = last.double_weight() + node.double_weight();
        let size = weight * normalizer;
        if size <= limit && size <= share(before + weight) {
            last = merged(last, node);
        } else {
            nodes[end] = last;
            end += 1;
            before += last.double_weight();
            limit = share(before);
            last = node;
        }
    }
    nodes[end] = last;
    end + 1
}

/// Returns the node of the observations of two nodes.
fn merged(one: Node, other: Node) -> Node {
    let weight = one.weight.saturating_add(other.weight);
    let both = Node {
        mean: one.mean,
        weight,
    };
    if weight == 0 {
        return both;
    }
    let shift = (other.mean - one.mean) * other.double_weight();
    let mean = if shift.is_finite() {
        one.mean + shift / both.double_weight()
    } else {
        one.mean * (one.double_weight() / both.double_weight())
            + other.mean * (other.double_weight() / both.double_weight())
    };
    Node { mean, ..both }
}
