//! Filters as fields: whole, or their headers alone.

use std::borrow::Cow;

use crate::bloom::filter::HEADER_BYTES;
use crate::bytes::{DecodeError, RdbRead, RdbWrite, Written};

/// The next string, which is a filter with its header. If it is not, it is refused at once: its few bytes in
/// a file would take many more in memory.
pub fn read_blob(from: &mut impl RdbRead) -> Result<Vec<u8>, DecodeError> {
    let blob = from.bytes()?;
    if blob.len() < HEADER_BYTES {
        return Err("filter shorter than its header".into());
    }
    Ok(blob)
}

/// How much of each filter is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Its header alone: its cells follow in chunks.
    Header,
}

impl Extent {
    /// As much of a blob as is written.
    pub fn of(self, blob: &[u8]) -> &[u8] {
        match self {
            Self::Whole => blob,
            Self::Header => &blob[..blob.len().min(HEADER_BYTES)],
        }
    }

    /// Requires that a blob is no longer than what is written of it.
    pub fn check(self, blob: &[u8]) -> Result<(), DecodeError> {
        if self == Self::Header && blob.len() != HEADER_BYTES {
            return Err("header holds more than headers".into());
        }
        Ok(())
    }
}

/// Fields written as bytes: numbers of eight bytes, little endian, strings after their length.
pub struct Bytes {
    /// What was written.
    pub written: Written,
    /// How much of strings that are filters is written; the seed is shorter than any of them.
    pub extent: Extent,
}

impl RdbWrite for Bytes {
    fn uint(&mut self, value: u64) {
        self.written.put(&value.to_le_bytes());
    }

    fn double(&mut self, value: f64) {
        self.written.put(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        let value = self.extent.of(value);
        self.uint(value.len() as u64);
        self.written.put(value);
    }

    fn filter<'b>(&mut self, header: &[u8], blob: impl FnOnce() -> Option<Cow<'b, [u8]>>) {
        let blob = match self.extent {
            Extent::Whole => blob(),
            Extent::Header => Some(header.into()),
        };
        match blob {
            Some(blob) => self.bytes(&blob),
            None => self.written.fail(),
        }
    }
}
