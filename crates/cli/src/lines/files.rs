//! Files as they are opened, and their states. The name `-` is that of the standard input.

use std::collections::HashSet;
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// The state of a file. Another content has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub bytes: u64,
    pub modified: (i64, i64),
    /// The time when the content or the attributes changed, which programs can't set.
    changed: (i64, i64),
    /// The device and the inode.
    pub place: (u64, u64),
}

impl Stamp {
    pub fn of(about: &Metadata) -> Self {
        Self {
            bytes: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
            place: (about.dev(), about.ino()),
        }
    }
}

/// Returns the state of each file, but for those that can be read only once.
///
/// # Errors
/// A file does not exist, or is a folder, or a pipe has two names.
pub fn stamps(files: &[PathBuf]) -> Result<Vec<Option<Stamp>>> {
    let mut pipes = HashSet::new();
    let stamps = files.iter().map(|file| {
        let about = metadata(file).map_err(|error| failed(file, error))?;
        if about.is_dir() {
            return Err(failed(file, io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let kind = about.file_type();
        if (kind.is_fifo() || kind.is_socket()) && !pipes.insert((about.dev(), about.ino())) {
            return Err(failed(file, "it is a pipe that is read already"));
        }
        Ok(about.is_file().then(|| Stamp::of(&about)))
    });
    stamps.collect()
}

/// Returns the sum of the sizes of files with these states; `None` if one can be read only once.
pub fn bytes_of(stamps: &[Option<Stamp>]) -> Option<u64> {
    stamps.iter().map(|stamp| Some(stamp.as_ref()?.bytes)).sum()
}

/// Returns whether a name stands for the standard input.
pub fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}

/// Opens a file for reading.
pub fn open(file: &Path) -> io::Result<File> {
    if is_standard_input(file) {
        return Ok(io::stdin().as_fd().try_clone_to_owned()?.into());
    }
    File::open(file)
}

fn metadata(file: &Path) -> io::Result<Metadata> {
    if is_standard_input(file) {
        return open(file)?.metadata();
    }
    file.metadata()
}

/// Reports that a file can't be read.
pub fn failed(file: &Path, error: impl fmt::Display) -> Failure {
    Failure::new(format!("could not read {}: {error}", file.display()))
}
