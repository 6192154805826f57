//! Messages for the operator.

use std::fmt::Arguments;
use std::io::{Write, stderr};

/// Writes a line to standard error. A failure is ignored: the service goes on if its log does not.
pub fn line(text: Arguments) {
    let _ = writeln!(stderr(), "{text}");
}
