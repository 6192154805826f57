//! The C library: the functions of the crate `ffi`, as a shared and as a static library.

pub use valkeybloom_ffi as functions;
