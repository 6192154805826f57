//! What is said in conversations: the words of commands, and what may come back.

use std::borrow::Cow;

use valkeybloom_protocol::names::{COUNT_MIN, CUCKOO, T_DIGEST, TOP_K};
use valkeybloom_sketches::bloom::{Dialect, chunks};
use valkeybloom_sketches::{DecodeError, Sketch, cuckoo};

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
    /// The server's value can't be decoded, or there is no memory for the bytes of an object.
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

/// Returns the types of all sketches, as TYPE returns them.
pub fn types() -> impl Iterator<Item = &'static str> {
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

/// Returns the text of the client library's error without the page for programmers that may follow it.
pub fn without_page(error: &str) -> &str {
    let end = error.find(": https://");
    &error[..end.unwrap_or(error.len())]
}

/// Returns the text of a refusal without the arguments that the error for an unknown command repeats.
pub fn without_arguments(refusal: &str) -> &str {
    let end = refusal.find(", with args beginning with");
    &refusal[..end.unwrap_or(refusal.len())]
}

pub fn words<const N: usize>(words: [&[u8]; N]) -> Words<'_> {
    words.map(Cow::Borrowed).into()
}

pub fn number(number: u64) -> Cow<'static, [u8]> {
    number.to_string().into_bytes().into()
}

/// Returns the cursor of the chunk after the one at a cursor, and that chunk: 0 past the end. `None` if there is no memory
/// for it.
pub fn chunk_after(sketch: &Sketch, cursor: u64) -> Option<(u64, Vec<u8>)> {
    let (next, bytes) = match sketch {
        Sketch::Bloom(object) => chunks::piece(object, cursor)?,
        Sketch::Cuckoo(filter) if cursor == 0 => {
            return Some((1, cuckoo::wire::write_header(filter)));
        }
        Sketch::Cuckoo(filter) => cuckoo::wire::chunk(filter, cursor)?,
        _ => (0, Cow::default()),
    };
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).ok()?;
    copy.extend_from_slice(&bytes);
    Some((next, copy))
}
