//! Refusals: their texts in both protocols, and that a refused command changes nothing. The recordings of RedisBloom have
//! most of its texts (`recorded`), and the pages examples of others; the rows here are those that both lack.

use crate::harness::{Client, Reply, Server, error, ok};
use crate::support::commands::{self, Command};
use crate::support::cuckoo::items;
use crate::support::protocols::in_both_protocols;
use crate::support::tables::rows;
use crate::support::usage::least_limit;

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// The values that the commands find, besides a cuckoo filter `full` without room and a t-digest `huge` of 2⁶² values.
const GIVEN: [&str; 14] = [
    "SET text x",
    "BF.ADD bloom a",
    "CF.INSERT cuckoo CAPACITY 1024 ITEMS a",
    "CF.RESERVE full 64 EXPANSION 0",
    "CF.INSERT full ITEMS a a a a a a a a",
    "CF.RESERVE most 4",
    "CMS.INITBYDIM cms 10 5",
    "CMS.INCRBY cms a 5 b 3",
    "CMS.INITBYDIM small 10 5 CELL_SIZE 1",
    "CMS.INCRBY small a 2",
    "TOPK.RESERVE topk 5 50 4 0.9",
    "TOPK.ADD topk a b c a",
    "TDIGEST.CREATE tdigest",
    "TDIGEST.CREATE huge",
];

/// Commands, and the error of each. `none` is not a key.
const ROWS: &str = "
CF.RESERVE new 64.0 => Bad capacity
CF.RESERVE new 18446744073709551616 => Bad capacity
CF.RESERVE new x BUCKETSIZE x => Bad capacity
CF.RESERVE new 9 BUCKETSIZE 5 => Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
CF.RESERVE new 64 EXPANSION -1 => EXPANSION: value must be in the range [0, 32768]
# In RedisBloom's order, whatever the order of the words.
CF.RESERVE new 3 EXPANSION x MAXITERATIONS 0 => MAXITERATIONS: value must be in the range [1, 65535]
CF.RESERVE new 3 EXPANSION -1 => EXPANSION: value must be in the range [0, 32768]
CF.RESERVE cuckoo 3 => Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
# Words that are no options, and options without a value.
CF.RESERVE new 64 SIZE 4 => Unknown argument received
CF.RESERVE new 64 4 BUCKETSIZE => Unknown argument received
CF.RESERVE new 64 EXPANSION 1 BUCKETSIZE 2 x 1 => Unknown argument received
CF.RESERVE cuckoo 64 BUCKETSIZE 2 EXPANSION => ERR wrong number of arguments for 'cf.reserve' command
CF.INSERT new CAPACITY x ITEMS a => Bad capacity
CF.INSERTNX cuckoo CAPACITY 8 CAPACITY 3 ITEMS a => Capacity must be in the range [cf-bucket-size * 2, 1073741824]
CF.INSERT cuckoo Cxyz 100 ITEMS a => Unknown argument received
CF.INSERT cuckoo NO ITEMS a => Unknown argument received
CF.INSERT cuckoo Iwhat a => Unknown argument received
CF.INSERT cuckoo  ITEMS a => Unknown argument received
CF.INSERTNX cuckoo EXPANSION 2 ITEMS a => Unknown argument received
CF.INSERT none NOCREATE ITEMS a => ERR not found
CF.INSERT none nocreate capacity 5 NoCreate CAPACITY 9 items ITEMS CAPACITY => ERR not found
CF.INSERTNX none NOCREATE CAPACITY 64 ITEMS a => ERR not found
CF.INSERTNX text NOCREATE ITEMS a => WRONGTYPE Operation against a key holding the wrong kind of value
CF.DEBUG none => ERR not found
CF.LOADCHUNK text 2 x => WRONGTYPE Operation against a key holding the wrong kind of value
CF.LOADCHUNK cuckoo 9223372036854775807 x => Couldn't load chunk!
CF.ADDNX full other-44 => Filter is full
CF.ADDNX most a => Maximum expansions reached
CF.INSERT most ITEMS a b => Maximum expansions reached
CF.INSERTNX most NOCREATE ITEMS a => Maximum expansions reached
CF.INSERT new CAPACITY 1073741824 ITEMS a => ERR Insufficient memory: operation exceeds cuckoo filter memory limit
# A lookup takes time for each row.
CMS.INITBYDIM new 1 257 => CMS: invalid depth
CMS.INITBYDIM new 4194304 4
=> CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit
CMS.INITBYDIM new 9223372036854775807 1 CELL_SIZE 1
=> CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit
CMS.INITBYPROB new 0.1 0.1 WORD 3 => CMS: unknown argument
CMS.INITBYPROB new 0.1 0.1 CELL_SIZE 16 => CMS: CELL_SIZE must be 1, 2, 4 or 8
CMS.INITBYPROB new 0.0000001 0.1
=> CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit
CMS.INITBYPROB cms 0.1 0.1 CELL_SIZE => ERR wrong number of arguments for 'cms.initbyprob' command
# Nothing is counted before all numbers are read.
CMS.INCRBY cms a 1 b x => CMS: Cannot parse number
CMS.INCRBY cms a 1 b -9223372036854775808 c x => CMS: invalid increment
CMS.MERGE small 1 cms => CMS: cell size is not equal
CMS.MERGE cms 1 cms WEIGHTS 4294967295 => CMS: MERGE overflow
CMS.MERGE small 2 small small WEIGHTS 100 100 => CMS: MERGE overflow
# Adding takes time for each row.
TOPK.RESERVE new 1 1 33 1 => TopK: invalid depth
TOPK.RESERVE new 1 4294967295 2 1 => ERR Insufficient memory to create topk data structure
TOPK.RESERVE new 1 134217727 32 1 => ERR Insufficient memory to create topk data structure
TDIGEST.CREATE new COMPRESSION 100001 => ERR T-Digest: allocation failed
TDIGEST.CREATE new COMPRESSION 9223372036854775807 => ERR T-Digest: allocation failed
TDIGEST.MERGE new 1 tdigest COMPRESSION 100001 => ERR T-Digest: allocation of destination digest failed
TDIGEST.MERGE new 2 huge huge => ERR T-Digest: overflow detected
TDIGEST.MERGE huge 1 huge => ERR T-Digest: overflow detected
TDIGEST.MERGE tdigest 2 huge huge => ERR T-Digest: overflow detected
";

/// Commands that `bf.bloom-new-filters redisbloom` refuses.
const UNLIKE_REDISBLOOM: &str = "
CMS.INITBYDIM new 10 5 CELL_SIZE 8
=> ERR a CELL_SIZE other than 4 is not possible with bf.bloom-new-filters redisbloom
CMS.INITBYPROB new 0.1 0.1 CELL_SIZE 1
=> ERR a CELL_SIZE other than 4 is not possible with bf.bloom-new-filters redisbloom
CMS.INCRBY cms a -1 => CMS: Number cannot be negative
CMS.MERGE cms 2 cms weights => CMS: wrong number of keys/weights
CMS.MERGE cms 1 Weights WEIGHTS 1 => CMS: wrong number of keys/weights
";

/// The keys of values of each type, and the prefix of the commands for it.
const KEYS: [(&str, &str); 6] = [
    ("bloom", "bf."),
    ("cuckoo", "cf."),
    ("cms", "cms."),
    ("topk", "topk."),
    ("tdigest", "tdigest."),
    ("text", "none"),
];

/// Returns the error of a command on a key of another type, from which some do not distinguish a missing or an own one.
fn error_of_other_type(command: &Command) -> &'static str {
    match &*command.name() {
        "cf.del" => "Not found",
        "cf.compact" => "Cuckoo filter was not found",
        "cms.initbydim" | "cms.initbyprob" => "CMS: key already exists",
        "topk.reserve" => "TopK: key already exists",
        _ => WRONG_TYPE,
    }
}

#[test]
fn refused_commands_change_nothing() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        client.run_all(GIVEN);
        client.run_all(
            ["full", "most"].map(|key| format!("CF.INSERT {key} ITEMS {}", items("i", 200))),
        );
        client.all_ok(["tdigest 1 2 3", "huge 1"].map(|values| format!("TDIGEST.ADD {values}")));
        client.all_ok(["TDIGEST.MERGE huge 1 huge"; 62]);
        // What shows whether a t-digest was compressed is not in its digest.
        let state = |client: &mut Client| -> Vec<Reply> {
            let lines = ["DEBUG DIGEST", "TDIGEST.INFO tdigest", "TDIGEST.INFO huge"];
            lines.map(|line| client.cmd(line)).to_vec()
        };
        let before = state(client);
        let is_refused = |client: &mut Client, line: &str, text: &str| {
            client.expect(line, error(text));
            assert_eq!(state(client), before, "{line}");
        };
        for row in rows(ROWS) {
            is_refused(client, &row.command, &row.expected);
        }
        for command in commands::all() {
            for (line, text) in command.calls_of_wrong_arity() {
                is_refused(client, &line, &text);
            }
            for (key, own) in KEYS {
                if !command.name().starts_with(own) {
                    is_refused(client, &command.on(key), error_of_other_type(command));
                }
            }
        }
        client.ok("CONFIG SET bf.bloom-new-filters redisbloom");
        for row in rows(UNLIKE_REDISBLOOM) {
            is_refused(client, &row.command, &row.expected);
        }
        client.ok("CMS.INITBYDIM new 10 5 CELL_SIZE 4");
        client.ok("CONFIG SET bf.bloom-new-filters own");
    });
}

/// Both settings limit a value as a whole when it is created. Neither limits what was made already.
#[test]
fn the_memory_limits_hold_for_new_values() {
    const NO_SKETCH: &str =
        "CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit";
    const NO_DIGEST: &str = "ERR T-Digest: allocation of destination digest failed";
    const NO_LIST: &str = "ERR Insufficient memory to create topk data structure";
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        client.all_ok([
            "CMS.INITBYDIM model 1000 5",
            "TDIGEST.CREATE large COMPRESSION 500",
        ]);
        for (create, refused, range, uses) in [
            (
                "CMS.INITBYDIM k 1000 5",
                NO_SKETCH,
                20_000..20_300,
                ["CMS.INCRBY k a 1", "CMS.MERGE k 2 k model"],
            ),
            (
                // With all of its slots.
                "TOPK.RESERVE k 100 50 3 0.9",
                NO_LIST,
                3000..6000,
                ["TOPK.QUERY k a", "TOPK.LIST k"],
            ),
            (
                "TDIGEST.MERGE k 1 large",
                NO_DIGEST,
                48_000..49_000,
                ["TDIGEST.ADD k 1 2 3", "TDIGEST.RESET k"],
            ),
        ] {
            for (setting, default) in [
                ("bf.bloom-filter-max-memory-usage", "128mb"),
                ("bf.bloom-memory-usage-limit", "0"),
            ] {
                let bytes = least_limit(client, setting, create);
                assert!(range.contains(&bytes), "{bytes}");
                let mut create_within = |limit: i64| {
                    client.ok(format!("CONFIG SET {setting} {limit}"));
                    client.cmd(create)
                };
                assert_eq!(create_within(bytes - 1), error(refused), "{setting}");
                assert_eq!(create_within(bytes), ok(), "{setting}");
                client.ok(format!("CONFIG SET {setting} 1"));
                client.run_all(uses);
                client.ok(format!("CONFIG SET {setting} {default}"));
                client.run("DEL k");
            }
        }
    });
}
