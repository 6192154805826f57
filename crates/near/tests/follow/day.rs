//! A day of following, by a test's clock.

use std::time::Duration;

use valkeybloom_near::{Follower, Options, Step};
use valkeybloom_testing::support::Rng;

use super::server::{Answer, Change, Make, Maker, Server, fraction, is_equal};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const MAKE: Make = Make::growing(Maker::Own, 1000, 1);

/// Adds some items to a filter. Every hour something else happens to it, or to the connection.
fn pass(minute: u64, server: &mut Server, random: &mut Rng, next: &mut u64) {
    for _ in 0..random.below(40) {
        *next += 1;
        server.add(&next.to_le_bytes());
    }
    match minute % 300 {
        60 => server.change(&Change::Reload),
        120 | 181 => server.change(&Change::Make(MAKE)),
        180 => server.change(&Change::Delete),
        _ => {}
    }
}

/// Follows a filter for a day.
fn day(every: Duration) {
    let options = Options {
        every,
        max_age: every * 4,
        ..Options::default()
    };
    let mut follower = Follower::new(options);
    let mut random = Rng::new(7);
    let mut server = Server::with(MAKE.object());
    let (mut now, mut minute, mut next, mut outage) = (Duration::ZERO, 0, 0_u64, Duration::ZERO);
    let (mut unanswered, mut longest, mut last) = (Duration::ZERO, Duration::ZERO, None);
    while now < DAY {
        if now.as_secs() / 60 > minute {
            minute += 1;
            pass(minute, &mut server, &mut random, &mut next);
            if minute % 300 == 240 {
                outage = now + Duration::from_secs(20);
            }
        }
        match follower.next(now) {
            Step::Wait(until) => {
                let until = until.max(now + Duration::from_micros(1));
                if !follower.is_fresh(now) {
                    unanswered += until.saturating_sub(now);
                }
                now = until;
            }
            Step::Send(request) => {
                now += Duration::from_micros(200);
                let answer = if now < outage {
                    Answer::Lost
                } else {
                    server.reply(&request)
                };
                now += Duration::from_micros(200);
                follower.take(answer.as_reply(), now, fraction(&mut random));
                if let (Some(last), true) = (last, follower.is_fresh(now)) {
                    longest = longest.max(now.saturating_sub(last));
                }
                last = follower.is_fresh(now).then_some(now).or(last);
            }
        }
    }
    is_equal(&follower, &server);
    let stats = follower.stats();
    let polls = DAY.as_millis() / every.as_millis();
    let polled = u128::from(stats.polls);
    // Each poll is up to a tenth early, and outages take a few minutes.
    assert!(
        (polls * 99 / 100..=polls * 112 / 100).contains(&polled),
        "{polled} of {polls}"
    );
    // Five times a filter is made anew or loaded, with a delay of some polls, and five times the server is away. After that
    // the copy is away for as long again.
    assert!(unanswered < Duration::from_secs(600), "{unanswered:?}");
    assert!(longest < Duration::from_secs(60), "{longest:?}");
    assert!((9..=30).contains(&stats.resyncs), "{stats:?}");
    assert!((10..=40).contains(&stats.fetches), "{stats:?}");
}

#[test]
fn a_day_of_polls_every_50_ms() {
    day(Duration::from_millis(50));
}

#[test]
fn a_day_of_polls_every_second() {
    day(Duration::from_secs(1));
}
