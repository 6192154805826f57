//! Random lives: adds, answers, reloads, copies and moves, against the rules written down once more.

use valkeybloom_sketches::topk::TopK;

use crate::support::{Rng, Weighing, at_each_width};

use super::naive::Naive;
use super::{Drawn, add, fields_of, ranking, read, sketch};

/// Through the stored form, a copy or a move.
fn somewhere_else(mut object: TopK, rng: &mut Rng) -> TopK {
    match rng.below(3) {
        0 => read(fields_of(&object)).unwrap(),
        1 => object.try_clone().unwrap(),
        _ => {
            let bytes = object.memory_bytes() - TopK::BASE_BYTES;
            let (mut next, mut moving) = (Some(0), Weighing::default());
            while let Some(step) = next {
                next = object.relocate(step, &mut moving);
            }
            assert_eq!(moving.bytes, bytes, "every allocation moves once");
            object
        }
    }
}

#[track_caller]
fn assert_same(object: &TopK, naive: &Naive) {
    let cells = naive.rows.iter().flatten();
    let cells: Vec<u8> = cells
        .flat_map(|(fingerprint, count)| [*fingerprint, *count].map(u32::to_le_bytes))
        .flatten()
        .collect();
    assert!(object.cells() == cells, "other cells");
    let own = object.entries();
    assert_eq!(own.len(), naive.heap.len());
    for ((count, item), entry) in own.zip(&naive.heap) {
        assert_eq!(count, entry.count);
        let expected = entry.item.as_deref().map(|item| (entry.fingerprint, item));
        assert_eq!(item, expected);
    }
    assert_eq!(ranking(object), naive.ranking());
    assert_eq!(object.listed() as usize, naive.ranking().len());
}

/// Returns an item of a stream that has few frequent items. Some items differ only after a zero byte.
fn item(rng: &mut Rng, most: usize) -> Vec<u8> {
    let below = 1 + rng.below(most);
    let number = rng.below(below);
    match number {
        0 => Vec::new(),
        number if number % 7 == 0 => format!("\0{number}").into_bytes(),
        number if number % 5 == 0 => [&b"prefix\0"[..], &number.to_le_bytes()].concat(),
        number => number.to_string().into_bytes(),
    }
}

#[test]
fn random_lives_follow_the_rules() {
    let shapes = [
        (1, 1, 1, 0.9),
        (2, 3, 1, 0.5),
        (3, 8, 7, 0.9),
        (5, 20, 8, 0.99),
        (16, 40, 15, 0.9),
        (31, 10, 2, 1.0),
        (600, 50, 4, 0.9),
        (700, 100, 17, 0.7),
        (50, 30, 64, 0.9),
        (10, 20, 130, 0.9),
        (10, 4, 3, 1e-300),
    ];
    at_each_width(|_| {
        for (number, (k, width, depth, decay)) in shapes.into_iter().enumerate() {
            let mut rng = Rng::new(number as u64);
            let draws = 1000 + number as u64;
            let (mut chance, mut naive_chance) = (Drawn(Rng::new(draws)), Rng::new(draws));
            let mut object = sketch(k as u64, u64::from(width), depth as u64, decay);
            let mut naive = Naive::new(k, width, depth, decay);
            for step in 0..3000 {
                let item = item(&mut rng, 4 * k);
                let increment = match rng.below(10) {
                    0 => 0,
                    1 => u32::try_from(rng.below(40)).unwrap(),
                    _ => 1,
                };
                let before = (step % 16 == 0).then(|| fields_of(&object));
                let added = object.add_by(&mut chance, &item, increment, || u64::MAX);
                let added = added.unwrap();
                let left = naive.add(&item, increment, &mut naive_chance);
                assert_eq!(added.left.as_deref(), left.as_deref(), "{number} {step}");
                if let Some(before) = before {
                    let is_other = fields_of(&object) != before;
                    assert_eq!(added.changed, is_other, "{number} {step}");
                }
                assert_eq!(object.contains(&item), naive.contains(&item));
                assert_eq!(object.count(&item), naive.count(&item));
                if step % 100 == 0 {
                    assert_same(&object, &naive);
                    object = somewhere_else(object, &mut rng);
                    assert_same(&object, &naive);
                }
            }
            assert_same(&object, &naive);
            // Both made the same number of draws.
            assert_eq!(super::draw(&mut chance.0), super::draw(&mut naive_chance));
        }
    });
}

#[test]
fn equal_sketches_have_equal_chance() {
    let mut rng = Rng::new(3);
    let mut one = sketch(4, 5, 3, 0.9);
    let mut other = sketch(4, 5, 3, 0.9);
    for _ in 0..2000 {
        let item = item(&mut rng, 50);
        let increment = *rng.pick(&[1, 1, 1, 3, 20]);
        let [left, same] = [&mut one, &mut other].map(|it| add(it, &item, increment));
        assert_eq!(left, same);
        if rng.below(10) == 0 {
            other = somewhere_else(other, &mut rng);
        }
        assert!(fields_of(&one) == fields_of(&other));
    }
    assert!(one.collisions() > 1000);
}

/// The memory that is counted is that of the parts: everything is allocated with exact sizes.
#[test]
fn memory_grows_with_the_list() {
    let empty = sketch(2000, 20_000, 3, 0.9);
    let full_bytes = TopK::bytes_of(empty.shape());
    assert!(empty.memory_bytes() < full_bytes);
    let mut object = empty.try_clone().unwrap();
    assert_eq!(object.memory_bytes(), empty.memory_bytes());
    let mut bytes = 0;
    for number in 0..3000_u64 {
        let item = vec![7; usize::try_from(number % 50).unwrap()];
        let item = [&number.to_le_bytes(), &item[..]].concat();
        bytes += item.len();
        let left = add(&mut object, &item, 100_000);
        bytes -= left.map_or(0, |left| left.len());
    }
    let in_list = object.entries().filter_map(|(_, item)| Some(item?.1.len()));
    assert_eq!(bytes, in_list.sum::<usize>());
    assert_eq!(object.listed(), 2000);
    assert_eq!(object.memory_bytes(), full_bytes + bytes as u64);
    let read = read(fields_of(&object)).unwrap();
    assert_eq!(read.memory_bytes(), object.memory_bytes());
}

/// RedisBloom replied with these counts to the same increments, in steps of at most 100,000.
#[test]
fn counts_begin_again_at_zero() {
    let mut object = sketch(2, 100, 2, 0.9);
    for (item, increment) in [(b"a", u32::MAX), (b"a", 1), (b"b", 3), (b"a", 100_000)] {
        assert_eq!(add(&mut object, item, increment), None);
    }
    let listed = [(b"a".to_vec(), 100_000), (b"b".to_vec(), 3)];
    assert_eq!(ranking(&object), listed);
    assert_eq!(object.count(b"a"), 100_000);
}
