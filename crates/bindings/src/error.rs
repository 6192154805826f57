//! Errors as codes and texts.

use std::borrow::Cow;
use std::fmt;

use valkeybloom_protocol::error as protocol;
use valkeybloom_sketches::bloom::{MergeError, Refusal};
use valkeybloom_sketches::{BadOffsets, DecodeError};

/// The kind of an error, which becomes an exception's class or a status. The numbers stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// A server would refuse the parameter, item or union. The text is the server's.
    Refused = 1,
    /// The bytes are not an object of this family.
    Undecodable = 2,
    /// There is not enough memory. Nothing has changed, unless a batch was under way.
    NoMemory = 3,
    /// The items of a batch can't be read: one is null, or the offsets don't ascend.
    BadBatch = 4,
    /// The elements of a batch have a type that items can't have.
    BadType = 5,
    /// An earlier call on this object panicked, so its state is unknown.
    Broken = 6,
}

/// The reason for a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: Code,
    text: Cow<'static, str>,
}

impl Error {
    /// There is not enough memory.
    pub const NO_MEMORY: Self = Self {
        code: Code::NoMemory,
        text: Cow::Borrowed("not enough memory"),
    };

    /// A call ended before it had put an object in order.
    pub(crate) const BROKEN: Self = Self {
        code: Code::Broken,
        text: Cow::Borrowed("an earlier call on this object failed in the middle"),
    };

    /// A union or merge of no objects.
    pub(crate) const NOTHING_TO_MERGE: Self = Self {
        code: Code::Refused,
        text: Cow::Borrowed("there is nothing to merge"),
    };

    /// Creates an error.
    pub fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    /// Creates the error of a batch that can't be read.
    pub(crate) fn bad_batch(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::BadBatch, text)
    }

    /// Returns the kind of the error.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Returns the text, without a line break.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text, which takes no memory if it is constant.
    pub fn into_text(self) -> Cow<'static, str> {
        self.text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<protocol::Error> for Error {
    /// Takes the server's text without the word in capitals before it, which clients also remove. A program can do
    /// about some errors what a client of a server can't.
    fn from(error: protocol::Error) -> Self {
        use protocol::Error::{Refused, Unlike};
        let text = match error {
            Refused(Refusal::OutOfMemory) | Unlike(MergeError::Refused(Refusal::OutOfMemory)) => {
                return Self::NO_MEMORY;
            }
            Unlike(MergeError::Seeds) => {
                "filters have different seeds: make them all with the seed of the first, or as copies of an empty one"
                    .to_owned()
            }
            Refused(Refusal::MemoryLimit) => {
                "the filter would exceed the limit on memory, which limit_growth sets for filters that grow"
                    .to_owned()
            }
            _ => {
                let text = error.to_string();
                match text.split_once(' ') {
                    Some((code, rest)) if code.bytes().all(|b| b.is_ascii_uppercase()) => rest.to_owned(),
                    _ => text,
                }
            }
        };
        Self::new(Code::Refused, text)
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::NoMemory => Self::NO_MEMORY,
            _ => Self::new(Code::Undecodable, error.to_string()),
        }
    }
}

impl From<std::collections::TryReserveError> for Error {
    fn from(_: std::collections::TryReserveError) -> Self {
        Self::NO_MEMORY
    }
}

impl From<BadOffsets> for Error {
    fn from(error: BadOffsets) -> Self {
        Self::bad_batch(error.to_string())
    }
}
