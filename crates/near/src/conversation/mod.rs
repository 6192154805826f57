//! What clients say to a server to fetch an object, or to store one, without network or clock.
//!
//! A [`Conversation`] says which command to send next, takes what became of it, and ends in an object or a failure. A
//! driver repeats [`next`](Conversation::next) and [`take`](Conversation::take): Python with any client, JavaScript with
//! any client. [`Upload`] has the commands of an upload, for programs that send other values than objects.
//!
//! Every command may arrive twice, because clients send a command again when its reply is lost.

mod fetch;
mod said;
mod store;
mod upload;

use std::time::Duration;

use valkeybloom_sketches::{Seed, Sketch};

use fetch::Fetch;
pub use said::{End, Failure, Reply, Words, reason, without_arguments, without_page};
use store::Store;
pub use store::{Existing, Options};
pub use upload::{Finish, GONE, NewExpiry, Upload, is_temporary};

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
