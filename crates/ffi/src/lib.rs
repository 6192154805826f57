//! The functions of the C library, one for each method of the crate `bindings`, whose documentation describes the mapping.
//! The npm package's WebAssembly has them, too. cbindgen generates the header from these files. It does not expand macros, so
//! every function is written out.
//!
//! Each function is one [`call`](border::call), which keeps panics inside and turns errors into a status.

#![allow(unsafe_code, reason = "C calls it, and owns its memory")]
#![allow(
    clippy::doc_markdown,
    reason = "C programmers read these comments, in the header"
)]
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::missing_safety_doc,
    reason = "only this repository's C library and WebAssembly use it; the header states the rules"
)]

pub mod any;
pub mod bloom;
pub mod border;
pub mod chunks;
pub mod count_min;
pub mod cuckoo;
pub mod library;
pub mod object;
#[cfg(target_family = "wasm")]
mod stack;
pub mod tdigest;
pub mod top_k;
