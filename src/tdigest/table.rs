//! The commands for t-digests and their documentation, without logic.

use crate::ffi::{Arg, ArgKind, Command, CommandGroup, entry, optional, required, token};

use super::commands;

/// The commands.
pub const GROUPS: &[CommandGroup] = &[CommandGroup {
    category: c"tdigest",
    commands: COMMANDS,
}];

const COMMANDS: &[Command] = &[
    Command {
        summary: c"Creates an empty t-digest.",
        args: &[COMPRESSION],
        ..Command::adds(c"tdigest.create", entry!(commands::create, -2))
    },
    Command {
        summary: c"Removes all observations from a t-digest.",
        ..Command::updates(c"tdigest.reset", entry!(commands::reset, 2))
    },
    Command {
        fast: false,
        summary: c"Adds values to a t-digest.",
        complexity: c"O(N), where N is the number of values; at times O(N + C * log(C)), where C is the compression.",
        args: &[VALUES],
        ..Command::updates(c"tdigest.add", entry!(commands::add, -3))
    },
    Command {
        summary: c"Merges t-digests into one. Creates it if it does not exist.",
        complexity: c"O(N * C), where N is the number of t-digests and C their compression.",
        args: &[
            COMPRESSION,
            optional(c"override", ArgKind::Token, Some(c"OVERRIDE"), &[]),
        ],
        ..Command::merges(c"tdigest.merge", entry!(numbered commands::merge, -4))
    },
    Command {
        summary: c"Returns the smallest value that was added to a t-digest.",
        ..Command::reads(c"tdigest.min", entry!(commands::min, 2))
    },
    Command {
        summary: c"Returns the largest value that was added to a t-digest.",
        ..Command::reads(c"tdigest.max", entry!(commands::max, 2))
    },
    Command {
        summary: c"Returns for each quantile an estimate of the value below which that share of the values lies.",
        complexity: c"O(N), where N is the number of quantiles.",
        args: &[Arg {
            multiple: true,
            ..required(c"quantile", ArgKind::Double)
        }],
        ..Command::caches(c"tdigest.quantile", entry!(commands::quantile, -3))
    },
    Command {
        summary: c"Returns for each value an estimate of the share of values that are at most as large.",
        complexity: c"O(N), where N is the number of values.",
        args: &[VALUES],
        ..Command::caches(c"tdigest.cdf", entry!(commands::cdf, -3))
    },
    Command {
        summary: c"Returns for each value an estimate of the number of smaller values.",
        complexity: c"O(N), where N is the number of values.",
        args: &[VALUES],
        ..Command::caches(c"tdigest.rank", entry!(commands::rank, -3))
    },
    Command {
        summary: c"Returns for each value an estimate of the number of larger values.",
        complexity: c"O(N), where N is the number of values.",
        args: &[VALUES],
        ..Command::caches(c"tdigest.revrank", entry!(commands::revrank, -3))
    },
    Command {
        summary: c"Returns for each rank, counted from the smallest value, an estimate of the value.",
        complexity: c"O(N), where N is the number of ranks.",
        args: &[Arg {
            multiple: true,
            ..required(c"rank", ArgKind::Integer)
        }],
        ..Command::caches(c"tdigest.byrank", entry!(commands::byrank, -3))
    },
    Command {
        summary: c"Returns for each rank, counted from the largest value, an estimate of the value.",
        complexity: c"O(N), where N is the number of ranks.",
        args: &[Arg {
            multiple: true,
            ..required(c"reverse_rank", ArgKind::Integer)
        }],
        ..Command::caches(c"tdigest.byrevrank", entry!(commands::byrevrank, -3))
    },
    Command {
        fast: false,
        summary: c"Returns an estimate of the mean of the values between two quantiles.",
        complexity: c"O(N), where N is the number of nodes.",
        args: &[
            required(c"low_cut_quantile", ArgKind::Double),
            required(c"high_cut_quantile", ArgKind::Double),
        ],
        ..Command::caches(c"tdigest.trimmed_mean", entry!(commands::trimmed_mean, 4))
    },
    Command {
        summary: c"Returns the parameters and counts of a t-digest.",
        ..Command::reads(c"tdigest.info", entry!(commands::info, 2))
    },
];

const VALUES: Arg = Arg {
    multiple: true,
    ..required(c"value", ArgKind::Double)
};
const COMPRESSION: Arg = optional(
    c"compression_block",
    ArgKind::Block,
    None,
    &[
        token(c"compression_token", c"COMPRESSION"),
        required(c"compression", ArgKind::Integer),
    ],
);
