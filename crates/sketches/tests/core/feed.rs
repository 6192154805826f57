//! The feed of an object's new items: against a list of all of them, and as what makes a copy equal its object.

use std::collections::VecDeque;

use valkeybloom_sketches::bloom::{Added, Limits, New, Object, Shape, Time, dump};
use valkeybloom_sketches::{Cursor, Feed, Hasher, Lost, Probe, Seed};

use crate::support::{Rng, bitmaps, of_valkey_bloom, params, tightened};

fn probe(number: u64) -> Probe {
    Hasher::Sip(Seed::FIXED).probe(&number.to_le_bytes())
}

const fn at(feed: u64, sequence: u64) -> Cursor {
    Cursor { feed, sequence }
}

/// Returns the items of a feed from a cursor on, as a reader understands their bytes.
fn since(feed: &Feed, cursor: Cursor) -> Result<Vec<Probe>, Lost> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let items = feed.since(cursor)?.concat();
    let pairs = items.iter().map(|item| item.split_at(8));
    Ok(pairs
        .map(|(a, b)| Probe::from_hashes(word(a), word(b)))
        .collect())
}

#[test]
fn a_feed_holds_the_last_items_of_a_list() {
    for most in [0, 1, 15, 16, 31, 32, 1000, 1024, 4096, 100_000] {
        let mut feed = Feed::new(7, 0);
        let mut all = Vec::new();
        for number in 0..3000 {
            feed.push(probe(number), || most);
            all.push(probe(number));
            // The largest power of two that fits.
            let fits = (most / 16).checked_ilog2().map_or(0, |log| 1 << log);
            let held = all.len().min(fits);
            let from = |sequence: usize| since(&feed, at(7, sequence as u64));
            let oldest = all.len() - held;
            assert_eq!(from(oldest), Ok(all[oldest..].to_vec()));
            assert_eq!(from(all.len()), Ok(vec![]));
            assert_eq!(from(all.len() + 1), Err(Lost::Unknown));
            if oldest > 0 {
                assert_eq!(from(oldest - 1), Err(Lost::Overrun), "{most}");
                assert_eq!(from(0), Err(Lost::Overrun));
            }
            assert!(feed.ring_bytes() <= most);
        }
        assert_eq!(feed.end().sequence, 3000);
    }
}

#[test]
fn a_ring_grows_from_small_and_shrinks_to_fit() {
    let mut feed = Feed::new(1, 0);
    assert_eq!(feed.ring_bytes(), 0);
    let mut sizes = Vec::new();
    for number in 0..1024 {
        feed.push(probe(number), || 1 << 14);
        sizes.push(feed.ring_bytes());
    }
    sizes.dedup();
    assert_eq!(sizes, [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14]);
    let held = |feed: &Feed| {
        let sequences = (0..=feed.end().sequence).rev();
        let known = sequences.take_while(|sequence| feed.since(at(1, *sequence)).is_ok());
        known.count() - 1
    };
    assert_eq!(held(&feed), 1024);
    for (most, items) in [(1 << 14, 1024), (5000, 256), (16, 1), (15, 0)] {
        feed.fit(most);
        assert_eq!((feed.ring_bytes(), held(&feed) as u64), (items * 16, items));
    }
    feed.push(probe(0), || 0);
    assert_eq!((feed.end().sequence, held(&feed)), (1025, 0));
}

/// The ring may be shrunk at any time: what it holds is always the end of the list.
#[test]
fn limits_may_change_between_items() {
    let mut feed = Feed::new(3, 0);
    let mut last = VecDeque::new();
    let mut rng = Rng::new(12345);
    for number in 0..20_000 {
        let most = rng.next() % 4096;
        if rng.below(2) == 0 {
            let most_items = *rng.pick(&[1, 150]);
            let count = 1 + rng.next() % most_items;
            for probe in (0..count).map(|i| probe(number << 32 | i)) {
                feed.push(probe, || most);
                last.push_back(probe);
            }
        } else {
            feed.fit(most);
            assert!(feed.ring_bytes() <= most);
        }
        let mut sequences = (0..=feed.end().sequence).rev();
        let overrun = sequences.find(|sequence| feed.since(at(3, *sequence)).is_err());
        let items = since(&feed, at(3, overrun.map_or(0, |it| it + 1))).unwrap();
        assert!(items.iter().rev().eq(last.iter().rev().take(items.len())));
        assert!(items.len() as u64 * 16 <= feed.ring_bytes());
    }
}

#[test]
fn a_cursor_is_one_of_its_feed() {
    let mut feed = Feed::new(0xab, 0);
    feed.push(probe(1), || 1024);
    assert_eq!(feed.end().to_string(), "00000000000000ab-1");
    assert_eq!(feed.since(at(0xac, 1)).map(drop), Err(Lost::Unknown));
    let (a, b) = probe(9).hashes();
    assert_eq!(Probe::from_hashes(a, b), probe(9));
}

/// The same new items in the same order stack the same filters and set the same bits.
#[test]
fn a_copy_that_adds_the_items_of_the_feed_becomes_the_object() {
    let params = params(50, 0.05, 2);
    let like_valkey_bloom = tightened(of_valkey_bloom(0.5), params);
    let kinds = [
        New::Own(Shape::plain(params)),
        New::Own(Shape::plain(like_valkey_bloom)),
        New::RedisBloom { params, factor: 2 },
    ];
    for new in kinds {
        let make = || Object::make(&new, Seed::FIXED, Limits::NONE).unwrap();
        let (mut object, mut copy, mut feed) = (make(), make(), Feed::new(1, 0));
        let mut cursor = feed.end();
        for batch in 0..40_u64 {
            // Every third item is there already.
            let items: Vec<_> = (0..70).map(|i| (batch * 50 + i) / 3 * 2 + i % 2).collect();
            let items: Vec<_> = items.iter().map(|item| item.to_le_bytes()).collect();
            let given = items.iter().map(|item| &item[..]);
            object.add_each_probed(
                given,
                || Limits::NONE,
                |_| {},
                |new| feed.push(new, || 1 << 12),
            );
            for probe in since(&feed, cursor).unwrap() {
                let added = copy.add_probe(probe, Time::default(), || Limits::NONE);
                assert_eq!(added, Ok(Added::New));
            }
            cursor = feed.end();
            assert_eq!(copy.totals(), object.totals());
            assert!(bitmaps(&copy) == bitmaps(&object));
            assert_eq!(dump::encode(&copy), dump::encode(&object));
        }
        assert!(object.filter_count() > 3, "it grew");
    }
}
