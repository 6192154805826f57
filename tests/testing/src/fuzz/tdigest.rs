//! Decodes bytes that may be a t-digest.

#![allow(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "weights below 2^53 are exact, and equal bits are meant"
)]

use valkeybloom_sketches::tdigest::{Compressed, Compression, Refusal, TDigest, wire};

use super::forms::{self, read};
use super::source::Source;
use crate::support::{Moving, state_of};

/// Weights below this are exact as doubles.
const EXACT: f64 = (1_u64 << 53) as f64;

/// Reads RDB fields, after their version, and then operations on the digest.
pub fn fields(mut source: Source) {
    let read = read(&mut source, 1000, |version, from| {
        wire::load_rdb(version, from)
    });
    let Some((loaded, version, used)) = read else {
        return;
    };
    let (object, is_mended) = (loaded.digest, loaded.is_mended);
    assert_eq!(version, wire::RDB_VERSION);
    let (stored, mut expected) = (Stored::of(&object), Stored::read(used).kept());
    if expected.weights[0] >= EXACT {
        // A sum of rounded weights may be corrected.
        expected.weights[0] = stored.weights[0];
    }
    if !is_mended {
        // Text shows the sign of a zero.
        assert_eq!(format!("{stored:?}"), format!("{expected:?}"));
    }
    check(&object);
    operate(object, source);
}

/// The stored fields of a digest.
#[derive(Debug)]
struct Stored {
    compression: f64,
    min: f64,
    max: f64,
    /// Capacity, merged nodes, unmerged nodes, compressions.
    counts: [u64; 4],
    /// The weights of the merged and of the unmerged nodes.
    weights: [f64; 2],
    /// Means and weights.
    nodes: Vec<[f64; 2]>,
}

impl Stored {
    fn of(object: &TDigest) -> Self {
        Self::read(&written(object))
    }

    /// Reads the fields without any check.
    fn read(fields: &[u8]) -> Self {
        let mut from = Source(fields);
        let double = |from: &mut Source| f64::from_le_bytes(from.array());
        let [compression, min, max] = [(); 3].map(|()| double(&mut from));
        let counts = [(); 4].map(|()| u64::from_le_bytes(from.array()));
        let weights = [(); 2].map(|()| double(&mut from));
        let numbers = from.0.as_chunks().0.iter();
        let numbers: Vec<f64> = numbers.map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let (means, node_weights) = numbers.split_at(numbers.len() / 2);
        let nodes = means.iter().zip(node_weights);
        Self {
            compression,
            min,
            max,
            counts,
            weights,
            nodes: nodes.map(|(mean, weight)| [*mean, *weight]).collect(),
        }
    }

    /// Returns what is kept of the fields: a lone observation gets its node, fractions of weights are cut, and of
    /// nodes in a row without observations one remains.
    fn kept(mut self) -> Self {
        // Zeros lose their sign.
        self.weights = self.weights.map(|weight| weight + 0.0);
        if self.counts[2] == 1 {
            self.nodes = vec![[self.min, 1.0]];
            self.weights = [1.0, 0.0];
            let compressions = self.counts[3] + 1;
            self.counts[3] = compressions.min(i64::MAX.cast_unsigned());
        }
        let mut numbers = self.nodes.iter().map(|node| node[1]);
        let is_whole = self.weights[0].fract() == 0.0 && numbers.all(|it| it.fract() == 0.0);
        for [_, weight] in &mut self.nodes {
            *weight = weight.trunc() + 0.0;
        }
        if !is_whole {
            self.weights[0] = self.sum();
        }
        self.nodes
            .dedup_by(|next, last| next[1] == 0.0 && last[1] == 0.0);
        self.counts[1..3].copy_from_slice(&[self.nodes.len() as u64, 0]);
        self
    }

    /// Returns the sum of the weights of the nodes.
    fn sum(&self) -> f64 {
        self.nodes.iter().map(|node| node[1]).sum()
    }

    /// Returns whether commands could have made the digest: nodes that agree with its numbers.
    fn is_usual(&self) -> bool {
        let [Some(first), Some(last)] = [self.nodes.first(), self.nodes.last()] else {
            return false;
        };
        let total = self.weights[0];
        [first[0], last[0]] == [self.min, self.max]
            && self.nodes.iter().all(|node| node[1] > 0.0)
            && self.nodes.is_sorted_by(|one, next| one[0] <= next[0])
            && self.sum() == total
            && total < EXACT
    }
}

/// Asserts that a digest is legal.
fn check(object: &TDigest) {
    let stored = Stored::of(object);
    assert!(
        written(&reread(object)) == written(object),
        "the fields differ"
    );
    let compression = object.compression();
    assert_eq!(stored.compression, compression.as_double());
    assert_eq!(stored.counts[0], compression.stored_capacity());
    assert_eq!(stored.counts[1], stored.nodes.len() as u64);
    assert!(stored.counts[1] <= stored.counts[0]);
    let nodes = object.merged_nodes() + object.unmerged_nodes();
    assert_eq!(object.is_empty(), nodes == 0);
    assert_eq!(object.is_empty(), stored.nodes.is_empty());
    if object.is_empty() {
        assert!(object.min().is_nan() && object.max().is_nan());
        assert_eq!([stored.min, stored.max], [f64::MAX, f64::MIN]);
        assert_eq!(object.observations(), 0);
        return;
    }
    assert_eq!([stored.min, stored.max], [object.min(), object.max()]);
    assert!(stored.min <= stored.max && stored.min.is_finite() && stored.max.is_finite());
    for [mean, weight] in &stored.nodes {
        let rounding = (stored.max.abs() + stored.min.abs()) / 1e14;
        let is_within = stored.min - rounding <= *mean && *mean <= stored.max + rounding;
        assert!(is_within || *weight == 0.0 && *mean == 0.0, "{mean}");
        assert!(*weight >= 0.0 && weight.fract() == 0.0);
    }
    let (total, sum) = (stored.weights[0], stored.sum());
    if total < EXACT {
        // RedisBloom loses a lone observation.
        assert!(sum == total || sum + 1.0 == total, "{sum} of {total}");
        assert_eq!(object.observations() as f64, total);
    } else {
        assert!((sum / total - 1.0).abs() < 1e-6, "{sum} of {total}");
    }
}

/// Adds and merges, and replaces the digest by copies.
fn operate(mut object: TDigest, mut source: Source) {
    for _ in 0..30 {
        match source.byte() % 8 {
            0 => add(&mut object, &[value(&mut source)]),
            1 | 2 => {
                let (count, first, step) = (source.byte(), value(&mut source), value(&mut source));
                let values = (0..count).map(|index| first + f64::from(index) * step);
                add(&mut object, &values.collect::<Vec<_>>());
            }
            3 => object = merge(&object, &mut source),
            4 => object = reread(&object),
            5 => object.compress(),
            6 => {
                let before = state_of(&object);
                assert_eq!(object.relocate(0, &mut Moving(usize::MAX)), None);
                assert!(state_of(&object) == before, "the states differ");
            }
            _ => {
                let mut copy = object.try_clone().expect("there is memory");
                assert!(state_of(&copy) == state_of(&object), "the states differ");
                let is_new = object.is_empty() && object.compressions() == 0;
                assert_eq!(copy.reset(), !is_new);
                assert!(copy.is_empty() && !copy.reset());
            }
        }
        check(&object);
        answer(&object, &mut source);
        if source.0.is_empty() {
            break;
        }
    }
}

/// Reads a value to add: often a small one, sometimes any double.
fn value(source: &mut Source) -> f64 {
    let choice = source.byte();
    match choice {
        0 => f64::from_le_bytes(source.array()),
        1 => f64::MAX / f64::from(source.byte()),
        2 => f64::MIN / f64::from(source.byte()),
        _ => f64::from(choice.cast_signed()) / 4.0,
    }
}

/// Adds values in one call. Adding them one by one has the same outcome.
fn add(object: &mut TDigest, values: &[f64]) {
    let before = state_of(object);
    let (count, min, max) = (object.observations(), object.min(), object.max());
    let mut single = object.try_clone().expect("there is memory");
    match object.add_each(values) {
        Ok(()) => {
            for value in values {
                assert_eq!(single.add_each(&[*value]), Ok(()));
            }
            assert!(state_of(&single) == state_of(object), "the states differ");
            let added = i64::try_from(values.len()).expect("few");
            if count < 1 << 52 {
                assert_eq!(object.observations(), count + added);
            }
            // In an empty digest both are NaN, which the comparisons skip.
            assert_eq!(object.min(), values.iter().copied().fold(min, f64::min));
            assert_eq!(object.max(), values.iter().copied().fold(max, f64::max));
        }
        Err(refusal) => {
            let is_finite = values.iter().all(|value| value.is_finite());
            assert_eq!(refusal == Refusal::NotFinite, !is_finite);
            assert!(refusal != Refusal::Overflow || count > i64::MAX - 256);
            assert_ne!(refusal, Refusal::OutOfMemory);
            assert!(state_of(object) == before, "the states differ");
        }
    }
}

/// Returns a merger of the digest, of another one, and sometimes of the digest again.
fn merge(object: &TDigest, source: &mut Source) -> TDigest {
    let compression = |byte: u8| Compression::new(u64::from(byte) + 1).expect("in range");
    let mut other = TDigest::new(compression(source.byte()));
    add(&mut other, &[value(source), value(source)]);
    let into = compression(source.byte());
    let sources = &[object, &other, object][..2 + usize::from(source.byte() % 2)];
    let before = [object, &other].map(state_of);
    let merged = TDigest::merged(into, sources.iter().copied());
    assert!(
        [object, &other].map(state_of) == before,
        "the states differ"
    );
    let stored: Vec<_> = sources.iter().map(|source| Stored::of(source)).collect();
    let sum: f64 = stored.iter().map(Stored::sum).sum();
    let singles = stored.iter().flat_map(|source| &source.nodes);
    let merged = match merged {
        Ok(merged) => merged,
        Err(refusal) => {
            assert_eq!(refusal, Refusal::Overflow);
            assert!(sum > 9e18, "{sum}");
            return reread(object);
        }
    };
    check(&merged);
    assert_eq!(merged.compression(), into);
    if sum < EXACT {
        assert_eq!(merged.observations() as f64, sum);
    }
    if singles.clone().all(|node| node[1] == 1.0) && sources.len() == 2 {
        // Each source is added after a compression.
        let mut added = TDigest::new(into);
        for source in &stored {
            added.compress();
            let values: Vec<f64> = source.nodes.iter().map(|node| node[0]).collect();
            assert_eq!(added.add_each(&values), Ok(()));
        }
        assert!(state_of(&merged) == state_of(&added), "the states differ");
    }
    merged
}

/// Asserts that queries have the answers of a compressed copy and of the formulas, and change nothing.
fn answer(object: &TDigest, source: &mut Source) {
    let before = state_of(object);
    let copy = object.compressed_copy().expect("there is memory");
    let of_copy = copy.compressed().expect("there is memory");
    let (stored, of) = (
        Stored::of(&copy),
        object.compressed().expect("there is memory"),
    );
    let (quantile, value) = (f64::from(source.byte()) / 255.0, value(source));
    let means = stored.nodes.iter().map(|node| node[0]);
    let values = means.take(3).chain([value, object.min(), object.max()]);
    let values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    let ranks = [0, 1, source.byte().into(), i64::MAX.cast_unsigned()];
    let quantiles = [0.0, quantile, 0.5, 1.0];
    let answers = |of: Compressed| -> Vec<u64> {
        let doubles = quantiles.iter().map(|quantile| of.quantile(*quantile));
        let doubles = doubles.chain(values.iter().map(|value| of.cdf(*value)));
        let doubles = doubles.chain(ranks.iter().map(|rank| of.by_rank(*rank)));
        let doubles = doubles.chain(ranks.iter().map(|rank| of.by_reverse_rank(*rank)));
        let doubles = doubles.chain([of.trimmed_mean(quantile / 2.0, 0.5)]);
        doubles.map(f64::to_bits).collect()
    };
    assert_eq!(answers(of), answers(of));
    assert!(state_of(object) == before, "the states differ");
    if stored.weights[0] < EXACT {
        assert_eq!(answers(of), answers(of_copy));
    }
    if object.is_empty() {
        assert!(of.quantile(quantile).is_nan() && of.cdf(value).is_nan());
        assert_eq!([of.rank(value), of.reverse_rank(value)], [-2; 2]);
        return;
    }
    if stored.is_usual() {
        agree(of, &stored, &quantiles, &values, ranks);
        let (low, high) = (quantile / 2.0, 0.5);
        if low < high {
            require_or_finite(of.trimmed_mean(low, high), stored.trimmed_mean(low, high));
        }
    }
}

/// Asserts that answers are those of the formulas.
fn agree(of: Compressed, stored: &Stored, quantiles: &[f64], values: &[f64], ranks: [u64; 4]) {
    let (min, max, total) = (stored.min, stored.max, stored.weights[0]);
    for &quantile in quantiles {
        let own = of.quantile(quantile);
        assert!(min <= own && own <= max, "{own}");
        require_or_finite(own, stored.quantile(quantile));
    }
    for &value in values {
        let own = of.cdf(value);
        assert!((0.0..=1.0).contains(&own), "{own}");
        let expected = stored.cdf(value);
        require_or_finite(own, expected);
        if expected.is_finite() && min <= value && value <= max {
            let below = expected * total;
            let rank = below.trunc() + f64::from(u8::from(below.fract() > 0.5));
            assert_eq!(of.rank(value) as f64, rank);
            let above = (total - below.round()).round();
            assert_eq!(of.reverse_rank(value) as f64, above);
        }
    }
    for rank in ranks {
        let position = rank as f64;
        let (own, own_reverse) = (of.by_rank(rank), of.by_reverse_rank(rank));
        if position >= total {
            assert_eq!([own, own_reverse], [f64::INFINITY, f64::NEG_INFINITY]);
        } else if rank == 0 {
            assert_eq!([own, own_reverse], [min, max]);
        } else {
            require_or_finite(own, stored.by_rank(position));
            require_or_finite(own_reverse, stored.by_rank((total - position) - 1.0));
        }
    }
}

/// Requires the answer of a formula, or a finite one where the formula overflows or divides by zero.
#[track_caller]
fn require_or_finite(own: f64, formula: f64) {
    if formula.is_finite() {
        assert_eq!(own, formula);
    } else {
        assert!(own.is_finite(), "{own}");
    }
}

/// The formulas of the queries over all nodes, one after the other, for digests that commands could have made.
impl Stored {
    fn quantile(&self, quantile: f64) -> f64 {
        match &self.nodes[..] {
            [only] => only[0],
            _ => self.at(quantile * self.weights[0]),
        }
    }

    fn by_rank(&self, rank: f64) -> f64 {
        let target = rank / self.weights[0] * self.weights[0];
        match &self.nodes[..] {
            [only] => only[0],
            _ if target < 1.0 => self.min,
            _ => self.at(target),
        }
    }

    fn at(&self, target: f64) -> f64 {
        let total = self.weights[0];
        let ([_, first], [_, last]) = (self.nodes[0], self.nodes[self.nodes.len() - 1]);
        if first > 1.0 && target < first / 2.0 {
            return self.min;
        }
        if target > total - 1.0 || last > 1.0 && total - target <= last / 2.0 {
            return self.max;
        }
        let mut before = first / 2.0;
        for pair in self.nodes.windows(2) {
            let ([x, weight], [y, next]) = (pair[0], pair[1]);
            let gap = 0.5 * (weight + next);
            if before + gap > target {
                let (mut from, mut to) = (target - before, (before + gap) - target);
                if weight == 1.0 {
                    if from < 0.5 {
                        return x;
                    }
                    from -= 0.5;
                }
                if next == 1.0 {
                    if to <= 0.5 {
                        return y;
                    }
                    to -= 0.5;
                }
                let mean = (x * to + y * from) / (to + from);
                return if mean.is_finite() {
                    mean.min(y).max(x)
                } else {
                    mean
                };
            }
            before += gap;
        }
        self.max
    }

    fn cdf(&self, value: f64) -> f64 {
        let total = self.weights[0];
        if value < self.min {
            return 0.0;
        }
        if value > self.max {
            return 1.0;
        }
        if self.nodes.len() == 1 {
            return 0.5;
        }
        let mut before = 0.0;
        for (index, pair) in self.nodes.windows(2).enumerate() {
            let ([x, weight], [y, next]) = (pair[0], pair[1]);
            if x == value {
                let tied = self.nodes[index..].iter().take_while(|node| node[0] == x);
                let tied: f64 = tied.map(|node| node[1]).sum();
                return (before + tied / 2.0) / total;
            }
            if x <= value && value < y {
                if weight == 1.0 && next == 1.0 {
                    return (before + 1.0) / total;
                }
                let half = |weight: f64| if weight == 1.0 { 0.5 } else { 0.0 };
                let room = (0.5 * (weight + next) - half(weight)) - half(next);
                let base = (before + weight / 2.0) + half(weight);
                return (base + (room * (value - x)) / (y - x)) / total;
            }
            before += weight;
        }
        1.0 - 0.5 / total
    }

    fn trimmed_mean(&self, low: f64, high: f64) -> f64 {
        if let [only] = &self.nodes[..] {
            return only[0];
        }
        let total = self.weights[0];
        let (low, high) = ((total * low).floor(), (total * high).ceil());
        let (mut done, mut sum, mut count) = (0.0, 0.0, 0.0);
        for [mean, weight] in &self.nodes {
            let left = weight - (low - done).max(0.0).min(*weight);
            let share = (high - done).max(0.0).min(left);
            done += weight;
            sum += mean * share;
            count += share;
            if done >= high {
                break;
            }
        }
        sum / count
    }
}

/// Writes and reads a digest.
fn reread(object: &TDigest) -> TDigest {
    let stored = written(object);
    let mut from = Source(&stored);
    let read = wire::read_rdb(wire::RDB_VERSION, &mut from);
    assert!(from.0.is_empty(), "fields are left");
    read.expect("it reads what it wrote")
}

/// Returns the RDB fields in the format of a [`Source`].
fn written(object: &TDigest) -> Vec<u8> {
    forms::written(|to| wire::write_rdb(object, to))
}
