//! Blocks of whole records, and their items.
//!
//! A thread fills a block with lines ([`Block::fill`]) or with the fields of records ([`Block::push`], and
//! [`Block::push_record`] if records are kept), and takes it out when it is large enough ([`Block::take`]). The consumer may
//! exchange its lines for fields of them ([`Block::with_fields`]), and reads the items or the records.

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
    /// The number of bytes of the files that were read before the block was sent, or of records, if they come from a pipe.
    pub read: u64,
    /// The items, each before a byte that ends it.
    items: Strings,
    /// The records, if they are kept and are not the items themselves.
    kept: Option<Kept>,
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

/// The records of items that are fields.
struct Kept {
    /// Each with its line end.
    records: Strings,
    /// The indexes of the records without an item, ascending, and what becomes of them.
    itemless: Vec<(usize, Itemless)>,
}

/// A record of a block.
#[derive(Clone)]
pub struct Record<'b> {
    /// The item, or what becomes of a record without one.
    pub item: std::result::Result<&'b [u8], Itemless>,
    /// The place of the record and its end in [`Block::record_bytes`].
    pub place: Range<usize>,
}

impl Block {
    /// Creates an empty block, the first of a file.
    pub fn first_of(file: &Path, unit: Unit) -> Self {
        Self {
            file: file.to_owned(),
            index: 0,
            unit,
            first: 1,
            start: None,
            read: 0,
            items: Strings::from_pool(),
            kept: None,
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
        let index = self.len();
        self.kept().itemless.push((index, itemless));
        self.push(b"");
        Ok(())
    }

    /// Adds the bytes of the record whose item was added last.
    pub fn push_record(&mut self, record: &[u8]) {
        self.kept().records.push(ended(record));
    }

    fn kept(&mut self) -> &mut Kept {
        self.kept.get_or_insert_with(|| Kept {
            records: Strings::from_pool(),
            itemless: Vec::new(),
        })
    }

    /// Returns a block with fields of this block's lines, which are its records. `push` adds an item for each line.
    pub fn with_fields(
        mut self,
        push: impl FnOnce(&Self, &mut Self) -> Result<()>,
    ) -> Result<Self> {
        let mut fields = Self {
            index: self.index,
            first: self.first,
            start: self.start.take(),
            read: self.read,
            ..Self::first_of(&self.file, Unit::Fields)
        };
        push(&self, &mut fields)?;
        assert_eq!(fields.len(), self.len(), "an item for each line");
        fields.kept().records = self.items;
        Ok(fields)
    }

    /// Takes the whole items out, and leaves a block with the bytes of the one that is not whole yet.
    pub fn take(&mut self) -> Self {
        let whole = self.whole_bytes();
        let mut next = Self {
            index: self.index,
            first: self.first + self.len() as u64,
            ..Self::first_of(&self.file, self.unit)
        };
        next.items
            .bytes
            .extend_from_slice(&self.items.bytes[whole..]);
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

    /// Returns all whole items, also those that are empty.
    pub fn all_items(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.items.ends.iter().map(move |end| {
            let item = &self.items.bytes[start..end - 1];
            start = *end;
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

    /// Returns the records, which are the items themselves unless those are fields.
    fn record_strings(&self) -> &Strings {
        let kept = self.kept.as_ref();
        kept.map_or(&self.items, |kept| &kept.records)
    }

    /// Returns the item of each whole record, or what becomes of a record without one.
    fn found_items(&self) -> impl Iterator<Item = std::result::Result<&[u8], Itemless>> {
        let itemless = self.kept.as_ref().map(|kept| &kept.itemless[..]);
        let mut itemless = itemless.unwrap_or_default();
        self.all_items()
            .enumerate()
            .map(move |(index, item)| match itemless.split_first() {
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

    #[test]
    fn items_are_numbered_through_all_blocks() {
        let mut block = Block::first_of(Path::new("f"), Unit::Lines);
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
}
