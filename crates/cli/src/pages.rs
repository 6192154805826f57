//! `valkeybloom pages`: man pages, and completions for shells, for whoever installs the program.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::{Shell, generate_to};

use super::failure::{Failure, Result};

/// Write man pages and shell completions into a folder
#[derive(Args)]
pub struct Pages {
    /// The folder, which is made if it is not there
    folder: PathBuf,
}

impl Pages {
    pub fn run(&self, mut program: Command) -> Result<()> {
        let name = program.get_name().to_owned();
        let write = move || -> io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
                generate_to(shell, &mut program, &name, &self.folder)?;
            }
            clap_mangen::generate_to(program, &self.folder)
        };
        write().map_err(|error| {
            Failure::new(format!(
                "could not write into {}: {error}",
                self.folder.display()
            ))
        })
    }
}
