//! The WebAssembly of docs/calculator.html: a text in, a text out, through memory.
//!
//! The page calls [`request`] for the address of a buffer, writes the fields there as JSON, calls [`answer`], and reads
//! the answer from the address and the length that [`answer_length`] and `answer` return. `tools/calculator.sh` builds
//! this crate and puts it into the page.
//!
//! No function here has an `unsafe` block. Only the exported names need the keyword: two functions of one name would be
//! undefined behaviour. The names below begin with `calculator_`, and nothing else in the WebAssembly exports any.

#![allow(unsafe_code, reason = "exported names need the keyword")]

use std::sync::{Mutex, MutexGuard};

use valkeybloom_planner as planner;

static REQUEST: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<String> = Mutex::new(String::new());

/// Takes the lock. A page has one thread, and a panic ends the WebAssembly, so no lock is ever poisoned.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Returns the address of a buffer for a request of this length in bytes, valid until the next call.
#[unsafe(export_name = "calculator_request")]
pub extern "C" fn request(length: usize) -> *mut u8 {
    let mut request = locked(&REQUEST);
    request.clear();
    request.resize(length, 0);
    request.as_mut_ptr()
}

/// Answers the request in the buffer, and returns the address of the answer, valid until the next call.
#[unsafe(export_name = "calculator_answer")]
pub extern "C" fn answer() -> *const u8 {
    let request = locked(&REQUEST);
    let mut answer = locked(&ANSWER);
    *answer = planner::answer(&String::from_utf8_lossy(&request));
    answer.as_ptr()
}

/// Returns the length of the answer in bytes.
#[unsafe(export_name = "calculator_answer_length")]
pub extern "C" fn answer_length() -> usize {
    locked(&ANSWER).len()
}
