//! Reads items from files: one per line, or each ended by a zero byte. Compressed files are decompressed.
//!
//! A thread reads the files and passes on blocks of whole items. So the consumer has a processor for itself, and only a
//! few blocks are in memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use clap::Args;
use flate2::bufread::MultiGzDecoder;

use super::failure::{Failure, Result};

/// The approximate size of a block.
const BLOCK_BYTES: usize = 1 << 20;
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
}

/// Whole items of a file.
pub struct Block {
    file: PathBuf,
    /// The number of the first item in the file, from 1.
    first: u64,
    bytes: Vec<u8>,
    zero: bool,
}

impl Block {
    /// Returns the items that are not empty.
    pub fn items(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let zero = self.zero;
        let ends = memchr::memchr_iter(self.end(), &self.bytes);
        let mut start = 0;
        let items = ends.chain([self.bytes.len()]).map(move |end| {
            let item = self.bytes.get(start..end).unwrap_or_default();
            start = end + 1;
            match item.strip_suffix(b"\r") {
                Some(line) if !zero => line,
                _ => item,
            }
        });
        items.filter(|item| !item.is_empty())
    }

    /// Describes the position of one of [`items`](Self::items).
    pub fn position(&self, item: &[u8]) -> String {
        self.position_at(item.as_ptr().addr() - self.bytes.as_ptr().addr())
    }

    fn position_at(&self, offset: usize) -> String {
        let unit = if self.zero { "item" } else { "line" };
        let number = self.first + self.ends(offset);
        format!("{}, {unit} {number}", self.file.display())
    }

    /// Returns the number of items that end before an offset.
    fn ends(&self, offset: usize) -> u64 {
        memchr::memchr_iter(self.end(), &self.bytes[..offset]).count() as u64
    }

    const fn end(&self) -> u8 {
        if self.zero { 0 } else { b'\n' }
    }
}

impl Input {
    /// Returns whether the input can be read only once.
    pub fn is_once(&self) -> bool {
        self.files.iter().any(|file| file == Path::new("-"))
    }

    /// Returns the sum of the files' sizes, compressed or not; `None` if one is not a regular file.
    ///
    /// # Errors
    /// A file does not exist, or is a folder.
    pub fn bytes(&self) -> Result<Option<u64>> {
        if self.is_once() {
            return Ok(None);
        }
        let mut sum = Some(0);
        for file in &self.files {
            let about = file.metadata().map_err(|error| failed(file, &error))?;
            if about.is_dir() {
                return Err(failed(file, &io::ErrorKind::IsADirectory.into()));
            }
            sum = sum.filter(|_| about.is_file()).map(|sum| sum + about.len());
        }
        Ok(sum)
    }

    /// Passes each block to `take`, with the number of bytes of the files that were read so far.
    ///
    /// # Errors
    /// A file could not be read, named with the line; or the error of `take`.
    pub fn each(&self, mut take: impl FnMut(&Block, u64) -> Result<()>) -> Result<()> {
        let (send, receive) = sync_channel(BLOCKS);
        let read = Arc::new(AtomicU64::new(0));
        // The thread is not joined: it may wait for somebody who types.
        thread::spawn({
            let (input, read) = (self.clone(), Arc::clone(&read));
            move || {
                let mut files = input.files.iter();
                let done = files.try_for_each(|file| read_file(file, input.zero, &read, &send));
                if let Err(failure) = done {
                    let _ = send.send(Err(failure));
                }
            }
        });
        for block in receive {
            take(&block?, read.load(Relaxed))?;
        }
        Ok(())
    }
}

/// A reader that counts the bytes of a file.
struct Counting<'c, R> {
    from: R,
    bytes: &'c AtomicU64,
}

impl<R: Read> Read for Counting<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        self.bytes.fetch_add(count as u64, Relaxed);
        Ok(count)
    }
}

fn open<'c>(file: &Path, bytes: &'c AtomicU64) -> io::Result<Box<dyn Read + 'c>> {
    let from: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file)?)
    };
    let mut from = BufReader::with_capacity(BLOCK_BYTES, Counting { from, bytes });
    Ok(match from.fill_buf()? {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(from)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::with_buffer(from)?),
        _ => Box::new(from),
    })
}

fn failed(file: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("could not read {}: {error}", file.display()))
}

/// Sends the blocks of a file.
///
/// # Errors
/// The file could not be read, or the receiver is gone.
fn read_file(
    file: &Path,
    zero: bool,
    read: &AtomicU64,
    send: &SyncSender<Result<Block>>,
) -> Result<()> {
    let mut from = open(file, read).map_err(|error| failed(file, &error))?;
    let mut block = Block {
        file: file.to_owned(),
        first: 1,
        bytes: Vec::new(),
        zero,
    };
    loop {
        // At least a block, and more for an item that is longer.
        let more = BLOCK_BYTES.max(block.bytes.len()) as u64;
        let count = from.by_ref().take(more).read_to_end(&mut block.bytes);
        let count = count.map_err(|error| {
            let position = block.position_at(block.bytes.len());
            Failure::new(format!("could not read {position}: {error}"))
        })?;
        let end = memchr::memrchr(block.end(), &block.bytes);
        let rest = match end {
            _ if count == 0 => Vec::new(),
            Some(end) => block.bytes.split_off(end + 1),
            None => continue,
        };
        let next = Block {
            file: file.to_owned(),
            first: block.first + block.ends(block.bytes.len()),
            bytes: rest,
            zero,
        };
        let whole = std::mem::replace(&mut block, next);
        if !whole.bytes.is_empty() {
            let gone = |_| Failure::new("the receiver is gone");
            send.send(Ok(whole)).map_err(gone)?;
        }
        if count == 0 {
            return Ok(());
        }
    }
}
