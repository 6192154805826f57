//! Calls at a later time.

use std::ffi::c_void;

use valkey_module::raw;

use super::api::call;
use super::context::Ctx;

/// Has the server call a function once on its main thread, between commands, after this many milliseconds.
pub fn call_after(ms: u64, function: fn()) {
    let Some(ctx) = Ctx::detached() else { return };
    // SAFETY: the context lives as long as the module, and so does the function.
    unsafe {
        call!(RedisModule_CreateTimer(
            ctx.as_ptr(),
            ms as i64,
            Some(on_timer),
            function as *mut c_void
        ))
    };
}

unsafe extern "C" fn on_timer(_: *mut raw::RedisModuleCtx, function: *mut c_void) {
    // SAFETY: the server passes on what `call_after` gave it, a function of this type.
    let function: fn() = unsafe { std::mem::transmute(function) };
    function();
}
