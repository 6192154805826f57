//! Values that keys can hold: the trait of their types, the callbacks that the server gets, and how a type is registered.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use valkey_module::raw;

use super::api::call;
use super::context::Ctx;
use super::defrag::Defrag;
use super::server;
use super::setting::Setting;
use super::stream::{AofWriter, Digest, RdbReader, RdbWriter};

/// A value that keys can hold. `Drop` and [`save`](Self::save) may run on any thread; everything else runs on the
/// server's main thread or in a forked child.
pub trait NativeType: Sized + Send + Sync + 'static {
    /// The server's types for these values.
    const FORMS: &'static [Form];

    /// Returns the handles of the types in [`FORMS`](Self::FORMS), in the same order.
    fn handles() -> &'static [TypeHandle];
    /// Returns the index of this value's type in [`FORMS`](Self::FORMS).
    fn form(&self) -> usize;
    /// Reads a value of a form.
    ///
    /// # Errors
    /// The reason, for the log; the server reports the key, or refuses the RESTORE.
    fn load(from: &mut RdbReader, form: usize, version: i32) -> Result<Self, String>;
    /// Writes the value.
    ///
    /// A server that saves without a fork calls this on another thread. The main thread may read the value at the
    /// same time, but not change it, because its key can't be opened for writing. So this uses only the value and
    /// the stream: no context, no setting that can change, no shared sum.
    fn save(&self, to: &mut RdbWriter);
    /// Writes commands that build the value.
    fn rewrite(&self, to: &mut AofWriter);
    /// Returns the bytes of memory that the value takes.
    fn memory_bytes(&self) -> u64;
    /// Feeds the digest that compares the values of two servers.
    fn digest(&self, to: &mut Digest);
    /// Returns whether the value is large enough to be freed in the background.
    fn frees_in_background(&self) -> bool;
    /// Copies the value; `None` if there is no memory for the copy.
    fn copy(&self) -> Option<Self>;
    /// Moves the value's allocations to less fragmented memory; returns the value, and false if time ran out.
    fn defrag(value: Box<Self>, by: &Defrag) -> (Box<Self>, bool);
}

/// The maximum number of types of a value.
pub const FORMS_MAX: usize = 3;

/// A type of the server.
pub struct Form {
    /// The name, nine characters long.
    pub name: &'static CStr,
    version: i32,
    setting: Option<fn() -> &'static Setting>,
}

impl Form {
    /// Names a type, and the encoding version that is written. Others may be read, too.
    pub const fn new(name: &'static CStr, version: i32) -> Self {
        Self {
            name,
            version,
            setting: None,
        }
    }

    /// Has the setting that is returned, [fixed](Setting::fixed) while the module loads, choose the encoding version that is written.
    pub const fn versioned_by(mut self, setting: fn() -> &'static Setting) -> Self {
        self.setting = Some(setting);
        self
    }

    /// Returns the encoding version that is written.
    pub fn version(&self) -> i32 {
        let set = self.setting.map(|setting| setting().number());
        set.and_then(|set| i32::try_from(set).ok())
            .unwrap_or(self.version)
    }
}

/// The server's handle of a registered type.
pub struct TypeHandle(AtomicPtr<raw::RedisModuleType>);

impl TypeHandle {
    /// Makes the handle of a type that is not registered yet.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(super) fn get(&self) -> *mut raw::RedisModuleType {
        self.0.load(Relaxed)
    }
}

/// Registers a value's types, while the module loads.
///
/// # Errors
/// The server refused a type.
pub fn register_types<T: NativeType>(ctx: Ctx) -> Result<(), String> {
    (0..T::FORMS.len()).try_for_each(|form| register_type::<T>(ctx, form))
}

fn register_type<T: NativeType>(ctx: Ctx, form: usize) -> Result<(), String> {
    // The server does not pass the type to this callback, so each type has its own callback.
    let loads: [unsafe extern "C" fn(_, _) -> _; FORMS_MAX] =
        [rdb_load::<T, 0>, rdb_load::<T, 1>, rdb_load::<T, 2>];
    let form_of_type = &T::FORMS[form];
    let mut methods = raw::RedisModuleTypeMethods {
        version: 4,
        rdb_load: Some(loads[form]),
        rdb_save: Some(rdb_save::<T>),
        aof_rewrite: Some(aof_rewrite::<T>),
        digest: Some(digest::<T>),
        free: Some(free::<T>),
        defrag: Some(defrag::<T>),
        mem_usage2: Some(mem_usage::<T>),
        free_effort2: Some(free_effort::<T>),
        copy2: Some(copy::<T>),
        // SAFETY: all zero is a valid value of this C structure: numbers, and functions that are not there.
        ..unsafe { std::mem::zeroed() }
    };
    // SAFETY: the context is alive; the server copies the name and the methods.
    let handle = unsafe {
        call!(RedisModule_CreateDataType(
            ctx.as_ptr(),
            form_of_type.name.as_ptr(),
            form_of_type.version(),
            &raw mut methods
        ))
    };
    if handle.is_null() {
        let name = form_of_type.name;
        return Err(format!("the server refused the type {name:?}"));
    }
    T::handles()[form].0.store(handle, Relaxed);
    Ok(())
}

/// Boxes a value, and returns the pointer for the server.
pub(super) fn into_server<T: NativeType>(value: T) -> *mut c_void {
    Box::into_raw(Box::new(value)).cast()
}

/// Takes a value back from the server.
///
/// # Safety
/// The pointer came from [`into_server`] of the same type, and is not used again.
#[allow(
    clippy::unnecessary_box_returns,
    reason = "the box is the very allocation that the server held"
)]
pub(super) unsafe fn from_server<T: NativeType>(value: *mut c_void) -> Box<T> {
    // SAFETY: `into_server` made the pointer from a box, and our caller does not use it again.
    unsafe { Box::from_raw(value.cast()) }
}

/// Borrows a value from the server.
///
/// # Safety
/// The pointer came from [`into_server`] of the same type, and nobody changes the value during `'a`.
unsafe fn borrow<'a, T: NativeType>(value: *const c_void) -> &'a T {
    // SAFETY: `into_server` made the pointer from a box, and our caller rules out changes during 'a.
    unsafe { &*value.cast() }
}

// The callbacks and their contract, which the blocks below rely on:
//
// - The server calls a callback only for values of the type that it was registered for, which all come from
//   `into_server::<T>`.
// - For one value, it calls only one callback at a time, except that the value may be read elsewhere during
//   `rdb_save`.
// - Everything that the server passes is alive during the call.

unsafe extern "C" fn rdb_load<T: NativeType, const FORM: usize>(
    io: *mut raw::RedisModuleIO,
    version: c_int,
) -> *mut c_void {
    match T::load(&mut RdbReader(io), FORM, version) {
        Ok(value) => into_server(value),
        Err(error) => {
            server::log_warning(&format!(
                "loading a {:?} failed: {error}",
                T::FORMS[FORM].name
            ));
            ptr::null_mut()
        }
    }
}

unsafe extern "C" fn rdb_save<T: NativeType>(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: the callbacks' contract: a `T` that nobody changes, and a stream to write it to.
    unsafe { borrow::<T>(value) }.save(&mut RdbWriter(io));
}

unsafe extern "C" fn aof_rewrite<T: NativeType>(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the callbacks' contract: a `T` that nobody changes, a stream to write it to, and its key.
    unsafe { borrow::<T>(value) }.rewrite(&mut AofWriter { io, key });
}

unsafe extern "C" fn mem_usage<T: NativeType>(
    _: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
    _samples: usize,
) -> usize {
    // SAFETY: the callbacks' contract: a `T` that nobody changes.
    unsafe { borrow::<T>(value) }.memory_bytes() as usize
}

unsafe extern "C" fn digest<T: NativeType>(to: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the callbacks' contract: a `T` that nobody changes, and a digest to feed.
    unsafe { borrow::<T>(value) }.digest(&mut Digest(to));
}

unsafe extern "C" fn free<T: NativeType>(value: *mut c_void) {
    // SAFETY: the callbacks' contract: a `T`, which the server does not use again. This may run on a background
    // thread, and a `T` is `Send`.
    drop(unsafe { from_server::<T>(value) });
}

unsafe extern "C" fn free_effort<T: NativeType>(
    _: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> usize {
    // SAFETY: the callbacks' contract: a `T` that nobody changes.
    let in_background = unsafe { borrow::<T>(value) }.frees_in_background();
    // 0 makes the server free the value in the background, whatever its threshold is.
    usize::from(!in_background)
}

unsafe extern "C" fn copy<T: NativeType>(
    _: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the callbacks' contract: a `T` that nobody changes.
    let copy = unsafe { borrow::<T>(value) }.copy();
    copy.map_or(ptr::null_mut(), into_server)
}

unsafe extern "C" fn defrag<T: NativeType>(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: the callbacks' contract: a pointer to the server's pointer to a `T`, and a context to move it by.
    // The server's pointer leads to a box again before the server reads it.
    unsafe {
        let (moved, done) = T::defrag(from_server::<T>(*value), &Defrag(ctx));
        *value = Box::into_raw(moved).cast();
        c_int::from(!done)
    }
}
