//! Cells that are bits: bit `i` is byte `i/8`, value `1 << i%8`.

use crate::machine::words::{self, Task, Words};

/// Returns whether the bits at all of these positions are set.
#[inline(always)]
pub fn all_set(bitmap: &[u8], mut positions: impl Iterator<Item = u64>) -> bool {
    positions.all(|position| bitmap[(position / 8) as usize] & 1 << (position % 8) != 0)
}

/// Sets the bits at these positions. Returns whether one of them was clear.
#[inline(always)]
pub fn set_all(bitmap: &mut [u8], positions: impl Iterator<Item = u64>) -> bool {
    let mut changed = 0;
    positions.for_each(|position| {
        let byte = &mut bitmap[(position / 8) as usize];
        let before = *byte;
        *byte |= 1 << (position % 8);
        changed |= before ^ *byte;
    });
    changed != 0
}

/// Bytes that are handled together, so that the compiler uses the widest words it may.
const PIECE: usize = 512;

/// Returns the first byte in which another bitmap of the same length has a bit that this bitmap lacks.
pub fn lacking(bitmap: &[u8], other: &[u8]) -> Option<usize> {
    words::run(Lacking(bitmap, other))
}

struct Lacking<'b>(&'b [u8], &'b [u8]);

impl Task for Lacking<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<W: Words>(self) -> Option<usize> {
        let Self(own, other) = self;
        let (pieces, _) = own.as_chunks::<PIECE>();
        let (other_pieces, _) = other.as_chunks::<PIECE>();
        let piece = pieces.iter().zip(other_pieces).position(|(own, other)| {
            let bytes = own.iter().zip(other);
            let lacked = bytes.map(|(own, other)| other & !own);
            lacked.fold(0, |all, bits| all | bits) != 0
        });
        let start = piece.unwrap_or(pieces.len()) * PIECE;
        let mut rest = own[start..].iter().zip(&other[start..]);
        let within = rest.position(|(own, other)| other & !own != 0);
        within.map(|at| start + at)
    }
}

/// Returns the number of bits that are set.
pub fn ones(bitmap: &[u8]) -> u64 {
    ones_of_union(bitmap, bitmap)
}

/// Returns the number of bits that are set in either of two bitmaps of the same length.
pub fn ones_of_union(bitmap: &[u8], other: &[u8]) -> u64 {
    words::run(OnesOfUnion(bitmap, other))
}

/// Sets the bits that are set in another bitmap of the same length. Returns the number of bits that are set then.
pub fn unite(bitmap: &mut [u8], other: &[u8]) -> u64 {
    words::run(Unite(bitmap, other))
}

struct OnesOfUnion<'b>(&'b [u8], &'b [u8]);

impl Task for OnesOfUnion<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<W: Words>(self) -> u64 {
        let ((words, bytes), (other_words, other_bytes)) = (self.0.as_chunks(), self.1.as_chunks());
        let words = words.iter().zip(other_words).map(|(own, other)| {
            let either = u64::from_le_bytes(*own) | u64::from_le_bytes(*other);
            u64::from(either.count_ones())
        });
        let bytes = bytes.iter().zip(other_bytes);
        let bytes = bytes.map(|(own, other)| u64::from((own | other).count_ones()));
        words.sum::<u64>() + bytes.sum::<u64>()
    }
}

struct Unite<'b>(&'b mut [u8], &'b [u8]);

impl Task for Unite<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<W: Words>(self) -> u64 {
        let mut ones = 0;
        for (own, other) in self.0.chunks_mut(PIECE).zip(self.1.chunks(PIECE)) {
            for (own, other) in own.iter_mut().zip(other) {
                *own |= other;
            }
            ones += OnesOfUnion(own, own).run::<W>();
        }
        ones
    }
}
