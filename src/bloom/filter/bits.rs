//! Cells that are bits: bit `i` is byte `i/8`, value `1 << i%8`.

/// Whether the bits at all of these positions are set.
#[inline(always)]
pub fn all_set(bitmap: &[u8], mut positions: impl Iterator<Item = u64>) -> bool {
    positions.all(|position| bitmap[(position / 8) as usize] & 1 << (position % 8) != 0)
}

/// Sets the bits at these positions. Returns whether one of them was clear.
#[inline(always)]
pub fn set_all(bitmap: &mut [u8], positions: impl Iterator<Item = u64>) -> bool {
    let mut new = false;
    for position in positions {
        let (byte, mask) = (&mut bitmap[(position / 8) as usize], 1 << (position % 8));
        new |= *byte & mask == 0;
        *byte |= mask;
    }
    new
}

/// Sets the bits that are set in another bitmap.
pub fn unite(bitmap: &mut [u8], other: &[u8]) {
    let pairs = bitmap.iter_mut().zip(other);
    pairs.for_each(|(bits, other)| *bits |= other);
}
