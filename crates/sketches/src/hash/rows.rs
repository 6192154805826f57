//! The hashes of an item for the rows of a sketch: `MurmurHash2` with the number of the row as its seed.
//!
//! The seed only begins the state. A block of the item is mixed once for many rows, and the rows are hashed side by
//! side. Sketches of `RedisBloom` hold counters at the columns that follow, so neither ever changes.

use crate::machine::words::{self, Task, Use, Words};

/// The most rows that are hashed together. Their states fit the registers of a processor with 256-bit vectors.
pub const GROUP: usize = 64;

/// Returns the hashes of an item for `rows` rows from `first` on, at most [`GROUP`], followed by unspecified values.
/// Callers are [tasks](crate::machine::words::Task), so that it is compiled for the vectors of each width.
#[inline(always)]
pub fn hashes_of_rows(item: &[u8], first: u32, rows: usize) -> [u32; GROUP] {
    let mut hashes = [0; GROUP];
    match rows {
        0..=8 => side_by_side::<8>(item, first, &mut hashes),
        9..=16 => side_by_side::<16>(item, first, &mut hashes),
        17..=32 => side_by_side::<32>(item, first, &mut hashes),
        _ => side_by_side::<GROUP>(item, first, &mut hashes),
    }
    hashes
}

/// Returns the hashes of an item for `count` rows from `first` on, as [`hashes_of_rows`] does, outside of a task.
#[cold]
pub fn hashes_of_deep_rows(item: &[u8], first: u32, count: usize) -> [u32; GROUP] {
    words::run(Rows { item, first, count })
}

struct Rows<'i> {
    item: &'i [u8],
    first: u32,
    count: usize,
}

impl Task for Rows<'_> {
    const USE: Use = Use::Hashing;
    type Output = [u32; GROUP];

    #[inline(always)]
    fn run<W: Words>(self) -> Self::Output {
        hashes_of_rows(self.item, self.first, self.count)
    }
}

#[inline(always)]
fn side_by_side<const ROWS: usize>(item: &[u8], first: u32, hashes: &mut [u32; GROUP]) {
    let mut seeds = [first; ROWS];
    for (seed, row) in seeds.iter_mut().zip(0..) {
        *seed = seed.wrapping_add(row);
    }
    hashes[..ROWS].copy_from_slice(&murmur_32_of_seeds(item, seeds));
}

/// Computes `MurmurHash2` of an item for each of several seeds.
#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the hash mixes in the length modulo 2³²"
)]
pub fn murmur_32_of_seeds<const SEEDS: usize>(item: &[u8], seeds: [u32; SEEDS]) -> [u32; SEEDS] {
    const M: u32 = 0x5bd1_e995;
    let mut hashes = seeds.map(|seed| seed ^ item.len() as u32);
    let (blocks, tail) = item.as_chunks::<4>();
    for block in blocks {
        let k = u32::from_le_bytes(*block).wrapping_mul(M);
        let k = (k ^ k >> 24).wrapping_mul(M);
        for hash in &mut hashes {
            *hash = hash.wrapping_mul(M) ^ k;
        }
    }
    if !tail.is_empty() {
        let rest = match *tail {
            [a] => u32::from(a),
            [a, b] => u32::from(u16::from_le_bytes([a, b])),
            [a, b, c, ..] => u32::from_le_bytes([a, b, c, 0]),
            [] => 0,
        };
        for hash in &mut hashes {
            *hash = (*hash ^ rest).wrapping_mul(M);
        }
    }
    for hash in &mut hashes {
        *hash = (*hash ^ *hash >> 13).wrapping_mul(M);
        *hash ^= *hash >> 15;
    }
    hashes
}

/// The columns of a row: hash → hash modulo width, without a division.
///
/// `hash · ⌈2⁶⁴/width⌉ mod 2⁶⁴` is the fraction of the quotient, and its product with the width is the remainder:
/// exact for hashes of 32 bits and widths up to 2³² (Lemire, Kaser and Kurz 2019).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The width, or 2³² if that is less: hashes are below it.
    width: u64,
    reciprocal: u64,
}

impl Columns {
    /// Creates the columns of a row with `width` counters, at least 1.
    pub const fn new(width: u64) -> Self {
        let width = if width < 1 << 32 { width } else { 1 << 32 };
        Self {
            width,
            // For a width of 1 it wraps to 0, and so every remainder is 0.
            reciprocal: (u64::MAX / width).wrapping_add(1),
        }
    }

    /// Returns the column of a hash: less than the width, and less than 2³².
    #[inline(always)]
    pub fn of(self, hash: u32) -> u64 {
        let fraction = self.reciprocal.wrapping_mul(hash.into());
        ((u128::from(fraction) * u128::from(self.width)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::murmur::murmur_32;
    use super::*;

    /// Items of every length up to 40 bytes, the bytes from a generator.
    fn items() -> impl Iterator<Item = Vec<u8>> {
        let mut state = 7_u32;
        (0..40).map(move |length| {
            let byte = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_le_bytes()[3]
            };
            std::iter::repeat_with(byte).take(length).collect()
        })
    }

    #[test]
    fn rows_have_the_hashes_of_their_seeds() {
        for item in items() {
            for rows in [1, 7, 8, 9, 16, 17, 32, 33, GROUP] {
                for first in [0, 64, u32::MAX - 3] {
                    let hashes = hashes_of_rows(&item, first, rows);
                    for (row, hash) in (0..).zip(&hashes[..rows]) {
                        let expected = murmur_32(&item, first.wrapping_add(row));
                        assert_eq!(*hash, expected, "{item:?} {first} + {row}");
                    }
                }
            }
        }
    }

    #[test]
    fn hashes_are_those_of_redisbloom() {
        let rows: [(&[u8], [u32; 5]); 7] = [
            (b"", [0, 0x5bd1_5e36, 0xb7a2_bc6d, 0x26eb_34a8, 0x4a85_66e0]),
            (
                b"a",
                [
                    0x9268_5f5e,
                    0x2550_b18c,
                    0x2cf6_2649,
                    0x5c22_f2fa,
                    0xf23c_f517,
                ],
            ),
            (
                b"foo",
                [
                    0x8fea_6375,
                    0x0bcc_2e5a,
                    0x71b5_1c90,
                    0xd3fd_4a99,
                    0x4064_c400,
                ],
            ),
            (
                b"item",
                [
                    0xe7ff_b548,
                    0xff1d_80f0,
                    0xea53_b56c,
                    0x6c24_9ce5,
                    0xac1b_e13d,
                ],
            ),
            (
                b"12345678",
                [
                    0xd255_fbef,
                    0x93ee_bf1d,
                    0x5eea_9709,
                    0xf522_7443,
                    0xa4ba_59a2,
                ],
            ),
            (
                b"123456789",
                [
                    0xdccb_0167,
                    0xa632_87ca,
                    0x538f_2784,
                    0x48c4_4105,
                    0xfedd_ff71,
                ],
            ),
            (
                &[255; 7],
                [
                    0xeca3_0c90,
                    0x4223_9a09,
                    0x2035_90ae,
                    0x1966_7d8f,
                    0xe1cd_b3b2,
                ],
            ),
        ];
        for (item, hashes) in rows {
            let seeds = [0, 1, 2, 6, 1919];
            assert_eq!(murmur_32_of_seeds(item, seeds), hashes, "{item:?}");
        }
        let columns = |width| {
            let columns = Columns::new(width);
            hashes_of_rows(b"foo", 0, 7).map(|hash| columns.of(hash))
        };
        assert_eq!(columns(2000)[..7], [773, 586, 736, 1465, 27, 60, 281]);
        assert_eq!(columns(8)[..7], [5, 2, 0, 1, 3, 4, 1]);
    }

    #[test]
    fn columns_are_remainders() {
        let near = |number: u64| number.saturating_sub(2).max(1)..=number.saturating_add(2);
        let widths = (0..64).flat_map(|bits| near(1 << bits)).chain(1..2000);
        let widths = widths
            .chain(near(u64::from(u32::MAX) / 3))
            .chain(near(u64::MAX >> 1));
        for width in widths {
            let columns = Columns::new(width);
            // Remainders are hardest next to multiples of the width.
            let most = u64::from(u32::MAX);
            let multiples = [1, 2, 3, most / width / 2, most / width];
            let hashes = multiples
                .into_iter()
                .filter_map(|times| width.checked_mul(times))
                .flat_map(|multiple| multiple.saturating_sub(1)..=multiple.saturating_add(1))
                .chain([0, 1, most / 2, most - 1, most]);
            for hash in hashes.filter_map(|hash| u32::try_from(hash).ok()) {
                assert_eq!(
                    columns.of(hash),
                    u64::from(hash) % width,
                    "{hash} % {width}"
                );
            }
        }
    }
}
