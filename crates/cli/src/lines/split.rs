//! Splits a file into blocks of whole items: lines, or the fields of a column of CSV.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use csv::{ByteRecord, ReaderBuilder};

use super::block::{Block, Parts};
use super::form::Opened;
use crate::failure::{Failure, Result, shown};
use crate::report::counted;

/// The approximate size of a block.
const BLOCK_BYTES: usize = 1 << 20;

/// Passes on a block.
pub type Send<'s> = &'s dyn Fn(Block) -> Result<()>;

/// A column of CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The name in the first record, which is no item.
    Name(String),
    /// The number, from 1, in files whose first record is like the others.
    Number(usize),
}

impl FromStr for Column {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word.parse() {
            Ok(0) => Err("columns are counted from 1"),
            Ok(number) => Ok(Self::Number(number)),
            Err(_) => Ok(Self::Name(word.to_owned())),
        }
    }
}

/// Reads the character between two fields.
pub fn delimiter(word: &str) -> Result<u8, &'static str> {
    match word.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err("not one character, or tab"),
    }
}

pub fn failed(file: &Path, error: impl fmt::Display) -> Failure {
    Failure::new(format!("could not read {}: {error}", file.display()))
}

/// Reports what is wrong with the item after those of a block.
fn broken(block: &Block, error: impl fmt::Display) -> Failure {
    Failure::new(format!("could not read {}: {error}", block.end()))
}

/// Sends the items that end with a byte.
pub fn lines(file: &Path, mut opened: Opened<'_>, parts: Parts, send: Send<'_>) -> Result<()> {
    let end = if parts == Parts::Zeros { 0 } else { b'\n' };
    let mut block = Block::first_of(file, parts);
    loop {
        // At least a block, and more for an item that is longer.
        let start = block.bytes.len();
        let from = opened.from.by_ref().take(BLOCK_BYTES.max(start) as u64);
        let read = { from }.read_to_end(&mut block.bytes);
        block.find_ends(start, end);
        match read {
            Ok(0) => return send(block),
            Ok(_) => send(block.take())?,
            Err(error) => return Err(broken(&block, error)),
        }
    }
}

/// Sends the fields of a column. Without a delimiter it is a tab if the first line has one, and else a comma.
pub fn fields(
    file: &Path,
    opened: Opened<'_>,
    column: &Column,
    delimiter: Option<u8>,
    send: Send<'_>,
) -> Result<()> {
    let is_in_first_line = |byte: &u8| *byte != b'\n';
    let mut first_line = opened.head.iter().copied().take_while(is_in_first_line);
    let has_tab = first_line.any(|byte| byte == b'\t');
    let delimiter = delimiter.unwrap_or(if has_tab { b'\t' } else { b',' });
    // A last record that no file has: a quote that is not closed takes it in.
    let last = getrandom::u64().map_err(|error| Failure::new(error.to_string()))?;
    let last = format!("{last:016x}");
    let end = format!("\n{last}\n").into_bytes();
    let mut table = Table {
        reader: ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(BLOCK_BYTES)
            .from_reader(opened.from.chain(&end[..])),
        record: ByteRecord::new(),
        last: vec![last].into(),
        width: None,
        block: Block::first_of(file, Parts::Records),
    };
    let index = match column {
        Column::Number(number) => number - 1,
        Column::Name(name) if table.next()? => index_of(name, &table.record, file)?,
        Column::Name(_) => return Ok(()),
    };
    while table.next()? {
        let Some(field) = table.record.get(index) else {
            let columns = counted(table.record.len() as u64, "column");
            let text = format!("it has {columns}, not {}", index + 1);
            return Err(failed(file, text));
        };
        table.block.push(field);
        if table.block.bytes.len() >= BLOCK_BYTES {
            send(table.block.take())?;
        }
    }
    send(table.block)
}

/// The records of a file.
struct Table<R> {
    reader: csv::Reader<R>,
    /// The present one.
    record: ByteRecord,
    /// The only field of the record that ends the file.
    last: ByteRecord,
    /// The number of columns.
    width: Option<usize>,
    /// The fields that were read, for positions in messages.
    block: Block,
}

impl<R: Read> Table<R> {
    /// Reads the next record. Returns false at the end of the file.
    fn next(&mut self) -> Result<bool> {
        let text = match self.reader.read_byte_record(&mut self.record) {
            Ok(true) if self.record == self.last => return Ok(false),
            Ok(true) => {
                let columns = self.record.len();
                let width = *self.width.get_or_insert(columns);
                if width == columns {
                    return Ok(true);
                }
                let columns = counted(columns as u64, "column");
                format!("it has {columns}, and those before it {width}")
            }
            Ok(false) => "an earlier quote is not closed".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(broken(&self.block, text))
    }
}

/// Returns the index of the column with this name.
fn index_of(name: &str, header: &ByteRecord, file: &Path) -> Result<usize> {
    let mut found = header.iter().enumerate();
    let mut next = || found.find(|(_, field)| *field == name.as_bytes());
    match (next(), next()) {
        (Some((index, _)), None) => Ok(index),
        (Some(_), Some(_)) => Err(failed(file, format_args!("two columns are named {name}"))),
        (None, _) => {
            let names = header.iter().map(shown).collect::<Vec<_>>().join(", ");
            let text = format!("it has no column {name}, but {names}");
            Err(failed(file, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn read(text: &str, column: &str, with: Option<u8>) -> Result<Vec<String>, String> {
        let all = RefCell::new(Vec::new());
        let send = |block: Block| {
            let items = block.items();
            let items = items.map(|item| String::from_utf8_lossy(item).into_owned());
            all.borrow_mut().extend(items);
            Ok(())
        };
        let opened = Opened::new(text.as_bytes(), true).expect("a list");
        let column = column.parse().expect("a column");
        let read = fields(Path::new("f"), opened, &column, with, &send);
        read.map_err(|failure| failure.to_string())?;
        Ok(all.into_inner())
    }

    #[test]
    fn a_column_is_read_by_its_name_or_number() {
        let csv = "id,url,note\r\n1,a,x\r\n2,\"b,\"\"c\"\"\",\"two\nlines\"\r\n3,,z\r\n";
        let tsv = "id\turl\n1\ta, b\n2\t\"c\td\"";
        for (text, column, with, items) in [
            (csv, "url", None, &["a", "b,\"c\""][..]),
            (csv, "2", None, &["url", "a", "b,\"c\""]),
            (csv, "note", None, &["x", "two\nlines", "z"]),
            (tsv, "url", None, &["a, b", "c\td"]),
            (tsv, "1", None, &["id", "1", "2"]),
            ("a;b\n1;2,3\n", "b", Some(b';'), &["2,3"]),
            ("a b", "1", None, &["a b"]),
            ("url\n", "url", None, &[]),
            ("", "url", None, &[]),
            ("\u{feff}url,b\nx,y\n\n", "url", None, &["x"]),
        ] {
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            assert_eq!(read(text, column, with), Ok(items), "{text:?} {column}");
        }
        let item = "x".repeat(2 * BLOCK_BYTES);
        let text = format!("{item},1\n{item},2\n");
        assert_eq!(read(&text, "2", None).unwrap(), ["1", "2"]);
        assert_eq!(read(&text, "1", None).unwrap(), [&item[..]; 2]);
    }

    #[test]
    fn what_is_not_a_table_is_refused_where_it_breaks() {
        let short = ", record 2: it has 1 column, and those before it 2";
        let open = ", record 3: an earlier quote is not closed";
        for (text, column, why) in [
            ("a,b\n1,2\n", "c", ": it has no column c, but a, b"),
            ("a,a\n1,2\n", "a", ": two columns are named a"),
            ("a,b\n1,2\n", "3", ": it has 2 columns, not 3"),
            ("a,b\n1,2\n3\n", "a", short),
            ("a\n1\n\"2\n3\n", "a", open),
        ] {
            let why = format!("could not read f{why}");
            assert_eq!(read(text, column, None), Err(why), "{text:?}");
        }
        assert_eq!("0".parse::<Column>(), Err("columns are counted from 1"));
        assert_eq!(delimiter("tab"), Ok(b'\t'));
        for word in ["", ",,", "\"", "é"] {
            delimiter(word).expect_err(word);
        }
    }
}
