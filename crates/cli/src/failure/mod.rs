//! Errors in one line: what failed, where, and what to do about it.

mod fault;
mod meaning;
mod shown;

use std::fmt::{self, Display};

use serde_json::{Map, Value};

use fault::RETRY;
pub use fault::{Fault, unless_refused};
pub use meaning::Meaning;
pub use shown::{shown, text_of, visible, word};

/// The error of a run.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// Whether another attempt would fail as well.
    pub is_permanent: bool,
    text: String,
    /// What to do about it.
    advice: Option<&'static str>,
    /// What else is to be said.
    notes: String,
    report: Report,
}

/// The JSON object that reports a failed run.
#[derive(Debug)]
enum Report {
    /// It is still to be written, with these results before the failure.
    Due(Map<String, Value>),
    /// It is written already, or the output has no place for it, because it is for records.
    Written,
}

/// The result of a subcommand, or of a step of one.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Reports invalid words on the command line: status 2, like clap's errors.
    pub fn usage(text: impl Into<String>) -> Self {
        Self {
            status: 2,
            ..Self::new(text)
        }
    }

    /// Reports any other failure: status 1.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            status: 1,
            is_permanent: false,
            text: text.into(),
            advice: None,
            notes: String::new(),
            report: Report::Due(Map::new()),
        }
    }

    /// Reports that a server did not execute a command, and what to do about it.
    pub fn of_fault(what: impl Display, fault: &Fault) -> Self {
        Self {
            is_permanent: fault.needs_operator(),
            advice: fault.advice(),
            ..Self::new(format!("{what}: {fault}"))
        }
    }

    /// Adds the results before the failure.
    pub fn with_results(self, results: Map<String, Value>) -> Self {
        let report = Report::Due(results);
        Self { report, ..self }
    }

    /// Appends what else is to be said.
    pub fn with_note(self, text: &str) -> Self {
        let notes = format!("{}; {text}", self.notes);
        Self { notes, ..self }
    }

    /// Takes back the advice to run the same command again.
    pub fn without_retry(self) -> Self {
        let advice = self.advice.filter(|advice| *advice != RETRY);
        Self { advice, ..self }
    }

    /// Marks the JSON object of the run as written already, or as one that the output has no place for.
    pub fn already_written(self) -> Self {
        let report = Report::Written;
        Self { report, ..self }
    }

    /// Returns the JSON object of the run, if it is due: the results before the failure, and `error`.
    pub fn into_json(self) -> Option<Value> {
        let error = self.to_string();
        let Report::Due(mut results) = self.report else {
            return None;
        };
        results.insert("error".to_owned(), error.into());
        Some(results.into())
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Texts of servers and of the system may have several lines.
        let text = self.text.lines().map(str::trim).collect::<Vec<_>>();
        f.write_str(&text.join(" "))?;
        if let Some(advice) = self.advice {
            write!(f, "; {advice}")?;
        }
        f.write_str(&self.notes)
    }
}
