//! What can be done with words of 64 bits, and one word at once.

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

/// The word that fewer bytes than it has begin with, followed by zeros.
#[cold]
pub fn begun_with(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
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
