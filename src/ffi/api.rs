//! How the functions of the server's API are called.
//!
//! The API is a table of function pointers, the statics `raw::RedisModule_*`. `load` has the server
//! fill it before any other code of the module runs, and nobody writes to it afterwards, so that
//! reading an entry is sound on every thread. A server that lacks a function leaves its entry empty.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use valkey_module::raw;

pub(super) const OK: c_int = raw::REDISMODULE_OK as c_int;
pub(super) const ERR: c_int = raw::REDISMODULE_ERR as c_int;

/// Calls a function of the API that every server from Redis 7.0 on has:
/// `call!(RedisModule_Name(arguments))`, in an `unsafe` block that says why the arguments are valid.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        match ::valkey_module::raw::$name {
            Some(function) => function($($argument),*),
            None => $crate::ffi::api::missing(stringify!($name)),
        }
    };
}
pub(super) use call;

#[cold]
pub(super) fn missing(name: &str) -> ! {
    panic!("this server's module API has no {name}")
}

/// A function that only some servers have and the bindings do not name.
pub(super) struct Optional {
    name: &'static CStr,
    function: AtomicPtr<c_void>,
}

impl Optional {
    /// A function that has not been looked up, and so is not available.
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            function: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Looks the function up in the server.
    pub(super) fn look_up(&self) {
        // SAFETY: nobody writes to the API's table once it is filled.
        let Some(get) = (unsafe { raw::RedisModule_GetApi }) else {
            return;
        };
        let mut function: *mut c_void = ptr::null_mut();
        // SAFETY: the name ends in a zero byte, and the server writes a pointer into `function`.
        let status = unsafe { get(self.name.as_ptr(), (&raw mut function).cast()) };
        if status == OK {
            self.function.store(function, Relaxed);
        }
    }

    /// The function, if the server has it: what it exports under exactly this name.
    #[inline]
    pub(super) fn get(&self) -> Option<NonNull<c_void>> {
        NonNull::new(self.function.load(Relaxed))
    }
}

/// The error of a registration that the server did not accept.
pub(super) fn accepted(status: c_int, what: &str) -> Result<(), String> {
    if status == OK {
        Ok(())
    } else {
        Err(format!("the server refused {what}"))
    }
}
