//! What every foreign language needs of the sketches of valkeybloom and the crate `sketches` should not know. The
//! Python package (`crates/python`) and the C library (`crates/c`) are thin layers over it.
//!
//! - **One type for each family**: [`Bloom`], [`Cuckoo`], [`CountMin`], [`TopK`], [`TDigest`]. A method takes words or
//!   numbers and returns what the command of the server returns, or an [`Error`]. No rule of a family stands here: what a
//!   client may ask is parsed by the crate `protocol`, from the words of the command, so that a refusal is the same in
//!   every language and on the server.
//! - **What families have in common** is in [`Family`] and [`Chunked`]: bytes, chunks, copies, equality. [`decode`] reads
//!   an object of any family.
//! - **Items are bytes.** How a language makes bytes of its strings and numbers is one rule: text is its UTF-8, a number
//!   its decimal digits, and nothing else is an item.
//! - **A [`Batch`]** is many items as slices, wherever they are in memory: between offsets, as [arrays of Arrow](arrow), at
//!   equal distances ([`Strided`]), or collected one by one ([`Text`]). Answers go to a slice of the caller's.
//! - **[`Shared`]** is the lock around an object. It also takes the locks of several objects, in an order that can't
//!   block.
//! - **An [`Error`]** is a [`Code`], which a language maps to exceptions or a status, and a text.
//!
//! ```
//! use valkeybloom_bindings::{Bloom, Family, Moment, Shared, Text};
//!
//! let words = [&b"0.01"[..], b"1000", b"EXPANSION", b"2"];
//! let filter = Shared::new(Bloom::reserve(&words, None, None)?);
//!
//! let mut items = Text::new();
//! items.push(b"red")?;
//! items.push_integer(42)?;
//! let new = filter.write(|filter| filter.update(&items.batch()?, &Moment::default()))??;
//! assert_eq!(new, 2);
//!
//! let mut answers = [0; 2];
//! filter.read(|filter| filter.contains_each(&items.batch()?, None, &mut answers))??;
//! assert_eq!(answers, [1, 1]);
//!
//! let bytes = filter.read(Family::to_bytes)??;
//! assert!(Bloom::from_bytes(&bytes)?.contains(b"42", None));
//! assert_eq!(Bloom::reserve(&[b"2", b"1000"], None, None).unwrap_err().text(), "(0 < error rate range < 1)");
//! # Ok::<(), valkeybloom_bindings::Error>(())
//! ```
//!
//! # How the C library stands on it
//!
//! - A handle is a pointer to a boxed `Shared` of a family: `valkeybloom_bloom *`, `valkeybloom_cuckoo *`,
//!   `valkeybloom_count_min *`, `valkeybloom_top_k *`, `valkeybloom_tdigest *`, each with its own `…_free`, which takes
//!   null. `valkeybloom_decode` tells the family of bytes.
//! - A function returns a status: 0, or the number of a [`Code`]. Results go to places that the caller names. The text of
//!   a thread's last error is had by `valkeybloom_last_error`. One wrapper catches unwinding at every border: it should
//!   never be needed, and its status is that of [`Code::Broken`].
//! - An item is a pointer and a length. A batch is data with offsets of 32 or 64 bits ([`Batch::push_small`],
//!   [`Batch::push_large`]), or a pair of `struct ArrowSchema *` and `struct ArrowArray *` ([`arrow::push`]). Answers go
//!   to an array of bytes, one for each item, that the caller brings.
//! - Parameters are numbers in the call, formatted as the words that `reserve` takes; what is rarely given is in options
//!   at their end, as `NAME`, `value` pairs.
//! - Bytes that are returned are a `valkeybloom_buffer` of pointer and length, freed by `valkeybloom_buffer_free`.
//! - A new method of a family is one method here, and one function there, next to those of its family.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "it reads memory that other languages own")]
pub mod arrow;
mod batch;
mod bloom;
mod cms;
mod cuckoo;
mod error;
mod family;
mod shared;
#[allow(unsafe_code, reason = "it reads memory that other languages own")]
mod strided;
mod tdigest;
mod topk;
mod views;

pub use batch::{Batch, Items, Text};
pub use bloom::{Bloom, Moment};
pub use cms::CountMin;
pub use cuckoo::Cuckoo;
pub use error::{Code, Error};
pub use family::{Chunked, Family, Loader, decode, name_of};
pub use shared::Shared;
pub use strided::{Element, Strided};
pub use tdigest::TDigest;
pub use topk::{Left, TopK};

use valkeybloom_sketches::Seed;

/// Returns a new seed, which no one can guess.
fn random_seed() -> Result<Seed, Error> {
    let mut bytes = [0; 32];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|_| Error::new(Code::Refused, "the system has no random numbers"))?;
    Ok(Seed::new(bytes))
}
