//! Hashes of items, and which bits of a hash choose what.
//!
//! The highest 8 bits choose the part, the rest of the upper half the place in the part, and 6 bits of the lower half the bit
//! in each word of a cache line ([`layer`](super::layer)).

/// The hash of an item, which is not 0: that stands for a free slot.
pub type Hash = u128;

/// The number of parts.
pub const PARTS: usize = 256;
/// The number of bits that choose the part.
const PART_BITS: u32 = PARTS.trailing_zeros();

/// Returns the part of a hash.
#[allow(
    clippy::cast_possible_truncation,
    reason = "it is below the number of parts"
)]
pub fn part_of(hash: Hash) -> usize {
    (hash >> (128 - PART_BITS)) as usize
}

/// Returns the place of a hash in its part, if the part has this number of places. Places ascend with hashes.
#[allow(
    clippy::cast_possible_truncation,
    reason = "bits are cut out of hashes"
)]
pub fn place_in_part(hash: Hash, places: usize) -> usize {
    let high = ((hash >> 64) as u64) << PART_BITS;
    ((u128::from(high) * places as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_ascend_with_hashes_and_use_the_whole_part() {
        for places in [1, 3, 1 << 20] {
            for part in [0, PARTS - 1] {
                let first = (part as u128) << (128 - PART_BITS);
                let step = 1 << 110;
                let hashes = (0..1 << 10).map(|number| first + number * step + 1);
                let found: Vec<_> = hashes.map(|hash| place_in_part(hash, places)).collect();
                assert!(found.is_sorted() && found[0] == 0);
                let last = first + ((1 << (128 - PART_BITS)) - 1);
                assert_eq!((part_of(first), part_of(last)), (part, part));
                assert_eq!(place_in_part(last, places), places - 1);
            }
        }
    }
}
