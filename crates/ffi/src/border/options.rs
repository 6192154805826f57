//! Options: words in C. JavaScript passes the options of items as numbers.

use std::ffi::{CStr, c_char};

use valkeybloom_bindings::Moment;

use super::status::{Failure, Outcome};

/// Returns the options AT and TTL of a call: C passes a text with their words.
///
/// # Safety
/// The pointer is null, or that of a text that ends with a zero and is not changed while this function runs. In
/// WebAssembly, it is null, or that of two numbers.
#[cfg(not(target_family = "wasm"))]
pub unsafe fn moment(options: *const c_char) -> Outcome<Moment> {
    if options.is_null() {
        return Ok(Moment::default());
    }
    // SAFETY: the pointer is that of a text that ends with a zero, and the words are dropped before this function returns.
    let words = unsafe { words_after(&[], options) }?;
    Ok(valkeybloom_bindings::parse_moment(&words)?)
}

/// Returns the options AT and TTL of a call: JavaScript passes a pointer to their two numbers. A number below 0 stands for
/// an option that is missing.
///
/// # Safety
/// The pointer is null, or that of two numbers that are not changed while this function runs. In C, it is null, or that of
/// a text that ends with a zero.
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
    #[allow(clippy::cast_ptr_alignment, reason = "`borrow` requires the alignment")]
    let numbers = options.cast::<[f64; 2]>();
    // SAFETY: the pointer is that of two numbers, which are copied before this function returns.
    let numbers = unsafe { super::memory::borrow(numbers) }?;
    let [at_ms, ttl_ms] = numbers.map(given);
    Ok(valkeybloom_bindings::moment(at_ms, ttl_ms)?)
}

/// Returns the words of required numbers and of options. Those of options are borrowed from the caller's text.
///
/// # Safety
/// The pointer is null, or that of a text that ends with a zero, and that is valid and not changed during `'a`: as long as
/// the result is used.
pub unsafe fn words_after<'a>(
    numbers: &'a [String],
    options: *const c_char,
) -> Outcome<Vec<&'a [u8]>> {
    let text: &'a CStr = if options.is_null() {
        c""
    } else {
        // SAFETY: the pointer is that of a text that ends with a zero and is valid during `'a`.
        unsafe { CStr::from_ptr(options) }
    };
    let words = text.to_bytes().split(u8::is_ascii_whitespace);
    let mut all = Vec::new();
    for word in numbers.iter().map(String::as_bytes).chain(words) {
        if !word.is_empty() {
            all.try_reserve(1)?;
            all.push(word);
        }
    }
    Ok(all)
}

/// Returns the time of a call whose only option is AT, in milliseconds since the epoch.
///
/// # Safety
/// The pointer is null, or that of a text that ends with a zero (in C) or of two numbers (in WebAssembly). Neither is changed
/// while this function runs.
pub unsafe fn time(options: *const c_char) -> Outcome<Option<u64>> {
    // SAFETY: the pointer is null, or that of a text or of two numbers, whichever `moment` reads on this target.
    match unsafe { moment(options) }? {
        Moment {
            at_ms,
            ttl_ms: None,
            saturate: false,
        } => Ok(at_ms),
        _ => Err(Failure::refused("AT with a time is the only option here")),
    }
}

/// Refuses options to a call that has none.
///
/// # Safety
/// The pointer is null, or that of a text that ends with a zero (in C) or of two numbers (in WebAssembly). Neither is changed
/// while this function runs.
pub unsafe fn no_options(options: *const c_char) -> Outcome<()> {
    // SAFETY: the pointer is null, or that of a text or of two numbers, whichever `moment` reads on this target.
    match unsafe { moment(options) } {
        Ok(given) if given == Moment::default() => Ok(()),
        Err(failure) if !failure.is_refusal() => Err(failure),
        _ => Err(Failure::refused("there are no options here")),
    }
}
