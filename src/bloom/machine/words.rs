//! Words of 64 bits, one, four or eight at once, behind functions that are safe to call.
//!
//! Operations on many items are written once, over [`Words`], and compiled for each [`Width`]; the
//! results are the same at every width.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// How many words a processor handles at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Width {
    /// One: any processor.
    One = 1,
    /// Four: x86-64 with AVX2 and BMI2.
    Four = 4,
    /// Eight: x86-64 with AVX-512 (F and DQ) and AVX-VNNI as well.
    Eight = 8,
}

/// The width in use; 0 until the processor has been asked.
static WIDTH: AtomicU8 = AtomicU8::new(0);

impl Width {
    /// All of them, narrowest first.
    pub const ALL: [Self; 3] = [Self::One, Self::Four, Self::Eight];

    /// The widest that this processor has.
    pub fn of_processor() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let four = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2");
            // Processors without AVX-VNNI gather slowly: the older of Intel's since their microcode
            // guards against "Gather Data Sampling", the older of AMD's by their design.
            let eight = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avxvnni");
            if four && eight {
                return Self::Eight;
            }
            if four {
                return Self::Four;
            }
        }
        Self::One
    }

    /// Limits this process to a width, to compare one with another: the results are the same with each.
    /// What the processor lacks is not used.
    pub fn limit_to(self) {
        WIDTH.store(self.min(Self::of_processor()) as u8, Relaxed);
    }
}

/// The largest [`Words::COUNT`].
pub const MAX_WORDS: usize = 8;

/// Words of 64 bits that are handled at once. Arithmetic wraps.
pub trait Words: Copy {
    /// How many.
    const COUNT: usize;
    /// Whether [`mul_high`](Self::mul_high) is exact.
    const EXACT: bool;

    fn splat(word: u64) -> Self;
    /// Takes the first words of a slice that has enough of them.
    fn load(words: &[u64]) -> Self;
    /// Writes to the first words of a slice that has room for them.
    fn store(self, words: &mut [u64]);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn rotate<const BY: i32>(self) -> Self;
    /// The low half of the product.
    fn mul(self, other: Self) -> Self;
    /// The high half of the product or, where not [`EXACT`](Self::EXACT), up to 2 less.
    fn mul_high(self, other: Self) -> Self;
    /// At which of these positions the cell, of 1 or 4 bits, is not 0, of those whose bit in `wanted` is
    /// set: bit 0 for the first, and so on. At least one is wanted. What lies past the end is 0.
    fn are_used_in<const CELL_BITS: u64>(self, cells: &[u8], wanted: u64) -> u64;
}

/// Whether the cell of 1 or 4 bits at a position is not 0, as 0 or 1.
#[inline(always)]
pub fn is_used<const CELL_BITS: u64>(cells: &[u8], position: u64) -> u64 {
    let per_byte = 8 / CELL_BITS;
    let byte = cells.get((position / per_byte) as usize).copied();
    let cell = u64::from(byte.unwrap_or(0)) >> (position % per_byte * CELL_BITS);
    if CELL_BITS == 1 {
        cell & 1
    } else {
        u64::from(cell & ((1 << CELL_BITS) - 1) != 0)
    }
}

/// What can be done with words of any width.
pub trait Task {
    type Output;
    /// To be inlined always, so that it is compiled anew for each width.
    fn run<W: Words>(self) -> Self::Output;
}

/// Does a task with the widest words that the processor has.
#[inline]
pub fn run<T: Task>(task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    {
        let mut width = WIDTH.load(Relaxed);
        if width == 0 {
            Width::of_processor().limit_to();
            width = WIDTH.load(Relaxed);
        }
        if width == Width::Eight as u8 {
            // SAFETY: the width is never above what the processor was found to have.
            return unsafe { x86::run_eight(task) };
        }
        if width == Width::Four as u8 {
            // SAFETY: as above.
            return unsafe { x86::run_four(task) };
        }
    }
    task.run::<u64>()
}

impl Words for u64 {
    const COUNT: usize = 1;
    const EXACT: bool = true;

    #[inline(always)]
    fn splat(word: u64) -> Self {
        word
    }
    #[inline(always)]
    fn load(words: &[u64]) -> Self {
        words[0]
    }
    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        words[0] = self;
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        std::cmp::min(self, other)
    }
    #[inline(always)]
    fn rotate<const BY: i32>(self) -> Self {
        self.rotate_left(BY.unsigned_abs())
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn mul_high(self, other: Self) -> Self {
        ((u128::from(self) * u128::from(other)) >> 64) as u64
    }
    #[inline(always)]
    fn are_used_in<const CELL_BITS: u64>(self, cells: &[u8], _wanted: u64) -> u64 {
        is_used::<CELL_BITS>(cells, self)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[allow(
        clippy::wildcard_imports,
        reason = "the intrinsics, whose names say so"
    )]
    use std::arch::x86_64::*;

    use super::{MAX_WORDS, Task, Words, is_used};

    #[target_feature(enable = "avx512f,avx512dq,avx2,bmi2")]
    pub(super) fn run_eight<T: Task>(task: T) -> T::Output {
        task.run::<Eight>()
    }

    #[target_feature(enable = "avx2,bmi2")]
    pub(super) fn run_four<T: Task>(task: T) -> T::Output {
        task.run::<Four>()
    }

    /// [`Words::are_used_in`] without gathering.
    #[inline(always)]
    fn one_by_one<W: Words, const CELL_BITS: u64>(
        positions: W,
        cells: &[u8],
        mut wanted: u64,
    ) -> u64 {
        let mut numbers = [0; MAX_WORDS];
        positions.store(&mut numbers);
        let set = |index: usize| is_used::<CELL_BITS>(cells, numbers[index]) << index;
        // A loop without a condition is unrolled.
        if wanted == (1 << W::COUNT) - 1 {
            return (0..W::COUNT).fold(0, |all, index| all | set(index));
        }
        let mut all = 0;
        while wanted != 0 {
            all |= set(wanted.trailing_zeros() as usize);
            wanted &= wanted - 1;
        }
        all
    }

    /// Eight words. They exist only within [`run_eight`].
    #[derive(Clone, Copy)]
    struct Eight(__m512i);

    /// Four words. They exist only within [`run_four`].
    #[derive(Clone, Copy)]
    struct Four(__m256i);

    /// The intrinsics of a processor on which words of this type exist.
    macro_rules! native {
        ($intrinsics:expr) => {
            // SAFETY: the processor has what they need, or these words would not exist. Memory is
            // touched through references to arrays of the words' size alone.
            unsafe { $intrinsics }
        };
    }

    /// Operations on two words each that are one intrinsic.
    macro_rules! operations {
        ($($name:ident: $intrinsic:ident),*) => {
            $(#[inline(always)]
            fn $name(self, other: Self) -> Self {
                Self(native!($intrinsic(self.0, other.0)))
            })*
        };
    }

    impl Words for Eight {
        const COUNT: usize = 8;
        const EXACT: bool = false;

        operations! {
            add: _mm512_add_epi64, sub: _mm512_sub_epi64, mul: _mm512_mullo_epi64,
            xor: _mm512_xor_si512, and: _mm512_and_si512, min: _mm512_min_epu64
        }
        #[inline(always)]
        fn splat(word: u64) -> Self {
            Self(native!(_mm512_set1_epi64(word.cast_signed())))
        }
        #[inline(always)]
        fn load(words: &[u64]) -> Self {
            let (words, _) = words.split_first_chunk::<8>().expect("eight words");
            Self(native!(_mm512_loadu_si512(words.as_ptr().cast())))
        }
        #[inline(always)]
        fn store(self, words: &mut [u64]) {
            let (words, _) = words.split_first_chunk_mut::<8>().expect("eight words");
            native!(_mm512_storeu_si512(words.as_mut_ptr().cast(), self.0));
        }
        #[inline(always)]
        fn rotate<const BY: i32>(self) -> Self {
            Self(native!(_mm512_rol_epi64::<BY>(self.0)))
        }
        #[inline(always)]
        fn mul_high(self, other: Self) -> Self {
            // The products of the halves, but for the lowest.
            native!({
                let high = _mm512_srli_epi64::<32>(self.0);
                let other_high = _mm512_srli_epi64::<32>(other.0);
                let top = _mm512_mul_epu32(high, other_high);
                let left = _mm512_srli_epi64::<32>(_mm512_mul_epu32(high, other.0));
                let right = _mm512_srli_epi64::<32>(_mm512_mul_epu32(self.0, other_high));
                Self(_mm512_add_epi64(top, _mm512_add_epi64(left, right)))
            })
        }
        #[inline(always)]
        fn are_used_in<const CELL_BITS: u64>(self, cells: &[u8], wanted: u64) -> u64 {
            let Some(last) = cells.len().checked_sub(8) else {
                return one_by_one::<_, CELL_BITS>(self, cells, wanted);
            };
            // Eight bytes are read for each position, from its own byte on or, near the end of the
            // cells, from the last eight: never past the end, whatever the position. The shift is
            // too far then for a position past the end, and the result zero.
            native!({
                let at = if CELL_BITS == 4 {
                    _mm512_slli_epi64::<2>(self.0)
                } else {
                    self.0
                };
                let last = _mm512_set1_epi64(last.cast_signed() as i64);
                let start = _mm512_min_epu64(_mm512_srli_epi64::<3>(at), last);
                let place = _mm512_sub_epi64(at, _mm512_slli_epi64::<3>(start));
                let cell = _mm512_set1_epi64((1_i64 << CELL_BITS) - 1);
                let cell = _mm512_sllv_epi64(cell, place);
                let base = cells.as_ptr().cast();
                let bytes = if wanted == 0xff {
                    _mm512_i64gather_epi64::<1>(start, base)
                } else {
                    let (zero, mask) = (_mm512_setzero_si512(), wanted.to_le_bytes()[0]);
                    _mm512_mask_i64gather_epi64::<1>(zero, mask, start, base)
                };
                u64::from(_mm512_test_epi64_mask(bytes, cell))
            })
        }
    }

    impl Words for Four {
        const COUNT: usize = 4;
        const EXACT: bool = false;

        operations! {
            add: _mm256_add_epi64, sub: _mm256_sub_epi64,
            xor: _mm256_xor_si256, and: _mm256_and_si256
        }
        #[inline(always)]
        fn splat(word: u64) -> Self {
            Self(native!(_mm256_set1_epi64x(word.cast_signed())))
        }
        #[inline(always)]
        fn load(words: &[u64]) -> Self {
            let (words, _) = words.split_first_chunk::<4>().expect("four words");
            Self(native!(_mm256_loadu_si256(words.as_ptr().cast())))
        }
        #[inline(always)]
        fn store(self, words: &mut [u64]) {
            let (words, _) = words.split_first_chunk_mut::<4>().expect("four words");
            native!(_mm256_storeu_si256(words.as_mut_ptr().cast(), self.0));
        }
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            // There is a comparison of signed words alone.
            native!({
                let top = _mm256_set1_epi64x(i64::MIN);
                let (signed, other_signed) = (
                    _mm256_xor_si256(self.0, top),
                    _mm256_xor_si256(other.0, top),
                );
                let greater = _mm256_cmpgt_epi64(signed, other_signed);
                Self(_mm256_blendv_epi8(self.0, other.0, greater))
            })
        }
        #[inline(always)]
        fn rotate<const BY: i32>(self) -> Self {
            native!({
                let left = _mm256_sllv_epi64(self.0, _mm256_set1_epi64x(i64::from(BY)));
                let right = _mm256_srlv_epi64(self.0, _mm256_set1_epi64x(i64::from(64 - BY)));
                Self(_mm256_or_si256(left, right))
            })
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            native!({
                let low = _mm256_mul_epu32(self.0, other.0);
                let left = _mm256_mul_epu32(_mm256_srli_epi64::<32>(self.0), other.0);
                let right = _mm256_mul_epu32(self.0, _mm256_srli_epi64::<32>(other.0));
                let middle = _mm256_slli_epi64::<32>(_mm256_add_epi64(left, right));
                Self(_mm256_add_epi64(low, middle))
            })
        }
        #[inline(always)]
        fn mul_high(self, other: Self) -> Self {
            native!({
                let high = _mm256_srli_epi64::<32>(self.0);
                let other_high = _mm256_srli_epi64::<32>(other.0);
                let top = _mm256_mul_epu32(high, other_high);
                let left = _mm256_srli_epi64::<32>(_mm256_mul_epu32(high, other.0));
                let right = _mm256_srli_epi64::<32>(_mm256_mul_epu32(self.0, other_high));
                Self(_mm256_add_epi64(top, _mm256_add_epi64(left, right)))
            })
        }
        #[inline(always)]
        fn are_used_in<const CELL_BITS: u64>(self, cells: &[u8], wanted: u64) -> u64 {
            one_by_one::<_, CELL_BITS>(self, cells, wanted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation of a width, on these words.
    struct Operations<'a>(&'a [u64; 8], &'a [u64; 8]);

    impl Task for Operations<'_> {
        type Output = Vec<Vec<u64>>;

        #[inline(always)]
        fn run<W: Words>(self) -> Self::Output {
            let mut results = vec![Vec::new(); 10];
            for start in (0..8).step_by(W::COUNT) {
                let (x, y) = (W::load(&self.0[start..]), W::load(&self.1[start..]));
                let computed = [
                    x,
                    W::splat(self.0[0]),
                    x.add(y),
                    x.sub(y),
                    x.xor(y),
                    x.and(y),
                    x.min(y),
                    x.rotate::<13>(),
                    x.mul(y),
                    x.mul_high(y),
                ];
                for (result, words) in results.iter_mut().zip(computed) {
                    let mut stored = [0; 8];
                    words.store(&mut stored);
                    result.extend(&stored[..W::COUNT]);
                }
                for bits in [8, 64, 1000] {
                    // Of these the last are past the end of every bitmap.
                    let positions = x.and(W::splat(127)).add(W::splat(bits - 8));
                    let mut numbers = [0; 8];
                    positions.store(&mut numbers);
                    let bitmap = vec![0xa5_u8; (bits / 8) as usize];
                    let is_set = |p: u64| p < bits && 0xa5 >> (p % 8) & 1 == 1;
                    for wanted in 1..1 << W::COUNT {
                        let set = positions.are_used_in::<1>(&bitmap, wanted);
                        // Of as many counters, all but every fourth are in use.
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
}
