//! Blocks of whole records, and their items.

use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::memchr_iter;

use super::form::Packed;
use super::text::Text;

/// Whole records of a file.
pub struct Block {
    file: PathBuf,
    /// The index of the file in the input.
    pub index: usize,
    parts: Parts,
    /// The number of the first item in the file, from 1.
    first: u64,
    /// The form of the file, in its first block if whole records are kept.
    pub start: Option<Start>,
    /// The number of bytes of all files that were read before the block was sent.
    pub read: u64,
    /// The items. The byte at the end of each does not belong to it.
    text: Text,
    /// The records, if they are kept and their items are fields.
    whole: Option<Whole>,
}

/// What the items of a block are.
#[derive(Clone, Copy, PartialEq)]
pub enum Parts {
    Lines,
    /// What ends with a zero byte.
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

/// What becomes of a record without an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Lacking {
    Fail,
    Keep,
    Drop,
}

impl Lacking {
    pub fn is_drop(self) -> bool {
        self == Self::Drop
    }
}

/// Records whose items are fields.
struct Whole {
    /// The records, each with its line end.
    text: Text,
    /// The records without an item, ascending, and what becomes of them.
    lacking: Vec<(usize, Lacking)>,
}

impl Whole {
    fn new() -> Self {
        Self {
            text: Text::new(),
            lacking: Vec::new(),
        }
    }
}

/// A record of a block.
#[derive(Clone)]
pub struct Record<'b> {
    /// The item, or what becomes of a record without one.
    pub item: Result<&'b [u8], Lacking>,
    /// The place of the record and its end in [`Block::whole`].
    pub place: Range<usize>,
}

impl Block {
    /// Creates an empty block, the first of a file.
    pub fn first_of(file: &Path, parts: Parts) -> Self {
        Self {
            file: file.to_owned(),
            index: 0,
            parts,
            first: 1,
            start: None,
            read: 0,
            text: Text::new(),
            whole: None,
        }
    }

    /// Returns the path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the bytes of the items, to which others may be added.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.text.bytes
    }

    /// Returns whether there is nothing in the block.
    pub fn is_empty(&self) -> bool {
        self.start.is_none() && self.text.ends.is_empty() && self.text.bytes.is_empty()
    }

    /// Adds an item of a record.
    pub fn push(&mut self, field: &[u8]) {
        self.text.bytes.extend_from_slice(field);
        self.text.ends.push(self.text.bytes.len());
        self.text.bytes.push(b'\n');
    }

    /// Adds a record without an item.
    pub fn push_lacking(&mut self, lacking: Lacking) {
        let index = self.text.ends.len();
        self.whole
            .get_or_insert_with(Whole::new)
            .lacking
            .push((index, lacking));
        self.push(b"");
    }

    /// Adds the bytes of the record whose item was added last.
    pub fn push_whole(&mut self, record: &[u8]) {
        let whole = self.whole.get_or_insert_with(Whole::new);
        for part in ended(record) {
            whole.text.bytes.extend_from_slice(part);
        }
        whole.text.ends.push(whole.text.bytes.len());
    }

    /// Creates an empty block for the fields of this block's lines.
    pub fn for_fields(&mut self) -> Self {
        Self {
            index: self.index,
            first: self.first,
            start: self.start.take(),
            read: self.read,
            ..Self::first_of(&self.file, Parts::Fields)
        }
    }

    /// Keeps the lines whose fields were added.
    pub fn keep_lines(&mut self, lines: Self) {
        let whole = self.whole.get_or_insert_with(Whole::new);
        whole.text = lines.text;
        whole.text.ends.iter_mut().for_each(|end| *end += 1);
    }

    /// Notes which bytes from a position on end items.
    pub fn find_ends(&mut self, from: usize, end: u8) {
        let ends = memchr_iter(end, &self.text.bytes[from..]);
        self.text.ends.extend(ends.map(|at| from + at));
    }

    /// Takes the whole items out, and leaves a block with the bytes of the one that is not whole yet.
    pub fn take(&mut self) -> Self {
        let whole = self.text.ends.last().map_or(0, |end| end + 1);
        let mut next = Self {
            index: self.index,
            first: self.first + self.len() as u64,
            ..Self::first_of(&self.file, self.parts)
        };
        next.text.bytes.extend_from_slice(&self.text.bytes[whole..]);
        self.text.bytes.truncate(whole);
        std::mem::replace(self, next)
    }

    /// Ends the last item, if it is not ended.
    pub fn end_last(&mut self, end: u8) {
        let whole = self.text.ends.last().map_or(0, |end| end + 1);
        if self.text.bytes.len() > whole {
            self.text.ends.push(self.text.bytes.len());
            self.text.bytes.push(end);
        }
    }

    /// Returns whether there is a whole item.
    pub fn has_whole(&self) -> bool {
        !self.text.ends.is_empty()
    }

    /// Returns the number of whole items.
    pub fn len(&self) -> usize {
        self.text.ends.len()
    }

    /// Returns the items that are not empty.
    pub fn items(&self) -> impl Iterator<Item = &[u8]> {
        let last = [self.text.bytes.len()];
        let items = self.between(self.text.ends.iter().copied().chain(last));
        items.filter(|item| !item.is_empty())
    }

    /// Returns all whole items.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.between(self.text.ends.iter().copied())
    }

    /// Returns the items, each from the end of the one before to its own.
    fn between(&self, ends: impl Iterator<Item = usize>) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        ends.map(move |end| {
            let item = &self.text.bytes[start..end];
            start = end + 1;
            match item.strip_suffix(b"\r") {
                Some(line) if self.parts == Parts::Lines => line,
                _ => item,
            }
        })
    }

    /// Returns the bytes of the records, with their ends.
    pub fn whole(&self) -> &[u8] {
        self.whole
            .as_ref()
            .map_or(&self.text.bytes, |whole| &whole.text.bytes)
    }

    /// Returns the whole records.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let (ends, lacking, after): (_, &[_], _) = match &self.whole {
            None => (&self.text.ends, &[], 1),
            Some(whole) => (&whole.text.ends, &whole.lacking, 0),
        };
        let mut lacking = lacking.iter().copied().peekable();
        let mut start = 0;
        let records = self.lines().zip(ends).enumerate();
        records.map(move |(index, (item, end))| {
            let place = start..end + after;
            start = place.end;
            let none = lacking.next_if(|(at, _)| *at == index);
            let item = none.map_or(Ok(item), |(_, lacking)| Err(lacking));
            Record { item, place }
        })
    }

    /// Describes the position of one of [`items`](Self::items).
    pub fn position(&self, item: &[u8]) -> String {
        let offset = item.as_ptr().addr() - self.text.bytes.as_ptr().addr();
        self.numbered(self.text.ends.partition_point(|end| *end < offset))
    }

    /// Describes the position of the item after the whole ones.
    pub fn end(&self) -> String {
        self.numbered(self.text.ends.len())
    }

    /// Describes the position of the item that follows a number of items of this block.
    fn numbered(&self, before: usize) -> String {
        let unit = match self.parts {
            Parts::Lines | Parts::Fields => "line",
            Parts::Zeros => "item",
            Parts::Records => "record",
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
        let mut block = Block::first_of(Path::new("f"), Parts::Lines);
        let mut found = Vec::new();
        for part in ["a\n\nb\nc", "d\ne", "f\n", "g"] {
            let start = block.bytes().len();
            block.bytes().extend_from_slice(part.as_bytes());
            block.find_ends(start, b'\n');
            let whole = block.take();
            let items = whole.items();
            found.extend(items.map(|item| (item.to_vec(), whole.position(item))));
        }
        let expected = [("a", 1), ("b", 3), ("cd", 4), ("ef", 5)];
        let expected =
            expected.map(|(item, line)| (item.as_bytes().to_vec(), format!("f, line {line}")));
        assert_eq!(found, expected);
        assert_eq!(block.end(), "f, line 6");
    }
}
