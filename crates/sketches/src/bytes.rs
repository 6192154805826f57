//! Reading and writing fields in sequence, in an RDB stream or in bytes.
//!
//! Memory is allocated only for bytes that are present, never for a claimed size.

use crate::machine::memory;

/// The largest chunk written, in bytes. A loaded chunk may have any size. The protocol allows 16 MiB, but copying that
/// into a reply would block the server for 8 ms.
pub const CHUNK_BYTES: usize = 4 << 20;

/// The reason that bytes can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes have a newer form than this program supports.
    UnsupportedVersion,
    /// The bytes end before the object is complete, or the stream failed.
    Truncated,
    /// The bytes are invalid. The text says why, for a log.
    Malformed(&'static str),
    /// The object can't be allocated.
    NoMemory,
}

crate::error::texts!(DecodeError {
    Self::UnsupportedVersion => "unsupported version",
    Self::Truncated => "bytes end too early",
    Self::Malformed(what) => what,
    Self::NoMemory => "not enough memory",
});

impl From<&'static str> for DecodeError {
    fn from(what: &'static str) -> Self {
        Self::Malformed(what)
    }
}

/// A stream of fields to read. Every method fails with [`DecodeError::Truncated`] if the stream has ended or its next
/// field has another type.
pub trait RdbRead {
    /// Reads the next unsigned integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]
    fn uint(&mut self) -> Result<u64, DecodeError>;
    /// Reads the next double.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]
    fn double(&mut self) -> Result<f64, DecodeError>;
    /// Reads the next string.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]
    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError>;
}

/// A stream of fields to write.
pub trait RdbWrite {
    /// Writes an unsigned integer.
    fn uint(&mut self, value: u64);
    /// Writes a double.
    fn double(&mut self, value: f64);
    /// Writes a string.
    fn bytes(&mut self, value: &[u8]);
    /// Gives up, because bytes to write can't be allocated.
    ///
    /// # Panics
    /// Unless the stream can fail: a server's callbacks cannot, and half a value must not be stored.
    fn no_memory(&mut self, of: &str) {
        panic!("no memory for {of}");
    }
}

/// Appends a value to a table that grows with the input.
pub fn push<T>(to: &mut Vec<T>, value: T) -> Result<(), DecodeError> {
    to.try_reserve(1).map_err(|_| DecodeError::NoMemory)?;
    to.push(value);
    Ok(())
}

/// A byte buffer. Fields are written to it as little-endian numbers of eight bytes, and strings after their length.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// Whether an allocation failed.
    has_failed: bool,
}

impl Buffer {
    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.has_failed |= self.bytes.try_reserve(bytes.len()).is_err();
        if !self.has_failed {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Returns all bytes, or `None` if an allocation failed.
    pub fn end(self) -> Option<Vec<u8>> {
        (!self.has_failed).then_some(self.bytes)
    }
}

impl RdbWrite for Buffer {
    fn uint(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    fn double(&mut self, value: f64) {
        self.put(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.uint(value.len() as u64);
        self.put(value);
    }

    fn no_memory(&mut self, _: &str) {
        self.has_failed = true;
    }
}

/// The bytes not read yet.
pub struct ByteCursor<'b>(pub &'b [u8]);

impl<'b> ByteCursor<'b> {
    /// Reads the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    /// Checks that no bytes are left.
    pub fn end(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err("bytes after the object".into())
        }
    }

    /// Reads the next `length` bytes.
    pub fn slice(&mut self, length: u64) -> Result<&'b [u8], DecodeError> {
        let length = usize::try_from(length).map_err(|_| DecodeError::Truncated)?;
        let split = self.0.split_at_checked(length);
        let (slice, rest) = split.ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(slice)
    }
}

impl RdbRead for ByteCursor<'_> {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        let length = self.uint()?;
        let copy = memory::copied(self.slice(length)?);
        Ok(copy.ok_or(DecodeError::NoMemory)?.into_vec())
    }
}
