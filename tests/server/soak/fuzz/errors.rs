//! The texts of refusals, and which of them a command may be answered with.

use std::collections::BTreeSet;

pub const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub const BUSY: &str = "BUSYKEY Target key name already exists.";
pub const LOADING: &str = "ERR bloom object is still being loaded";
pub const NOT_FOUND: &str = "ERR not found";
pub const OVER: &str = "ERR operation exceeds bloom object memory limit";
pub const DEGRADED: &str = "ERR false positive degrades to 0 on scale out";
pub const FULL: &str = "ERR non scaling filter is full";
pub const EXISTS: &str = "ERR item exists";
pub const INVALID_FIELD: &str = "ERR invalid information value";
pub const BAD_CURSOR: &str = "ERR bad cursor";
pub const BAD_DATA: &str = "ERR received bad data";
pub const BAD_TTL: &str = "ERR bad ttl";
pub const BAD_DUMP: &str = "ERR bloom object decoding failed";
pub const NEWER: &str = "ERR bloom object decoding failed. Unsupported version";
pub const TOO_LARGE: &str =
    "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit";
pub const TOO_FINE: &str = "ERR provided VALIDATESCALETO causes false positive to degrade to 0";
pub const NO_WINDOW: &str = "ERR filter was not made with WINDOW";
pub const NO_COUNTERS: &str = "ERR filter was not made with COUNTING";
pub const LONG_TTL: &str = "ERR ttl is longer than the window";
pub const SEEDS: &str = "ERR filters have different seeds";
pub const KINDS: &str = "ERR filters are of different kinds";
pub const RATES: &str = "ERR error rates of the filters add up to 1 or more";

/// The errors that a command may be answered with.
#[derive(Default)]
pub struct Errors {
    /// One of these, where there are any, or of those below.
    pub due: BTreeSet<&'static str>,
    pub possible: BTreeSet<&'static str>,
    /// A refusal is due, in a text that the contract does not specify.
    pub any: bool,
    /// A refusal in an unspecified text is possible, and so is acceptance.
    pub any_possible: bool,
}

impl Errors {
    pub fn due(&mut self, text: &'static str) {
        self.due.insert(text);
    }

    pub fn possible(&mut self, text: &'static str) {
        self.possible.insert(text);
    }
}
