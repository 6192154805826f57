//! The commands for Bloom filters and their documentation, without logic.

use crate::ffi::{
    Arg, ArgKind, Command, CommandGroup, Sources, entry, optional, required, token, with_token,
};

use super::commands;

/// The commands.
pub const GROUPS: &[CommandGroup] = &[CommandGroup {
    category: c"bloom",
    commands: COMMANDS,
}];

const COMMANDS: &[Command] = &[
    Command {
        summary: c"Adds an item to a bloom filter. Creates the filter if it does not exist.",
        complexity: c"O(N), where N is the number of stacked filters.",
        args: &[ITEM],
        ..Command::adds(c"bf.add", entry!(commands::add, 3))
    },
    Command {
        summary: c"Adds items to a bloom filter. Creates the filter if it does not exist.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        args: &[ITEMS],
        ..Command::adds(c"bf.madd", entry!(commands::madd, -3))
    },
    Command {
        summary: c"Checks whether an item was added to a bloom filter.",
        complexity: c"O(N), where N is the number of stacked filters.",
        args: &[ITEM],
        ..Command::reads(c"bf.exists", entry!(commands::exists, 3))
    },
    Command {
        summary: c"Checks for each item whether it was added to a bloom filter.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        args: &[ITEMS],
        ..Command::reads(c"bf.mexists", entry!(commands::mexists, -3))
    },
    Command {
        summary: c"Returns the number of items that were new to a bloom filter when they were added.",
        complexity: c"O(N), where N is the number of periods of its window; O(1) without one.",
        ..Command::reads(c"bf.card", entry!(commands::card, 2))
    },
    Command {
        summary: c"Creates a bloom filter with an error rate and a capacity.",
        args: &[
            ERROR_RATE,
            required(c"capacity", ArgKind::Integer),
            optional(c"growth", ArgKind::OneOf, None, GROWTH),
            optional(c"kind", ArgKind::OneOf, None, KIND),
            optional(
                c"expiration",
                ArgKind::OneOf,
                None,
                &[
                    with_token(c"EX", c"seconds", ArgKind::Integer),
                    with_token(c"PX", c"milliseconds", ArgKind::Integer),
                ],
            ),
            optional(c"condition", ArgKind::Token, Some(c"NX"), &[]),
        ],
        ..Command::adds(c"bf.reserve", entry!(commands::reserve, -4))
    },
    Command {
        summary: c"Creates a bloom filter with the given parameters unless it exists, and adds items to it.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        args: &[
            optional(c"capacity", ArgKind::Integer, Some(c"CAPACITY"), &[]),
            optional(c"error_rate", ArgKind::Double, Some(c"ERROR"), &[]),
            optional(c"growth", ArgKind::OneOf, None, GROWTH),
            optional(c"kind", ArgKind::OneOf, None, KIND),
            optional(c"nocreate", ArgKind::Token, Some(c"NOCREATE"), &[]),
            optional(c"tightening_ratio", ArgKind::Double, Some(c"TIGHTENING"), &[]),
            optional(c"seed", ArgKind::Text, Some(c"SEED"), &[]),
            optional(c"validate_scale_to", ArgKind::Integer, Some(c"VALIDATESCALETO"), &[]),
            optional(c"ttl_ms", ArgKind::Integer, Some(c"TTL"), &[]),
            ID,
            optional(
                c"items",
                ArgKind::Block,
                None,
                &[token(c"items_token", c"ITEMS"), ITEMS],
            ),
        ],
        ..Command::adds(c"bf.insert", entry!(commands::insert, -2))
    },
    Command {
        summary: c"Returns the parameters, size and fill of a bloom filter.",
        complexity: c"O(N), where N is the number of stacked filters.",
        args: &[optional(
            c"field",
            ArgKind::OneOf,
            None,
            &[
                token(c"capacity", c"CAPACITY"),
                token(c"size", c"SIZE"),
                token(c"filters", c"FILTERS"),
                token(c"items", c"ITEMS"),
                token(c"expansion", c"EXPANSION"),
                token(c"error", c"ERROR"),
                token(c"tightening", c"TIGHTENING"),
                token(c"maxscaledcapacity", c"MAXSCALEDCAPACITY"),
                token(c"estimatederror", c"ESTIMATEDERROR"),
                token(c"window", c"WINDOW"),
                token(c"periods", c"PERIODS"),
                token(c"liveperiods", c"LIVEPERIODS"),
                token(c"perioditems", c"PERIODITEMS"),
            ],
        )],
        ..Command::reads(c"bf.info", entry!(commands::info, -2))
    },
    Command {
        fast: false,
        summary: c"Restores a bloom filter from its dump, as written to an AOF.",
        complexity: c"O(N), where N is the size of the dump.",
        args: &[
            required(c"dump", ArgKind::Text),
            optional(c"ttl_ms", ArgKind::Integer, None, &[]),
        ],
        ..Command::adds(c"bf.load", entry!(commands::load, -3))
    },
    Command {
        fast: false,
        summary: c"Returns one chunk of a bloom filter, and the cursor of the next.",
        complexity: c"O(N + S), where N is the number of stacked filters and S the size of the chunk.",
        args: &[required(c"cursor", ArgKind::Integer)],
        ..Command::reads(c"bf.scandump", entry!(commands::scandump, 3))
    },
    Command {
        fast: false,
        summary: c"Restores a bloom filter chunk by chunk.",
        complexity: c"O(S), where S is the size of the chunk; with the last one, that of all.",
        args: &[
            required(c"cursor", ArgKind::Integer),
            required(c"data", ArgKind::Text),
        ],
        ..Command::adds(c"bf.loadchunk", entry!(commands::loadchunk, 4))
    },
    Command {
        fast: false,
        summary: c"Returns the sizes of each filter in a bloom filter's stack.",
        complexity: c"O(N), where N is the number of stacked filters.",
        ..Command::reads(c"bf.debug", entry!(commands::debug, 2))
    },
    Command {
        summary: c"Removes an item once from a counting bloom filter, if it is certain which filter of its stack holds it.",
        complexity: c"O(N), where N is the number of stacked filters.",
        args: &[ITEM, ID],
        ..Command::removes(c"bf.del", entry!(commands::del, -3))
    },
    Command {
        summary: c"Removes items from a counting bloom filter, each as BF.DEL without ID does.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        args: &[ITEMS],
        ..Command::removes(c"bf.mdel", entry!(commands::mdel, -3))
    },
    Command {
        summary: c"Returns how often, at most, an item was added to a counting bloom filter and not removed.",
        complexity: c"O(N), where N is the number of stacked filters.",
        args: &[ITEM],
        ..Command::reads(c"bf.count", entry!(commands::count, 3))
    },
    Command {
        summary: c"Counts the distinct items that are not in a bloom filter.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        args: &[ITEMS],
        ..Command::reads(c"bf.missing", entry!(commands::missing, -3))
    },
    Command {
        fast: false,
        sources: Sources::Rest,
        summary: c"Merges bloom filters into one. Creates it if it does not exist.",
        complexity: c"O(N), where N is the size of all filters.",
        ..Command::adds(c"bf.merge", entry!(commands::merge, -3))
    },
];

const ID: Arg = optional(c"id", ArgKind::Integer, Some(c"ID"), &[]);
const KIND: &[Arg] = &[
    Arg {
        parts: WINDOW,
        ..required(c"window", ArgKind::Block)
    },
    token(c"counting", c"COUNTING"),
];
const WINDOW: &[Arg] = &[
    with_token(c"WINDOW", c"period_ms", ArgKind::Integer),
    with_token(c"PERIODS", c"periods", ArgKind::Integer),
];

const ITEM: Arg = required(c"item", ArgKind::Text);
const ITEMS: Arg = Arg {
    multiple: true,
    ..ITEM
};
const ERROR_RATE: Arg = required(c"error_rate", ArgKind::Double);
const GROWTH: &[Arg] = &[
    with_token(c"EXPANSION", c"expansion", ArgKind::Integer),
    token(c"nonscaling", c"NONSCALING"),
];
