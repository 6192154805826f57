//! What others learn of changes to values of every family but Bloom filters.

use crate::harness::{Server, digest, int, nil, wait_in_sync};
use crate::support::blobs::Blobs;
use crate::support::effects::Stage;

/// Commands on the key `k`, their events, and what is sent on, if that is not the command as it came.
const CMS: &str = "
MADE = CMS.INITBYDIM k 10 5
ONE = CMS.INITBYDIM k 10 5 / CMS.INCRBY k a 1
SMALL = CMS.INITBYDIM k 10 5 CELL_SIZE 1 / CMS.INCRBY k a 255
FULL = CMS.INITBYDIM k 10 5 / CMS.INCRBY k a 4294967295
OTHER = CMS.INITBYDIM k 10 5 / CMS.INITBYDIM other 10 5 / CMS.INCRBY other a 1
CMS.INITBYDIM k 10 5 => cms.init
CMS.INITBYDIM k 10 5 CELL_SIZE 8 => cms.init
CMS.INITBYPROB k 0.1 0.1 => cms.init
# RedisBloom 8.8 does not know the option.
CMS.INITBYDIM k 10 5 CELL_SIZE 4 => cms.init | CMS.INITBYDIM k 10 5
CMS.INITBYPROB k 0.1 0.1 CELL_SIZE 4 => cms.init | CMS.INITBYPROB k 0.1 0.1
CMS.INITBYDIM k 0 5 => -
CMS.INITBYDIM k 9223372036854775807 1 => -
MADE / CMS.INITBYDIM k 10 5 => -
MADE / CMS.INCRBY k a 1 => cms.incrby
MADE / CMS.INCRBY k a 0 b 2 => cms.incrby | CMS.INCRBY k b 2
# Only pairs that took effect are sent on.
MADE / CMS.INCRBY k a 1 b -5 c 0 a 2 => cms.incrby | CMS.INCRBY k a 1 a 2
MADE / CMS.INCRBY k a 0 => -
MADE / CMS.INCRBY k a 0 b 0 => -
MADE / CMS.INCRBY k a -1 => -
MADE / CMS.INCRBY k a -1 b 0 => -
MADE / CMS.INCRBY k a 1 a -1 => cms.incrby
MADE / CMS.INCRBY k a x => -
MADE / CMS.INCRBY k a 1 b x => -
ONE / CMS.INCRBY k a -1 => cms.incrby
MADE / CMS.INCRBY k a 4294967295 => cms.incrby
FULL / CMS.INCRBY k a 1 => -
FULL / CMS.INCRBY k a 0 => -
FULL / CMS.INCRBY k a 1 b 1 => cms.incrby | CMS.INCRBY k b 1
FULL / CMS.INCRBY k a 1 b 0 => -
FULL / CMS.INCRBY k b 4294967296 a -1 => cms.incrby | CMS.INCRBY k a -1
SMALL / CMS.INCRBY k a 1 => -
SMALL / CMS.INCRBY k a 1 b 1 => cms.incrby | CMS.INCRBY k b 1
CMS.INCRBY k a 1 => -
ONE / CMS.QUERY k a => -
ONE / CMS.INFO k => -
OTHER / CMS.MERGE k 1 other => cms.merge
OTHER / CMS.MERGE k 2 k other WEIGHTS 1 3 => cms.merge
OTHER / CMS.MERGE k 1 k => -
OTHER / CMS.MERGE k 1 other WEIGHTS 0 => -
OTHER / CMS.MERGE k 1 other WEIGHTS -1 => -
OTHER / CMS.MERGE k 1 none => -
OTHER / CMS.MERGE k 1 other / CMS.MERGE k 1 other => -
";

/// Commands on the key `k` with `bf.cms-overflow saturate`: a saturated counter stays, but the total grows.
const SATURATED: &str = "
FULL = CMS.INITBYDIM k 10 5 / CMS.INCRBY k a 4294967295
FULL / CMS.INCRBY k a 1 => cms.incrby
FULL / CMS.INCRBY k a 0 => -
FULL / CMS.INCRBY k a 1 b 1 c 0 => cms.incrby | CMS.INCRBY k a 1 b 1
FULL / CMS.INCRBY k b 9223372036854775807 => cms.incrby
FULL / CMS.INCRBY k b -1 a -1 => cms.incrby | CMS.INCRBY k a -1
";

/// Commands on the key `k`, and their events. A command that changed something is replicated as it came, unless a
/// refusal cut it short.
const TOPK: &str = "
MADE = TOPK.RESERVE k 2 50 3 0.9
ONE = TOPK.RESERVE k 2 50 3 0.9 / TOPK.ADD k a
# One cell, and a list of one. The owner loses each unit that another item draws.
SURE = TOPK.RESERVE k 1 1 1 1 / TOPK.INCRBY k a 1000
# One cell whose owner nobody can contest.
HELD = TOPK.RESERVE k 1 1 1 0.5 / TOPK.INCRBY k a 2000
# One cell whose owner hardly loses.
RARE = TOPK.RESERVE k 1 1 1 0.5 / TOPK.INCRBY k a 20
TOPK.RESERVE k 5 => topk.reserve
TOPK.RESERVE k 5 50 3 0.9 => topk.reserve
TOPK.RESERVE k 0 => -
TOPK.RESERVE k 4294967295 => -
MADE / TOPK.RESERVE k 5 => -
MADE / TOPK.ADD k a => topk.add
MADE / TOPK.ADD k a b c => topk.add
MADE / TOPK.INCRBY k a 5 b 7 => topk.add
# A count of 0 enters the list, once.
MADE / TOPK.INCRBY k a 0 => topk.add
ONE / TOPK.INCRBY k a 0 => -
ONE / TOPK.INCRBY k a x => -
ONE / TOPK.INCRBY k a 100001 => -
ONE / TOPK.ADD k a => topk.add
SURE / TOPK.ADD k b => topk.add
SURE / TOPK.INCRBY k b 0 => -
HELD / TOPK.ADD k b => -
HELD / TOPK.INCRBY k b 100000 => -
HELD / TOPK.ADD k b a => topk.add
# A draw without a loss moves the number of collisions.
RARE / TOPK.ADD k b => topk.add
TOPK.ADD k a => -
ONE / TOPK.QUERY k a => -
ONE / TOPK.COUNT k a => -
ONE / TOPK.LIST k => -
ONE / TOPK.INFO k => -
";

/// Commands on the key `k`, and their events. A command that changed something is replicated as it came.
const TDIGEST: &str = "
MADE = TDIGEST.CREATE k
SOME = TDIGEST.CREATE k / TDIGEST.ADD k 1 2 3
BOTH = TDIGEST.CREATE k / TDIGEST.ADD k 1 2 3 / TDIGEST.CREATE other COMPRESSION 50 / TDIGEST.ADD other 4
TDIGEST.CREATE k => tdigest.create
TDIGEST.CREATE k COMPRESSION 50 => tdigest.create
TDIGEST.CREATE k COMPRESSION 0 => -
TDIGEST.CREATE k COMPRESSION 100001 => -
MADE / TDIGEST.CREATE k => -
MADE / TDIGEST.ADD k 1 => tdigest.add
SOME / TDIGEST.ADD k 1 2 => tdigest.add
SOME / TDIGEST.ADD k 1 x => -
SOME / TDIGEST.ADD k 1 inf => -
TDIGEST.ADD k 1 => -
SOME / TDIGEST.RESET k => tdigest.reset
MADE / TDIGEST.RESET k => -
SOME / TDIGEST.RESET k / TDIGEST.RESET k => -
TDIGEST.RESET k => -
BOTH / TDIGEST.MERGE k 1 other => tdigest.merge
BOTH / TDIGEST.MERGE k 2 other k OVERRIDE COMPRESSION 20 => tdigest.merge
BOTH / DEL k / TDIGEST.MERGE k 1 other => tdigest.merge
BOTH / TDIGEST.MERGE k 1 none => -
BOTH / TDIGEST.MERGE k 1 other what => -
SOME / TDIGEST.MIN k => -
SOME / TDIGEST.MAX k => -
SOME / TDIGEST.QUANTILE k 0.5 => -
SOME / TDIGEST.CDF k 2 => -
SOME / TDIGEST.RANK k 2 => -
SOME / TDIGEST.REVRANK k 2 => -
SOME / TDIGEST.BYRANK k 1 => -
SOME / TDIGEST.BYREVRANK k 1 => -
SOME / TDIGEST.TRIMMED_MEAN k 0.1 0.9 => -
SOME / TDIGEST.INFO k => -
";

#[test]
fn everybody_learns_of_each_change_once() {
    let mut stage = Stage::start(&[]);
    for table in [CMS, TOPK, TDIGEST] {
        stage.play(table, &Blobs::new());
    }
    let mut stage = Stage::start(&[("bf.cms-overflow", "saturate")]);
    stage.play(SATURATED, &Blobs::new());
}

/// As in RedisBloom, a merge replaces its destination, on every node.
#[test]
fn a_merge_ends_the_time_to_live() {
    let server = Server::start();
    let replica = Server::replica_of(&server).start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    for key in ["k", "other"] {
        client.cmd(&format!("TDIGEST.CREATE {key}"));
        client.cmd(&format!("TDIGEST.ADD {key} 1 2 3"));
    }
    for (command, keeps) in [
        ("TDIGEST.MERGE k 1 other", false),
        ("TDIGEST.MERGE k 1 other OVERRIDE", false),
        ("TDIGEST.MERGE k 2 k other COMPRESSION 50", false),
        ("TDIGEST.MERGE other 1 k", true),
        ("TDIGEST.ADD k 7", true),
        ("TDIGEST.RESET k", true),
    ] {
        client.expect("PEXPIREAT k 9000000000000", int(1));
        client.ok(command);
        wait_in_sync(&server, &replica);
        let expected = if keeps { 9_000_000_000_000 } else { -1 };
        for mut node in [server.client(), replica.client()] {
            node.expect("PEXPIRETIME k", int(expected));
        }
        assert_eq!(digest(&mut replica.client(), "k"), digest(&mut client, "k"));
    }
}

/// A merge changes its destination, and not its sources.
#[test]
fn a_merge_changes_only_its_destination() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.all_ok([
        "TDIGEST.CREATE k",
        "TDIGEST.CREATE to",
        "TDIGEST.ADD k 1 2 3",
    ]);
    for (watched, is_broken) in [("k", false), ("to", true)] {
        client.ok(format!("WATCH {watched}"));
        other.ok("TDIGEST.MERGE to 1 k");
        client.ok("MULTI");
        client.cmd("PING");
        assert_eq!(client.cmd("EXEC") == nil(), is_broken, "{watched}");
    }
}
