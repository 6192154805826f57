//! The state of a run under way, which replies change. An interrupt reports the latest state.

use std::cell::RefCell;

use super::state::{Reason, State};
use crate::failure::Failure;
use crate::interrupt;

/// How a run sends its items, which determines what a receipt says about them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sending {
    /// In the order of the input, so that a receipt's items are the first.
    InOrder,
    /// In another order within a block, or to several keys.
    OutOfOrder,
    /// In the order of the input, and the run can't go on without the answers to earlier calls.
    ForAnswers,
}

/// What is known about a run under way.
pub struct Status {
    /// In a cell because replies are taken through shared references.
    state: RefCell<State>,
    sending: Sending,
}

impl Status {
    pub const fn new(state: State, sending: Sending) -> Self {
        let state = RefCell::new(state);
        Self { state, sending }
    }

    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Changes the state, and what an interrupt reports.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.borrow_mut();
        change(&mut state);
        // An interrupt may leave a call without its reply.
        if let Some(note) = state.after_call().note() {
            interrupt::say(note);
        }
    }

    /// Notes a call that the server has executed, or may have executed.
    pub fn note_call(&self) {
        self.change(|state| *state = state.after_call());
    }

    /// Notes that the receipt of a key has only the first `to` of its items.
    pub fn forget(&self, to: u64) {
        match self.sending {
            Sending::ForAnswers => self.discard(Reason::AnswersLost),
            sending => self.change(|state| state.forget(to, sending == Sending::InOrder)),
        }
    }

    /// Sets the number of items that are done, which are the first of the input.
    pub fn set_first_done(&self, done: u64) {
        self.change(|state| state.set_first_done(done));
    }

    /// Sets the number of items that are done, within a block. If they are not the first of the input, a run whose input can't
    /// be read again ignores it: such items can't be left out.
    pub fn set_done_in_block(&self, done: u64) {
        let is_pipe = matches!(self.state(), State::Pipe(_));
        if self.sending != Sending::OutOfOrder || !is_pipe {
            self.set_first_done(done);
        }
    }

    /// Notes that no command can continue the run.
    pub fn discard(&self, reason: Reason) {
        self.change(|state| *state = State::Discarded(reason));
    }

    /// Adds to a failure of the run what is done, and how to continue.
    pub fn explain(&self, mut failure: Failure) -> Failure {
        let state = self.state();
        if !state.is_repeatable() {
            failure = failure.without_retry();
        }
        match state.note() {
            Some(note) => failure.with_note(&note),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Piped;
    use super::*;

    #[test]
    fn items_of_a_pipe_are_known_within_a_block_if_they_are_sent_in_order() {
        let (pipe, files) = (State::Pipe(Piped::Unknown), State::Continues(0));
        for (state, sending, expected) in [
            (pipe, Sending::InOrder, State::Pipe(Piped::First(7))),
            (pipe, Sending::OutOfOrder, pipe),
            (pipe, Sending::ForAnswers, State::Pipe(Piped::First(7))),
            (files, Sending::OutOfOrder, State::Continues(7)),
        ] {
            let status = Status::new(state, sending);
            status.set_done_in_block(7);
            assert_eq!(status.state(), expected, "{sending:?}");
        }
    }

    #[test]
    fn only_a_run_that_needs_answers_ends_without_them() {
        let first = |done| State::Pipe(Piped::First(done));
        for (sending, expected) in [
            (Sending::InOrder, first(3)),
            (Sending::OutOfOrder, State::Pipe(Piped::Unknown)),
            (Sending::ForAnswers, State::Discarded(Reason::AnswersLost)),
        ] {
            let status = Status::new(first(7), sending);
            status.forget(3);
            assert_eq!(status.state(), expected, "{sending:?}");
        }
    }
}
