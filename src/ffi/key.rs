//! Keys: reading, changing and storing their values.

use std::ffi::c_int;
use std::ptr::NonNull;

use valkey_module::raw;
use valkeybloom_protocol::error::Error;

use super::api::{OK, call};
use super::context::Keyspace;
use super::string::Str;
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
        } else if let Some(ms) = expires_ms {
            // SAFETY: the key is open.
            unsafe { call!(RedisModule_SetAbsExpire(self.handle.0, ms)) };
        }
        self.close()
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
