//! When keys expire, and whether two servers agree on it.

use std::time::{Duration, Instant};

use redis::cmd;

use super::failure::Fault;
use super::place::now_ms;
use super::server::Server;

/// How far off a time from PTTL may be, besides the length of the call. PTTL counts from a moment between the command
/// and its reply, on the server's clock; and the run that set the time at the target may have read it in the same way.
const SLACK: Duration = Duration::from_secs(1);

/// When a key expires, as its server says.
pub struct Expiry {
    /// In milliseconds since the epoch; `None` for a key without a time to live.
    pub ms: Option<u64>,
    /// How far off it may be: 0 if it was read by PEXPIRETIME.
    slack: Duration,
}

impl Expiry {
    /// Asks a server. Returns `None` if the key is gone.
    pub fn of(server: &Server, key: &[u8]) -> Result<Option<Self>, Fault> {
        let ask = |command| server.get::<i64>(key, cmd(command).arg(key));
        let (time, from_now, slack) = match ask("PEXPIRETIME") {
            // Redis 6.2 and older, or a user who may not call it.
            Err(fault) if fault.lacks_command() => {
                let asked = Instant::now();
                let left = match ask("PTTL") {
                    Err(second) if second.lacks_command() && fault.is_forbidden() => Err(fault),
                    left => left,
                };
                (left, now_ms(), SLACK + asked.elapsed())
            }
            time => (time, 0, Duration::ZERO),
        };
        Ok(match time? {
            -2 => None,
            ms => Some(Self {
                ms: u64::try_from(ms).ok().map(|ms| ms.saturating_add(from_now)),
                slack,
            }),
        })
    }

    /// Compares with the same key at the target, and returns what differs there, in words.
    pub fn difference(&self, there: &Self) -> Option<String> {
        match (self.ms, there.ms) {
            (None, None) => None,
            (Some(_), None) => Some("it has no time to live there".to_owned()),
            (None, Some(_)) => Some("it has a time to live there".to_owned()),
            (Some(here), Some(there_ms)) => {
                let off = Duration::from_millis(here.abs_diff(there_ms));
                let word = if there_ms < here { "earlier" } else { "later" };
                (off > self.slack + there.slack)
                    .then(|| format!("it expires {} ms {word} there", off.as_millis()))
            }
        }
    }
}
