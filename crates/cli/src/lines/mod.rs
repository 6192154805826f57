//! Reads items from files: one per line, each ended by a zero byte, a column of CSV, or a field of JSON lines.
//!
//! ```text
//!   files → form    decompressed, or refused
//!         → split   blocks of whole lines            ┐
//!         → table   the fields of a column           ┼→ block → the consumer
//!         → json    the fields of a block of lines   ┘
//! ```
//!
//! A thread reads the files and passes on the blocks. So the consumer has a processor for itself, and only a few blocks
//! are in memory.

mod block;
mod form;
mod json;
mod records;
mod split;
mod strings;
mod table;

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::Args;

pub use self::block::{Block, Itemless, Record, Start};
use self::block::{OnFault, Unit};
use self::form::Opened;
pub use self::form::Packed;
use self::json::Field;
pub use self::split::failed;
use self::split::lines;
use self::table::Column;
use super::failure::{Failure, Result};

/// The most blocks that wait for the consumer.
const BLOCKS: usize = 4;

/// How often a thread that waits for a block checks whether the blocks are stopped.
const STOP: Duration = Duration::from_millis(50);

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
    #[arg(long, value_name = "NAME|N", conflicts_with = "zero", group = "parsed")]
    column: Option<Column>,
    /// The character between two columns, or tab [default: tab if the first line has one, else a comma]
    #[arg(long, value_name = "C", value_parser = table::delimiter, requires = "column")]
    delimiter: Option<u8>,
    /// Items are a field of JSON lines, like text or user.id
    #[arg(long, value_name = "NAME", conflicts_with_all = ["zero", "column"], group = "parsed")]
    field: Option<Field>,
    /// How whole records are kept, if they are.
    #[arg(skip)]
    keeping: Option<Keeping>,
}

/// Files whose whole records are kept beside their items.
#[derive(Args)]
pub struct Records {
    #[command(flatten)]
    pub input: Input,
    /// Records without the field
    #[arg(long, value_name = "WHAT", default_value = "fail", requires = "field")]
    missing: OnFault,
    /// Records that are not JSON, or have another number of columns
    #[arg(long, value_name = "WHAT", default_value = "fail", requires = "parsed")]
    bad: OnFault,
}

/// How whole records are kept.
#[derive(Clone)]
struct Keeping {
    /// What becomes of a record without the field.
    missing: OnFault,
    /// What becomes of a record that is not JSON, or lacks the column.
    bad: OnFault,
    /// The state of each regular file, which must not change.
    stamps: Vec<Option<Stamp>>,
}

impl Records {
    /// Returns the input of these files and then its own, in its format. Regular files must not change from now on.
    ///
    /// # Errors
    /// A file does not exist, or is a folder, or a pipe has two names.
    pub fn after(&self, others: &[PathBuf]) -> Result<Input> {
        let files = [others, &self.input.files].concat();
        let &Self { missing, bad, .. } = self;
        let stamps = Input::stamps(&files)?;
        let keeping = Some(Keeping {
            missing,
            bad,
            stamps,
        });
        Ok(Input {
            files,
            keeping,
            ..self.input.clone()
        })
    }

    /// Describes what determines the items, and the records without one.
    pub fn format(&self) -> String {
        let Self {
            input,
            missing,
            bad,
        } = self;
        format!("{} {missing:?} {bad:?}", input.format())
    }
}

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

impl Input {
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the states of the files that whole records are kept of; `None` for one that can be read only once.
    pub fn kept_stamps(&self) -> &[Option<Stamp>] {
        self.keeping.as_ref().map_or(&[], |keeping| &keeping.stamps)
    }

    /// Returns the first file that whole records are kept of and that can be read only once.
    pub fn unrepeatable(&self) -> Option<&Path> {
        let mut files = self.files.iter().zip(self.kept_stamps());
        let (file, _) = files.find(|(_, stamp)| stamp.is_none())?;
        Some(file)
    }

    /// Describes the format, which determines the items. A receipt's name depends on the text, so that a run of another version
    /// of the program finds the receipt.
    fn format(&self) -> String {
        let Self {
            zero,
            column,
            delimiter,
            field,
            ..
        } = self;
        format!("{zero} {column:?} {delimiter:?} {field:?}")
    }

    /// Returns the byte that ends a record.
    pub fn end(&self) -> u8 {
        if self.zero { 0 } else { b'\n' }
    }

    /// Returns the block of the fields of a block of JSON lines whose records are kept, and any other block as it is.
    ///
    /// # Errors
    /// A line is not JSON, or lacks the field, and that is not permitted.
    pub fn fields_of(&self, block: Block) -> Result<Block> {
        match (&self.field, &self.keeping) {
            (Some(field), Some(keeping)) => field.of_lines(block, keeping.missing, keeping.bad),
            _ => Ok(block),
        }
    }

    /// Returns the sum of the files' sizes, compressed or not; `None` if one is not a regular file, and so can be read
    /// only once.
    ///
    /// # Errors
    /// A file does not exist, or is a folder.
    pub fn bytes(&self) -> Result<Option<u64>> {
        Ok(bytes_of(&Self::stamps(&self.files)?))
    }

    /// Returns the state of each file, but for those that can be read only once.
    ///
    /// # Errors
    /// A file does not exist, or is a folder, or a pipe has two names.
    fn stamps(files: &[PathBuf]) -> Result<Vec<Option<Stamp>>> {
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

    /// Returns what tells this input from others: its form, and the name, size and time of change of each file. `None` if it
    /// can be read only once.
    pub fn identity(&self) -> Result<Option<Vec<u8>>> {
        let mut identity = self.format().into_bytes();
        for (file, stamp) in self.files.iter().zip(Self::stamps(&self.files)?) {
            let Some(Stamp {
                bytes, modified, ..
            }) = stamp
            else {
                return Ok(None);
            };
            // The standard input may have been read in part.
            let start = if is_standard_input(file) {
                open(file).and_then(|mut file| file.stream_position())
            } else {
                Ok(0)
            };
            let start = start.map_err(|error| failed(file, error))?;
            let numbers = [bytes, start].map(u64::to_le_bytes);
            let times = <[i64; 2]>::from(modified).map(i64::to_le_bytes);
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
        self.blocks().each(take)
    }

    /// Starts to read, and returns the blocks.
    pub fn blocks(&self) -> Blocks {
        let input = self.clone();
        Blocks::new(move |bytes, send| {
            let mut files = input.files.iter().enumerate();
            files.try_for_each(|(index, file)| input.read_file(index, file, bytes, send))
        })
    }

    /// Sends the blocks of a file.
    ///
    /// # Errors
    /// The file could not be read, or the receiver is gone.
    fn read_file(
        &self,
        index: usize,
        file: &Path,
        bytes: &AtomicU64,
        send: &SyncSender<Block>,
    ) -> Result<()> {
        let fault = |error| failed(file, error);
        let mut from = open(file).map_err(fault)?;
        let start = from.stream_position();
        let counting = Counting { from: &from, bytes };
        let opened = Opened::new(counting, !self.zero).map_err(fault)?;
        let block = self.first_block(index, file, opened.packed);
        let send = |mut block: Block| {
            block.read = bytes.load(Relaxed);
            if let (Some(field), None) = (&self.field, &self.keeping) {
                block = field.of_lines(block, OnFault::Fail, OnFault::Fail)?;
            }
            if !block.has_content() {
                return Ok(());
            }
            let gone = |_| Failure::new("the receiver is gone");
            send.send(block).map_err(gone)
        };
        if let Some(column) = &self.column {
            let bad = self
                .keeping
                .as_ref()
                .map_or(OnFault::Fail, |keeping| keeping.bad);
            table::send_column(block, opened, column, self.delimiter, bad, &send)?;
        } else {
            if !self.zero {
                form::require_line_feeds(&opened.head).map_err(fault)?;
            }
            lines(block, opened, self.end(), &send)?;
        }
        if let Some(Some(stamp)) = self.kept_stamps().get(index)
            && *stamp != Stamp::of(&from.metadata().map_err(fault)?)
        {
            return Err(failed(file, "it changed while it was read"));
        }
        // The standard input is opened once, and may be read twice.
        if let Ok(start) = start {
            from.seek(SeekFrom::Start(start)).map_err(fault)?;
        }
        Ok(())
    }

    /// Returns the first block of a file.
    fn first_block(&self, index: usize, file: &Path, packed: Packed) -> Block {
        let unit = match &self.column {
            Some(_) => Unit::Records,
            None if self.zero => Unit::Zeros,
            None => Unit::Lines,
        };
        let mut block = Block::first_of(file, unit);
        block.index = index;
        block.start = self.keeping.as_ref().map(|_| Start {
            packed,
            header: Vec::new(),
        });
        block
    }
}

/// The blocks that a thread reads.
pub struct Blocks {
    receiver: Mutex<Receiver<Block>>,
    is_stopped: AtomicBool,
    bytes: Arc<AtomicU64>,
    reader: JoinHandle<Result<()>>,
}

impl Blocks {
    fn new(
        read: impl FnOnce(&AtomicU64, &SyncSender<Block>) -> Result<()> + Send + 'static,
    ) -> Self {
        let (send, receive) = sync_channel(BLOCKS);
        let bytes = Arc::new(AtomicU64::new(0));
        let reader = thread::spawn({
            let bytes = Arc::clone(&bytes);
            move || read(&bytes, &send)
        });
        Self {
            receiver: Mutex::new(receive),
            is_stopped: AtomicBool::new(false),
            bytes,
            reader,
        }
    }

    /// Returns the next block; `None` after the last, and once the blocks are stopped.
    pub fn next(&self) -> Option<Block> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match receiver.recv_timeout(STOP) {
                Ok(block) => return Some(block),
                Err(RecvTimeoutError::Timeout) if !self.is_stopped.load(Relaxed) => {}
                Err(_) => return None,
            }
        }
    }

    /// Ends a thread's wait for a block: the input may be a pipe in which nothing comes.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    /// Waits for the end of the thread that reads.
    ///
    /// # Errors
    /// That of the thread, which may have panicked.
    pub fn end(self) -> Result<()> {
        let panicked = |_| Err(Failure::new("the thread that reads the files panicked"));
        self.reader.join().unwrap_or_else(panicked)
    }

    /// Passes the blocks to `take`, until the thread that reads has ended well.
    ///
    /// # Errors
    /// That of the thread, or that of `take`.
    fn each(self, mut take: impl FnMut(&Block, u64) -> Result<()>) -> Result<()> {
        while let Some(block) = self.next() {
            // After an error the thread is not joined: it may wait for somebody who types.
            take(&block, self.bytes.load(Relaxed))?;
        }
        self.end()
    }
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

/// Returns the sum of the sizes of files with these states; `None` if one can be read only once.
pub fn bytes_of(stamps: &[Option<Stamp>]) -> Option<u64> {
    stamps.iter().map(|stamp| Some(stamp.as_ref()?.bytes)).sum()
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
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        records: Records,
    }

    #[test]
    fn the_text_of_a_format_stays() {
        for (words, expected) in [
            ("f", "false None None None Fail Fail"),
            ("f --zero", "true None None None Fail Fail"),
            (
                "f --column url --delimiter ; --bad keep",
                "false Some(Name(\"url\")) Some(59) None Fail Keep",
            ),
            ("f --column 2", "false Some(Number(2)) None None Fail Fail"),
            (
                "f --field user.id --missing drop",
                "false None None Some(Field([\"user\", \"id\"])) Drop Fail",
            ),
        ] {
            let words = ["test"].into_iter().chain(words.split(' '));
            assert_eq!(Words::parse_from(words).records.format(), expected);
        }
    }

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
                let block = Block::first_of(Path::new("f"), Unit::Lines);
                to.send(block).expect("it is awaited");
                end()
            };
            let mut count = 0;
            let ended = Blocks::new(read).each(|_, _| {
                count += 1;
                Ok(())
            });
            let ended = ended.map_err(|failure| failure.to_string());
            assert_eq!((count, ended), (1, expected));
        }
    }
}
