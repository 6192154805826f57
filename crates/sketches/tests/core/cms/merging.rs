//! Weighted sums of sketches, beside the naive model.

use valkeybloom_sketches::cms::{CellSize, CountMin, MergeError, Overflow, Term};
use valkeybloom_sketches::work;
use valkeybloom_testing::count_min::Naive;

use crate::support::{Field, Rng};

use super::{assert_equal, fields_of, read, sketch};

/// Returns a sketch with these counters, and the same in the model.
fn pair(counters: &[u64], count: u64, size: CellSize) -> (CountMin, Naive) {
    let bytes = usize::try_from(size.bytes()).unwrap();
    let fields = fields_of(&sketch(counters.len() as u64, 1, size));
    let table = counters
        .iter()
        .flat_map(|c| c.to_le_bytes()[..bytes].to_vec());
    let fields = fields.with(2, Field::Uint(count));
    let fields = fields.with(3, Field::Bytes(table.collect()));
    let mut naive = Naive::new(counters.len(), 1, size.bytes());
    naive.rows = vec![counters.iter().map(|c| i128::from(*c)).collect()];
    naive.count = count.into();
    (read(0, fields).unwrap(), naive)
}

fn terms<'s>(sources: &'s [(CountMin, Naive)], picked: &[(usize, i64)]) -> Vec<Term<'s>> {
    let term = |(index, weight): &(usize, i64)| Term {
        source: &sources[*index].0,
        weight: *weight,
    };
    picked.iter().map(term).collect()
}

/// Merges by both rules, and returns what came of it with [`Overflow::Refuse`]. The sketches are so small that this rule
/// refuses only what does not fit.
#[track_caller]
fn merge(sources: &[(CountMin, Naive)], picked: &[(usize, i64)]) -> Result<(), MergeError> {
    let naive: Vec<_> = picked
        .iter()
        .map(|(index, weight)| (&sources[*index].1, *weight))
        .collect();
    let [refusing, _] = [Overflow::Refuse, Overflow::Saturate].map(|overflow| {
        let expected = Naive::merged(&naive, overflow);
        let merged = CountMin::merged(&terms(sources, picked), overflow);
        match (&merged, &expected) {
            (Ok(merged), Ok(expected)) => expected.assert_same(merged),
            (merged, expected) => {
                assert_eq!(merged.as_ref().err(), expected.as_ref().err(), "{picked:?}");
            }
        }
        expected.map(|_| ())
    });
    refusing
}

#[test]
fn sums_are_those_of_the_model() {
    let mut rng = Rng::new(3);
    let mut outcomes = [0; 2];
    for round in 0..4000 {
        let size = *rng.pick(&CellSize::ALL);
        let width = 1 + rng.below(3);
        let count = 1 + rng.below(3);
        // Half of the rounds stay small, so that sums are valid.
        let small = round % 2 == 0;
        let number = |rng: &mut Rng, max: u64| match rng.below(6) {
            0 => 0,
            1 if !small => max,
            2 if !small => rng.next() % max,
            _ => rng.next() % 20,
        };
        let sources: Vec<_> = (0..count)
            .map(|_| {
                let counters: Vec<_> = (0..width).map(|_| number(&mut rng, size.max())).collect();
                // Only that of counters of four bytes may exceed 63 bits.
                let most = u64::MAX >> u32::from(size != CellSize::Four);
                let count = number(&mut rng, most);
                pair(&counters, count, size)
            })
            .collect();
        let picked = 1 + rng.below(6);
        let picked: Vec<_> = (0..picked)
            .map(|_| {
                let weight = match rng.below(8) {
                    0 => *rng.pick(&[i64::MAX, i64::MIN, 1 << 31, -(1 << 31), 1 << 62]),
                    1 if !small => rng.next().cast_signed(),
                    2 => -i64::try_from(rng.below(3)).unwrap(),
                    _ => i64::try_from(rng.below(4)).unwrap(),
                };
                (rng.below(count), weight)
            })
            .collect();
        outcomes[usize::from(merge(&sources, &picked).is_ok())] += 1;
    }
    assert!(outcomes.iter().all(|count| *count > 500), "{outcomes:?}");
}

#[test]
fn the_order_of_terms_can_matter() {
    let sources = [
        pair(&[1 << 31], 0, CellSize::Four),
        pair(&[(1 << 31) + 5], 0, CellSize::Four),
    ];
    let most = i64::from(i32::MAX);
    // Up and down again stays within range; up twice does not, although the sum would.
    let up_and_down = [(0, most), (0, -most), (0, most), (0, 1 - most)];
    assert_eq!(merge(&sources, &up_and_down), Ok(()));
    let over = [(0, most), (0, most), (0, 2), (0, -2 * most)];
    assert_eq!(merge(&sources, &over), Err(MergeError::Overflow));
    // Sums of different sources cancel, while the weights of each grow beyond the range.
    let [up, down] = [1, -1].map(|sign| [(1, sign * most), (0, -sign * most)].repeat(8));
    let back = [(1, -8 * most), (0, 8 * most)];
    let refused = merge(&sources, &[&up[..], &back].concat());
    assert_eq!(refused, Err(MergeError::Overflow));
    assert_eq!(merge(&sources, &[up, down, vec![(0, 1)]].concat()), Ok(()));
}

#[test]
fn counts_above_the_range_merge_with_weight_0() {
    let sources = [
        pair(&[7], u64::MAX, CellSize::Four),
        pair(&[1], 1 << 63, CellSize::Four),
    ];
    assert_eq!(merge(&sources, &[(0, 0)]), Ok(()));
    assert_eq!(merge(&sources, &[(0, 1)]), Err(MergeError::Overflow));
    // The product is the least i64, but no later sum gets back to 0 from there.
    assert_eq!(merge(&sources, &[(1, -1)]), Err(MergeError::Overflow));
}

#[test]
fn sums_that_do_not_fit_saturate() {
    let sources =
        [(7, 1), (u32::MAX.into(), 1 << 62)].map(|(c, n)| pair(&[c, 5], n, CellSize::Four));
    let merged = |picked: &[(usize, i64)]| {
        let merged = CountMin::merged(&terms(&sources, picked), Overflow::Saturate).unwrap();
        let (counters, _) = merged.table().as_chunks();
        let counters: Vec<_> = counters.iter().map(|c| u32::from_le_bytes(*c)).collect();
        (counters, merged.count())
    };
    let most = i64::MAX;
    for (picked, counters, count) in [
        (&[(0, 1), (1, 1)][..], [u32::MAX, 10], (1 << 62) + 1),
        (&[(1, 2)], [u32::MAX, 10], (1 << 63) - 1),
        (&[(0, -1), (1, 0)], [0, 0], 0),
        (&[(1, most), (1, -most), (0, 3)], [21, 15], 3),
        (&[(1, i64::MIN); 9], [0, 0], 0),
    ] {
        assert_eq!(merged(picked), (counters.to_vec(), count), "{picked:?}");
    }
    // Counters of other sizes refuse.
    let small = pair(&[200], 200, CellSize::One);
    let twice = CountMin::merged(&terms(&[small], &[(0, 2)]), Overflow::Saturate);
    assert_eq!(twice.err(), Some(MergeError::Overflow));
}

#[test]
fn sketches_of_other_shapes_do_not_merge() {
    let one = sketch(10, 5, CellSize::Four);
    for other in [
        sketch(10, 4, CellSize::Four),
        sketch(11, 5, CellSize::Four),
        sketch(10, 5, CellSize::Eight),
    ] {
        let terms = [&one, &other].map(|source| Term { source, weight: 1 });
        let merged = CountMin::merged(&terms, Overflow::Refuse);
        assert_eq!(merged.err(), Some(MergeError::Shape));
    }
    let nothing = CountMin::merged(&[], Overflow::Refuse);
    assert_eq!(nothing.err(), Some(MergeError::Shape));
}

/// Returns a sketch in which every counter is `counter`, and the count is 0.
fn filled(counters: usize, counter: u64) -> (CountMin, Naive) {
    pair(&vec![counter; counters], 0, CellSize::Four)
}

#[test]
fn a_source_that_is_named_often_is_passed_over_seldom() {
    if !cfg!(debug_assertions) {
        return;
    }
    let counters = 1 << 16;
    let sources = [filled(counters, 3), filled(counters, 5)];
    let often: Vec<_> = (0..20_000).map(|index| (index % 2, 1)).collect();
    work::take();
    let merged = CountMin::merged(&terms(&sources, &often), Overflow::Refuse).unwrap();
    assert!(work::take().bytes <= 2 * 4 * counters as u64);
    assert!(merged.table() == 80_000_u32.to_le_bytes().repeat(counters));

    // Weights whose intermediate sums might leave the range, and do not: only the replica of a server without the
    // bound goes through all of them.
    let most = i64::MAX / 15;
    let zigzag = [(0, most), (1, -(most / 5 * 3))].repeat(500);
    let back = [(0, -most), (1, most / 5 * 3)].repeat(500);
    let absurd = [zigzag, back, vec![(0, 1)]].concat();
    work::take();
    let refused = CountMin::merged(&terms(&sources, &absurd), Overflow::Refuse);
    assert_eq!(refused.err(), Some(MergeError::Overflow));
    assert!(work::take().bytes <= 2 * 4 * counters as u64);
    let merged = CountMin::merged(&terms(&sources, &absurd), Overflow::Saturate).unwrap();
    assert_eq!(merged.table(), sources[0].0.table());
}

#[test]
fn a_sketch_reports_whether_its_replacement_differs() {
    let mut one = sketch(10, 2, CellSize::Four);
    assert!(!one.replace(sketch(10, 2, CellSize::Four)).unwrap());
    let mut other = sketch(10, 2, CellSize::Four);
    other.increment(b"item", 1, Overflow::Refuse).unwrap();
    let expected = other.try_clone().unwrap();
    assert!(one.replace(other).unwrap());
    assert_equal(&one, &expected);
    // The count alone differs.
    let (mut some, _) = pair(&[0; 4], 0, CellSize::Four);
    let (more, _) = pair(&[0; 4], 7, CellSize::Four);
    assert!(some.replace(more).unwrap());
    assert_eq!(some.count(), 7);
}
