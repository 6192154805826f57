//! BF.LOAD, SCANDUMP and LOADCHUNK: objects as dumps or in chunks. BF.READ: the items of a feed.

use valkeybloom_sketches::Cursor as FeedCursor;

use crate::error::{Error, Field};
use crate::numerals::{integer, natural, whole};
use crate::words::{CommandWords, Cursor};

/// The request of BF.LOAD.
#[derive(Debug, PartialEq, Eq)]
pub struct Load {
    /// The key's time to live in milliseconds.
    pub ttl_ms: Option<u64>,
}

impl Load {
    /// Parses the words.
    ///
    /// # Errors
    /// [`Error::Arity`] or [`Error::Bad`].
    pub fn parse<W: CommandWords + ?Sized>(words: &W) -> Result<Self, Error> {
        let ttl_ms = match words.count() {
            3 => 0,
            4 => whole(words.word(3)).ok_or(Error::Bad(Field::TTL))?,
            _ => return Err(Error::Arity),
        };
        // As in RESTORE, 0 means no time to live.
        let ttl_ms = (ttl_ms > 0).then_some(ttl_ms);
        Ok(Self { ttl_ms })
    }
}

/// The request of BF.SCANDUMP.
#[derive(Debug, PartialEq, Eq)]
pub struct ScanDump {
    /// Where the chunk begins, or the error of a cursor that is not a number. `RedisBloom` looks for the key before it parses
    /// the cursor.
    pub cursor: Result<u64, Error>,
    /// WITHID: whether the object's id is returned.
    pub with_id: bool,
}

impl ScanDump {
    /// Parses the words. `bad_cursor` is the error of a cursor that is not a number.
    ///
    /// # Errors
    /// [`Error::Arity`]
    pub fn parse<W: CommandWords + ?Sized>(words: &W, bad_cursor: Error) -> Result<Self, Error> {
        let with_id = match words.count() {
            3 => false,
            4 if words.word(3).eq_ignore_ascii_case(b"WITHID") => true,
            _ => return Err(Error::Arity),
        };
        // Negative cursors are past the end, like those above all bitmaps.
        let cursor = chunk_cursor(words, bad_cursor);
        let cursor = cursor.map(|cursor| u64::try_from(cursor).unwrap_or(u64::MAX));
        Ok(Self { cursor, with_id })
    }
}

/// Parses the cursor of BF.SCANDUMP or BF.LOADCHUNK, the word after the key.
///
/// # Errors
/// `bad`, if the word is not a number.
pub fn chunk_cursor<W: CommandWords + ?Sized>(words: &W, bad: Error) -> Result<i64, Error> {
    integer(words.word(2)).ok_or(bad)
}

/// The request of BF.READ, which reads the feed of an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    /// Where to read from; `None` requests the cursor after the last item.
    pub from: Option<FeedCursor>,
    /// The most items to return.
    pub max_count: u64,
}

impl Read {
    /// The most items that a reply has by default: a mebibyte.
    pub const MAX_COUNT: u64 = 65_536;

    /// Parses the words.
    ///
    /// # Errors
    /// [`Error::Arity`], [`Error::Bad`], [`Error::Range`] or [`Error::UNKNOWN_OPTION`].
    pub fn parse<W: CommandWords + ?Sized>(words: &W) -> Result<Self, Error> {
        let mut words = Cursor::after_key(words);
        let from = match words.take().ok_or(Error::Arity)? {
            b"$" => None,
            word => Some(feed_cursor(word).ok_or(Error::Bad(Field::CURSOR))?),
        };
        let mut max_count = Self::MAX_COUNT;
        while let Some(option) = words.take() {
            if !option.eq_ignore_ascii_case(b"MAX_COUNT") {
                return Err(Error::UNKNOWN_OPTION);
            }
            max_count = words.positive(Field::MAX_COUNT)?;
        }
        Ok(Self { from, max_count })
    }
}

/// Reads a cursor in its one form, which its `Display` writes.
fn feed_cursor(word: &[u8]) -> Option<FeedCursor> {
    let (id, sequence) = word.split_at_checked(FeedCursor::DIGITS)?;
    let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    id.iter().all(is_digit).then_some(())?;
    Some(FeedCursor {
        feed: u64::from_str_radix(str::from_utf8(id).ok()?, 16).ok()?,
        sequence: natural(sequence.strip_prefix(b"-")?)?,
    })
}
