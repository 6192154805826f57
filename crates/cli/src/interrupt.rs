//! Signals that end a run, which says what it has done before it ends.

use std::borrow::Cow;
use std::process::exit;
use std::sync::{Mutex, PoisonError};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::failure::{Failure, Result};
use super::report;

/// What a run says if it is interrupted now.
static NOTE: Mutex<Cow<'static, str>> = Mutex::new(Cow::Borrowed("this can be run again"));

/// Has signals end the program with the status of one that they killed. A thread waits for them, because a run may itself
/// wait for a server or for somebody who types.
pub fn watch(json: bool) -> Result<()> {
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| Failure::new(error.to_string()))?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let note = NOTE.lock().unwrap_or_else(PoisonError::into_inner);
            let failure = Failure::new(format!("interrupted: {note}"));
            report::fail(failure, json);
            exit(128 + signal);
        }
    });
    Ok(())
}

/// Sets what the run says if it is interrupted from now on.
pub fn say(note: impl Into<Cow<'static, str>>) {
    *NOTE.lock().unwrap_or_else(PoisonError::into_inner) = note.into();
}
