//! Fields to read and to write, one after another: in an RDB stream, or in bytes.
//!
//! Nothing is allocated for a claimed size, only for bytes that are there.

use std::borrow::Cow;

use crate::machine::memory;

/// The most bytes of a chunk that is written; one that is loaded may have any size. The protocol allows
/// 16 MiB: copying so much into a reply would keep the server from everything else for 8 ms.
pub const CHUNK_BYTES: usize = 4 << 20;

/// Why bytes can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Written in a newer form than this program knows.
    UnsupportedVersion,
    /// The bytes end before the object does, or the stream failed.
    Truncated,
    /// Something in them is invalid, in words for a log.
    Malformed(&'static str),
    /// There is no memory for the object.
    NoMemory,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnsupportedVersion => f.write_str("unsupported version"),
            Self::Truncated => f.write_str("bytes end too early"),
            Self::Malformed(what) => f.write_str(what),
            Self::NoMemory => f.write_str("not enough memory"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<&'static str> for DecodeError {
    fn from(what: &'static str) -> Self {
        Self::Malformed(what)
    }
}

/// A stream of fields to read from. Every method fails with [`DecodeError::Truncated`] where
/// the stream has ended or holds a field of another kind.
pub trait RdbRead {
    /// The next unsigned integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]
    fn uint(&mut self) -> Result<u64, DecodeError>;
    /// The next double.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]
    fn double(&mut self) -> Result<f64, DecodeError>;
    /// The next string.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]
    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError>;
}

/// A stream of fields to write to.
pub trait RdbWrite {
    /// Writes an unsigned integer.
    fn uint(&mut self, value: u64);
    /// Writes a double.
    fn double(&mut self, value: f64);
    /// Writes a string.
    fn bytes(&mut self, value: &[u8]);
    /// Writes a filter as a string: its header and its cells. `blob` returns both, or `None` if there is no memory for a
    /// copy; `header` is the header alone.
    ///
    /// # Panics
    /// There is no memory for a copy: a server's callbacks cannot fail, and half a value must not be stored.
    fn filter<'b>(&mut self, _header: &[u8], blob: impl FnOnce() -> Option<Cow<'b, [u8]>>) {
        self.bytes(&blob().expect("no memory to write an interleaved filter"));
    }
}

/// Appends a value to a table that grows with the input.
pub fn push<T>(to: &mut Vec<T>, value: T) -> Result<(), DecodeError> {
    to.try_reserve(1).map_err(|_| DecodeError::NoMemory)?;
    to.push(value);
    Ok(())
}

/// Bytes written one after another; none, once there was no memory for some of them.
pub struct Written(Option<Vec<u8>>);

impl Written {
    /// Begins with no bytes.
    pub const fn new() -> Self {
        Self(Some(Vec::new()))
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        if let Some(written) = &mut self.0 {
            if written.try_reserve(bytes.len()).is_ok() {
                written.extend_from_slice(bytes);
            } else {
                self.0 = None;
            }
        }
    }

    /// Gives up what was written, as if there was no memory for it.
    pub fn fail(&mut self) {
        self.0 = None;
    }

    /// Returns all the bytes, or `None` if there was no memory for them.
    pub fn end(self) -> Option<Vec<u8>> {
        self.0
    }
}

/// Bytes not yet read.
pub struct Cursor<'b>(pub &'b [u8]);

impl<'b> Cursor<'b> {
    /// The next bytes, this many.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    /// Requires that nothing is left.
    pub fn end(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err("bytes behind the object".into())
        }
    }

    fn slice(&mut self, length: u64) -> Result<&'b [u8], DecodeError> {
        let length = usize::try_from(length).map_err(|_| DecodeError::Truncated)?;
        let (slice, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(slice)
    }
}

impl RdbRead for Cursor<'_> {
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
