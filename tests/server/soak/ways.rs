//! Commands mean the same on each way that they come: from a client, in a log, over a link, and in what this module logs
//! and sends of them, whatever filters a server makes by default.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use valkeybloom_testing::draft::Draft;

use super::fuzz::grammar::{CREATIONS, Grammar};
use super::{Budget, random};
use crate::harness::{Builder, Client, array, bulk, digests, int};
use crate::support::Rng;
use crate::support::aof::{Command, Log, command, log_is_complete, on_log_of, wire};
use crate::support::commands;
use crate::support::configured::{MAKERS, made_by};
use crate::support::primary::on_link_of;
use crate::support::recordings::{REPLIES, words};

/// Random commands after the creation of a filter of each kind.
const COMMANDS: usize = 150;

/// Encloses some of the commands in transactions.
fn in_transactions(random: &mut Rng, mut commands: &[Command]) -> Vec<Command> {
    let mut enclosed = Vec::new();
    while !commands.is_empty() {
        let (these, others) = commands.split_at(commands.len().min(1 + random.below(20)));
        let is_enclosed = random.one_in(2);
        enclosed.extend(is_enclosed.then(|| command("MULTI")));
        enclosed.extend_from_slice(these);
        enclosed.extend(is_enclosed.then(|| command("EXEC")));
        commands = others;
    }
    enclosed
}

/// Returns a server that logs commands.
fn logging(maker: &str) -> Builder {
    made_by(maker)
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("aof-use-rdb-preamble", "no")
        .config("auto-aof-rewrite-percentage", "0")
}

/// Checks a server that has replayed a log, and one that has followed a link and then replays what it logged of that.
/// They refuse nothing.
fn check_on_each_way(maker: &str, sent: &[Command], mut check: impl FnMut(&mut Client)) {
    let replayed = on_log_of(made_by(maker), &[], &wire(sent));
    check(&mut replayed.client());
    let mut follower = on_link_of(logging(maker), sent);
    check(&mut follower.client());
    log_is_complete(&follower);
    for server in [&replayed, &follower] {
        assert!(!server.log_contains("CRITICAL"), "{}", server.log());
        let mut errors = server.info("errorstats");
        // While a server loads, it refuses requests.
        errors.remove("errorstat_LOADING");
        assert!(errors.is_empty(), "{errors:?}");
    }
    follower.restart();
    check(&mut follower.client());
}

/// Sends commands to a server that makes filters of this kind, and replays under each setting what it logs of them.
/// Returns the log, and the values.
fn replay(maker: &str, commands: &[Command]) -> (Vec<Command>, BTreeMap<String, String>) {
    let server = logging(maker)
        .config("bf.bloom-use-random-seed", "no")
        .config("bf.bloom-saturate-nonscaling", "yes")
        .start();
    let mut client = server.client();
    client.call_all(commands);
    let own = Log::of(&server).since();
    let held = digests(&mut client);
    for maker in MAKERS {
        check_on_each_way(maker, &own, |client| {
            assert_eq!(digests(client), held, "{maker}");
        });
    }
    (own, held)
}

#[test]
fn what_this_module_sends_means_the_same_under_each_setting() {
    let (mut random, grammar) = (random("what is sent"), Grammar::new());
    for _ in Budget::rounds(1) {
        let mut sent = Vec::new();
        for maker in MAKERS {
            let mut commands = Vec::new();
            for creation in CREATIONS {
                commands.extend(["DEL a", creation].map(command));
                let end = commands.len() + COMMANDS;
                while commands.len() < end {
                    grammar.next(&mut random, &mut commands);
                }
            }
            sent.extend(replay(maker, &commands).0);
        }
        for word in ["AT", "TTL", "SATURATE", "WINDOW", "COUNTING", "SCALETO"] {
            let is_sent = |command: &Command| command.contains(&word.into());
            assert!(sent.iter().any(is_sent), "{word} was not sent");
        }
    }
}

/// The recorded writes of all families, as `RedisBloom` sends and logs them: as they came.
#[test]
fn redisbloom_s_words_mean_the_same_on_each_way() {
    let writes: Vec<String> = commands::all()
        .filter(|command| command.writes())
        .map(|command| command.name().to_uppercase())
        .collect();
    let script = REPLIES.json("replies.json");
    let done = script.as_array().expect("a list").iter().filter(|row| {
        let reply = row[1].as_str().expect("a text");
        !reply.starts_with('-') && writes.iter().any(|name| row[0][0] == **name)
    });
    let done: Vec<Command> = done.map(|row| words(&row[0])).collect();
    let (_, held) = replay("redisbloom", &done);
    let mut random = random("recorded");
    for _ in Budget::rounds(1) {
        let sent = in_transactions(&mut random, &done);
        check_on_each_way("redisbloom", &sent, |client| {
            assert_eq!(digests(client), held);
        });
    }
}

/// Returns a chunk of `RedisBloom`'s.
fn chunk(key: &[u8], cursor: usize, bytes: &[u8]) -> Command {
    let cursor = cursor.to_string().into_bytes();
    vec![b"BF.LOADCHUNK".into(), key.into(), cursor, bytes.into()]
}

/// Returns items: few enough that they come again.
fn items(random: &mut Rng) -> Vec<Vec<u8>> {
    let count = *random.pick(&[1, 1, 2, 5, 30]);
    let item = |_| format!("item-{}", random.below(300)).into_bytes();
    (0..count).map(item).collect()
}

/// Adds items to the draft up to a refusal, and returns the command that does so.
fn addition(random: &mut Rng, draft: &mut Draft, key: &[u8]) -> Command {
    let name = *random.pick(&["BF.MADD", "BF.INSERT", "BF.ADD"]);
    let mut items = items(random);
    if name == "BF.ADD" {
        items.truncate(1);
    }
    let _ = items.iter().try_for_each(|item| draft.add(item).map(drop));
    let option = (name == "BF.INSERT").then(|| b"i".to_vec());
    let words = [name.into(), key.to_vec()].into_iter();
    words.chain(option).chain(items).collect()
}

/// Returns commands that load a filter in chunks, in any order and between additions, and what `RedisBloom` has after them.
fn loading(random: &mut Rng, key: &[u8]) -> (Vec<Command>, Draft) {
    let mut draft = Draft::made(*random.pick(&[1, 20, 300]), 0.01, 2, random.one_in(3));
    addition(random, &mut draft, key);
    let mut commands = vec![chunk(key, 1, &draft.header())];
    let (mut chunks, mut cursor, most) = (Vec::new(), 1, 1 + random.below(100));
    for (index, link) in draft.links.iter_mut().enumerate() {
        for (number, bytes) in link.bitmap.chunks(most).enumerate() {
            cursor += bytes.len();
            chunks.push((cursor, index, number * most, bytes.to_vec()));
        }
        link.bitmap.fill(0);
    }
    for last in 1..chunks.len() {
        if random.one_in(2) {
            chunks.swap(last, random.below(last));
        }
    }
    // Without all chunks, a filter is completed by an addition.
    if random.one_in(2) {
        chunks.truncate(random.below(chunks.len()));
        commands.push(addition(random, &mut draft, key));
    }
    for (cursor, index, begin, bytes) in chunks {
        if random.one_in(20) {
            commands.push(addition(random, &mut draft, key));
        }
        if random.one_in(20) {
            commands.push(chunk(key, *random.pick(&[1, 2]), b""));
        }
        draft.links[index].bitmap[begin..][..bytes.len()].copy_from_slice(&bytes);
        commands.push(chunk(key, cursor, &bytes));
    }
    (commands, draft)
}

/// `RedisBloom`'s filters may lack chunks for ever, and take additions all the while.
#[test]
fn half_loaded_filters_hold_what_they_hold_at_redisbloom() {
    let mut random = random("half loaded");
    for _ in Budget::rounds(1) {
        let (mut sent, mut held) = (Vec::new(), Vec::new());
        for number in 0..100 {
            let key = format!("key-{number}");
            let (commands, draft) = loading(&mut random, key.as_bytes());
            sent.extend(commands);
            held.push((key, draft));
        }
        check_on_each_way("redisbloom", &sent, |client| {
            for (key, draft) in &held {
                let items = client.cmd(&format!("BF.CARD {key}"));
                assert_eq!(items, int(draft.items.cast_signed()), "{key}");
                let bits = draft.links.iter().map(|link| link.bitmap.clone());
                let mut cursor = 0;
                for bytes in [draft.header()].into_iter().chain(bits) {
                    let piece = client.cmd(&format!("BF.SCANDUMP {key} {cursor}"));
                    cursor = if cursor == 0 { 1 } else { cursor + bytes.len() };
                    let next = int(i64::try_from(cursor).expect("small"));
                    assert_eq!(piece, array([next, bulk(bytes)]), "{key}");
                }
            }
        });
    }
}

/// Words that a client can't send: the times of writes.
#[test]
fn times_mean_the_same_under_each_setting() {
    const PERIOD_MS: u64 = 1 << 40;
    let mut random = random("times");
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = u64::try_from(now.expect("after 1970").as_millis()).expect("64 bits");
    let first = now / PERIOD_MS * PERIOD_MS;
    let mut sent = vec![command(&format!(
        "BF.INSERT k CAPACITY 10 ERROR 0.01 TIGHTENING 0.5000000000000001 SEED 0123456789abcdef0123456789abcdef \
         EXPANSION 2 WINDOW {PERIOD_MS} PERIODS 9 AT {first}"
    ))];
    for period in 0..5 {
        let at = first + period * PERIOD_MS + random.next() % PERIOD_MS;
        let ttl = format!("TTL {} ", 1 + random.next() % (3 * PERIOD_MS));
        let options = if random.one_in(2) { "" } else { &ttl };
        let mut added = command(&format!("BF.INSERT k NOCREATE AT {at} {options}ITEMS x"));
        added.extend((0..20 * period).map(|item| format!("{period}-{item}").into()));
        sent.push(added);
    }
    let mut held = Vec::new();
    for maker in MAKERS {
        check_on_each_way(maker, &sent, |client| {
            let answers = client.cmd("BF.MEXISTS k x 4-1 4-79");
            assert_eq!(answers, array([int(1), int(1), int(1)]));
            held.push(digests(client));
        });
    }
    held.dedup();
    assert_eq!(held.len(), 1, "{held:?}");
}
