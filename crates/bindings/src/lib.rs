//! The sketches of valkeybloom for other languages. The Python package (`crates/python`), and the functions of the C library and
//! of the npm package (`crates/ffi`), are thin layers over this crate.
//!
//! - **One type for each family**: [`Bloom`], [`Cuckoo`], [`CountMin`], [`TopK`], [`TDigest`]. A method takes words or
//!   numbers and returns what the server's command returns, or an [`Error`]. No family's rules are repeated here: the
//!   crate `protocol` parses the words of the command, so every language refuses what the server refuses, with the same
//!   text.
//! - **[`Family`] and [`Chunked`]** have what all families share: bytes, chunks, copies, equality. [`decode`] reads an
//!   object of any family.
//! - **Items are bytes.** All languages convert their values by one rule: text is its UTF-8, a number is its decimal
//!   digits, and nothing else is an item.
//! - **A [`Batch`]** is many items as slices: between offsets, in [Arrow arrays](arrow), at equal distances
//!   ([`Strided`]), or collected one by one ([`Text`]). Answers go to a slice of the caller's.
//! - **[`Shared`]** is the lock around an object. It also locks several objects at once, without deadlocks.
//! - **An [`Error`]** is a [`Code`], which a language maps to an exception or a status, and a text.
//!
//! ```
//! use valkeybloom_bindings::{Bloom, Family, Moment, Shared, Text};
//!
//! let words = [&b"0.01"[..], b"1000", b"EXPANSION", b"2"];
//! let filter = Shared::new(Bloom::reserve(&words, None)?);
//!
//! let mut items = Text::new();
//! items.push(b"red")?;
//! items.push_integer(42)?;
//! let new = filter.write(|filter| filter.add_each(&items.batch()?, &Moment::default(), &mut []))??;
//! assert_eq!(new, 2);
//!
//! let mut answers = [0; 2];
//! filter.read(|filter| filter.contains_each(&items.batch()?, None, &mut answers))??;
//! assert_eq!(answers, [1, 1]);
//!
//! let bytes = filter.read(Family::to_bytes)??;
//! assert!(Bloom::from_bytes(&bytes)?.contains(b"42", None));
//! assert_eq!(Bloom::reserve(&[b"2", b"1000"], None).unwrap_err().text(), "(0 < error rate range < 1)");
//! # Ok::<(), valkeybloom_bindings::Error>(())
//! ```
//!
//! # The mapping to C
//!
//! - A handle is a `valkeybloom_object *`: a pointer to a boxed object of any family, behind a `Shared`. Functions that
//!   families share take any of them; the others say in their name which family they take.
//! - A function returns a status: 0, or the number of a [`Code`]. Results go to places that the caller names.
//!   `valkeybloom_last_error` returns the text of a thread's last error. One wrapper around every function catches
//!   panics, which would be bugs, and returns the status of [`Code::Broken`].
//! - An item is a pointer and a length. A batch is data with offsets of 32 or 64 bits ([`Batch::push_small`],
//!   [`Batch::push_large`]), or a pair of `struct ArrowSchema *` and `struct ArrowArray *` ([`arrow::push`]). Answers
//!   go to the caller's array of bytes, one for each item.
//! - Required parameters are numbers, formatted as the words that `reserve` takes. Options are a text of words, such as
//!   `EXPANSION 4`. JavaScript passes the options of items, AT and TTL, as numbers instead.
//! - Returned bytes are a `valkeybloom_buffer` of pointer and length, freed by `valkeybloom_buffer_free`.
//! - A new method of a family is one method here and one function there.

#[allow(unsafe_code, reason = "it reads memory that other languages own")]
pub mod arrow;
mod batch;
mod bloom;
mod cms;
mod cuckoo;
mod decode;
mod error;
mod family;
#[allow(unsafe_code, reason = "it declares functions of JavaScript")]
mod host;
mod items;
mod limits;
mod shared;
#[allow(unsafe_code, reason = "it reads memory that other languages own")]
mod strided;
mod tdigest;
mod topk;
mod views;
mod words;

pub use batch::{Batch, copied};
pub use bloom::{Bloom, moment, parse_moment};
pub use cms::CountMin;
pub use cuckoo::Cuckoo;
pub use decode::decode;
pub use error::{Code, Error};
pub use family::{Chunked, Family, Loader, name_of};
pub use items::{Items, Text};
pub use limits::limit_growth;
pub use shared::Shared;
pub use strided::{Element, Strided};
pub use tdigest::TDigest;
pub use topk::{Expelled, TopK};
pub use valkeybloom_protocol::bloom::Moment;
pub use valkeybloom_sketches::Sketch;
pub use valkeybloom_sketches::bloom::{Kind, Window};
pub use valkeybloom_sketches::tdigest::Compressed;

use valkeybloom_sketches::Seed;

/// Returns a new random seed, which can't be guessed.
///
/// # Errors
/// If the system has no random numbers.
pub fn random_seed() -> Result<Seed, Error> {
    host::random().map(Seed::new)
}
