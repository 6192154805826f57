//! A random life: adds, removals, growth, compaction and reloads, against the rules written down once more.

use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Refusal};

use crate::support::{Moving, Rng};

use super::{add_each, assert_same, fields_of, has_each, object, read};
use crate::naive::Naive;

/// Through one of the stored forms, a copy or a move.
fn somewhere_else(mut object: Cuckoo, rng: &mut Rng) -> Cuckoo {
    match rng.below(4) {
        0 => read(fields_of(&object)).unwrap(),
        1 => object.try_clone().unwrap(),
        2 => {
            let header = wire::write_header(&object);
            let mut loaded = wire::begin(&header, &Limits::NONE).unwrap();
            for (cursor, chunk) in wire::chunks(&object) {
                // In two parts, the second one first.
                let (start, end) = chunk.split_at(rng.below(chunk.len()));
                for (cursor, part) in [(cursor, end), (cursor - end.len() as u64, start)] {
                    let written = wire::load(&mut loaded, cursor, part);
                    assert_eq!(written, Ok(!part.is_empty()));
                }
            }
            loaded
        }
        _ => {
            let (mut begin, mut steps) = (0, 0);
            let mut moving = Moving(rng.below(3));
            while let Some(next) = object.relocate(begin, &mut moving) {
                assert!(next > begin);
                begin = next;
                steps += 1;
                moving.0 = rng.below(3);
            }
            assert!(steps <= object.filters().len());
            object
        }
    }
}

#[test]
fn a_random_life_follows_the_rules() {
    let mut rng = Rng::new(71);
    let (mut most_filters, mut shrank, mut refused) = (0, 0, 0);
    for round in 0..60 {
        let size = *rng.pick(&[1, 2, 2, 3, 4, 8, 255]);
        let capacity = 2 * u64::from(size) + rng.next() % 300;
        let iterations = *rng.pick(&[1, 7, 20, 500]);
        let expansion = *rng.pick(&[0, 1, 1, 2, 3]);
        let mut naive = Naive::new(capacity, size.into(), iterations.into(), expansion.into());
        let mut object = object(capacity, size, iterations, expansion);
        let most = 1 + rng.below(8);
        let limits = Limits {
            filters: most as u64,
            ..Limits::NONE
        };
        let kinds = 1 + rng.below(800);
        // In turns it rather grows, and rather shrinks.
        for step in 0..1500 {
            let item = rng.below(kinds).to_string().into_bytes();
            let filters = object.filters().len();
            let growing = (step / 300 + round) % 2 == 0;
            match (rng.below(100), growing) {
                (0..60, true) | (0..30, false) => {
                    let before = naive.clone();
                    let unless_present = rng.below(2) == 0;
                    let many = if rng.below(20) == 0 { rng.below(90) } else { 0 };
                    let mut items = vec![item];
                    items.extend((0..many).map(|_| rng.below(kinds).to_string().into_bytes()));
                    let own = add_each(&mut object, &items, unless_present, limits);
                    for (item, own) in items.iter().zip(&own) {
                        let expected = match () {
                            () if unless_present && naive.has(item) => Ok(false),
                            () if naive.add(item, most) => Ok(true),
                            () if naive.expansion == 0 => Err(Refusal::Full),
                            () => Err(Refusal::MaxFilters),
                        };
                        assert_eq!(*own, expected);
                    }
                    if own.iter().all(Result::is_err) {
                        assert_eq!(naive, before, "what fails changes nothing");
                        refused += 1;
                    }
                    assert_eq!(own.len(), items.len());
                }
                (0..92, _) => assert_eq!(object.remove(&item), naive.remove(&item)),
                (92..96, _) => {
                    let before = naive.clone();
                    naive.compact(false);
                    assert_eq!(object.compact(), naive != before);
                }
                _ => object = somewhere_else(object, &mut rng),
            }
            shrank += usize::from(object.filters().len() < filters);
            most_filters = most_filters.max(filters);
            let asked = rng.below(kinds).to_string().into_bytes();
            assert_eq!(object.count(&asked), naive.count(&asked));
            assert_eq!(object.contains(&asked), naive.has(&asked));
            if step % 25 == 0 {
                assert_same(&object, &naive);
            }
        }
        assert_same(&object, &naive);
        let asked: Vec<_> = (0..2 * kinds).map(|n| n.to_string().into_bytes()).collect();
        let expected: Vec<_> = asked.iter().map(|item| naive.has(item)).collect();
        assert_eq!(has_each(&object, &asked), expected);
    }
    // All of it happened.
    assert!(most_filters >= 7, "{most_filters} filters");
    assert!(shrank > 20, "{shrank} times fewer filters");
    assert!(refused > 100, "{refused} times no room");
}

/// Batches prefetch in filters that do not fit the caches, and answer the same there.
#[test]
fn batches_on_large_filters_equal_single_calls() {
    let mut large = object(2 << 20, 2, 20, 1);
    let items: Vec<_> = (0..100_000_u32).map(u32::to_le_bytes).collect();
    let added = add_each(&mut large, &items, false, Limits::NONE);
    assert!(added.iter().all(|added| *added == Ok(true)));
    let asked: Vec<_> = (50_000..150_000_u32).map(u32::to_le_bytes).collect();
    let answers = has_each(&large, &asked);
    assert!(answers[..50_000].iter().all(|has| *has));
    // Some 2 * 2 slots of a twentieth are looked at for each.
    let false_positives = answers[50_000..].iter().filter(|has| **has).count();
    assert!(false_positives < 500, "{false_positives}");
    for (item, has) in asked.iter().zip(&answers) {
        assert_eq!(large.contains(item), *has);
    }
}
