//! `valkeybloom pages`: writes man pages and shell completions, for those who install the program.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::{Shell, generate_to};

use super::failure::{Failure, Result};

/// Write man pages and shell completions into a folder
#[derive(Args)]
pub struct Pages {
    /// The folder, which is created if it does not exist
    folder: PathBuf,
}

impl Pages {
    pub fn run(&self, program: Command) -> Result<()> {
        let folder = self.folder.display();
        let failed = |error| Failure::new(format!("could not write into {folder}: {error}"));
        self.write(program).map_err(failed)
    }

    fn write(&self, mut program: Command) -> io::Result<()> {
        let name = program.get_name().to_owned();
        fs::create_dir_all(&self.folder)?;
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            generate_to(shell, &mut program, &name, &self.folder)?;
        }
        clap_mangen::generate_to(program, &self.folder)
    }
}
