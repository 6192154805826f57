//! The context of a command: its client and its replies.

use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use valkey_module::raw;
use valkeybloom_protocol::error::Error;

use super::api::{Optional, call};

/// `RedisModule_MustObeyClient`, which older servers lack; the context's flags replace it there.
pub(super) static MUST_OBEY: Optional<extern "C" fn(Ctx) -> c_int> =
    // SAFETY: servers export a function of this type under this name.
    unsafe { Optional::new(c"RedisModule_MustObeyClient") };

/// The context that a command runs in, alive for `'a`. Only the server makes contexts.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Ctx<'a>(*mut raw::RedisModuleCtx, PhantomData<&'a ()>);

/// One command's access to the keyspace. An open key borrows it, and so does a borrowed value; a call that may run
/// foreign code, which may delete or change any key, borrows it exclusively. Only an entry point makes one. A
/// command that runs within another has its own, while the outer command waits in such a call.
pub struct Keyspace<'a>(Ctx<'a>);

impl<'a> Keyspace<'a> {
    /// # Safety
    /// There is no other `Keyspace` for the same call by the server.
    #[inline]
    pub(super) unsafe fn new(ctx: Ctx<'a>) -> Self {
        Self(ctx)
    }

    #[inline]
    pub(super) fn ctx(&self) -> Ctx<'a> {
        self.0
    }
}

impl Ctx<'_> {
    #[inline]
    pub(super) fn as_ptr(self) -> *mut raw::RedisModuleCtx {
        self.0
    }

    fn flags(self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_GetContextFlags(self.0)) as u32 }
    }

    /// Returns whether the client uses RESP3.
    pub fn is_resp3(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_RESP3 != 0
    }

    /// Returns the id of the client, which no other client of this server gets. All scripts have one client.
    pub fn client_id(self) -> u64 {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_GetClientId(self.0)) }
    }

    /// Returns whether the command comes from the primary, an AOF or a slot import. It was already executed
    /// there, so it must be executed here too, whatever this server's settings are.
    pub fn must_obey(self) -> bool {
        if let Some(must_obey) = MUST_OBEY.get() {
            must_obey(self) != 0
        } else {
            let obeyed = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
            self.flags() & obeyed != 0
        }
    }
}

/// Replies. A command sends exactly one, which may have elements.
impl Ctx<'_> {
    /// Replies `+text`.
    pub fn reply_simple(self, text: &CStr) {
        // SAFETY: the context is alive; the server copies the text, which ends in zero.
        unsafe { call!(RedisModule_ReplyWithSimpleString(self.0, text.as_ptr())) };
    }

    /// Replies with an error. One about the number of arguments names the command.
    pub fn reply_error(self, error: Error) {
        let text = CString::new(error.to_string()).unwrap_or_default();
        // SAFETY: the context is alive; the server copies the text, which ends in zero.
        unsafe {
            if error == Error::Arity {
                call!(RedisModule_WrongArity(self.0))
            } else {
                call!(RedisModule_ReplyWithError(self.0, text.as_ptr()))
            }
        };
    }

    /// Replies with an error as an element of an array. A primary or a log gets null, because it has executed the
    /// command already: to the server, an error would mean that the data differ.
    pub fn reply_error_element(self, error: Error) {
        if self.must_obey() {
            self.reply_null();
        } else {
            self.reply_error(error);
        }
    }

    /// Replies with a boolean in RESP3, with 0 or 1 in RESP2.
    #[inline]
    pub fn reply_bool(self, value: bool) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithBool(self.0, c_int::from(value))) };
    }

    /// Replies with an integer.
    #[inline]
    pub fn reply_integer(self, value: i64) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithLongLong(self.0, value)) };
    }

    /// Replies with a double in RESP3, with a bulk string in RESP2. The server chooses the digits.
    pub fn reply_double(self, value: f64) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithDouble(self.0, value)) };
    }

    /// Replies with null.
    pub fn reply_null(self) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithNull(self.0)) };
    }

    /// Replies with a bulk string.
    pub fn reply_bytes(self, bytes: &[u8]) {
        // SAFETY: the context is alive; the server copies the bytes.
        unsafe {
            call!(RedisModule_ReplyWithStringBuffer(
                self.0,
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
    }

    /// Begins an array: the next `len` replies are its elements.
    #[inline]
    pub fn reply_array(self, len: usize) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithArray(self.0, len as i64)) };
    }

    /// Begins a map: the next `2 * pairs` replies are its keys and values. In RESP2 it is a flat array.
    pub fn reply_map(self, pairs: usize) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithMap(self.0, pairs as i64)) };
    }
}

static DETACHED: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(ptr::null_mut());

impl Ctx<'static> {
    /// Returns the context that lives as long as the module, for work outside a command, or `None` before the
    /// module is loaded.
    pub(super) fn detached() -> Option<Self> {
        let ctx = DETACHED.load(Relaxed);
        (!ctx.is_null()).then_some(Self(ctx, PhantomData))
    }
}

/// Makes the detached context.
pub(super) fn make_detached(ctx: Ctx) {
    // SAFETY: the context is alive; the new context does not depend on it.
    let detached = unsafe { call!(RedisModule_GetDetachedThreadSafeContext(ctx.0)) };
    DETACHED.store(detached, Relaxed);
}

/// Frees the detached context, if there is one.
///
/// # Safety
/// No copy of it is in use any more.
pub(super) unsafe fn free_detached() {
    let detached = DETACHED.swap(ptr::null_mut(), Relaxed);
    if !detached.is_null() {
        // SAFETY: `make_detached` made it, nobody can load it again after the swap, and our caller guarantees
        // that no earlier copy is in use.
        unsafe { call!(RedisModule_FreeThreadSafeContext(detached)) };
    }
}
