//! What each error means to a follower.

use std::time::Duration;

use valkeybloom_near::{Follower, Options, Reply, Request, State, Step};
use valkeybloom_sketches::bloom::Growth;

use super::server::{Answer, Make, Maker, Server, UNKNOWN_COMMAND, drive};

/// What a follower is doing when an error comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// It takes the cursor.
    Beginning,
    /// It fetches a filter with a feed.
    Fetching,
    /// It polls.
    Polling,
    /// It fetches from a server without feeds, and has a copy.
    Refreshing,
}

/// What becomes of the copy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// It goes on to answer while it is fresh.
    Stays,
    Dropped,
    /// The filter has no items.
    Empty,
}

/// What a follower does next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// It sends `$` within this time.
    Begins(Duration),
    /// It sends the same cursor within this time.
    Repeats(Duration),
    /// It fetches at once, without a feed.
    Fetches,
    /// It fetches without a feed within this time.
    FetchesWithin(Duration),
}

use Fate::{Dropped, Empty, Stays};
use State::{Following, Missing, Refused, Stale, Syncing};
use Then::{Begins, Fetches, FetchesWithin, Repeats};
use When::{Beginning, Fetching, Polling, Refreshing};

const EVERY: Duration = Duration::from_millis(50);
/// Twenty polls.
const SPREAD: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const REFRESH: Duration = Duration::from_secs(10);

const NOPERM: &str = "NOPERM User reader has no permissions to run the 'bf.read' command";
const NOPERM_7: &str = "NOPERM this user has no permissions to run the 'bf.read' command";
const NOPERM_KEY: &str = "NOPERM No permissions to access a key";
const NO_FEED: &str = "ERR filters with WINDOW, COUNTING or SCALETO have no feed";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const HALF: &str = "ERR bloom object is still being loaded";
const UNKNOWN: &str = "RESYNC unknown feed: the filter was replaced, merged into or not read for a minute, or the \
     server is a different one, or was restarted";
const OVERRUN: &str = "RESYNC feed overrun: it no longer holds all items since the cursor";
/// What a follower without a feed sends first.
const FIRST_PIECE: Request = Request::Piece {
    cursor: 0,
    with_id: true,
};

/// When an error comes, its text, and whether the follower may fetch anew and anew; the state then, what becomes of the
/// copy, and what comes next.
type Row = (When, &'static str, bool, State, Fate, Then);

const ROWS: &[Row] = &[
    (Polling, UNKNOWN, false, Syncing, Dropped, Begins(SPREAD)),
    (Polling, OVERRUN, false, Syncing, Dropped, Begins(SPREAD)),
    (Polling, HALF, false, Syncing, Dropped, Begins(SPREAD)),
    (Beginning, HALF, false, Syncing, Dropped, Begins(SPREAD)),
    (Fetching, HALF, false, Syncing, Dropped, Begins(SPREAD)),
    (
        Polling,
        "ERR not found",
        false,
        Missing,
        Empty,
        Begins(EVERY),
    ),
    (Polling, "not found", false, Missing, Empty, Begins(EVERY)),
    (
        Beginning,
        "ERR not found",
        false,
        Missing,
        Empty,
        Begins(EVERY),
    ),
    (
        Fetching,
        "ERR not found",
        true,
        Missing,
        Empty,
        Begins(EVERY),
    ),
    (
        Refreshing,
        "ERR not found",
        true,
        Missing,
        Empty,
        FetchesWithin(REFRESH),
    ),
    (Beginning, WRONG_TYPE, true, Refused, Dropped, Begins(LONG)),
    (Fetching, WRONG_TYPE, false, Refused, Dropped, Begins(LONG)),
    (Polling, WRONG_TYPE, false, Refused, Dropped, Begins(LONG)),
    (Refreshing, WRONG_TYPE, true, Refused, Dropped, Begins(LONG)),
    (Beginning, NO_FEED, false, Refused, Dropped, Begins(LONG)),
    (Polling, NO_FEED, true, Refused, Dropped, Begins(LONG)),
    (
        Beginning,
        UNKNOWN_COMMAND,
        false,
        Refused,
        Dropped,
        Begins(LONG),
    ),
    (Beginning, UNKNOWN_COMMAND, true, Syncing, Dropped, Fetches),
    (Polling, UNKNOWN_COMMAND, true, Following, Stays, Fetches),
    (
        Beginning,
        "unknown command 'BF.READ'",
        true,
        Syncing,
        Dropped,
        Fetches,
    ),
    (
        Refreshing,
        UNKNOWN_COMMAND,
        true,
        Refused,
        Dropped,
        Begins(LONG),
    ),
    (Beginning, NOPERM, false, Refused, Dropped, Begins(LONG)),
    (Polling, NOPERM, false, Refused, Dropped, Begins(LONG)),
    (Polling, NOPERM, true, Following, Stays, Fetches),
    (Fetching, NOPERM, false, Refused, Dropped, Begins(LONG)),
    (Fetching, NOPERM_7, true, Syncing, Dropped, Fetches),
    (Beginning, NOPERM_7, false, Refused, Dropped, Begins(LONG)),
    (Refreshing, NOPERM_7, true, Refused, Dropped, Begins(LONG)),
    (Polling, NOPERM_KEY, false, Refused, Dropped, Begins(LONG)),
    (Refreshing, NOPERM_KEY, true, Refused, Dropped, Begins(LONG)),
    (
        Polling,
        "LOADING Valkey is loading the dataset in memory",
        false,
        Following,
        Stays,
        Repeats(EVERY),
    ),
    (
        Polling,
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        false,
        Following,
        Stays,
        Repeats(EVERY),
    ),
    (
        Polling,
        "CLUSTERDOWN The cluster is down",
        false,
        Following,
        Stays,
        Repeats(EVERY),
    ),
    (
        Polling,
        "MOVED 7629 127.0.0.1:7001",
        false,
        Refused,
        Dropped,
        Begins(LONG),
    ),
    (
        Polling,
        "TRYAGAIN Multiple keys request during rehashing of slot",
        false,
        Following,
        Stays,
        Repeats(EVERY),
    ),
    (
        Polling,
        "BUSY Valkey is busy running a script.",
        false,
        Following,
        Stays,
        Repeats(EVERY),
    ),
    (
        Polling,
        "NOAUTH Authentication required.",
        true,
        Refused,
        Dropped,
        Begins(LONG),
    ),
    (
        Beginning,
        "WRONGPASS invalid username-password pair or user is disabled.",
        false,
        Refused,
        Dropped,
        Begins(LONG),
    ),
    (
        Polling,
        "ERR max number of clients reached",
        false,
        Following,
        Stays,
        Repeats(EVERY),
    ),
    (
        Polling,
        "ERR bad cursor",
        false,
        Following,
        Stays,
        Repeats(EVERY),
    ),
    (
        Beginning,
        "LOADING Valkey is loading the dataset in memory",
        false,
        Syncing,
        Dropped,
        Begins(EVERY),
    ),
    (
        Fetching,
        "CLUSTERDOWN The cluster is down",
        false,
        Syncing,
        Dropped,
        Begins(EVERY),
    ),
    (
        Refreshing,
        "LOADING Valkey is loading the dataset in memory",
        true,
        Following,
        Stays,
        Begins(EVERY),
    ),
];

fn filter() -> Server {
    let make = Make {
        by: Maker::Own,
        capacity: 1000,
        growth: Growth::from_expansion(2),
        seed: 3,
    };
    let mut server = Server::with(make.object());
    server.add(b"here");
    server.chunk_bytes = 100;
    server
}

/// Returns a follower that has just sent a command of the kind that an error is the reply to, the command, and when.
fn follower(when: When, refresh: bool) -> (Follower, Request, Duration) {
    let mut follower = Follower::new(Options {
        every: EVERY,
        max_age: Duration::from_secs(1),
        refresh: refresh.then_some(REFRESH),
        ..Options::default()
    });
    let mut server = filter();
    let mut now = Duration::from_secs(100);
    if when == Refreshing {
        server.has_feeds = false;
    }
    if matches!(when, Polling | Refreshing) {
        now = drive(&mut follower, &mut server, now);
    }
    let mut next = || match follower.next(now) {
        Step::Send(request) => request,
        Step::Wait(_) => panic!("a command is due"),
    };
    let mut request = next();
    if when == Fetching {
        let answer = server.reply(&request);
        follower.take(answer.as_reply(), now, 0.0);
        for _ in 0..2 {
            let Step::Send(piece) = follower.next(now) else {
                panic!("a command is due");
            };
            request = piece;
            if !matches!(request, Request::Piece { cursor: 0, .. }) {
                break;
            }
            let answer = server.reply(&request);
            follower.take(answer.as_reply(), now, 0.0);
        }
    }
    (follower, request, now)
}

#[track_caller]
fn is_followed_by(mut follower: Follower, sent: &Request, now: Duration, then: Then, row: &Row) {
    let within = |time: Duration, follower: &mut Follower| {
        let due = match follower.next(now) {
            Step::Wait(until) => until,
            Step::Send(_) => now,
        };
        assert!(due <= now + time, "{row:?}: {due:?}");
        match follower.next(due) {
            Step::Send(request) => request,
            step @ Step::Wait(_) => panic!("{row:?}: {step:?}"),
        }
    };
    match then {
        Begins(time) => {
            let begin = Request::Read(b"$".to_vec().into());
            assert_eq!(within(time, &mut follower), begin, "{row:?}");
        }
        Repeats(time) => assert_eq!(within(time, &mut follower), *sent, "{row:?}"),
        Fetches => assert_eq!(follower.next(now), Step::Send(FIRST_PIECE), "{row:?}"),
        FetchesWithin(time) => {
            assert_eq!(within(time, &mut follower), FIRST_PIECE, "{row:?}");
        }
    }
}

#[test]
fn what_each_error_means() {
    for row in ROWS {
        let (when, text, refresh, state, copy, then) = *row;
        for random in [0.0, 0.3, 1.0] {
            let (mut follower, sent, now) = follower(when, refresh);
            let errors = follower.stats().errors;
            follower.take(Reply::Refused(text), now, random);
            assert_eq!(follower.state(now), state, "{row:?}");
            let answers = [&b"here"[..], b"elsewhere"].map(|item| follower.contains(item, now));
            let expected = match copy {
                Stays => [Some(true), Some(false)],
                Empty => [Some(false), Some(false)],
                Dropped => [None, None],
            };
            assert_eq!(answers, expected, "{row:?}");
            assert_eq!(follower.copy().is_some(), copy == Stays, "{row:?}");
            assert_eq!(follower.age(now).is_some(), copy != Dropped, "{row:?}");
            // A missing key is a state, and so is a server without feeds where it is expected; all others are errors.
            let counted = follower.stats();
            if copy == Empty || then == Fetches {
                assert_eq!(counted.errors, errors, "{row:?}");
            } else {
                assert_eq!(counted.last_error.as_deref(), Some(text), "{row:?}");
                assert_eq!(counted.errors, errors + 1, "{row:?}");
            }
            is_followed_by(follower, &sent, now, then, row);
        }
    }
}

#[test]
fn a_lost_reply_is_asked_for_again() {
    for (when, copy, then) in [
        (Beginning, Dropped, Begins(EVERY)),
        (Fetching, Dropped, Begins(EVERY)),
        (Polling, Stays, Repeats(EVERY)),
        (Refreshing, Stays, Begins(EVERY)),
    ] {
        let (mut follower, sent, now) = follower(when, true);
        follower.take(Reply::Lost("timed out"), now, 0.0);
        let row = (when, "timed out", true, Syncing, copy, then);
        assert_eq!(
            follower.contains(b"here", now),
            (copy == Stays).then_some(true),
            "{row:?}"
        );
        assert_eq!(follower.stats().last_error.as_deref(), Some("timed out"));
        let later = now + REFRESH + Duration::from_secs(1);
        let expected = if copy == Stays { Stale } else { Syncing };
        assert_eq!(follower.state(later), expected, "{row:?}");
        is_followed_by(follower, &sent, now, then, &row);
    }
}

/// A server that was away for long and comes back without the feed is soon followed again.
#[test]
fn losses_do_not_delay_a_new_beginning() {
    let (mut follower, _, mut now) = follower(Polling, false);
    for _ in 0..20 {
        follower.take(Reply::Lost("timed out"), now, 0.0);
        let Step::Wait(until) = follower.next(now) else {
            panic!("it does not wait");
        };
        now = until;
        assert!(matches!(follower.next(now), Step::Send(_)));
    }
    follower.take(Reply::Refused(UNKNOWN), now, 1.0);
    assert_eq!(follower.next(now), Step::Wait(now + SPREAD));
}

#[test]
fn delays_double_until_two_seconds() {
    let (mut follower, _, mut now) = follower(Polling, false);
    let mut delays = Vec::new();
    for _ in 0..40 {
        follower.take(Reply::Lost("timed out"), now, 0.0);
        let Step::Wait(until) = follower.next(now) else {
            panic!("it does not wait");
        };
        delays.push(until.saturating_sub(now));
        now = until;
        assert!(matches!(follower.next(now), Step::Send(_)));
    }
    let expected = (0..40).map(|n| LONGEST_PAUSE.min(EVERY * 2_u32.pow(n.min(20))));
    assert!(delays.into_iter().eq(expected));
    // A reply ends that.
    let mut server = filter();
    follower.take(
        server
            .reply(&Request::Read(b"$".to_vec().into()))
            .as_reply(),
        now,
        0.0,
    );
    now = drive(&mut follower, &mut server, now);
    assert!(matches!(follower.next(now), Step::Send(_)));
    follower.take(Reply::Lost("timed out"), now, 0.0);
    assert_eq!(follower.next(now), Step::Wait(now + EVERY));
}

/// A reply that no server gives, or that does not fit the copy: the follower begins anew, and says why.
#[test]
fn replies_that_do_not_fit() {
    let news = |cursor: &str, items, hashes: usize| Answer::News {
        cursor: cursor.as_bytes().to_vec(),
        items,
        hashes: vec![7; hashes],
    };
    let piece_of = |id: &str, cursor, bytes: &[u8]| Answer::Piece {
        cursor,
        bytes: bytes.to_vec(),
        id: id.as_bytes().to_vec(),
    };
    let piece = |cursor, bytes: &[u8]| piece_of("0000000000000002", cursor, bytes);
    let replaced = "the filter was replaced while it was fetched";
    let unequal = "the copy has another number of items than the filter";
    let cursor = "0000000000000002-0";
    let rows = [
        (Beginning, piece(1, b"header"), "an unexpected reply"),
        (Fetching, news(cursor, 1, 0), "an unexpected reply"),
        (Polling, piece(1, b"header"), "an unexpected reply"),
        (Refreshing, news(cursor, 1, 0), "an unexpected reply"),
        (Polling, news(cursor, 1, 15), "half a hash"),
        (Polling, news(cursor, 2, 0), unequal),
        (Polling, news(cursor, 0, 0), unequal),
        (Polling, news(cursor, 1, 16), unequal),
        (Polling, news(cursor, 3, 16), unequal),
        (Fetching, piece(7, b"abc"), "chunk out of order"),
        (Fetching, piece_of("0000000000000003", 7, b"abc"), replaced),
        (Fetching, piece_of("", 7, b"abc"), replaced),
        (Refreshing, piece(1, b"abc"), "unsupported version"),
    ];
    for (when, answer, why) in rows {
        let (mut follower, _, now) = follower(when, true);
        follower.take(answer.as_reply(), now, 0.0);
        let error = follower.stats().last_error.clone();
        assert_eq!(error.as_deref(), Some(why), "{when:?} {answer:?}");
        assert_eq!(follower.state(now), Syncing, "{when:?} {answer:?}");
        assert!(follower.copy().is_none() && !follower.is_fresh(now));
        let begin = Request::Read(b"$".to_vec().into());
        assert_eq!(follower.next(now), Step::Send(begin), "{when:?} {answer:?}");
    }
}
