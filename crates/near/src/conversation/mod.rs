//! What clients say to a server to fetch an object, or to store one, without network or clock.
//!
//! A [`Conversation`] says which command to send next, takes what became of it, and ends in an object or a failure. A
//! driver repeats [`next`](Conversation::next) and [`take`](Conversation::take): Python with any client, JavaScript with
//! any client. [`Upload`] has the commands of an upload, for programs that send other values than objects.
//!
//! Every command may arrive twice, because clients send a command again when its reply is lost.

mod fetch;
mod store;
mod upload;

use std::borrow::Cow;
use std::time::Duration;

use valkeybloom_sketches::bloom::{Dialect, chunks};
use valkeybloom_sketches::{DecodeError, Seed, Sketch, cuckoo};

use valkeybloom_protocol::names::{COUNT_MIN, CUCKOO, T_DIGEST, TOP_K};

use fetch::Fetch;
use store::Store;
pub use store::{Existing, Options};
pub use upload::{Expiry, Finish, Upload, is_temporary};

/// The words of a command.
pub type Words<'w> = Vec<Cow<'w, [u8]>>;

/// What became of a command. `E` is the client's error.
#[derive(Debug)]
pub enum Reply<'r, E> {
    /// The elements of a list, or the reply itself as the only one: bytes, texts, and integers as digits. A null among
    /// the elements is empty, and one that is the reply has no elements.
    Came(&'r [&'r [u8]]),
    /// There is no such reply.
    Failed {
        /// The client's error.
        error: E,
        /// The text of the server's error. Without it, no reply came.
        refusal: Option<&'r str>,
    },
}

/// Why a conversation failed.
#[derive(Debug)]
pub enum Failure<E> {
    /// There is no such key.
    NoKey,
    /// The key has a value of this type, which is not a sketch.
    NoSketch(String),
    /// The key exists, and was to be kept.
    Exists,
    /// Objects of this family can't be merged.
    NotMergeable,
    /// The server's value can't be decoded, or there is no memory for it.
    Undecodable(DecodeError),
    /// The reply is not one of the command.
    Unexpected,
    /// The client's error.
    Client(E),
    /// The client's error for a refusal of the server.
    Refused {
        /// The client's error.
        error: E,
        /// The server's text, and what to do about it.
        text: String,
    },
}

/// The end of a conversation: the object that was fetched, or nothing once an object is stored.
pub type End<E> = Result<Option<Sketch>, Failure<E>>;

/// An exchange of commands and replies.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a program holds few conversations"
)]
pub enum Conversation<E> {
    /// An object is fetched.
    Fetch(Fetch<E>),
    /// An object is stored.
    Store(Store<E>),
    /// There is nothing more to send.
    Ended(End<E>),
}

impl<E> Conversation<E> {
    /// Begins to fetch the object of a key. The seed is for searches in top-k lists.
    pub fn fetch(key: &[u8], seed: Seed) -> Self {
        Self::Fetch(Fetch::new(key, seed))
    }

    /// Begins to store an object under a key. `prefix` is what the client puts before each key. `random` is a number that
    /// no other upload has.
    pub fn store(prefix: &[u8], key: &[u8], sketch: Sketch, options: Options, random: u64) -> Self {
        match Store::new(Upload::new(prefix, key, random), sketch, options) {
            Ok(store) => Self::Store(store),
            Err(failure) => Self::Ended(Err(failure)),
        }
    }

    /// Returns the command to send next; `None` at the end.
    pub fn next(&mut self, now: Duration) -> Option<Words<'_>> {
        match self {
            Self::Fetch(fetch) => Some(fetch.next()),
            Self::Store(store) => Some(store.next(now)),
            Self::Ended(_) => None,
        }
    }

    /// Takes what became of the command that [`next`](Self::next) returned last.
    pub fn take(&mut self, reply: Reply<'_, E>) {
        let end = match self {
            Self::Fetch(fetch) => fetch.take(reply),
            Self::Store(store) => store.take(reply),
            Self::Ended(_) => None,
        };
        if let Some(end) = end {
            *self = Self::Ended(end);
        }
    }

    /// Returns the end; [`Failure::Unexpected`] before it.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub fn end(self) -> End<E> {
        match self {
            Self::Ended(end) => end,
            _ => Err(Failure::Unexpected),
        }
    }
}

/// Returns the types of all sketches, as TYPE returns them.
fn types() -> impl Iterator<Item = &'static str> {
    let dialects = Dialect::ALL.into_iter();
    let filters = dialects.map(|dialect| dialect.type_name().to_str().unwrap_or_default());
    filters.chain([CUCKOO, COUNT_MIN, TOP_K, T_DIGEST])
}

/// Returns the text of a refusal, without the line of a script.
pub fn reason(refusal: &str) -> &str {
    match refusal.rsplit_once(" script: ") {
        Some((text, line)) if line.contains("@user_script") => text,
        _ => refusal,
    }
}

fn words<const N: usize>(words: [&[u8]; N]) -> Words<'_> {
    words.map(Cow::Borrowed).into()
}

fn number(number: u64) -> Cow<'static, [u8]> {
    number.to_string().into_bytes().into()
}

/// Returns the cursor of the chunk after the one at a cursor, and that chunk: 0 past the end. `None` if there is no memory
/// for it.
fn piece(sketch: &Sketch, cursor: u64) -> Option<(u64, Vec<u8>)> {
    let (next, bytes) = match sketch {
        Sketch::Bloom(object) => chunks::piece(object, cursor)?,
        Sketch::Cuckoo(filter) if cursor == 0 => {
            return Some((1, cuckoo::wire::write_header(filter)));
        }
        Sketch::Cuckoo(filter) => cuckoo::wire::chunk(filter, cursor)
            .ok()?
            .unwrap_or_default(),
        _ => (0, Cow::default()),
    };
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).ok()?;
    copy.extend_from_slice(&bytes);
    Some((next, copy))
}
