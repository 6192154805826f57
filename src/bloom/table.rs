//! The module's table: name, version, commands and their documentation. No logic.

use crate::bloom::stored::Stored;
use crate::bloom::{commands, keys};
use crate::cuckoo;
use crate::ffi::{
    Arg, ArgKind, Command, Effect, Group, Module, entry, on_load, optional, register_type,
    required, token, with_token,
};
use crate::{carried, config, ledger, unserved};

on_load!(MODULE);

static MODULE: Module = Module {
    name: c"bf",
    version: version(env!("CARGO_PKG_VERSION").as_bytes()),
    register_types: |ctx| {
        register_type::<Stored, 0>(ctx)?;
        register_type::<Stored, 1>(ctx)?;
        register_type::<Stored, 2>(ctx)?;
        register_type::<cuckoo::Stored, 0>(ctx)?;
        carried::register_types(ctx);
        Ok(())
    },
    configure: config::configure,
    on_configured: config::on_configured,
    groups: &[
        Group {
            category: c"bloom",
            commands: COMMANDS,
        },
        Group {
            category: c"cuckoo",
            commands: cuckoo::COMMANDS,
        },
    ],
    unserved: unserved::GROUPS,
    write_info: ledger::write_info,
    on_database: keys::on_database,
};

/// `major.minor.patch` as one number, two digits each for the last two.
const fn version(text: &[u8]) -> i32 {
    let (mut number, mut part, mut index) = (0, 0, 0);
    while index < text.len() {
        if text[index] == b'.' {
            number = (number + part) * 100;
            part = 0;
        } else {
            part = part * 10 + (text[index] - b'0') as i32;
        }
        index += 1;
    }
    number + part
}

// Clients tell modules named `bf` apart by this number: above the first they expect BF.CARD, and from the
// second on another name of the type.
const _: () = assert!(MODULE.version > 20404 && MODULE.version < 80000);

const COMMANDS: &[Command] = &[
    Command {
        name: c"bf.add",
        entry: entry!(commands::add),
        effect: Effect::Adds,
        reads_others: false,
        fast: true,
        arity: 3,
        summary: c"Adds an item to a bloom filter. Creates the filter if it does not exist.",
        complexity: c"O(N), where N is the number of stacked filters.",
        since: c"3.0.0",
        args: &[ITEM],
    },
    Command {
        name: c"bf.madd",
        entry: entry!(commands::madd),
        effect: Effect::Adds,
        reads_others: false,
        fast: true,
        arity: -3,
        summary: c"Adds items to a bloom filter. Creates the filter if it does not exist.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        since: c"3.0.0",
        args: &[ITEMS],
    },
    Command {
        name: c"bf.exists",
        entry: entry!(commands::exists),
        effect: Effect::Reads,
        reads_others: false,
        fast: true,
        arity: 3,
        summary: c"Checks whether an item was added to a bloom filter.",
        complexity: c"O(N), where N is the number of stacked filters.",
        since: c"3.0.0",
        args: &[ITEM],
    },
    Command {
        name: c"bf.mexists",
        entry: entry!(commands::mexists),
        effect: Effect::Reads,
        reads_others: false,
        fast: true,
        arity: -3,
        summary: c"Checks for each item whether it was added to a bloom filter.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        since: c"3.0.0",
        args: &[ITEMS],
    },
    Command {
        name: c"bf.card",
        entry: entry!(commands::card),
        effect: Effect::Reads,
        reads_others: false,
        fast: true,
        arity: 2,
        summary: c"Returns the number of items that were new to a bloom filter when they were added.",
        complexity: c"O(N), where N is the number of periods of its window; O(1) without one.",
        since: c"3.0.0",
        args: &[],
    },
    Command {
        name: c"bf.reserve",
        entry: entry!(commands::reserve),
        effect: Effect::Adds,
        reads_others: false,
        fast: true,
        arity: -4,
        summary: c"Creates a bloom filter with an error rate and a capacity.",
        complexity: c"O(1)",
        since: c"3.0.0",
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
    },
    Command {
        name: c"bf.insert",
        entry: entry!(commands::insert),
        effect: Effect::Adds,
        reads_others: false,
        fast: true,
        arity: -2,
        summary: c"Creates a bloom filter with the given parameters unless it exists, and adds items to it.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        since: c"3.0.0",
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
    },
    Command {
        name: c"bf.info",
        entry: entry!(commands::info),
        effect: Effect::Reads,
        reads_others: false,
        fast: true,
        arity: -2,
        summary: c"Returns the parameters, size and fill of a bloom filter.",
        complexity: c"O(N), where N is the number of stacked filters.",
        since: c"3.0.0",
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
            ],
        )],
    },
    Command {
        name: c"bf.load",
        entry: entry!(commands::load),
        effect: Effect::Adds,
        reads_others: false,
        fast: false,
        arity: -3,
        summary: c"Restores a bloom filter from its dump, as written to an AOF.",
        complexity: c"O(N), where N is the size of the dump.",
        since: c"3.0.0",
        args: &[
            required(c"dump", ArgKind::Text),
            optional(c"ttl_ms", ArgKind::Integer, None, &[]),
        ],
    },
    Command {
        name: c"bf.scandump",
        entry: entry!(commands::scandump),
        effect: Effect::Reads,
        reads_others: false,
        fast: false,
        arity: 3,
        summary: c"Returns one chunk of a bloom filter, and the cursor of the next.",
        complexity: c"O(N + S), where N is the number of stacked filters and S the size of the chunk.",
        since: c"3.0.0",
        args: &[required(c"cursor", ArgKind::Integer)],
    },
    Command {
        name: c"bf.loadchunk",
        entry: entry!(commands::loadchunk),
        effect: Effect::Adds,
        reads_others: false,
        fast: false,
        arity: 4,
        summary: c"Restores a bloom filter chunk by chunk.",
        complexity: c"O(S), where S is the size of the chunk; with the last one, that of all.",
        since: c"3.0.0",
        args: &[
            required(c"cursor", ArgKind::Integer),
            required(c"data", ArgKind::Text),
        ],
    },
    Command {
        name: c"bf.debug",
        entry: entry!(commands::debug),
        effect: Effect::Reads,
        reads_others: false,
        fast: false,
        arity: 2,
        summary: c"Returns the sizes of each filter in a bloom filter's stack.",
        complexity: c"O(N), where N is the number of stacked filters.",
        since: c"3.0.0",
        args: &[],
    },
    Command {
        name: c"bf.del",
        entry: entry!(commands::del),
        effect: Effect::Removes,
        reads_others: false,
        fast: true,
        arity: -3,
        summary: c"Removes an item once from a counting bloom filter, if it is certain which filter of its stack holds it.",
        complexity: c"O(N), where N is the number of stacked filters.",
        since: c"3.0.0",
        args: &[ITEM, ID],
    },
    Command {
        name: c"bf.mdel",
        entry: entry!(commands::mdel),
        effect: Effect::Removes,
        reads_others: false,
        fast: true,
        arity: -3,
        summary: c"Removes items from a counting bloom filter, each as BF.DEL without ID does.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        since: c"3.0.0",
        args: &[ITEMS],
    },
    Command {
        name: c"bf.count",
        entry: entry!(commands::count),
        effect: Effect::Reads,
        reads_others: false,
        fast: true,
        arity: 3,
        summary: c"Returns how often, at most, an item was added to a counting bloom filter and not removed.",
        complexity: c"O(N), where N is the number of stacked filters.",
        since: c"3.0.0",
        args: &[ITEM],
    },
    Command {
        name: c"bf.missing",
        entry: entry!(commands::missing),
        effect: Effect::Reads,
        reads_others: false,
        fast: true,
        arity: -3,
        summary: c"Counts the distinct items that are not in a bloom filter.",
        complexity: c"O(N * K), where N is the number of stacked filters and K the number of items.",
        since: c"3.0.0",
        args: &[ITEMS],
    },
    Command {
        name: c"bf.merge",
        entry: entry!(commands::merge),
        effect: Effect::Adds,
        reads_others: true,
        fast: false,
        arity: -3,
        summary: c"Merges bloom filters into one. Creates it if it does not exist.",
        complexity: c"O(N), where N is the size of all filters.",
        since: c"3.0.0",
        args: &[],
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
