//! The order of nodes with equal means: that of the sort of `RedisBloom` up to 8.10, which decides which of them merge.
//! The sort of `RedisBloom` 8.12 leaves another one.

use valkeybloom_sketches::tdigest::Compression;

use super::{Node, fields, fields_of, read};
use crate::support::{Field, Rng};

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
        let nodes = (0..merged).map(|_| (mean(&mut rng), weight(&mut rng)));
        let mut nodes: Vec<Node> = nodes.collect();
        nodes.sort_by(|one, next| one.0.partial_cmp(&next.0).unwrap());
        let values: Vec<f64> = (0..added).map(|_| mean(&mut rng)).collect();
        let ends = [nodes[0].0, nodes[nodes.len() - 1].0];
        let mut digest = read(fields(Compression::MAX, ends, &nodes)).unwrap();
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
