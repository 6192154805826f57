//! Keys: what one holds, and storing a value under it.

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use valkey_module::raw;

use super::api::{OK, call};
use super::context::{Ctx, Keyspace};
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
#[derive(Clone, Copy)]
pub enum Held<V> {
    /// There is no such key.
    Nothing,
    /// A value of the wanted type.
    Value(V),
    /// A value of another type.
    Other,
    /// It is being saved without a fork, and until then can't be opened for writing. What it holds is unknown.
    Saving,
}

impl<V> Held<V> {
    fn map<W>(self, of: impl FnOnce(V) -> W) -> Held<W> {
        match self {
            Self::Nothing => Held::Nothing,
            Self::Value(value) => Held::Value(of(value)),
            Self::Other => Held::Other,
            Self::Saving => Held::Saving,
        }
    }
}

/// An open key, closed when it is dropped. While it is open, nothing runs that might take its value away.
pub struct Key<'k, 'a> {
    handle: Handle,
    name: Str<'a>,
    access: Access,
    keyspace: &'k mut Keyspace<'a>,
}

impl<'a> Keyspace<'a> {
    /// Opens a key, whether or not it exists.
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
    /// The name.
    #[inline]
    pub fn name(&self) -> Str<'a> {
        self.name
    }

    /// The context in which it was opened.
    #[inline]
    pub fn ctx(&self) -> Ctx<'a> {
        self.keyspace.ctx()
    }

    /// Closes the key, and gives back the keyspace, which may then run code of others.
    #[inline]
    pub fn close(self) -> &'k mut Keyspace<'a> {
        self.keyspace
    }

    /// The value.
    #[inline]
    pub fn value<T: NativeType>(&self) -> Held<&T> {
        let found = self.handle.pointer::<T>(self.access);
        // SAFETY: the key holds a `T`. While this key is open it has the keyspace for itself, so nobody
        // takes the value away or changes it: `value_mut` would borrow the key exclusively.
        found.map(|value| unsafe { value.as_ref() })
    }

    /// The value, to be changed. The key must be open for writing.
    #[inline]
    pub fn value_mut<T: NativeType>(&mut self) -> Held<&mut T> {
        let mut found = self.handle.pointer::<T>(self.access);
        if matches!(found, Held::Nothing) {
            // It may just have expired. Then subscribers have run, and may have stored something here, which
            // the handle does not know of.
            self.handle = Handle::open(self.keyspace, self.name, self.access);
            found = self.handle.pointer::<T>(self.access);
        }
        // SAFETY: the key holds a `T`. While this key is open it has the keyspace for itself, so nobody
        // takes the value away or looks at it, and the borrow is exclusive. A thread that saves the value has
        // its key for that long: the server does not open it for writing meanwhile.
        found.map(|mut value| unsafe { value.as_mut() })
    }

    /// Stores a value under the key, in which [`value_mut`](Self::value_mut) has found nothing, and closes it. It
    /// expires at `expires_ms` since the epoch, if given.
    ///
    /// The server tells `new` of the key meanwhile. Whoever takes the value away at this event breaks the server,
    /// as with every command of its own; so nobody can look at the value here.
    pub fn set<T: NativeType>(self, value: T, expires_ms: Option<i64>) -> &'k mut Keyspace<'a> {
        let handle = T::handles()[value.form()].get();
        let value = into_server(value);
        // SAFETY: the key is open, and the handle is of the value's type.
        let set =
            unsafe { call!(RedisModule_ModuleTypeSetValue(self.handle.0, handle, value)) } == OK;
        debug_assert!(set, "the key was empty and open for writing");
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

/// The values under several keys, to be looked at together.
///
/// To open a key that is there runs nothing. But if there is no such key, or it has just expired, that is an
/// event, and its subscribers may take away any value. So whenever a key is not there, all that was found before
/// is forgotten. No handle stays open either: to close one is to read the value that it was opened on.
pub struct Values<'k, 'a, T> {
    keyspace: &'k mut Keyspace<'a>,
    found: Vec<NonNull<T>>,
}

impl<'k, 'a, T: NativeType> Values<'k, 'a, T> {
    /// None so far.
    pub fn new(keyspace: &'k mut Keyspace<'a>) -> Self {
        let found = Vec::new();
        Self { keyspace, found }
    }

    /// What the next key holds. If there is no such key, the values before it are no longer among them.
    pub fn open(&mut self, name: Str<'a>) -> Held<&T> {
        // Closed again at once.
        let found = Handle::open(self.keyspace, name, Access::Read).pointer::<T>(Access::Read);
        if matches!(found, Held::Nothing) {
            self.found.clear();
        }
        found.map(|value| {
            self.found.push(value);
            // SAFETY: the key holds a `T`, and as in `all`.
            unsafe { value.as_ref() }
        })
    }

    /// Those that were found.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        // SAFETY: since the first of them was found nothing has run that might have taken it away or changed
        // it: `open` forgets them otherwise, and nobody else has the keyspace.
        self.found.iter().map(|value| unsafe { value.as_ref() })
    }
}

/// The server's handle of an open key, closed when it is dropped. It is null where there is no key to read, or
/// where one is being saved that was to be opened for writing.
struct Handle(*mut raw::RedisModuleKey);

impl Handle {
    /// Opens a key, which may run code of others if it is not there.
    #[inline]
    fn open<'a>(keyspace: &mut Keyspace<'a>, name: Str<'a>, access: Access) -> Self {
        let mode = match access {
            Access::Read => raw::REDISMODULE_READ,
            Access::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: context and name are alive for 'a, and the handle is in a `Key<'_, 'a>`, or dropped at once.
        let key = unsafe {
            call!(RedisModule_OpenKey(
                keyspace.ctx().as_ptr(),
                name.as_ptr(),
                mode as c_int
            ))
        };
        Self(key.cast())
    }

    /// Where the value is, if it is one that `into_server::<T>` made, in a key opened for this access.
    #[inline]
    fn pointer<T: NativeType>(&self, access: Access) -> Held<NonNull<T>> {
        if self.0.is_null() {
            return match access {
                Access::Read => Held::Nothing,
                Access::Write => Held::Saving,
            };
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
}

/// Visits every value of a type in a database, on the server's main thread. The database must not be
/// changed meanwhile. A value may be visited again.
pub fn each_value<T: NativeType>(database: i32, mut visit: &mut dyn FnMut(&mut T)) {
    let Some(ctx) = Ctx::detached() else {
        return;
    };
    let visit = (&raw mut visit).cast();
    // SAFETY: the detached context lives as long as the module, the visitor as long as the scan, and the
    // cursor until it is destroyed here, once.
    unsafe {
        if call!(RedisModule_SelectDb(ctx.as_ptr(), database)) != OK {
            return;
        }
        let cursor = call!(RedisModule_ScanCursorCreate());
        let on_key = Some(visit_key::<T> as _);
        while call!(RedisModule_Scan(ctx.as_ptr(), cursor, on_key, visit)) != 0 {}
        call!(RedisModule_ScanCursorDestroy(cursor));
    }
}

unsafe extern "C" fn visit_key<T: NativeType>(
    _: *mut raw::RedisModuleCtx,
    _name: *mut raw::RedisModuleString,
    key: *mut raw::RedisModuleKey,
    visit: *mut c_void,
) {
    // The server closes what it has opened.
    let key = ManuallyDrop::new(Handle(key));
    if let Held::Value(mut value) = key.pointer::<T>(Access::Read) {
        // SAFETY: `each_value` passes its visitor, and lets nobody else use it, or the value, during the scan.
        unsafe { (*visit.cast::<&mut dyn FnMut(&mut T)>())(value.as_mut()) };
    }
}

impl Drop for Handle {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the key is open, and closed only here. Its value is still there, if it had one, since
            // nothing has run that might have taken it away.
            unsafe { call!(RedisModule_CloseKey(self.0)) };
        }
    }
}
