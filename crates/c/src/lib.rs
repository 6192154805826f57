//! The C library: one function for each method of the crate `bindings`, whose documentation describes the mapping.
//! cbindgen generates `include/valkeybloom.h` from these files. It does not expand macros, so every function is written
//! out.
//!
//! Each function is one [`call`](border::call), which keeps panics inside and turns errors into a status.

#![allow(unsafe_code, reason = "C calls it, and owns its memory")]
#![allow(
    clippy::doc_markdown,
    reason = "C programmers read these comments, in the header"
)]

mod bloom;
mod border;
mod count_min;
mod cuckoo;
mod object;
mod tdigest;
mod top_k;
