//! Reads items from files: one per line, each ended by a zero byte, or a column of CSV.
//!
//! ```text
//!   files → form   decompressed, or refused
//!         → split  blocks of whole items → block → the consumer
//! ```
//!
//! A thread reads the files and passes on the blocks. So the consumer has a processor for itself, and only a few blocks
//! are in memory.

mod block;
mod form;
mod split;

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use clap::Args;

pub use self::block::Block;
use self::block::Parts;
use self::form::Opened;
use self::split::{Column, failed};
use super::failure::{Failure, Result};

/// The most blocks that wait for the consumer.
const BLOCKS: usize = 4;

/// The files with items, and their format.
#[derive(Args, Clone)]
pub struct Input {
    /// Files with one item per line, plain or compressed by gzip or zstd; - is the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Items end with a zero byte, not with their line
    #[arg(long, short = '0')]
    zero: bool,
    /// Items are a column of CSV or TSV: its name in the first line, or its number in files without such a line
    #[arg(long, value_name = "NAME|N", conflicts_with = "zero")]
    column: Option<Column>,
    /// The character between two columns, or tab [default: tab if the first line has one, else a comma]
    #[arg(long, value_name = "C", value_parser = split::delimiter, requires = "column")]
    delimiter: Option<u8>,
}

impl Input {
    /// Returns the sum of the files' sizes, compressed or not; `None` if one is not a regular file, and so can be read
    /// only once.
    ///
    /// # Errors
    /// A file does not exist, or is a folder.
    pub fn bytes(&self) -> Result<Option<u64>> {
        let mut sum = Some(0);
        for file in &self.files {
            let about = metadata(file).map_err(|error| failed(file, error))?;
            if about.is_dir() {
                return Err(failed(file, io::Error::from(io::ErrorKind::IsADirectory)));
            }
            sum = sum.filter(|_| about.is_file()).map(|sum| sum + about.len());
        }
        Ok(sum)
    }

    /// Returns what tells this input from others: its form, and the name, size and time of change of each file. `None` if it
    /// can be read only once.
    pub fn identity(&self) -> Result<Option<Vec<u8>>> {
        let Self {
            files,
            zero,
            column,
            delimiter,
        } = self;
        let mut identity = format!("{zero} {column:?} {delimiter:?}").into_bytes();
        for file in files {
            let about = metadata(file).map_err(|error| failed(file, error))?;
            if !about.is_file() {
                return Ok(None);
            }
            // The standard input may have been read in part.
            let start = if is_standard_input(file) {
                open(file).and_then(|mut file| file.stream_position())
            } else {
                Ok(0)
            };
            let start = start.map_err(|error| failed(file, error))?;
            let numbers = [about.len(), start].map(u64::to_le_bytes);
            let times = [about.mtime(), about.mtime_nsec()].map(i64::to_le_bytes);
            identity.extend_from_slice(file.as_os_str().as_bytes());
            identity.push(0);
            identity.extend(numbers.into_iter().chain(times).flatten());
        }
        Ok(Some(identity))
    }

    /// Passes each block to `take`, with the number of bytes of the files that were read so far.
    ///
    /// # Errors
    /// A file could not be read, named with the line; or the error of `take`.
    pub fn each(&self, take: impl FnMut(&Block, u64) -> Result<()>) -> Result<()> {
        let input = self.clone();
        let read = move |bytes: &AtomicU64, send: &SyncSender<Block>| {
            let mut files = input.files.iter();
            files.try_for_each(|file| input.read_file(file, bytes, send))
        };
        each_of(read, take)
    }

    /// Sends the blocks of a file.
    ///
    /// # Errors
    /// The file could not be read, or the receiver is gone.
    fn read_file(&self, file: &Path, bytes: &AtomicU64, send: &SyncSender<Block>) -> Result<()> {
        let send = |block: Block| {
            if block.bytes.is_empty() {
                return Ok(());
            }
            let gone = |_| Failure::new("the receiver is gone");
            send.send(block).map_err(gone)
        };
        let fault = |error| failed(file, error);
        let mut from = open(file).map_err(fault)?;
        let start = from.stream_position();
        let counting = Counting { from: &from, bytes };
        let opened = Opened::new(counting, !self.zero).map_err(fault)?;
        let parts = if self.zero {
            Parts::Zeros
        } else {
            Parts::Lines
        };
        if let Some(column) = &self.column {
            split::fields(file, opened, column, self.delimiter, &send)?;
        } else {
            if parts == Parts::Lines {
                form::require_line_feeds(&opened.head).map_err(fault)?;
            }
            split::lines(file, opened, parts, &send)?;
        }
        // The standard input is opened once, and may be read twice.
        if let Ok(start) = start {
            from.seek(SeekFrom::Start(start)).map_err(fault)?;
        }
        Ok(())
    }
}

/// Passes what a thread sends to `take`, until the thread has ended well.
///
/// # Errors
/// That of the thread, which may have panicked, or that of `take`.
fn each_of(
    read: impl FnOnce(&AtomicU64, &SyncSender<Block>) -> Result<()> + Send + 'static,
    mut take: impl FnMut(&Block, u64) -> Result<()>,
) -> Result<()> {
    let (send, receive) = sync_channel(BLOCKS);
    let bytes = Arc::new(AtomicU64::new(0));
    let reader = thread::spawn({
        let bytes = Arc::clone(&bytes);
        move || read(&bytes, &send)
    });
    for block in receive {
        // After an error the thread is not joined: it may wait for somebody who types.
        take(&block, bytes.load(Relaxed))?;
    }
    let panicked = |_| Err(Failure::new("the thread that reads the files panicked"));
    reader.join().unwrap_or_else(panicked)
}

/// A reader that counts the bytes of a file.
struct Counting<'c> {
    from: &'c File,
    bytes: &'c AtomicU64,
}

impl Read for Counting<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        self.bytes.fetch_add(count as u64, Relaxed);
        Ok(count)
    }
}

fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}

fn open(file: &Path) -> io::Result<File> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_has_ended_only_if_its_reader_says_so() {
        type End = fn() -> Result<()>;
        let panicked = "the thread that reads the files panicked";
        let ends: [(End, _); 3] = [
            (|| Ok(()), Ok(())),
            (|| Err(Failure::new("no more")), Err("no more".to_owned())),
            (|| panic!("a fault of the reader"), Err(panicked.to_owned())),
        ];
        for (end, expected) in ends {
            let read = move |_: &AtomicU64, to: &SyncSender<Block>| {
                let block = Block::first_of(Path::new("f"), Parts::Lines);
                to.send(block).expect("it is awaited");
                end()
            };
            let mut count = 0;
            let ended = each_of(read, |_, _| {
                count += 1;
                Ok(())
            });
            let ended = ended.map_err(|failure| failure.to_string());
            assert_eq!((count, ended), (1, expected));
        }
    }
}
