//! Calls to the functions of the server's API.
//!
//! The API is a table of function pointers, the statics `raw::RedisModule_*`. `load` has the server
//! fill it before any other code of the module runs, and nobody writes to it afterwards, so
//! reading an entry is sound on every thread. A server that lacks a function leaves its entry empty. Every server
//! since Redis 7.0 has the functions listed as `required`; `load` refuses a server that lacks any of them.

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use valkey_module::raw;

pub(super) const OK: c_int = raw::REDISMODULE_OK as c_int;
pub(super) const ERR: c_int = raw::REDISMODULE_ERR as c_int;

/// Calls a [`required`] function: `call!(RedisModule_Name(arguments))`, in an `unsafe` block that says why the
/// arguments are valid. `load` has verified that the function exists.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        $crate::ffi::api::required::$name();
        ::valkey_module::raw::$name.unwrap_unchecked()($($argument),*)
    }};
}
pub(super) use call;

/// Defines the functions that [`call!`] accepts, and a check that the server has all of them.
macro_rules! required {
    ($($name:ident)*) => {
        /// A name for each required function, so that a call of any other function does not compile.
        #[allow(non_snake_case, reason = "the names of the API")]
        pub(super) mod required {
            $(pub const fn $name() {})*
        }

        /// Returns the name of a required function that the server lacks; `None` if it has all.
        ///
        /// # Safety
        /// The API's table is filled.
        pub(super) unsafe fn missing() -> Option<&'static str> {
            // SAFETY: nobody writes to the API's table once it is filled, and our caller guarantees that it is.
            let there = unsafe { [$((stringify!($name), { raw::$name }.is_some())),*] };
            there.into_iter().find_map(|(name, is_there)| (!is_there).then_some(name))
        }
    };
}

required! {
    RedisModule_Alloc RedisModule_Calloc RedisModule_CloseKey RedisModule_CommandFilterArgGet
    RedisModule_CommandFilterArgReplace RedisModule_CommandFilterArgsCount RedisModule_CreateCommand
    RedisModule_CreateDataType RedisModule_CreateString RedisModule_CreateTimer
    RedisModule_DefragAlloc RedisModule_DefragCursorGet RedisModule_DefragCursorSet
    RedisModule_DefragShouldStop RedisModule_DigestAddLongLong RedisModule_DigestAddStringBuffer
    RedisModule_DigestEndSequence RedisModule_EmitAOF RedisModule_Free RedisModule_FreeString
    RedisModule_FreeThreadSafeContext RedisModule_GetAbsExpire RedisModule_GetClientId
    RedisModule_GetCommand RedisModule_GetCommandKeys RedisModule_GetContextFlags
    RedisModule_GetDetachedThreadSafeContext RedisModule_GetRandomBytes
    RedisModule_InfoAddFieldULongLong RedisModule_InfoAddSection
    RedisModule_IsIOError RedisModule_IsKeysPositionRequest RedisModule_KeyAtPosWithFlags
    RedisModule_KeyType RedisModule_LoadConfigs RedisModule_LoadDouble RedisModule_LoadStringBuffer
    RedisModule_LoadUnsigned RedisModule_Log RedisModule_MallocSize RedisModule_Milliseconds
    RedisModule_ModuleTypeGetType RedisModule_ModuleTypeGetValue RedisModule_ModuleTypeSetValue
    RedisModule_NotifyKeyspaceEvent RedisModule_OpenKey RedisModule_Realloc
    RedisModule_RegisterBoolConfig RedisModule_RegisterCommandFilter RedisModule_RegisterInfoFunc
    RedisModule_RegisterNumericConfig RedisModule_RegisterStringConfig RedisModule_Replicate
    RedisModule_ReplicateVerbatim RedisModule_ReplyWithArray RedisModule_ReplyWithBool
    RedisModule_ReplyWithDouble RedisModule_ReplyWithError RedisModule_ReplyWithLongLong
    RedisModule_ReplyWithMap RedisModule_ReplyWithNull RedisModule_ReplyWithSimpleString
    RedisModule_ReplyWithStringBuffer RedisModule_SaveDouble RedisModule_SaveStringBuffer
    RedisModule_SaveUnsigned RedisModule_SetAbsExpire RedisModule_SetModuleOptions
    RedisModule_SignalModifiedKey RedisModule_StringDMA RedisModule_StringPtrLen
    RedisModule_StringSet RedisModule_StringTruncate RedisModule_SubscribeToServerEvent
    RedisModule_UnregisterCommandFilter RedisModule_WrongArity
}

/// A function of type `F` that only some servers have and the bindings do not name.
pub(super) struct Optional<F> {
    name: &'static CStr,
    function: AtomicPtr<c_void>,
    signature: PhantomData<F>,
}

impl<F: Copy> Optional<F> {
    /// Names a function, which is unavailable until it is looked up.
    ///
    /// # Safety
    /// `F` is the type of the function pointer that any server exports under this name.
    pub(super) const unsafe fn new(name: &'static CStr) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Self {
            name,
            function: AtomicPtr::new(ptr::null_mut()),
            signature: PhantomData,
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

    /// Returns the function that the server exports under exactly this name, if it does.
    #[inline]
    pub(super) fn get(&self) -> Option<F> {
        let function = self.function.load(Relaxed);
        // SAFETY: a pointer that is not null came from the server, and `new` requires that it is an `F`.
        (!function.is_null()).then(|| unsafe { mem::transmute_copy(&function) })
    }
}

/// Converts the status of a registration to a result; `what` names the registration in the error.
pub(super) fn accepted(status: c_int, what: &str) -> Result<(), String> {
    if status == OK {
        Ok(())
    } else {
        Err(format!("the server refused {what}"))
    }
}
