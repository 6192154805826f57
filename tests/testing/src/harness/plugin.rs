//! Modules of the tests, in C.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{folder, given};

/// A module of the tests, built from a source in `plugins/`. It is there until this is dropped.
pub struct Plugin(TempDir);

impl Plugin {
    #[track_caller]
    pub fn build(source: &str) -> Self {
        let plugin = Self(folder());
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/plugins"));
        let compiler = env::var("PLUGIN_CC").unwrap_or_else(|_| "cc".to_owned());
        let cc = Command::new(compiler)
            .args(["-shared", "-fPIC", "-pthread", "-O1"])
            .args(["-Wall", "-Wextra", "-Werror", "-o"])
            .arg(plugin.path())
            .arg(folder.join(source))
            .output()
            .expect("there is a C compiler");
        assert!(
            cc.status.success(),
            "{}",
            String::from_utf8_lossy(&cc.stderr)
        );
        plugin
    }

    /// Returns the line of a config file that loads it.
    pub fn line(&self) -> String {
        format!("loadmodule \"{}\"", self.path().display())
    }

    /// Returns the line that loads forkless.c, which loads the module for a server that knows these options.
    pub fn line_with_module(&self, known_options: u32) -> String {
        let module = given("VALKEYBLOOM_SO");
        format!("{} {known_options} \"{}\"", self.line(), module.display())
    }

    /// Returns the path of the library.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("plugin.so")
    }
}
