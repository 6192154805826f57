//! Why a key is not copied.

use valkeybloom_protocol::error::Error;

use crate::failure::Meaning;
use crate::pair::SideFault;

/// The reason why a key is not copied.
#[derive(Debug, PartialEq)]
pub enum Stop {
    /// It need not be copied.
    Skipped(String),
    /// It can't be copied.
    Refused(String),
    /// It changed during this attempt.
    Changed,
    /// Another client created it at the target during this attempt.
    Taken,
    /// A server failed, perhaps for all keys.
    Fault(SideFault),
}

impl Stop {
    /// Returns the reason for a key that need not be copied.
    pub fn skipped(reason: &str) -> Self {
        Self::Skipped(reason.to_owned())
    }

    /// Returns the reason for a key that can't be copied.
    pub fn refused(reason: &str) -> Self {
        Self::Refused(reason.to_owned())
    }

    /// Returns the reason for a key that the source no longer has.
    pub fn gone() -> Self {
        Self::skipped("it is gone")
    }
}

impl From<SideFault> for Stop {
    fn from(fault: SideFault) -> Self {
        match fault {
            SideFault::Source(fault) if fault.is(Error::NOT_FOUND) => Self::gone(),
            SideFault::Source(fault) if fault.means(Meaning::WrongType) => Self::Changed,
            fault => Self::Fault(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Fault;

    #[test]
    fn only_the_source_shows_that_a_key_changed() {
        let refused = |text: &str| Fault::Refused(text.to_owned());
        for (text, at_source) in [
            ("ERR not found", Some(Stop::gone())),
            ("WRONGTYPE Operation", Some(Stop::Changed)),
            ("OOM command not allowed", None),
        ] {
            let fault = Stop::Fault(SideFault::Source(refused(text)));
            let found = Stop::from(SideFault::Source(refused(text)));
            assert_eq!(found, at_source.unwrap_or(fault));
            let fault = Stop::Fault(SideFault::Target(refused(text)));
            assert_eq!(Stop::from(SideFault::Target(refused(text))), fault);
        }
    }
}
