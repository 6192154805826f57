//! Plans: the memory, the limits and the command of a filter or a sketch that is not made yet.
//!
//! ```text
//!   the options of `valkeybloom size` ┐
//!                                     ├→ Request → Planned: rows for people, values for programs, pictures
//!   the fields of docs/calculator.html┘
//! ```
//!
//! Every figure comes from [`valkeybloom_sketches`]. The figures are those of a 64-bit server, on whatever machine this
//! runs; there is no clock and no I/O.

#![forbid(unsafe_code)]

mod bloom;
mod cuckoo;
mod form;
mod limits;
mod picture;
mod python;
mod report;
mod sketch;
pub mod words;

pub use bloom::{Bloom, Shards};
pub use cuckoo::Cuckoo;
pub use form::answer;
pub use limits::{Limits, STORED_BYTES};
pub use picture::{Curve, Picture, to_double};
pub use report::{Report, grouped, ratio, rounded};
pub use sketch::{CountMin, TDigest, TopK};

/// A filter or a sketch to plan.
pub trait Request {
    /// Plans it.
    ///
    /// # Errors
    /// The parameter that no server takes.
    fn plan(&self, limits: &Limits) -> Result<Planned, Fault>;

    /// Returns pictures of the plan, and of what its neighbours take.
    fn pictures(&self, limits: &Limits) -> Vec<Picture>;
}

/// A plan.
#[derive(Debug, Default)]
pub struct Planned {
    /// The figures, and the command.
    pub report: Report,
    /// Why a server with these limits refuses the command, and what to do about it; `None` if it does not.
    pub refusal: Option<String>,
}

/// The reason that there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name of the field of the page that is wrong.
    pub field: &'static str,
    /// What is wrong.
    pub text: String,
    /// Whether the request makes no sense, whatever the size of the machine.
    pub is_invalid: bool,
}

impl Fault {
    /// Reports a value that no server takes.
    pub fn invalid(field: &'static str, text: impl Into<String>) -> Self {
        Self {
            field,
            text: text.into(),
            is_invalid: true,
        }
    }

    /// Reports a plan that no memory is large enough for.
    pub fn impossible(field: &'static str, text: impl Into<String>) -> Self {
        Self {
            is_invalid: false,
            ..Self::invalid(field, text)
        }
    }
}
