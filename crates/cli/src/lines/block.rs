//! Blocks of whole items.

use std::path::{Path, PathBuf};

use memchr::{Memchr, memchr_iter};

/// Whole items of a file.
pub struct Block {
    file: PathBuf,
    /// The number of the first item in the file, from 1.
    first: u64,
    pub bytes: Vec<u8>,
    parts: Parts,
}

/// What ends the items of a block: a byte each, which does not belong to them.
#[derive(Clone)]
pub enum Parts {
    Lines,
    Zeros,
    /// Fields of records, which may hold any byte: the position of the byte after each.
    Records(Vec<usize>),
}

impl Block {
    /// Creates an empty block, the first of a file.
    pub fn first_of(file: &Path, parts: Parts) -> Self {
        let file = file.to_owned();
        Self {
            file,
            first: 1,
            bytes: Vec::new(),
            parts,
        }
    }

    /// Adds an item of a record.
    pub fn push(&mut self, field: &[u8]) {
        self.bytes.extend_from_slice(field);
        if let Parts::Records(ends) = &mut self.parts {
            ends.push(self.bytes.len());
        }
        self.bytes.push(b'\n');
    }

    /// Takes the whole items out, and leaves a block with these bytes of the items after them.
    pub fn take(&mut self, rest: Vec<u8>) -> Self {
        let parts = match &self.parts {
            Parts::Records(_) => Parts::Records(Vec::new()),
            parts => parts.clone(),
        };
        let next = Self {
            file: self.file.clone(),
            first: self.first + self.ends(self.bytes.len()),
            bytes: rest,
            parts,
        };
        std::mem::replace(self, next)
    }

    /// Returns the items that are not empty.
    pub fn items(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let is_line = matches!(self.parts, Parts::Lines);
        let last = self.bytes.len();
        let mut start = 0;
        let items = self.all_ends().chain([last]).map(move |end| {
            let item = self.bytes.get(start..end).unwrap_or_default();
            start = end + 1;
            match item.strip_suffix(b"\r") {
                Some(line) if is_line => line,
                _ => item,
            }
        });
        items.filter(|item| !item.is_empty())
    }

    /// Describes the position of one of [`items`](Self::items).
    pub fn position(&self, item: &[u8]) -> String {
        self.position_at(item.as_ptr().addr() - self.bytes.as_ptr().addr())
    }

    /// Describes the position of the item after the whole ones.
    pub fn end(&self) -> String {
        self.position_at(self.bytes.len())
    }

    fn position_at(&self, offset: usize) -> String {
        let unit = match self.parts {
            Parts::Lines => "line",
            Parts::Zeros => "item",
            Parts::Records(_) => "record",
        };
        let number = self.first + self.ends(offset);
        format!("{}, {unit} {number}", self.file.display())
    }

    /// Returns the number of items that end before an offset.
    fn ends(&self, offset: usize) -> u64 {
        self.all_ends().take_while(|end| *end < offset).count() as u64
    }

    fn all_ends(&self) -> Ends<'_> {
        match &self.parts {
            Parts::Records(ends) => Ends::Records(ends.iter()),
            parts => Ends::Bytes(memchr_iter(parts.byte(), &self.bytes)),
        }
    }
}

impl Parts {
    /// Returns the byte that ends items.
    pub const fn byte(&self) -> u8 {
        match self {
            Self::Zeros => 0,
            Self::Lines | Self::Records(_) => b'\n',
        }
    }
}

/// The positions of the bytes that end items.
#[derive(Clone)]
enum Ends<'b> {
    Bytes(Memchr<'b>),
    Records(std::slice::Iter<'b, usize>),
}

impl Iterator for Ends<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Self::Bytes(ends) => ends.next(),
            Self::Records(ends) => ends.next().copied(),
        }
    }
}
