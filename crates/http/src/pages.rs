//! The man page and the completions of shells, for those who install the program.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::{Shell, generate_to};

use crate::options::Options;

/// Writes them into a folder, which is created if it does not exist.
///
/// # Errors
/// A file can't be written.
pub fn write(folder: &Path) -> io::Result<()> {
    let mut program = Options::command();
    let name = program.get_name().to_owned();
    fs::create_dir_all(folder)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        generate_to(shell, &mut program, &name, folder)?;
    }
    clap_mangen::generate_to(program, folder)
}
