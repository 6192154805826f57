//! The words of a command: a cursor over them, and parsers for the values that every family's commands share.

use std::ops::Range;

use valkeybloom_sketches::{Fraction, Seed};

use crate::error::{Error, Field};
use crate::numerals::whole;

/// The words of a command, its name first.
pub trait CommandWords {
    /// Number of words.
    fn count(&self) -> usize;
    /// The word at an index, which must be below the count.
    fn word(&self, index: usize) -> &[u8];
}

impl CommandWords for [&[u8]] {
    fn count(&self) -> usize {
        self.len()
    }

    fn word(&self, index: usize) -> &[u8] {
        self[index]
    }
}

/// Requires that a command has the right number of words.
pub(crate) fn require_count(is_right: bool) -> Result<(), Error> {
    is_right.then_some(()).ok_or(Error::Arity)
}

/// A cursor over the words that are not yet taken.
pub struct Cursor<'a, W: ?Sized> {
    pub(crate) words: &'a W,
    pub(crate) next: usize,
}

impl<'a, W: CommandWords + ?Sized> Cursor<'a, W> {
    /// Starts after the command's name and key.
    pub fn after_key(words: &'a W) -> Self {
        Self { words, next: 2 }
    }

    /// Takes the next word.
    pub fn take(&mut self) -> Option<&'a [u8]> {
        let word = (self.next < self.words.count()).then(|| self.words.word(self.next))?;
        self.next += 1;
        Some(word)
    }

    /// Takes the next word if it is this one, in any case of letters.
    pub(crate) fn take_if(&mut self, option: &[u8]) -> bool {
        let is_next = self.next < self.words.count()
            && self.words.word(self.next).eq_ignore_ascii_case(option);
        self.next += usize::from(is_next);
        is_next
    }

    /// Returns the indices of the words that are left.
    pub fn rest(self) -> Range<usize> {
        self.next..self.words.count()
    }

    pub(crate) fn fraction(&mut self, field: Field) -> Result<Fraction, Error> {
        let text = self.take().and_then(|word| str::from_utf8(word).ok());
        let number = text.and_then(|text| text.parse().ok());
        Fraction::new(number.ok_or(Error::Bad(field))?).ok_or(Error::Range(field))
    }

    pub(crate) fn expansion(&mut self) -> Result<u32, Error> {
        let expansion = self.take().and_then(whole);
        expansion.ok_or(Error::Bad(Field::EXPANSION))
    }

    /// Takes a whole number above 0.
    pub(crate) fn positive(&mut self, field: Field) -> Result<u64, Error> {
        match self.take().and_then(whole) {
            Some(0) => Err(Error::Range(field)),
            number => number.ok_or(Error::Bad(field)),
        }
    }

    /// Takes a time since the epoch, in milliseconds.
    pub(crate) fn time(&mut self) -> Result<u64, Error> {
        self.take().and_then(whole).ok_or(Error::UNKNOWN_OPTION)
    }

    pub(crate) fn seed(&mut self) -> Result<Seed, Error> {
        let bytes = self.take().and_then(|word| word.try_into().ok());
        bytes.map(Seed::new).ok_or(Error::SEED)
    }
}

/// The origin of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client of this server.
    Client,
    /// A primary, an AOF or a slot import: the command was executed there before.
    Elsewhere,
}

/// The grammar of the words of commands that `RedisBloom` has, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grammar {
    /// This module's: unknown words are errors.
    Own,
    /// `RedisBloom`'s. It ignores words and takes abbreviations, and replicates both, so commands that were already
    /// executed elsewhere are parsed by it.
    RedisBloom,
}
