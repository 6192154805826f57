//! Which commands are allowed where only reads are, by scripts and functions too.

use crate::harness::{Client, Reply, Server, bulk, error, int, ok};
use crate::support::blobs::{Blobs, blobs, send, send_words};
use crate::support::protocols::{in_both_protocols, truth};

use super::CALL;

/// Makes what the commands below are about: a Bloom filter `k`, one with counters `n`, a cuckoo filter `c`.
fn make_filters(client: &mut Client) {
    for line in [
        "BF.ADD k a",
        "BF.INSERT n COUNTING ITEMS a b",
        "CF.INSERT c ITEMS a b",
    ] {
        assert!(!client.cmd(line).is_error(), "{line}");
    }
}

const WRITES: &[&str] = &[
    "BF.ADD k new",
    "BF.MADD k new",
    "BF.INSERT k ITEMS new",
    "BF.RESERVE new 0.01 100",
    "BF.LOAD new <dump>",
    "BF.LOADCHUNK new 1 <header>",
    "BF.MERGE new k",
    "CF.ADD c new",
    "CF.ADDNX c newer",
    "CF.INSERT c ITEMS new",
    "CF.INSERTNX c ITEMS newest",
    "CF.RESERVE new 64",
    "CF.LOADCHUNK new 1 <cfheader>",
];

/// Writes that take no memory.
const REMOVALS: &[&str] = &["BF.DEL n a", "BF.MDEL n b", "CF.DEL c a", "CF.COMPACT c"];

pub const READS: &[&str] = &[
    "BF.EXISTS k a",
    "BF.MEXISTS k a b",
    "BF.CARD k",
    "BF.INFO k",
    "BF.INFO k SIZE",
    "BF.SCANDUMP k 0",
    "BF.DEBUG k",
    "BF.MISSING k a b",
    "CF.EXISTS c a",
    "CF.MEXISTS c a b",
    "CF.COUNT c a",
    "CF.INFO c",
    "CF.DEBUG c",
    "CF.SCANDUMP c 0",
];

/// Passes a command on to a script or function, its key moved to where these have their keys.
fn through(client: &mut Client, start: &[&str], line: &str, blobs: &Blobs) -> Reply {
    let mut words = line.split(' ');
    let (name, key) = (words.next().unwrap(), words.next().unwrap());
    let words = start.iter().copied().chain(["1", key, name]).chain(words);
    send_words(client, words, blobs)
}

#[test]
fn scripts_that_only_read_may_only_read() {
    let server = Server::start();
    let blobs = blobs(&mut server.client());
    in_both_protocols(&server, |client, _| {
        make_filters(client);
        let library = "#!lua name=bloom\n\
            local function call(keys, args) return redis.call(args[1], keys[1], unpack(args, 2)) end\n\
            redis.register_function{function_name = 'look', callback = call, flags = {'no-writes'}}\n\
            redis.register_function('change', call)\n";
        let load: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()];
        assert_eq!(client.call(&load), bulk("bloom"));

        let before = client.cmd("DEBUG DIGEST");
        let refused = "ERR Write commands are not allowed from read-only scripts.";
        // A script may say so of itself.
        let looks = format!("#!lua flags=no-writes\n{CALL}");
        let reading: [&[&str]; 4] = [
            &["EVAL_RO", CALL],
            &["EVAL", &looks],
            &["FCALL", "look"],
            &["FCALL_RO", "look"],
        ];
        let writes = || WRITES.iter().chain(REMOVALS);
        for start in reading {
            for line in READS {
                let reply = through(client, start, line, &blobs);
                assert!(!reply.is_error(), "{start:?} {line}: {reply:?}");
            }
            for line in writes() {
                let reply = through(client, start, line, &blobs);
                assert!(
                    reply.is_error() && reply.text().starts_with(refused),
                    "{start:?} {line}: {reply:?}"
                );
            }
        }
        let reply = through(client, &["FCALL_RO", "change"], WRITES[0], &blobs);
        assert_eq!(
            reply,
            error("ERR Can not execute a script with write flag using *_ro command.")
        );
        assert_eq!(client.cmd("DEBUG DIGEST"), before);

        for line in writes().chain(READS) {
            let reply = through(client, &["FCALL", "change"], line, &blobs);
            assert!(!reply.is_error(), "{line}: {reply:?}");
            send(client, "DEL new", &blobs);
        }
        assert_eq!(client.cmd("BF.CARD k"), int(2));
        assert_eq!(client.cmd("CF.COUNT c new"), int(2));
        assert_eq!(client.cmd("CF.COUNT c a"), int(0));
    });
}

/// States of a server: the command that sets one, the command that ends it, the error for writes, and whether it is
/// also for writes that take no memory.
const STATES: &[(&str, &str, &str, bool)] = &[
    (
        "CONFIG SET maxmemory 1",
        "CONFIG SET maxmemory 0",
        "OOM command not allowed when used memory > 'maxmemory'.",
        false,
    ),
    (
        "CONFIG SET min-replicas-to-write 1",
        "CONFIG SET min-replicas-to-write 0",
        "NOREPLICAS Not enough good replicas to write.",
        true,
    ),
    (
        "REPLICAOF 127.0.0.1 1",
        "REPLICAOF NO ONE",
        "READONLY You can't write against a read only replica.",
        true,
    ),
];

#[test]
fn only_reads_are_served_if_writes_are_forbidden() {
    let server = Server::start();
    let blobs = blobs(&mut server.client());
    in_both_protocols(&server, |client, resp3| {
        make_filters(client);
        for (forbid, allow, refused, all) in STATES {
            let before = client.cmd("DEBUG DIGEST");
            assert_eq!(client.cmd(forbid), ok());
            let (more, allowed) = if *all {
                (REMOVALS, &[][..])
            } else {
                (&["BF.ADD k a", "BF.LOADCHUNK new 2 x"][..], REMOVALS)
            };
            for line in WRITES.iter().chain(more) {
                assert_eq!(send(client, line, &blobs), error(refused), "{line}");
                let reply = through(client, &["EVAL", CALL], line, &blobs);
                assert!(
                    reply.is_error() && reply.text().starts_with(refused),
                    "{line}: {reply:?}"
                );
            }
            assert_eq!(client.cmd("DEBUG DIGEST"), before);
            for line in READS.iter().chain(allowed) {
                let reply = client.cmd(line);
                assert!(!reply.is_error(), "{line}: {reply:?}");
                let reply = through(client, &["EVAL", CALL], line, &blobs);
                assert!(!reply.is_error(), "{line}: {reply:?}");
            }
            assert_eq!(client.cmd(allow), ok());
        }
        assert_eq!(client.cmd("BF.ADD k new"), truth(resp3, true));
        assert_eq!(client.cmd("CF.ADD c new"), truth(resp3, true));
    });
}
