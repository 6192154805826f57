//! Settings, which CONFIG GET reads and CONFIG SET writes: their definitions, values and registration.
//!
//! A setting may have an alias, the specification's name for it. While the module loads, the server sets every
//! *name* to its value in the config file, or else to its default. The default of one name must not overwrite the
//! value that the other name set, so during that time setting the default does nothing: the setting starts with
//! it. If both names are set, the one with hyphens wins, because it is registered last.

use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};
use std::ops::RangeInclusive;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering::Relaxed};

use valkey_module::raw;
use valkeybloom_protocol::numerals::{double_text, integer, memory_amount};
use valkeybloom_sketches::Fraction;

use super::api::{ERR, OK, accepted, call};
use super::context::Ctx;
use super::string::{bytes_of, new_string};

/// Whether the server is still applying its config file.
static LOADING: AtomicBool = AtomicBool::new(true);

/// A setting: its names, its value, and the rules for valid values.
pub struct Setting {
    name: &'static CStr,
    /// The specification's name.
    alias: Option<&'static CStr>,
    /// The names of `RedisBloom`'s arguments for this setting, so that its `loadmodule` line works here.
    arguments: &'static [&'static [u8]],
    kind: Kind,
    /// The encoded value: a number itself, the bits of a fraction's double, 0 or 1 for a switch, the index of a choice
    /// in its list, a bit for each word of a subset.
    value: AtomicI64,
    default: AtomicI64,
    /// The default that no argument after the module's path changed.
    initial: i64,
    /// Checks an otherwise valid value against other settings.
    check: fn(i64) -> Result<(), String>,
    /// Called with each value that is set, once the config file is applied.
    effect: fn(i64),
    /// Whether the value can't change once the module is loaded.
    fixed: bool,
    /// The string last passed to the server as the value. The server borrows it until it gets the value again.
    given: AtomicPtr<raw::RedisModuleString>,
}

enum Kind {
    Number {
        min: i64,
        max: i64,
        memory: bool,
    },
    Fraction,
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One or more of these words.
    Subset(&'static [&'static str]),
}

impl Setting {
    const fn new(name: &'static CStr, kind: Kind, default: i64) -> Self {
        Self {
            name,
            alias: None,
            arguments: &[],
            kind,
            value: AtomicI64::new(default),
            default: AtomicI64::new(default),
            initial: default,
            check: |_| Ok(()),
            effect: |_| {},
            fixed: false,
            given: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Makes a setting whose value is an integer in a range.
    pub const fn integer(name: &'static CStr, default: i64, range: &RangeInclusive<u64>) -> Self {
        let (min, max) = (range.start().cast_signed(), range.end().cast_signed());
        let memory = false;
        Self::new(name, Kind::Number { min, max, memory }, default)
    }

    /// Makes a setting whose value is an amount of memory in bytes.
    pub const fn memory(name: &'static CStr, default: i64, min: i64) -> Self {
        let (max, memory) = (i64::MAX, true);
        Self::new(name, Kind::Number { min, max, memory }, default)
    }

    /// Makes a setting whose value is a number between 0 and 1.
    pub const fn ratio(name: &'static CStr, default: f64) -> Self {
        Self::new(name, Kind::Fraction, to_bits(default))
    }

    /// Makes a setting that is on or off.
    pub const fn switch(name: &'static CStr, default: bool) -> Self {
        Self::new(name, Kind::Switch, default as i64)
    }

    /// Makes a setting whose value is one of these words; the first is the default.
    pub const fn choice(name: &'static CStr, words: &'static [&'static str]) -> Self {
        Self::new(name, Kind::Choice(words), 0)
    }

    /// Makes a setting whose value is one or more of these words, at most 63; the default is all of them.
    pub const fn subset(name: &'static CStr, words: &'static [&'static str]) -> Self {
        assert!(words.len() < 64);
        Self::new(name, Kind::Subset(words), (1 << words.len()) - 1)
    }

    /// Adds the specification's name.
    pub const fn with_alias(mut self, alias: &'static CStr) -> Self {
        self.alias = Some(alias);
        self
    }

    /// Adds the names of `RedisBloom`'s arguments for this setting.
    pub const fn with_arguments(mut self, arguments: &'static [&'static [u8]]) -> Self {
        self.arguments = arguments;
        self
    }

    /// Adds a check of the value against other settings.
    pub const fn with_check(mut self, check: fn(i64) -> Result<(), String>) -> Self {
        self.check = check;
        self
    }

    /// Adds what a value does when it is set.
    pub const fn with_effect(mut self, effect: fn(i64)) -> Self {
        self.effect = effect;
        self
    }

    /// Declares that the value can't change once the module is loaded.
    pub const fn fixed(mut self) -> Self {
        self.fixed = true;
        self
    }

    /// Returns whether a switch is on.
    pub fn is_on(&self) -> bool {
        self.value.load(Relaxed) != 0
    }

    /// Returns the value of a number.
    pub fn number(&self) -> i64 {
        self.value.load(Relaxed)
    }

    /// Returns the value of a number that is not negative.
    pub fn unsigned(&self) -> u64 {
        self.number().cast_unsigned()
    }

    /// Returns the index of a choice in its list.
    pub fn index(&self) -> usize {
        usize::try_from(self.number()).expect("only indices are stored")
    }

    /// Returns whether a subset has the word at an index in the list of all.
    pub fn has(&self, index: usize) -> bool {
        self.number() >> index & 1 == 1
    }

    /// Returns the value of a fraction.
    pub fn fraction(&self) -> Fraction {
        Fraction::new(to_double(self.value.load(Relaxed))).unwrap_or(Fraction::HALF)
    }

    /// Returns whether a word of a `loadmodule` line names this setting.
    pub fn has_name(&self, word: &[u8]) -> bool {
        let prefix: &[u8] = b"bf.";
        let name = match word.split_at_checked(prefix.len()) {
            Some((start, rest)) if start.eq_ignore_ascii_case(prefix) => rest,
            _ => word,
        };
        let names = [Some(self.name), self.alias];
        let mut names = names.into_iter().flatten().map(CStr::to_bytes);
        let mut arguments = self.arguments.iter();
        arguments.any(|own| own.eq_ignore_ascii_case(word))
            || names.any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Sets the default, and the value.
    ///
    /// # Errors
    /// The reason why the text is not valid.
    pub fn set_default(&self, text: &str) -> Result<(), String> {
        let value = self.parse(text)?;
        self.default.store(value, Relaxed);
        self.value.store(value, Relaxed);
        Ok(())
    }

    /// Checks the value against other settings.
    ///
    /// # Errors
    /// The reason why the value is not valid.
    pub fn check(&self) -> Result<(), String> {
        (self.check)(self.number())
    }

    fn set(&self, value: i64) -> Result<(), String> {
        let loading = LOADING.load(Relaxed);
        if loading && value == self.default.load(Relaxed) {
            return Ok(());
        }
        (self.check)(value)?;
        self.value.store(value, Relaxed);
        if !loading {
            (self.effect)(value);
        }
        Ok(())
    }

    fn text(&self, value: i64) -> String {
        match self.kind {
            Kind::Fraction => double_text(to_double(value)),
            Kind::Choice(words) => words[usize::try_from(value).expect("an index")].to_owned(),
            Kind::Subset(words) => {
                let words = words.iter().enumerate();
                let held = words.filter(|(index, _)| value >> index & 1 == 1);
                held.map(|(_, word)| *word).collect::<Vec<_>>().join(",")
            }
            Kind::Number { .. } | Kind::Switch => value.to_string(),
        }
    }

    fn parse(&self, text: &str) -> Result<i64, String> {
        match self.kind {
            Kind::Number { min, max, memory } => {
                let number = if memory {
                    memory_amount(text)
                } else {
                    integer(text.as_bytes())
                };
                let number = number.ok_or("argument must be a number")?;
                let is_within = (min..=max).contains(&number);
                let range = || format!("argument must be between {min} and {max} inclusive");
                is_within.then_some(number).ok_or_else(range)
            }
            Kind::Fraction => {
                let fraction = text.parse().ok().and_then(Fraction::new);
                let fraction = fraction.map(|fraction| to_bits(fraction.get()));
                fraction.ok_or("argument must be a number between 0 and 1 exclusive".to_owned())
            }
            Kind::Switch if text.eq_ignore_ascii_case("yes") => Ok(1),
            Kind::Switch if text.eq_ignore_ascii_case("no") => Ok(0),
            Kind::Switch => Err("argument must be 'yes' or 'no'".to_owned()),
            Kind::Choice(words) => {
                index_of(words, text).ok_or_else(|| format!("argument must be {}", one_of(words)))
            }
            Kind::Subset(words) => {
                let mut indices = text.split(',').map(|word| index_of(words, word));
                let set = indices.try_fold(0, |set, index| Some(set | 1 << index?));
                set.ok_or_else(|| {
                    let words = one_of(words);
                    format!("argument must be {words}, or several of these, separated by commas")
                })
            }
        }
    }
}

/// Returns the index of a word in a list, in any case of letters.
fn index_of(words: &[&str], word: &str) -> Option<i64> {
    let mut numbered = (0..).zip(words);
    let found = numbered.find(|(_, own)| own.eq_ignore_ascii_case(word));
    found.map(|(index, _)| index)
}

/// Formats a list of words as `'a', 'b' or 'c'`.
fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => format!("'{only}'"),
        [first, last] => format!("'{first}' or '{last}'"),
        [first, rest @ ..] => format!("'{first}', {}", one_of(rest)),
    }
}

const fn to_bits(value: f64) -> i64 {
    value.to_bits().cast_signed()
}

const fn to_double(bits: i64) -> f64 {
    f64::from_bits(bits.cast_unsigned())
}

/// Forgets what a load that failed set. musl keeps a library in memory that is closed, with its values.
pub(super) fn reset<'s>(settings: impl Iterator<Item = &'s &'static Setting>) {
    LOADING.store(true, Relaxed);
    for setting in settings {
        setting.default.store(setting.initial, Relaxed);
        setting.value.store(setting.initial, Relaxed);
    }
}

/// Registers settings under all their names, while the module loads: aliases first.
pub(super) fn register_all(ctx: Ctx, settings: &[&'static Setting]) -> Result<(), String> {
    for setting in settings {
        if let Some(alias) = setting.alias {
            register(ctx, setting, alias, raw::REDISMODULE_CONFIG_HIDDEN)?;
        }
    }
    let mut settings = settings.iter();
    settings.try_for_each(|setting| register(ctx, setting, setting.name, 0))
}

/// Registers a setting under a name, with the flags of a hidden name or none. CONFIG GET shows a hidden one by its full
/// name only, not by a pattern.
fn register(
    ctx: Ctx,
    setting: &'static Setting,
    name: &'static CStr,
    mut flags: u32,
) -> Result<(), String> {
    if setting.fixed {
        flags |= raw::REDISMODULE_CONFIG_IMMUTABLE;
    }
    let name = name.as_ptr();
    let private = ptr::from_ref(setting).cast_mut().cast::<c_void>();
    let default = setting.default.load(Relaxed);
    // SAFETY: the context is alive; the server copies names and defaults. The private data is a
    // setting that lives as long as the module, as the callbacks expect.
    let status = unsafe {
        match setting.kind {
            Kind::Number { min, max, memory } => {
                if memory {
                    flags |= raw::REDISMODULE_CONFIG_MEMORY;
                }
                call!(RedisModule_RegisterNumericConfig(
                    ctx.as_ptr(),
                    name,
                    default,
                    flags,
                    min,
                    max,
                    Some(get_number),
                    Some(set_number),
                    None,
                    private
                ))
            }
            Kind::Fraction | Kind::Choice(_) | Kind::Subset(_) => {
                let default = CString::new(setting.text(default)).unwrap_or_default();
                call!(RedisModule_RegisterStringConfig(
                    ctx.as_ptr(),
                    name,
                    default.as_ptr(),
                    flags,
                    Some(get_text),
                    Some(set_text),
                    None,
                    private
                ))
            }
            Kind::Switch => call!(RedisModule_RegisterBoolConfig(
                ctx.as_ptr(),
                name,
                default as c_int,
                flags,
                Some(get_switch),
                Some(set_switch),
                None,
                private
            )),
        }
    };
    accepted(status, "a setting")
}

/// Has the server set every registered setting to its value in the config file, or else to its default, which changes
/// nothing while the module loads. It may be called again after more settings were registered.
pub(super) fn apply_config_file(ctx: Ctx) -> Result<(), String> {
    // SAFETY: the context is alive.
    let status = unsafe { call!(RedisModule_LoadConfigs(ctx.as_ptr())) };
    accepted(status, "a value of a setting; see the line above")
}

/// Runs the effects of all settings, whose values from the config file are set now.
pub(super) fn on_configured(settings: &[&'static Setting]) {
    LOADING.store(false, Relaxed);
    for setting in settings {
        (setting.effect)(setting.number());
    }
}

/// Returns the setting of a callback's private data.
///
/// # Safety
/// The pointer is the private data that `register` passed to the server.
unsafe fn setting<'s>(private: *mut c_void) -> &'s Setting {
    // SAFETY: `register` made it from a setting, which is only shared, and lives as long as the module.
    unsafe { &*private.cast::<Setting>() }
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
    unsafe { setting(private) }.number()
}

unsafe extern "C" fn set_number(
    _: *const c_char,
    value: c_longlong,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the private data from `register`, and a place for an error.
    unsafe { report(setting(private).set(value), error) }
}

unsafe extern "C" fn get_switch(_: *const c_char, private: *mut c_void) -> c_int {
    // SAFETY: the server passes the private data from `register`.
    unsafe { setting(private) }.number() as c_int
}

unsafe extern "C" fn set_switch(
    _: *const c_char,
    value: c_int,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the private data from `register`, and a place for an error.
    unsafe { report(setting(private).set(i64::from(value != 0)), error) }
}

unsafe extern "C" fn get_text(
    _: *const c_char,
    private: *mut c_void,
) -> *mut raw::RedisModuleString {
    // SAFETY: the server passes the private data from `register`.
    let setting = unsafe { setting(private) };
    let text = new_string(setting.text(setting.number()).as_bytes());
    let before = setting.given.swap(text, Relaxed);
    if !before.is_null() {
        // SAFETY: `new_string` made it in an earlier call, nobody else can load it after the swap, and the server has
        // copied the text that it got then.
        unsafe { call!(RedisModule_FreeString(ptr::null_mut(), before)) };
    }
    text
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
        let setting = setting(private);
        let set = setting.parse(&text).and_then(|value| setting.set(value));
        report(set, error)
    }
}
