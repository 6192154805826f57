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

/// Whether all bits that are set in another bitmap of this length are set in this one.
pub fn hold(bitmap: &[u8], other: &[u8]) -> bool {
    let ((words, bytes), (other_words, other_bytes)) = (bitmap.as_chunks(), other.as_chunks());
    let mut words = words.iter().zip(other_words);
    let mut bytes = bytes.iter().zip(other_bytes);
    words.all(|(own, other)| u64::from_le_bytes(*other) & !u64::from_le_bytes(*own) == 0)
        && bytes.all(|(own, other)| other & !own == 0)
}

/// How many bits are set.
pub fn ones(bitmap: &[u8]) -> u64 {
    ones_of_union(bitmap, bitmap)
}

/// How many bits are set in either of two bitmaps of one length.
pub fn ones_of_union(bitmap: &[u8], other: &[u8]) -> u64 {
    let ((words, bytes), (other_words, other_bytes)) = (bitmap.as_chunks(), other.as_chunks());
    let words = words.iter().zip(other_words);
    let in_words = words.map(|(own, other)| {
        let either = u64::from_le_bytes(*own) | u64::from_le_bytes(*other);
        u64::from(either.count_ones())
    });
    let bytes = bytes.iter().zip(other_bytes);
    let in_bytes = bytes.map(|(own, other)| u64::from((own | other).count_ones()));
    in_words.sum::<u64>() + in_bytes.sum::<u64>()
}

/// The positions of the bits that are set.
pub fn positions_set(bitmap: &[u8]) -> Vec<u64> {
    let mut positions = Vec::with_capacity(usize::try_from(ones(bitmap)).unwrap_or(0));
    for (first, bytes) in (0..).step_by(64).zip(bitmap.chunks(8)) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let mut left = u64::from_le_bytes(word);
        while left != 0 {
            positions.push(first + u64::from(left.trailing_zeros()));
            left &= left - 1;
        }
    }
    positions
}
