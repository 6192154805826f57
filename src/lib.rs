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
    version: version(env!("CARGO_PKG_VERSION").as_bytes()),
    bundles: families::BUNDLES,
    selection: &families::FAMILIES,
    settings: &settings::SHARED,
    write_info: families::write_info,
    on_loading: families::log_left_out,
    on_loaded: tdigest::log_mended,
};

/// Converts `major.minor.patch` to one number, with two digits each for minor and patch.
const fn version(text: &[u8]) -> i32 {
    let (mut number, mut part, mut index) = (0, 0, 0);
    while index < text.len() {
        if text[index] == b'.' {
            number = (number + part) * 100;
            part = 0;
        } else {
            part = part * 10 + (text[index] - b'0') as i32;
        }
        index += 1;
    }
    number + part
}

// Clients distinguish modules named `bf` by this number: above the first bound they expect BF.CARD, and from the
// second bound on they expect another name of the type.
const _: () = assert!(MODULE.version > 20404 && MODULE.version < 80000);
