//! ONCE of BF.INSERT: a receipt of the answers, and where they stand in it.

use std::ops::Range;

use valkeybloom_sketches::Receipt;

use crate::error::{Error, Field};
use crate::numerals::whole;
use crate::words::{CommandWords, Cursor};

/// The index of the filter's key among the words.
const FILTER: usize = 1;

/// A receipt, and the position of the command's first item among all items that it answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Once {
    /// The index of the receipt's key among the words.
    pub receipt: usize,
    /// The position of the first item.
    pub position: u64,
    /// BEGIN: whether a receipt begins at the position if it does not exist, or ends before the position.
    pub begins: bool,
}

impl Once {
    /// Takes `receipt position [BEGIN]`, the words after ONCE.
    pub(super) fn take<W: CommandWords + ?Sized>(from: &mut Cursor<W>) -> Result<Self, Error> {
        let receipt = from.next;
        let name = from.take().ok_or(Error::Bad(Field::POSITION))?;
        let position = from.take().and_then(whole);
        let once = Self {
            receipt,
            position: position.ok_or(Error::Bad(Field::POSITION))?,
            begins: from.take_if(b"BEGIN"),
        };
        if name == from.words.word(FILTER) {
            return Err(Error::RECEIPT_IS_FILTER);
        }
        Ok(once)
    }
}

/// Requires that a receipt can keep the answers of all items.
pub(super) fn require_answers(once: Option<Once>, items: &Range<usize>) -> Result<(), Error> {
    match once {
        Some(_) if items.len() > Receipt::MOST_ANSWERS => Err(Error::LONG_ONCE),
        _ => Ok(()),
    }
}

/// The index of the receipt's key in the replicated form.
pub const ANSWERED_RECEIPT: usize = 3;

/// The index of the new answers in the replicated form: the bytes of a receipt that has no other ones.
pub const ANSWERED_ANSWERS: usize = 5;

/// Returns whether the words are the form in which answers are replicated: `BF.INSERT key ONCE receipt ANSWERED answers`. A
/// client's command has a position in place of `ANSWERED`.
pub fn is_answered<W: CommandWords + ?Sized>(words: &W) -> bool {
    let is = |index: usize, option: &[u8]| words.word(index).eq_ignore_ascii_case(option);
    words.count() == 6 && is(4, b"ANSWERED") && is(2, b"ONCE")
}
