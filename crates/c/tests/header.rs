//! Compares the committed header with the one that cbindgen generates from the sources.
//!
//! `HEADER=write cargo test -p valkeybloom-c --test header` writes it.

use std::path::Path;
use std::{env, fs};

/// The sources, in the order of their parts in the header.
const SOURCES: [&str; 14] = [
    "border/status",
    "library",
    "border/memory",
    "border/options",
    "border/batch",
    "border/returned",
    "object",
    "any",
    "chunks",
    "bloom",
    "cuckoo",
    "count_min",
    "top_k",
    "tdigest",
];

#[test]
fn the_header_is_generated_from_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = folder.join("../ffi/src");
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = SOURCES.iter().fold(builder, |builder, name| {
        builder.with_src(sources.join(name).with_extension("rs"))
    });
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    // C++98 has no comma after the last constant of an enum.
    let made = String::from_utf8(made).unwrap().replace(",\n}", "\n}");
    let path = folder.join("include/valkeybloom.h");
    if env::var_os("HEADER").is_some_and(|what| what == "write") {
        fs::write(&path, &made).unwrap();
    }
    let committed = fs::read(&path).unwrap();
    assert_eq!(
        str::from_utf8(&committed).unwrap(),
        made,
        "write it with HEADER=write"
    );
    let folders = [sources.join("border"), sources];
    let files = folders.map(|folder| fs::read_dir(folder).unwrap().count());
    // All but border/, border/mod.rs, lib.rs, and stack.rs, which is for WebAssembly.
    assert_eq!(files.iter().sum::<usize>(), SOURCES.len() + 4);
}
