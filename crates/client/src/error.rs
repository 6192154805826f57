//! The errors of a sharded filter.

use std::fmt;

use redis::{RedisError, ServerError};

/// The error of an operation that failed, or may have failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The name contains a brace. Only the part of a key in braces determines its slot, so all shards would be on one
    /// node.
    Name,
    /// The shard's node can't be reached, or refused the command: `ERR not found` for a shard that was never created,
    /// `ERR non scaling filter is full`.
    Node(RedisError),
    /// The shard's node has not answered in time. The command may still take effect.
    Timeout,
    /// The shard's primary applied the write, but only some replicas acknowledged it in time.
    Unacknowledged {
        /// The number of replicas that acknowledged it.
        replicas: u64,
    },
    /// The item was not tried, because an earlier one of its shard failed.
    NotTried,
    /// The shard's node sent a reply that this module never sends.
    Unexpected,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("the name of a sharded filter can't hold braces"),
            Self::Node(error) => error.fmt(f),
            Self::Timeout => f.write_str("the shard's node did not answer in time"),
            Self::Unacknowledged { replicas } => {
                write!(f, "acknowledged by {replicas} replicas only")
            }
            Self::NotTried => f.write_str("not tried, since an item before it failed"),
            Self::Unexpected => f.write_str("the shard's node gave an unexpected answer"),
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
