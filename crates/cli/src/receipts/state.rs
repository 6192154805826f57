//! What is known about a run: which items are done, and what the same command does after it.

use crate::report::counted_as;

const CONTINUES: &str = "with unchanged files, and as long as the server keeps the receipt (a week by default), the same command continues from there";
const APPLIES_TWICE: &str = "the same command would apply them twice";
const PASS_LATER: &str = "pass only the later items, some of which may be done too";
const ANSWERS_LOST: &str = "the server's answers for some items are lost, so which of them are new can't be known: run all inputs again, with another key";
const FILTER_GONE: &str = "the filter is gone, so which of the later items are new can't be known: run all inputs again, with another key";
const OUTPUT_CHANGED: &str = "restore that file, or run all inputs again, with another key";

/// What is known about a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// The same command begins anew, whatever is done.
    Restarts,
    /// The same command reads the input again, after the items that are done: at least this number.
    Continues(u64),
    /// The same command reads the input again, and leaves out the items that are done: some of the first may be.
    Begun,
    /// The same command would apply items again, because a receipt is gone. At least this number are done.
    Lost(u64),
    /// The input is a pipe, which the same command can't read again.
    Pipe(Piped),
    /// No command can continue the run.
    Discarded(Reason),
}

/// Which items of a pipe are done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Piped {
    /// None: no command got an answer, and no reply was lost.
    Nothing,
    /// Perhaps some, but it is unknown which.
    Unknown,
    /// The first ones.
    First(u64),
}

/// Why a run can't be continued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The run prints items by the answers to them, and the server has lost some of these.
    AnswersLost,
    /// The filter that knew the items so far is gone.
    FilterGone,
    /// A file that an earlier run printed is not as that run left it.
    OutputChanged,
}

impl State {
    /// Notes how many items are done, which are the first of the input.
    pub fn set_first_done(&mut self, done: u64) {
        match self {
            Self::Restarts | Self::Discarded(_) => {}
            // An earlier run may have done more.
            Self::Continues(before) | Self::Lost(before) => *before = done.max(*before),
            Self::Begun | Self::Pipe(_) if done == 0 => {}
            Self::Begun => *self = Self::Continues(done),
            Self::Pipe(before) => *before = Piped::First(done),
        }
    }

    /// Returns what is known after a call that the server has executed, or may have executed.
    pub fn after_call(self) -> Self {
        match self {
            Self::Continues(0) => Self::Begun,
            Self::Pipe(Piped::Nothing) => Self::Pipe(Piped::Unknown),
            _ => self,
        }
    }

    /// Takes back items that the receipt of a key no longer has: it has the first `to` items of the key. With none, it is gone.
    pub fn forget(&mut self, to: u64, is_in_order: bool) {
        match self {
            Self::Restarts | Self::Discarded(_) => {}
            _ if to == 0 => self.lose_receipt(),
            Self::Begun => {}
            Self::Continues(done) | Self::Lost(done) => *done = to.min(*done),
            Self::Pipe(Piped::First(done)) if is_in_order => *done = to.min(*done),
            Self::Pipe(done) => *done = Piped::Unknown,
        }
    }

    /// Notes that a receipt is gone. It does not change which items of a pipe are done.
    fn lose_receipt(&mut self) {
        match self {
            Self::Continues(done) => *self = Self::Lost(*done),
            Self::Begun => *self = Self::Lost(0),
            _ => {}
        }
    }

    /// Returns whether the same command may be run again.
    pub fn is_repeatable(self) -> bool {
        use Piped::Nothing;
        matches!(
            self,
            Self::Restarts | Self::Continues(_) | Self::Begun | Self::Pipe(Nothing)
        )
    }

    /// Returns what is done, and how to continue; `None` if the same command begins with the first item.
    pub fn note(self) -> Option<String> {
        let some = "some items may be done";
        let at_least = |done| format!("at least {}", are_done(done));
        Some(match self {
            Self::Restarts | Self::Continues(0) | Self::Pipe(Piped::Nothing) => return None,
            Self::Continues(done) => format!("{}; {CONTINUES}", at_least(done)),
            Self::Begun => format!("{some}; {CONTINUES}"),
            Self::Lost(0) => format!("{some}; {APPLIES_TWICE}"),
            Self::Lost(done) => format!("{}; {APPLIES_TWICE}", at_least(done)),
            Self::Pipe(Piped::Unknown) => some.to_owned(),
            Self::Pipe(Piped::First(done)) => format!("the first {}; {PASS_LATER}", are_done(done)),
            Self::Discarded(Reason::AnswersLost) => ANSWERS_LOST.to_owned(),
            Self::Discarded(Reason::FilterGone) => FILTER_GONE.to_owned(),
            Self::Discarded(Reason::OutputChanged) => OUTPUT_CHANGED.to_owned(),
        })
    }
}

/// Returns a text like "5 items are done".
fn are_done(items: u64) -> String {
    counted_as(items, "item", ["is done", "are done"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_is_done_and_how_to_continue() {
        for (state, parts) in [
            (State::Restarts, &[][..]),
            (State::Continues(0), &[]),
            (
                State::Continues(5000),
                &["at least 5,000 items are done", CONTINUES],
            ),
            (State::Begun, &["some items may be done", CONTINUES]),
            (State::Lost(0), &["some items may be done", APPLIES_TWICE]),
            (State::Lost(1), &["at least 1 item is done", APPLIES_TWICE]),
            (State::Pipe(Piped::Nothing), &[]),
            (State::Pipe(Piped::Unknown), &["some items may be done"]),
            (
                State::Pipe(Piped::First(5000)),
                &["the first 5,000 items are done", PASS_LATER],
            ),
            (State::Discarded(Reason::FilterGone), &[FILTER_GONE]),
            (State::Discarded(Reason::OutputChanged), &[OUTPUT_CHANGED]),
        ] {
            let note = (!parts.is_empty()).then(|| parts.join("; "));
            assert_eq!(state.note(), note, "{state:?}");
        }
    }

    #[test]
    fn items_that_an_earlier_run_did_stay_done_while_they_are_skipped() {
        let first = |done| State::Pipe(Piped::First(done));
        for (state, done, expected) in [
            (State::Continues(5000), 3000, State::Continues(5000)),
            (State::Continues(5000), 7000, State::Continues(7000)),
            (State::Begun, 0, State::Begun),
            (State::Begun, 3000, State::Continues(3000)),
            (State::Lost(5000), 3000, State::Lost(5000)),
            (State::Pipe(Piped::Nothing), 0, State::Pipe(Piped::Nothing)),
            (State::Pipe(Piped::Unknown), 3000, first(3000)),
            (State::Restarts, 3000, State::Restarts),
        ] {
            let mut found = state;
            found.set_first_done(done);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn items_that_an_older_receipt_lacks_are_not_done() {
        let first = |done| State::Pipe(Piped::First(done));
        for (state, to, is_in_order, expected) in [
            (State::Continues(5000), 3000, false, State::Continues(3000)),
            (State::Continues(5000), 0, false, State::Lost(5000)),
            (State::Begun, 0, false, State::Lost(0)),
            (State::Lost(5000), 3000, true, State::Lost(3000)),
            // Another key's items may be done.
            (State::Continues(5000), 7000, false, State::Continues(5000)),
            (first(5000), 3000, true, first(3000)),
            // They are done, whatever has become of the receipt.
            (first(5000), 0, true, first(5000)),
            // Some of a pipe's first 3,000 items may come after others in their block.
            (first(5000), 3000, false, State::Pipe(Piped::Unknown)),
        ] {
            let mut found = state;
            found.forget(to, is_in_order);
            assert_eq!(found, expected);
        }
    }
}
