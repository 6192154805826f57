//! Every operation on words, at every width.

use valkeybloom_sketches::words::{Task, Use, Words, groups, run};

use crate::support::at_each_width;

/// All operations of a width, applied to these words.
struct Operations<'a>(&'a [u64; 8], &'a [u64; 8]);

impl Task for Operations<'_> {
    const USE: Use = Use::Lookups;
    /// The words that result, and masks of the cells in use.
    type Output = ([[u64; 8]; 13], Vec<u64>);

    #[inline]
    fn run<W: Words>(self) -> Self::Output {
        let mut results = [[0; 8]; 13];
        for start in (0..8).step_by(W::COUNT) {
            let (x, y) = (W::load(&self.0[start..]), W::load(&self.1[start..]));
            let half = W::splat(u64::MAX >> 1);
            let computed = [
                x.mul_high(y),
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
            ];
            for (result, words) in results.iter_mut().zip(computed) {
                words.store(&mut result[start..]);
            }
        }
        let mut masks = Vec::new();
        for bytes in [1, 8, 125] {
            let bitmap: Vec<u8> = (0..bytes)
                .map(|byte| [0xa5, 0x0f, 0x80][byte % 3])
                .collect();
            for wanted in 0..256 {
                let mut bits = 0;
                for (start, wanted) in groups::<W>(wanted) {
                    // The last positions are past the end of the bitmap.
                    let last = W::splat(8 * bytes as u64 - 8);
                    let positions = W::load(&self.0[start..]).and(W::splat(127)).add(last);
                    bits |= positions.are_set_in(&bitmap, wanted) << start;
                }
                assert_eq!(bits & !wanted, 0);
                masks.push(bits);
            }
        }
        (results, masks)
    }
}

#[test]
fn every_width_computes_the_same() {
    let edges = [0, 1, !0, 1 << 63, !0 >> 32, 1 << 32, 59, !0 >> 1];
    for turn in 0..8 {
        let mut other = edges;
        other.rotate_left(turn);
        let ([exact, expected @ ..], masks) = Operations(&edges, &other).run::<u64>();
        at_each_width(|width| {
            let ([high, actual @ ..], masks_here) = run(Operations(&edges, &other));
            assert_eq!((actual, &masks_here), (expected, &masks), "{width:?}");
            for (estimate, exact) in high.into_iter().zip(exact) {
                let below = exact.wrapping_sub(estimate);
                assert!(below <= 2, "{width:?}: {estimate} for {exact}");
            }
        });
    }
}
