//! The expiry times of keys, and their comparison between two servers.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::cmd;

use valkeybloom_protocol::error::Error;

use super::failure::{Fault, Meaning};
use super::server::Server;

/// The error of a time from PTTL, besides the length of the call. PTTL counts from a moment between the command and its
/// reply, on the server's clock. The run that set the time at the target may have read it by PTTL as well.
const SLACK: Duration = Duration::from_secs(1);

/// The expiry time of a key, as its server reports it.
#[derive(PartialEq)]
pub struct Expiry {
    /// In milliseconds since the epoch; `None` for a key without a time to live.
    pub ms: Option<u64>,
    /// The largest possible error: 0 for a time from PEXPIRETIME. It does not include differences between the clocks of a
    /// cluster's nodes, or the error of this machine's clock, which counts where the user may not call TIME.
    slack: Duration,
}

/// Returns the time of this machine, in milliseconds since the epoch.
fn local_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

impl Expiry {
    /// Reads the expiry time of a key.
    pub fn of(server: &Server, key: &[u8]) -> Result<Self, Fault> {
        let call = |command: &str| vec![server.query(key, cmd(command).arg(key))];
        Self::read_all(call, || server.time_ms(key)).swap_remove(0)
    }

    /// Reads the expiry times of keys, in parallel.
    pub fn of_all(server: &Server, keys: &[&[u8]]) -> Vec<Result<Self, Fault>> {
        let key = keys.first().copied().unwrap_or_default();
        Self::read_all(
            |command| server.query_all(keys, command),
            || server.time_ms(key),
        )
    }

    /// Reads expiry times with `call`, which returns the replies to a command, one for each key, and the server's time.
    fn read_all(
        call: impl Fn(&str) -> Vec<Result<i64, Fault>>,
        time: impl Fn() -> Result<u64, Fault>,
    ) -> Vec<Result<Self, Fault>> {
        let times = call("PEXPIRETIME");
        let forbids_calls =
            |time: &Result<_, Fault>| time.as_ref().is_err_and(Fault::forbids_calls);
        if !times.iter().any(forbids_calls) {
            let exact = |time: Result<i64, Fault>| Self::read(time?, 0, Duration::ZERO);
            return times.into_iter().map(exact).collect();
        }
        // The server is Redis 6.2 or older, or the user may not call PEXPIRETIME for all keys.
        let start = Instant::now();
        let left = call("PTTL");
        // The user may not be allowed to call TIME.
        let now = time().unwrap_or_else(|_| local_ms());
        let slack = SLACK + start.elapsed();
        let read = |(time, left): (Result<i64, Fault>, Result<i64, Fault>)| match (time, left) {
            (Ok(time), _) => Self::read(time, 0, Duration::ZERO),
            (Err(first), Err(second))
                if first.means(Meaning::NoPermission) && second.forbids_calls() =>
            {
                Err(first)
            }
            (Err(_), left) => Self::read(left?, now, slack),
        };
        times.into_iter().zip(left).map(read).collect()
    }

    /// Interprets a reply: milliseconds since `from`, −2 for a missing key, or −1 for a key without a time to live.
    fn read(time: i64, from: u64, slack: Duration) -> Result<Self, Fault> {
        if time == -2 {
            return Err(Error::NOT_FOUND.into());
        }
        let ms = u64::try_from(time).ok().map(|ms| ms.saturating_add(from));
        Ok(Self { ms, slack })
    }

    /// Returns whether this time lies between two others, like a replica's time while its primary changes it.
    pub fn is_between(&self, one: &Self, other: &Self) -> bool {
        let ends = one.ms.zip(other.ms);
        let ends = ends.map(|(one, other)| one.min(other)..=one.max(other));
        ends.zip(self.ms)
            .is_some_and(|(ends, own)| ends.contains(&own))
    }

    /// Returns the time in milliseconds, if it is exact.
    pub fn exact_ms(&self) -> Option<u64> {
        self.ms.filter(|_| self.slack.is_zero())
    }

    /// Describes how the time of the same key at the target differs; `None` if it does not.
    pub fn difference(&self, target: &Self) -> Option<String> {
        match (self.ms, target.ms) {
            (None, None) => None,
            (Some(_), None) => Some("it has no time to live at the target".to_owned()),
            (None, Some(_)) => Some("it has a time to live at the target".to_owned()),
            (Some(source), Some(other)) => {
                let off = Duration::from_millis(source.abs_diff(other));
                let word = if other < source { "earlier" } else { "later" };
                let differs = off > self.slack + target.slack;
                differs.then(|| format!("it expires {} ms {word} at the target", off.as_millis()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn times_differ_if_they_do_by_more_than_the_errors_of_both() {
        let at = |ms, slack| Expiry {
            ms: Some(ms),
            slack: Duration::from_millis(slack),
        };
        for (source, target, difference) in [
            (at(5000, 0), at(5000, 0), None),
            (
                at(5000, 0),
                at(5001, 0),
                Some("it expires 1 ms later at the target"),
            ),
            (at(5000, 100), at(4900, 0), None),
            (at(5000, 0), at(4900, 100), None),
            (at(5000, 100), at(4700, 200), None),
            (
                at(5000, 100),
                at(4699, 200),
                Some("it expires 301 ms earlier at the target"),
            ),
        ] {
            assert_eq!(source.difference(&target).as_deref(), difference);
        }
    }

    #[test]
    fn a_time_is_exact_where_the_user_may_read_it() {
        let refused = |text: &str| Fault::Refused(text.to_owned());
        let (no_permission, unknown) = ("NOPERM no", "ERR unknown command 'PEXPIRETIME'");
        let after = |ms| Ok((Some(ms), false));
        for (exact, left, expected) in [
            (Ok(5000), Ok(1), Ok((Some(5000), true))),
            (Ok(-1), Ok(1), Ok((None, true))),
            (Ok(-2), Ok(1), Err(Error::NOT_FOUND.into())),
            (Err(refused(unknown)), Ok(1), after(1_000_001)),
            (Err(refused(no_permission)), Ok(0), after(1_000_000)),
            (Err(refused(no_permission)), Ok(-1), Ok((None, false))),
            (
                Err(refused(no_permission)),
                Ok(-2),
                Err(Error::NOT_FOUND.into()),
            ),
            // The command to permit is the better one.
            (
                Err(refused(no_permission)),
                Err(refused("NOPERM PTTL")),
                Err(refused(no_permission)),
            ),
            (
                Err(refused(unknown)),
                Err(refused("NOPERM PTTL")),
                Err(refused("NOPERM PTTL")),
            ),
        ] {
            // PEXPIRETIME is refused for the other key.
            let replies = [
                RefCell::new(vec![exact, Err(refused(unknown))]),
                RefCell::new(vec![left, Ok(1)]),
            ];
            let call = |command: &str| replies[usize::from(command == "PTTL")].take();
            let read = Expiry::read_all(call, || Ok(1_000_000)).swap_remove(0);
            let read = read.map(|time| (time.ms, time.slack.is_zero()));
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn the_clock_is_not_asked_if_all_times_are_exact() {
        let call = |command: &str| {
            assert_eq!(command, "PEXPIRETIME");
            vec![Ok(5000), Ok(-1)]
        };
        let time = || panic!("the clock is asked");
        let read = Expiry::read_all(call, time).into_iter();
        let read: Vec<_> = read.map(|time| time.map(|time| time.exact_ms())).collect();
        assert_eq!(read, [Ok(Some(5000)), Ok(None)]);
    }
}
