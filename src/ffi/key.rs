//! Keys: what one holds, and storing a value under it.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::NonNull;

use valkey_module::raw;

use super::api::{OK, call};
use super::context::Ctx;
use super::string::Str;
use super::value::{NativeType, from_server, into_server};

/// What a key is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read its value.
    Read,
    /// To read and to change its value.
    Write,
}

/// What a key holds.
pub enum Held<V> {
    /// There is no such key.
    Nothing,
    /// A value of the wanted type.
    Value(V),
    /// A value of another type.
    Other,
}

/// An open key, closed when it is dropped. One opened to read a key that does not exist is null.
pub struct Key<'a>(*mut raw::RedisModuleKey, PhantomData<&'a ()>);

impl<'a> Ctx<'a> {
    /// Opens a key, whether or not it exists.
    #[inline]
    pub fn open(self, name: Str<'a>, access: Access) -> Key<'a> {
        let mode = match access {
            Access::Read => raw::REDISMODULE_READ,
            Access::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: context and name are alive for 'a, which the key does not outlive.
        let key = unsafe {
            call!(RedisModule_OpenKey(
                self.as_ptr(),
                name.as_ptr(),
                mode as c_int
            ))
        };
        Key(key.cast(), PhantomData)
    }
}

impl Key<'_> {
    /// The value.
    #[inline]
    pub fn value<T: NativeType>(&self) -> Held<&T> {
        match self.pointer::<T>() {
            Held::Nothing => Held::Nothing,
            Held::Other => Held::Other,
            // SAFETY: the key holds a `T`. Commands run one at a time, so nobody changes the value while
            // this key is borrowed: `value_mut` would borrow it exclusively.
            Held::Value(value) => Held::Value(unsafe { value.as_ref() }),
        }
    }

    /// The value, to be changed. The key must be open for writing.
    #[inline]
    pub fn value_mut<T: NativeType>(&mut self) -> Held<&mut T> {
        match self.pointer::<T>() {
            Held::Nothing => Held::Nothing,
            Held::Other => Held::Other,
            // SAFETY: the key holds a `T`. Commands run one at a time, so nobody else looks at the value
            // while this key is borrowed, and the borrow is exclusive.
            Held::Value(mut value) => Held::Value(unsafe { value.as_mut() }),
        }
    }

    /// Where the value is, if it is one that `into_server::<T>` made.
    #[inline]
    fn pointer<T: NativeType>(&self) -> Held<NonNull<T>> {
        if self.0.is_null() {
            return Held::Nothing;
        }
        // SAFETY: the key is open.
        let found = unsafe { call!(RedisModule_ModuleTypeGetType(self.0)) };
        if found.is_null() {
            // SAFETY: the key is open.
            let kind = unsafe { call!(RedisModule_KeyType(self.0)) };
            return if kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
                Held::Nothing
            } else {
                Held::Other
            };
        }
        if !T::handles().iter().any(|handle| found == handle.get()) {
            return Held::Other;
        }
        // SAFETY: the key is open, and holds a module's value.
        let value = unsafe { call!(RedisModule_ModuleTypeGetValue(self.0)) };
        NonNull::new(value.cast()).map_or(Held::Other, Held::Value)
    }

    /// Stores a value under the key, which must be empty and open for writing; returns false if it is not.
    pub fn set<T: NativeType>(&mut self, value: T) -> bool {
        let handle = T::handles()[value.form()].get();
        let value = into_server(value);
        // SAFETY: the key is open, and the handle is of the value's type.
        let set = unsafe { call!(RedisModule_ModuleTypeSetValue(self.0, handle, value)) } == OK;
        if !set {
            // SAFETY: `into_server` made the value above, and the server has not taken it.
            drop(unsafe { from_server::<T>(value) });
        }
        set
    }

    /// Sets the time at which the key expires, in milliseconds since the epoch. The key must hold a
    /// value and be open for writing.
    pub fn expire_at(&mut self, ms: i64) {
        // SAFETY: the key is open.
        unsafe { call!(RedisModule_SetAbsExpire(self.0, ms)) };
    }
}

impl Drop for Key<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the key is open, and closed only here.
            unsafe { call!(RedisModule_CloseKey(self.0)) };
        }
    }
}
