//! Settings: what CONFIG GET and CONFIG SET read and write.

use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use valkey_module::raw;

use super::api::{ERR, OK, accepted, call};
use super::context::Ctx;
use super::string::{bytes_of, new_string};

/// What the server has to know of a setting.
pub enum SettingKind {
    /// A whole number.
    Number {
        /// The default.
        default: i64,
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
        /// Whether it is an amount of memory, which may be given as `64mb`.
        memory: bool,
    },
    /// Text.
    Text {
        /// The default.
        default: String,
    },
    /// Yes or no.
    Switch {
        /// The default.
        default: bool,
    },
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
    /// Yes or no.
    Switch(bool),
}

/// Something that the server can set and get.
pub trait Settable: Sync {
    /// The current value.
    fn get(&self) -> SettingValue;
    /// Sets the value.
    ///
    /// # Errors
    /// Why the setting can't have this value.
    fn set(&self, value: SettingValue) -> Result<(), String>;
    /// Keeps the text that the server gets.
    fn text(&self) -> &TextSlot;
}

/// The string that the server last got as a setting's value: it borrows the string until it asks again.
pub struct TextSlot(AtomicPtr<raw::RedisModuleString>);

impl TextSlot {
    /// An empty slot.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn replace(&self, text: &str) -> *mut raw::RedisModuleString {
        let new = new_string(text.as_bytes());
        let old = self.0.swap(new, Relaxed);
        if !old.is_null() {
            // SAFETY: `new_string` made it in an earlier call, the swap leaves it to us alone, and the
            // server has copied what it got then.
            unsafe { call!(RedisModule_FreeString(ptr::null_mut(), old)) };
        }
        new
    }
}

/// A setting under one of its names.
pub struct Registration {
    /// The name, without the module's.
    pub name: &'static CStr,
    /// What the server has to know.
    pub setting: SettingKind,
    /// Where the value is.
    pub target: &'static dyn Settable,
    /// Whether CONFIG GET shows it by its full name only, not by a pattern.
    pub hidden: bool,
}

/// Registers a setting, while the module loads.
pub(super) fn register(ctx: Ctx, registration: &Registration) -> Result<(), String> {
    let name = registration.name.as_ptr();
    // Leaked: a small block, once for each name of a setting.
    let private = Box::into_raw(Box::new(registration.target)).cast::<c_void>();
    let hidden = if registration.hidden {
        raw::REDISMODULE_CONFIG_HIDDEN
    } else {
        0
    };
    // SAFETY: the context is alive; the server copies names and defaults. The private data, which the
    // callbacks take for a `&'static dyn Settable`, is one, and is never freed.
    let status = unsafe {
        match &registration.setting {
            SettingKind::Number {
                default,
                min,
                max,
                memory,
            } => {
                let unit = if *memory {
                    raw::REDISMODULE_CONFIG_MEMORY
                } else {
                    0
                };
                call!(RedisModule_RegisterNumericConfig(
                    ctx.as_ptr(),
                    name,
                    *default,
                    hidden | unit,
                    *min,
                    *max,
                    Some(get_number),
                    Some(set_number),
                    None,
                    private
                ))
            }
            SettingKind::Text { default } => {
                let default = CString::new(default.as_str()).unwrap_or_default();
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
            SettingKind::Switch { default } => call!(RedisModule_RegisterBoolConfig(
                ctx.as_ptr(),
                name,
                c_int::from(*default),
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

/// Has the server set every registered setting to what its config file says, or else to the default.
pub(super) fn apply_config_file(ctx: Ctx) -> Result<(), String> {
    // SAFETY: the context is alive.
    let status = unsafe { call!(RedisModule_LoadConfigs(ctx.as_ptr())) };
    accepted(status, "a value of a setting; see the line above")
}

/// # Safety
/// The pointer is the private data that `register` gave to the server.
unsafe fn settable(private: *mut c_void) -> &'static dyn Settable {
    // SAFETY: `register` made it of a box of this type, which is never freed.
    unsafe { *private.cast::<&'static dyn Settable>() }
}

/// The status of a setter, and the error's text for the server.
///
/// # Safety
/// The place for the text is null or may be written to.
unsafe fn report(result: Result<(), String>, error: *mut *mut raw::RedisModuleString) -> c_int {
    let Err(text) = result else {
        return OK;
    };
    if !error.is_null() {
        // SAFETY: our caller guarantees the place. The server frees the string.
        unsafe { *error = new_string(text.as_bytes()) };
    }
    ERR
}

unsafe extern "C" fn get_number(_: *const c_char, private: *mut c_void) -> c_longlong {
    // SAFETY: the server passes the private data from `register`.
    match unsafe { settable(private) }.get() {
        SettingValue::Number(number) => number,
        _ => 0,
    }
}

unsafe extern "C" fn set_number(
    _: *const c_char,
    value: c_longlong,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the private data from `register`, and a place for an error.
    unsafe { report(settable(private).set(SettingValue::Number(value)), error) }
}

unsafe extern "C" fn get_switch(_: *const c_char, private: *mut c_void) -> c_int {
    // SAFETY: the server passes the private data from `register`.
    c_int::from(unsafe { settable(private) }.get() == SettingValue::Switch(true))
}

unsafe extern "C" fn set_switch(
    _: *const c_char,
    value: c_int,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the private data from `register`, and a place for an error.
    unsafe {
        report(
            settable(private).set(SettingValue::Switch(value != 0)),
            error,
        )
    }
}

unsafe extern "C" fn get_text(
    _: *const c_char,
    private: *mut c_void,
) -> *mut raw::RedisModuleString {
    // SAFETY: the server passes the private data from `register`.
    let setting = unsafe { settable(private) };
    match setting.get() {
        SettingValue::Text(text) => setting.text().replace(&text),
        _ => ptr::null_mut(),
    }
}

unsafe extern "C" fn set_text(
    _: *const c_char,
    value: *mut raw::RedisModuleString,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the string is alive and unchanged during the call.
    let text = String::from_utf8_lossy(unsafe { bytes_of(value) }).into_owned();
    // SAFETY: the server passes the private data from `register`, and a place for an error.
    unsafe { report(settable(private).set(SettingValue::Text(text)), error) }
}
