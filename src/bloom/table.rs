//! The commands for Bloom filters and their documentation, without logic.

use crate::ffi::{Arg, Command, entry};

use super::commands;

/// The commands.
pub const COMMANDS: &[Command] = &[
    Command::adds(c"bf.add", entry!(commands::add, 3))
        .summary(c"Adds an item to a bloom filter. Creates the filter if it does not exist.")
        .complexity(c"O(N), where N is the number of filters or tables.")
        .args(&[ITEM]),
    Command::adds(c"bf.madd", entry!(commands::madd, -3))
        .summary(c"Adds items to a bloom filter. Creates the filter if it does not exist.")
        .complexity(c"O(N * K), where N is the number of filters or tables and K the number of items.")
        .args(&[ITEMS]),
    Command::reads(c"bf.exists", entry!(commands::exists, 3))
        .summary(c"Checks whether an item was added to a bloom filter.")
        .complexity(c"O(N), where N is the number of filters or tables.")
        .args(&[ITEM]),
    Command::reads(c"bf.mexists", entry!(commands::mexists, -3))
        .summary(c"Checks for each item whether it was added to a bloom filter.")
        .complexity(c"O(N * K), where N is the number of filters or tables and K the number of items.")
        .args(&[ITEMS]),
    Command::reads(c"bf.card", entry!(commands::card, 2))
        .summary(c"Returns the number of items that were new to a bloom filter when they were added.")
        .complexity(c"O(N), where N is the number of periods of its window; O(1) without one."),
    Command::adds(c"bf.reserve", entry!(commands::reserve, -4))
        .summary(c"Creates a bloom filter with an error rate and a capacity.")
        .args(&[
            Arg::double(c"error_rate"),
            Arg::integer(c"capacity"),
            GROWTH,
            KIND,
            SCALE_TO,
            Arg::one_of(
                c"expiration",
                &[
                    Arg::integer(c"seconds").after(c"EX"),
                    Arg::integer(c"milliseconds").after(c"PX"),
                ],
            )
            .optional(),
            Arg::keyword(c"condition", c"NX").optional(),
        ]),
    Command::adds(c"bf.insert", entry!(after c"ONCE" by commands::receipt, commands::insert, -2))
        .summary(c"Creates a bloom filter with the given parameters unless it exists, and adds items to it.")
        .complexity(c"O(N * K), where N is the number of filters or tables and K the number of items.")
        .args(&[
            Arg::integer(c"capacity").after(c"CAPACITY").optional(),
            Arg::double(c"error_rate").after(c"ERROR").optional(),
            GROWTH,
            KIND,
            SCALE_TO,
            Arg::keyword(c"nocreate", c"NOCREATE").optional(),
            Arg::double(c"tightening_ratio").after(c"TIGHTENING").optional(),
            Arg::text(c"seed").after(c"SEED").optional(),
            Arg::integer(c"validate_scale_to").after(c"VALIDATESCALETO").optional(),
            Arg::integer(c"ttl_ms").after(c"TTL").optional(),
            Arg::block(
                c"once",
                &[
                    Arg::key(c"receipt").after(c"ONCE"),
                    Arg::integer(c"position"),
                    Arg::keyword(c"begin", c"BEGIN").optional(),
                ],
            )
            .optional(),
            Arg::block(c"items", &[Arg::keyword(c"items_token", c"ITEMS"), ITEMS]).optional(),
        ]),
    Command::reads(c"bf.info", entry!(commands::info, -2))
        .uncached()
        .summary(c"Returns the parameters, size and fill of a bloom filter.")
        .complexity(c"O(N), where N is the number of filters, or of tables and of the periods of a window.")
        .args(&[Arg::one_of(
            c"field",
            &[
                Arg::keyword(c"capacity", c"CAPACITY"),
                Arg::keyword(c"size", c"SIZE"),
                Arg::keyword(c"filters", c"FILTERS"),
                Arg::keyword(c"items", c"ITEMS"),
                Arg::keyword(c"expansion", c"EXPANSION"),
                Arg::keyword(c"error", c"ERROR"),
                Arg::keyword(c"tightening", c"TIGHTENING"),
                Arg::keyword(c"maxscaledcapacity", c"MAXSCALEDCAPACITY"),
                Arg::keyword(c"estimatederror", c"ESTIMATEDERROR"),
                Arg::keyword(c"window", c"WINDOW"),
                Arg::keyword(c"periods", c"PERIODS"),
                Arg::keyword(c"liveperiods", c"LIVEPERIODS"),
                Arg::keyword(c"perioditems", c"PERIODITEMS"),
                Arg::keyword(c"kind", c"KIND"),
                Arg::keyword(c"feedbytes", c"FEEDBYTES"),
                Arg::keyword(c"feedreaders", c"FEEDREADERS"),
                Arg::keyword(c"all", c"ALL"),
            ],
        )
        .optional()]),
    Command::adds(c"bf.load", entry!(commands::load, -3))
        .slow()
        .summary(c"Restores a bloom filter from its dump, as written to an AOF.")
        .complexity(c"O(N), where N is the size of the dump.")
        .args(&[Arg::text(c"dump"), Arg::integer(c"ttl_ms").optional()]),
    Command::reads(c"bf.scandump", entry!(commands::scandump, -3))
        .slow()
        .uncached()
        .summary(c"Returns one chunk of a bloom filter, and the cursor of the next.")
        .complexity(c"O(N + S), where N is the number of filters or tables and S the size of the chunk.")
        .args(&[Arg::integer(c"cursor"), Arg::keyword(c"withid", c"WITHID").optional()]),
    Command::adds(c"bf.loadchunk", entry!(commands::loadchunk, 4))
        .slow()
        .summary(c"Restores a bloom filter chunk by chunk.")
        .complexity(c"O(S), where S is the size of the chunk; with the last one, that of all.")
        .args(&[Arg::integer(c"cursor"), Arg::text(c"data")]),
    Command::reads(c"bf.read", entry!(commands::read, -3))
        .slow()
        .uncached()
        .summary(c"Returns the hashes of the items that were new to a bloom filter since a cursor, and the next cursor.")
        .complexity(c"O(N), where N is the number of items returned.")
        .args(&[
            Arg::text(c"cursor"),
            Arg::integer(c"max_count").after(c"MAX_COUNT").optional(),
        ]),
    Command::reads(c"bf.debug", entry!(commands::debug, 2))
        .slow()
        .uncached()
        .summary(c"Returns the sizes of each filter or table in a bloom filter.")
        .complexity(c"O(N), where N is the number of filters or tables."),
    Command::removes(c"bf.del", entry!(commands::del, 3))
        .summary(c"Removes an item once from a counting bloom filter.")
        .complexity(c"O(N), where N is the number of tables.")
        .args(&[ITEM]),
    Command::removes(c"bf.mdel", entry!(commands::mdel, -3))
        .summary(c"Removes items from a counting bloom filter, each as BF.DEL does.")
        .complexity(c"O(N * K), where N is the number of tables and K the number of items.")
        .args(&[ITEMS]),
    Command::reads(c"bf.count", entry!(commands::count, 3))
        .summary(c"Returns how often, at most, an item was added to a counting bloom filter and not removed.")
        .complexity(c"O(N), where N is the number of tables.")
        .args(&[ITEM]),
    Command::reads(c"bf.missing", entry!(commands::missing, -3))
        .summary(c"Counts the distinct items that are not in a bloom filter.")
        .complexity(c"O(N * K), where N is the number of filters or tables and K the number of items.")
        .args(&[ITEMS]),
    Command::adds(c"bf.merge", entry!(rest commands::merge, -3))
        .slow()
        .summary(c"Merges bloom filters into one. Creates it if it does not exist.")
        .complexity(c"O(N), where N is the size of all filters."),
];

const ITEM: Arg = Arg::text(c"item");
const ITEMS: Arg = ITEM.repeated();
const GROWTH: Arg = Arg::one_of(
    c"growth",
    &[
        Arg::integer(c"expansion").after(c"EXPANSION"),
        Arg::keyword(c"nonscaling", c"NONSCALING"),
    ],
)
.optional();
const SCALE_TO: Arg = Arg::integer(c"scale_to").after(c"SCALETO").optional();
const KIND: Arg = Arg::one_of(
    c"kind",
    &[
        Arg::block(
            c"window",
            &[
                Arg::integer(c"period_ms").after(c"WINDOW"),
                Arg::integer(c"periods").after(c"PERIODS"),
            ],
        ),
        Arg::keyword(c"counting", c"COUNTING"),
    ],
)
.optional();
