//! Refusals: their texts in both protocols, and that a refused command changes nothing.

use crate::harness::{Server, error, ok};
use crate::support::protocols::in_both_protocols;
use crate::support::refused::Refusals;
use crate::support::usage::least_limit;

const EXISTS: &str = "CMS: key already exists";

/// Commands, and the error of each. `k` and `like` are sketches of 10 × 5, `other` is one of 10 × 4, `small` one of
/// 10 × 5 with counters of one byte; `none` is not a key, and `text` a string.
const ROWS: &str = "
CMS.INITBYDIM k x y => CMS: key already exists
CMS.INITBYDIM text 1 1 => CMS: key already exists
CMS.INITBYDIM new 0 x => CMS: invalid width
# A lookup takes time for each row.
CMS.INITBYDIM new 1 257 => CMS: invalid depth
CMS.INITBYDIM new 1 5 WORD 4 => CMS: unknown argument
CMS.INITBYDIM new 1 5 CELL_SIZE 3 => CMS: CELL_SIZE must be 1, 2, 4 or 8
CMS.INITBYDIM new 9223372036854775807 2 => CMS: invalid init arguments
# Without a limit it is too much for any machine.
CMS.INITBYDIM new 4611686018427387903 2 => CMS: Insufficient memory to create the key
CMS.INITBYDIM new 4194304 4
=> CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit
CMS.INITBYDIM new 9223372036854775807 1 CELL_SIZE 1
=> CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit
CMS.INITBYPROB k x y => CMS: key already exists
CMS.INITBYPROB new 0 x => CMS: invalid overestimation value
CMS.INITBYPROB new 0.1 0 => CMS: invalid prob value
CMS.INITBYPROB new 0.1 0.1 WORD 3 => CMS: unknown argument
CMS.INITBYPROB new 0.1 0.1 CELL_SIZE 16 => CMS: CELL_SIZE must be 1, 2, 4 or 8
CMS.INITBYPROB new 1e-19 0.5 => CMS: invalid init arguments
CMS.INITBYPROB new 0.0000001 0.1
=> CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit
CMS.INCRBY none a x => CMS: key does not exist
# Nothing is counted before all numbers are read.
CMS.INCRBY k a 1 b x => CMS: Cannot parse number
CMS.INCRBY k a 1 b -9223372036854775808 c x => CMS: invalid increment
CMS.QUERY none a => CMS: key does not exist
CMS.INFO none => CMS: key does not exist
CMS.MERGE none x k => CMS: key does not exist
CMS.MERGE text x k => WRONGTYPE Operation against a key holding the wrong kind of value
CMS.MERGE k x k => CMS: invalid numkeys
CMS.MERGE k 0 k => CMS: Number of keys must be positive
CMS.MERGE k 2 k => CMS: wrong number of keys
CMS.MERGE k 1 k WEIGHTS => CMS: wrong number of keys/weights
CMS.MERGE k 1 none WEIGHTS x => CMS: invalid weight value
# Source by source: the weight, then the key, then its shape.
CMS.MERGE k 2 none like WEIGHTS 1 x => CMS: key does not exist
CMS.MERGE k 2 other none => CMS: width/depth is not equal
CMS.MERGE k 2 like none => CMS: key does not exist
CMS.MERGE k 2 like text => WRONGTYPE Operation against a key holding the wrong kind of value
CMS.MERGE k 2 like other => CMS: width/depth is not equal
CMS.MERGE small 1 other => CMS: width/depth is not equal
CMS.MERGE k 1 small => CMS: cell size is not equal
CMS.MERGE small 1 k => CMS: cell size is not equal
CMS.MERGE k 1 k WEIGHTS -1 => CMS: MERGE overflow
CMS.MERGE k 1 k WEIGHTS 9223372036854775807 => CMS: MERGE overflow
CMS.MERGE k 1 k WEIGHTS 4294967295 => CMS: MERGE overflow
CMS.MERGE small 2 small small WEIGHTS 100 100 => CMS: MERGE overflow
# The number of words comes first.
CMS.INITBYDIM k 1 => ERR wrong number of arguments for 'cms.initbydim' command
CMS.INITBYPROB k 0.1 0.1 CELL_SIZE => ERR wrong number of arguments for 'cms.initbyprob' command
CMS.INCRBY none a 1 b => ERR wrong number of arguments for 'cms.incrby' command
CMS.INFO k x => ERR wrong number of arguments for 'cms.info' command
";

/// Commands that `bf.bloom-new-filters redisbloom` refuses, beside the sketches of [`ROWS`].
const UNLIKE_REDISBLOOM: &str = "
CMS.INITBYDIM new 10 5 CELL_SIZE 8
=> ERR a CELL_SIZE other than 4 is not possible with bf.bloom-new-filters redisbloom
CMS.INITBYPROB new 0.1 0.1 CELL_SIZE 1
=> ERR a CELL_SIZE other than 4 is not possible with bf.bloom-new-filters redisbloom
CMS.INCRBY k a -1 => CMS: Number cannot be negative
CMS.INCRBY k a 1 b -9223372036854775808 => CMS: Number cannot be negative
CMS.INCRBY none a -1 => CMS: key does not exist
CMS.MERGE k 2 k weights => CMS: wrong number of keys/weights
CMS.MERGE k 1 Weights WEIGHTS 1 => CMS: wrong number of keys/weights
";

#[test]
fn refused_commands_change_nothing() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        client.all_ok([
            "CMS.INITBYDIM k 10 5",
            "CMS.INITBYDIM like 10 5",
            "CMS.INITBYDIM other 10 4",
            "CMS.INITBYDIM small 10 5 CELL_SIZE 1",
        ]);
        client.cmd("CMS.INCRBY k a 5 b 3");
        client.cmd("CMS.INCRBY small a 2");
        let mut refused = Refusals::of(client, &["DEBUG DIGEST"]);
        refused.check_rows(ROWS);
        refused.check_others("cms.", EXISTS);
        let set = "CONFIG SET bf.bloom-new-filters";
        client.ok(format!("{set} redisbloom"));
        Refusals::of(client, &["DEBUG DIGEST"]).check_rows(UNLIKE_REDISBLOOM);
        client.ok("CMS.INITBYDIM new 10 5 CELL_SIZE 4");
        assert_eq!(client.cmd("DEL new").as_int(), 1);
        client.ok(format!("{set} own"));
    });
}

/// Both settings limit a sketch as a whole. Neither limits what was made already.
#[test]
fn the_memory_limits_hold_for_new_sketches() {
    const TOO_LARGE: &str =
        "CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit";
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        client.ok("CMS.INITBYDIM model 1000 5");
        let create = "CMS.INITBYDIM k 1000 5";
        let bytes = least_limit(client, "bf.bloom-filter-max-memory-usage", create);
        assert!((20_000..20_300).contains(&bytes), "{bytes}");
        for (setting, default) in [
            ("bf.bloom-filter-max-memory-usage", "128mb"),
            ("bf.bloom-memory-usage-limit", "0"),
        ] {
            let mut set = |value: &str| {
                client.ok(format!("CONFIG SET {setting} {value}"));
                client.cmd("CMS.INITBYDIM k 1000 5")
            };
            assert_eq!(set(&(bytes - 1).to_string()), error(TOO_LARGE), "{setting}");
            assert_eq!(set(&bytes.to_string()), ok(), "{setting}");
            assert_eq!(set("1"), error(EXISTS), "{setting}");
            // It counts, and merges, whatever the limits.
            client.run("CMS.INCRBY k a 1");
            client.ok("CMS.MERGE k 2 k model");
            client.ok(format!("CONFIG SET {setting} {default}"));
            assert_eq!(client.cmd("DEL k").as_int(), 1);
        }
        client.cmd("DEL model");
    });
}
