//! Unions of many random objects: they stay what they were when a digest of all of them was recorded, since a
//! merge is replicated as a command. And the work of a merge, whoever made the objects.

use crc::{CRC_64_REDIS, Crc};
use valkeybloom_sketches::bloom::{Limits, MergeError, Object, Shape, Time};
use valkeybloom_sketches::{Seed, work};

use crate::draft::{Draft, Link};
use crate::support::{
    ROOMY, Rng, counting, fields_of, filter, of_filters, params, scaled_to, tightening, windowed,
};

/// Returns a digest of many merges of objects that `make` makes, and of what was merged before: the outcomes, and how
/// many of them were unions, were nothing new, and were refused.
fn digest_of(rounds: u64, mut make: impl FnMut(&mut Rng, Seed) -> Object) -> (u64, [u32; 3]) {
    let crc = Crc::<u64>::new(&CRC_64_REDIS);
    let (mut digest, mut outcomes) = (crc.digest(), [0; 3]);
    for round in 0..rounds {
        let mut rng = Rng::new(round);
        let seed = rng.seed();
        let mut objects: Vec<_> = (0..5).map(|_| make(&mut rng, seed)).collect();
        for _ in 0..14 {
            let sources: Vec<_> = (0..2 + rng.below(3)).map(|_| rng.pick(&objects)).collect();
            let now_ms = (rng.below(2) == 0).then(|| rng.next() % 400);
            let object_bytes = *rng.pick(&[u64::MAX, u64::MAX, u64::MAX, 6_000]);
            let limits = Limits {
                object_bytes,
                ..ROOMY
            };
            match Object::union(&sources, now_ms, limits) {
                Ok(Some(union)) => {
                    // Those of tables depend on their history.
                    let memory_bytes = union.is_plain().then(|| union.memory_bytes());
                    let text = format!("{:?} {memory_bytes:?}", fields_of(&union));
                    digest.update(text.as_bytes());
                    let place = rng.below(objects.len());
                    objects[place] = union;
                    outcomes[0] += 1;
                }
                Ok(None) => {
                    digest.update(b"nothing new");
                    outcomes[1] += 1;
                }
                Err(error) => {
                    digest.update(format!("{error:?}").as_bytes());
                    outcomes[2] += 1;
                }
            }
        }
    }
    (digest.finalize(), outcomes)
}

/// Returns an object of items that others of its shape have as well, in time.
fn filled(shape: &Shape, rng: &mut Rng, seed: Seed, most: usize) -> Object {
    let mut now = 1_000_000 + rng.next() % 100;
    let mut object = Object::new(shape, seed, ROOMY).unwrap();
    let begin = rng.next() % 100;
    for number in 0..rng.below(most) as u64 {
        now += rng.next() % 4;
        object.tidy(now);
        let item = (begin + number + rng.next() % 3).to_le_bytes();
        let added = object.add(&item, Time::at(now), || Limits::NONE);
        added.unwrap();
        if shape.is_counting() && rng.below(5) == 0 {
            object.remove(&(begin + rng.next() % 50).to_le_bytes());
        }
    }
    object
}

#[test]
fn unions_of_plain_objects_stay_what_they_are() {
    let digest = digest_of(300, |rng, seed| {
        let (capacity, rate) = (*rng.pick(&[5, 20, 20, 100]), *rng.pick(&[0.2, 0.05, 0.01]));
        let mut params = params(capacity, rate, *rng.pick(&[0, 1, 1, 2]));
        params.tightening = tightening(*rng.pick(&[0.5, 0.5, 0.8]));
        filled(&Shape::plain(params), rng, seed, 200)
    });
    assert_eq!(digest, (14_371_290_391_110_992_250, [2200, 1527, 473]));
}

#[test]
fn unions_of_tables_stay_what_they_are() {
    let digest = digest_of(300, |rng, seed| {
        let (capacity, rate) = (*rng.pick(&[5, 20, 20, 100]), *rng.pick(&[0.05, 0.01]));
        let params = params(capacity, rate, *rng.pick(&[0, 1, 2]));
        // All five are of one kind.
        let shape = match seed.as_bytes()[0] % 3 {
            0 => windowed(params, 30, 9),
            1 => counting(params),
            _ => scaled_to(params),
        };
        filled(&shape, rng, seed, 200)
    });
    assert_eq!(digest, (1_998_365_223_269_006_322, [2677, 1523, 0]));
}

#[test]
fn unions_of_objects_of_redisbloom_stay_what_they_are() {
    let digest = digest_of(200, |rng, _| {
        let mut draft = Draft {
            version: 4,
            items: 0,
            options: 5,
            growth: 2,
            links: vec![Link::new(20, 0.05, 256, 0)],
        };
        let begin = rng.next() % 30;
        for number in 0..rng.next() % 80 {
            let newest = draft.links.last().unwrap();
            if newest.items >= newest.entries {
                let (entries, bits) = *rng.pick(&[(20, 256), (40, 600)]);
                draft.links.push(Link::new(entries, 0.05, bits, 0));
            }
            let newest = draft.links.last_mut().unwrap();
            newest.add(&(begin + number).to_le_bytes(), true);
            draft.items += 1;
        }
        draft.read().unwrap()
    });
    assert_eq!(digest, (5_433_035_709_947_633_495, [1624, 1176, 0]));
}

/// Bits per item of the filters made here, which are full with half of their bits set.
const BITS_PER_ITEM: usize = 24;

const HASHES: u32 = 16;

fn of_bitmaps(bitmaps: &[Vec<u8>]) -> Object {
    let filters = bitmaps.iter().map(|bitmap| {
        let items = (bitmap.len() * 8 / BITS_PER_ITEM) as u64;
        filter(HASHES, &Seed::new([7; 32]), items, bitmap.clone())
    });
    of_filters(1, filters.collect())
}

/// Merges two objects, if the second has anything new, and checks that this reads a small number of bytes.
#[track_caller]
fn merge(sources: [&Object; 2]) -> Result<Option<Object>, MergeError> {
    work::take();
    let union = Object::union(&sources, None, ROOMY);
    let work = work::take();
    let filters = sources.iter().flat_map(|object| object.filters());
    let cells: Vec<_> = filters
        .map(|(filter, _)| filter.geometry().cell_bytes)
        .collect();
    let bytes = 10 * cells.iter().sum::<u64>() + (4 << 20);
    assert!(work.bytes <= bytes, "{work:?} for {bytes} bytes");
    let looks = (1 << 20) + 128 * cells.len() as u64;
    assert!(work.steps <= looks, "{work:?} for {} filters", cells.len());
    union
}

/// Merges two objects, and then either again. Returns the union.
#[track_caller]
fn united(one: &Object, other: &Object) -> Object {
    let union = merge([one, other]).unwrap().expect("nothing new");
    for source in [one, other] {
        // A holder that is not found in time costs memory, or the merge is refused; but it costs no time.
        drop(merge([&union, source]));
    }
    union
}

/// Full filters of one size that are alike but for some bits of their last bytes.
#[test]
fn filters_that_differ_at_their_ends_are_merged_in_a_few_passes() {
    for (filters, bytes) in [(100, 66_000), (550, 12_000), (550, 60)] {
        let mut rng = Rng::new(7);
        let [one, other] = [(); 2].map(|()| {
            let mut bitmaps = vec![vec![0x55; bytes]; usize::try_from(filters).unwrap()];
            for byte in bitmaps
                .iter_mut()
                .flat_map(|bitmap| &mut bitmap[bytes - 40..])
            {
                *byte = *rng.pick(&[0x55, 0xaa]);
            }
            of_bitmaps(&bitmaps)
        });
        assert_eq!(united(&one, &other).totals().0, 2 * filters);
    }
}

/// Any two of these filters differ at a place of their own.
#[test]
fn filters_that_differ_anywhere_are_merged_in_a_few_passes() {
    for (filters, bytes, united_filters) in [(40, 40_000, 80), (100, 40_000, 102)] {
        let mut bitmaps = [(); 2].map(|()| vec![vec![0x55_u8; bytes]; filters]);
        for first in 0..filters {
            for second in 0..filters {
                // All filters of the first object but number `first` have this bit, and only number `second` of
                // the other's. Later pairs differ sooner.
                let number = filters * filters - 1 - (second * filters + first);
                let place = number * (bytes * 8 / filters / filters);
                let (byte, bit) = (place / 8, 1 << (place % 8));
                for (number, bitmap) in bitmaps[0].iter_mut().enumerate() {
                    bitmap[byte] = bitmap[byte] & !bit | if number == first { 0 } else { bit };
                }
                for (number, bitmap) in bitmaps[1].iter_mut().enumerate() {
                    bitmap[byte] = bitmap[byte] & !bit | if number == second { bit } else { 0 };
                }
            }
        }
        let [one, other] = bitmaps.map(|bitmaps| of_bitmaps(&bitmaps));
        // The second object's filters are laid over each other, where that leaves room.
        assert_eq!(united(&one, &other).totals().0, united_filters);
    }
}
