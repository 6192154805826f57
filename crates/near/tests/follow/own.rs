//! What the program adds itself.

use std::time::Duration;

use valkeybloom_near::{Follower, Options, Reply, State, Step};
use valkeybloom_sketches::bloom::Growth;

use super::server::{Answer, Change, Make, Maker, Server, drive, is_equal};

const EVERY: Duration = Duration::from_millis(50);
const LAG: Duration = Duration::from_millis(400);

fn filter(by: Maker) -> Server {
    let make = Make {
        by,
        capacity: 1000,
        growth: Growth::from_expansion(2),
        seed: 3,
    };
    Server::with(make.object())
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn an_item_is_claimed_at_once_and_until_the_copy_has_it() {
    for by in [Maker::Own, Maker::ValkeyBloom, Maker::RedisBloom] {
        let mut server = filter(by);
        let mut follower = Follower::new(Options::default());
        drive(&mut follower, &mut server, ms(1000));
        assert_eq!(follower.contains(b"mine", ms(1001)), Some(false));
        server.add(b"mine");
        follower.keep(b"mine", ms(1001));
        let answers = |follower: &Follower, now| {
            let mut answers = Vec::new();
            let items = [&b"mine"[..], b"other"];
            follower.contains_each(items.into_iter(), now, |answer| answers.push(answer));
            assert_eq!(answers, items.map(|item| follower.contains(item, now)));
            answers
        };
        assert_eq!(answers(&follower, ms(1002)), [Some(true), Some(false)]);
        let (copy, _) = follower.copy().unwrap();
        assert!(
            !copy.contains(b"mine", || 0),
            "the copy stays what the server has"
        );
        drive(&mut follower, &mut server, ms(1060));
        is_equal(&follower, &server);
        assert_eq!(answers(&follower, ms(1061)), [Some(true), Some(false)]);
    }
}

/// The poll was sent before the item was added, so its reply lacks the item.
#[test]
fn a_reply_that_was_on_its_way_does_not_have_the_item() {
    let mut server = filter(Maker::Own);
    let mut follower = Follower::new(Options::default());
    let due = drive(&mut follower, &mut server, ms(1000));
    let Step::Send(poll) = follower.next(due) else {
        panic!("a poll is due");
    };
    let answer = server.reply(&poll);
    server.add(b"mine");
    follower.keep(b"mine", due + ms(2));
    follower.take(answer.as_reply(), due + ms(3), 0.0);
    assert_eq!(follower.contains(b"mine", due + ms(4)), Some(true));
}

/// A replica may lack the item for the lag, and the copy of it with it.
#[test]
fn a_replica_may_lack_the_item_for_a_while() {
    let mut replica = filter(Maker::Own);
    let mut follower = Follower::new(Options {
        lag: LAG,
        ..Options::default()
    });
    let mut now = drive(&mut follower, &mut replica, ms(1000));
    let added = now;
    follower.keep(b"mine", added);
    while now + EVERY < added + LAG {
        now = drive(&mut follower, &mut replica, now);
        assert_eq!(follower.contains(b"mine", now), Some(true));
    }
    replica.add(b"mine");
    for _ in 0..20 {
        now = drive(&mut follower, &mut replica, now);
        assert_eq!(follower.contains(b"mine", now), Some(true));
    }
    // Afterwards, the replica is cut off or the item is lost. Only the server that was written to knows.
    let kept = now;
    follower.keep(b"late", kept);
    while now <= kept + LAG + EVERY {
        assert_eq!(follower.contains(b"late", now), Some(true));
        now = drive(&mut follower, &mut replica, now);
    }
    let mut answers = Vec::new();
    let items = [&b"late"[..], b"mine", b"other"];
    follower.contains_each(items.into_iter(), now, |answer| answers.push(answer));
    assert_eq!(answers, [None, Some(true), Some(false)]);
    assert_eq!(follower.contains(b"late", now), None);
    replica.add(b"late");
    now = drive(&mut follower, &mut replica, now);
    assert_eq!(follower.contains(b"late", now), Some(true));
}

/// A replica that is cut off lacks the items that could not be kept, too.
#[test]
fn too_many_items_to_keep_beside_a_replica() {
    let mut replica = filter(Maker::Own);
    let mut follower = Follower::new(Options {
        lag: LAG,
        ..Options::default()
    });
    let mut now = drive(&mut follower, &mut replica, ms(1000));
    let items = (0..65_537_u64).map(u64::to_le_bytes);
    for item in items.clone() {
        follower.keep(&item, ms(1001));
    }
    while now <= ms(1001) + LAG + 2 * EVERY {
        assert!(!follower.is_fresh(now));
        now = drive(&mut follower, &mut replica, now);
    }
    assert!(!follower.is_fresh(now));
    for item in items {
        replica.add(&item);
    }
    now = drive(&mut follower, &mut replica, now);
    assert!(follower.is_fresh(now));
    assert_eq!(
        follower.contains(&65_536_u64.to_le_bytes(), now),
        Some(true)
    );
}

/// Before there is a copy, the server is asked until the copy has what was added.
#[test]
fn what_is_added_before_there_is_a_copy() {
    let mut server = filter(Maker::Own);
    let mut follower = Follower::new(Options::default());
    let mut now = ms(1000);
    // After each number of commands: the cursor, the header and the only chunk, the first poll.
    for steps in 0..4 {
        follower = Follower::new(Options::default());
        now += ms(1000);
        for step in 0..4 {
            if step == steps {
                server.add(b"mine");
                follower.keep(b"mine", now);
            }
            let Step::Send(request) = follower.next(now) else {
                panic!("a command is due");
            };
            now += ms(1);
            let answer = server.reply(&request);
            now += ms(1);
            follower.take(answer.as_reply(), now, 0.0);
            assert_ne!(
                follower.contains(b"mine", now),
                Some(false),
                "{steps} {step}"
            );
        }
        now = drive(&mut follower, &mut server, now + EVERY);
        assert_eq!(follower.contains(b"mine", now), Some(true));
        server.change(&Change::Delete);
        server = filter(Maker::Own);
    }
    assert_eq!(follower.state(now), State::Following);
}

#[test]
fn what_is_added_to_a_missing_key() {
    let mut server = Server::new(1);
    let mut follower = Follower::new(Options::default());
    let now = drive(&mut follower, &mut server, ms(1000));
    assert_eq!(follower.state(now), State::Missing);
    assert_eq!(follower.contains(b"mine", ms(1001)), Some(false));
    server = filter(Maker::Own);
    server.add(b"mine");
    follower.keep(b"mine", ms(1001));
    assert_eq!(follower.contains(b"mine", ms(1002)), None);
    let now = drive(&mut follower, &mut server, now);
    assert_eq!(follower.contains(b"mine", now), Some(true));
}

/// The program adds while the filter is fetched anew from a server without feeds, so the new copy may lack the item.
#[test]
fn what_is_added_while_the_copy_is_fetched_anew() {
    for other_seed in [false, true] {
        let mut server = filter(Maker::Own);
        server.has_feeds = false;
        let options = Options {
            refresh: Some(ms(500)),
            ..Options::default()
        };
        let mut follower = Follower::new(options);
        let now = drive(&mut follower, &mut server, ms(1000));
        if other_seed {
            let make = Make {
                by: Maker::Own,
                capacity: 500,
                growth: Growth::from_expansion(2),
                seed: 9,
            };
            server.change(&Change::Make(make));
        }
        let mut added = false;
        while let Step::Send(request) = follower.next(now) {
            let answer = server.reply(&request);
            if matches!(&answer, Answer::Piece { bytes, .. } if bytes.len() > 200) {
                server.add(b"mine");
                follower.keep(b"mine", now);
                added = true;
            }
            follower.take(answer.as_reply(), now, 0.0);
            let expected = if added {
                &[Some(true), None][..]
            } else {
                &[Some(false)]
            };
            let answer = follower.contains(b"mine", now);
            assert!(
                expected.contains(&answer),
                "{other_seed} {added}: {answer:?}"
            );
        }
        assert!(added);
        let (copy, _) = follower.copy().unwrap();
        assert!(!copy.contains(b"mine", || 0));
        let later = now + ms(500);
        drive(&mut follower, &mut server, later);
        assert_eq!(follower.contains(b"mine", later), Some(true));
        is_equal(&follower, &server);
    }
}

/// The memory for what was added is bounded: beyond it, the server is asked until the next poll.
#[test]
fn too_many_items_to_keep() {
    let mut server = filter(Maker::Own);
    let mut follower = Follower::new(Options::default());
    let now = drive(&mut follower, &mut server, ms(1000));
    for number in 0..65_537_u64 {
        assert!(follower.is_fresh(ms(1001)));
        server.add(&number.to_le_bytes());
        follower.keep(&number.to_le_bytes(), ms(1001));
    }
    assert!(!follower.is_fresh(ms(1001)));
    // A poll that was sent before does not end that.
    follower.take(Reply::Lost("timed out"), now, 0.0);
    let now = drive(&mut follower, &mut server, now + ms(100));
    assert!(follower.is_fresh(now));
    is_equal(&follower, &server);
    assert_eq!(follower.contains(&9_u64.to_le_bytes(), now), Some(true));
}
