//! The periods of windows, and the server's clock.

use crate::harness::Client;

/// A window of two periods of thirty years each, so that none ends during a test.
pub const LASTING_WINDOW: &str = "WINDOW 1000000000000 PERIODS 2";

/// Returns the server's clock, in milliseconds.
pub fn clock(client: &mut Client) -> u64 {
    let time = client.cmd("TIME");
    let part = |index: usize| -> u64 {
        let text = time.as_array()[index].text();
        text.parse().expect("a number")
    };
    part(0) * 1000 + part(1) / 1000
}
