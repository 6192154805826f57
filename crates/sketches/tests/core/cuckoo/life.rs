//! A random life: adds, removals, growth, compaction and reloads, against the rules written down once more.

use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Refusal};

use crate::support::{Moving, Rng};

use super::{add_each, assert_same, fields_of, fill, has_each, loaded, object, read, up_to};
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
                    assert_eq!(written.is_ok(), !part.is_empty());
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

/// The events that occurred, so that tests can assert their coverage.
#[derive(Default)]
struct Seen {
    most_filters: usize,
    shrank: usize,
    refused: usize,
}

/// Adds items to up to `most` filters. Returns whether all were refused.
fn add_to_both(
    object: &mut Cuckoo,
    naive: &mut Naive,
    items: &[Vec<u8>],
    unless_present: bool,
    most: usize,
) -> bool {
    let before = naive.clone();
    let own = add_each(object, items, unless_present, up_to(most as u64));
    for (item, own) in items.iter().zip(&own) {
        let expected = match () {
            () if unless_present && naive.has(item) => Ok(false),
            () if naive.add(item, most) => Ok(true),
            () if naive.expansion == 0 => Err(Refusal::Full),
            () => Err(Refusal::MaxFilters),
        };
        assert_eq!(*own, expected);
    }
    assert_eq!(own.len(), items.len());
    let is_refused = own.iter().all(Result::is_err);
    assert!(
        !is_refused || *naive == before,
        "what fails changes nothing"
    );
    is_refused
}

/// Applies `steps` random operations to `kinds` different items, with at most `most` filters. The object mostly grows and
/// mostly shrinks in turns.
fn live(
    mut object: Cuckoo,
    mut naive: Naive,
    [most, kinds, steps]: [usize; 3],
    seen: &mut Seen,
    rng: &mut Rng,
) {
    let turn = rng.below(2);
    for step in 0..steps {
        let item = rng.below(kinds).to_string().into_bytes();
        let filters = object.filters().len();
        let growing = (step / 300 + turn).is_multiple_of(2);
        match (rng.below(100), growing) {
            (0..60, true) | (0..30, false) => {
                let unless_present = rng.below(2) == 0;
                let many = if rng.below(20) == 0 { rng.below(90) } else { 0 };
                let mut items = vec![item];
                items.extend((0..many).map(|_| rng.below(kinds).to_string().into_bytes()));
                let is_refused = add_to_both(&mut object, &mut naive, &items, unless_present, most);
                seen.refused += usize::from(is_refused);
            }
            (0..92, _) => assert_eq!(object.remove(&item), naive.remove(&item)),
            (92..93, _) => {
                // Over what is there, so that the number of items stays right.
                let number = rng.below(filters);
                let slot = rng.below(naive.filters[number].len());
                let before: usize = naive.filters[..number].iter().map(Vec::len).sum();
                let byte = &mut naive.filters[number][slot];
                *byte = u8::try_from(1 + rng.below(255)).unwrap() * u8::from(*byte > 0);
                let end = 2 + (before + slot) as u64;
                assert_eq!(wire::load(&mut object, end, &[*byte]), Ok(()));
            }
            (93..97, _) if filters < 9 || step % 20 == 0 => {
                let before = naive.clone();
                naive.compact(false);
                assert_eq!(object.compact(), naive != before);
            }
            _ => object = somewhere_else(object, rng),
        }
        seen.shrank += usize::from(object.filters().len() < filters);
        seen.most_filters = seen.most_filters.max(filters);
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

#[test]
fn a_random_life_follows_the_rules() {
    let (mut rng, mut seen) = (Rng::new(71), Seen::default());
    for _ in 0..120 {
        let size = *rng.pick(&[1, 2, 2, 3, 4, 8, 255]);
        let capacity = 2 * u64::from(size) + rng.next() % 300;
        let iterations = *rng.pick(&[1, 7, 20, 500]);
        let expansion = *rng.pick(&[0, 1, 1, 2, 3]);
        let naive = Naive::new(capacity, size.into(), iterations.into(), expansion.into());
        let object = object(capacity, size, iterations, expansion);
        let most = 1 + rng.below(8);
        let kinds = 1 + rng.below(800);
        live(object, naive, [most, kinds, 1500], &mut seen, &mut rng);
    }
    // All of it happened.
    assert!(seen.most_filters >= 7, "{} filters", seen.most_filters);
    assert!(seen.shrank > 20, "{} times fewer filters", seen.shrank);
    assert!(seen.refused > 100, "{} times no room", seen.refused);
}

/// Beyond the filters that are searched one by one.
#[test]
fn a_deep_life_follows_the_rules() {
    let (mut rng, mut seen) = (Rng::new(76), Seen::default());
    for _ in 0..12 {
        let size = *rng.pick(&[1_u8, 2, 3, 17]);
        let capacity = u64::from(size) << rng.below(3);
        let mut naive = Naive::new(capacity, size.into(), 20, 1);
        // Just before summaries, just after, or far after.
        let few_or_many = [[254, 257, 520, 700], [30, 33, 70, 100]];
        let filters = *rng.pick(&few_or_many[usize::from(size > 16)]);
        let empty = naive.filters[0].clone();
        naive.filters.resize(filters, empty);
        let chance = 250 * rng.below(4);
        fill(&mut naive, &mut rng, |_| chance);
        live(loaded(&naive), naive, [2000, 300, 600], &mut seen, &mut rng);
    }
    assert!(seen.most_filters > 512, "{} filters", seen.most_filters);
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
