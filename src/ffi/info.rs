//! INFO: the module's sections, and an alias that selects them.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use valkey_module::raw;

use super::api::{accepted, call};
use super::context::Ctx;
use super::string::{bytes_of, new_string};

/// A reply to INFO that is being written.
pub struct InfoWriter(*mut raw::RedisModuleInfoCtx);

impl InfoWriter {
    /// Begins a section. The server puts the module's name before the section's.
    pub fn section(&mut self, name: &CStr) {
        // SAFETY: `on_info` lends the writer out only while its context is alive; the server copies the
        // name.
        unsafe { call!(RedisModule_InfoAddSection(self.0, name.as_ptr())) };
    }

    /// Adds a field to the section. The server puts the module's name before the field's.
    pub fn field(&mut self, name: &CStr, value: u64) {
        // SAFETY: `on_info` lends the writer out only while its context is alive; the server copies the
        // name.
        unsafe {
            call!(RedisModule_InfoAddFieldULongLong(
                self.0,
                name.as_ptr(),
                value
            ))
        };
    }
}

/// Writes the module's sections.
pub type WriteInfo = fn(&mut InfoWriter);

static WRITE: OnceLock<WriteInfo> = OnceLock::new();

/// Has the server call `write` for every INFO.
pub(super) fn register(ctx: Ctx, write: WriteInfo) -> Result<(), String> {
    WRITE.get_or_init(|| write);
    // SAFETY: the context is alive, and the callback lives as long as the module.
    let status = unsafe { call!(RedisModule_RegisterInfoFunc(ctx.as_ptr(), Some(on_info))) };
    accepted(status, "INFO")
}

unsafe extern "C" fn on_info(ctx: *mut raw::RedisModuleInfoCtx, _crashing: c_int) {
    if let Some(write) = WRITE.get() {
        write(&mut InfoWriter(ctx));
    }
}

/// The section that clients of other modules request, and the name of this module, which the server
/// matches.
const ALIAS: (&[u8], &[u8]) = (b"bloom", b"bf");

static FILTER: AtomicPtr<raw::RedisModuleCommandFilter> = AtomicPtr::new(ptr::null_mut());

/// Turns the alias `INFO bloom` for `INFO bf` on or off.
///
/// The server matches a section by the module's name, so the argument must be rewritten before the
/// command runs. The server calls a filter for every command, so the filter is registered only while the alias is on.
pub fn set_info_alias(on: bool) {
    let Some(ctx) = Ctx::detached() else {
        return;
    };
    // SAFETY: the detached context lives as long as the module. A filter is unregistered only once, because the
    // swap takes it out of `FILTER`.
    unsafe {
        if on && FILTER.load(Relaxed).is_null() {
            let flags = raw::REDISMODULE_CMDFILTER_NOSELF as c_int;
            let filter = call!(RedisModule_RegisterCommandFilter(
                ctx.as_ptr(),
                Some(rewrite_alias),
                flags
            ));
            FILTER.store(filter, Relaxed);
        } else if !on {
            let filter = FILTER.swap(ptr::null_mut(), Relaxed);
            if !filter.is_null() {
                call!(RedisModule_UnregisterCommandFilter(ctx.as_ptr(), filter));
            }
        }
    }
}

/// Rewrites the alias in a call of INFO. This runs for every command of the server, so it looks at the name's first bytes
/// alone, whose length the server need not compute.
unsafe extern "C" fn rewrite_alias(ctx: *mut raw::RedisModuleCommandFilterCtx) {
    // SAFETY: the context is alive during the call, and the name while it is read. The server ends a string's bytes in
    // zero, and nothing after a zero is read.
    unsafe {
        let name = call!(RedisModule_CommandFilterArgGet(ctx, 0));
        let text: *const u8 = call!(RedisModule_StringPtrLen(name, ptr::null_mut())).cast();
        if *text | 0x20 == b'i' && *text.add(1) | 0x20 == b'n' && *text.add(2) | 0x20 == b'f' {
            rewrite_alias_if_info(ctx, bytes_of(name));
        }
    }
}

/// Rewrites the alias in a call of a command whose name begins like INFO, if it is INFO.
///
/// # Safety
/// The context is alive, and the name is its first argument.
#[cold]
unsafe fn rewrite_alias_if_info(ctx: *mut raw::RedisModuleCommandFilterCtx, name: &[u8]) {
    if !name.eq_ignore_ascii_case(b"info") {
        return;
    }
    // SAFETY: the context is alive during the call. An argument is alive until it is replaced, and its bytes are
    // not read after that. The indices are below the count, and the server takes over the new string.
    unsafe {
        for index in 1..call!(RedisModule_CommandFilterArgsCount(ctx)) {
            let word = bytes_of(call!(RedisModule_CommandFilterArgGet(ctx, index)));
            if word.eq_ignore_ascii_case(ALIAS.0) {
                let replacement = new_string(ALIAS.1);
                call!(RedisModule_CommandFilterArgReplace(ctx, index, replacement));
            }
        }
    }
}
