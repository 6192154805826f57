//! The commands for cuckoo filters and their documentation, without logic.

use crate::ffi::{Arg, ArgKind, Command, CommandGroup, entry, optional, required, token};

use super::commands;

/// The commands.
pub const GROUPS: &[CommandGroup] = &[CommandGroup {
    category: c"cuckoo",
    commands: COMMANDS,
}];

const COMMANDS: &[Command] = &[
    Command {
        fast: false,
        summary: c"Creates a cuckoo filter with a capacity.",
        args: &[
            required(c"capacity", ArgKind::Integer),
            optional(c"bucketsize", ArgKind::Integer, Some(c"BUCKETSIZE"), &[]),
            optional(c"maxiterations", ArgKind::Integer, Some(c"MAXITERATIONS"), &[]),
            optional(c"expansion", ArgKind::Integer, Some(c"EXPANSION"), &[]),
        ],
        ..Command::adds(c"cf.reserve", entry!(commands::reserve, -3))
    },
    Command {
        fast: false,
        summary: c"Adds an item to a cuckoo filter, once more if it is in. Creates the filter if it does not exist.",
        complexity: c"O(N + M), where N is the number of stacked filters and M the most iterations to make room.",
        args: &[ITEM],
        ..Command::adds(c"cf.add", entry!(commands::add, 3))
    },
    Command {
        fast: false,
        summary: c"Adds an item to a cuckoo filter unless it seems to be in. Creates the filter if it does not exist.",
        complexity: c"O(N + M), where N is the number of stacked filters and M the most iterations to make room.",
        args: &[ITEM],
        ..Command::adds(c"cf.addnx", entry!(commands::addnx, 3))
    },
    Command {
        fast: false,
        summary: c"Adds items to a cuckoo filter, once more if they are in. Creates the filter if it does not exist.",
        complexity: c"O((N + M) * K), where N is the number of stacked filters, M the most iterations to make room and K the number of items.",
        args: INSERT,
        ..Command::adds(c"cf.insert", entry!(commands::insert, -4))
    },
    Command {
        fast: false,
        summary: c"Adds items to a cuckoo filter unless they seem to be in. Creates the filter if it does not exist.",
        complexity: c"O((N + M) * K), where N is the number of stacked filters, M the most iterations to make room and K the number of items.",
        args: INSERT,
        ..Command::adds(c"cf.insertnx", entry!(commands::insertnx, -4))
    },
    Command {
        summary: c"Checks whether an item is in a cuckoo filter.",
        complexity: c"O(N), where N is the number of stacked filters.",
        args: &[ITEM],
        ..Command::reads(c"cf.exists", entry!(commands::exists, 3))
    },
    Command {
        summary: c"Checks for each item whether it is in a cuckoo filter.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        args: &[ITEMS],
        ..Command::reads(c"cf.mexists", entry!(commands::mexists, -3))
    },
    Command {
        summary: c"Returns how often an item was added to a cuckoo filter and not removed, or somewhat more.",
        complexity: c"O(N), where N is the number of stacked filters.",
        args: &[ITEM],
        ..Command::reads(c"cf.count", entry!(commands::count, 3))
    },
    Command {
        summary: c"Removes an item once from a cuckoo filter. It must have been added, or another may be removed.",
        complexity: c"O(N), where N is the number of stacked filters; at times, when many items were removed, O(S), where S is their size.",
        args: &[ITEM],
        ..Command::removes(c"cf.del", entry!(commands::del, 3))
    },
    Command {
        summary: c"Returns the size, fill and parameters of a cuckoo filter.",
        ..Command::reads(c"cf.info", entry!(commands::info, 2))
    },
    Command {
        summary: c"Returns one chunk of a cuckoo filter, and the cursor of the next.",
        complexity: c"O(S), where S is the size of the chunk.",
        args: &[required(c"cursor", ArgKind::Integer)],
        ..Command::reads(c"cf.scandump", entry!(commands::scandump, 3))
    },
    Command {
        fast: false,
        summary: c"Restores a cuckoo filter chunk by chunk.",
        complexity: c"O(S), where S is the size of the chunk.",
        args: &[required(c"cursor", ArgKind::Integer), required(c"data", ArgKind::Text)],
        ..Command::adds(c"cf.loadchunk", entry!(commands::loadchunk, 4))
    },
    Command {
        fast: false,
        summary: c"Moves items of a cuckoo filter to older stacked filters, and drops the newest ones that are empty then.",
        complexity: c"O(S * N), where N is the number of stacked filters and S their size.",
        ..Command::removes(c"cf.compact", entry!(commands::compact, 2))
    },
    Command {
        summary: c"Returns the parameters and counts of a cuckoo filter in one line.",
        ..Command::reads(c"cf.debug", entry!(commands::debug, 2))
    },
];

const ITEM: Arg = required(c"item", ArgKind::Text);
const ITEMS: Arg = Arg {
    multiple: true,
    ..ITEM
};
const INSERT: &[Arg] = &[
    optional(c"capacity", ArgKind::Integer, Some(c"CAPACITY"), &[]),
    optional(c"nocreate", ArgKind::Token, Some(c"NOCREATE"), &[]),
    Arg {
        parts: &[token(c"items_token", c"ITEMS"), ITEMS],
        ..required(c"items", ArgKind::Block)
    },
];
