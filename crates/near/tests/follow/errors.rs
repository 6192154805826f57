//! What each error means to a follower.

use std::time::Duration;

use valkeybloom_near::{Follower, Options, Reply, Request, State, Step};

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
const PAUSE: Duration = Duration::from_secs(2);
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
const LOADING: &str = "LOADING Valkey is loading the dataset in memory";
const MASTER_DOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
const CLUSTER_DOWN: &str = "CLUSTERDOWN The cluster is down";
const TRY_AGAIN: &str = "TRYAGAIN Multiple keys request during rehashing of slot";
const NOAUTH: &str = "NOAUTH Authentication required.";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// What a follower without a feed sends first.
const FIRST_CHUNK: Request = Request::Chunk {
    cursor: 0,
    with_id: true,
};

/// The state after an error, what becomes of the copy, and what comes next.
type Outcome = (State, Fate, Then);

const LOST_FEED: Outcome = (Syncing, Dropped, Begins(SPREAD));
const GONE: Outcome = (Missing, Empty, Begins(EVERY));
const GONE_WITHOUT_FEED: Outcome = (Missing, Empty, FetchesWithin(REFRESH));
const NO_FILTER: Outcome = (Refused, Dropped, Begins(PAUSE));
const FORBIDDEN: Outcome = (Refused, Dropped, Begins(LONG));
const FETCHES_FIRST: Outcome = (Syncing, Dropped, Fetches);
const FETCHES_NEXT: Outcome = (Following, Stays, Fetches);
const BUSY: Outcome = (Following, Stays, Repeats(EVERY));
const NOT_YET: Outcome = (Syncing, Dropped, Begins(EVERY));
const LATER: Outcome = (Following, Stays, Begins(EVERY));

/// When an error comes, its text, and whether the follower may fetch anew and anew.
type Cause = (When, &'static str, bool);

const OUTCOMES: &[(Outcome, Cause)] = &[
    (LOST_FEED, (Polling, UNKNOWN, false)),
    (LOST_FEED, (Polling, OVERRUN, false)),
    (LOST_FEED, (Polling, HALF, false)),
    (LOST_FEED, (Beginning, HALF, false)),
    (LOST_FEED, (Fetching, HALF, false)),
    (GONE, (Polling, "ERR not found", false)),
    (GONE, (Polling, "not found", false)),
    (GONE, (Beginning, "ERR not found", false)),
    (GONE, (Fetching, "ERR not found", true)),
    (GONE_WITHOUT_FEED, (Refreshing, "ERR not found", true)),
    (NO_FILTER, (Beginning, WRONG_TYPE, true)),
    (NO_FILTER, (Fetching, WRONG_TYPE, false)),
    (NO_FILTER, (Polling, WRONG_TYPE, false)),
    (NO_FILTER, (Refreshing, WRONG_TYPE, true)),
    (NO_FILTER, (Beginning, NO_FEED, false)),
    (NO_FILTER, (Polling, NO_FEED, true)),
    (FORBIDDEN, (Beginning, UNKNOWN_COMMAND, false)),
    (FORBIDDEN, (Refreshing, UNKNOWN_COMMAND, true)),
    (FORBIDDEN, (Beginning, NOPERM, false)),
    (FORBIDDEN, (Polling, NOPERM, false)),
    (FORBIDDEN, (Fetching, NOPERM, false)),
    (FORBIDDEN, (Beginning, NOPERM_7, false)),
    (FORBIDDEN, (Refreshing, NOPERM_7, true)),
    (FORBIDDEN, (Polling, NOPERM_KEY, false)),
    (FORBIDDEN, (Refreshing, NOPERM_KEY, true)),
    (FORBIDDEN, (Polling, "MOVED 7629 127.0.0.1:7001", false)),
    (FORBIDDEN, (Polling, NOAUTH, true)),
    (FORBIDDEN, (Beginning, WRONG_PASSWORD, false)),
    (FETCHES_FIRST, (Beginning, UNKNOWN_COMMAND, true)),
    (
        FETCHES_FIRST,
        (Beginning, "unknown command 'BF.READ'", true),
    ),
    (FETCHES_FIRST, (Fetching, NOPERM_7, true)),
    (FETCHES_NEXT, (Polling, UNKNOWN_COMMAND, true)),
    (FETCHES_NEXT, (Polling, NOPERM, true)),
    (BUSY, (Polling, LOADING, false)),
    (BUSY, (Polling, MASTER_DOWN, false)),
    (BUSY, (Polling, CLUSTER_DOWN, false)),
    (BUSY, (Polling, TRY_AGAIN, false)),
    (
        BUSY,
        (Polling, "BUSY Valkey is busy running a script.", false),
    ),
    (BUSY, (Polling, "ERR max number of clients reached", false)),
    (BUSY, (Polling, "ERR bad cursor", false)),
    (NOT_YET, (Beginning, LOADING, false)),
    (NOT_YET, (Fetching, CLUSTER_DOWN, false)),
    (LATER, (Refreshing, LOADING, true)),
];

fn filter() -> Server {
    let mut server = Server::with(Make::growing(Maker::Own, 1000, 3).object());
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
    let mut request = sent(&mut follower, now);
    // The cursor, and the first piece.
    for _ in (0..2).take_while(|_| when == Fetching) {
        follower.take(server.reply(&request).as_reply(), now, 0.0);
        request = sent(&mut follower, now);
    }
    (follower, request, now)
}

/// Returns the command that is due.
#[track_caller]
fn sent(follower: &mut Follower, now: Duration) -> Request {
    match follower.next(now) {
        Step::Send(request) => request,
        Step::Wait(_) => panic!("a command is due"),
    }
}

/// Loses a reply, and returns when the next command is due.
#[track_caller]
fn lose(follower: &mut Follower, now: Duration) -> Duration {
    follower.take(Reply::Lost("timed out"), now, 0.0);
    match follower.next(now) {
        Step::Wait(until) => until,
        Step::Send(_) => panic!("it does not wait"),
    }
}

#[track_caller]
fn is_followed_by(mut follower: Follower, last: &Request, now: Duration, then: Then, row: &Cause) {
    let (time, expected) = match then {
        Begins(time) => (time, Request::Read(b"$".to_vec().into())),
        Repeats(time) => (time, last.clone()),
        Fetches => (Duration::ZERO, FIRST_CHUNK),
        FetchesWithin(time) => (time, FIRST_CHUNK),
    };
    let due = match follower.next(now) {
        Step::Wait(until) => until,
        Step::Send(_) => now,
    };
    assert!(due <= now + time, "{row:?}: {due:?}");
    assert_eq!(follower.next(due), Step::Send(expected), "{row:?}");
}

#[test]
fn what_each_error_means() {
    for &((state, copy, then), ref cause) in OUTCOMES {
        let (when, text, refresh) = *cause;
        for random in [0.0, 0.3, 1.0] {
            let (mut follower, sent, now) = follower(when, refresh);
            let errors = follower.stats().errors;
            follower.take(Reply::Refused(text), now, random);
            assert_eq!(follower.state(now), state, "{cause:?}");
            let answers = [&b"here"[..], b"elsewhere"].map(|item| follower.contains(item, now));
            let expected = match copy {
                Stays => [Some(true), Some(false)],
                Empty => [Some(false), Some(false)],
                Dropped => [None, None],
            };
            assert_eq!(answers, expected, "{cause:?}");
            assert_eq!(follower.copy().is_some(), copy == Stays, "{cause:?}");
            assert_eq!(follower.age(now).is_some(), copy != Dropped, "{cause:?}");
            // A missing key is a state, and so is a server without feeds where it is expected; all others are errors.
            let counted = follower.stats();
            if copy == Empty || then == Fetches {
                assert_eq!(counted.errors, errors, "{cause:?}");
            } else {
                assert_eq!(counted.last_error.as_deref(), Some(text), "{cause:?}");
                assert_eq!(counted.errors, errors + 1, "{cause:?}");
            }
            is_followed_by(follower, &sent, now, then, cause);
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
        let cause = (when, "timed out", true);
        assert_eq!(
            follower.contains(b"here", now),
            (copy == Stays).then_some(true),
            "{cause:?}"
        );
        assert_eq!(follower.stats().last_error.as_deref(), Some("timed out"));
        let later = now + REFRESH + Duration::from_secs(1);
        let expected = if copy == Stays { Stale } else { Syncing };
        assert_eq!(follower.state(later), expected, "{cause:?}");
        is_followed_by(follower, &sent, now, then, &cause);
    }
}

/// A server that was away for long and comes back without the feed is soon followed again.
#[test]
fn losses_do_not_delay_a_new_beginning() {
    let (mut follower, _, mut now) = follower(Polling, false);
    for _ in 0..20 {
        now = lose(&mut follower, now);
        sent(&mut follower, now);
    }
    follower.take(Reply::Refused(UNKNOWN), now, 1.0);
    assert_eq!(follower.next(now), Step::Wait(now + SPREAD));
}

#[test]
fn delays_double_until_two_seconds() {
    let (mut follower, _, mut now) = follower(Polling, false);
    for loss in 0..40 {
        let due = now + PAUSE.min(EVERY * 2_u32.pow(loss.min(20)));
        assert_eq!(lose(&mut follower, now), due, "{loss}");
        now = due;
        sent(&mut follower, now);
    }
    // A reply ends that.
    let mut server = filter();
    let answer = server.reply(&Request::Read(b"$".to_vec().into()));
    follower.take(answer.as_reply(), now, 0.0);
    now = drive(&mut follower, &mut server, now);
    sent(&mut follower, now);
    assert_eq!(lose(&mut follower, now), now + EVERY);
}

/// Otherwise, a server that refuses would get more commands than one that answers.
#[test]
fn a_refused_follower_asks_no_more_often_than_it_would_poll() {
    let every = 2 * LONG;
    let mut follower = Follower::new(Options {
        every,
        max_age: 2 * every,
        ..Options::default()
    });
    let now = Duration::from_secs(100);
    sent(&mut follower, now);
    follower.take(Reply::Refused(NO_FEED), now, 0.0);
    assert_eq!(follower.next(now), Step::Wait(now + every));
}

/// A server without feeds does not refuse it, so its header shows that it has a window.
#[test]
fn a_filter_with_a_window_is_refused_without_feeds() {
    let (mut follower, mut last, now) = follower(Beginning, true);
    let mut server = Server::with(Make::growing(Maker::Windowed, 1000, 3).object());
    server.has_feeds = false;
    for _ in 0..2 {
        assert_eq!(follower.state(now), Syncing);
        follower.take(server.reply(&last).as_reply(), now, 1.0);
        if follower.state(now) == Syncing {
            last = sent(&mut follower, now);
        }
    }
    assert_eq!(last, FIRST_CHUNK);
    assert_eq!(follower.state(now), Refused);
    assert_eq!(follower.stats().last_error.as_deref(), Some(NO_FEED));
    let cause = (Beginning, NO_FEED, true);
    is_followed_by(follower, &last, now, Begins(PAUSE), &cause);
}

/// The header has counted two items that are still to come, and the sum exceeds all numbers.
#[test]
fn a_filter_without_end() {
    let (mut follower, mut request, now) = follower(Beginning, false);
    let mut server = filter();
    follower.take(server.reply(&request).as_reply(), now, 0.0);
    server.add_numbers(0..2);
    loop {
        request = sent(&mut follower, now);
        if matches!(request, Request::Read(_)) {
            break;
        }
        follower.take(server.reply(&request).as_reply(), now, 0.0);
    }
    let news = Reply::News {
        cursor: b"0000000000000002-2",
        items: u64::MAX,
        hashes: &[],
    };
    follower.take(news, now, 0.0);
    let why = "the copy has another number of items than the filter";
    assert_eq!(follower.stats().last_error.as_deref(), Some(why));
}

/// A reply that no server gives, or that does not fit the copy: the follower begins anew, and says why.
#[test]
fn replies_that_do_not_fit() {
    let news = |cursor: &str, items, hashes: usize| Answer::News {
        cursor: cursor.as_bytes().to_vec(),
        items,
        hashes: vec![7; hashes],
    };
    let chunk_of = |id: &str, cursor, bytes: &[u8]| Answer::Chunk {
        cursor,
        bytes: bytes.to_vec(),
        id: id.as_bytes().to_vec(),
    };
    let piece = |cursor, bytes: &[u8]| chunk_of("0000000000000002", cursor, bytes);
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
        (Fetching, chunk_of("0000000000000003", 7, b"abc"), replaced),
        (Fetching, chunk_of("", 7, b"abc"), replaced),
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
