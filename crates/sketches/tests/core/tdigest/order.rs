//! The order of nodes with equal means: that of the sort of `RedisBloom` up to 8.10, which decides which of them merge.
//! The sort of `RedisBloom` 8.12 leaves another one.

use std::f64::consts::TAU;

use valkeybloom_sketches::RdbWrite;
use valkeybloom_sketches::tdigest::{Compression, TDigest};

use super::streams::{REPEATING, shuffled};
use super::{fields_of, read};
use crate::support::{Field, Rng, Stream};

/// A mean and its weight.
type Node = (f64, f64);

/// Sorts as `RedisBloom` up to 8.10 does, without any shortcut.
fn sort_plainly(nodes: &mut [Node]) {
    match nodes {
        [] | [_] => {}
        [one, next] => {
            if one.0 > next.0 {
                std::mem::swap(one, next);
            }
        }
        _ => {
            let last = nodes.len() - 1;
            nodes.swap(last / 2, last);
            let (pivot, mut place) = (nodes[last].0, 0);
            for index in 0..last {
                if nodes[index].0 < pivot {
                    nodes.swap(place, index);
                    place += 1;
                }
            }
            nodes.swap(place, last);
            let (below, above) = nodes.split_at_mut(place);
            sort_plainly(below);
            sort_plainly(&mut above[1..]);
        }
    }
}

/// Sorts as `RedisBloom` 8.12 does, unless an order is made to slow it down: by the median of three, into three parts.
fn sort_newly(nodes: &mut [Node]) {
    let Some(last) = nodes.len().checked_sub(1) else {
        return;
    };
    if last < 17 {
        // Insertion is stable.
        nodes.sort_by(|one, next| one.0.partial_cmp(&next.0).unwrap());
        return;
    }
    let middle = last / 2;
    for (one, other) in [(0, middle), (0, last), (middle, last)] {
        if nodes[other].0 < nodes[one].0 {
            nodes.swap(one, other);
        }
    }
    let pivot = nodes[middle].0;
    let (mut begin, mut index, mut end) = (0, 0, last);
    while index <= end {
        if nodes[index].0 < pivot {
            nodes.swap(begin, index);
            (begin, index) = (begin + 1, index + 1);
        } else if pivot < nodes[index].0 {
            nodes.swap(index, end);
            end -= 1;
        } else {
            index += 1;
        }
    }
    sort_newly(&mut nodes[..begin]);
    sort_newly(&mut nodes[end + 1..]);
}

/// Returns the nodes of a digest of values, whose nodes are sorted in a certain way.
fn digest(compression: Compression, values: &[f64], sort: fn(&mut [Node])) -> Vec<Node> {
    let room = usize::try_from(compression.stored_capacity()).unwrap() - 1;
    let mut nodes: Vec<Node> = Vec::new();
    for value in values {
        if nodes.len() == room {
            compress(&mut nodes, compression, sort);
        }
        nodes.push((*value, 1.0));
    }
    compress(&mut nodes, compression, sort);
    nodes
}

fn compress(nodes: &mut Vec<Node>, compression: Compression, sort: fn(&mut [Node])) {
    sort(nodes);
    let total: f64 = nodes.iter().map(|node| node.1).sum();
    let normalizer = compression.as_double() / (TAU * total * libm::log(total));
    let limit = |weight: f64| weight / total * (1.0 - weight / total);
    let mut before = 0.0;
    nodes.dedup_by(|next, last| {
        let weight = last.1 + next.1;
        let size = weight * normalizer;
        let is_merged = size <= limit(before) && size <= limit(before + weight);
        if is_merged {
            *last = (last.0 + (next.0 - last.0) * next.1 / weight, weight);
        } else {
            before += last.1;
        }
        is_merged
    });
}

/// The fields of a compressed digest with these nodes.
fn fields(compression: Compression, nodes: &[Node]) -> Stream {
    let weights = nodes.iter().map(|node| node.1);
    let mut fields = Stream::default();
    fields.double(compression.as_double());
    fields.double(nodes[0].0);
    fields.double(nodes[nodes.len() - 1].0);
    fields.uint(compression.stored_capacity());
    fields.uint(nodes.len() as u64);
    fields.uint(0);
    fields.uint(0);
    fields.double(weights.clone().sum());
    fields.double(0.0);
    for number in nodes.iter().map(|node| node.0).chain(weights) {
        fields.double(number);
    }
    fields
}

#[test]
fn equal_means_are_in_the_order_of_the_plain_algorithm() {
    let mut rng = Rng::new(35);
    for _ in 0..10_000 {
        let (means, weights) = (1 + rng.below(300), 1 + rng.below(3));
        let mean = |rng: &mut Rng| match rng.below(means) {
            0 => -0.0,
            mean => f64::from(u32::try_from(mean).unwrap() - 1),
        };
        let weight = |rng: &mut Rng| f64::from(u32::try_from(1 + rng.below(weights)).unwrap());
        let (merged, added) = (1 + rng.below(100), 1 + rng.below(100));
        let mut nodes: Vec<Node> = (0..merged)
            .map(|_| (mean(&mut rng), weight(&mut rng)))
            .collect();
        nodes.sort_by(|one, next| one.0.partial_cmp(&next.0).unwrap());
        let values: Vec<f64> = (0..added).map(|_| mean(&mut rng)).collect();
        let mut digest = read(fields(Compression::MAX, &nodes)).unwrap();
        digest.add_each(&values).unwrap();
        nodes.extend(values.iter().map(|value| (*value, 1.0)));
        sort_plainly(&mut nodes);
        let stored = fields_of(&digest).0;
        let bits = |field: &Field| match field {
            Field::Double(number) => number.to_bits(),
            other => panic!("{other:?} is not a double"),
        };
        let stored: Vec<u64> = stored.iter().skip(9).map(bits).collect();
        let means = nodes.iter().map(|node| node.0.to_bits());
        let weights = nodes.iter().map(|node| node.1.to_bits());
        assert_eq!(stored, means.chain(weights).collect::<Vec<_>>());
    }
}

/// Digests whose equal means are in either order agree.
#[test]
fn both_orders_make_digests_that_agree() {
    let mut differing = 0;
    for compression in [10, 100, 500] {
        let compression = Compression::new(compression).unwrap();
        for (name, value) in REPEATING {
            let shares = (0..20_000).map(|number| f64::from(number) / 20_000.0);
            let values = shuffled(shares.map(value).collect());
            let mut own = TDigest::new(compression);
            own.add_each(&values).unwrap();
            own.compress();
            let [older, newer] = [sort_plainly, sort_newly].map(|sort| {
                read(fields(compression, &digest(compression, &values, sort))).unwrap()
            });
            let nodes = |digest: &TDigest| fields_of(digest).0.split_off(9);
            assert_eq!(nodes(&older), nodes(&own), "{name}");
            differing += u32::from(nodes(&newer) != nodes(&own));
            assert_eq!(newer.agrees_with(&own), Some(true), "{name}");
        }
    }
    assert!(differing > 0);
}
