//! The commands for count-min sketches and their documentation, without logic.

use crate::ffi::{Arg, ArgKind, Command, CommandGroup, Effect, entry, optional, required};

use super::commands;

/// The commands.
pub const GROUPS: &[CommandGroup] = &[CommandGroup {
    category: c"cms",
    commands: COMMANDS,
}];

const COMMANDS: &[Command] = &[
    Command {
        summary: c"Creates a count-min sketch with a width and a depth.",
        args: &[
            required(c"width", ArgKind::Integer),
            required(c"depth", ArgKind::Integer),
            CELL_SIZE,
        ],
        ..Command::adds(c"cms.initbydim", entry!(commands::initbydim, -4))
    },
    Command {
        summary:
            c"Creates a count-min sketch for an error rate and the probability of exceeding it.",
        args: &[
            required(c"error", ArgKind::Double),
            required(c"probability", ArgKind::Double),
            CELL_SIZE,
        ],
        ..Command::adds(c"cms.initbyprob", entry!(commands::initbyprob, -4))
    },
    Command {
        fast: false,
        effect: Effect::ReadsAndUpdates,
        summary: c"Adds to the counts of items in a count-min sketch.",
        complexity: c"O(D * K), where D is the depth and K the number of items.",
        args: &[Arg {
            parts: &[ITEM, required(c"increment", ArgKind::Integer)],
            multiple: true,
            ..required(c"items", ArgKind::Block)
        }],
        ..Command::updates(c"cms.incrby", entry!(commands::incrby, -4))
    },
    Command {
        fast: false,
        summary: c"Returns the counts of items in a count-min sketch, or somewhat more.",
        complexity: c"O(D * K), where D is the depth and K the number of items.",
        args: &[Arg {
            multiple: true,
            ..ITEM
        }],
        ..Command::reads(c"cms.query", entry!(commands::query, -3))
    },
    Command {
        summary: c"Replaces the counts of a count-min sketch by the weighted sum of others.",
        complexity: c"O(S), where S is the size of all sketches.",
        args: &[optional(
            c"weights",
            ArgKind::Block,
            Some(c"WEIGHTS"),
            &[Arg {
                multiple: true,
                ..required(c"weight", ArgKind::Integer)
            }],
        )],
        ..Command::merges(c"cms.merge", entry!(numbered commands::merge, -4))
    },
    Command {
        summary: c"Returns the width, depth and total count of a count-min sketch.",
        ..Command::reads(c"cms.info", entry!(commands::info, 2))
    },
];

const ITEM: Arg = required(c"item", ArgKind::Text);
const CELL_SIZE: Arg = optional(c"cell_size", ArgKind::Integer, Some(c"CELL_SIZE"), &[]);
