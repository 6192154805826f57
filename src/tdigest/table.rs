//! The commands for t-digests and their documentation, without logic.

use crate::ffi::{Arg, Command, entry};

use super::commands;

/// The commands.
pub const COMMANDS: &[Command] = &[
    Command::adds(c"tdigest.create", entry!(commands::create, -2))
        .summary(c"Creates an empty t-digest.")
        .args(&[COMPRESSION]),
    Command::updates(c"tdigest.reset", entry!(commands::reset, 2))
        .summary(c"Removes all observations from a t-digest."),
    Command::updates(c"tdigest.add", entry!(commands::add, -3))
        .slow()
        .summary(c"Adds values to a t-digest.")
        .complexity(c"O(N), where N is the number of values; at times O(N + C * log(C)), where C is the compression.")
        .args(&[VALUES]),
    Command::merges(c"tdigest.merge", entry!(numbered commands::merge, -4))
        .summary(c"Merges t-digests into one. Creates it if it does not exist.")
        .complexity(c"O(N * C), where N is the number of t-digests and C their compression.")
        .args(&[
            COMPRESSION,
            Arg::keyword(c"override", c"OVERRIDE").optional(),
        ]),
    Command::reads(c"tdigest.min", entry!(commands::min, 2))
        .summary(c"Returns the smallest value that was added to a t-digest."),
    Command::reads(c"tdigest.max", entry!(commands::max, 2))
        .summary(c"Returns the largest value that was added to a t-digest."),
    Command::reads(c"tdigest.quantile", entry!(commands::quantile, -3))
        .summary(c"Returns for each quantile an estimate of the value below which that share of the values lies.")
        .complexity(c"O(N), where N is the number of quantiles.")
        .args(&[Arg::double(c"quantile").repeated()]),
    Command::reads(c"tdigest.cdf", entry!(commands::cdf, -3))
        .summary(c"Returns for each value an estimate of the share of values that are at most as large.")
        .complexity(c"O(N), where N is the number of values.")
        .args(&[VALUES]),
    Command::reads(c"tdigest.rank", entry!(commands::rank, -3))
        .summary(c"Returns for each value an estimate of the number of smaller values.")
        .complexity(c"O(N), where N is the number of values.")
        .args(&[VALUES]),
    Command::reads(c"tdigest.revrank", entry!(commands::revrank, -3))
        .summary(c"Returns for each value an estimate of the number of larger values.")
        .complexity(c"O(N), where N is the number of values.")
        .args(&[VALUES]),
    Command::reads(c"tdigest.byrank", entry!(commands::byrank, -3))
        .summary(c"Returns for each rank, counted from the smallest value, an estimate of the value.")
        .complexity(c"O(N), where N is the number of ranks.")
        .args(&[Arg::integer(c"rank").repeated()]),
    Command::reads(c"tdigest.byrevrank", entry!(commands::byrevrank, -3))
        .summary(c"Returns for each rank, counted from the largest value, an estimate of the value.")
        .complexity(c"O(N), where N is the number of ranks.")
        .args(&[Arg::integer(c"reverse_rank").repeated()]),
    Command::reads(c"tdigest.trimmed_mean", entry!(commands::trimmed_mean, 4))
        .slow()
        .summary(c"Returns an estimate of the mean of the values between two quantiles.")
        .complexity(c"O(N), where N is the number of nodes.")
        .args(&[
            Arg::double(c"low_cut_quantile"),
            Arg::double(c"high_cut_quantile"),
        ]),
    Command::reads(c"tdigest.info", entry!(commands::info, 2))
        .uncached()
        .summary(c"Returns the parameters and counts of a t-digest."),
];

const VALUES: Arg = Arg::double(c"value").repeated();
const COMPRESSION: Arg = Arg::block(
    c"compression_block",
    &[
        Arg::keyword(c"compression_token", c"COMPRESSION"),
        Arg::integer(c"compression"),
    ],
)
.optional();
