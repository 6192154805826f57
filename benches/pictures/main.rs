//! Draws the pictures of docs/. Sizes come from the core's arithmetic, everything else from the tables of the pages.
//!
//! `./build.sh bench pictures` draws them all. A test draws them again and compares.

mod chart;
mod drawn;
mod terminal;

use std::fs;
use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, svg) in drawn::all(root) {
        let path = root.join("docs").join(name);
        fs::write(&path, svg).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        println!("drawn: docs/{name}");
    }
}
