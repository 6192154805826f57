//! The library as a whole: its version, and the limits for all objects of the process.

use std::ffi::c_char;

/// Returns the version of the library, such as "3.0.0". It is valid forever.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Sets the limits for all objects of the process: the most bytes of a filter that is stacked on others because they
/// are full, 1 GiB at first; and the most filters that a cuckoo filter grows to, 32 at first, as on a server. Loaded
/// bytes decide how fast an object grows; these limits bound what a single addition can allocate. What you create or
/// load may be larger.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_limit_growth(filter_bytes: u64, cuckoo_filters: u64) {
    valkeybloom_bindings::limit_growth(filter_bytes, cuckoo_filters);
}
