//! Replies to the client of a context.

use std::ffi::{CStr, CString, c_int};

use super::api::call;
use super::context::Ctx;

impl Ctx<'_> {
    /// Replies `+text`.
    pub fn reply_simple(self, text: &CStr) {
        // SAFETY: the context is alive; the server copies the text, which ends in zero.
        unsafe {
            call!(RedisModule_ReplyWithSimpleString(
                self.as_ptr(),
                text.as_ptr()
            ))
        };
    }

    /// Replies `-text`; the text begins with the error code.
    pub fn reply_error(self, text: &str) {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the context is alive; the server copies the text, which ends in zero.
        unsafe { call!(RedisModule_ReplyWithError(self.as_ptr(), text.as_ptr())) };
    }

    /// Replies that the number of arguments is wrong, with the command's name.
    pub fn reply_wrong_arity(self) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_WrongArity(self.as_ptr())) };
    }

    /// Replies with a boolean in RESP3, with 0 or 1 in RESP2.
    #[inline]
    pub fn reply_bool(self, value: bool) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithBool(self.as_ptr(), c_int::from(value))) };
    }

    /// Replies with an integer.
    #[inline]
    pub fn reply_integer(self, value: i64) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithLongLong(self.as_ptr(), value)) };
    }

    /// Replies with a double in RESP3, with a bulk string in RESP2. The server chooses the digits.
    pub fn reply_double(self, value: f64) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithDouble(self.as_ptr(), value)) };
    }

    /// Replies with null.
    pub fn reply_null(self) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithNull(self.as_ptr())) };
    }

    /// Replies with a bulk string.
    pub fn reply_bytes(self, bytes: &[u8]) {
        // SAFETY: the context is alive; the server copies the bytes.
        unsafe {
            call!(RedisModule_ReplyWithStringBuffer(
                self.as_ptr(),
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
    }

    /// Begins an array: the next `len` replies are its elements.
    #[inline]
    pub fn reply_array(self, len: usize) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithArray(self.as_ptr(), len as i64)) };
    }

    /// Begins a map: the next `2 * pairs` replies are its keys and values. In RESP2 it is a flat array.
    pub fn reply_map(self, pairs: usize) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithMap(self.as_ptr(), pairs as i64)) };
    }
}
