//! Settings, which CONFIG GET reads and CONFIG SET writes.

use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use valkey_module::raw;

use super::api::{ERR, OK, accepted, call};
use super::context::Ctx;
use super::string::{bytes_of, new_string};

/// The kind of a setting's values.
#[derive(Clone, Copy)]
pub enum SettingKind {
    /// An integer.
    Number {
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
        /// Whether the number is an amount of memory, which may have a unit (`64mb`).
        memory: bool,
    },
    /// Text.
    Text,
    /// A switch, yes or no.
    Switch,
}

/// A setting's value, which the server can get and set. It is encoded as an integer: a number itself, 0 or 1 for a
/// switch.
pub trait Settable: Sync {
    /// Returns the current value.
    fn get(&self) -> i64;
    /// Sets the value.
    ///
    /// # Errors
    /// The reason why the value is not valid.
    fn set(&self, value: i64) -> Result<(), String>;
    /// Returns a value as text.
    fn text(&self, value: i64) -> String;
    /// Encodes a text.
    ///
    /// # Errors
    /// The reason why the text is not valid.
    fn parse(&self, text: &str) -> Result<i64, String>;
    /// Returns the slot that keeps the text last passed to the server.
    fn slot(&self) -> &TextSlot;
}

/// The string last passed to the server as a setting's value. The server borrows it until it gets the value again.
pub struct TextSlot(AtomicPtr<raw::RedisModuleString>);

impl TextSlot {
    /// Makes an empty slot.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn replace(&self, text: &str) -> *mut raw::RedisModuleString {
        let new = new_string(text.as_bytes());
        let old = self.0.swap(new, Relaxed);
        if !old.is_null() {
            // SAFETY: `new_string` made it in an earlier call, nobody else can load it after the swap, and the
            // server has copied the text that it got then.
            unsafe { call!(RedisModule_FreeString(ptr::null_mut(), old)) };
        }
        new
    }
}

/// A setting under one of its names.
pub struct Registration {
    /// The name, without the module's name.
    pub name: &'static CStr,
    /// The kind of the values.
    pub kind: SettingKind,
    /// The default.
    pub default: i64,
    /// The value.
    pub target: &'static dyn Settable,
    /// Whether CONFIG GET shows the setting by its full name only, not by a pattern.
    pub hidden: bool,
}

/// Registers a setting, while the module loads.
pub(super) fn register(ctx: Ctx, registration: &Registration) -> Result<(), String> {
    let name = registration.name.as_ptr();
    // This leaks a small block for each name of a setting.
    let private = Box::into_raw(Box::new(registration.target)).cast::<c_void>();
    let hidden = if registration.hidden {
        raw::REDISMODULE_CONFIG_HIDDEN
    } else {
        0
    };
    let Registration {
        kind,
        default,
        target,
        ..
    } = *registration;
    // SAFETY: the context is alive; the server copies names and defaults. The private data is a
    // `&'static dyn Settable`, as the callbacks expect, and is never freed.
    let status = unsafe {
        match kind {
            SettingKind::Number { min, max, memory } => {
                let unit = if memory {
                    raw::REDISMODULE_CONFIG_MEMORY
                } else {
                    0
                };
                call!(RedisModule_RegisterNumericConfig(
                    ctx.as_ptr(),
                    name,
                    default,
                    hidden | unit,
                    min,
                    max,
                    Some(get_number),
                    Some(set_number),
                    None,
                    private
                ))
            }
            SettingKind::Text => {
                let default = CString::new(target.text(default)).unwrap_or_default();
                call!(RedisModule_RegisterStringConfig(
                    ctx.as_ptr(),
                    name,
                    default.as_ptr(),
                    hidden,
                    Some(get_text),
                    Some(set_text),
                    None,
                    private
                ))
            }
            SettingKind::Switch => call!(RedisModule_RegisterBoolConfig(
                ctx.as_ptr(),
                name,
                default as c_int,
                hidden,
                Some(get_switch),
                Some(set_switch),
                None,
                private
            )),
        }
    };
    accepted(status, "a setting")
}

/// Has the server set every registered setting to its value in the config file, or else to its default.
pub(super) fn apply_config_file(ctx: Ctx) -> Result<(), String> {
    // SAFETY: the context is alive.
    let status = unsafe { call!(RedisModule_LoadConfigs(ctx.as_ptr())) };
    accepted(status, "a value of a setting; see the line above")
}

/// Returns the setting of a callback's private data.
///
/// # Safety
/// The pointer is the private data that `register` passed to the server.
unsafe fn settable(private: *mut c_void) -> &'static dyn Settable {
    // SAFETY: `register` made it from a box of this type, which is never freed.
    unsafe { *private.cast::<&'static dyn Settable>() }
}

/// Returns a setter's status for the server, and writes the text of an error to `error`.
///
/// # Safety
/// `error` is null or valid for writing.
unsafe fn report(result: Result<(), String>, error: *mut *mut raw::RedisModuleString) -> c_int {
    let Err(text) = result else {
        return OK;
    };
    if !error.is_null() {
        // SAFETY: our caller guarantees that `error` is valid. The server frees the string.
        unsafe { *error = new_string(text.as_bytes()) };
    }
    ERR
}

unsafe extern "C" fn get_number(_: *const c_char, private: *mut c_void) -> c_longlong {
    // SAFETY: the server passes the private data from `register`.
    unsafe { settable(private) }.get()
}

unsafe extern "C" fn set_number(
    _: *const c_char,
    value: c_longlong,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the private data from `register`, and a place for an error.
    unsafe { report(settable(private).set(value), error) }
}

unsafe extern "C" fn get_switch(_: *const c_char, private: *mut c_void) -> c_int {
    // SAFETY: the server passes the private data from `register`.
    unsafe { settable(private) }.get() as c_int
}

unsafe extern "C" fn set_switch(
    _: *const c_char,
    value: c_int,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the private data from `register`, and a place for an error.
    unsafe { report(settable(private).set(i64::from(value != 0)), error) }
}

unsafe extern "C" fn get_text(
    _: *const c_char,
    private: *mut c_void,
) -> *mut raw::RedisModuleString {
    // SAFETY: the server passes the private data from `register`.
    let setting = unsafe { settable(private) };
    setting.slot().replace(&setting.text(setting.get()))
}

unsafe extern "C" fn set_text(
    _: *const c_char,
    value: *mut raw::RedisModuleString,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the string is alive and unchanged during the call.
    let text = String::from_utf8_lossy(unsafe { bytes_of(value) });
    // SAFETY: the server passes the private data from `register`, and a place for an error.
    unsafe {
        let setting = settable(private);
        let set = setting.parse(&text).and_then(|value| setting.set(value));
        report(set, error)
    }
}
