//! The commands of a follower, and long replies.

use std::time::Duration;

use valkeybloom_near::{Follower, Options, Request, State, Step};
use valkeybloom_sketches::bloom::Growth;

use super::server::{Change, Make, Maker, Server, drive, is_equal};

#[test]
fn the_words_of_commands() {
    let words = |request: Request| request.words(b"a key\r\n");
    let expected = |line: &str| -> Vec<Vec<u8>> {
        line.split('|')
            .map(|word| word.as_bytes().to_vec())
            .collect()
    };
    let read = Request::Read(b"0123456789abcdef-5".to_vec().into());
    assert_eq!(
        words(read),
        expected("BF.READ|a key\r\n|0123456789abcdef-5")
    );
    for (with_id, line) in [
        (false, "BF.SCANDUMP|a key\r\n|4194305"),
        (true, "BF.SCANDUMP|a key\r\n|4194305|WITHID"),
    ] {
        let cursor = 4_194_305;
        assert_eq!(words(Request::Chunk { cursor, with_id }), expected(line));
    }
}

/// More items are new than fit into one reply, before the header is fetched and after it.
#[test]
fn more_items_than_a_reply_holds() {
    for by in [Maker::Own, Maker::ValkeyBloom, Maker::RedisBloom] {
        let mut server = Server::with(Make::growing(by, 1_000_000, 5).object());
        server.feed_bytes = 16 << 20;
        server.chunk_bytes = 100_000;
        let mut follower = Follower::new(Options::default());
        let now = Duration::from_secs(100);
        let mut commands = 0;
        while let Step::Send(request) = follower.next(now) {
            // The items before the header are counted in it, those after it are not.
            match commands {
                1 => server.add_numbers(0..150_000),
                2 => server.add_numbers(150_000..350_000),
                _ => {}
            }
            commands += 1;
            let answer = server.reply(&request);
            follower.take(answer.as_reply(), now, 0.0);
            let is_caught_up = follower.age(now).is_some();
            assert_eq!(is_caught_up, follower.state(now) == State::Following);
            assert_eq!(is_caught_up, follower.copy().is_some());
        }
        is_equal(&follower, &server);
        assert!(follower.stats().items > 5 * 65_536);
        assert_eq!(follower.stats().resyncs, 0);
        server.add_numbers(350_000..450_000);
        drive(&mut follower, &mut server, now + Duration::from_secs(1));
        is_equal(&follower, &server);
        assert_eq!(follower.stats().fetches, 1);
    }
}

/// A full filter that does not grow takes more items if the server is set so; its copy does the same.
#[test]
fn a_full_filter_that_takes_more_items() {
    const CAPACITY: u64 = 50_000;
    for by in [Maker::Own, Maker::ValkeyBloom, Maker::RedisBloom] {
        let mut make = Make::growing(by, CAPACITY, 5);
        make.growth = Growth::Fixed;
        // It is full when the copy is fetched, or becomes full in what is read later.
        for at_first in [0, CAPACITY - 10, CAPACITY, CAPACITY + 500] {
            let mut server = Server::with(make.object());
            server.feed_bytes = 16 << 20;
            server.add_numbers(0..at_first);
            let mut added = at_first;
            let mut follower = Follower::new(Options::default());
            let mut now = drive(&mut follower, &mut server, Duration::from_secs(100));
            // More are new than fit into one reply.
            for more in [1, 100, 2 * CAPACITY, 3] {
                server.add_numbers(added..added + more);
                added += more;
                now = drive(&mut follower, &mut server, now + Duration::from_secs(1));
                is_equal(&follower, &server);
            }
            let stats = follower.stats();
            assert!(stats.items > 66_000, "{stats:?}");
            assert_eq!((stats.fetches, stats.resyncs), (1, 0));
            let (copy, _) = follower.copy().unwrap();
            // RedisBloom loads no filter that counts more items.
            let counts_all = !matches!(by, Maker::RedisBloom);
            assert_eq!(copy.items(|| 0) > CAPACITY, counts_all);
        }
    }
}

/// The pieces are of two filters. Their ids show it; without ids, a later header or fewer items than at the cursor.
#[test]
fn a_filter_that_is_replaced_while_it_is_fetched() {
    let make = |seed| Make::growing(Maker::Own, 1000, seed);
    for (has_feeds, has_ids) in [(false, false), (false, true), (true, true)] {
        // With the same seed, only the ids differ.
        let other_seed = if has_ids { 1 } else { 2 };
        // Before this command, another filter takes the place.
        for replaced in 1..4 {
            let mut server = Server::with(make(1).object());
            (server.has_feeds, server.has_ids) = (has_feeds, has_ids);
            server.add(b"old");
            let mut follower = Follower::new(Options {
                refresh: Some(Duration::from_secs(10)),
                ..Options::default()
            });
            let now = Duration::from_secs(100);
            let mut fetched = 0;
            while let Step::Send(request) = follower.next(now) {
                if matches!(request, Request::Chunk { with_id, .. } if with_id == has_ids) {
                    fetched += 1;
                    if fetched == replaced {
                        server.change(&Change::Make(make(other_seed)));
                    }
                }
                let answer = server.reply(&request);
                follower.take(answer.as_reply(), now, 0.5);
            }
            // The first piece, the only chunk, and without a feed the first piece again.
            let is_noticed = fetched >= replaced && (has_feeds || replaced > 1);
            let stats = follower.stats();
            assert_eq!(
                stats.resyncs,
                u64::from(is_noticed),
                "{has_feeds} {has_ids} {replaced}"
            );
            if is_noticed && !has_feeds {
                let why = "the filter was replaced while it was fetched";
                assert_eq!(stats.last_error.as_deref(), Some(why));
            }
            assert_eq!(follower.copy().is_some(), !is_noticed);
            if is_noticed {
                drive(&mut follower, &mut server, now + Duration::from_secs(10));
                is_equal(&follower, &server);
            }
        }
    }
}

/// Times at the ends of their range.
#[test]
fn options_without_a_bound() {
    let mut server = Server::with(Make::growing(Maker::Own, 10, 5).object());
    for has_feeds in [true, false] {
        server.has_feeds = has_feeds;
        for every in [Duration::ZERO, Duration::MAX] {
            let mut follower = Follower::new(Options {
                every,
                max_age: Duration::MAX,
                refresh: Some(Duration::MAX),
                lag: Duration::MAX,
                ..Options::default()
            });
            let now = Duration::from_secs(10);
            let until = drive(&mut follower, &mut server, now);
            assert!(until > now);
            let later = Duration::from_secs(1 << 30);
            assert_eq!(follower.contains(b"item", later), Some(false));
            follower.take(valkeybloom_near::Reply::Lost("gone"), now, 1.0);
            follower.take(valkeybloom_near::Reply::Refused("RESYNC"), now, 1.0);
            drive(&mut follower, &mut server, later);
        }
    }
}

/// However short the time between two fetches is, they do not follow at once.
#[test]
fn fetches_are_a_millisecond_apart() {
    let mut server = Server::with(Make::growing(Maker::Own, 10, 5).object());
    server.has_feeds = false;
    let mut follower = Follower::new(Options {
        refresh: Some(Duration::ZERO),
        ..Options::default()
    });
    let now = Duration::from_secs(10);
    while follower.stats().fetches == 0 {
        let Step::Send(request) = follower.next(now) else {
            panic!("it waits before the first fetch");
        };
        let answer = server.reply(&request);
        follower.take(answer.as_reply(), now, 0.0);
    }
    let again = Step::Wait(now + Duration::from_millis(1));
    assert_eq!(follower.next(now), again);
}
