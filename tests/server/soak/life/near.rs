//! Copies that follow keys through all that happens to them, by a clock that passes at once.

use std::time::Duration;

use valkeybloom_near::{Follower, Options, State, Step};
use valkeybloom_sketches::bloom::chunks;

use crate::harness::{Answer, Client};
use crate::soak::Random;
use crate::support::pieces::pieces;

use super::Life;

/// The most commands that a follower needs to catch up, however many filters there are to fetch.
const COMMANDS: u32 = 2000;

/// A copy, and its time.
pub(super) struct Near {
    follower: Follower,
    now: Duration,
}

impl Near {
    fn new() -> Self {
        Self {
            follower: Follower::new(Options::default()),
            now: Duration::ZERO,
        }
    }

    /// Follows until the copy is no older than this call, or the key can't be followed.
    fn catch_up(&mut self, client: &mut Client, key: &str, random: &mut Random) {
        let (begin, mut commands) = (self.now, 0);
        while commands < COMMANDS {
            match self.follower.next(self.now) {
                Step::Wait(until) => self.now = until,
                Step::Send(request) => {
                    let answer = Answer::to(&request, client, key);
                    self.now += Duration::from_millis(1);
                    let chance = f64::from(u32::try_from(random.below(100)).expect("small")) / 99.0;
                    self.follower.take(answer.reply(), self.now, chance);
                    commands += 1;
                    let age = self.follower.age(self.now);
                    let is_new = age.is_some_and(|age| age <= self.now.saturating_sub(begin));
                    if is_new || self.follower.state(self.now) == State::Refused {
                        return;
                    }
                }
            }
        }
    }
}

impl Life {
    /// Lets the copy of a key catch up, and compares it with what the key holds.
    pub(super) fn follow(&mut self, key: &str) {
        let expected = match self.entry(key) {
            None => State::Missing,
            Some(entry) if entry.lacks.is_some() => State::Syncing,
            Some(entry) if ["bloomfltr", "MBbloom--"].contains(&&entry.state.kind[..]) => {
                State::Following
            }
            Some(_) => State::Refused,
        };
        if expected == State::Syncing {
            // A key is not followed before it is whole.
            return;
        }
        let place = (self.database, key.to_owned());
        let mut near = self.nears.remove(&place).unwrap_or_else(Near::new);
        let resyncs = near.follower.stats().resyncs;
        near.catch_up(&mut self.client, key, &mut self.random);
        let stats = near.follower.stats();
        self.note(&format!("{key} is followed: {stats:?}"));
        assert_eq!(near.follower.state(near.now), expected, "{key}: {stats:?}");
        *self.followed.entry("again").or_default() += stats.resyncs - resyncs;
        if let Some((copy, _)) = near.follower.copy() {
            let own = chunks::pieces(copy);
            let own: Vec<_> = own
                .map(|(cursor, piece)| (cursor, piece.into_owned()))
                .collect();
            assert!(own == pieces(&mut self.client, key), "{key} differs");
            *self.followed.entry("equal").or_default() += 1;
        }
        self.nears.insert(place, near);
    }
}
