//! Items chosen by attackers who know the seed of an object: they spoil its rate, and no rate of a random seed.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::Object;

use crate::support::{Rng, add_new, bitmaps, filters, has, object, params};

const CAPACITY: usize = 1000;

/// Returns an object with the seed that the attackers know, and one with another seed. Neither grows.
fn pair() -> [Object; 2] {
    let params = params(CAPACITY as u64, 0.01, 0);
    [Seed::FIXED, Rng::new(1).seed()].map(|seed| object(&params, seed))
}

fn named(name: &str) -> impl Iterator<Item = String> {
    (0_u32..).map(move |number| format!("{name}-{number}"))
}

/// Returns the number of items that an object claims.
fn claimed(object: &Object, items: &[String]) -> usize {
    let claimed = items.iter().filter(|item| has(object, item.as_bytes()));
    claimed.count()
}

#[test]
fn a_thousand_chosen_items_raise_the_rate_tenfold() {
    let [mut known, mut random] = pair();
    let hashes = filters(&known)[0].geometry().hashes;
    // Three bits in ten are free at the end: some thousands of tries find an item for them.
    let mut candidates = named("chosen");
    for _ in 0..CAPACITY {
        let bits = bitmaps(&known);
        let item = candidates.find(|item| {
            let [mut alone, _] = pair();
            add_new(&mut alone, item.as_bytes());
            let own = bitmaps(&alone);
            let is_apart = own.iter().zip(&bits).all(|(own, bits)| own & bits == 0);
            is_apart && own.iter().map(|bits| bits.count_ones()).sum::<u32>() == hashes
        });
        let item = item.expect("there is no end");
        assert!(add_new(&mut known, item.as_bytes()), "{item}");
        add_new(&mut random, item.as_bytes());
    }
    let strangers: Vec<String> = named("stranger").take(50_000).collect();
    // docs/operating.md says 11 %.
    let spoiled = claimed(&known, &strangers);
    assert!((5_250..5_750).contains(&spoiled), "{spoiled}");
    let kept = claimed(&random, &strangers);
    assert!(kept < 600, "{kept}");
}
