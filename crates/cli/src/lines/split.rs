//! Splits a file into blocks of whole items: lines, or the fields of a column of CSV.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::rc::Rc;
use std::str::FromStr;

use csv::{ByteRecord, Position, ReaderBuilder};

use super::block::{Block, OnFault, ended};
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

/// Sends the items that end with a byte. The block is the first of the file.
pub fn lines(mut block: Block, mut opened: Opened<'_>, end: u8, send: Send<'_>) -> Result<()> {
    loop {
        match block.fill(&mut opened.from, BLOCK_BYTES, end) {
            Ok(0) => {
                block.end_last(end);
                return send(block);
            }
            // An item that is longer than a block stays where it is.
            Ok(_) if block.len() == 0 => {}
            Ok(_) => send(block.take())?,
            Err(error) => return Err(block.broken(error)),
        }
    }
}

/// Sends the fields of a column. The block is the first of the file; if it has a start, the records are kept, and those that
/// lack the column may be.
pub fn fields(
    block: Block,
    opened: Opened<'_>,
    (column, delimiter): (&Column, Option<u8>),
    bad: OnFault,
    send: Send<'_>,
) -> Result<()> {
    let mut table = table(block, opened, delimiter)?;
    let mut width = None;
    let index = match column {
        Column::Number(number) => number - 1,
        Column::Name(name) if table.next()? => {
            width = Some(table.record.len());
            table.before = Before::Header;
            index_of(name, &table.record).map_err(|text| failed(table.block.file(), text))?
        }
        Column::Name(_) => return send(table.block),
    };
    while table.next()? {
        if table.block.size() >= BLOCK_BYTES {
            send(table.block.take())?;
        }
        let columns = table.record.len();
        let width = *width.get_or_insert(columns);
        let counted = || counted(columns as u64, "column");
        table.before = Before::Item;
        match table.record.get(index) {
            Some(field) if columns == width => table.block.push(field),
            None if columns == width && bad == OnFault::Fail => {
                let text = format!("it has {}, not {}", counted(), index + 1);
                return Err(failed(table.block.file(), text));
            }
            _ => {
                let text = format!("it has {}, and those before it {width}", counted());
                table.block.push_itemless(bad, text)?;
            }
        }
    }
    send(table.block)
}

/// Begins to read a table. Without a delimiter it is a tab if the first line has one, and else a comma.
fn table(block: Block, opened: Opened<'_>, delimiter: Option<u8>) -> Result<Table<impl Read>> {
    let is_in_first_line = |byte: &u8| *byte != b'\n';
    let mut first_line = opened.head.iter().copied().take_while(is_in_first_line);
    let has_tab = first_line.any(|byte| byte == b'\t');
    let delimiter = delimiter.unwrap_or(if has_tab { b'\t' } else { b',' });
    // A last record that no file has, of one field: a quote that is not closed takes it in.
    let last = getrandom::u64().map_err(|error| Failure::new(error.to_string()))?;
    let last = format!("{last:016x}").replace(char::from(delimiter), "g");
    let end = format!("\n{last}\n").into_bytes();
    let recent = block.start.is_some().then(<Rc<RefCell<Recent>>>::default);
    let from = Copying {
        from: opened.from,
        to: recent.clone(),
    };
    Ok(Table {
        reader: ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(BLOCK_BYTES)
            .from_reader(from.chain(Cursor::new(end))),
        record: ByteRecord::new(),
        last: vec![last].into(),
        before: Before::Nothing,
        recent,
        block,
    })
}

/// The bytes that were read last, while whole records are kept.
#[derive(Default)]
struct Recent {
    bytes: Vec<u8>,
    /// The position of the first one in the file.
    start: u64,
    /// The number of them that belong to records that were kept. They are removed when more are read: once for many records.
    kept: usize,
}

/// A reader that keeps what it reads, if there is a place for it.
struct Copying<R> {
    from: R,
    to: Option<Rc<RefCell<Recent>>>,
}

impl<R: Read> Read for Copying<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        if let Some(to) = &self.to {
            let mut to = to.borrow_mut();
            let kept = std::mem::take(&mut to.kept);
            to.bytes.drain(..kept);
            to.start += kept as u64;
            to.bytes.extend_from_slice(&into[..count]);
        }
        Ok(count)
    }
}

/// What the record before the present one is.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    Header,
    Item,
}

/// The records of a file.
struct Table<R> {
    reader: csv::Reader<R>,
    /// The present one.
    record: ByteRecord,
    /// The only field of the record that ends the file.
    last: ByteRecord,
    before: Before,
    /// The bytes from the record before the present one on, if records are kept.
    recent: Option<Rc<RefCell<Recent>>>,
    /// The fields that were read, for positions in messages.
    block: Block,
}

impl<R: Read> Table<R> {
    /// Reads the next record. Returns false at the end of the file.
    fn next(&mut self) -> Result<bool> {
        let text = match self.reader.read_byte_record(&mut self.record) {
            Ok(true) => {
                self.keep_before();
                return Ok(self.record != self.last);
            }
            Ok(false) => "an earlier quote is not closed".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(self.block.broken(text))
    }

    /// Keeps the record before the present one, with the empty lines after it.
    fn keep_before(&mut self) {
        let Some(recent) = &self.recent else {
            return;
        };
        let mut recent = recent.borrow_mut();
        let Recent { bytes, start, kept } = &mut *recent;
        let end = self.record.position().map_or(0, Position::byte) - *start;
        // The last record may begin after the line feed before it, which the file lacks.
        let end = usize::try_from(end).map_or(bytes.len(), |end| end.min(bytes.len()));
        let rest = bytes[end..].iter();
        let end = end + rest.take_while(|byte| b"\r\n".contains(byte)).count();
        let before = &bytes[*kept..end];
        match (self.before, &mut self.block.start) {
            (Before::Header, Some(start)) => start.header = ended(before).concat(),
            (Before::Item, _) => self.block.push_record(before),
            _ => {}
        }
        *kept = end;
    }
}

/// Returns the index of the column with this name.
fn index_of(name: &str, header: &ByteRecord) -> Result<usize, String> {
    let mut found = header.iter().enumerate();
    let mut next = || found.find(|(_, field)| *field == name.as_bytes());
    match (next(), next()) {
        (Some((index, _)), None) => Ok(index),
        (Some(_), Some(_)) => Err(format!("two columns are named {name}")),
        (None, _) => {
            let names = header.iter().map(shown).collect::<Vec<_>>().join(", ");
            Err(format!("it has no column {name}, but {names}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::{Start, Unit};
    use super::super::form::Packed;
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
        let block = Block::first_of(Path::new("f"), Unit::Records);
        let read = fields(block, opened, (&column, with), OnFault::Fail, &send);
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

    /// Returns the header, and the records with what each is about.
    fn read_whole(text: &str, column: &str, bad: OnFault) -> (String, Vec<(String, String)>) {
        let all = RefCell::new((String::new(), Vec::new()));
        let send = |block: Block| {
            let mut all = all.borrow_mut();
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            if let Some(start) = &block.start {
                all.0 = text(&start.header);
            }
            let records = block.records();
            all.1.extend(records.map(|record| {
                let item = record
                    .item
                    .map_or_else(|itemless| format!("{itemless:?}"), text);
                (item, text(&block.record_bytes()[record.place]))
            }));
            Ok(())
        };
        let mut block = Block::first_of(Path::new("f"), Unit::Records);
        block.start = Some(Start {
            packed: Packed::Plain,
            header: Vec::new(),
        });
        let opened = Opened::new(text.as_bytes(), true).expect("a list");
        let column = column.parse().expect("a column");
        fields(block, opened, (&column, None), bad, &send).expect("it is read");
        all.into_inner()
    }

    #[test]
    fn records_are_kept_as_they_are_written() {
        for (text, column, header, records) in [
            (
                "a,b\n1,x\n2,y\n",
                "b",
                "a,b\n",
                &[("x", "1,x\n"), ("y", "2,y\n")][..],
            ),
            ("a,b\r\n1,x\r\n", "b", "a,b\r\n", &[("x", "1,x\r\n")]),
            (
                "1,x\n\n\n\"2\n\",\"y\"\"\"",
                "2",
                "",
                &[("x", "1,x\n\n\n"), ("y\"", "\"2\n\",\"y\"\"\"\n")],
            ),
            (
                "1,x\n2\n,z\n",
                "2",
                "",
                &[("x", "1,x\n"), ("Keep", "2\n"), ("z", ",z\n")],
            ),
            ("a,b\n", "b", "a,b\n", &[]),
            ("", "b", "", &[]),
        ] {
            let records = records
                .iter()
                .map(|(item, record)| (item.to_string(), record.to_string()));
            let expected = (header.to_owned(), records.collect());
            assert_eq!(
                read_whole(text, column, OnFault::Keep),
                expected,
                "{text:?}"
            );
        }
        // Records over the ends of blocks and of what is read at once.
        let field = "x\n".repeat(300);
        let records: Vec<_> = (0..20_000)
            .map(|id| (id.to_string(), format!("{id},\"{field}\"\r\n")))
            .collect();
        let text: String = records.iter().map(|(_, record)| &record[..]).collect();
        assert!(read_whole(&text, "1", OnFault::Fail) == (String::new(), records));
    }
}
