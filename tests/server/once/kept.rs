//! Where receipts are kept: on replicas, in logs and files, for a time, and with memory short. A filter and its receipt
//! change together.

use std::collections::BTreeMap;

use crate::harness::{Client, Server, array, bulk, error, int, wait_in_sync, wait_until};
use crate::support::Rng;
use crate::support::aof::{command, part, rewrite_aof, with_command_log};
use crate::support::configured::other_settings;
use crate::support::primary::on_link_of;
use crate::support::protocols::truths;
use crate::support::usage::memory;

use super::{KINDS, Log, receipt};

/// Returns every key with its digest and the time at which it expires.
fn state(server: &Server) -> BTreeMap<String, [String; 2]> {
    let mut client = server.client();
    let keys = client.cmd("KEYS *");
    let keys = keys.as_array().iter().map(|key| key.text());
    let state = |key: String| {
        let digest = client.cmd(&format!("DEBUG DIGEST-VALUE {key}"));
        let expires = client.cmd(&format!("PEXPIRETIME {key}"));
        (key, [format!("{digest:?}"), format!("{expires:?}")])
    };
    keys.map(state).collect()
}

/// The logs of some consumers, each with a filter of another kind.
fn consumers() -> Vec<Log> {
    let names = ["a", "b", "c", "d", "e", "f"];
    let receipts = ["{a}:r", "{b}:r", "{c}:r", "{d}:r", "{e}:r", "{f}:r"];
    let kinds = names.into_iter().zip(receipts).zip(KINDS);
    kinds
        .map(|((key, receipt), options)| Log::new(key, receipt, options))
        .collect()
}

fn work(client: &mut Client, logs: &mut [Log], rng: &mut Rng) {
    for log in logs {
        log.write(rng, 60);
        log.read_all(client, false, rng);
    }
}

#[track_caller]
fn all_are_held(client: &mut Client, logs: &[Log]) {
    for log in logs {
        log.is_held(client);
    }
}

#[test]
fn replicas_hold_the_same_receipts() {
    let primary = Server::start();
    let replica = other_settings(Server::replica_of(&primary))
        .config("bf.bloom-receipt-ttl", "7")
        .start();
    let behind = other_settings(Server::replica_of(&replica)).start();
    wait_in_sync(&primary, &replica);
    wait_in_sync(&replica, &behind);
    let (mut client, mut rng, mut logs) = (primary.client(), Rng::new(1), consumers());
    for _ in 0..3 {
        work(&mut client, &mut logs, &mut rng);
    }
    wait_in_sync(&primary, &replica);
    wait_in_sync(&replica, &behind);
    let expected = state(&primary);
    assert_eq!(expected.len(), 12);
    assert_eq!(state(&replica), expected);
    assert_eq!(state(&behind), expected);
    // The primary is gone, and consumers go on with the replica.
    drop(primary);
    let mut promoted = replica.client();
    promoted.ok("REPLICAOF NO ONE");
    promoted.ok(
        "CONFIG SET bf.bloom-filter-max-memory-usage 64mb bf.bloom-memory-usage-limit 0 \
        bf.bloom-new-filters own bf.bloom-expansion 2",
    );
    all_are_held(&mut promoted, &logs);
    for log in &mut logs {
        let count = log.items.len();
        log.read(&mut promoted, false, 0, count);
    }
    work(&mut promoted, &mut logs, &mut rng);
    all_are_held(&mut promoted, &logs);
    wait_in_sync(&replica, &behind);
    let promoted = state(&replica);
    assert_eq!(state(&behind), promoted);
}

/// A replica that is promoted without the last additions lacks their answers too, so a consumer learns where to go on.
#[test]
fn a_failover_loses_additions_with_their_answers() {
    let primary = Server::start();
    let replica = Server::replica_of(&primary).start();
    wait_in_sync(&primary, &replica);
    let (mut client, mut promoted) = (primary.client(), replica.client());
    let (mut rng, mut log) = (Rng::new(5), Log::new("k", "r", "ERROR 1e-9 COUNTING"));
    log.write(&mut rng, 200);
    log.read_all(&mut client, false, &mut rng);
    wait_in_sync(&primary, &replica);
    promoted.ok("REPLICAOF NO ONE");
    let (answers, seen) = (log.answers.clone(), log.seen.clone());
    log.write(&mut rng, 100);
    log.read_all(&mut client, false, &mut rng);
    log.is_held(&mut client);
    drop(primary);
    promoted.expect(
        "BF.INSERT k ONCE r 300 ITEMS z",
        error("FORGOTTEN answers are known from 0 to 200"),
    );
    (log.answers, log.seen) = (answers, seen);
    promoted.expect("BF.CARD k", log.count());
    log.read_all(&mut promoted, false, &mut rng);
    log.is_held(&mut promoted);
}

#[test]
fn logs_and_files_hold_the_same_receipts() {
    let mut server = with_command_log();
    let (mut rng, mut logs) = (Rng::new(2), consumers());
    for round in 0..3 {
        let mut client = server.client();
        work(&mut client, &mut logs, &mut rng);
        let before = state(&server);
        match round {
            0 => client.ok("DEBUG LOADAOF"),
            1 => {
                rewrite_aof(&server);
                work(&mut client, &mut logs, &mut rng);
                client.ok("DEBUG LOADAOF");
            }
            _ => client.ok("DEBUG RELOAD"),
        }
        if round != 1 {
            assert_eq!(state(&server), before, "{round}");
        }
        all_are_held(&mut client, &logs);
        for log in &mut logs {
            log.read(&mut client, false, 0, 60);
        }
    }
    server.kill();
    server.start_again();
    all_are_held(&mut server.client(), &logs);
}

/// Wherever a log ends, the filter and the receipt are those of the same moment: an answer that the receipt has is in the
/// filter, and all other items are new to it.
#[test]
fn a_log_that_was_cut_holds_both_or_neither() {
    let mut server = with_command_log();
    let mut client = server.client();
    let items: Vec<String> = (0..40).map(|number| format!("item-{number}")).collect();
    for (position, item) in items.iter().enumerate() {
        let line = format!("BF.INSERT k ERROR 1e-9 ONCE r {position} ITEMS {item}");
        client.expect(line, truths(false, &[true]));
    }
    server.kill();
    let path = part(&server, ".incr.aof");
    let whole = std::fs::read(&path).unwrap();
    let mut rng = Rng::new(3);
    let mut seen = Vec::new();
    for _ in 0..8 {
        let length = whole.len() / 8 + rng.below(whole.len() * 7 / 8);
        std::fs::write(&path, &whole[..length]).unwrap();
        server.start_again();
        let mut client = server.client();
        let count = client.cmd("BF.CARD k").as_int();
        let answers = vec![true; usize::try_from(count).unwrap()];
        client.expect("GET r", bulk(receipt(0, &answers)));
        for (position, item) in items.iter().enumerate().skip(answers.len()) {
            let line = format!("BF.INSERT k ONCE r {position} ITEMS {item}");
            client.expect(line, truths(false, &[true]));
        }
        seen.push(count);
        server.kill();
    }
    assert!(seen.iter().any(|count| (1..40).contains(count)), "{seen:?}");
}

/// What a primary or a log sends is obeyed, or passed over, and no client may send it.
#[test]
fn only_a_primary_sends_answers() {
    let words = |answers: &[u8], receipt: &str| -> Vec<Vec<u8>> {
        let head: [&[u8]; 5] = [b"BF.INSERT", b"k", b"ONCE", receipt.as_bytes(), b"ANSWERED"];
        head.into_iter()
            .chain([answers])
            .map(<[u8]>::to_vec)
            .collect()
    };
    let commands = [
        command("SET odd text"),
        command("RPUSH list a"),
        words(&receipt(0, &[true, false]), "r"),
        words(&receipt(2, &[true]), "r"),
        // It does not follow.
        words(&receipt(9, &[true]), "begun"),
        words(&receipt(50, &[false, true]), "begun"),
        words(&receipt(3, &[true]), "odd"),
        words(&receipt(3, &[true]), "list"),
        words(b"forged", "forged"),
    ];
    let server = on_link_of(Server::builder(), &commands);
    let mut client = server.client();
    client.expect("GET r", bulk(receipt(0, &[true, false, true])));
    client.expect("GET begun", bulk(receipt(50, &[false, true])));
    client.expect("GET odd", bulk(receipt(3, &[true])));
    client.expect("LRANGE list 0 -1", array([bulk("a")]));
    client.expect("EXISTS forged k", int(0));
    let own = Server::start();
    let refused = own.client().call_words(&words(&receipt(0, &[true]), "r"));
    assert_eq!(refused, error("ERR bad position"));
}

/// Returns the milliseconds that are left to a key.
fn left(client: &mut Client, key: &str) -> i64 {
    client.cmd(&format!("PTTL {key}")).as_int()
}

#[test]
fn receipts_expire_after_their_last_use() {
    let (_server, mut client) = Server::with_client();
    let week = 604_800_000;
    client.run("BF.INSERT k ONCE r 0 ITEMS a");
    let begun = left(&mut client, "r");
    assert!((week..=week + week / 16).contains(&begun), "{begun}");
    client.expect("TTL k", int(-1));
    // A receipt that has long to live stays as it is.
    let before = client.cmd("PEXPIRETIME r");
    client.run("BF.INSERT k ONCE r 0 ITEMS a");
    client.run("BF.INSERT k ONCE r 1 ITEMS b");
    client.expect("PEXPIRETIME r", &before);
    // Both kinds of use prolong its life, and a shorter setting shortens it.
    for (line, seconds) in [
        ("BF.INSERT k ONCE r 0 ITEMS a b", 1_000_000),
        ("BF.INSERT k ONCE r 2 ITEMS c", 2_000_000),
        ("BF.INSERT k ONCE r 0 ITEMS a b", 1000),
        ("BF.INSERT k ONCE r 2 ITEMS c d", 500),
    ] {
        client.ok(format!("CONFIG SET bf.bloom-receipt-ttl {seconds}"));
        client.run(line);
        let left = left(&mut client, "r");
        let most = seconds * 1000 * 17 / 16;
        assert!(
            (seconds * 1000 - 60_000..=most).contains(&left),
            "{line}: {left}"
        );
    }
    for line in [
        "BF.INSERT k ONCE r 0 ITEMS a",
        "BF.INSERT k ONCE r 4 ITEMS e",
    ] {
        client.expect("EXPIRE r 100", int(1));
        client.ok("CONFIG SET bf.bloom-receipt-ttl 0");
        client.run(line);
        client.expect("TTL r", int(-1));
    }
    client.run("BF.INSERT k ONCE forever 0 ITEMS e");
    client.expect("TTL forever", int(-1));
    // An expired receipt knows nothing.
    client.ok("CONFIG SET bf.bloom-receipt-ttl 1");
    client.run("BF.INSERT k ONCE r 5 ITEMS f");
    client.expect("PEXPIRE r 1", int(1));
    wait_until("it has expired", || client.cmd("EXISTS r") == int(0));
    let forgotten = error("FORGOTTEN answers are known from 0 to 0");
    client.expect("BF.INSERT k ONCE r 6 ITEMS g", forgotten);
}

/// Replicas get a later expiry as a point in time.
#[test]
fn replicas_follow_the_expiry() {
    let primary = Server::start();
    let replica = Server::replica_of(&primary).start();
    wait_in_sync(&primary, &replica);
    let mut client = primary.client();
    for (seconds, line) in [
        (604_800, "BF.INSERT k ONCE r 0 ITEMS a"),
        (1000, "BF.INSERT k ONCE r 0 ITEMS a"),
        (0, "BF.INSERT k ONCE r 0 ITEMS a"),
        (2000, "BF.INSERT k ONCE r 1 ITEMS a"),
        (0, "BF.INSERT k ONCE r 2 ITEMS a"),
    ] {
        client.ok(format!("CONFIG SET bf.bloom-receipt-ttl {seconds}"));
        client.run(line);
        wait_in_sync(&primary, &replica);
        assert_eq!(state(&replica), state(&primary), "{seconds} {line}");
    }
}

#[test]
fn without_memory_nothing_is_added() {
    let (_server, mut client) = Server::with_client();
    client.run("BF.INSERT k ONCE r 0 ITEMS a b");
    let digest = client.cmd("DEBUG DIGEST");
    client.ok("CONFIG SET maxmemory 1");
    for line in [
        "BF.INSERT k ONCE r 0 ITEMS a b",
        "BF.INSERT k ONCE r 2 ITEMS c",
        "BF.INSERT k ONCE new 0 ITEMS c",
    ] {
        let reply = client.cmd(line).text();
        assert!(reply.starts_with("OOM "), "{reply}");
    }
    client.expect("DEBUG DIGEST", &digest);
    client.ok("CONFIG SET maxmemory 0");
    client.expect(
        "BF.INSERT k ONCE r 1 ITEMS b c",
        truths(false, &[true, true]),
    );
}

/// A command that begins within the limit may take both keys beyond it. The next one is refused.
#[test]
fn a_limit_that_is_reached_between_the_keys_parts_nothing() {
    let (server, mut client) = Server::with_client();
    let mut rng = Rng::new(4);
    let mut crossed = 0;
    for round in 0..20 {
        client.ok("FLUSHALL");
        let mut log = Log::new("k", "r", "ERROR 1e-9 CAPACITY 20");
        let limit = memory(&server, "used_memory") + 100_000 + 10_000 * round;
        client.ok(format!("CONFIG SET maxmemory {limit}"));
        let reply = loop {
            let position = log.answers.len();
            let count = 1 + rng.below(400);
            log.write(&mut rng, count);
            let line = format!("BF.INSERT k ERROR 1e-9 CAPACITY 20 ONCE r {position} ITEMS");
            let reply = client.call_with(&line, &log.items[position..]);
            if reply.is_error() {
                break reply.text();
            }
            let answers = log.items[position..]
                .iter()
                .map(|item| log.seen.insert(item.clone()));
            log.answers.extend(answers);
            assert_eq!(reply, truths(false, &log.answers[position..]));
        };
        assert!(reply.starts_with("OOM "), "{reply}");
        crossed += usize::from(!log.answers.is_empty() && memory(&server, "used_memory") > limit);
        client.expect("GET r", bulk(receipt(0, &log.answers)));
        client.expect("BF.CARD k", log.count());
        client.ok("CONFIG SET maxmemory 0");
        let count = log.items.len();
        log.read(&mut client, false, 0, count);
        log.is_held(&mut client);
    }
    assert!(crossed > 0);
}

/// A receipt that was evicted is missed; the filter answers for itself.
#[test]
fn an_evicted_receipt_is_forgotten() {
    let (_server, mut client) = Server::with_client();
    client.run("BF.INSERT k ONCE r 0 ITEMS a b");
    client.ok("CONFIG SET maxmemory-policy volatile-ttl maxmemory 1");
    let refused = client.cmd("SET text x").text();
    assert!(refused.starts_with("OOM "), "{refused}");
    client.expect("EXISTS k r", int(1));
    client.ok("CONFIG SET maxmemory 0");
    let forgotten = error("FORGOTTEN answers are known from 0 to 0");
    client.expect("BF.INSERT k ONCE r 2 ITEMS c", forgotten);
    client.expect("BF.CARD k", int(2));
    client.expect(
        "BF.INSERT k ONCE r 2 BEGIN ITEMS c a",
        truths(false, &[true, false]),
    );
}
