//! Blocks of whole items.

use std::path::{Path, PathBuf};

use memchr::memchr_iter;

/// Whole items of a file.
pub struct Block {
    file: PathBuf,
    parts: Parts,
    /// The number of the first item in the file, from 1.
    first: u64,
    pub bytes: Vec<u8>,
    /// The position of the byte after each item, which does not belong to it.
    ends: Vec<usize>,
}

/// What the items of a block are.
#[derive(Clone, Copy, PartialEq)]
pub enum Parts {
    Lines,
    /// What ends with a zero byte.
    Zeros,
    /// Fields of records, which may hold any byte.
    Records,
}

impl Block {
    /// Creates an empty block, the first of a file.
    pub fn first_of(file: &Path, parts: Parts) -> Self {
        Self {
            file: file.to_owned(),
            parts,
            first: 1,
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Adds an item of a record.
    pub fn push(&mut self, field: &[u8]) {
        self.bytes.extend_from_slice(field);
        self.ends.push(self.bytes.len());
        self.bytes.push(b'\n');
    }

    /// Notes which bytes from a position on end items.
    pub fn find_ends(&mut self, from: usize, end: u8) {
        let ends = memchr_iter(end, &self.bytes[from..]);
        self.ends.extend(ends.map(|at| from + at));
    }

    /// Takes the whole items out, and leaves a block with the bytes of the one that is not whole yet.
    pub fn take(&mut self) -> Self {
        let whole = self.ends.last().map_or(0, |end| end + 1);
        let next = Self {
            first: self.first + self.ends.len() as u64,
            bytes: self.bytes.split_off(whole),
            ..Self::first_of(&self.file, self.parts)
        };
        std::mem::replace(self, next)
    }

    /// Returns the items that are not empty.
    pub fn items(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        let ends = self.ends.iter().copied().chain([self.bytes.len()]);
        let items = ends.map(move |end| {
            let item = &self.bytes[start..end];
            start = end + 1;
            match item.strip_suffix(b"\r") {
                Some(line) if self.parts == Parts::Lines => line,
                _ => item,
            }
        });
        items.filter(|item| !item.is_empty())
    }

    /// Describes the position of one of [`items`](Self::items).
    pub fn position(&self, item: &[u8]) -> String {
        let offset = item.as_ptr().addr() - self.bytes.as_ptr().addr();
        self.numbered(self.ends.partition_point(|end| *end < offset))
    }

    /// Describes the position of the item after the whole ones.
    pub fn end(&self) -> String {
        self.numbered(self.ends.len())
    }

    /// Describes the position of the item that follows a number of items of this block.
    fn numbered(&self, before: usize) -> String {
        let unit = match self.parts {
            Parts::Lines => "line",
            Parts::Zeros => "item",
            Parts::Records => "record",
        };
        let number = self.first + before as u64;
        format!("{}, {unit} {number}", self.file.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_numbered_through_all_blocks() {
        let mut block = Block::first_of(Path::new("f"), Parts::Lines);
        let mut found = Vec::new();
        for part in ["a\n\nb\nc", "d\ne", "f\n", "g"] {
            let start = block.bytes.len();
            block.bytes.extend_from_slice(part.as_bytes());
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
