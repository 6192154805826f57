//! A column of CSV: its fields as the items of blocks.

use std::num::NonZeroUsize;
use std::str::FromStr;

use csv::ByteRecord;

use super::block::{Block, OnFault, ended};
use super::files::failed;
use super::form::Opened;
use super::records::{CsvReader, CsvRecord, Keep};
use super::split::{BLOCK_BYTES, Sink};
use crate::failure::{Failure, Result, shown};
use crate::report::counted;

/// A column of CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The name in the first record, which is no item.
    Name(String),
    /// The number, from 1, in files whose first record is like the others.
    Number(NonZeroUsize),
}

impl FromStr for Column {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let Ok(number) = word.parse::<usize>() else {
            return Ok(Self::Name(word.to_owned()));
        };
        let number = NonZeroUsize::new(number).map(Self::Number);
        number.ok_or("columns are counted from 1")
    }
}

/// Reads the character between two fields.
pub fn delimiter(word: &str) -> Result<u8, &'static str> {
    match word.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err("not tab or one ASCII character, except a quote and line ends"),
    }
}

/// Sends the fields of a column. The block is the first of the file. If it has a start, it keeps whole records, and `bad` says
/// what becomes of those with another number of fields than the first.
pub fn send_column(
    mut block: Block,
    opened: Opened<'_>,
    column: &Column,
    delimiter: Option<u8>,
    bad: OnFault,
    send: Sink<'_>,
) -> Result<()> {
    let delimiter = delimiter.unwrap_or_else(|| delimiter_of(&opened.head));
    let keep = match block.start {
        Some(_) => Keep::FieldsAndBytes,
        None => Keep::Fields,
    };
    let reader = CsvReader::new(opened.from, delimiter, BLOCK_BYTES, keep);
    let mut reader = reader.map_err(Failure::new)?;
    let mut width = None;
    let index = match column {
        Column::Number(number) => number.get() - 1,
        Column::Name(name) => {
            let Some(header) = reader.next().map_err(|text| block.broken(text))? else {
                return send(block);
            };
            if let (Some(start), Some(bytes)) = (&mut block.start, header.bytes) {
                start.header = ended(bytes).concat();
            }
            width = Some(header.fields.len());
            index_of(name, header.fields).map_err(|text| failed(block.file(), text))?
        }
    };
    while let Some(record) = reader.next().map_err(|text| block.broken(text))? {
        if block.size() >= BLOCK_BYTES {
            send(block.take())?;
        }
        let width = *width.get_or_insert(record.fields.len());
        push(&mut block, &record, index, width, bad)?;
    }
    send(block)
}

/// Adds a record's field at `index` to a block, and the record's bytes if they are kept. `width` is the number of fields of the
/// first record.
fn push(
    block: &mut Block,
    record: &CsvRecord<'_>,
    index: usize,
    width: usize,
    bad: OnFault,
) -> Result<()> {
    let columns = record.fields.len();
    let columns_text = || counted(columns as u64, "column");
    if columns != width {
        let text = format_args!("it has {}, and those before it {width}", columns_text());
        block.push_itemless(bad, text)?;
    } else if let Some(field) = record.fields.get(index) {
        block.push(field);
    } else {
        let text = format!("it has {}, not {}", columns_text(), index + 1);
        return Err(failed(block.file(), text));
    }
    if let Some(bytes) = record.bytes {
        block.push_record(bytes);
    }
    Ok(())
}

/// Returns the delimiter of a file: a tab if the first line has one, and else a comma.
fn delimiter_of(head: &[u8]) -> u8 {
    let mut first_line = head.iter().take_while(|byte| **byte != b'\n');
    if first_line.any(|byte| *byte == b'\t') {
        b'\t'
    } else {
        b','
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
    use std::cell::RefCell;
    use std::path::Path;

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
        let block = Block::first_of(0, Path::new("f"), Unit::Records, None);
        let read = send_column(block, opened, &column, with, OnFault::Fail, &send);
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
        let open = ", record 2: a quote is not closed";
        for (text, column, why) in [
            ("a,b\n1,2\n", "c", ": it has no column c, but a, b"),
            ("a,a\n1,2\n", "a", ": two columns are named a"),
            ("a,b\n1,2\n", "3", ": it has 2 columns, not 3"),
            ("a,b\n1,2\n3\n", "a", short),
            ("a\n1\n\"2\n3\n", "a", open),
            ("a,b\n1,2\n\"3,4\n", "a", open),
            (
                "id,\"url\n1,2\n",
                "url",
                ", record 1: a quote is not closed",
            ),
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

    /// The first record lacks it, so it is probably the request that is wrong.
    #[test]
    fn a_column_that_no_record_has_is_refused_also_where_faults_are_not() {
        for bad in [OnFault::Keep, OnFault::Drop] {
            let opened = Opened::new(&b"a,b\n1,2\n"[..], true).expect("a list");
            let block = Block::first_of(0, Path::new("f"), Unit::Records, None);
            let column = "3".parse().expect("a column");
            let read = send_column(block, opened, &column, None, bad, &|_| Ok(()));
            let why = read.expect_err("there is no third column").to_string();
            assert_eq!(why, "could not read f: it has 2 columns, not 3");
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
        let start = Some(Start {
            packed: Packed::Plain,
            header: Vec::new(),
        });
        let block = Block::first_of(0, Path::new("f"), Unit::Records, start);
        let opened = Opened::new(text.as_bytes(), true).expect("a list");
        let column = column.parse().expect("a column");
        send_column(block, opened, &column, None, bad, &send).expect("it is read");
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
