//! Operations on 64-bit words, and their implementation for a single word.

/// The operations that dominate a task. The fastest width for each differs between processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Additions and rotations.
    Hashing,
    /// Remainders, and reads at random addresses.
    Lookups,
    /// Sequential passes over memory.
    Passes,
}

/// The largest [`Words::COUNT`].
pub const MAX_WORDS: usize = 8;

/// A vector of 64-bit words. Arithmetic wraps.
#[allow(clippy::return_self_not_must_use, reason = "only tasks have vectors")]
pub trait Words: Copy {
    /// The number of words.
    const COUNT: usize;
    /// Whether [`mul_high`](Self::mul_high) is exact.
    const EXACT: bool;

    /// Makes a vector of copies of a word.
    fn splat(word: u64) -> Self;
    /// Loads the first words of a slice, which has at least [`COUNT`](Self::COUNT).
    fn load(words: &[u64]) -> Self;
    /// Stores to the first words of a slice, which has at least [`COUNT`](Self::COUNT).
    fn store(self, words: &mut [u64]);
    /// Adds the words of another vector.
    fn add(self, other: Self) -> Self;
    /// Subtracts the words of another vector.
    fn sub(self, other: Self) -> Self;
    /// Returns the bits that are set in exactly one of both.
    fn xor(self, other: Self) -> Self;
    /// Returns the bits that are set in both.
    fn and(self, other: Self) -> Self;
    /// Returns the smaller of both words.
    fn min(self, other: Self) -> Self;
    /// Rotates to the left.
    fn rotate<const BY: i32>(self) -> Self;
    /// Shifts right by up to 64 bits.
    fn shift_right(self, by: u32) -> Self;
    /// Subtracts `other`, or returns the word itself where the difference would be negative. Both words are below 2⁶³.
    #[inline]
    fn sub_if_more(self, other: Self) -> Self {
        self.min(self.sub(other))
    }
    /// Returns the low half of the product.
    fn mul(self, other: Self) -> Self;
    /// Returns the product of the lower halves.
    fn mul_lower(self, other: Self) -> Self;
    /// Returns the high half of the product; up to 2 less where not [`EXACT`](Self::EXACT).
    #[inline]
    fn mul_high(self, other: Self) -> Self {
        // Sums the partial products of the halves, without the lowest.
        let (high, other_high) = (self.shift_right(32), other.shift_right(32));
        let left = high.mul_lower(other).shift_right(32);
        let right = self.mul_lower(other_high).shift_right(32);
        high.mul_lower(other_high).add(left.add(right))
    }
    /// Returns a mask of the positions whose bit is set: bit 0 for the first word. Bits that are clear in `wanted` stay
    /// clear; at least one is set. Positions past the end count as 0.
    fn are_set_in(self, bitmap: &[u8], wanted: u64) -> u64;
}

/// Visits the indices of the set bits, lowest first.
#[inline]
pub fn each_bit(mut set: u64, mut visit: impl FnMut(usize)) {
    while set != 0 {
        visit(set.trailing_zeros() as usize);
        set &= set - 1;
    }
}

/// Splits a mask of items into aligned groups of [`COUNT`](Words::COUNT), skipping empty groups. Yields the index of
/// each group's first item, and the group's part of the mask, shifted so that bit 0 is that item.
#[inline]
pub fn groups<W: Words>(mut set: u64) -> impl Iterator<Item = (usize, u64)> {
    let lanes = u64::MAX >> (64 - W::COUNT);
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        // The count is a power of two. The mask shows the compiler how large `start` can be.
        let start = set.trailing_zeros() as usize & (64 - W::COUNT);
        let of_group = set >> start & lanes;
        set &= !(lanes << start);
        Some((start, of_group))
    })
}

/// Reads fewer than eight bytes as a little-endian word, padded with zeros.
#[cold]
pub fn begun_with(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Returns the index of the byte that contains a bit.
#[inline]
pub const fn byte_of(position: u64) -> usize {
    (position / 8) as usize
}

/// Returns the bit at a position. Positions past the end count as 0.
#[inline]
pub fn bit_at(bitmap: &[u8], position: u64) -> u64 {
    let byte = bitmap.get(byte_of(position)).copied();
    u64::from(byte.unwrap_or(0)) >> (position % 8) & 1
}

/// A computation that works with words of any width.
pub trait Task {
    /// The operations that dominate the task: those of a plain pass, unless it says otherwise.
    const USE: Use = Use::Passes;
    /// What the task computes.
    type Output;
    /// Runs the task. Implementations are `#[inline]`, so that they are compiled for each width.
    fn run<W: Words>(self) -> Self::Output;
}

impl Words for u64 {
    const COUNT: usize = 1;
    const EXACT: bool = !cfg!(target_family = "wasm");

    #[inline]
    fn splat(word: u64) -> Self {
        word
    }
    #[inline]
    fn load(words: &[u64]) -> Self {
        words[0]
    }
    #[inline]
    fn store(self, words: &mut [u64]) {
        words[0] = self;
    }
    #[inline]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline]
    fn sub(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    #[inline]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline]
    fn and(self, other: Self) -> Self {
        self & other
    }
    #[inline]
    fn min(self, other: Self) -> Self {
        std::cmp::min(self, other)
    }
    #[inline]
    fn rotate<const BY: i32>(self) -> Self {
        self.rotate_left(BY.unsigned_abs())
    }
    #[inline]
    fn shift_right(self, by: u32) -> Self {
        self.checked_shr(by).unwrap_or(0)
    }
    #[inline]
    fn mul(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    #[inline]
    fn mul_lower(self, other: Self) -> Self {
        (self & 0xffff_ffff) * (other & 0xffff_ffff)
    }
    // WebAssembly has no such instruction, and would call a function.
    #[cfg(not(target_family = "wasm"))]
    #[inline]
    fn mul_high(self, other: Self) -> Self {
        ((u128::from(self) * u128::from(other)) >> 64) as u64
    }
    #[inline]
    fn are_set_in(self, bitmap: &[u8], _wanted: u64) -> u64 {
        bit_at(bitmap, self)
    }
}
