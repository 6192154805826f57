//! The commands for cuckoo filters and their documentation, without logic.

use crate::ffi::{Arg, Command, entry};

use super::{chunks, commands};

/// The commands.
pub const COMMANDS: &[Command] = &[
    Command::adds(c"cf.reserve", entry!(commands::reserve, -3))
        .slow()
        .summary(c"Creates a cuckoo filter with a capacity.")
        .args(&[
            Arg::integer(c"capacity"),
            Arg::integer(c"bucketsize").after(c"BUCKETSIZE").optional(),
            Arg::integer(c"maxiterations").after(c"MAXITERATIONS").optional(),
            Arg::integer(c"expansion").after(c"EXPANSION").optional(),
        ]),
    Command::adds(c"cf.add", entry!(commands::add, 3))
        .slow()
        .summary(c"Adds an item to a cuckoo filter, once more if it is in. Creates the filter if it does not exist.")
        .complexity(c"O(N + M), where N is the number of stacked filters and M the most iterations to make room.")
        .args(&[ITEM]),
    Command::adds(c"cf.addnx", entry!(commands::addnx, 3))
        .slow()
        .summary(c"Adds an item to a cuckoo filter unless it seems to be in. Creates the filter if it does not exist.")
        .complexity(c"O(N + M), where N is the number of stacked filters and M the most iterations to make room.")
        .args(&[ITEM]),
    Command::adds(c"cf.insert", entry!(commands::insert, -4))
        .slow()
        .summary(c"Adds items to a cuckoo filter, once more if they are in. Creates the filter if it does not exist.")
        .complexity(c"O((N + M) * K), where N is the number of stacked filters, M the most iterations to make room and K the number of items.")
        .args(INSERT),
    Command::adds(c"cf.insertnx", entry!(commands::insertnx, -4))
        .slow()
        .summary(c"Adds items to a cuckoo filter unless they seem to be in. Creates the filter if it does not exist.")
        .complexity(c"O((N + M) * K), where N is the number of stacked filters, M the most iterations to make room and K the number of items.")
        .args(INSERT),
    Command::reads(c"cf.exists", entry!(commands::exists, 3))
        .summary(c"Checks whether an item is in a cuckoo filter.")
        .complexity(c"O(N), where N is the number of stacked filters.")
        .args(&[ITEM]),
    Command::reads(c"cf.mexists", entry!(commands::mexists, -3))
        .summary(c"Checks for each item whether it is in a cuckoo filter.")
        .complexity(c"O(N * K), where N is the number of stacked filters and K the number of items.")
        .args(&[ITEMS]),
    Command::reads(c"cf.count", entry!(commands::count, 3))
        .summary(c"Returns how often an item was added to a cuckoo filter and not removed, or somewhat more.")
        .complexity(c"O(N), where N is the number of stacked filters.")
        .args(&[ITEM]),
    Command::removes(c"cf.del", entry!(commands::del, 3))
        .summary(c"Removes an item once from a cuckoo filter. It must have been added, or another may be removed.")
        .complexity(c"O(N), where N is the number of stacked filters; at times, when many items were removed, O(S), where S is their size.")
        .args(&[ITEM]),
    Command::reads(c"cf.info", entry!(commands::info, 2))
        .uncached()
        .summary(c"Returns the size, fill and parameters of a cuckoo filter."),
    Command::reads(c"cf.scandump", entry!(chunks::scandump, 3))
        .uncached()
        .summary(c"Returns one chunk of a cuckoo filter, and the cursor of the next.")
        .complexity(c"O(S), where S is the size of the chunk.")
        .args(&[Arg::integer(c"cursor")]),
    Command::adds(c"cf.loadchunk", entry!(chunks::loadchunk, 4))
        .slow()
        .summary(c"Restores a cuckoo filter chunk by chunk.")
        .complexity(c"O(S), where S is the size of the chunk.")
        .args(&[Arg::integer(c"cursor"), Arg::text(c"data")]),
    Command::removes(c"cf.compact", entry!(commands::compact, 2))
        .slow()
        .summary(c"Moves items of a cuckoo filter to older stacked filters, and drops the newest ones that are empty then.")
        .complexity(c"O(S * N), where N is the number of stacked filters and S their size."),
    Command::reads(c"cf.debug", entry!(commands::debug, 2))
        .uncached()
        .summary(c"Returns the parameters and counts of a cuckoo filter in one line."),
];

const ITEM: Arg = Arg::text(c"item");
const ITEMS: Arg = ITEM.repeated();
const INSERT: &[Arg] = &[
    Arg::integer(c"capacity").after(c"CAPACITY").optional(),
    Arg::keyword(c"nocreate", c"NOCREATE").optional(),
    Arg::block(c"items", &[Arg::keyword(c"items_token", c"ITEMS"), ITEMS]),
];
