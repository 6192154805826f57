//! Services of the server that need no context: its state, its clock, random bytes and its log.

use std::ffi::CString;
use std::ptr;

use valkey_module::raw;

use super::api::call;
use super::events::is_importing;

const LOADING: u32 = raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING;

/// Returns the flags of the server alone.
fn server_flags() -> u32 {
    // SAFETY: without a context the server reports the flags that concern no client.
    unsafe { call!(RedisModule_GetContextFlags(ptr::null_mut())) as u32 }
}

/// Returns whether the server reads a file, a log or a full resync.
pub fn is_loading() -> bool {
    server_flags() & LOADING != 0
}

/// Returns whether the server uses more memory than `maxmemory` allows.
pub fn memory_is_out() -> bool {
    server_flags() & raw::REDISMODULE_CTX_FLAGS_OOM != 0
}

/// Returns whether bytes that are loaded now come from a client. The server does not report who sent a RESTORE. On a
/// replica it counts as the primary's, also if a client sent it to a writable replica, and during an atomic slot
/// migration to this node as the migration's, if the server reports the migration.
pub fn loads_for_client() -> bool {
    !is_importing() && server_flags() & (LOADING | raw::REDISMODULE_CTX_FLAGS_SLAVE) == 0
}

/// Returns the time in milliseconds since the epoch: when the command began, or the script or transaction around it. While a
/// script runs for longer than `busy-reply-threshold`, the server handles other events and updates this time, unlike the
/// one by which keys expire, which it does not offer. On Redis 7.0 it is the current time.
pub fn now_ms() -> u64 {
    // SAFETY: the functions take no arguments, and nobody writes to the API's table once it is filled.
    let now_ms = unsafe {
        if let Some(microseconds) = raw::RedisModule_CachedMicroseconds {
            microseconds() / 1000
        } else {
            call!(RedisModule_Milliseconds())
        }
    };
    now_ms.max(0) as u64
}

/// Returns random bytes from the server's generator.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: the server writes as many bytes as the array has.
    unsafe { call!(RedisModule_GetRandomBytes(bytes.as_mut_ptr(), bytes.len())) };
    bytes
}

/// Writes a line to the server's log. Zero bytes become question marks.
pub fn log_warning(text: &str) {
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    // SAFETY: the log needs no context; the format takes one string that ends in zero, and gets one.
    unsafe {
        call!(RedisModule_Log(
            ptr::null_mut(),
            c"warning".as_ptr(),
            c"%s".as_ptr(),
            text.as_ptr()
        ));
    }
}
