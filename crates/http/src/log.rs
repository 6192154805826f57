//! Messages for the operator.

use std::fmt::Arguments;
use std::io::{Write, stderr};
use std::time::SystemTime;

/// Writes a line with the time to standard error. A failure is ignored: the service goes on if its log does not.
pub fn line(text: Arguments) {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    let _ = writeln!(stderr(), "{now} {text}");
}
