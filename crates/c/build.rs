//! Gives the shared library the name under which programs look for it. It has the number of the major version, because
//! that is what may change calls that exist.

fn main() {
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libvalkeybloom_sketches.so.{major}");
    println!("cargo::rerun-if-changed=build.rs");
}
