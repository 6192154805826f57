//! The module `bf` for Valkey and Redis: Bloom filters, cuckoo filters, count-min sketches, top-k lists and t-digests.
//!
//! Each family of values has a folder with its commands, keys, settings and stored values. `families` lists the
//! families, and each implements `family::Family`. The other files are shared by all families.

mod bloom;
mod cms;
mod cuckoo;
mod digest;
mod families;
mod family;
mod feeds;
#[allow(unsafe_code, reason = "the server's API is C")]
mod ffi;
mod keys;
mod meter;
mod mover;
mod readers;
mod request;
mod settings;
mod sums;
mod tdigest;
mod topk;
mod values;

use ffi::Module;

ffi::on_load!(MODULE);

static MODULE: Module = Module {
    name: c"bf",
    version: number(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 100
        + number(env!("CARGO_PKG_VERSION_PATCH")),
    bundles: families::BUNDLES,
    selection: &families::FAMILIES,
    settings: &settings::SHARED,
    write_info: families::write_info,
    on_loading: families::log_left_out,
    on_loaded: tdigest::log_mended,
};

/// Converts a part of the version to a number.
const fn number(part: &str) -> i32 {
    match i32::from_str_radix(part, 10) {
        Ok(number) => number,
        Err(_) => panic!("a version consists of numbers"),
    }
}

// Clients distinguish modules named `bf` by this number: above the first bound they expect BF.CARD, and from the
// second bound on they expect another name of the type.
const _: () = assert!(MODULE.version > 20404 && MODULE.version < 80000);
