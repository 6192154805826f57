//! Limits of lookups in objects of very many hash functions.
//!
//! On average, two positions of a filter rule a stranger out. In a forged object, every filter may lack nothing but the
//! last position of an item, and a stack of valkey-bloom may have half a million positions. So lookups in an object of
//! more than [`PATIENCE`] hash functions count the positions of an item that are in use, over all filters. A lookup stops
//! at [`PATIENCE`] of these, and the item counts as claimed. In objects made by programs a stranger has fewer: 1.3 a
//! filter on average, and 5,300 in 4,096 filters. An item that was added is always claimed, and the order of the filters
//! makes no difference.

/// The most hash functions of an object in which lookups have no limit. Such a lookup takes some 25 µs for an item.
pub const PATIENCE: u32 = 6 << 10;

/// A count of positions in use that may end lookups.
pub trait Tally {
    /// Counts a position in use for each of these items of a batch. Returns the mask of items whose lookups end.
    fn count(&mut self, items: u64) -> u64;
}

/// A tally that never ends a lookup.
pub struct Exhaustive;

impl Tally for Exhaustive {
    #[inline]
    fn count(&mut self, _: u64) -> u64 {
        0
    }
}

/// The number of positions in use of each item of a batch, over all filters that are searched.
pub struct Patience {
    /// `digits[i]` holds bit `i` of every item's count, one item per bit: a few instructions add to all counts at once.
    digits: [u64; DIGITS],
}

/// The initial count. From it, the last digit is set after [`PATIENCE`] positions; counting stops there.
const INITIAL: u32 = PATIENCE.next_power_of_two() - PATIENCE;
const DIGITS: usize = PATIENCE.next_power_of_two().ilog2() as usize + 1;

impl Patience {
    /// Creates counts of no positions.
    pub fn new() -> Self {
        let digits = std::array::from_fn(|digit| u64::from(INITIAL >> digit & 1) * u64::MAX);
        Self { digits }
    }

    /// Returns the mask of items whose lookups have ended.
    const fn ended(&self) -> u64 {
        self.digits[DIGITS - 1]
    }
}

impl Tally for Patience {
    #[inline]
    fn count(&mut self, items: u64) -> u64 {
        let mut carry = items & !self.ended();
        for digit in &mut self.digits {
            if carry == 0 {
                break;
            }
            (*digit, carry) = (*digit ^ carry, *digit & carry);
        }
        items & self.ended()
    }
}
