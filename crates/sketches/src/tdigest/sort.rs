//! Sorting nodes by mean.
//!
//! `RedisBloom` sorts with a quicksort that is not stable. If equal means have different weights, the order that it
//! leaves them in decides which nodes are merged, so it is part of the stored bytes. Two cases are quicker: if no two
//! nodes with equal means differ, every sort gives the same order. And [`quicksort`] has a shortcut for equal means,
//! where the original takes quadratic time.
//!
//! In large digests, and in orders made to slow quicksort down, nodes with equal means are sorted by weight instead.
//! This bounds the time of a compression.

use crate::machine::{memory, work};

use super::node::Node;

/// The largest number of nodes sorted in `RedisBloom`'s order of equal means.
const EXACT_NODES_MAX: usize = 1 << 16;

/// The number of comparisons after which [`quicksort`] stops. Random means take about 1.4·n·log₂ n: 1.5 million for
/// [`EXACT_NODES_MAX`] nodes.
const COMPARISONS_MAX: usize = 1 << 21;

/// Sorts nodes by mean. Those before `merged` usually are sorted already.
pub fn sort(nodes: &mut [Node], merged: usize) {
    work::bytes(size_of_val(nodes));
    if nodes.len() > EXACT_NODES_MAX {
        let (held, buffer) = nodes.split_at_mut(merged);
        sort_run(held);
        sort_run(buffer);
        if merge_runs(nodes, merged) {
            return;
        }
    } else if sort_distinct(nodes, merged) || quicksort(nodes, COMPARISONS_MAX) {
        return;
    }
    nodes.sort_unstable_by(Node::total_order);
}

/// Sorts nodes in their total order.
fn sort_run(nodes: &mut [Node]) {
    if nodes.is_sorted_by(|one, next| one.total_order(next).is_le()) {
        return;
    }
    match sorted_keys(nodes) {
        Some(keys) => put_keys(nodes, &keys),
        None => nodes.sort_unstable_by(Node::total_order),
    }
}

/// Sorts nodes whose order by mean is certain: those with equal means have the same bits. Returns false and changes
/// nothing if other weights occur, or if an allocation failed.
fn sort_distinct(nodes: &mut [Node], merged: usize) -> bool {
    let (held, buffer) = nodes.split_at_mut(merged);
    let is_certain = |run: &[Node]| run.is_sorted_by(Node::certainly_precedes);
    if !is_certain(held) {
        return false;
    }
    if is_certain(buffer) {
        return are_distinct(held, buffer.iter().copied()) && merge_runs(nodes, merged);
    }
    let Some(keys) = sorted_keys(buffer) else {
        return false;
    };
    // Both zeros have one mean and different bits.
    let has = |zero: f64| keys.binary_search(&key_of(zero)).is_ok();
    if has(-0.0) && has(0.0) || !are_distinct(held, keys.iter().map(|key| node_of(*key))) {
        return false;
    }
    put_keys(buffer, &keys);
    // The order is certain, so another sort can continue here.
    merge_runs(nodes, merged)
}

/// Returns whether no node of one sorted run has the mean of a different node of the other.
fn are_distinct(held: &[Node], mut buffer: impl Iterator<Item = Node>) -> bool {
    let mut next = buffer.next();
    held.iter().all(|node| {
        while next.is_some_and(|other| other.mean < node.mean) {
            next = buffer.next();
        }
        next.is_none_or(|other| node.certainly_precedes(&other))
    })
}

/// Returns the means of nodes of weight 1 as sorted keys, or `None` if another weight occurs or an allocation failed.
/// Keys are half as large as nodes, and compare faster.
fn sorted_keys(nodes: &[Node]) -> Option<Vec<u64>> {
    if nodes.iter().any(|node| node.weight != 1) {
        return None;
    }
    let mut keys = memory::reserved(nodes.len())?;
    keys.extend(nodes.iter().map(|node| key_of(node.mean)));
    keys.sort_unstable();
    Some(keys)
}

fn put_keys(nodes: &mut [Node], keys: &[u64]) {
    for (node, key) in nodes.iter_mut().zip(keys) {
        *node = node_of(*key);
    }
}

const SIGN: u64 = 1 << 63;

/// Returns a number that orders as the mean does in the total order of doubles.
const fn key_of(mean: f64) -> u64 {
    let bits = mean.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Returns the node of weight 1 whose mean has this key.
const fn node_of(key: u64) -> Node {
    let bits = if key & SIGN == 0 { !key } else { key ^ SIGN };
    let mean = f64::from_bits(bits);
    Node { mean, weight: 1 }
}

/// Merges two runs, each in total order; the second begins at `middle`. Returns false and changes nothing if an
/// allocation failed.
fn merge_runs(nodes: &mut [Node], middle: usize) -> bool {
    let Some(first) = memory::copied(&nodes[..middle]) else {
        return false;
    };
    let (mut end, mut second) = (0, middle);
    for node in &first {
        while second < nodes.len() && nodes[second].total_order(node).is_lt() {
            nodes[end] = nodes[second];
            (end, second) = (end + 1, second + 1);
        }
        nodes[end] = *node;
        end += 1;
    }
    true
}

/// Positions `low..=high` whose means are all at least `least`.
#[derive(Clone, Copy, Default)]
struct Range {
    low: usize,
    high: usize,
    least: Option<f64>,
}

/// Sorts nodes by mean in `RedisBloom`'s order: the pivot is the middle node, and the partition (Lomuto's) runs up to
/// it from below. Returns whether it ended within a number of comparisons.
///
/// If the pivot equals the least mean of its range, no node moves down, so no comparison is needed. This turns equal
/// means from the worst case into the best one.
fn quicksort(nodes: &mut [Node], mut comparisons: usize) -> bool {
    // The larger part of each range waits here, so there are fewer ranges than a length has bits.
    let (mut waiting, mut depth) = ([Range::default(); usize::BITS as usize], 0);
    let mut range = Range {
        low: 0,
        high: nodes.len().saturating_sub(1),
        least: None,
    };
    loop {
        let Range { low, high, least } = range;
        if high <= low + 1 {
            if high > low && nodes[low].mean > nodes[high].mean {
                nodes.swap(low, high);
            }
            if depth == 0 {
                return true;
            }
            depth -= 1;
            range = waiting[depth];
            continue;
        }
        let middle = usize::midpoint(low, high);
        let pivot = nodes[middle].mean;
        nodes.swap(middle, high);
        let place = if least == Some(pivot) {
            nodes.swap(low, high);
            low
        } else {
            match comparisons.checked_sub(high - low) {
                Some(left) => comparisons = left,
                None => return false,
            }
            low + partition(&mut nodes[low..=high], pivot)
        };
        let above = Range {
            low: place + 1,
            high,
            least: Some(pivot),
        };
        // An empty part has one position fewer than none.
        let below = Range {
            low,
            high: place.saturating_sub(1).max(low),
            least,
        };
        let below_is_smaller = place - low < high - place;
        let (smaller, larger) = if below_is_smaller {
            (below, above)
        } else {
            (above, below)
        };
        waiting[depth] = larger;
        depth += 1;
        range = smaller;
    }
}

/// Moves the nodes with means below the pivot, which is the last node, to the front, and the pivot after them. Returns
/// its place. The loop has no branches, because their outcomes are unpredictable.
fn partition(nodes: &mut [Node], pivot: f64) -> usize {
    let last = nodes.len() - 1;
    let mut place = 0;
    for index in 0..last {
        let (node, at_place) = (nodes[index], nodes[place]);
        let is_below = node.mean < pivot;
        nodes[index] = if is_below { at_place } else { node };
        nodes[place] = if is_below { node } else { at_place };
        place += usize::from(is_below);
    }
    nodes.swap(place, last);
    place
}
