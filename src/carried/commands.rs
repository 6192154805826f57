//! Commands that read sketches. Sketches are carried and not served, so each command is refused with the reason.
//!
//! Commands that write sketches are unknown instead. A server that loads an AOF stops at an unknown command; it would
//! skip a refused command and lose data.

use valkeybloom_protocol::error::Error;

use crate::ffi::{Call, Command, CommandGroup, entry};
use crate::reply::Done;

/// Refuses a command.
fn refuse(_: Call) -> Done {
    Err(Error::Unserved)
}

/// Makes a refused command with an arity.
macro_rules! refused {
    ($name:expr, $arity:expr) => {
        Command {
            summary: c"Refused: this server keeps values of sketches, and does not serve them.",
            ..Command::reads($name, entry!(refuse, $arity))
        }
    };
}

/// The commands, by their ACL categories in `RedisBloom`.
pub const GROUPS: &[CommandGroup] = &[
    CommandGroup {
        category: c"cms",
        commands: &[refused!(c"cms.query", -3), refused!(c"cms.info", 2)],
    },
    CommandGroup {
        category: c"topk",
        commands: &[
            refused!(c"topk.query", -3),
            refused!(c"topk.count", -3),
            refused!(c"topk.list", -2),
            refused!(c"topk.info", 2),
        ],
    },
    CommandGroup {
        category: c"tdigest",
        commands: &[
            refused!(c"tdigest.min", 2),
            refused!(c"tdigest.max", 2),
            refused!(c"tdigest.quantile", -3),
            refused!(c"tdigest.cdf", -3),
            refused!(c"tdigest.trimmed_mean", 4),
            refused!(c"tdigest.rank", -3),
            refused!(c"tdigest.revrank", -3),
            refused!(c"tdigest.byrank", -3),
            refused!(c"tdigest.byrevrank", -3),
            refused!(c"tdigest.info", 2),
        ],
    },
];
