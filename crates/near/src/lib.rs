//! The rules by which a copy of a server's Bloom filter follows it, without network, clock or randomness.
//!
//! A [`Follower`] says which command to send next and when, takes the reply, and answers lookups from the copy as long as
//! the copy is fresh. A driver sends the commands: the Rust client with tokio, the Python package with a thread, a test
//! with a clock of its own. So the rules stand here once. The module [`clock`] has the clock of the first two.
//!
//! ```text
//!   Begin ──$──> Fetch ──last chunk──> Follow ──┐ BF.READ every 50 ms
//!     ^                                  │  ^───┘
//!     └──── RESYNC, after a random delay ┘
//! ```
//!
//! 1. Take the cursor `$`, then fetch the header and the chunks.
//! 2. Read from that cursor. The header has counted the first of the new items already, as many as it exceeds the number of
//!    items at `$`; the copy skips these. It adds all others as new, even if a chunk had their bits already.
//! 3. Once a reply has all that is new, the copy equals the filter at that cursor, byte for byte, and is fresh.
//!
//! For servers without `BF.READ`, the follower fetches the filter anew now and then, if [`Options::refresh`] is set.
//!
//! The module [`once`] has the rules of additions whose answers the server can repeat.
//!
//! All times are measured from a moment that the driver chooses, by a clock that is never set back.

pub mod clock;
pub mod conversation;
mod copy;
mod error_kind;
mod follower;
mod loading;
pub mod once;
mod tag;

use std::time::Duration;

pub use follower::Follower;
pub use tag::{slot, slot_prefix};
use valkeybloom_protocol::bloom::Read;

/// The most new items in a reply of `BF.READ`: those that the server sends by default. In WebAssembly, they are added in the
/// thread of a program's events, which must not wait for long.
const POLL_ITEMS: u64 = if cfg!(target_family = "wasm") {
    4096
} else {
    Read::MAX_COUNT
};

/// How bindings write the answer to a lookup that only the server has. The others are 0 and 1.
pub const OPEN: u8 = 2;

/// How a copy follows its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The time between two polls: 50 ms by default, and at least 1 ms. Each is shortened by up to a tenth, at random, so
    /// that many followers do not poll in step. A server forgets followers that do not poll for a minute.
    pub every: Duration,
    /// How old a copy may be that answers: 1 s by default. Its age is the time since the last complete poll was sent.
    pub max_age: Duration,
    /// Whether only the server denies items. The copy then only claims items.
    pub confirm: bool,
    /// The time between two fetches from a server without `BF.READ`, at least 1 ms, to which the copy's permitted age is
    /// added. `None`, the default, refuses such servers.
    pub refresh: Option<Duration>,
    /// How far the server that is read from may be behind the one that is written to: 0, the default, if it is the same
    /// one. If the copy lacks an item of the program's for longer, the server that was written to is asked about it.
    pub lag: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            every: Duration::from_millis(50),
            max_age: Duration::from_secs(1),
            confirm: false,
            refresh: None,
            lag: Duration::ZERO,
        }
    }
}

/// A command to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `BF.READ key cursor`, with `MAX_COUNT` in WebAssembly.
    Read(Box<[u8]>),
    /// `BF.SCANDUMP key cursor`, with `WITHID` unless the server has no ids.
    Chunk {
        /// The cursor.
        cursor: u64,
        /// Whether the reply is to have the filter's id.
        with_id: bool,
    },
}

impl Request {
    /// Returns the words of the command.
    pub fn words(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let words = |name: &str, cursor: &[u8]| vec![name.into(), key.to_vec(), cursor.to_vec()];
        match self {
            Self::Read(cursor) if POLL_ITEMS < Read::MAX_COUNT => {
                let most = POLL_ITEMS.to_string().into_bytes();
                [words("BF.READ", cursor), vec![b"MAX_COUNT".to_vec(), most]].concat()
            }
            Self::Read(cursor) => words("BF.READ", cursor),
            Self::Chunk { cursor, with_id } => {
                let mut words = words("BF.SCANDUMP", cursor.to_string().as_bytes());
                words.extend(with_id.then(|| b"WITHID".to_vec()));
                words
            }
        }
    }
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The reply of `BF.READ`.
    News {
        /// The next cursor.
        cursor: &'a [u8],
        /// The number of items that the filter had there.
        items: u64,
        /// 16 bytes for each new item.
        hashes: &'a [u8],
    },
    /// The reply of `BF.SCANDUMP`.
    Chunk {
        /// The next cursor.
        cursor: u64,
        /// The chunk.
        bytes: &'a [u8],
        /// The filter's id, or nothing.
        id: &'a [u8],
    },
    /// An error of the server, with its text. A missing `ERR` at its front does not matter.
    Refused(&'a str),
    /// There was no reply, for this reason. The command may be sent again.
    Lost(&'a str),
}

/// What a driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this command, and pass what becomes of it to [`Follower::take`].
    Send(Request),
    /// Wait until this time.
    Wait(Duration),
}

/// What a follower is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is fetching a copy, or catching up with the filter.
    Syncing,
    /// It has a copy that answers, and polls.
    Following,
    /// The key does not exist, so the filter has no items.
    Missing,
    /// It has a copy that does not answer until the next poll succeeds: it is too old, or lacks an item of the program's.
    Stale,
    /// The server or the key can't be followed, for the reason in [`Stats::last_error`]. It tries again every now and then.
    Refused,
}

impl State {
    /// Returns the name that the packages for Python and JavaScript give to it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Syncing => "syncing",
            Self::Following => "following",
            Self::Missing => "missing",
            Self::Stale => "stale",
            Self::Refused => "refused",
        }
    }
}

/// What a follower has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of replies of `BF.READ`.
    pub polls: u64,
    /// The number of new items in them.
    pub items: u64,
    /// The bytes of chunks and hashes received.
    pub bytes: u64,
    /// The number of copies that were fetched completely.
    pub fetches: u64,
    /// The number of copies that were given up because the filter could no longer be followed.
    pub resyncs: u64,
    /// The number of errors, and of commands without a reply.
    pub errors: u64,
    /// The latest error.
    pub last_error: Option<String>,
}
