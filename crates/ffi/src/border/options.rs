//! Options: words in C, numbers in JavaScript.

use std::ffi::{CStr, c_char};

#[cfg(target_family = "wasm")]
use valkeybloom_bindings as bindings;
use valkeybloom_bindings::Moment;
#[cfg(not(target_family = "wasm"))]
use valkeybloom_bindings::parse_moment;

#[cfg(target_family = "wasm")]
use super::memory::borrow;
use super::status::{Failure, Outcome};

/// Returns the words of options.
///
/// # Safety
/// As for [`words_after`].
unsafe fn words<'a>(options: *const c_char) -> Vec<&'a [u8]> {
    if options.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller promises it.
    let text = unsafe { CStr::from_ptr(options) }.to_bytes();
    let words = text.split(u8::is_ascii_whitespace);
    words.filter(|word| !word.is_empty()).collect()
}

/// Returns the words of required numbers and of options.
///
/// # Safety
/// The pointer is null, or that of a text that ends with a zero and is valid for the length of the call.
pub unsafe fn words_after(numbers: &[String], options: *const c_char) -> Vec<&[u8]> {
    let mut all: Vec<&[u8]> = numbers.iter().map(String::as_bytes).collect();
    // SAFETY: the caller promises it.
    all.extend(unsafe { words(options) });
    all
}

/// Returns the options AT and TTL of a call.
///
/// # Safety
/// As for [`words_after`].
#[cfg(not(target_family = "wasm"))]
pub unsafe fn moment(options: *const c_char) -> Outcome<Moment> {
    if options.is_null() {
        return Ok(Moment::default());
    }
    // SAFETY: the caller promises it.
    Ok(parse_moment(&unsafe { words(options) })?)
}

/// Returns the options AT and TTL of a call. JavaScript passes them as numbers. One below 0 stands for an option that is missing.
///
/// # Safety
/// The pointer is null, or that of two numbers.
#[cfg(target_family = "wasm")]
pub unsafe fn moment(options: *const c_char) -> Outcome<Moment> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "integers of JavaScript"
    )]
    fn given(number: f64) -> Option<u64> {
        (number >= 0.0).then_some(number as u64)
    }
    if options.is_null() {
        return Ok(Moment::default());
    }
    // SAFETY: the caller promises it.
    let [at_ms, ttl_ms] = unsafe { borrow(options.cast::<[f64; 2]>()) }?.map(given);
    Ok(bindings::moment(at_ms, ttl_ms)?)
}

/// Returns the time of a call whose only option is AT, in milliseconds since the epoch.
///
/// # Safety
/// As for [`moment`].
#[cfg(target_family = "wasm")]
pub unsafe fn time(options: *const c_char) -> Outcome<Option<u64>> {
    // SAFETY: the caller promises it.
    Ok(unsafe { moment(options) }?.at_ms)
}

/// Returns the time of a call whose only option is AT, in milliseconds since the epoch.
///
/// # Safety
/// As for [`words_after`].
#[cfg(not(target_family = "wasm"))]
pub unsafe fn time(options: *const c_char) -> Outcome<Option<u64>> {
    // SAFETY: the caller promises it.
    match unsafe { words(options) }[..] {
        [] => Ok(None),
        [at, time] if at.eq_ignore_ascii_case(b"AT") => Ok(parse_moment(&[at, time])?.at_ms),
        _ => Err(Failure::refused("AT with a time is the only option here")),
    }
}

/// Refuses options to a call that has none.
///
/// # Safety
/// As for [`words_after`].
pub unsafe fn no_options(options: *const c_char) -> Outcome<()> {
    // In WebAssembly, they are not words.
    let has_none = if cfg!(target_family = "wasm") {
        options.is_null()
    } else {
        // SAFETY: the caller promises it.
        unsafe { words(options) }.is_empty()
    };
    if has_none {
        Ok(())
    } else {
        Err(Failure::refused("there are no options here"))
    }
}
