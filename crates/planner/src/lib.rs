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

pub use bloom::{Bloom, Figures, Shards};
pub use cuckoo::Cuckoo;
pub use form::answer;
pub use limits::{Limits, stored};
pub use picture::{Curve, Picture};
pub use report::{Report, grouped, ratio, rounded, to_double};
pub use sketch::{CountMin, TDigest, TopK};

/// A filter or a sketch to plan, for a server with some limits.
pub trait Request {
    /// Returns the figures and the command. A plan beyond the limits is one, too: its refusal says which limit to raise.
    ///
    /// # Errors
    /// A parameter is invalid, or no server has the memory, whatever its limits are.
    fn plan(&self, limits: &Limits) -> Result<Planned, Fault>;

    /// Returns pictures of what the filter or sketch takes with fewer items or other parameters, and with more; none if there
    /// is no plan.
    fn pictures(&self, limits: &Limits) -> Vec<Picture>;
}

/// A plan.
#[derive(Debug, Default)]
pub struct Planned {
    /// The figures, and the command.
    pub report: Report,
    /// Why a server with these limits can't hold it, and what to do about it; `None` if it can.
    pub refusal: Option<String>,
}

/// The reason that there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name of the field of the page that is wrong.
    pub field: &'static str,
    /// What is wrong.
    pub text: String,
    /// Why there is no plan.
    pub kind: FaultKind,
}

/// The kinds of [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The request makes no sense, whatever the size of the machine.
    Invalid,
    /// No memory is large enough, or no filter can grow so far.
    Impossible,
}

impl Fault {
    /// Reports a value that no server takes.
    pub fn invalid(field: &'static str, text: impl Into<String>) -> Self {
        Self {
            field,
            text: text.into(),
            kind: FaultKind::Invalid,
        }
    }

    /// Reports a request that no machine can meet.
    pub fn impossible(field: &'static str, text: impl Into<String>) -> Self {
        Self {
            kind: FaultKind::Impossible,
            ..Self::invalid(field, text)
        }
    }
}
