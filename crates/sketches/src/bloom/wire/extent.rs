//! Filters as fields, whole or cut after their headers.

use crate::bloom::filter::HEADER_BYTES;
use crate::bloom::object::FilterOutline;
use crate::bytes::DecodeError;

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
