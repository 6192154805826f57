//! Items from files: one a line, or each ended by a zero byte; packed files are unpacked.
//!
//! Files are read in a thread of their own, which hands on blocks of whole items. Whoever fills a filter has a
//! processor to itself, and what is in memory is some blocks.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use flate2::bufread::MultiGzDecoder;

use super::failure::{Failure, Result};

/// About as much as a block holds.
const BLOCK_BYTES: usize = 1 << 20;
/// How many blocks may wait.
const BLOCKS: usize = 4;

/// Where items come from, and what is between them.
#[derive(Clone)]
pub struct Input {
    /// `-` is the standard input.
    pub files: Vec<PathBuf>,
    /// Whether a zero byte ends an item, not the end of its line.
    pub zero: bool,
}

/// Some whole items of a file.
pub struct Block {
    file: PathBuf,
    /// The number of its first item, from 1.
    first: u64,
    bytes: Vec<u8>,
    zero: bool,
}

impl Block {
    /// The items. Empty ones are none.
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

    /// Where one of [`items`](Self::items) is, in words.
    pub fn place(&self, item: &[u8]) -> String {
        let offset = item.as_ptr().addr() - self.bytes.as_ptr().addr();
        let before = memchr::memchr_iter(self.end(), &self.bytes[..offset]).count() as u64;
        place(&self.file, self.zero, self.first + before)
    }

    const fn end(&self) -> u8 {
        if self.zero { 0 } else { b'\n' }
    }
}

fn place(file: &Path, zero: bool, number: u64) -> String {
    let unit = if zero { "item" } else { "line" };
    format!("{}, {unit} {number}", file.display())
}

impl Input {
    /// Whether it can be read only once.
    pub fn is_once(&self) -> bool {
        self.files.iter().any(|file| file == Path::new("-"))
    }

    /// Sum of the files' sizes as they are, packed or not; `None` if one is no plain file.
    ///
    /// # Errors
    /// A file that is not there.
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

    /// Passes each block to `take`, and how many bytes of the files have been read by then.
    ///
    /// # Errors
    /// That of a file, which is named with the line that could not be read; or that of `take`.
    pub fn each(&self, mut take: impl FnMut(&Block, u64) -> Result<()>) -> Result<()> {
        let (send, receive) = sync_channel(BLOCKS);
        let read = Arc::new(AtomicU64::new(0));
        // Nobody waits for its end: it may be waiting for somebody who types.
        thread::spawn({
            let (input, read) = (self.clone(), Arc::clone(&read));
            move || {
                for file in &input.files {
                    // An error is one that was sent, or means that nobody receives any more.
                    if read_file(file, input.zero, &read, &send).is_err() {
                        break;
                    }
                }
            }
        });
        for block in receive {
            take(&block?, read.load(Relaxed))?;
        }
        Ok(())
    }
}

/// Counts what is read of a file.
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

/// Sends the blocks of a file, or the error that ends it; an error is that, or that nobody receives.
fn read_file(
    file: &Path,
    zero: bool,
    read: &AtomicU64,
    send: &SyncSender<Result<Block>>,
) -> Result<(), ()> {
    let give_up = |failure| {
        let _ = send.send(Err(failure));
    };
    let mut from = open(file, read).map_err(|error| give_up(failed(file, &error)))?;
    let mut block = Block {
        file: file.to_owned(),
        first: 1,
        bytes: Vec::new(),
        zero,
    };
    loop {
        // Never less than a block, however long an item has become.
        let more = BLOCK_BYTES.max(block.bytes.len()) as u64;
        let count = from.by_ref().take(more).read_to_end(&mut block.bytes);
        let end = memchr::memrchr(block.end(), &block.bytes);
        let count = count.map_err(|error| {
            let ends = memchr::memchr_iter(block.end(), &block.bytes).count() as u64;
            let place = place(file, zero, block.first + ends);
            give_up(Failure::new(format!("could not read {place}: {error}")));
        })?;
        let rest = match end {
            _ if count == 0 => Vec::new(),
            Some(end) => block.bytes.split_off(end + 1),
            None => continue,
        };
        let ends = memchr::memchr_iter(block.end(), &block.bytes).count() as u64;
        let next = Block {
            file: file.to_owned(),
            first: block.first + ends,
            bytes: rest,
            zero,
        };
        let whole = std::mem::replace(&mut block, next);
        if !whole.bytes.is_empty() {
            send.send(Ok(whole)).map_err(drop)?;
        }
        if count == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: &[u8], zero: bool) -> Block {
        Block {
            file: PathBuf::from("list"),
            first: 8,
            bytes: bytes.to_vec(),
            zero,
        }
    }

    #[test]
    fn items_and_where_they_are() {
        let lines = block(b"a\n\nb c\r\n\r\n\rd", false);
        let items: Vec<&[u8]> = lines.items().collect();
        assert_eq!(items, [&b"a"[..], b"b c", b"\rd"]);
        let places: Vec<String> = items.iter().map(|item| lines.place(item)).collect();
        assert_eq!(places, ["list, line 8", "list, line 10", "list, line 12"]);

        let zeros = block(b"a\r\n\0\0b\0", true);
        let items: Vec<&[u8]> = zeros.items().collect();
        assert_eq!(items, [&b"a\r\n"[..], b"b"]);
        assert_eq!(zeros.place(items[1]), "list, item 10");
        assert_eq!(block(b"", false).items().count(), 0);
    }
}
