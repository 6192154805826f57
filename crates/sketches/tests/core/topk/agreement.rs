//! Sketches of the same items agree whatever chance decides, and those of other items don't.

use valkeybloom_sketches::topk::TopK;

use crate::support::Rng;

use super::{Drawn, sketch};

/// Returns a sketch of a stream, drawn with a seed.
fn of_stream(shape: (u64, u64, u64, f64), items: &[usize], seed: u64) -> TopK {
    let (k, width, depth, decay) = shape;
    let mut object = sketch(k, width, depth, decay);
    let mut chance = Drawn(Rng::new(seed));
    for item in items {
        let item = format!("item {item}");
        object
            .add_by(&mut chance, item.as_bytes(), 1, || u64::MAX)
            .unwrap();
    }
    object
}

/// Returns a stream; five items are half of it.
fn stream(length: usize, others: usize) -> Vec<usize> {
    let mut rng = Rng::new(others as u64);
    let item = |_| match rng.below(2) {
        0 => rng.below(5),
        _ => 5 + rng.below(others),
    };
    (0..length).map(item).collect()
}

/// Rows with room, where items have cells of their own, and crowded ones. A change that a sketch can show is found: one
/// more addition where counts are certain, else the loss of the frequent items, and other items anywhere.
#[test]
fn chance_is_told_from_changes() {
    for (shape, items, is_crowded) in [
        ((10, 1000, 5, 0.9), 100, false),
        ((10, 2000, 7, 0.5), 300, false),
        ((50, 300, 5, 0.9), 5000, true),
        ((20, 100, 3, 0.99), 1000, true),
        ((5, 20, 4, 0.5), 1000, true),
    ] {
        let stream = stream(20_000, items);
        let one = of_stream(shape, &stream, 1);
        for seed in 2..12 {
            let other = of_stream(shape, &stream, seed);
            assert!(one.agrees_with(&other), "{shape:?} {seed}");
        }
        let more = [&stream[..], &[0]].concat();
        let more = of_stream(shape, &more, 2);
        assert_eq!(one.agrees_with(&more), is_crowded, "{shape:?}");
        let mut lacking = stream.clone();
        lacking.retain(|item| *item >= 5);
        let others: Vec<usize> = stream.iter().map(|item| item + items + 5).collect();
        for changed in [lacking, others] {
            assert!(
                !one.agrees_with(&of_stream(shape, &changed, 2)),
                "{shape:?}"
            );
        }
    }
}

/// Nothing is left to chance, or too little is left to tell.
#[test]
fn certain_and_shallow_sketches_are_compared_as_far_as_they_can() {
    let stream = stream(2000, 500);
    for (shape, agrees) in [((5, 20, 4, 1.0), false), ((10, 8, 1, 0.9), true)] {
        let one = of_stream(shape, &stream, 1);
        let other = of_stream(shape, &[&stream[..], &[0]].concat(), 2);
        assert_eq!(one.agrees_with(&other), agrees, "{shape:?}");
    }
    let [one, wider] = [20, 21].map(|width| of_stream((5, width, 4, 0.9), &stream, 1));
    assert!(!one.agrees_with(&wider));
}
