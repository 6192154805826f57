//! Four and eight words on x86-64 processors.

#[allow(clippy::wildcard_imports, reason = "intrinsics have distinctive names")]
use std::arch::x86_64::*;

use super::word::{MAX_WORDS, Task, Words, bit_at};
use crate::machine::memory::index;

#[target_feature(enable = "avx512f,avx512dq,avx2,bmi2,popcnt")]
pub(super) fn run_eight<T: Task>(task: T) -> T::Output {
    task.run::<Eight>()
}

/// Runs a task with eight words, on a processor that also has an instruction to count their bits.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vpopcntdq,avx2,bmi2,popcnt")]
pub(super) fn run_eight_counting<T: Task>(task: T) -> T::Output {
    task.run::<Eight>()
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(super) fn run_four<T: Task>(task: T) -> T::Output {
    task.run::<Four>()
}

/// Implements [`Words::are_set_in`] without gather instructions.
#[inline(always)]
fn one_by_one<W: Words>(positions: W, bitmap: &[u8], mut wanted: u64) -> u64 {
    let mut numbers = [0; MAX_WORDS];
    positions.store(&mut numbers);
    let set = |index: usize| bit_at(bitmap, numbers[index]) << index;
    // The compiler unrolls a loop without a condition.
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

/// Eight words. Values exist only within [`run_eight`] and [`run_eight_counting`].
#[derive(Clone, Copy)]
struct Eight(__m512i);

/// Four words. Values exist only within [`run_four`].
#[derive(Clone, Copy)]
struct Four(__m256i);

/// Calls intrinsics of a processor that supports this type's words.
macro_rules! native {
    ($intrinsics:expr) => {
        // SAFETY: the processor supports these intrinsics, or words of this type would not exist. Memory is accessed
        // only through references to arrays of the words' size, or within the bitmap.
        unsafe { $intrinsics }
    };
}

/// Defines binary operations that are a single intrinsic.
macro_rules! operations {
    ($($name:ident: $intrinsic:ident),*) => {
        $(#[inline]
        fn $name(self, other: Self) -> Self {
            Self(native!($intrinsic(self.0, other.0)))
        })*
    };
}

impl Words for Eight {
    const COUNT: usize = 8;
    const EXACT: bool = false;

    operations! {
        add: _mm512_add_epi64, sub: _mm512_sub_epi64,
        mul: _mm512_mullo_epi64, mul_lower: _mm512_mul_epu32,
        xor: _mm512_xor_si512, and: _mm512_and_si512, min: _mm512_min_epu64
    }
    #[inline]
    fn splat(word: u64) -> Self {
        Self(native!(_mm512_set1_epi64(word.cast_signed())))
    }
    #[inline]
    fn load(words: &[u64]) -> Self {
        let (words, _) = words.split_first_chunk::<8>().expect("eight words");
        Self(native!(_mm512_loadu_si512(words.as_ptr().cast())))
    }
    #[inline]
    fn store(self, words: &mut [u64]) {
        let (words, _) = words.split_first_chunk_mut::<8>().expect("eight words");
        native!(_mm512_storeu_si512(words.as_mut_ptr().cast(), self.0));
    }
    #[inline]
    fn shift_right(self, by: u32) -> Self {
        let by = native!(_mm_cvtsi64_si128(by.into()));
        Self(native!(_mm512_srl_epi64(self.0, by)))
    }
    #[inline]
    fn rotate<const BY: i32>(self) -> Self {
        Self(native!(_mm512_rol_epi64::<BY>(self.0)))
    }
    #[inline(always)]
    fn are_set_in(self, bitmap: &[u8], wanted: u64) -> u64 {
        let Some(last) = bitmap.len().checked_sub(8) else {
            return one_by_one(self, bitmap, wanted);
        };
        // Eight bytes are read for each position: from its own byte on, or near the end of the bitmap the last eight.
        // So no read is past the end, whatever the position. For a position past the end the shift exceeds 63, and the
        // result is zero.
        native!({
            let at = self.0;
            let last = _mm512_set1_epi64(last.cast_signed() as i64);
            let start = _mm512_min_epu64(_mm512_srli_epi64::<3>(at), last);
            let place = _mm512_sub_epi64(at, _mm512_slli_epi64::<3>(start));
            let bit = _mm512_sllv_epi64(_mm512_set1_epi64(1), place);
            let base = bitmap.as_ptr().cast();
            let bytes = if wanted == 0xff {
                _mm512_i64gather_epi64::<1>(start, base)
            } else {
                let (zero, mask) = (_mm512_setzero_si512(), wanted.to_le_bytes()[0]);
                _mm512_mask_i64gather_epi64::<1>(zero, mask, start, base)
            };
            u64::from(_mm512_test_epi64_mask(bytes, bit))
        })
    }
}

impl Words for Four {
    const COUNT: usize = 4;
    const EXACT: bool = false;

    operations! {
        add: _mm256_add_epi64, sub: _mm256_sub_epi64, mul_lower: _mm256_mul_epu32,
        xor: _mm256_xor_si256, and: _mm256_and_si256
    }
    #[inline]
    fn splat(word: u64) -> Self {
        Self(native!(_mm256_set1_epi64x(word.cast_signed())))
    }
    #[inline]
    fn load(words: &[u64]) -> Self {
        let (words, _) = words.split_first_chunk::<4>().expect("four words");
        Self(native!(_mm256_loadu_si256(words.as_ptr().cast())))
    }
    #[inline]
    fn store(self, words: &mut [u64]) {
        let (words, _) = words.split_first_chunk_mut::<4>().expect("four words");
        native!(_mm256_storeu_si256(words.as_mut_ptr().cast(), self.0));
    }
    #[inline]
    fn min(self, other: Self) -> Self {
        // AVX2 compares only signed words.
        native!({
            let top = _mm256_set1_epi64x(i64::MIN);
            let signed = _mm256_xor_si256(self.0, top);
            let other_signed = _mm256_xor_si256(other.0, top);
            let greater = _mm256_cmpgt_epi64(signed, other_signed);
            Self(_mm256_blendv_epi8(self.0, other.0, greater))
        })
    }
    #[inline]
    fn sub_if_more(self, other: Self) -> Self {
        // The sign of the difference selects the result.
        native!({
            let words = _mm256_castsi256_pd(self.0);
            let difference = _mm256_castsi256_pd(_mm256_sub_epi64(self.0, other.0));
            let chosen = _mm256_blendv_pd(difference, words, difference);
            Self(_mm256_castpd_si256(chosen))
        })
    }
    #[inline]
    fn shift_right(self, by: u32) -> Self {
        let by = native!(_mm_cvtsi64_si128(by.into()));
        Self(native!(_mm256_srl_epi64(self.0, by)))
    }
    #[inline]
    fn rotate<const BY: i32>(self) -> Self {
        native!({
            let left = _mm256_sllv_epi64(self.0, _mm256_set1_epi64x(i64::from(BY)));
            let right = _mm256_srlv_epi64(self.0, _mm256_set1_epi64x(i64::from(64 - BY)));
            Self(_mm256_or_si256(left, right))
        })
    }
    #[inline]
    fn mul(self, other: Self) -> Self {
        let left = self.shift_right(32).mul_lower(other);
        let right = self.mul_lower(other.shift_right(32));
        let middle = left.add(right);
        Self(native!(_mm256_slli_epi64::<32>(middle.0))).add(self.mul_lower(other))
    }
    #[inline(always)]
    fn are_set_in(self, bitmap: &[u8], wanted: u64) -> u64 {
        let (Some(last), 0xf) = (bitmap.len().checked_sub(8), wanted) else {
            return one_by_one(self, bitmap, wanted);
        };
        // The same addresses as for eight words, but read one by one: many AVX2 processors without AVX-512 gather
        // slowly, and all extract words quickly.
        native!({
            let at = self.0;
            let last = _mm256_set1_epi64x(last.cast_signed() as i64);
            let start = _mm256_srli_epi64::<3>(at);
            let start = _mm256_blendv_epi8(start, last, _mm256_cmpgt_epi64(start, last));
            let place = _mm256_sub_epi64(at, _mm256_slli_epi64::<3>(start));
            let read = |start: i64| {
                let bytes = bitmap.as_ptr().add(index(start.cast_unsigned()));
                bytes.cast::<i64>().read_unaligned()
            };
            let bytes = _mm256_set_epi64x(
                read(_mm256_extract_epi64::<3>(start)),
                read(_mm256_extract_epi64::<2>(start)),
                read(_mm256_extract_epi64::<1>(start)),
                read(_mm256_extract_epi64::<0>(start)),
            );
            // Shifts the bit to the top, where it is the sign. Past the end the shift exceeds 63 again.
            let top = _mm256_set1_epi64x(63);
            let bit = _mm256_sllv_epi64(bytes, _mm256_sub_epi64(top, place));
            u64::from(_mm256_movemask_pd(_mm256_castsi256_pd(bit)).cast_unsigned())
        })
    }
}
