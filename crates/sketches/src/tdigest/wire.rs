//! Stored form of t-digests: `RedisBloom`'s type `TDIS-TYPE`. `RedisBloom` can read the fields that this module writes.
//!
//! | field | kind |
//! |---|---|
//! | compression | double, a whole number |
//! | smallest, largest observation; 1.8e308 and −1.8e308 of an empty digest | doubles |
//! | capacity in nodes: 6 · compression + 10 | integer |
//! | merged nodes, unmerged nodes, compressions | integers |
//! | weight of the merged nodes, weight of the unmerged nodes | doubles, whole numbers |
//! | means of the merged nodes, ascending | doubles |
//! | weights of the merged nodes | doubles, whole numbers |
//!
//! Unmerged nodes can't be stored, so a digest is compressed when it is written.
//!
//! Where differences overflow, `RedisBloom` makes means that are infinite or NaN. They are [mended](Loaded::is_mended).

use crate::bytes::{DecodeError, RdbRead, RdbWrite, push};
use crate::machine::{memory, work};
use crate::number;

use super::digest::{Compression, Numbers, TDigest};
use super::node::{Node, double, whole};

/// The name of the type in a server.
pub const TYPE_NAME: &std::ffi::CStr = c"TDIS-TYPE";

/// The encoding version.
pub const RDB_VERSION: i32 = 0;

const BOUNDS: &str = "bounds out of order";

/// A digest that was read.
pub struct Loaded {
    /// The digest.
    pub digest: TDigest,
    /// Whether means were not finite. Each became the nearest finite one in order; the smallest and the largest
    /// observation count as means before the first node and after the last.
    pub is_mended: bool,
}

/// Reads the fields in RDB of an encoding version.
///
/// # Errors
/// Any [`DecodeError`].
pub fn read_rdb(version: i32, from: &mut impl RdbRead) -> Result<TDigest, DecodeError> {
    Ok(load_rdb(version, from)?.digest)
}

/// Reads the fields in RDB of an encoding version, and reports whether they were mended.
///
/// # Errors
/// Any [`DecodeError`].
pub fn load_rdb(version: i32, from: &mut impl RdbRead) -> Result<Loaded, DecodeError> {
    if version != RDB_VERSION {
        return Err(DecodeError::UnsupportedVersion);
    }
    let compression = read_compression(from)?;
    let (min, max) = (from.double()?, from.double()?);
    let [capacity, merged, unmerged] = [from.uint()?, from.uint()?, from.uint()?];
    if capacity != compression.stored_capacity() {
        return Err("capacity of another compression".into());
    }
    if merged > compression.capacity() {
        return Err("more nodes than the capacity".into());
    }
    let compressions = i64::try_from(from.uint()?).map_err(|_| "compressions out of range")?;
    let (merged_weight, unmerged_weight) = (from.double()?, from.double()?);
    let numbers = Numbers {
        compression,
        min,
        max,
        merged: usize::try_from(merged).map_err(|_| DecodeError::NoMemory)?,
        merged_weight: whole(merged_weight),
        unmerged_weight: whole(unmerged_weight),
        compressions,
    };
    let weight_of_none = if merged == 0 { merged_weight } else { 0.0 };
    if unmerged_weight != number::to_double(unmerged) || weight_of_none != 0.0 {
        return Err("weight without nodes".into());
    }
    let is_range = min <= max && min.is_finite() && max.is_finite();
    let unmended = |nodes| Loaded {
        digest: TDigest::from_parts(numbers, nodes),
        is_mended: false,
    };
    match (merged, unmerged) {
        (0, 0) if min != f64::MAX || max != f64::MIN => Err("bounds of no observations".into()),
        (0, 0) => Ok(unmended(Box::default())),
        (0, 1) if is_range && min == max => {
            // RedisBloom before August 2026 wrote a lone observation without its node.
            let node = Node {
                mean: min,
                weight: 1,
            };
            let nodes = memory::copied(&[node]).ok_or(DecodeError::NoMemory)?;
            Ok(unmended(nodes))
        }
        (_, 0) if min <= max => read_merged(numbers, merged_weight, from),
        (_, 0) | (0, 1) => Err(BOUNDS.into()),
        _ => Err("unmerged nodes".into()),
    }
}

fn read_compression(from: &mut impl RdbRead) -> Result<Compression, DecodeError> {
    let stored = from.double()?;
    let compression = Compression::new(number::to_whole(stored));
    let compression = compression.filter(|whole| whole.as_double() == stored);
    compression.ok_or_else(|| "compression out of range".into())
}

/// Reads the nodes of a digest that has some.
fn read_merged(
    mut numbers: Numbers,
    merged_weight: f64,
    from: &mut impl RdbRead,
) -> Result<Loaded, DecodeError> {
    let mut nodes = Vec::new();
    for _ in 0..numbers.merged {
        let mean = from.double()?;
        push(&mut nodes, Node { mean, weight: 0 })?;
    }
    work::bytes(size_of_val(&*nodes));
    let merged_weight = read_weights(&mut nodes, merged_weight, from)?;
    let is_mended = nodes.iter().any(|node| !node.mean.is_finite());
    if is_mended {
        mend(&mut numbers, &mut nodes);
    } else if !(numbers.min.is_finite() && numbers.max.is_finite()) {
        return Err(BOUNDS.into());
    }
    // Nodes without observations are of no use. One of each run is kept, because RedisBloom writes one in place of a
    // lone observation that it lost.
    nodes.dedup_by(|next, last| next.weight == 0 && last.weight == 0);
    require_order(&nodes, numbers.min, numbers.max)?;
    let numbers = Numbers {
        merged: nodes.len(),
        merged_weight,
        ..numbers
    };
    let nodes = memory::boxed(nodes).ok_or(DecodeError::NoMemory)?;
    Ok(Loaded {
        digest: TDigest::from_parts(numbers, nodes),
        is_mended,
    })
}

/// Replaces bounds and means that are not finite by the nearest finite ones, and sorts the nodes: a NaN breaks the order
/// of `RedisBloom`'s sort.
fn mend(numbers: &mut Numbers, nodes: &mut [Node]) {
    let means = nodes.iter().map(|node| node.mean);
    let finite = means.filter(|mean| mean.is_finite());
    let bounds = finite.fold(None, |bounds, mean| {
        let (least, most) = bounds.unwrap_or((mean, mean));
        Some((mean.min(least), mean.max(most)))
    });
    let (least, most) = bounds.unwrap_or((f64::MIN, f64::MAX));
    let or = |bound: f64, other| if bound.is_finite() { bound } else { other };
    let (min, max) = (or(numbers.min, least), or(numbers.max, most));
    (numbers.min, numbers.max) = (min.min(max), max.max(min));
    let mut start = 0;
    let mut before = numbers.min;
    while start < nodes.len() {
        let rest = &nodes[start..];
        let length = rest.iter().position(|node| node.mean.is_finite());
        let length = length.unwrap_or(rest.len());
        let after = rest.get(length).map_or(numbers.max, |node| node.mean);
        // Halfway between two finite means, the lower one is taken; in the last run it is the upper one, so that the last
        // node has the largest observation.
        let half = if length < rest.len() {
            length.div_ceil(2)
        } else {
            length / 2
        };
        let run = &mut nodes[start..start + length];
        for (index, node) in run.iter_mut().enumerate() {
            node.mean = if index < half { before } else { after };
        }
        before = after;
        start += length + 1;
    }
    if !nodes.is_sorted_by(|one, next| one.mean <= next.mean) {
        nodes.sort_unstable_by(Node::total_order);
    }
}

/// Requires means within the bounds and in ascending order, as far as rounding allows. `RedisBloom` writes 0 for the mean
/// of a lone observation that it lost.
///
/// Other means could become large ones when they are merged, with an error that takes them out of their order. Then the
/// digest could be written, but not read.
fn require_order(nodes: &[Node], min: f64, max: f64) -> Result<(), DecodeError> {
    // Each operation of a merge rounds a mean by up to 2^-53 of it, so this allows 32 of them.
    const ROUNDED: f64 = 1.0 / double(1 << 48);
    let rounding = 2.0 * (min.abs() * ROUNDED + max.abs() * ROUNDED);
    let bounds = min - rounding..=max + rounding;
    let is_lost = |node: &Node| node.weight == 0 && node.mean == 0.0;
    let mut all = nodes.iter();
    if !all.all(|node| bounds.contains(&node.mean) || is_lost(node)) {
        return Err("mean out of bounds".into());
    }
    if nodes.is_sorted_by(|one, next| next.mean >= one.mean - rounding) {
        Ok(())
    } else {
        Err("means out of order".into())
    }
}

/// Reads the weights of nodes, and returns their sum, as it is stored or corrected.
///
/// Weights are whole and add up to `total`, or to one less if `RedisBloom` lost an observation. There are two reasons
/// for other sums: weights beyond 2^53 are rounded, and those of `RedisBloom` 2.4.0 may have fractions, which are cut.
fn read_weights(
    nodes: &mut [Node],
    total: f64,
    from: &mut impl RdbRead,
) -> Result<i64, DecodeError> {
    const EXACT_MAX: f64 = double(1 << 53);
    // Adding the weights of 2^31 nodes, the most there can be, rounds the sum by up to 2^-22 of it. This allows four times
    // as much.
    const ROUNDED: f64 = 1.0 / double(1 << 20);
    const MAX: f64 = double(i64::MAX);
    let (mut sum, mut is_whole) = (0.0, total.fract() == 0.0);
    for node in &mut *nodes {
        let weight = from.double()?;
        if !(0.0..=MAX).contains(&weight) {
            return Err("weight out of range".into());
        }
        node.weight = whole(weight);
        is_whole &= weight.fract() == 0.0;
        sum += weight;
    }
    let slack = if is_whole && total < EXACT_MAX {
        0.0
    } else {
        total * ROUNDED
    };
    let is_within = |slack: f64| (total - 1.0 - slack..=total + slack).contains(&sum);
    if total > MAX || !is_within(slack) {
        return Err("weights that do not add up".into());
    }
    // Additions that are lost to rounding widen the difference, so a total in the outer half of what is accepted is
    // corrected.
    let corrected = if is_whole && is_within(slack / 2.0) {
        whole(total)
    } else {
        let weights = nodes.iter().map(|node| node.weight);
        weights.fold(0, i64::saturating_add)
    };
    if corrected > 0 {
        Ok(corrected)
    } else {
        Err("nodes without observations".into())
    }
}

/// Writes the fields in RDB. Unmerged nodes are compressed in a copy.
///
/// # Panics
/// If the copy can't be allocated, and the stream can't fail.
pub fn write_rdb(digest: &TDigest, to: &mut impl RdbWrite) {
    if digest.unmerged_nodes() == 0 {
        write_merged(digest, to);
    } else {
        match digest.compressed_copy() {
            Some(copy) => write_merged(&copy, to),
            None => to.no_memory("compressed nodes"),
        }
    }
}

fn write_merged(digest: &TDigest, to: &mut impl RdbWrite) {
    let numbers = digest.numbers();
    let nodes = digest.nodes();
    work::bytes(size_of_val(nodes));
    to.double(numbers.compression.as_double());
    to.double(numbers.min);
    to.double(numbers.max);
    to.uint(numbers.compression.stored_capacity());
    to.uint(nodes.len() as u64);
    to.uint(0);
    to.uint(numbers.compressions.cast_unsigned());
    to.double(double(numbers.merged_weight));
    to.double(0.0);
    for node in nodes {
        to.double(node.mean);
    }
    for node in nodes {
        to.double(double(node.weight));
    }
}
