//! Tests of every operation at every width.

use super::*;

/// All operations of a width, applied to these words.
struct Operations<'a>(&'a [u64; 8], &'a [u64; 8]);

impl Task for Operations<'_> {
    const USE: Use = Use::Lookups;
    type Output = Vec<Vec<u64>>;

    #[inline(always)]
    fn run<W: Words>(self) -> Self::Output {
        let mut results = vec![Vec::new(); 13];
        for start in (0..8).step_by(W::COUNT) {
            let (x, y) = (W::load(&self.0[start..]), W::load(&self.1[start..]));
            let half = W::splat(u64::MAX >> 1);
            let computed = [
                x,
                W::splat(self.0[0]),
                x.add(y),
                x.sub(y),
                x.xor(y),
                x.and(y),
                x.min(y),
                x.rotate::<13>(),
                x.shift_right(13),
                x.shift_right(64),
                x.and(half).sub_if_more(y.and(half)),
                x.mul(y),
                x.mul_high(y),
            ];
            for (result, words) in results.iter_mut().zip(computed) {
                let mut stored = [0; 8];
                words.store(&mut stored);
                result.extend(&stored[..W::COUNT]);
            }
            for bits in [8, 64, 1000] {
                // The last positions are past the end of the bitmap.
                let positions = x.and(W::splat(127)).add(W::splat(bits - 8));
                let mut numbers = [0; 8];
                positions.store(&mut numbers);
                let bitmap = vec![0xa5_u8; (bits / 8) as usize];
                let is_set = |p: u64| p < bits && 0xa5 >> (p % 8) & 1 == 1;
                for wanted in 1..1 << W::COUNT {
                    let set = positions.are_used_in::<1>(&bitmap, wanted);
                    // Every fourth counter, the one at 2 modulo 4, is 0.
                    let cells = bitmap.repeat(4);
                    let cells: Vec<u8> =
                        (0..).zip(cells).map(|(i, _)| [0x1f, 0x80][i % 2]).collect();
                    let used = positions.are_used_in::<4>(&cells, wanted);
                    let is_used = |p: u64| p < bits && p % 4 != 2;
                    assert_eq!((set | used) & !wanted, 0);
                    for (index, number) in numbers[..W::COUNT].iter().enumerate() {
                        let wanted = wanted >> index & 1 == 1;
                        let expected = wanted && is_set(*number);
                        assert_eq!(set >> index & 1 == 1, expected, "{bits}: {number}");
                        let expected = wanted && is_used(*number);
                        assert_eq!(used >> index & 1 == 1, expected, "{bits}: {number}");
                    }
                }
            }
        }
        results
    }
}

struct Grouped(u64);

impl Task for Grouped {
    const USE: Use = Use::Lookups;
    type Output = Vec<u64>;

    #[inline(always)]
    fn run<W: Words>(self) -> Vec<u64> {
        let groups: Vec<_> = groups::<W>(self.0).collect();
        assert!(groups.iter().all(|(start, _)| start % W::COUNT == 0));
        let in_place = groups.iter().map(|(start, of_group)| of_group << start);
        in_place.collect()
    }
}

#[test]
fn every_group_of_a_set_is_visited_once() {
    for set in [0, 1, 1 << 63, 0xf0, 0x8000_0001_0230_0400, u64::MAX] {
        for width in Width::ALL {
            width.limit_to();
            let groups = run(Grouped(set));
            assert!(groups.iter().all(|group| *group != 0), "{width:?}: {set:x}");
            assert!(groups.is_sorted(), "{width:?}: {set:x}");
            assert_eq!(groups.iter().sum::<u64>(), set, "{width:?}: {set:x}");
        }
    }
}

#[test]
fn every_width_computes_the_same() {
    let edges = [
        0,
        1,
        u64::MAX,
        1 << 63,
        u64::from(u32::MAX),
        1 << 32,
        59,
        (1 << 63) - 1,
    ];
    for turn in 0..8 {
        let mut other = edges;
        other.rotate_left(turn);
        let mut expected = Operations(&edges, &other).run::<u64>();
        let exact = expected.pop().expect("the high halves");
        for width in Width::ALL {
            width.limit_to();
            let mut actual = run(Operations(&edges, &other));
            let high = actual.pop().expect("the high halves");
            assert_eq!(actual, expected, "{width:?}");
            for (estimate, exact) in high.into_iter().zip(&exact) {
                let below = exact.wrapping_sub(estimate);
                assert!(below <= 2, "{width:?}: {estimate} for {exact}");
            }
        }
    }
}
