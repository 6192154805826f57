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
mod blocks;
mod files;
mod form;
mod json;
mod records;
mod split;
mod strings;
mod table;

use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use clap::Args;

pub use self::block::{Block, Itemless, Record, Start};
use self::block::{OnFault, Unit};
pub use self::blocks::Blocks;
use self::files::{Reading, stamps};
pub use self::files::{Stamp, bytes_of, failed};
use self::form::Opened;
pub use self::form::Packed;
use self::json::Field;
use self::split::{Sink, lines};
use self::table::Column;
use super::failure::{Failure, Result};

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
    /// What becomes of a line that is not JSON, or a record with another number of columns than the first.
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
        let keeping = Some(Keeping {
            missing: self.missing,
            bad: self.bad,
            stamps: stamps(&files)?,
        });
        Ok(Input {
            files,
            keeping,
            ..self.input.clone()
        })
    }

    /// Describes what determines the items, and the records without one, in a text that never changes.
    pub fn format(&self) -> String {
        let name = |then| match then {
            OnFault::Fail => "Fail",
            OnFault::Keep => "Keep",
            OnFault::Drop => "Drop",
        };
        let (missing, bad) = (name(self.missing), name(self.bad));
        format!("{} {missing} {bad}", self.input.format())
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

    /// Describes the format, which determines the items. The text is part of a receipt's name, so it never changes: another
    /// version of the program has to find the receipt.
    fn format(&self) -> String {
        let column = self.column.as_ref().map(|column| match column {
            Column::Name(name) => format!("Name({})", quoted(name)),
            Column::Number(number) => format!("Number({number})"),
        });
        let delimiter = self.delimiter.map(|byte| byte.to_string());
        let field = self.field.as_ref();
        let field = field.map(|field| {
            let names: Vec<_> = field.names().iter().map(|name| quoted(name)).collect();
            format!("Field([{}])", names.join(", "))
        });
        let [column, delimiter, field] = [column, delimiter, field]
            .map(|part| part.map_or("None".to_owned(), |part| format!("Some({part})")));
        format!("{} {column} {delimiter} {field}", self.zero)
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

    /// Returns the number of bytes to read, compressed or not; `None` if a file is not a regular one, and so can be read only
    /// once.
    ///
    /// # Errors
    /// A file does not exist, or is a folder, or a pipe has two names.
    pub fn bytes(&self) -> Result<Option<u64>> {
        Ok(bytes_of(&stamps(&self.files)?))
    }

    /// Returns bytes that distinguish this input from others: its format, and the name, size, start and time of modification of
    /// each file. `None` if it can be read only once.
    ///
    /// Programs may set that time, and then another content looks like the same file. The time of change, which they can't set,
    /// is left out: a file that was moved or copied back before the second run would be another one.
    ///
    /// # Errors
    /// A file does not exist, or is a folder, or a pipe has two names.
    pub fn identity(&self) -> Result<Option<Vec<u8>>> {
        let mut identity = self.format().into_bytes();
        for (file, stamp) in self.files.iter().zip(stamps(&self.files)?) {
            let Some(stamp) = stamp else {
                return Ok(None);
            };
            let numbers = [stamp.bytes, stamp.start].map(u64::to_le_bytes);
            let times = <[i64; 2]>::from(stamp.modified).map(i64::to_le_bytes);
            identity.extend_from_slice(file.as_os_str().as_bytes());
            identity.push(0);
            identity.extend(numbers.into_iter().chain(times).flatten());
        }
        Ok(Some(identity))
    }

    /// Passes each block to `take`. Calls `meanwhile` before and while it waits for a block.
    ///
    /// # Errors
    /// A file could not be read, named with the line; or the error of `meanwhile` or `take`.
    pub fn each(
        &self,
        meanwhile: impl FnMut() -> Result<()>,
        take: impl FnMut(&Block) -> Result<()>,
    ) -> Result<()> {
        self.blocks().each(meanwhile, take)
    }

    /// Starts to read, and returns the blocks.
    pub fn blocks(&self) -> Blocks {
        let input = self.clone();
        Blocks::new(move |send| {
            let mut files = input.files.iter().enumerate();
            let read = files.try_fold(0, |read, (index, file)| {
                input.read_file(index, file, read, send)
            });
            read.map(drop)
        })
    }

    /// Sends the blocks of a file. `before` is the number of bytes of the files before it. Returns it with those of this one.
    ///
    /// # Errors
    /// The file could not be read, or the receiver is gone.
    fn read_file(
        &self,
        index: usize,
        file: &Path,
        before: u64,
        send: &SyncSender<Block>,
    ) -> Result<u64> {
        let fault = |error| failed(file, error);
        let from = Reading::begin(file).map_err(fault)?;
        let opened = Opened::new(&from.file, !self.zero).map_err(fault)?;
        let first = self.first_block(index, file, opened.packed);
        let read = Cell::new(before);
        let send = |mut block: Block| {
            read.set(match from.bytes_read() {
                Some(bytes) => before + bytes,
                None => read.get() + block.size() as u64,
            });
            block.read = read.get();
            self.send_block(block, send)
        };
        self.send_blocks(first, opened, &send)?;
        if let Some(Some(stamp)) = self.kept_stamps().get(index)
            && *stamp != from.stamp().map_err(fault)?
        {
            return Err(failed(file, "it changed while it was read"));
        }
        from.rewind().map_err(fault)?;
        Ok(read.get())
    }

    /// Sends a block if it has content: the fields of JSON lines in their place, unless [`fields_of`](Self::fields_of) does that.
    fn send_block(&self, mut block: Block, send: &SyncSender<Block>) -> Result<()> {
        if let (Some(field), None) = (&self.field, &self.keeping) {
            block = field.of_lines(block, OnFault::Fail, OnFault::Fail)?;
        }
        if !block.has_content() {
            return Ok(());
        }
        let gone = |_| Failure::new("the receiver is gone");
        send.send(block).map_err(gone)
    }

    /// Sends the blocks of an opened file, which begin with this one.
    fn send_blocks(&self, first: Block, opened: Opened<'_>, send: Sink<'_>) -> Result<()> {
        if let Some(column) = &self.column {
            let keeping = self.keeping.as_ref();
            let bad = keeping.map_or(OnFault::Fail, |keeping| keeping.bad);
            return table::send_column(first, opened, column, self.delimiter, bad, send);
        }
        if !self.zero {
            let required = form::require_line_feeds(&opened.head);
            required.map_err(|error| failed(first.file(), error))?;
        }
        lines(first, opened, self.end(), send)
    }

    /// Returns the first block of a file.
    fn first_block(&self, index: usize, file: &Path, packed: Packed) -> Block {
        let unit = match &self.column {
            Some(_) => Unit::Records,
            None if self.zero => Unit::Zeros,
            None => Unit::Lines,
        };
        let start = self.keeping.as_ref().map(|_| Start {
            packed,
            header: Vec::new(),
        });
        Block::first_of(index, file, unit, start)
    }
}

/// Returns a name in quotes, by rules that never change. Rust's own escapes depend on the version of Unicode.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', r"\\").replace('"', r#"\""#))
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
            // Whether characters are printable depends on the version of Unicode, and so do Rust's escapes.
            (
                "f --column \u{378}\t\u{301}\"\\",
                "false Some(Name(\"\u{378}\t\u{301}\\\"\\\\\")) None None Fail Fail",
            ),
            (
                "f --field \u{378}\".id",
                "false None None Some(Field([\"\u{378}\\\"\", \"id\"])) Fail Fail",
            ),
        ] {
            let words = ["test"].into_iter().chain(words.split(' '));
            assert_eq!(Words::parse_from(words).records.format(), expected);
        }
    }
}
