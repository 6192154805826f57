//! Items that a small filter may claim, made up to ask it for them.
//!
//! What a filter of few items claims depends on how its few bits lie to each other, which no count of them tells.
//! An item's first two positions are independent. So it is enough to ask for items of which both are set: of the
//! others the filter claims none. With one hash function only the first one counts.

use crate::hash::Probe;

/// Items whose first two positions are set in a filter, or the only one.
pub struct Likely {
    /// The positions that are set.
    set: Vec<u64>,
    positions: u64,
    hashes: u32,
    bare: bool,
}

impl Likely {
    /// Those of a filter of so many positions and hash functions, bare or with a header, in which these are set.
    pub const fn new(set: Vec<u64>, positions: u64, hashes: u32, bare: bool) -> Self {
        Self {
            set,
            positions,
            hashes,
            bare,
        }
    }

    /// So many of them: always the same ones, for a number. None, where none is.
    pub fn probes(&self, count: u32, number: u64) -> impl Iterator<Item = Probe> {
        let (sets, rounds) = (self.set.len() as u64, u64::MAX / self.positions);
        // Some number that falls on this position.
        let at = move |position, random| below(rounds, random) * self.positions + position;
        let firsts = self.set.iter().cycle().take(count as usize);
        firsts.scan(number << 32, move |state, first| {
            let random = scrambled(state);
            let second = if self.hashes == 1 {
                below(self.positions, random)
            } else {
                self.set[usize::try_from(below(sets, random)).unwrap_or(0)]
            };
            // One half tells the position, the other which number that falls on it.
            let (a, b) = (
                at(*first, scrambled(state)),
                at(second, random.rotate_right(32)),
            );
            // In a bare filter the second position is that of the sum.
            Some(Probe::new(a, if self.bare { b.wrapping_sub(a) } else { b }))
        })
    }
}

/// A number below this one, given a random one.
#[allow(clippy::cast_possible_truncation, reason = "the high half fits")]
pub const fn below(bound: u64, random: u64) -> u64 {
    ((bound as u128 * random as u128) >> 64) as u64
}

/// The next of numbers that look random: `SplitMix64` (Steele, Lea and Flood 2014).
pub const fn scrambled(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
