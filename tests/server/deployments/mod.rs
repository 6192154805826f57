//! The files in examples/compose and examples/kubernetes: valid for those who read them, and their options start real
//! servers. No container engine is needed: a service runs as a process, with its files in a folder of its own.

mod compose;
mod kubernetes;
mod project;

use std::fs;
use std::path::{Path, PathBuf};

/// Where the module is in the images.
const MODULE: &str = "/usr/lib/valkey/modules/valkeybloom.so";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files of a folder of examples, in order.
#[track_caller]
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("examples").join(folder)).expect("there is a folder");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    files.sort();
    files
}

/// Requires that an image of the project is that of this version.
#[track_caller]
fn has_this_version(image: &str) {
    let (_, version) = image.rsplit_once(':').expect("an image has a version");
    assert_eq!(version, env!("CARGO_PKG_VERSION"), "{image}");
}
