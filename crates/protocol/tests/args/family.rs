//! Windows, counters, growth and times.

use valkeybloom_protocol::bloom::{InfoField, InfoRequest};
use valkeybloom_protocol::error::Error;

use super::{are, either, insert, reserve, words};

/// Returns what RESERVE and INSERT both make of these options.
fn shape(options: &[&[u8]]) -> Result<String, Error> {
    let reserved = reserve(&[&words("BF.RESERVE k 0.07 77")[..], options].concat());
    let inserted = insert(&[&words("BF.INSERT k")[..], options].concat());
    let expected = reserved.clone().map(|shape| shape + ", items 0..0");
    assert_eq!(inserted, expected, "{options:?}");
    reserved
}

#[test]
fn windows_and_counters_are_parsed_in_any_case_and_order() {
    are(
        "
COUNTING => 77 0.07 x7 0.25 counting
counting COUNTING EXPANSION 3 => 77 0.07 x3 0.25 counting
WINDOW 60000 PERIODS 5 => 77 0.07 x7 0.25 5 periods of 60000 ms
periods 5 NONSCALING window 60000 => 77 0.07 fixed 0.25 5 periods of 60000 ms
Window 1 Periods 1 => 77 0.07 x7 0.25 1 periods of 1 ms
WINDOW 2 PERIODS 60000 => 77 0.07 x7 0.25 60000 periods of 2 ms
WINDOW 9 PERIODS 8 WINDOW 7 PERIODS 6 => 77 0.07 x7 0.25 6 periods of 7 ms
WINDOW 9223372036854775807 PERIODS 1 => 77 0.07 x7 0.25 1 periods of 9223372036854775807 ms
WINDOW 4611686018427387903 PERIODS 2 => 77 0.07 x7 0.25 2 periods of 4611686018427387903 ms",
        shape,
    );
}

#[test]
fn impossible_windows_are_refused() {
    are(
        "
WINDOW <no count> PERIODS 5 => ERR bad window
PERIODS <no count> WINDOW 5 => ERR bad periods
WINDOW => ERR bad window
PERIODS 5 WINDOW => ERR bad window
WINDOW PERIODS 5 => ERR bad window
PERIODS => ERR bad periods
WINDOW 5 PERIODS COUNTING => ERR bad periods
WINDOW 5 PERIODS 60001 => ERR bad periods
WINDOW 5 PERIODS 65535 => ERR bad periods
WINDOW 5 PERIODS 9223372036854775807 => ERR bad periods
WINDOW 0 PERIODS 5 => ERR (window should be larger than 0)
WINDOW 5 PERIODS 0 => ERR (periods should be larger than 0)
WINDOW 5 => ERR WINDOW and PERIODS have to be given together
PERIODS 5 => ERR WINDOW and PERIODS have to be given together
WINDOW 5 COUNTING => ERR WINDOW and PERIODS have to be given together
COUNTING PERIODS 5 => ERR WINDOW and PERIODS have to be given together
WINDOW 9223372036854775807 PERIODS 2 => ERR bad window
WINDOW 4611686018427387904 PERIODS 2 => ERR bad window
WINDOW 153722867280913 PERIODS 60000 => ERR bad window
WINDOW 5 PERIODS 5 5 => ERR unknown argument received
COUNTING 1 => ERR unknown argument received
COUNTERS => ERR unknown argument received
PERIOD 5 => ERR unknown argument received",
        shape,
    );
}

/// A word that is invalid by itself is refused first, at any position.
#[test]
fn windows_do_not_combine_with_counters() {
    are(
        "
WINDOW 5 PERIODS 5 COUNTING => ERR WINDOW and COUNTING cannot be combined
COUNTING WINDOW 5 PERIODS 5 => ERR WINDOW and COUNTING cannot be combined
window 5 Counting PERIODS 5 => ERR WINDOW and COUNTING cannot be combined
PERIODS 5 COUNTING NONSCALING WINDOW 5 COUNTING => ERR WINDOW and COUNTING cannot be combined
WINDOW 5 PERIODS 60000 EXPANSION 1 COUNTING => ERR WINDOW and COUNTING cannot be combined
COUNTING WINDOW 5 PERIODS 60001 => ERR bad periods
WINDOW 5 PERIODS 5 COUNTING WINDOW x => ERR bad window
WINDOW 5 PERIODS 5 COUNTING 1 => ERR unknown argument received
COUNTING WINDOW 9223372036854775807 PERIODS 2 => ERR bad window",
        shape,
    );
    are(
        "
BF.RESERVE k 0.01 9 WINDOW 5 PERIODS 5 COUNTING EXPANSION 2 NONSCALING => ERR nonscaling filters cannot expand
BF.RESERVE k 0.01 9 WINDOW 5 PERIODS 5 COUNTING EX 0 => ERR (ttl should be larger than 0)
BF.INSERT k WINDOW 5 PERIODS 5 COUNTING NOCREATE ITEMS a => ERR WINDOW and COUNTING cannot be combined
BF.INSERT k WINDOW 5 PERIODS 5 COUNTING NONSCALING VALIDATESCALETO 5 => ERR WINDOW and COUNTING cannot be combined
BF.INSERT k COUNTING ITEMS WINDOW 5 PERIODS 5 => 77 0.07 x7 0.25 counting, items 4..8",
        either,
    );
}

/// The last of the same option wins, and a word that is wrong by itself is refused first.
#[test]
fn reserve_takes_a_time_to_live_and_a_condition() {
    are(
        "
BF.RESERVE k 0.01 9 EX 1 => 9 0.01 x7 0.7, ttl 1000
BF.RESERVE k 0.01 9 px 1 => 9 0.01 x7 0.7, ttl 1
BF.RESERVE k 0.01 9 NX => 9 0.01 x7 0.7, nx
BF.RESERVE k 0.01 9 nx Ex 60 NX => 9 0.01 x7 0.7, ttl 60000, nx
BF.RESERVE k 0.01 9 EX 60 COUNTING EX 5 => 9 0.01 x7 0.25 counting, ttl 5000
BF.RESERVE k 0.01 9 PX 60 px 5 => 9 0.01 x7 0.7, ttl 5
BF.RESERVE k 0.01 9 PX 9223372036854775807 => 9 0.01 x7 0.7, ttl 9223372036854775807
BF.RESERVE k 0.01 9 EX 9223372036854775 => 9 0.01 x7 0.7, ttl 9223372036854775000
BF.RESERVE k 0.01 9 EX => ERR bad ttl
BF.RESERVE k 0.01 9 PX => ERR bad ttl
BF.RESERVE k 0.01 9 EX NX => ERR bad ttl
BF.RESERVE k 0.01 9 PX NX => ERR bad ttl
BF.RESERVE k 0.01 9 EX <no count> => ERR bad ttl
BF.RESERVE k 0.01 9 PX <no count> => ERR bad ttl
BF.RESERVE k 0.01 9 EX 9223372036854775807 => ERR bad ttl
BF.RESERVE k 0.01 9 EX 60 PX 5 PX x => ERR bad ttl
BF.RESERVE k 0.01 9 EX 0 => ERR (ttl should be larger than 0)
BF.RESERVE k 0.01 9 PX 0 => ERR (ttl should be larger than 0)
BF.RESERVE k 0.01 9 EX 60 PX 0 => ERR (ttl should be larger than 0)
BF.RESERVE k 0.01 9 EX 60 PX 5 => ERR EX and PX cannot be combined
BF.RESERVE k 0.01 9 PX 5 EX 60 => ERR EX and PX cannot be combined
BF.RESERVE k 0.01 9 px 60000 COUNTING ex 60 NX => ERR EX and PX cannot be combined
BF.RESERVE k 0.01 9 EX 1 PX 1 EX 2 => ERR EX and PX cannot be combined
BF.RESERVE k 0.01 9 EX 60 PX 5 XX => ERR unknown argument received
BF.RESERVE k 0.01 9 TTL 5 => ERR unknown argument received
BF.RESERVE k 0.01 9 ID 5 => ERR unknown argument received
BF.RESERVE k 0.01 9 AT 5 => ERR unknown argument received
BF.RESERVE k 0.01 9 XX => ERR unknown argument received
BF.RESERVE k 0.01 9 NX 1 => ERR unknown argument received
BF.RESERVE k 0.01 9 EXAT 5 => ERR unknown argument received",
        reserve,
    );
}

#[test]
fn insert_takes_times() {
    are(
        "
BF.INSERT k TTL 5 ITEMS a => 77 0.07 x7 0.7, ttl 5, items 5..6
BF.INSERT k AT 5 ITEMS a => 77 0.07 x7 0.7, at 5, items 5..6
BF.INSERT k at 3 TTL 4 ttl 1 NOCREATE ITEMS TTL => nothing, at 3, ttl 1, items 10..11
BF.INSERT k TTL 9223372036854775807 => 77 0.07 x7 0.7, ttl 9223372036854775807, items 0..0
BF.INSERT k AT 9223372036854775807 => 77 0.07 x7 0.7, at 9223372036854775807, items 0..0
BF.INSERT k AT 0 => 77 0.07 x7 0.7, at 0, items 0..0
BF.INSERT k saturate ITEMS a => 77 0.07 x7 0.7, saturate, items 4..5
BF.INSERT k TTL => ERR bad ttl
BF.INSERT k TTL ITEMS a => ERR bad ttl
BF.INSERT k TTL <no count> ITEMS a => ERR bad ttl
BF.INSERT k TTL 0 => ERR (ttl should be larger than 0)
BF.INSERT k AT => ERR unknown argument received
BF.INSERT k AT ITEMS a => ERR unknown argument received
BF.INSERT k AT <no count> ITEMS a => ERR unknown argument received
BF.INSERT k ID 5 => ERR unknown argument received
BF.INSERT k EX 5 => ERR unknown argument received
BF.INSERT k PX 5 => ERR unknown argument received
BF.INSERT k NX => ERR unknown argument received",
        insert,
    );
}

/// A window is for a fourth of the items in each of three periods, and in one more. Without a capacity, the default one
/// does not count.
#[test]
fn scale_to_says_how_far_a_filter_grows() {
    are(
        "
BF.RESERVE k 0.01 100 SCALETO 700 => 700 0.01 x7 0.25 scaled, to 700
BF.RESERVE k 0.01 100 scaleto 7 ScaleTo 70 => 100 0.01 x7 0.25 scaled, to 70
BF.RESERVE k 0.01 100 COUNTING SCALETO 700 EXPANSION 4 => 700 0.01 x4 0.25 counting, to 700
BF.RESERVE k 0.01 100 SCALETO 701 PERIODS 3 WINDOW 5 => 176 0.01 x7 0.25 3 periods of 5 ms, to 701
BF.INSERT k SCALETO 3 ITEMS SCALETO 9 => 3 0.07 x7 0.25 scaled, to 3, items 5..7",
        either,
    );
    are(
        "
SCALETO <no count> => ERR bad scaleto
SCALETO => ERR bad scaleto
SCALETO 0 => ERR (scaleto should be larger than 0)
SCALETO 5 NONSCALING => ERR cannot use NONSCALING and SCALETO options together
EXPANSION 0 SCALETO 5 COUNTING => ERR cannot use NONSCALING and SCALETO options together",
        shape,
    );
}

#[test]
fn info_takes_one_field_or_all_or_none() {
    let info = |line: &[&[u8]]| InfoRequest::parse(line, Error::UNKNOWN_FIELD);
    let text = |line: &[&[u8]]| info(line).map(|request| format!("{request:?}"));
    are(
        "
BF.INFO k => Plain
BF.INFO k All => All
BF.INFO => ERR wrong number of arguments
BF.INFO k SIZE SIZE => ERR wrong number of arguments
BF.INFO k SIZE  => ERR wrong number of arguments
BF.INFO k  => ERR invalid information value
BF.INFO k SIZES => ERR invalid information value
BF.INFO k SIZ => ERR invalid information value
BF.INFO k SIZE\0 => ERR invalid information value
BF.INFO k WINDOWS => ERR invalid information value
BF.INFO k ESTIMATED => ERR invalid information value
BF.INFO k * => ERR invalid information value",
        text,
    );
    for word in [&b"Number of filters"[..], b"\xff"] {
        assert_eq!(info(&[b"BF.INFO", b"k", word]), Err(Error::UNKNOWN_FIELD));
    }
    for (word, field) in [
        ("CAPACITY", InfoField::Capacity),
        ("SIZE", InfoField::Size),
        ("FILTERS", InfoField::Filters),
        ("ITEMS", InfoField::Items),
        ("EXPANSION", InfoField::Expansion),
        ("ERROR", InfoField::Error),
        ("TIGHTENING", InfoField::Tightening),
        ("MAXSCALEDCAPACITY", InfoField::MaxScaledCapacity),
        ("ESTIMATEDERROR", InfoField::EstimatedError),
        ("WINDOW", InfoField::Window),
        ("PERIODS", InfoField::Periods),
        ("LIVEPERIODS", InfoField::LivePeriods),
        ("PERIODITEMS", InfoField::PeriodItems),
        ("FEEDBYTES", InfoField::FeedBytes),
        ("FEEDREADERS", InfoField::FeedReaders),
    ] {
        let mixed = word[..3].to_lowercase() + &word[3..];
        for word in [word.to_owned(), word.to_lowercase(), mixed] {
            let parsed = info(&[b"BF.INFO", b"k", word.as_bytes()]);
            assert_eq!(parsed, Ok(InfoRequest::One(field)), "{word}");
        }
    }
}
