//! Copies of filters that stay fresh, beside real servers.

mod cluster;
mod events;
mod proxy;
mod task;

use std::time::Duration;

use valkeybloom_near::{Follower, Options, State, Step};
use valkeybloom_sketches::bloom::chunks;

use crate::harness::{Answer, Client};
use crate::support::pieces::pieces;

/// The key that is followed.
const KEY: &str = "k";

/// A follower, driven over a client by a test's clock: it never waits.
struct Driven {
    follower: Follower,
    client: Client,
    now: Duration,
}

impl Driven {
    fn new(client: Client, options: Options) -> Self {
        Self {
            follower: Follower::new(options),
            client,
            now: Duration::from_secs(1000),
        }
    }

    /// Sends one command, or lets the time pass until the next is due.
    fn step(&mut self) {
        let request = match self.follower.next(self.now) {
            Step::Send(request) => request,
            Step::Wait(until) => {
                self.now = until;
                return;
            }
        };
        let answer = Answer::to(&request, &mut self.client, KEY);
        self.now += Duration::from_millis(1);
        self.follower.take(answer.reply(), self.now, 0.5);
    }

    /// Lets the follower go on until it has caught up with what the server has now, is refused, or has failed several
    /// times.
    fn catch_up(&mut self) -> State {
        let start = self.now;
        self.now += Duration::from_millis(1);
        for _ in 0..100 {
            self.step();
            let age = self.follower.age(self.now);
            let is_caught_up = age.is_some_and(|age| self.now > start + age);
            if is_caught_up || self.follower.state(self.now) == State::Refused {
                break;
            }
        }
        self.follower.state(self.now)
    }

    /// Requires that the copy equals the server's filter, byte for byte.
    #[track_caller]
    fn is_equal(&self, client: &mut Client, after: &str) {
        let (copy, _) = self.follower.copy().expect("there is a copy");
        let copy = chunks::pieces(copy);
        let copy: Vec<_> = copy.map(|(at, piece)| (at, piece.into_owned())).collect();
        assert!(
            copy == pieces(client, KEY),
            "after {after}, the copy differs"
        );
    }

    fn contains(&self, item: &str) -> Option<bool> {
        self.follower.contains(item.as_bytes(), self.now)
    }
}
