//! Plain objects whose fields can each be written wrongly.

pub use crate::support::plain::Plain as Draft;

use crate::support::Stream;
pub use crate::support::plain::PlainFilter as FilterDraft;

/// The published seed of objects without randomness.
pub const FIXED: [u8; 32] = [
    89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115, 62,
    152, 136, 135, 48, 127, 151, 205, 40, 7, 51, 131,
];

impl Draft {
    /// Returns a valid one of two filters, the first of them full.
    pub fn valid() -> Self {
        let filter = |bitmap: &[u8], hashes, capacity, items| FilterDraft {
            hashes,
            seed: FIXED,
            ..FilterDraft::new(capacity, items, bitmap.to_vec())
        };
        Self {
            version: 1,
            expansion: 2,
            error_rate: 0.1,
            tightening: 0.5,
            seed_is_random: 0,
            count: None,
            filters: vec![
                filter(&[0xa5, 0x01, 0x80], 4, 3, 3),
                filter(&[0x11, 0x22, 0x33, 0x44, 0x00], 6, 6, 2),
            ],
            trailing: Vec::new(),
        }
    }

    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut draft = Self::valid();
        change(&mut draft);
        draft
    }

    pub fn rdb(&self) -> Stream {
        Stream(self.fields().into())
    }
}
