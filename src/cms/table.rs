//! The commands for count-min sketches and their documentation, without logic.

use crate::ffi::{Arg, Command, entry};

use super::commands;

/// The commands.
pub const COMMANDS: &[Command] = &[
    Command::adds(c"cms.initbydim", entry!(commands::initbydim, -4))
        .summary(c"Creates a count-min sketch with a width and a depth.")
        .args(&[Arg::integer(c"width"), Arg::integer(c"depth"), CELL_SIZE]),
    Command::adds(c"cms.initbyprob", entry!(commands::initbyprob, -4))
        .summary(
            c"Creates a count-min sketch for an error rate and the probability of exceeding it.",
        )
        .args(&[
            Arg::double(c"error"),
            Arg::double(c"probability"),
            CELL_SIZE,
        ]),
    Command::reads_and_updates(c"cms.incrby", entry!(commands::incrby, -4))
        .slow()
        .summary(c"Adds to the counts of items in a count-min sketch.")
        .complexity(c"O(D * K), where D is the depth and K the number of items.")
        .args(&[Arg::block(c"items", &[ITEM, Arg::integer(c"increment")]).repeated()]),
    Command::reads(c"cms.query", entry!(commands::query, -3))
        .slow()
        .summary(c"Returns the counts of items in a count-min sketch, or somewhat more.")
        .complexity(c"O(D * K), where D is the depth and K the number of items.")
        .args(&[ITEM.repeated()]),
    Command::merges(c"cms.merge", entry!(numbered commands::merge, -4))
        .summary(c"Replaces the counts of a count-min sketch by the weighted sum of others.")
        .complexity(c"O(S), where S is the size of all sketches.")
        .args(&[
            Arg::block(c"weights", &[Arg::integer(c"weight").repeated()])
                .after(c"WEIGHTS")
                .optional(),
        ]),
    Command::reads(c"cms.info", entry!(commands::info, 2))
        .uncached()
        .summary(c"Returns the width, depth and total count of a count-min sketch."),
];

const ITEM: Arg = Arg::text(c"item");
const CELL_SIZE: Arg = Arg::integer(c"cell_size").after(c"CELL_SIZE").optional();
