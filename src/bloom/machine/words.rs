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
    /// Four: x86-64 with AVX2, BMI2 and POPCNT.
    Four = 4,
    /// Eight: x86-64 with AVX-512 (F and DQ) as well.
    Eight = 8,
}

/// What a task does most. Processors differ in what they are good at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Sums and rotations.
    Hashing,
    /// Remainders, and bytes from anywhere.
    Lookups,
    /// All bytes of memory, one after another.
    Passes,
}

/// The width in use for each [`Use`]; 0 until one was chosen.
static WIDTHS: [AtomicU8; 3] = [const { AtomicU8::new(0) }; 3];

impl Use {
    const ALL: [Self; 3] = [Self::Hashing, Self::Lookups, Self::Passes];

    /// The widest that this processor has for it.
    fn widest(self) -> Width {
        #[cfg(target_arch = "x86_64")]
        {
            let four = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt");
            let eight = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
            let counts = is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vpopcntdq");
            if four && eight && (counts || self != Self::Passes) {
                return Width::Eight;
            }
            if four {
                return Width::Four;
            }
        }
        Width::One
    }

    /// Chooses the width. Which is quickest depends on the processor, its microcode and whatever it is that runs
    /// it, and no name tells: some gather slowly, some split wide words, some grow slower with them. So each is
    /// timed on made-up data, 64 times for less than a microsecond: some need 20 µs to power up what is wide.
    /// That is some 0.05 ms in all, once in a process.
    #[cold]
    fn choose(self) -> Width {
        let widest = self.widest();
        let chosen = match self {
            Self::Passes => widest,
            Self::Hashing => sample::quickest(widest, sample::Mix),
            Self::Lookups => sample::quickest(widest, sample::Look),
        };
        WIDTHS[self as usize].store(chosen as u8, Relaxed);
        chosen
    }
}

impl Width {
    /// All of them, narrowest first.
    pub const ALL: [Self; 3] = [Self::One, Self::Four, Self::Eight];

    /// The widest that this processor has.
    pub fn of_processor() -> Self {
        Use::Hashing.widest()
    }

    /// Limits this process to a width, to compare one with another: the results are the same with each.
    /// What the processor lacks is not used.
    pub fn limit_to(self) {
        for of in Use::ALL {
            WIDTHS[of as usize].store(self.min(of.widest()) as u8, Relaxed);
        }
    }

    /// Lets this process choose its widths again.
    pub fn choose() {
        for width in &WIDTHS {
            width.store(0, Relaxed);
        }
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
    /// Writes the words whose bit in `kept` is set to the first of a slice that has room for all, and anything to
    /// the others. At least one is kept.
    fn pack(self, kept: u64, words: &mut [u64]);
    /// Where the words stood of which these, as a mask, were packed: the bits go to those that are set in `kept`.
    #[inline(always)]
    fn spread(mut bits: u64, kept: u64) -> u64 {
        let mut unpacked = 0;
        each_bit(kept, |place| {
            unpacked |= (bits & 1) << place;
            bits >>= 1;
        });
        unpacked
    }
    /// Shifted right by this many bits, 64 at most.
    fn right(self, by: u32) -> Self;
    /// The difference or, where that is below 0, the word itself. Both words are below 2⁶³.
    #[inline(always)]
    fn sub_if_more(self, other: Self) -> Self {
        self.min(self.sub(other))
    }
    /// The low half of the product.
    fn mul(self, other: Self) -> Self;
    /// The high half of the product or, where not [`EXACT`](Self::EXACT), up to 2 less.
    fn mul_high(self, other: Self) -> Self;
    /// At which of these positions the cell, of 1 or 4 bits, is not 0, of those whose bit in `wanted` is
    /// set: bit 0 for the first, and so on. At least one is wanted. What lies past the end is 0.
    fn are_used_in<const CELL_BITS: u64>(self, cells: &[u8], wanted: u64) -> u64;
}

/// Visits the numbers of the bits that are set, lowest first.
#[inline(always)]
pub fn each_bit(mut set: u64, mut visit: impl FnMut(usize)) {
    while set != 0 {
        visit(set.trailing_zeros() as usize);
        set &= set - 1;
    }
}

/// Of a set of the numbers of words, as a mask, those that are handled at once: the number of the first and, bit 0
/// for that, which of them are in the set.
#[inline(always)]
pub fn groups<W: Words>(set: u64) -> impl Iterator<Item = (usize, u64)> {
    Groups {
        set,
        count: W::COUNT,
    }
}

/// What [`groups`] returns.
struct Groups {
    set: u64,
    count: usize,
}

impl Iterator for Groups {
    type Item = (usize, u64);

    #[inline(always)]
    fn next(&mut self) -> Option<(usize, u64)> {
        if self.set == 0 {
            return None;
        }
        let lanes = u64::MAX >> (64 - self.count);
        // The count is a power of two, and so the compiler sees how far it can be.
        let start = self.set.trailing_zeros() as usize & (64 - self.count);
        let of_group = self.set >> start & lanes;
        self.set &= !(lanes << start);
        Some((start, of_group))
    }
}

/// The byte that the cell of 1 or 4 bits at a position is in.
#[inline(always)]
pub const fn byte_of<const CELL_BITS: u64>(position: u64) -> usize {
    (position * CELL_BITS / 8) as usize
}

/// Whether the cell of 1 or 4 bits at a position is not 0, as 0 or 1.
#[inline(always)]
pub fn is_used<const CELL_BITS: u64>(cells: &[u8], position: u64) -> u64 {
    let byte = cells.get(byte_of::<CELL_BITS>(position)).copied();
    let cell = u64::from(byte.unwrap_or(0)) >> (position % (8 / CELL_BITS) * CELL_BITS);
    if CELL_BITS == 1 {
        cell & 1
    } else {
        u64::from(cell & ((1 << CELL_BITS) - 1) != 0)
    }
}

/// What can be done with words of any width.
pub trait Task {
    /// What it does most.
    const USE: Use;
    type Output;
    /// To be inlined always, so that it is compiled anew for each width.
    fn run<W: Words>(self) -> Self::Output;
}

/// Does a task with the words that suit the processor best.
#[inline]
pub fn run<T: Task>(task: T) -> T::Output {
    let mut width = WIDTHS[T::USE as usize].load(Relaxed);
    if width == 0 {
        width = T::USE.choose() as u8;
    }
    run_at(width, task)
}

/// Does a task with words of a width that the processor has for its use.
#[inline(always)]
fn run_at<T: Task>(width: u8, task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if width == Width::Eight as u8 {
            // SAFETY: the width is never above what the processor was found to have for this use.
            return unsafe {
                if matches!(T::USE, Use::Passes) {
                    x86::run_eight_counting(task)
                } else {
                    x86::run_eight(task)
                }
            };
        }
        if width == Width::Four as u8 {
            // SAFETY: as above.
            return unsafe { x86::run_four(task) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = width;
    task.run::<u64>()
}

/// The processor's count of time. It only compares one width with another, so it need not be exact.
fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has this instruction, and a system that forbids it to programs is not known.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Made-up work, by which a width is chosen.
mod sample {
    use super::{Task, Use, Width, Words, groups};

    const ITEMS: usize = 64;
    const CELLS: usize = 4096;

    pub(super) trait Sample: Copy {
        fn run<W: Words>(self, numbers: &mut [u64; ITEMS], cells: &[u8; CELLS]);
    }

    /// What hashing items of two blocks does.
    #[derive(Clone, Copy)]
    pub(super) struct Mix;

    impl Sample for Mix {
        #[inline(always)]
        fn run<W: Words>(self, numbers: &mut [u64; ITEMS], _: &[u8; CELLS]) {
            for numbers in numbers.chunks_exact_mut(W::COUNT) {
                let mut v = [W::load(numbers), W::splat(1), W::splat(2), W::splat(3)];
                for _ in 0..10 {
                    v[0] = v[0].add(v[1]);
                    v[2] = v[2].add(v[3]);
                    v[1] = v[1].rotate::<13>().xor(v[0]);
                    v[3] = v[3].rotate::<16>().xor(v[2]);
                    v[0] = v[0].rotate::<32>().add(v[3]);
                    v[2] = v[2].add(v[1]).rotate::<32>();
                }
                v[0].xor(v[2]).store(numbers);
            }
        }
    }

    /// What four rounds of lookups do, of items that are all found.
    #[derive(Clone, Copy)]
    pub(super) struct Look;

    impl Sample for Look {
        #[inline(always)]
        fn run<W: Words>(self, numbers: &mut [u64; ITEMS], cells: &[u8; CELLS]) {
            let (bits, reciprocal) = (CELLS as u64 * 8, u64::MAX / (CELLS as u64 * 8));
            let mut found = u64::MAX;
            for _ in 0..4 {
                for (start, wanted) in groups::<W>(std::mem::take(&mut found)) {
                    let number = W::load(&numbers[start..]);
                    number.add(W::splat(!0 / 59)).store(&mut numbers[start..]);
                    let point = number.min(number.sub(W::splat(!0 - 58)));
                    let quotient = point.mul_high(W::splat(reciprocal));
                    let mut rest = point.sub(quotient.mul(W::splat(bits)));
                    if !W::EXACT {
                        rest = rest.min(rest.sub(W::splat(2 * bits)));
                    }
                    let position = rest.min(rest.sub(W::splat(bits)));
                    found |= position.are_used_in::<1>(cells, wanted) << start;
                }
            }
            numbers[0] ^= found;
        }
    }

    struct Timed<'t, S>(S, &'t mut [u64; ITEMS], &'t [u8; CELLS]);

    impl<S: Sample> Task for Timed<'_, S> {
        const USE: Use = Use::Hashing;
        type Output = ();

        #[inline(always)]
        fn run<W: Words>(self) {
            self.0.run::<W>(self.1, self.2);
        }
    }

    /// The width, up to the widest, by which a sample takes the least time. One word is never the quickest where
    /// there are four.
    pub(super) fn quickest<S: Sample>(widest: Width, sample: S) -> Width {
        if widest < Width::Eight {
            return widest;
        }
        let mut numbers = std::array::from_fn(|index| (index as u64).wrapping_mul(!0 / 59));
        let cells = [0xff; CELLS];
        let mut best = (u64::MAX, widest);
        for width in [Width::Eight, Width::Four] {
            for _ in 0..64 {
                let begin = super::cycles();
                super::run_at(width as u8, Timed(sample, &mut numbers, &cells));
                let time = super::cycles().wrapping_sub(begin);
                if time < best.0 {
                    best = (time, width);
                }
            }
        }
        std::hint::black_box(numbers);
        best.1
    }
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
    fn right(self, by: u32) -> Self {
        self.checked_shr(by).unwrap_or(0)
    }
    #[inline(always)]
    fn pack(self, _kept: u64, words: &mut [u64]) {
        words[0] = self;
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

    #[target_feature(enable = "avx512f,avx512dq,avx2,bmi2,popcnt")]
    pub(super) fn run_eight<T: Task>(task: T) -> T::Output {
        task.run::<Eight>()
    }

    /// The same, with an instruction that counts bits.
    #[target_feature(
        enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vpopcntdq,avx2,bmi2,popcnt"
    )]
    pub(super) fn run_eight_counting<T: Task>(task: T) -> T::Output {
        task.run::<Eight>()
    }

    #[target_feature(enable = "avx2,bmi2,popcnt")]
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

    /// The halves of four words, one in each byte, that packing leaves of them, for each choice of words.
    const PACKED_HALVES: [u64; 16] = {
        let mut packed = [0; 16];
        let mut kept = 1_usize;
        while kept < 16 {
            let first = 0x0706_0504_0302_0100 >> (16 * kept.trailing_zeros()) & 0xffff;
            packed[kept] = packed[kept & (kept - 1)] << 16 | first;
            kept += 1;
        }
        packed
    };

    /// The intrinsics of a processor on which words of this type exist.
    macro_rules! native {
        ($intrinsics:expr) => {
            // SAFETY: the processor has what they need, or these words would not exist. Memory is
            // touched through references to arrays of the words' size, or within the cells.
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
        fn right(self, by: u32) -> Self {
            Self(native!(_mm512_srl_epi64(
                self.0,
                _mm_cvtsi64_si128(by.into())
            )))
        }
        #[inline(always)]
        fn pack(self, kept: u64, words: &mut [u64]) {
            let kept = kept.to_le_bytes()[0];
            let packed = Self(native!(_mm512_maskz_compress_epi64(kept, self.0)));
            packed.store(words);
        }
        #[inline(always)]
        fn spread(bits: u64, kept: u64) -> u64 {
            native!(_pdep_u64(bits, kept))
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
        fn sub_if_more(self, other: Self) -> Self {
            // The sign of the difference chooses.
            native!({
                let words = _mm256_castsi256_pd(self.0);
                let difference = _mm256_castsi256_pd(_mm256_sub_epi64(self.0, other.0));
                let chosen = _mm256_blendv_pd(difference, words, difference);
                Self(_mm256_castpd_si256(chosen))
            })
        }
        #[inline(always)]
        fn right(self, by: u32) -> Self {
            Self(native!(_mm256_srl_epi64(
                self.0,
                _mm_cvtsi64_si128(by.into())
            )))
        }
        #[inline(always)]
        fn pack(self, kept: u64, words: &mut [u64]) {
            let halves = PACKED_HALVES[usize::from(kept.to_le_bytes()[0] % 16)];
            let packed = native!({
                let halves = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(halves.cast_signed()));
                Self(_mm256_permutevar8x32_epi32(self.0, halves))
            });
            packed.store(words);
        }
        #[inline(always)]
        fn spread(bits: u64, kept: u64) -> u64 {
            native!(_pdep_u64(bits, kept))
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
        #[allow(
            clippy::cast_possible_truncation,
            reason = "where something starts in memory"
        )]
        fn are_used_in<const CELL_BITS: u64>(self, cells: &[u8], wanted: u64) -> u64 {
            let (Some(last), 0xf) = (cells.len().checked_sub(8), wanted) else {
                return one_by_one::<_, CELL_BITS>(self, cells, wanted);
            };
            // As with eight words, but each is read by itself: many processors with words of four alone gather
            // slowly, and all copy what is wanted out of the words quickly.
            native!({
                let at = if CELL_BITS == 4 {
                    _mm256_slli_epi64::<2>(self.0)
                } else {
                    self.0
                };
                let last = _mm256_set1_epi64x(last.cast_signed() as i64);
                let start = _mm256_srli_epi64::<3>(at);
                let start = _mm256_blendv_epi8(start, last, _mm256_cmpgt_epi64(start, last));
                let place = _mm256_sub_epi64(at, _mm256_slli_epi64::<3>(start));
                let read = |start: i64| {
                    let bytes = cells.as_ptr().offset(start as isize);
                    bytes.cast::<i64>().read_unaligned()
                };
                let bytes = _mm256_set_epi64x(
                    read(_mm256_extract_epi64::<3>(start)),
                    read(_mm256_extract_epi64::<2>(start)),
                    read(_mm256_extract_epi64::<1>(start)),
                    read(_mm256_extract_epi64::<0>(start)),
                );
                // The cell to the top, and there is the sign. Past the end the shift is too far again.
                let top = _mm256_set1_epi64x(64 - CELL_BITS.cast_signed());
                let cell = _mm256_sllv_epi64(bytes, _mm256_sub_epi64(top, place));
                let used = if CELL_BITS == 4 {
                    _mm256_cmpgt_epi64(_mm256_srli_epi64::<60>(cell), _mm256_setzero_si256())
                } else {
                    cell
                };
                u64::from(_mm256_movemask_pd(_mm256_castsi256_pd(used)).cast_unsigned())
            })
        }
    }
}

#[cfg(test)]
mod tests;
