//! Blocks of whole records, and their items.
//!
//! A thread fills a block with lines ([`Block::fill`]) or with the fields of records ([`Block::push`], and
//! [`Block::push_record`] if records are kept), and takes it out when it is large enough ([`Block::take`]). The consumer may
//! exchange its lines for fields of them ([`Block::with_fields`]), and reads the items or the records:
//!
//! | view | an empty item | a record without an item | for |
//! |---|---|---|---|
//! | [`items`](Block::items) | is left out | is left out | adding and removing |
//! | [`record_items`](Block::record_items) | is an item | is left out | looking up |
//! | [`records`](Block::records) | is an item | has its [`Itemless`] | printing |
//! | [`all_items`](Block::all_items) | is an item | is an empty item | this folder |

use std::fmt::Display;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::memchr_iter;

use super::form::Packed;
use super::strings::Strings;
use crate::failure::{Failure, Result};

/// Whole records of a file.
pub struct Block {
    file: PathBuf,
    /// The index of the file in the input.
    pub index: usize,
    unit: Unit,
    /// The number of the block's first item among those of the file, from 1.
    first: u64,
    /// The form of the file, in its first block if whole records are kept.
    pub start: Option<Start>,
    /// The number of bytes of the files that were read before the block was sent, or, from a pipe, of the blocks before.
    pub read: u64,
    /// The items, each before a byte that ends it.
    items: Strings,
    /// The indexes of the records without an item, ascending, and what becomes of them. Their items are empty.
    itemless: Vec<(usize, Itemless)>,
    records: Records,
}

/// What the items of a block are.
#[derive(Clone, Copy, PartialEq)]
pub enum Unit {
    Lines,
    /// Each ended by a zero byte.
    Zeros,
    /// Fields of records, which may hold any byte.
    Records,
    /// Fields of lines, which may hold any byte.
    Fields,
}

/// Where the records of a block are.
enum Records {
    /// They are the items. Fields whose records are not kept are like records of their own.
    Items,
    /// Beside the items, each with its line end.
    Beside(Strings),
}

/// The form of a file whose records are kept.
pub struct Start {
    pub packed: Packed,
    /// The record with the names of the columns.
    pub header: Vec<u8>,
}

/// What happens if a record has no item.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum OnFault {
    Fail,
    Keep,
    Drop,
}

/// What becomes of a record without an item, if the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Itemless {
    Keep,
    Drop,
}

/// A record of a block.
#[derive(Clone)]
pub struct Record<'b> {
    /// The item, or what becomes of a record without one.
    pub item: std::result::Result<&'b [u8], Itemless>,
    /// The place of the record and its end in [`Block::record_bytes`].
    pub place: Range<usize>,
}

impl Records {
    /// Returns a place without records, of the same kind.
    fn another(&self) -> Self {
        match self {
            Self::Items => Self::Items,
            Self::Beside(_) => Self::Beside(Strings::from_pool()),
        }
    }
}

impl Block {
    /// Creates an empty block, the first of a file. With a start, it keeps whole records.
    pub fn first_of(index: usize, file: &Path, unit: Unit, start: Option<Start>) -> Self {
        let records = if unit == Unit::Records && start.is_some() {
            Records::Beside(Strings::from_pool())
        } else {
            Records::Items
        };
        Self {
            file: file.to_owned(),
            index,
            unit,
            first: 1,
            start,
            read: 0,
            items: Strings::from_pool(),
            itemless: Vec::new(),
            records,
        }
    }

    /// Returns the path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the number of bytes of the items, or of the records, if those have more.
    pub fn size(&self) -> usize {
        self.items.bytes.len().max(self.record_bytes().len())
    }

    /// Reads at most `most` bytes of items that `end` ends. Returns the number of bytes read; those before an error stay.
    pub fn fill(&mut self, from: impl Read, most: usize, end: u8) -> io::Result<usize> {
        let Strings { bytes, ends } = &mut self.items;
        let start = bytes.len();
        bytes.reserve(most);
        let read = from.take(most as u64).read_to_end(bytes);
        ends.extend(memchr_iter(end, &bytes[start..]).map(|at| start + at + 1));
        read
    }

    /// Returns whether the block has anything for the consumer: items, or the start of a file.
    pub fn has_content(&self) -> bool {
        self.start.is_some() || self.len() > 0
    }

    /// Adds an item of a record.
    pub fn push(&mut self, field: &[u8]) {
        self.items.push([field, b"\n"]);
    }

    /// Adds a record that has no item because of a fault.
    ///
    /// # Errors
    /// The run fails then.
    pub fn push_itemless(&mut self, then: OnFault, fault: impl Display) -> Result<()> {
        let itemless = match then {
            OnFault::Fail => return Err(self.broken(fault)),
            OnFault::Keep => Itemless::Keep,
            OnFault::Drop => Itemless::Drop,
        };
        self.itemless.push((self.len(), itemless));
        self.push(b"");
        Ok(())
    }

    /// Adds the bytes of the record whose item was added last, if records are kept.
    pub fn push_record(&mut self, record: &[u8]) {
        if let Records::Beside(records) = &mut self.records {
            records.push(ended(record));
        }
    }

    /// Returns a block of fields of this block's lines, which become its records. `push` adds the item of a line.
    ///
    /// # Errors
    /// That of `push`.
    pub fn with_fields(
        mut self,
        mut push: impl FnMut(&mut Self, &[u8]) -> Result<()>,
    ) -> Result<Self> {
        let mut fields = Self {
            first: self.first,
            read: self.read,
            ..Self::first_of(self.index, &self.file, Unit::Fields, self.start.take())
        };
        self.all_items()
            .try_for_each(|line| push(&mut fields, line))?;
        assert_eq!(fields.len(), self.len(), "an item for each line");
        fields.records = Records::Beside(self.items);
        Ok(fields)
    }

    /// Takes the whole items out, and leaves a block with the bytes of the one that is not whole yet.
    pub fn take(&mut self) -> Self {
        let whole = self.whole_bytes();
        let mut next = Self {
            first: self.first + self.len() as u64,
            records: self.records.another(),
            ..Self::first_of(self.index, &self.file, self.unit, None)
        };
        let rest = &self.items.bytes[whole..];
        next.items.bytes.extend_from_slice(rest);
        self.items.bytes.truncate(whole);
        std::mem::replace(self, next)
    }

    /// Ends the last item, if it is not ended.
    pub fn end_last(&mut self, end: u8) {
        if self.items.bytes.len() > self.whole_bytes() {
            self.items.push([&[end], b""]);
        }
    }

    /// Returns the number of bytes of the whole items.
    fn whole_bytes(&self) -> usize {
        self.items.ends.last().copied().unwrap_or(0)
    }

    /// Returns the number of whole items.
    pub fn len(&self) -> usize {
        self.items.ends.len()
    }

    /// Returns the items that are not empty.
    pub fn items(&self) -> impl Iterator<Item = &[u8]> {
        self.all_items().filter(|item| !item.is_empty())
    }

    /// Returns the whole items. A line has no carriage return at its end.
    pub fn all_items(&self) -> impl Iterator<Item = &[u8]> {
        self.items.ranges().map(move |range| {
            let item = &self.items.bytes[range.start..range.end - 1];
            match item.strip_suffix(b"\r") {
                Some(line) if self.unit == Unit::Lines => line,
                _ => item,
            }
        })
    }

    /// Returns the bytes of the records, with their ends.
    pub fn record_bytes(&self) -> &[u8] {
        &self.record_strings().bytes
    }

    fn record_strings(&self) -> &Strings {
        match &self.records {
            Records::Items => &self.items,
            Records::Beside(records) => records,
        }
    }

    /// Returns the item of each whole record, or what becomes of a record without one.
    fn found_items(&self) -> impl Iterator<Item = std::result::Result<&[u8], Itemless>> {
        let mut itemless = &self.itemless[..];
        let items = self.all_items().enumerate();
        items.map(move |(index, item)| match itemless.split_first() {
            Some(((at, fate), rest)) if *at == index => {
                itemless = rest;
                Err(*fate)
            }
            _ => Ok(item),
        })
    }

    /// Returns the items of the whole records that have one.
    pub fn record_items(&self) -> impl Iterator<Item = &[u8]> {
        self.found_items().filter_map(Result::ok)
    }

    /// Returns the whole records.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let places = self.record_strings().ranges();
        let records = self.found_items().zip(places);
        records.map(|(item, place)| Record { item, place })
    }

    /// Describes the position of one of [`items`](Self::items), which its address identifies.
    ///
    /// # Panics
    /// The item is of another block.
    pub fn position(&self, item: &[u8]) -> String {
        let range = self.items.bytes.as_ptr_range();
        assert!(range.contains(&item.as_ptr()), "it is of another block");
        let offset = item.as_ptr().addr() - range.start.addr();
        self.position_after(self.items.ends.partition_point(|end| *end <= offset))
    }

    /// Reports what is wrong with the item after the whole ones.
    pub fn broken(&self, fault: impl Display) -> Failure {
        let position = self.position_after(self.len());
        Failure::new(format!("could not read {position}: {fault}"))
    }

    /// Describes the position of the item that follows a number of items of this block.
    fn position_after(&self, before: usize) -> String {
        let unit = match self.unit {
            Unit::Lines | Unit::Fields => "line",
            Unit::Zeros => "item",
            Unit::Records => "record",
        };
        let number = self.first + before as u64;
        format!("{}, {unit} {number}", self.file.display())
    }
}

/// Returns a record of CSV with a line end, which the last one of a file may lack.
pub fn ended(record: &[u8]) -> [&[u8]; 2] {
    let is_ended = matches!(record.last(), Some(b'\n' | b'\r'));
    [record, if is_ended { b"" } else { b"\n" }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_of(unit: Unit, text: &str) -> Block {
        let mut block = Block::first_of(0, Path::new("f"), unit, None);
        let end = if unit == Unit::Zeros { 0 } else { b'\n' };
        let read = block.fill(text.as_bytes(), text.len(), end);
        assert_eq!(read.expect("it is memory"), text.len());
        block
    }

    fn texts<'b>(items: impl Iterator<Item = &'b [u8]>) -> Vec<String> {
        let texts = items.map(|item| String::from_utf8_lossy(item).into_owned());
        texts.collect()
    }

    #[test]
    fn items_are_numbered_through_all_blocks() {
        let mut block = block_of(Unit::Lines, "");
        let mut found = Vec::new();
        for part in ["a\n\nb\nc", "d\ne", "f\n", "g"] {
            let read = block.fill(part.as_bytes(), part.len(), b'\n');
            assert_eq!(read.expect("it is memory"), part.len());
            let whole = block.take();
            let items = whole.items();
            found.extend(items.map(|item| (item.to_vec(), whole.position(item))));
        }
        let expected = [("a", 1), ("b", 3), ("cd", 4), ("ef", 5)];
        let expected =
            expected.map(|(item, line)| (item.as_bytes().to_vec(), format!("f, line {line}")));
        assert_eq!(found, expected);
        let text = block.broken("no").to_string();
        assert_eq!(text, "could not read f, line 6: no");
    }

    #[test]
    fn a_carriage_return_before_a_line_feed_is_part_of_a_record_alone() {
        for (unit, text, item) in [
            (Unit::Lines, "a\r\n", "a"),
            (Unit::Lines, "a\r\r\n", "a\r"),
            (Unit::Lines, "\ra\n", "\ra"),
            (Unit::Zeros, "a\r\0", "a\r"),
        ] {
            let block = block_of(unit, text);
            assert_eq!(texts(block.all_items()), [item], "{text:?}");
            assert_eq!(block.record_bytes(), text.as_bytes());
        }
    }

    #[test]
    fn only_a_begun_item_is_ended() {
        for (text, items) in [("a\nb", &["a", "b"][..]), ("a\n", &["a"]), ("", &[])] {
            let mut block = block_of(Unit::Lines, text);
            block.end_last(b'\n');
            assert_eq!(texts(block.all_items()), items, "{text:?}");
        }
    }

    #[test]
    fn views_differ_in_empty_items_and_records_without_one() {
        let lines = block_of(Unit::Lines, "1\n-\n0\n+\n");
        let block = lines.with_fields(|block, line| match line {
            b"-" => block.push_itemless(OnFault::Drop, "no"),
            b"+" => block.push_itemless(OnFault::Keep, "no"),
            _ => {
                block.push(if line == b"0" { b"" } else { b"one" });
                Ok(())
            }
        });
        let block = block.unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(texts(block.items()), ["one"]);
        assert_eq!(texts(block.record_items()), ["one", ""]);
        assert_eq!(texts(block.all_items()), ["one", "", "", ""]);
        let records = block.records();
        let records = records.map(|it| (it.item, &block.record_bytes()[it.place]));
        let (drop, keep) = (Err(Itemless::Drop), Err(Itemless::Keep));
        let expected: [(_, &[u8]); 4] = [
            (Ok(&b"one"[..]), b"1\n"),
            (drop, b"-\n"),
            (Ok(b""), b"0\n"),
            (keep, b"+\n"),
        ];
        assert!(records.eq(expected));
        assert_eq!(
            block.position(block.items().next().expect("one")),
            "f, line 1"
        );
    }

    #[test]
    fn a_fault_may_end_the_run() {
        let lines = block_of(Unit::Lines, "a\nb\n");
        let mut items = 0;
        let block = lines.with_fields(|block, line| {
            items += 1;
            if items == 2 {
                return block.push_itemless(OnFault::Fail, "no");
            }
            block.push(line);
            Ok(())
        });
        let text = block.err().map(|failure| failure.to_string());
        assert_eq!(text.as_deref(), Some("could not read f, line 2: no"));
    }

    #[test]
    fn records_of_columns_are_kept_from_one_block_to_the_next() {
        let start = Start {
            packed: Packed::Plain,
            header: Vec::new(),
        };
        let mut block = Block::first_of(0, Path::new("f"), Unit::Records, Some(start));
        for record in ["1,a\n", "2,b"] {
            block.push(&record.as_bytes()[..1]);
            block.push_record(record.as_bytes());
            let taken = block.take();
            assert_eq!(
                taken.record_bytes(),
                [&record[..3], "\n"].concat().as_bytes()
            );
            assert_eq!((taken.len(), block.len(), block.size()), (1, 0, 0));
        }
        assert!(!block.has_content(), "the first block has the start");
        assert_eq!(
            block.broken("no").to_string(),
            "could not read f, record 3: no"
        );
    }
}
