//! How long an item is looked for in an object of very many hash functions.
//!
//! Two positions of a filter rule a stranger out, on average. In a forged object, every filter may lack nothing but the
//! last position of an item, and a stack of valkey-bloom's may have half a million positions to look at. So lookups in
//! an object of more than [`PATIENCE`] hash functions count the positions of an item that are in use, over all filters.
//! They stop after as many, and the item counts as claimed. A stranger finds fewer in what programs make: 1.3 a filter, on
//! average, and 5,300 in 4,096 filters. An item that was added is always claimed; and which filter is asked first makes no
//! difference.

use std::cell::Cell;

/// Up to this number of hash functions, an object is looked through to the end. It takes some 25 µs for an item.
pub const PATIENCE: u32 = 6 << 10;

/// What a lookup does with positions that are in use.
pub trait Tally {
    /// Whether it counts them.
    const COUNTS: bool;

    /// Counts a position in use for each of these items of a batch. Returns the items that were looked for long enough.
    fn count(&mut self, items: u64) -> u64;

    /// Counts a position in use for an item, in each of these lanes. Returns whether it was looked for long enough.
    fn count_in_lanes(&mut self, item: usize, lanes: u32) -> bool;
}

/// Looks to the end.
pub struct ToTheEnd;

impl Tally for ToTheEnd {
    const COUNTS: bool = false;

    #[inline(always)]
    fn count(&mut self, _: u64) -> u64 {
        0
    }

    #[inline(always)]
    fn count_in_lanes(&mut self, _: usize, _: u32) -> bool {
        false
    }
}

/// The positions that an estimate may still look at.
pub struct Effort {
    left: Cell<u64>,
}

impl Effort {
    /// Starts with this number of positions.
    pub const fn of(positions: u64) -> Self {
        Self {
            left: Cell::new(positions),
        }
    }

    /// Takes away as many positions as were looked at.
    pub fn spend(&self, positions: u64) {
        self.left.set(self.left.get().saturating_sub(positions));
    }

    /// Whether none are left.
    pub const fn is_spent(&self) -> bool {
        self.left.get() == 0
    }
}

impl Tally for Effort {
    const COUNTS: bool = true;

    #[inline(always)]
    fn count(&mut self, items: u64) -> u64 {
        self.spend(items.count_ones().into());
        if self.is_spent() { items } else { 0 }
    }

    #[inline(always)]
    fn count_in_lanes(&mut self, _: usize, lanes: u32) -> bool {
        self.spend(lanes.count_ones().into());
        self.is_spent()
    }
}

/// Counts the positions in use of each item of a batch, over all filters that it is looked up in.
pub struct Patience {
    /// Digit `i` of the counts of all items, in base 2: adding to all of them at once takes a few instructions.
    digits: [u64; DIGITS],
}

/// Where counts begin: so the last digit is set once as many as [`PATIENCE`] were counted. Nothing is counted from then on.
const BEGIN: u32 = PATIENCE.next_power_of_two() - PATIENCE;
const DIGITS: usize = PATIENCE.next_power_of_two().ilog2() as usize + 1;

impl Patience {
    /// Nothing counted yet.
    pub const fn new() -> Self {
        let mut digits = [0; DIGITS];
        let mut digit = 0;
        while digit < DIGITS {
            if BEGIN >> digit & 1 == 1 {
                digits[digit] = u64::MAX;
            }
            digit += 1;
        }
        Self { digits }
    }

    /// The items that were looked for long enough.
    pub const fn exhausted(&self) -> u64 {
        self.digits[DIGITS - 1]
    }

    /// Adds 2 to the power of `digit` to the counts of these items.
    #[inline(always)]
    fn add(&mut self, digit: usize, items: u64) {
        let mut carry = items & !self.exhausted();
        for digit in &mut self.digits[digit..] {
            if carry == 0 {
                break;
            }
            (*digit, carry) = (*digit ^ carry, *digit & carry);
        }
    }
}

impl Tally for Patience {
    const COUNTS: bool = true;

    #[inline(always)]
    fn count(&mut self, items: u64) -> u64 {
        self.add(0, items);
        items & self.exhausted()
    }

    #[inline(always)]
    fn count_in_lanes(&mut self, item: usize, lanes: u32) -> bool {
        for digit in 0..6 {
            self.add(digit, u64::from(lanes.count_ones() >> digit & 1) << item);
        }
        self.exhausted() >> item & 1 == 1
    }
}
