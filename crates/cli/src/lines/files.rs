//! Files as they are opened, and their states. The name `-` is that of the standard input.

use std::collections::HashSet;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// The state of a file. Another content has another one, unless both were written within one tick of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub bytes: u64,
    /// The position at which reading begins: the standard input may have been read in part.
    pub start: u64,
    pub modified: (i64, i64),
    /// The time when the content or the attributes changed, which programs can't set.
    changed: (i64, i64),
    /// The device and the inode.
    pub place: (u64, u64),
}

impl Stamp {
    pub fn of(about: &Metadata, start: u64) -> Self {
        Self {
            bytes: about.len(),
            start,
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
        let (about, start) = metadata(file).map_err(|error| failed(file, error))?;
        if about.is_dir() {
            return Err(failed(file, io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let kind = about.file_type();
        if (kind.is_fifo() || kind.is_socket()) && !pipes.insert((about.dev(), about.ino())) {
            return Err(failed(file, "it is a pipe that is read already"));
        }
        Ok(about.is_file().then(|| Stamp::of(&about, start)))
    });
    stamps.collect()
}

/// Returns the number of bytes to read of files with these states; `None` if one can be read only once.
pub fn bytes_of(stamps: &[Option<Stamp>]) -> Option<u64> {
    let left = |stamp: &Stamp| stamp.bytes.saturating_sub(stamp.start);
    stamps.iter().map(|stamp| stamp.as_ref().map(left)).sum()
}

/// Returns whether a name stands for the standard input.
fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}

/// A file that is being read. The standard input is opened once for all its readers, and may have been read in part.
pub struct Reading {
    pub file: File,
    /// The position at which reading begins; `None` for a pipe or a device, which have none.
    pub start: Option<u64>,
}

impl Reading {
    pub fn begin(name: &Path) -> io::Result<Self> {
        let mut file = open(name)?;
        let start = if file.metadata()?.is_file() {
            Some(file.stream_position()?)
        } else {
            None
        };
        Ok(Self { file, start })
    }

    /// Returns the state of the file now.
    pub fn stamp(&self) -> io::Result<Stamp> {
        Ok(Stamp::of(&self.file.metadata()?, self.start.unwrap_or(0)))
    }

    /// Returns the number of bytes read so far; `None` without positions.
    pub fn bytes_read(&self) -> Option<u64> {
        let start = self.start?;
        let position = (&self.file).stream_position().ok()?;
        Some(position.saturating_sub(start))
    }

    /// Goes back to the start, because a file may be read twice.
    pub fn rewind(&self) -> io::Result<()> {
        match self.start {
            Some(start) => (&self.file).seek(SeekFrom::Start(start)).map(drop),
            None => Ok(()),
        }
    }
}

fn open(file: &Path) -> io::Result<File> {
    if is_standard_input(file) {
        return Ok(io::stdin().as_fd().try_clone_to_owned()?.into());
    }
    File::open(file)
}

/// Returns what the system says about a file, and the position at which reading begins.
fn metadata(file: &Path) -> io::Result<(Metadata, u64)> {
    if is_standard_input(file) {
        let Reading { file, start } = Reading::begin(file)?;
        return Ok((file.metadata()?, start.unwrap_or(0)));
    }
    Ok((file.metadata()?, 0))
}

/// Reports that a file can't be read.
pub fn failed(file: &Path, error: impl fmt::Display) -> Failure {
    Failure::new(format!("could not read {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// The standard input may begin within a file.
    #[test]
    fn reading_begins_and_begins_again_where_the_file_was() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"one\ntwo\nthree\n").expect("it is written");
        file.seek(SeekFrom::Start(4)).expect("it has positions");
        let start = Some(4);
        let reading = Reading { file, start };
        for _ in 0..2 {
            let mut line = [0; 4];
            (&reading.file).read_exact(&mut line).expect("a line");
            assert_eq!((&line, reading.bytes_read()), (b"two\n", Some(4)));
            reading.rewind().expect("it has positions");
        }
    }

    #[test]
    fn bytes_before_the_start_are_not_to_be_read() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(14).expect("it is ours");
        let about = file.metadata().expect("it is there");
        let stamp = |start| Some(Stamp::of(&about, start));
        assert_eq!(bytes_of(&[stamp(0), stamp(4)]), Some(24));
        assert_eq!(bytes_of(&[stamp(15)]), Some(0));
        assert_eq!(bytes_of(&[stamp(0), None]), None);
    }

    #[test]
    fn a_pipe_has_no_positions() {
        let (from, _to) = io::pipe().expect("a pipe");
        let file = File::from(std::os::fd::OwnedFd::from(from));
        let reading = Reading { file, start: None };
        assert_eq!(reading.bytes_read(), None);
        reading.rewind().expect("there is nothing to do");
    }
}
