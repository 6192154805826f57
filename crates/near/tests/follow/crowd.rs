//! Many followers of one filter.

use std::time::Duration;

use valkeybloom_near::{Follower, Options, Request, Step};
use valkeybloom_testing::support::Rng;

use super::server::{Change, Make, Maker, Server, fraction, is_equal};

const FOLLOWERS: usize = 1000;
const EVERY: Duration = Duration::from_millis(50);
/// The time within which followers begin anew.
const SPREAD: Duration = Duration::from_secs(1);
/// The number of intervals of that time that are looked at.
const PARTS: usize = 10;

/// Returns when each of the followers fetched the first piece of its filter again, from the time at which all of their
/// cursors became unknown.
fn fetched(change: &Change) -> Vec<Duration> {
    let mut server = Server::with(Make::growing(Maker::Own, 1000, 1).object());
    server.add(b"item");
    let mut random = Rng::new(3);
    let mut followers: Vec<_> = (0..FOLLOWERS)
        .map(|_| {
            let options = Options {
                every: EVERY,
                ..Options::default()
            };
            // They started at some time each.
            let due = EVERY.mul_f64(fraction(&mut random));
            (due, Follower::new(options))
        })
        .collect();
    let changed = Duration::from_secs(10);
    let mut is_changed = false;
    let mut times = Vec::new();
    loop {
        let (due, follower) = followers.iter_mut().min_by_key(|(due, _)| *due).unwrap();
        let now = *due;
        if now > changed + SPREAD * 3 {
            break;
        }
        if now >= changed && !is_changed {
            server.change(change);
            server.change(&Change::Add(vec![b"item".to_vec()]));
            is_changed = true;
        }
        match follower.next(now) {
            Step::Wait(until) => *due = until,
            Step::Send(request) => {
                if is_changed && matches!(request, Request::Chunk { cursor: 0, .. }) {
                    times.push(now.saturating_sub(changed));
                }
                let answer = server.reply(&request);
                *due = now + Duration::from_micros(300);
                follower.take(answer.as_reply(), *due, fraction(&mut random));
            }
        }
    }
    for (_, follower) in &followers {
        is_equal(follower, &server);
        assert_eq!(follower.stats().resyncs, 1);
    }
    times
}

#[test]
fn a_thousand_followers_begin_anew_spread_over_a_second() {
    for change in [
        Change::Reload,
        Change::Make(Make::growing(Maker::RedisBloom, 500, 2)),
        Change::Merge(vec![b"x".to_vec()]),
    ] {
        let times = fetched(&change);
        assert_eq!(times.len(), FOLLOWERS, "each fetches once");
        let mut parts = [0; PARTS];
        for time in &times {
            // A poll finds the change, and the delay follows.
            assert!(
                *time <= EVERY + SPREAD + Duration::from_millis(1),
                "{time:?}"
            );
            let part = time.as_millis() * PARTS as u128 / (EVERY + SPREAD).as_millis();
            parts[usize::try_from(part).unwrap().min(PARTS - 1)] += 1;
        }
        // A tenth of the time has a tenth of them, within five standard deviations.
        let most = FOLLOWERS / PARTS + 50;
        assert!(parts.iter().all(|count| *count <= most), "{parts:?}");
    }
}
