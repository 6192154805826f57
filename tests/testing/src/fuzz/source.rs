//! Turns the bytes of an input into values for the targets.

use valkeybloom_sketches::{DecodeError, RdbRead, Seed};

use crate::plain::{Plain, PlainFilter};

/// The bytes that have not been read. Reading past the end returns zeros, or an error when it is read as an RDB stream.
#[derive(Clone, Copy)]
pub struct Source<'b>(pub &'b [u8]);

impl<'b> Source<'b> {
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.bytes(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Reads `most` bytes, or all that are left.
    pub fn bytes(&mut self, most: usize) -> &'b [u8] {
        let (bytes, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Reads a length, and that number of bytes.
    pub fn string(&mut self) -> &'b [u8] {
        let length = self.u16();
        self.bytes(length.into())
    }

    /// Reads a plain object. The lengths of its blobs are always right, so that most changes of a byte still give a valid
    /// object.
    pub fn plain(&mut self) -> Plain {
        let mut plain = Plain {
            expansion: u32::from_le_bytes(self.array()).into(),
            error_rate: f64::from_le_bytes(self.array()),
            tightening: f64::from_le_bytes(self.array()),
            seed_is_random: self.byte().into(),
            filters: Vec::new(),
            ..Plain::new()
        };
        let seed = match self.byte() {
            0 => *Seed::FIXED.as_bytes(),
            byte => [byte; 32],
        };
        while !self.0.is_empty() {
            let hashes = u32::from(self.u16());
            let capacity = self.number();
            let items = match self.byte() {
                0 => capacity,
                lacking => capacity.wrapping_sub(lacking.into()),
            };
            let bitmap = self.string().to_vec();
            plain.filters.push(PlainFilter {
                hashes,
                seed,
                ..PlainFilter::new(capacity, items, bitmap)
            });
        }
        plain
    }

    /// Reads a number of 0 to 8 bytes, after a byte with their number.
    pub fn number(&mut self) -> u64 {
        let mut number = [0; 8];
        let bytes = self.byte() % 9;
        for byte in &mut number[..bytes.into()] {
            *byte = self.byte();
        }
        u64::from_le_bytes(number)
    }

    fn field<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*field)
    }
}

/// Reads numbers of 8 bytes, and strings after their length, which has 2 bytes.
impl RdbRead for Source<'_> {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        self.field().map(u64::from_le_bytes)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        self.field().map(f64::from_le_bytes)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        let length = usize::from(u16::from_le_bytes(self.field()?));
        let (bytes, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(bytes.to_vec())
    }
}
