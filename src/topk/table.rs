//! The commands for top-k lists and their documentation, without logic.

use crate::ffi::{Arg, Command, entry};

use super::commands;

/// The commands.
pub const COMMANDS: &[Command] = &[
    Command::adds(c"topk.reserve", entry!(commands::reserve, -3))
        .summary(c"Creates an empty top-k list.")
        .args(&[
            Arg::integer(c"topk"),
            Arg::block(
                c"params",
                &[
                    Arg::integer(c"width"),
                    Arg::integer(c"depth"),
                    Arg::double(c"decay"),
                ],
            )
            .optional(),
        ]),
    Command::reads_and_updates(c"topk.add", entry!(commands::add, -3))
        .slow()
        .summary(c"Counts items in a top-k list, and returns for each the item that it displaced.")
        .complexity(c"O(N * (D + log(K))), where N is the number of items, D the depth and K the length of the list.")
        .args(&[ITEMS]),
    Command::reads_and_updates(c"topk.incrby", entry!(commands::incrby, -4))
        .slow()
        .summary(c"Counts items in a top-k list several times, and returns for each the item that it displaced.")
        .complexity(c"O(N * (D + log(K))), where N is the number of items, D the depth and K the length of the list.")
        .args(&[Arg::block(c"items", &[ITEM, Arg::integer(c"increment")]).repeated()]),
    Command::reads(c"topk.query", entry!(commands::query, -3))
        .slow()
        .summary(c"Checks for each item whether it is in a top-k list.")
        .complexity(c"O(N), where N is the number of items.")
        .args(&[ITEMS]),
    Command::reads(c"topk.count", entry!(commands::count, -3))
        .slow()
        .summary(c"Returns estimates of how often items were counted in a top-k list.")
        .complexity(c"O(N * D), where N is the number of items and D the depth.")
        .args(&[ITEMS]),
    Command::reads(c"topk.list", entry!(commands::list, -2))
        .slow()
        .summary(c"Returns the items of a top-k list, the most frequent first.")
        .complexity(c"O(K * log(K)), where K is the length of the list.")
        .args(&[Arg::keyword(c"withcount", c"WITHCOUNT").optional()]),
    Command::reads(c"topk.info", entry!(commands::info, 2))
        .summary(c"Returns the parameters of a top-k list."),
];

const ITEM: Arg = Arg::text(c"item");
const ITEMS: Arg = ITEM.repeated();
