//! The commands for top-k lists and their documentation, without logic.

use crate::ffi::{Arg, ArgKind, Command, CommandGroup, Effect, entry, optional, required};

use super::commands;

/// The commands.
pub const GROUPS: &[CommandGroup] = &[CommandGroup {
    category: c"topk",
    commands: COMMANDS,
}];

const COMMANDS: &[Command] = &[
    Command {
        summary: c"Creates an empty top-k list.",
        args: &[
            required(c"topk", ArgKind::Integer),
            optional(
                c"params",
                ArgKind::Block,
                None,
                &[
                    required(c"width", ArgKind::Integer),
                    required(c"depth", ArgKind::Integer),
                    required(c"decay", ArgKind::Double),
                ],
            ),
        ],
        ..Command::adds(c"topk.reserve", entry!(commands::reserve, -3))
    },
    Command {
        effect: Effect::ReadsAndUpdates,
        fast: false,
        summary: c"Counts items in a top-k list, and returns for each the item that it displaced.",
        complexity: c"O(N * (D + log(K))), where N is the number of items, D the depth and K the length of the list.",
        args: &[ITEMS],
        ..Command::updates(c"topk.add", entry!(commands::add, -3))
    },
    Command {
        effect: Effect::ReadsAndUpdates,
        fast: false,
        summary: c"Counts items in a top-k list several times, and returns for each the item that it displaced.",
        complexity: c"O(N * (D + log(K))), where N is the number of items, D the depth and K the length of the list.",
        args: &[Arg {
            multiple: true,
            parts: &[ITEM, required(c"increment", ArgKind::Integer)],
            ..required(c"items", ArgKind::Block)
        }],
        ..Command::updates(c"topk.incrby", entry!(commands::incrby, -4))
    },
    Command {
        fast: false,
        summary: c"Checks for each item whether it is in a top-k list.",
        complexity: c"O(N), where N is the number of items.",
        args: &[ITEMS],
        ..Command::reads(c"topk.query", entry!(commands::query, -3))
    },
    Command {
        fast: false,
        summary: c"Returns estimates of how often items were counted in a top-k list.",
        complexity: c"O(N * D), where N is the number of items and D the depth.",
        args: &[ITEMS],
        ..Command::reads(c"topk.count", entry!(commands::count, -3))
    },
    Command {
        fast: false,
        summary: c"Returns the items of a top-k list, the most frequent first.",
        complexity: c"O(K * log(K)), where K is the length of the list.",
        args: &[optional(c"withcount", ArgKind::Token, Some(c"WITHCOUNT"), &[])],
        ..Command::reads(c"topk.list", entry!(commands::list, -2))
    },
    Command {
        summary: c"Returns the parameters of a top-k list.",
        ..Command::reads(c"topk.info", entry!(commands::info, 2))
    },
];

const ITEM: Arg = required(c"item", ArgKind::Text);
const ITEMS: Arg = Arg {
    multiple: true,
    ..ITEM
};
