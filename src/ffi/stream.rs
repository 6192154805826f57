//! Streams of values: reading and writing RDB, writing AOF, and feeding the digest of DEBUG DIGEST.
//!
//! The server makes each stream for one call of a value's callback. The stream is alive during that
//! call, and every `unsafe` block below relies on this.

use std::ffi::{CStr, c_longlong};
use std::ptr;

use valkey_module::raw;

use super::api::call;

/// A value being read from an RDB stream.
pub struct RdbReader(*mut raw::RedisModuleIO);

impl RdbReader {
    /// # Safety
    /// The stream is open for reading as long as the reader is used.
    pub(super) unsafe fn new(io: *mut raw::RedisModuleIO) -> Self {
        Self(io)
    }

    fn checked<V>(&self, value: V) -> Option<V> {
        // SAFETY: the stream is alive.
        (unsafe { call!(RedisModule_IsIOError(self.0)) } == 0).then_some(value)
    }

    /// Returns the next unsigned integer, or `None` if the stream has ended or the next field has another kind.
    pub fn load_uint(&mut self) -> Option<u64> {
        // SAFETY: the stream is alive.
        let value = unsafe { call!(RedisModule_LoadUnsigned(self.0)) };
        self.checked(value)
    }

    /// Returns the next double, or `None` if the stream has ended or the next field has another kind.
    pub fn load_double(&mut self) -> Option<f64> {
        // SAFETY: the stream is alive.
        let value = unsafe { call!(RedisModule_LoadDouble(self.0)) };
        self.checked(value)
    }

    /// Returns the next string, or `None` if the stream has ended or the next field has another kind.
    pub fn load_bytes(&mut self) -> Option<Vec<u8>> {
        let mut length = 0;
        // SAFETY: the stream is alive. The server returns null or a block of exactly `length` bytes, which
        // we own; it comes from the server's allocator, which is the global allocator here.
        unsafe {
            let bytes = call!(RedisModule_LoadStringBuffer(self.0, &raw mut length));
            if bytes.is_null() {
                return None;
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
pub struct RdbWriter(*mut raw::RedisModuleIO);

impl RdbWriter {
    /// # Safety
    /// The stream is open for writing as long as the writer is used.
    pub(super) unsafe fn new(io: *mut raw::RedisModuleIO) -> Self {
        Self(io)
    }

    /// Writes an unsigned integer.
    pub fn save_uint(&mut self, value: u64) {
        // SAFETY: the stream is alive.
        unsafe { call!(RedisModule_SaveUnsigned(self.0, value)) };
    }

    /// Writes a double.
    pub fn save_double(&mut self, value: f64) {
        // SAFETY: the stream is alive.
        unsafe { call!(RedisModule_SaveDouble(self.0, value)) };
    }

    /// Writes a string.
    pub fn save_bytes(&mut self, value: &[u8]) {
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
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
}

impl AofWriter {
    /// # Safety
    /// The stream is open for writing, and the key's name alive, as long as the writer is used.
    pub(super) unsafe fn new(
        io: *mut raw::RedisModuleIO,
        key: *mut raw::RedisModuleString,
    ) -> Self {
        Self { io, key }
    }

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
pub struct Digest(*mut raw::RedisModuleDigest);

impl Digest {
    /// # Safety
    /// The server's digest is alive as long as this one is used.
    pub(super) unsafe fn new(digest: *mut raw::RedisModuleDigest) -> Self {
        Self(digest)
    }

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
