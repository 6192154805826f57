//! Refusals: their texts, and that a refused command changes nothing. The tables have a row for each situation of the
//! contract.

mod rows;

use crate::harness::{Client, Reply};
use crate::support::blobs::{Blobs, blobs, send};
use crate::support::commands::{BLOOM, Command};
use crate::support::protocols::{in_both_protocols, with_fixed_seed};
use crate::support::tables::rows;

use rows::ROWS;

/// Calls that differ from the examples of `support::commands`, each refused where `k` has another type.
const CALLS: [&str; 13] = [
    "BF.RESERVE k 0.01 100 NX",
    "BF.RESERVE k 0.01 100 WINDOW 1000 PERIODS 3",
    "BF.INSERT k",
    "BF.INSERT k NOCREATE ITEMS a b",
    "BF.INSERT k COUNTING ITEMS a",
    "BF.INSERT k TTL 5 ITEMS a",
    "BF.INSERT k ONCE r 0 ITEMS a",
    "BF.INFO k",
    "BF.LOAD k <dump>",
    "BF.LOADCHUNK k 1 <header>",
    "BF.LOADCHUNK k 2 x",
    "BF.MERGE k k",
    "BF.MERGE other k",
];

const DEFAULTS: &str = "CONFIG SET bf.bloom-filter-max-memory-usage 64mb \
    bf.bloom-memory-usage-limit 0 bf.bloom-saturate-nonscaling no bf.bloom-new-filters own \
    bf.bloom-capacity 100000";

/// Returns a reply in one line, the same in both protocols. A map is written as a list of its values.
fn shown(reply: &Reply) -> String {
    let list = |replies: Vec<String>| format!("[{}]", replies.join(", "));
    match reply {
        Reply::Int(number) => number.to_string(),
        Reply::Bool(value) => u8::from(*value).to_string(),
        Reply::Double(number) => format!("{number:?}"),
        Reply::Nil => "null".to_owned(),
        Reply::Array(replies) => list(replies.iter().map(shown).collect()),
        Reply::Map(pairs) => list(pairs.iter().map(|(_, value)| shown(value)).collect()),
        text => text.text(),
    }
}

fn check(client: &mut Client, resp3: bool, given: &[String], call: [&str; 2], blobs: &Blobs) {
    let [command, reply] = call;
    client.ok("FLUSHALL");
    for line in given {
        let done = send(client, line, blobs);
        assert!(!done.is_error(), "{line}: {done:?}");
    }
    let (data, keys) = (client.cmd("DEBUG DIGEST"), client.cmd("DBSIZE"));
    // Options are read in either case; keys and items here are in lower case anyway.
    let command = if resp3 {
        command.to_lowercase()
    } else {
        command.to_owned()
    };
    let got = shown(&send(client, &command, blobs));
    assert_eq!(got, reply, "{given:?} {command}");
    let begins = |code| reply.trim_start_matches('[').starts_with(code);
    // Some errors of RedisBloom have no code.
    let bare = ["Bad ", "Invalid ", "Nonscaling ", "Second ", "Unknown "];
    let coded = ["ERR ", "WRONGTYPE ", "BUSYKEY "];
    if coded.into_iter().chain(bare).any(begins) {
        let after = (client.cmd("DEBUG DIGEST"), client.cmd("DBSIZE"));
        assert_eq!(after, (data, keys), "{given:?} {command}");
    }
    if given.iter().any(|line| line.starts_with("CONFIG")) {
        client.ok(DEFAULTS);
    }
}

#[test]
fn every_situation_has_its_reply() {
    let server = with_fixed_seed();
    let blobs = blobs(&mut server.client());
    in_both_protocols(&server, |client, resp3| {
        let mut check =
            |given: &[String], call: [&str; 2]| check(client, resp3, given, call, &blobs);
        for row in rows(ROWS) {
            check(&row.given, [&row.command, &row.expected]);
        }
        for (line, error) in BLOOM.iter().flat_map(Command::calls_of_wrong_arity) {
            check(&[], [&line, &error]);
        }
        let mut calls: Vec<String> = CALLS.map(str::to_owned).into();
        calls.extend(BLOOM.iter().map(|command| command.on("k")));
        let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
        let loading = "ERR bloom object is still being loaded";
        for (given, error) in [
            ("SET k v", wrong),
            ("RPUSH k a b", wrong),
            ("XADD k 1-1 f v", wrong),
            ("BF.LOADCHUNK k 1 <header>", loading),
        ] {
            // Chunks are what a half loaded object is waiting for.
            let is_refused = |call: &&String| error == wrong || !call.contains("CHUNK");
            for call in calls.iter().filter(is_refused) {
                check(&[given.to_owned()], [call, error]);
            }
        }
    });
}

/// Words that are a number, and words that look like one, between bars.
const ODD_NUMBERS: &[u8] = b"0|1|-1|10||-|+|-0|+0|00|01|-01|+1|--1|-+1|00000000000000000001|\
    000000000000000000000000000001| 1|1 |\t1|1\n|1\r\n|1\0|\x001|1x|0x1|1_0|1,0|1.|1.0|1e1|\xff|\
    \xd9\xa1|\xef\xbc\x91";

const WIDEST: &[u8] =
    b"9223372036854775807|9223372036854775808|-9223372036854775808|-9223372036854775809|\
    09223372036854775807|18446744073709551615|99999999999999999999";

fn words(between_bars: &[u8]) -> impl Iterator<Item = &[u8]> {
    between_bars.split(|byte| *byte == b'|')
}

#[test]
fn numbers_parse_like_those_of_the_servers_own_commands() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        let mut is_bad = |line: &str, number: &[u8]| {
            client.run("DEL k n");
            let words = line.split(' ').map(|word| match word {
                "{}" => number,
                word => word.as_bytes(),
            });
            match client.call(&words.collect::<Vec<_>>()) {
                Reply::Error(text) if text.starts_with("ERR value is not an integer") => true,
                Reply::Error(text) => text.starts_with("ERR bad "),
                _ => false,
            }
        };
        for number in words(ODD_NUMBERS).chain(words(WIDEST)) {
            let bad = is_bad("INCRBY n {}", number);
            assert_eq!(is_bad("BF.LOADCHUNK k {} x", number), bad, "{number:?}");
        }
        for number in words(ODD_NUMBERS) {
            let bad = is_bad("INCRBY n {}", number) || number.starts_with(b"-");
            assert_eq!(is_bad("BF.RESERVE k 0.01 {}", number), bad, "{number:?}");
        }
    });
}
