//! The commands in a log.

use valkeybloom_sketches::Seed;

use crate::harness::{Reply, Server, array, error, int, ok, wait_until};
use crate::support::aof::Log;
use crate::support::tables::rows;

use super::workload::Workload;

/// Returns a command in one line. A seed is shown by its kind, since most are random.
fn shown(command: &[Vec<u8>]) -> String {
    let words = command.iter().enumerate().map(|(index, word)| {
        if index > 0 && command[index - 1] == b"SEED" {
            assert_eq!(word.len(), 32);
            return match word.as_slice() {
                seed if seed == Seed::FIXED.as_bytes() => "<fixed>".to_owned(),
                b"a seed of thirty-two plain bytes" => "<given>".to_owned(),
                _ => "<random>".to_owned(),
            };
        }
        if index > 0 && command[index - 1] == b"AT" || command[0] == b"PEXPIREAT" && index == 2 {
            let ms: u64 = String::from_utf8_lossy(word).parse().expect("a time");
            // After this was written, and in this century.
            assert!((1_700_000_000_000..4_000_000_000_000).contains(&ms), "{ms}");
            return "<time>".to_owned();
        }
        if word.is_empty() {
            return "<empty>".to_owned();
        }
        word.escape_ascii().to_string()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Commands, and what the log holds of each.
const LOGGED: &str = "
# A creation has every parameter, whoever gave it.
BF.RESERVE reserved 0.02 100
=> BF.INSERT reserved CAPACITY 100 ERROR 0.02 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3
BF.RESERVE fixed 0.1 2 NONSCALING
=> BF.INSERT fixed CAPACITY 2 ERROR 0.1 TIGHTENING 0.5000000000000001 SEED <fixed> NONSCALING
BF.RESERVE zero 0.1 2 EXPANSION 0
=> BF.INSERT zero CAPACITY 2 ERROR 0.1 TIGHTENING 0.5000000000000001 SEED <fixed> NONSCALING
BF.INSERT inserted
=> BF.INSERT inserted CAPACITY 50 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3
bf.insert full expansion 7 tightening 0.25 error 1e-5 capacity 9 items a b a
=> BF.INSERT full CAPACITY 9 ERROR 1e-5 TIGHTENING 0.25000000000000006 SEED <fixed> EXPANSION 7 ITEMS a b
BF.INSERT scaled VALIDATESCALETO 1000 CAPACITY 10 ITEMS a
=> BF.INSERT scaled CAPACITY 10 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 ITEMS a
bf.add added a
=> BF.INSERT added CAPACITY 50 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 ITEMS a
BF.MADD many a b a
=> BF.INSERT many CAPACITY 50 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 ITEMS a b
# An add is sent with what was new.
BF.ADD added b => BF.ADD added b
bf.add added c => bf.add added c
BF.ADD added <empty> => BF.ADD added <empty>
BF.MADD added d e => BF.MADD added d e
BF.MADD added a f b g f => BF.MADD added f g
BF.INSERT added ITEMS h => BF.MADD added h
BF.INSERT added CAPACITY 9 ERROR 0.5 ITEMS a i => BF.MADD added i
BF.INSERT added NOCREATE ITEMS j j k => BF.MADD added j k
# Commands that change nothing are not sent.
BF.ADD added a => -
BF.MADD added a b a => -
BF.INSERT added ITEMS a b => -
BF.INSERT added => -
BF.RESERVE added 0.1 10 => -
BF.INSERT missing NOCREATE ITEMS a => -
BF.INSERT missing CAPACITY 0 ITEMS a => -
BF.RESERVE missing 0.1 100000000000 => -
BF.INSERT missing VALIDATESCALETO 100000000000 ITEMS a => -
BF.EXISTS added a => -
BF.MEXISTS added a x => -
BF.CARD added => -
BF.INFO added => -
BF.DEBUG added => -
BF.SCANDUMP added 0 => -
BF.LOAD missing nonsense => -
BF.LOADCHUNK missing 1 nonsense => -
BF.LOADCHUNK added 2 nonsense => -
# An item that failed is not sent, nor are those after it.
BF.MADD fixed a a b c a => BF.MADD fixed a b
BF.MADD fixed c => -
BF.ADD fixed c => -
BF.INSERT fixed ITEMS a b c => -
BF.INSERT new CAPACITY 2 NONSCALING ITEMS a b a c d
=> BF.INSERT new CAPACITY 2 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> NONSCALING ITEMS a b
BF.INSERT few CAPACITY 2 NONSCALING COUNTING ITEMS a a b c d
=> BF.INSERT few CAPACITY 2 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> NONSCALING COUNTING ITEMS a a b
BF.MADD few a c => BF.INSERT few NOCREATE ITEMS a
BF.ADD few c => -
BF.INSERT narrow CAPACITY 2 NONSCALING WINDOW 1000000000000 PERIODS 2 ITEMS a b c
=> BF.INSERT narrow CAPACITY 2 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> NONSCALING WINDOW 1000000000000 PERIODS 2 AT <time> ITEMS a b
BF.MADD narrow a c => -
# A scale-out adds nothing to a command. Replicas of other settings have to saturate, too.
BF.MADD scaled b c d e f g h i j k l m n => BF.MADD scaled b c d e f g h i j k l m n
CONFIG SET bf.bloom-saturate-nonscaling yes => -
BF.MADD fixed a c d => BF.INSERT fixed NOCREATE SATURATE ITEMS c d
BF.ADD fixed e => BF.INSERT fixed NOCREATE SATURATE ITEMS e
BF.MADD few a c d => BF.INSERT few NOCREATE SATURATE ITEMS a c d
BF.MADD narrow a c d => BF.INSERT narrow NOCREATE AT <time> SATURATE ITEMS c d
# A seed is sent wherever it comes from.
CONFIG SET bf.bloom-use-random-seed yes bf.bloom-fp-rate 0.25 => -
CONFIG SET bf.bloom-expansion 0 bf.bloom-tightening-ratio 0.75 => -
BF.ADD seedless a
=> BF.INSERT seedless CAPACITY 50 ERROR 0.25 TIGHTENING 0.7500000000000001 SEED <random> NONSCALING ITEMS a
BF.RESERVE seedless 0.1 10 => -
# Writes to windows carry a time; a removal is sent with the items that were removed.
CONFIG SET bf.bloom-use-random-seed no bf.bloom-expansion 3 bf.bloom-tightening-ratio 0.5 => -
BF.RESERVE counted 0.001 10 COUNTING
=> BF.INSERT counted CAPACITY 10 ERROR 0.001 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 COUNTING
BF.MADD counted a b a => BF.INSERT counted NOCREATE ITEMS a b a
BF.ADD counted a => BF.INSERT counted NOCREATE ITEMS a
BF.INSERT counted CAPACITY 7 ID 9 ITEMS c => BF.INSERT counted NOCREATE ID 9 ITEMS c
BF.DEL counted a => BF.DEL counted a
BF.DEL counted c ID 9 => BF.DEL counted c ID 9
BF.DEL counted c ID 9 => -
BF.DEL counted x => -
BF.MDEL counted a x b b => BF.MDEL counted a b
BF.MDEL counted x a => BF.MDEL counted a
BF.MDEL counted x y => -
BF.COUNT counted a => -
BF.MISSING counted a b => -
BF.INSERT windowed WINDOW 1000000000000 PERIODS 2 CAPACITY 9 ERROR 0.001 TTL 1 ITEMS a b
=> BF.INSERT windowed CAPACITY 9 ERROR 0.001 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 WINDOW 1000000000000 PERIODS 2 AT <time> TTL 1 ITEMS a b
BF.MADD windowed a x => BF.INSERT windowed NOCREATE AT <time> ITEMS a x
BF.ADD windowed a => -
BF.INSERT windowed TTL 1 ITEMS b => -
BF.INSERT windowed TTL 2000000000000 ITEMS b => BF.INSERT windowed NOCREATE AT <time> TTL 2000000000000 ITEMS b
BF.INSERT windowed TTL 2000000000001 ITEMS y => -
BF.DEL windowed a => -
BF.RESERVE added 0.1 10 NX => -
BF.RESERVE added 0.1 10 NX EX 10 => -
BF.RESERVE brief 0.1 10 PX 900000
=> MULTI ; BF.INSERT brief CAPACITY 10 ERROR 0.1 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 ; PEXPIREAT brief <time> ; EXEC
# The receiver has the sources of a merge.
BF.MERGE united counted => BF.MERGE united counted
BF.MERGE united united => -
BF.MERGE united missing => -
BF.MERGE united windowed => -
CONFIG SET bf.bloom-use-random-seed yes bf.bloom-expansion 0 bf.bloom-tightening-ratio 0.75 => -
# The server's own commands.
COPY added copied => COPY added copied
RENAME copied renamed => RENAME copied renamed
DEL renamed missing => DEL renamed missing
UNLINK many => UNLINK many
PERSIST added => -
# The commands of a transaction stand together.
MULTI => -
BF.ADD full z => -
BF.ADD full a => -
BF.MADD full a y => -
EXEC => MULTI ; BF.ADD full z ; BF.MADD full y ; EXEC
MULTI => -
BF.ADD full a => -
BF.EXISTS full a => -
EXEC => -
";

#[test]
fn the_log_holds_the_effects_of_commands() {
    let server = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("aof-use-rdb-preamble", "no"),
        ("bf.bloom-capacity", "50"),
        ("bf.bloom-fp-rate", "0.03"),
        ("bf.bloom-expansion", "3"),
        // So that the same items are new every time.
        ("bf.bloom-use-random-seed", "no"),
    ]);
    let mut client = server.client();
    let mut log = Log::of(&server);
    let mut logged = || -> Vec<String> { log.since().iter().map(|c| shown(c)).collect() };
    for row in rows(LOGGED) {
        client.cmd(&row.command.replace("<empty>", ""));
        assert_eq!(logged(), row.parts(), "{}", row.command);
    }

    let seed: [&[u8]; 4] = [
        b"BF.INSERT",
        b"seeded",
        b"SEED",
        b"a seed of thirty-two plain bytes",
    ];
    assert_eq!(client.call(&seed), array([]));
    assert_eq!(
        logged(),
        [
            "BF.INSERT seeded CAPACITY 50 ERROR 0.25 TIGHTENING 0.7500000000000001 SEED <given> NONSCALING"
        ]
    );

    // A script is what it did.
    let script = "redis.call('BF.ADD', KEYS[1], 'x') redis.call('BF.ADD', KEYS[1], 'x') \
        redis.call('BF.MADD', KEYS[1], 'x', 'w') redis.call('BF.EXISTS', KEYS[1], 'v')";
    let eval: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"1", b"full"];
    assert_eq!(client.call(&eval), Reply::Nil);
    assert_eq!(
        logged(),
        ["MULTI", "BF.ADD full x", "BF.MADD full w", "EXEC"]
    );
    let alone = "return redis.call('BF.MADD', KEYS[1], 'x', 'u')";
    let eval: [&[u8]; 4] = [b"EVAL", alone.as_bytes(), b"1", b"full"];
    assert_eq!(client.call(&eval), array([int(0), int(1)]));
    assert_eq!(logged(), ["BF.MADD full u"]);
}

#[test]
fn the_log_holds_loads_verbatim() {
    let server = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("aof-use-rdb-preamble", "no"),
    ]);
    let mut client = server.client();
    let mut log = Log::of(&server);
    let workload = Workload::new(1);
    let dump = &workload.dumps[0];
    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();

    let load: [&[u8]; 3] = [b"BF.LOAD", b"plain", dump];
    assert_eq!(client.call(&load), ok());
    assert_eq!(log.since(), [words(&load)]);
    let again = error("BUSYKEY Target key name already exists.");
    assert_eq!(client.call(&load), again);
    assert!(log.since().is_empty());

    let load: [&[u8]; 4] = [b"bf.load", b"expiring", dump, b"1000000"];
    assert_eq!(client.call(&load), ok());
    let time = client.cmd("PEXPIRETIME expiring").as_int().to_string();
    assert_eq!(
        log.since(),
        [
            words(&[b"MULTI"]),
            words(&[b"BF.LOAD", b"expiring", dump]),
            words(&[b"PEXPIREAT", b"expiring", time.as_bytes()]),
            words(&[b"EXEC"]),
        ]
    );

    let pieces = &workload.chunked[0];
    for (cursor, bytes) in pieces {
        let cursor = cursor.to_string();
        let args: [&[u8]; 4] = [b"BF.LOADCHUNK", b"chunked", cursor.as_bytes(), bytes];
        assert_eq!(client.call(&args), ok());
        assert_eq!(log.since(), [words(&args)]);
        // Sending it again changes nothing.
        assert!(client.call(&args).is_error());
        assert!(log.since().is_empty());
    }

    // RESTORE is the server's: its time to live becomes a point in time.
    let payload = client.cmd("DUMP plain");
    let args: [&[u8]; 4] = [b"RESTORE", b"restored", b"900000", payload.as_bytes()];
    assert_eq!(client.call(&args), ok());
    let time = client.cmd("PEXPIRETIME restored").as_int().to_string();
    let reported = words(&[
        b"RESTORE",
        b"restored",
        time.as_bytes(),
        payload.as_bytes(),
        b"ABSTTL",
    ]);
    assert_eq!(log.since(), [reported]);

    // A key that expires is deleted in the log, in the way that the server is set to.
    let set = "lazyfree-lazy-expire";
    let lazy = client.cmd(&format!("CONFIG GET {set}")).as_array()[1].text();
    let delete: &[u8] = if lazy == "yes" { b"UNLINK" } else { b"DEL" };
    let load: [&[u8]; 4] = [b"BF.LOAD", b"brief", dump, b"1"];
    assert_eq!(client.call(&load), ok());
    wait_until("the key is gone", || client.cmd("EXISTS brief") == int(0));
    let reported = log.since();
    assert_eq!(reported.len(), 5, "{reported:?}");
    assert_eq!(reported[4], words(&[delete, b"brief"]));
    assert_eq!(client.cmd("BF.CARD brief"), int(0));
    assert!(log.since().is_empty());
}
