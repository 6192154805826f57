//! Dumps, headers and RDB fields of plain objects, put together after the description of the format.

use std::collections::VecDeque;

use crate::support::{Field, Stream};

/// The published seed of objects without randomness.
pub const FIXED: [u8; 32] = [
    89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115, 62,
    152, 136, 135, 48, 127, 151, 205, 40, 7, 51, 131,
];

/// An object whose fields can each be written wrongly.
#[derive(Clone)]
pub struct Draft {
    pub version: u8,
    pub expansion: u64,
    pub error_rate: f64,
    pub tightening: f64,
    pub seed_is_random: u64,
    /// The number of filters to write, if it is not the true one.
    pub count: Option<u64>,
    pub filters: Vec<FilterDraft>,
    pub behind: &'static [u8],
}

#[derive(Clone)]
pub struct FilterDraft {
    pub version: u8,
    /// The length of the bitmap to write, if it is not the true one.
    pub bitmap_bytes: Option<u64>,
    pub hashes: u32,
    pub seed: [u8; 32],
    pub bitmap: Vec<u8>,
    /// The length that the blob is cut to, if it is cut.
    pub cut: Option<usize>,
    /// The length of the blob to write, if it is not the true one.
    pub length: Option<u64>,
    pub capacity: u64,
    pub items: u64,
}

impl FilterDraft {
    fn blob(&self) -> Vec<u8> {
        let mut blob = vec![self.version];
        let bytes = self.bitmap_bytes.unwrap_or(self.bitmap.len() as u64);
        blob.extend(bytes.to_le_bytes());
        blob.extend(self.hashes.to_le_bytes());
        blob.extend(self.seed);
        blob.extend(&self.bitmap);
        blob.truncate(self.cut.unwrap_or(blob.len()));
        blob
    }
}

impl Draft {
    /// Returns a valid one of two filters, the first of them full.
    pub fn valid() -> Self {
        let filter = |bitmap: &[u8], hashes, capacity, items| FilterDraft {
            version: 1,
            bitmap_bytes: None,
            hashes,
            seed: FIXED,
            bitmap: bitmap.to_vec(),
            cut: None,
            length: None,
            capacity,
            items,
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
            behind: &[],
        }
    }

    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut draft = Self::valid();
        change(&mut draft);
        draft
    }

    pub fn bytes(&self, version: u8, cut: bool) -> Vec<u8> {
        let mut out = vec![version];
        out.extend(u32::try_from(self.expansion).unwrap().to_le_bytes());
        out.extend(self.error_rate.to_le_bytes());
        out.extend(self.tightening.to_le_bytes());
        out.push(u8::try_from(self.seed_is_random).unwrap());
        let count = self.count.unwrap_or(self.filters.len() as u64);
        out.extend(count.to_le_bytes());
        for filter in &self.filters {
            let mut blob = filter.blob();
            if cut {
                blob.truncate(45);
            }
            let length = filter.length.unwrap_or(blob.len() as u64);
            out.extend(length.to_le_bytes());
            out.extend(blob);
            out.extend(filter.items.to_le_bytes());
            out.extend(filter.capacity.to_le_bytes());
        }
        out.extend(self.behind);
        out
    }

    pub fn dump(&self) -> Vec<u8> {
        self.bytes(self.version, false)
    }

    pub fn header(&self) -> Vec<u8> {
        self.bytes(self.version | 0x80, true)
    }

    pub fn rdb(&self) -> Stream {
        let count = self.count.unwrap_or(self.filters.len() as u64);
        let mut fields = VecDeque::from([
            Field::Uint(count),
            Field::Uint(self.expansion),
            Field::Double(self.error_rate),
            Field::Double(self.tightening),
            Field::Uint(self.seed_is_random),
        ]);
        for filter in &self.filters {
            fields.push_back(Field::Bytes(filter.blob()));
            fields.push_back(Field::Uint(filter.capacity));
        }
        if let Some(newest) = self.filters.last() {
            fields.push_back(Field::Uint(newest.items));
        }
        Stream(fields)
    }
}
