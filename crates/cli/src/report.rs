//! The results of a run: rows for people, or JSON.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};
use std::process::exit;

use serde_json::Value;

use super::failure::{Failure, Result, visible};

pub use valkeybloom_planner::{Report, grouped, ratio, rounded, to_double as double};

/// Prints text to the standard output, as [`written`] describes.
pub fn print(text: impl Display) {
    written(write!(io::stdout(), "{text}"));
}

/// Returns what came of writing to the standard output, or ends the program.
pub fn written<T>(result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| end_without_output(&error))
}

/// Ends the program because it can't write to the standard output.
pub fn end_without_output(error: &io::Error) -> ! {
    end_if_broken(error);
    warn(format_args!(
        "valkeybloom: could not write to the standard output: {error}"
    ));
    exit(1)
}

/// Ends the program like the signal SIGPIPE, if the reader of a pipe has gone, as `head` does once it has read enough.
pub fn end_if_broken(error: &io::Error) {
    const SIGPIPE: i32 = 13;
    if error.kind() == ErrorKind::BrokenPipe {
        exit(128 + SIGPIPE);
    }
}

/// Prints a line to the standard output, as [`print()`] does.
pub fn print_line(line: impl Display) {
    print(format_args!("{line}\n"));
}

/// Prints a text to the standard error, as one line whatever is in it. A failure is ignored: a run goes on if its log does
/// not.
pub fn warn(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", visible(&text.to_string()));
}

/// Prints the report of a run with this result.
pub fn end(report: Report, json: bool, ended: Result<()>) -> Result<()> {
    if json {
        return print_json(report.json.into(), ended);
    }
    print_rows(report.rows);
    ended
}

/// Prints a failure, and its JSON object.
pub fn fail(failure: Failure, json: bool) {
    warn(format_args!("valkeybloom: {failure}"));
    if json && let Some(found) = failure.into_json() {
        print_line(found);
    }
}

/// Prints the report of a successful run to the standard error, because the standard output has the results.
pub fn end_beside(report: Report, json: bool) {
    if json {
        return warn(serde_json::Value::from(report.json));
    }
    aligned(report.rows).for_each(warn);
}

/// Prints rows of a name and a value, aligned.
pub fn print_rows(rows: Vec<(String, String)>) {
    aligned(rows).for_each(print_line);
}

fn aligned(rows: Vec<(String, String)>) -> impl Iterator<Item = String> {
    let width = rows.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or(0);
    let rows = rows.into_iter();
    rows.map(move |(name, value)| format!("{name:<width$}  {value}"))
}

/// Prints the JSON object of a successful run. A failure keeps the object, which is printed with the error.
pub fn print_json(object: Value, ended: Result<()>) -> Result<()> {
    match (ended, object) {
        (Ok(()), object) => print_line(object),
        (Err(failure), Value::Object(results)) => return Err(failure.with_results(results)),
        (failed, _) => return failed,
    }
    Ok(())
}

/// Rounds an estimate to two digits.
pub fn two_digits(rate: f64) -> String {
    rounded(rate, 2).to_string()
}

/// Returns a number of things, and what is said of one of them, or of several.
pub fn counted_as(number: u64, what: &str, [one, several]: [&str; 2]) -> String {
    let said = if number == 1 { one } else { several };
    format!("{} {said}", counted(number, what))
}

/// Returns a number of things, whose name is that of one.
pub fn counted(number: u64, what: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {what}{end}", grouped(number))
}
