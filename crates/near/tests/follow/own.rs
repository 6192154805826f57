//! What the program adds itself.

use std::time::Duration;

use valkeybloom_near::{Follower, Options, Reply, Step};

use super::server::{Make, Maker, Server, drive, is_equal};

const EVERY: Duration = Duration::from_millis(50);
const LAG: Duration = Duration::from_millis(400);

fn filter() -> Server {
    Server::with(Make::growing(Maker::Own, 1000, 3).object())
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A replica that is cut off lacks the items that could not be kept, too.
#[test]
fn too_many_items_to_keep_beside_a_replica() {
    let mut replica = filter();
    let mut follower = Follower::new(Options {
        lag: LAG,
        ..Options::default()
    });
    let mut now = drive(&mut follower, &mut replica, ms(1000));
    for item in (0..65_537_u64).map(u64::to_le_bytes) {
        follower.keep(&item, ms(1001));
    }
    while now <= ms(1001) + LAG + 2 * EVERY {
        assert!(!follower.is_fresh(now));
        now = drive(&mut follower, &mut replica, now);
    }
    assert!(!follower.is_fresh(now));
    replica.add_numbers(0..65_537);
    now = drive(&mut follower, &mut replica, now);
    assert!(follower.is_fresh(now));
    let last = 65_536_u64.to_le_bytes();
    assert_eq!(follower.contains(&last, now), Some(true));
}

/// The memory for what was added is bounded: beyond it, the server is asked until the next poll.
#[test]
fn too_many_items_to_keep() {
    let mut server = filter();
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

/// The clock may be coarse: the server may have got an item just after it answered a poll of the same time.
#[test]
fn an_item_is_kept_past_a_poll_of_its_time() {
    let mut server = filter();
    let mut follower = Follower::new(Options::default());
    let now = drive(&mut follower, &mut server, ms(1000));
    let Step::Send(poll) = follower.next(now) else {
        panic!("a poll is due");
    };
    let answer = server.reply(&poll);
    server.add(b"own");
    follower.keep(b"own", now);
    follower.take(answer.as_reply(), now, 0.0);
    assert_eq!(follower.contains(b"own", now), Some(true));
}
