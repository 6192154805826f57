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
        let ask = |command: &str| vec![server.get(key, cmd(command).arg(key))];
        Self::asked(ask).swap_remove(0)
    }

    /// Asks a server for keys side by side. The result has `None` for a key that is gone.
    pub fn of_all(server: &Server, keys: &[&[u8]]) -> Vec<Result<Option<Self>, Fault>> {
        Self::asked(|command| server.get_all(keys, command))
    }

    /// Reads the replies that `ask` gets to a command, one for each key.
    fn asked(ask: impl Fn(&str) -> Vec<Result<i64, Fault>>) -> Vec<Result<Option<Self>, Fault>> {
        let lacks_command =
            |reply: &Result<i64, Fault>| matches!(reply, Err(fault) if fault.lacks_command());
        let times = ask("PEXPIRETIME");
        if !times.iter().any(lacks_command) {
            let read = |time: Result<i64, Fault>| Ok(Self::read(time?, 0, Duration::ZERO));
            return times.into_iter().map(read).collect();
        }
        // Redis 6.2 and older, or a user who may not call it.
        let start = Instant::now();
        let left = ask("PTTL");
        let (now, slack) = (now_ms(), SLACK + start.elapsed());
        let read = |(time, left): (Result<i64, Fault>, Result<i64, Fault>)| match (time, left) {
            (Err(first), Err(second)) if first.is_forbidden() && second.lacks_command() => {
                Err(first)
            }
            (_, left) => Ok(Self::read(left?, now, slack)),
        };
        times.into_iter().zip(left).map(read).collect()
    }

    /// Reads a time in milliseconds since `from`, or a number below zero in place of a time.
    fn read(time: i64, from: u64, slack: Duration) -> Option<Self> {
        (time != -2).then(|| Self {
            ms: u64::try_from(time).ok().map(|ms| ms.saturating_add(from)),
            slack,
        })
    }

    /// Whether it lies between two others, as that of a replica does while its primary changes the time.
    pub fn is_between(&self, one: &Self, other: &Self) -> bool {
        match (one.ms, self.ms, other.ms) {
            (Some(one), Some(own), Some(other)) => (one.min(other)..=one.max(other)).contains(&own),
            _ => false,
        }
    }

    /// The time, if it is known to the millisecond.
    pub fn exact_ms(&self) -> Option<u64> {
        self.ms.filter(|_| self.slack.is_zero())
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
