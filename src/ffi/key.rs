//! Keys: reading, changing and storing their values.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use valkey_module::raw;
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::Resize;

use super::api::{OK, call};
use super::context::Keyspace;
use super::string::{Str, new_string};
use super::value::{NativeType, from_server, into_server};

/// The purpose for which a key is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading its value.
    Read,
    /// Reading and changing its value.
    Write,
}

/// The value of a key, or `None` if there is no such key.
///
/// # Errors
/// - [`Error::WRONG_TYPE`]: the key holds a value of another type.
/// - [`Error::SAVING`]: the key is being saved without a fork, and can't be opened for writing until that is done.
pub type Held<V> = Result<Option<V>, Error>;

/// An open key, closed when it is dropped. While it is open, nothing runs that might remove its value.
pub struct Key<'k, 'a> {
    handle: Handle,
    name: Str<'a>,
    access: Access,
    keyspace: &'k mut Keyspace<'a>,
}

impl<'a> Keyspace<'a> {
    /// Opens a key, which need not exist.
    #[inline]
    pub fn open(&mut self, name: Str<'a>, access: Access) -> Key<'_, 'a> {
        Key {
            handle: Handle::open(self, name, access),
            name,
            access,
            keyspace: self,
        }
    }
}

impl<'k, 'a> Key<'k, 'a> {
    /// Returns the name.
    #[inline]
    pub fn name(&self) -> Str<'a> {
        self.name
    }

    /// Returns whether there was no such key when it was opened for writing. If it expired just then, subscribers have run,
    /// and may have changed any key.
    pub fn was_missing(&self) -> bool {
        self.handle.kind() == Ok(raw::REDISMODULE_KEYTYPE_EMPTY)
    }

    /// Closes the key, and returns the keyspace, which may then run foreign code.
    #[inline]
    pub fn close(self) -> &'k mut Keyspace<'a> {
        self.keyspace
    }

    /// Returns the value.
    #[inline]
    pub fn value<T: NativeType>(&self) -> Held<&T> {
        let found = self.handle.pointer::<T>(self.access)?;
        // SAFETY: the key holds a `T`. While this key is open, it borrows the keyspace exclusively, so nobody
        // removes or changes the value: `value_mut` would borrow the key exclusively.
        Ok(found.map(|value| unsafe { value.as_ref() }))
    }

    /// Returns the value for changing. The key must be open for writing.
    #[inline(always)]
    pub fn value_mut<T: NativeType>(&mut self) -> Held<&mut T> {
        let mut found = self.handle.pointer::<T>(self.access)?;
        if found.is_none() {
            // The key may just have expired. Then subscribers have run, and may have stored a value here that
            // the handle does not show.
            self.handle = Handle::open(self.keyspace, self.name, self.access);
            found = self.handle.pointer::<T>(self.access)?;
        }
        // SAFETY: the key holds a `T`. While this key is open, it borrows the keyspace exclusively, so nobody
        // removes or reads the value, and the borrow of the key is exclusive. No thread is saving the value: the
        // server does not open a key for writing while it is being saved.
        Ok(found.map(|mut value| unsafe { value.as_mut() }))
    }

    /// Returns the string for reading and changing. The key must be open for writing.
    pub fn text_mut(&mut self) -> Held<Text<'_>> {
        let mut holds = self.handle.kind()?;
        if holds == raw::REDISMODULE_KEYTYPE_EMPTY {
            // As in `value_mut`.
            self.handle = Handle::open(self.keyspace, self.name, self.access);
            holds = self.handle.kind()?;
        }
        match holds {
            raw::REDISMODULE_KEYTYPE_EMPTY => Ok(None),
            raw::REDISMODULE_KEYTYPE_STRING => Ok(Some(Text(&mut self.handle))),
            _ => Err(Error::WRONG_TYPE),
        }
    }

    /// Stores a string under the key, where [`text_mut`](Self::text_mut) has found none, and closes the key. The server
    /// publishes the key's `new` event during the call, as in [`set`](Self::set).
    pub fn set_text(self, bytes: &[u8], expires_ms: Option<i64>) -> &'k mut Keyspace<'a> {
        let text = new_string(bytes);
        // SAFETY: the key is open for writing. The server retains the string, which we own, and it is freed once.
        unsafe {
            call!(RedisModule_StringSet(self.handle.0, text));
            call!(RedisModule_FreeString(ptr::null_mut(), text));
        }
        if expires_ms.is_some() {
            self.handle.set_expiry(expires_ms);
        }
        self.close()
    }

    /// Stores a value under the key, where [`value_mut`](Self::value_mut) has found none or one of its type, and closes
    /// the key. The key expires at `expires_ms` since the epoch, if given.
    ///
    /// The server publishes the key's `new` event during the call. A subscriber that removes the value at this event
    /// breaks the server, as it does in the server's own commands; so this returns no access to the value.
    pub fn set<T: NativeType>(self, value: T, expires_ms: Option<i64>) -> &'k mut Keyspace<'a> {
        let handle = T::handles()[value.form()].get();
        let value = into_server(value);
        // SAFETY: the key is open, and `handle` is that of the value's type.
        let set =
            unsafe { call!(RedisModule_ModuleTypeSetValue(self.handle.0, handle, value)) } == OK;
        debug_assert!(set, "the key was open for writing");
        if !set {
            // SAFETY: `into_server` made the value above, and the server has not taken it.
            drop(unsafe { from_server::<T>(value) });
        } else if expires_ms.is_some() {
            self.handle.set_expiry(expires_ms);
        }
        self.close()
    }
}

/// The string under a key that is open for writing.
pub struct Text<'t>(&'t mut Handle);

impl Text<'_> {
    /// Returns when the key expires, in milliseconds since the epoch.
    pub fn expires_ms(&self) -> Option<i64> {
        // SAFETY: the key is open.
        let ms = unsafe { call!(RedisModule_GetAbsExpire(self.0.0)) };
        (ms != NEVER).then_some(ms)
    }

    /// Lets the key expire at `at_ms` since the epoch, or never.
    pub fn set_expiry(&mut self, at_ms: Option<i64>) {
        self.0.set_expiry(at_ms);
    }
}

impl Resize for Text<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        let (mut length, mode) = (0, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE);
        // SAFETY: the key is open for writing and holds a string. The server returns its bytes, which it makes those of
        // this string alone, and which stay where they are until the string is changed through this handle. The slice
        // borrows it exclusively.
        unsafe {
            let bytes = call!(RedisModule_StringDMA(
                self.0.0,
                &raw mut length,
                mode as c_int
            ));
            std::slice::from_raw_parts_mut(bytes.cast(), length)
        }
    }

    fn resize(&mut self, len: usize) {
        // SAFETY: the key is open for writing, and holds a string. The server fills new bytes with zeros.
        unsafe { call!(RedisModule_StringTruncate(self.0.0, len)) };
    }
}

/// The values under several keys, to be read together.
///
/// Opening an existing key runs no other code. But a key that is missing, or has just expired, causes an event, and
/// its subscribers may remove any value. So a missing key clears the list of values found before. No handle stays
/// open either, because closing a handle reads the value that it was opened on.
pub struct Values<'k, 'a, T> {
    keyspace: &'k mut Keyspace<'a>,
    found: Vec<NonNull<T>>,
}

impl<'k, 'a, T: NativeType> Values<'k, 'a, T> {
    /// Makes an empty list of values.
    pub fn new(keyspace: &'k mut Keyspace<'a>) -> Self {
        let found = Vec::new();
        Self { keyspace, found }
    }

    /// Adds the value of a key, and returns it. If there is no such key, the list is cleared.
    pub fn open(&mut self, name: Str<'a>) -> Held<&T> {
        // The handle is closed at once.
        let found = Handle::open(self.keyspace, name, Access::Read).pointer::<T>(Access::Read)?;
        if found.is_none() {
            self.found.clear();
        }
        Ok(found.map(|value| {
            self.found.push(value);
            // SAFETY: the key holds a `T`, and the argument of `all` applies.
            unsafe { value.as_ref() }
        }))
    }

    /// Returns the values in the list.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        // SAFETY: since the first of these values was found, nothing has run that might have removed or changed
        // any: otherwise `open` would have cleared the list, and this holds the keyspace exclusively.
        self.found.iter().map(|value| unsafe { value.as_ref() })
    }
}

/// The time of a key that never expires.
const NEVER: i64 = raw::REDISMODULE_NO_EXPIRE as i64;

/// The server's handle of an open key, closed when it is dropped. It is null for a missing key opened for reading,
/// and for a key opened for writing while it is being saved.
struct Handle(*mut raw::RedisModuleKey);

impl Handle {
    /// Opens a key, which may run foreign code if the key is missing.
    #[inline]
    fn open<'a>(keyspace: &mut Keyspace<'a>, name: Str<'a>, access: Access) -> Self {
        let mode = match access {
            Access::Read => raw::REDISMODULE_READ,
            Access::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: context and name are alive for 'a. The handle goes into a `Key<'_, 'a>`, or is dropped at once.
        let key = unsafe {
            call!(RedisModule_OpenKey(
                keyspace.ctx().as_ptr(),
                name.as_ptr(),
                mode as c_int
            ))
        };
        Self(key.cast())
    }

    /// Returns the type of what a key holds that was opened for writing.
    fn kind(&self) -> Result<isize, Error> {
        if self.0.is_null() {
            return Err(Error::SAVING);
        }
        // SAFETY: the key is open.
        Ok(unsafe { call!(RedisModule_KeyType(self.0)) } as isize)
    }

    /// Lets the key, which is open for writing, expire at `at_ms` since the epoch, or never.
    fn set_expiry(&self, at_ms: Option<i64>) {
        // SAFETY: the key is open.
        unsafe { call!(RedisModule_SetAbsExpire(self.0, at_ms.unwrap_or(NEVER))) };
    }

    /// Returns a pointer to the value, which `into_server::<T>` made, in a key opened for `access`.
    #[inline]
    fn pointer<T: NativeType>(&self, access: Access) -> Held<NonNull<T>> {
        if self.0.is_null() {
            return match access {
                Access::Read => Ok(None),
                Access::Write => Err(Error::SAVING),
            };
        }
        // SAFETY: the key is open.
        let found = unsafe { call!(RedisModule_ModuleTypeGetType(self.0)) };
        if found.is_null() {
            // SAFETY: the key is open.
            let kind = unsafe { call!(RedisModule_KeyType(self.0)) };
            return if kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
                Ok(None)
            } else {
                Err(Error::WRONG_TYPE)
            };
        }
        if !T::handles().iter().any(|handle| found == handle.get()) {
            return Err(Error::WRONG_TYPE);
        }
        // SAFETY: the key is open, and holds a module's value.
        let value = unsafe { call!(RedisModule_ModuleTypeGetValue(self.0)) };
        NonNull::new(value.cast())
            .map(Some)
            .ok_or(Error::WRONG_TYPE)
    }
}

impl Drop for Handle {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the key is open, and closed only here. Its value still exists, if it had one, because
            // nothing has run that might have removed it.
            unsafe { call!(RedisModule_CloseKey(self.0)) };
        }
    }
}
