//! Streams of values: reading and writing RDB, writing AOF, and feeding the digest of DEBUG DIGEST.
//!
//! The server makes each stream for one call of a value's callback. The stream is alive during that
//! call, and every `unsafe` block below relies on this.

use std::ffi::{CStr, c_longlong};
use std::ptr;

use valkey_module::raw;
use valkeybloom_sketches::{DecodeError, RdbRead, RdbWrite};

use super::api::call;

/// A value being read from an RDB stream. A read fails if the stream has ended or the next field has another kind.
pub struct RdbReader(pub(super) *mut raw::RedisModuleIO);

impl RdbReader {
    fn checked<V>(&self, value: V) -> Result<V, DecodeError> {
        // SAFETY: the stream is alive.
        let failed = unsafe { call!(RedisModule_IsIOError(self.0)) } != 0;
        if failed {
            Err(DecodeError::Truncated)
        } else {
            Ok(value)
        }
    }
}

impl RdbRead for RdbReader {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        // SAFETY: the stream is alive.
        let value = unsafe { call!(RedisModule_LoadUnsigned(self.0)) };
        self.checked(value)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        // SAFETY: the stream is alive.
        let value = unsafe { call!(RedisModule_LoadDouble(self.0)) };
        self.checked(value)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        let mut length = 0;
        // SAFETY: the stream is alive. The server returns null or a block of exactly `length` bytes, which
        // we own; it comes from the server's allocator, which is the global allocator here.
        unsafe {
            let bytes = call!(RedisModule_LoadStringBuffer(self.0, &raw mut length));
            if bytes.is_null() {
                return Err(DecodeError::Truncated);
            }
            if length == 0 {
                call!(RedisModule_Free(bytes.cast()));
                return self.checked(Vec::new());
            }
            let block = ptr::slice_from_raw_parts_mut(bytes.cast::<u8>(), length);
            self.checked(Box::from_raw(block).into_vec())
        }
    }
}

/// A value being written to an RDB stream.
pub struct RdbWriter(pub(super) *mut raw::RedisModuleIO);

impl RdbWrite for RdbWriter {
    fn uint(&mut self, value: u64) {
        // SAFETY: the stream is alive.
        unsafe { call!(RedisModule_SaveUnsigned(self.0, value)) };
    }

    fn double(&mut self, value: f64) {
        // SAFETY: the stream is alive.
        unsafe { call!(RedisModule_SaveDouble(self.0, value)) };
    }

    fn bytes(&mut self, value: &[u8]) {
        // SAFETY: the stream is alive; the server copies the bytes.
        unsafe {
            call!(RedisModule_SaveStringBuffer(
                self.0,
                value.as_ptr().cast(),
                value.len()
            ));
        }
    }
}

/// A value being written to an AOF as commands.
pub struct AofWriter {
    pub(super) io: *mut raw::RedisModuleIO,
    pub(super) key: *mut raw::RedisModuleString,
}

impl AofWriter {
    /// Writes `command key bytes`.
    pub fn emit(&mut self, command: &CStr, bytes: &[u8]) {
        // SAFETY: stream and key are alive. The format takes a string, and bytes with their length.
        unsafe {
            call!(RedisModule_EmitAOF(
                self.io,
                command.as_ptr(),
                c"sb".as_ptr(),
                self.key,
                bytes.as_ptr(),
                bytes.len()
            ));
        }
    }

    /// Writes `command key number bytes`.
    pub fn emit_numbered(&mut self, command: &CStr, number: u64, bytes: &[u8]) {
        // SAFETY: stream and key are alive. The format takes a string, a long long, and bytes with their
        // length.
        unsafe {
            call!(RedisModule_EmitAOF(
                self.io,
                command.as_ptr(),
                c"slb".as_ptr(),
                self.key,
                number as c_longlong,
                bytes.as_ptr(),
                bytes.len()
            ));
        }
    }
}

/// The digest of a value.
pub struct Digest(pub(super) *mut raw::RedisModuleDigest);

impl Digest {
    /// Adds a number.
    pub fn add(&mut self, value: u64) {
        // SAFETY: the digest is alive.
        unsafe { call!(RedisModule_DigestAddLongLong(self.0, value as c_longlong)) };
    }

    /// Adds bytes.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the digest is alive; the server only reads the bytes, though the signature allows more.
        unsafe {
            call!(RedisModule_DigestAddStringBuffer(
                self.0,
                bytes.as_ptr().cast(),
                bytes.len()
            ));
        }
    }

    /// Ends a sequence whose order matters.
    pub fn end_sequence(&mut self) {
        // SAFETY: the digest is alive.
        unsafe { call!(RedisModule_DigestEndSequence(self.0)) };
    }
}
