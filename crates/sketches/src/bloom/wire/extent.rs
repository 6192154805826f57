//! Filters as fields, whole or cut after their headers.

use crate::bloom::filter::HEADER_BYTES;
use crate::bloom::object::FilterOutline;
use crate::bytes::{Buffer, DecodeError, RdbRead, RdbWrite};

/// Reads a string that is a filter with its header. Refuses a shorter one at once: its few bytes in a file would take
/// many more in memory.
pub fn read_blob(from: &mut impl RdbRead) -> Result<Vec<u8>, DecodeError> {
    let blob = from.bytes()?;
    if blob.len() < HEADER_BYTES {
        return Err("filter shorter than its header".into());
    }
    Ok(blob)
}

/// The part of each filter that is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The whole filter.
    Whole,
    /// The header alone. The cells follow in chunks.
    Header,
}

impl Extent {
    /// Returns the first byte of a dump or a header of this version of a dialect. They differ, so neither is mistaken for
    /// the other.
    pub const fn version(self, version: u8) -> u8 {
        match self {
            Self::Whole => version,
            Self::Header => 0x80 | version,
        }
    }

    /// Returns the part of a blob that is written.
    pub fn of(self, blob: &[u8]) -> &[u8] {
        match self {
            Self::Whole => blob,
            Self::Header => &blob[..blob.len().min(HEADER_BYTES)],
        }
    }

    /// Checks that filters are no longer than the part that is written.
    pub fn check<'f>(
        self,
        filters: impl IntoIterator<Item = &'f FilterOutline>,
    ) -> Result<(), DecodeError> {
        let mut filters = filters.into_iter();
        if self == Self::Header && filters.any(|filter| filter.blob.len() != HEADER_BYTES) {
            return Err("header holds more than headers".into());
        }
        Ok(())
    }
}

/// Writes fields as bytes: numbers as eight little-endian bytes, strings after their length.
pub struct Bytes {
    /// The bytes written so far.
    pub written: Buffer,
}

impl RdbWrite for Bytes {
    fn uint(&mut self, value: u64) {
        self.written.put(&value.to_le_bytes());
    }

    fn double(&mut self, value: f64) {
        self.written.put(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.uint(value.len() as u64);
        self.written.put(value);
    }

    fn no_memory(&mut self, _: &str) {
        self.written.fail();
    }
}
