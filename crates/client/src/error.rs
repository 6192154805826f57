//! What can go wrong.

use std::fmt;

use redis::{RedisError, ServerError};
use valkeybloom_near::once::LACKING;
use valkeybloom_sketches::Forgotten;

/// The error of an operation that failed, or may have failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The name contains a brace. Only the part of a key in braces determines its slot, so all shards would be on one
    /// node.
    Name,
    /// The server can't be reached, or refused the command: `ERR not found` for a shard that was never created,
    /// `ERR non scaling filter is full`.
    Node(RedisError),
    /// The server has not answered in time. The command may still take effect.
    Timeout,
    /// The shard's primary applied the write, but only some replicas acknowledged it in time.
    Unacknowledged {
        /// The number of replicas that acknowledged it.
        replicas: u64,
    },
    /// The item was not tried, because an earlier one of its shard failed.
    NotTried,
    /// The server sent a reply that this module never sends.
    Unexpected,
    /// The filter can't be followed, for this reason: its key holds something else or a filter that is not plain, or
    /// the server lacks `BF.READ`, or does not permit it.
    Refused(String),
    /// The copy was closed, so it never answers.
    Closed,
    /// A receipt has no answer for a position, so nothing was added. It has answers `from` one position up to the one
    /// before `to`.
    Forgotten {
        /// The first position with an answer.
        from: u64,
        /// The first position after it without an answer.
        to: u64,
    },
    /// The server has no receipts, because its `BF.INSERT` lacks `ONCE`.
    NoReceipts,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("the name of a sharded filter can't hold braces"),
            Self::Node(error) => error.fmt(f),
            Self::Timeout => f.write_str("the server did not answer in time"),
            Self::Unacknowledged { replicas } => {
                write!(f, "acknowledged by {replicas} replicas only")
            }
            Self::NotTried => f.write_str("not tried, since an item before it failed"),
            Self::Unexpected => f.write_str("the server sent an unexpected reply"),
            Self::Refused(why) => write!(f, "the filter can't be followed: {why}"),
            Self::Closed => f.write_str("the copy of the filter was closed"),
            &Self::Forgotten { from, to } => Forgotten { from, to }.fmt(f),
            Self::NoReceipts => f.write_str(LACKING),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Node(error) => Some(error),
            _ => None,
        }
    }
}

impl Error {
    /// Returns the text of a server's error; `None` for any other one.
    pub(crate) fn server_text(&self) -> Option<String> {
        let Self::Node(error) = self else { return None };
        Some(text_of(error.code()?, error.detail()))
    }
}

/// Returns the text of a server's error, whose first word is the code.
pub fn text_of(code: &str, detail: Option<&str>) -> String {
    let text = [code, detail.unwrap_or_default()].join(" ");
    text.trim_end().to_owned()
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        Self::Node(error)
    }
}

impl From<ServerError> for Error {
    fn from(error: ServerError) -> Self {
        Self::Node(error.into())
    }
}
