//! The examples as programs, built from the sources of this run, which `cargo test --test server` alone would not do.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub fn program(name: &str) -> PathBuf {
    folder().join("examples").join(name)
}

/// Returns the program `valkeybloom`.
pub fn valkeybloom() -> PathBuf {
    folder().join("valkeybloom")
}

/// Returns the program `valkeybloom-http`.
pub fn valkeybloom_http() -> PathBuf {
    folder().join("valkeybloom-http")
}

fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(build)
}

fn build() -> PathBuf {
    // This is target/profile/deps/server-….
    let own = std::env::current_exe().expect("a program knows its path");
    let target = own
        .ancestors()
        .nth(3)
        .expect("it lies in the target folder");
    // With the profile and the features of the tests, so that nothing is built twice.
    let mut cargo = Command::new(env!("CARGO"));
    // Variables that cargo sets for this program alone: a build script that depends on them would run again.
    for (name, _) in std::env::vars_os() {
        let own = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if own
            .iter()
            .any(|own| name.to_string_lossy().starts_with(own))
        {
            cargo.env_remove(name);
        }
    }
    let status = cargo
        .args(["build", "--quiet", "--locked", "--workspace"])
        .args(["--profile", "test", "--bins"])
        .args(["library", "urls"].map(|name| format!("--example={name}")))
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "the examples can't be built"
    );
    target.join("debug")
}
