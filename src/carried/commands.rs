//! Commands that read sketches, whose values are kept and not served: each of them is refused, and says why.
//!
//! Those that write are not known at all. A server ends when it finds an unknown command in its log; one that is
//! refused it would pass over, and so lose what the log holds.

use crate::ffi::{Argv, Command, Ctx, Group, Keyspace, entry};
use crate::reply::send_error;
use valkeybloom_protocol::error::Error;

/// Refuses a command.
fn refuse<'a>(ctx: Ctx<'a>, _keys: &mut Keyspace<'a>, _args: Argv<'a>) {
    send_error(ctx, Error::Unserved);
}

/// A command that is refused, whose arity is checked before.
macro_rules! refused {
    ($name:expr, $arity:expr) => {
        Command {
            summary: c"Refused: this server keeps values of sketches, and does not serve them.",
            ..Command::reads($name, entry!(refuse, $arity))
        }
    };
}

/// All of them, in the ACL categories that they have in `RedisBloom`.
pub const GROUPS: &[Group] = &[
    Group {
        category: c"cms",
        commands: &[refused!(c"cms.query", -3), refused!(c"cms.info", 2)],
    },
    Group {
        category: c"topk",
        commands: &[
            refused!(c"topk.query", -3),
            refused!(c"topk.count", -3),
            refused!(c"topk.list", -2),
            refused!(c"topk.info", 2),
        ],
    },
    Group {
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
