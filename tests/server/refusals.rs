//! What is refused, in which words, and that a refusal changes nothing: the contract's table of
//! situations, row by row.

use std::collections::HashMap;

use crate::cuckoo;
use crate::harness::{Client, Reply, error, int, ok};
use crate::replies::{dump, field, in_both_protocols, pieces, truths, with_fixed_seed};

/// A situation: commands that bring it about, a command, and the reply as [`told`] writes it.
/// Words in angle brackets stand for bytes, see [`Blobs`].
type Row<'a> = (&'a [&'a str], &'a str, &'a str);

/// Situations that differ in one word: commands with a gap, words for it, and the reply to each.
type Family = (
    &'static [&'static str],
    &'static [&'static str],
    &'static str,
);

/// Too few words, or too many.
const ARITY: &[&str] = &[
    "BF.ADD",
    "BF.ADD k",
    "BF.ADD k a b",
    "BF.MADD",
    "BF.MADD k",
    "BF.EXISTS",
    "BF.EXISTS k",
    "BF.EXISTS k a b",
    "BF.MEXISTS",
    "BF.MEXISTS k",
    "BF.CARD",
    "BF.CARD k a",
    "BF.RESERVE",
    "BF.RESERVE k",
    "BF.RESERVE k 0.01",
    "BF.INSERT",
    "BF.INSERT k ITEMS",
    "BF.INSERT k NOCREATE ITEMS",
    "BF.INSERT k CAPACITY 100 ITEMS",
    "BF.INFO",
    "BF.INFO k SIZE ITEMS",
    "BF.LOAD",
    "BF.LOAD k",
    "BF.LOAD k <dump> 1000 1000",
    "BF.SCANDUMP",
    "BF.SCANDUMP k",
    "BF.SCANDUMP k 0 0",
    "BF.LOADCHUNK",
    "BF.LOADCHUNK k",
    "BF.LOADCHUNK k 1",
    "BF.LOADCHUNK k 1 <header> x",
    "BF.DEBUG",
    "BF.DEBUG k a",
    "BF.DEL",
    "BF.DEL k",
    "BF.MDEL",
    "BF.MDEL k",
    "BF.COUNT",
    "BF.COUNT k",
    "BF.COUNT k a b",
    "BF.MISSING",
    "BF.MISSING k",
    "BF.MERGE",
    "BF.MERGE k",
];

const EACH_COMMAND: &[&str] = &[
    "BF.ADD k a",
    "BF.MADD k a b",
    "BF.EXISTS k a",
    "BF.MEXISTS k a b",
    "BF.CARD k",
    "BF.RESERVE k 0.01 100",
    "BF.INSERT k",
    "BF.INSERT k ITEMS a b",
    "BF.INSERT k NOCREATE ITEMS a b",
    "BF.INFO k",
    "BF.INFO k SIZE",
    "BF.LOAD k <dump>",
    "BF.SCANDUMP k 0",
    "BF.LOADCHUNK k 1 <header>",
    "BF.LOADCHUNK k 2 x",
    "BF.DEBUG k",
    "BF.RESERVE k 0.01 100 NX",
    "BF.RESERVE k 0.01 100 WINDOW 1000 PERIODS 3",
    "BF.INSERT k COUNTING ITEMS a",
    "BF.INSERT k TTL 5 ITEMS a",
    "BF.INSERT k ID 5 ITEMS a",
    "BF.DEL k a",
    "BF.DEL k a ID 5",
    "BF.MDEL k a b",
    "BF.COUNT k a",
    "BF.MISSING k a b",
    "BF.MERGE k other",
    "BF.MERGE k k",
    "BF.MERGE other k",
];

const FAMILIES: &[Family] = &[
    (
        &["BF.RESERVE k {} 100", "BF.INSERT k ERROR {} ITEMS a"],
        &["", "x", "0.1x", "0,1", "--1", "0.1.1", "<seed>"],
        "ERR bad error rate",
    ),
    (
        &["BF.RESERVE k {} 100", "BF.INSERT k ERROR {} ITEMS a"],
        &[
            "nan", "inf", "-inf", "-0.1", "0", "0.0", "1", "1.0", "1.5", "1e400", "1e-400",
        ],
        "ERR (0 < error rate range < 1)",
    ),
    (
        &["BF.RESERVE k 0.01 {}", "BF.INSERT k CAPACITY {} ITEMS a"],
        &[
            "",
            "x",
            "10x",
            "-1",
            "1.5",
            "1e3",
            "nan",
            "9223372036854775808",
            "18446744073709551616",
            "-9223372036854775808",
            "<seed>",
        ],
        "ERR bad capacity",
    ),
    (
        &["BF.RESERVE k 0.01 {}", "BF.INSERT k CAPACITY {} ITEMS a"],
        &["0"],
        "ERR (capacity should be larger than 0)",
    ),
    (
        &[
            "BF.RESERVE k 0.01 100 EXPANSION {}",
            "BF.RESERVE k 0.01 100 NONSCALING EXPANSION {}",
            "BF.INSERT k EXPANSION {} ITEMS a",
        ],
        &[
            "",
            "x",
            "-1",
            "1.5",
            "1e3",
            "4294967296",
            "9223372036854775808",
            "<seed>",
        ],
        "ERR bad expansion",
    ),
    (
        &["BF.INSERT k TIGHTENING {} ITEMS a"],
        &["", "x", "0.5x", "<seed>"],
        "ERR bad tightening ratio",
    ),
    (
        &["BF.INSERT k TIGHTENING {} ITEMS a"],
        &["nan", "inf", "-0.5", "0", "1", "2"],
        "ERR (0 < tightening ratio range < 1)",
    ),
    (
        &["BF.INSERT k SEED {} ITEMS a"],
        &["", "x", "<seed31>", "<seed33>"],
        "ERR invalid seed",
    ),
    (
        &[
            "BF.RESERVE k 0.01 100 {}",
            "BF.RESERVE k 0.01 100 {} NONSCALING",
            "BF.RESERVE k 0.01 100 EXPANSION 2 {}",
            "BF.INSERT k {} ITEMS a",
            "BF.INSERT k CAPACITY 100 {} NOCREATE",
        ],
        &["", "x", "2", "NONSCALIN", "NONSCALINGS", "ITEM", "<seed>"],
        "ERR unknown argument received",
    ),
    // Options of BF.INSERT.
    (
        &["BF.RESERVE k 0.01 100 {}"],
        &[
            "NOCREATE",
            "ITEMS a",
            "CAPACITY 5",
            "ERROR 0.1",
            "SEED <seed>",
        ],
        "ERR unknown argument received",
    ),
    (
        &["BF.RESERVE k 0.01 100 {}", "BF.INSERT k {} ITEMS a"],
        &[
            "EXPANSION 2 NONSCALING",
            "NONSCALING EXPANSION 2",
            "NONSCALING EXPANSION 1",
            "EXPANSION 0 NONSCALING EXPANSION 2",
            "EXPANSION 0 EXPANSION 2 NONSCALING",
        ],
        "ERR nonscaling filters cannot expand",
    ),
    (
        &["BF.INSERT k {} ITEMS a", "BF.INSERT k {}"],
        &[
            "NOCREATE CAPACITY 100",
            "CAPACITY 100 NOCREATE",
            "NOCREATE ERROR 0.01",
            "ERROR 0.01 NOCREATE",
            "CAPACITY 100 NOCREATE ERROR 0.01",
        ],
        "ERR NOCREATE cannot be used with CAPACITY or ERROR",
    ),
    (
        &["BF.INSERT k {} ITEMS a", "BF.INSERT k {}"],
        &[
            "NONSCALING VALIDATESCALETO 1000",
            "VALIDATESCALETO 1000 NONSCALING",
            "VALIDATESCALETO 1000 EXPANSION 0",
        ],
        "ERR cannot use NONSCALING and VALIDATESCALETO options together",
    ),
    (
        &["BF.INSERT k {} ITEMS a", "BF.INSERT k {}"],
        &[
            "VALIDATESCALETO 9223372036854775807",
            "CAPACITY 100 VALIDATESCALETO 100000000",
            "VALIDATESCALETO 9223372036854775807 EXPANSION 1 CAPACITY 10000000",
            "CAPACITY 1 VALIDATESCALETO 9223372036854775807 EXPANSION 4294967295",
        ],
        "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit",
    ),
    (
        &["BF.INSERT k {} ITEMS a", "BF.INSERT k {}"],
        &[
            "CAPACITY 1 EXPANSION 1 TIGHTENING 1e-322 VALIDATESCALETO 1000",
            "VALIDATESCALETO 10 TIGHTENING 1e-323 EXPANSION 1 CAPACITY 1",
        ],
        "ERR provided VALIDATESCALETO causes false positive to degrade to 0",
    ),
    (
        &["BF.SCANDUMP k {}", "BF.LOADCHUNK k {} <header>"],
        &["", "x", "1.5", "1x", "9223372036854775808", "<seed>"],
        "ERR bad cursor",
    ),
    (
        &["BF.LOADCHUNK k {} x", "BF.LOADCHUNK k {} <header>"],
        &[
            "0",
            "2",
            "-1",
            "9223372036854775807",
            "-9223372036854775808",
        ],
        "ERR received bad data",
    ),
    (
        &["BF.LOADCHUNK k 1 {}"],
        &["", "x", "<dump>", "<cutheader>", "<longheader>", "<seed>"],
        "ERR received bad data",
    ),
    (
        &["BF.LOAD k {}", "BF.LOAD k {} 1000"],
        &["", "<cut>", "<long>", "<one>"],
        "ERR bloom object decoding failed",
    ),
    (
        &["BF.LOAD k {}", "BF.LOAD k {} 1000"],
        &["<newer>", "<newest>"],
        "ERR bloom object decoding failed. Unsupported version",
    ),
    (
        &["BF.LOAD k <dump> {}"],
        &["", "x", "-1", "1.5", "9223372036854775807"],
        "ERR bad ttl",
    ),
    (
        &[
            "BF.RESERVE k 0.01 100 WINDOW {} PERIODS 3",
            "BF.INSERT k PERIODS 3 WINDOW {} ITEMS a",
        ],
        &[
            "",
            "x",
            "-1",
            "+1",
            "1.5",
            "1e3",
            // Three times as much is more than a number holds.
            "9223372036854775807",
            "3074457345618258603",
            "9223372036854775808",
            "<seed>",
        ],
        "ERR bad window",
    ),
    (
        &[
            "BF.RESERVE k 0.01 100 WINDOW {} PERIODS 3",
            "BF.INSERT k WINDOW {} PERIODS 3 ITEMS a",
        ],
        &["0"],
        "ERR (window should be larger than 0)",
    ),
    (
        &[
            "BF.RESERVE k 0.01 100 WINDOW 1000 PERIODS {}",
            "BF.INSERT k PERIODS {} WINDOW 1000 ITEMS a",
        ],
        &[
            "",
            "x",
            "-1",
            "1.5",
            "1441",
            "65536",
            "9223372036854775808",
            "<seed>",
        ],
        "ERR bad periods",
    ),
    (
        &[
            "BF.RESERVE k 0.01 100 WINDOW 1000 PERIODS {}",
            "BF.INSERT k WINDOW 1000 PERIODS {} ITEMS a",
        ],
        &["0"],
        "ERR (periods should be larger than 0)",
    ),
    (
        &["BF.RESERVE k 0.01 100 {}", "BF.INSERT k {} ITEMS a"],
        &["WINDOW 1000", "PERIODS 3", "PERIODS 3 COUNTING"],
        "ERR WINDOW and PERIODS have to be given together",
    ),
    (
        &[
            "BF.RESERVE k 0.01 100 {}",
            "BF.INSERT k {}",
            "BF.INSERT k {} ITEMS a",
            "BF.INSERT k NOCREATE {} ITEMS a",
        ],
        &[
            "WINDOW 1000 PERIODS 3 COUNTING",
            "COUNTING WINDOW 1000 PERIODS 3",
            "window 1000 counting periods 3",
            "PERIODS 1440 COUNTING EXPANSION 2 WINDOW 1000",
        ],
        COMBINED,
    ),
    (
        &[
            "BF.RESERVE k 0.01 100 EX {}",
            "BF.RESERVE k 0.01 100 PX {} NX",
            "BF.INSERT k TTL {} ITEMS a",
        ],
        &["", "x", "-1", "1.5", "9223372036854775808", "<seed>"],
        "ERR bad ttl",
    ),
    (
        &[
            "BF.RESERVE k 0.01 100 EX {}",
            "BF.RESERVE k 0.01 100 PX {}",
            "BF.INSERT k TTL {} ITEMS a",
        ],
        &["0"],
        "ERR (ttl should be larger than 0)",
    ),
    (
        &[
            "BF.INSERT k ID {} ITEMS a",
            "BF.DEL k a ID {}",
            "BF.INSERT k COUNTING ID {}",
        ],
        &["", "x", "-1", "+1", "1.5", "18446744073709551616", "<seed>"],
        "ERR bad id",
    ),
    // When something happened is not for clients to say.
    (
        &[
            "BF.INSERT k AT {} ITEMS a",
            "BF.INSERT k WINDOW 1000 PERIODS 3 AT {} ITEMS a",
            "BF.INSERT k NOCREATE AT {}",
            "BF.DEL k a AT {}",
            "BF.DEL k a ID 5 AT {}",
        ],
        &["", "x", "-1", "0", "1000", "1800000000000"],
        "ERR unknown argument received",
    ),
    // Options of other commands.
    (
        &["BF.RESERVE k 0.01 100 {}"],
        &["TTL 5", "ID 5", "AT 5"],
        "ERR unknown argument received",
    ),
    (
        &[
            "BF.RESERVE k 0.01 100 {}",
            "BF.RESERVE k 0.01 100 {} NX",
            "BF.RESERVE k 0.01 100 COUNTING {}",
        ],
        &[
            "EX 10 PX 5",
            "PX 5 EX 10",
            "EX 10 PX 10000",
            "PX 5 NX EX 10",
        ],
        "ERR EX and PX cannot be combined",
    ),
    (
        &["BF.INSERT k {} ITEMS a", "BF.INSERT k {}"],
        &["EX 5", "PX 5", "NX"],
        "ERR unknown argument received",
    ),
    (
        &["BF.DEL k a {}", "BF.DEL k a ID 5 {}"],
        &["", "x", "5", "TTL 5", "COUNTING", "ITEMS b"],
        "ERR unknown argument received",
    ),
    (
        &["BF.INSERT k {} ITEMS a", "BF.INSERT k {}"],
        &["TTL 5", "COUNTING TTL 5", "TTL 5 ID 5"],
        "ERR filter was not made with WINDOW",
    ),
    (
        &["BF.INSERT k {} ITEMS a", "BF.INSERT k {}"],
        &["ID 5", "WINDOW 1000 PERIODS 3 ID 5"],
        "ERR filter was not made with COUNTING",
    ),
    (
        &["BF.INFO k {}", "BF.INFO other {}"],
        &["", "x", "SIZES", "CAP", "RATE", "<seed>"],
        "ERR invalid information value",
    ),
    (
        &["CONFIG SET bf.bloom-capacity {}"],
        &["0", "-1", "-9223372036854775808"],
        "ERR CONFIG SET failed (possibly related to argument 'bf.bloom-capacity') - argument must be between 1 and 9223372036854775807 inclusive",
    ),
];

/// Of the families above, those whose commands are refused for another reason where there is an
/// object.
const ON_MISSING_KEYS: &[&str] = &[
    "ERR received bad data",
    "ERR bloom object decoding failed",
    "ERR bloom object decoding failed. Unsupported version",
];

const NONE: &[&str] = &[];
const TWO: &[&str] = &["BF.RESERVE k 0.000001 2 NONSCALING", "BF.MADD k a b"];
const SCALING: &[&str] = &["BF.RESERVE k 0.000001 2", "BF.MADD k a b"];
/// Room for the first filter above, and for no second one.
const TIGHT: &[&str] = &[
    "CONFIG SET bf.bloom-filter-max-memory-usage 131",
    "BF.RESERVE k 0.000001 2",
    "BF.MADD k a b",
];
const COUNTED: &[&str] = &["BF.RESERVE k 0.000001 100 COUNTING", "BF.MADD k a b a"];
/// A window that ends long after any test.
const WINDOWED: &[&str] =
    &["BF.INSERT k ERROR 0.000001 WINDOW 1000000000000 PERIODS 2 TTL 1 ITEMS a b"];
const NO_COUNTERS: &str = "ERR filter was not made with COUNTING";
const COMBINED: &str = "ERR WINDOW and COUNTING cannot be combined";
const KINDS: &str = "ERR filters are of different kinds";
const SATURATING: &[&str] = &[
    "CONFIG SET bf.bloom-saturate-nonscaling yes",
    "BF.RESERVE k 0.000001 2 NONSCALING",
    "BF.MADD k a b c d",
];

const ROWS: &[Row] = &[
    // No such key.
    (NONE, "BF.EXISTS k a", "0"),
    (NONE, "BF.MEXISTS k a b", "[0, 0]"),
    (NONE, "BF.CARD k", "0"),
    (NONE, "BF.INFO k", "ERR not found"),
    (NONE, "BF.INFO k SIZE", "ERR not found"),
    (NONE, "BF.INSERT k NOCREATE ITEMS a", "ERR not found"),
    (NONE, "BF.INSERT k NOCREATE", "ERR not found"),
    (
        NONE,
        "BF.INSERT k EXPANSION 2 NOCREATE ITEMS a",
        "ERR not found",
    ),
    (NONE, "BF.SCANDUMP k 0", "ERR not found"),
    (NONE, "BF.SCANDUMP k 1", "ERR not found"),
    (NONE, "BF.DEBUG k", "ERR not found"),
    (NONE, "BF.DEL k a", "0"),
    (NONE, "BF.DEL k a ID 5", "0"),
    (NONE, "BF.MDEL k a b", "[0, 0]"),
    (NONE, "BF.COUNT k a", "0"),
    (NONE, "BF.MISSING k a b a", "2"),
    (NONE, "BF.MERGE k other", "ERR not found"),
    (NONE, "BF.MERGE k k", "ERR not found"),
    (TWO, "BF.MERGE k other", "ERR not found"),
    (TWO, "BF.MERGE other k none", "ERR not found"),
    (NONE, "BF.RESERVE k 0.01 100 NX", "OK"),
    (TWO, "BF.RESERVE k 0.01 100 NX", "null"),
    (TWO, "BF.RESERVE k 0.01 100 NX EX 5", "null"),
    (TWO, "BF.RESERVE k 0.01 100 EX 5", "ERR item exists"),
    // Counters, and what has none.
    (COUNTED, "BF.COUNT k a", "2"),
    (COUNTED, "BF.COUNT k c", "0"),
    (COUNTED, "BF.DEL k a", "1"),
    (COUNTED, "BF.DEL k c", "0"),
    (COUNTED, "BF.DEL k a ID 5", "0"),
    (COUNTED, "BF.MDEL k a a a b c", "[1, 1, 0, 1, 0]"),
    (COUNTED, "BF.MISSING k a b c c d", "2"),
    (COUNTED, "BF.ADD k a", "0"),
    (
        COUNTED,
        "BF.INSERT k ID 18446744073709551615 ITEMS c",
        "[1]",
    ),
    (TWO, "BF.DEL k a", NO_COUNTERS),
    (TWO, "BF.DEL k a ID 5", NO_COUNTERS),
    (TWO, "BF.MDEL k a b", NO_COUNTERS),
    (TWO, "BF.COUNT k a", NO_COUNTERS),
    (WINDOWED, "BF.DEL k a", NO_COUNTERS),
    (WINDOWED, "BF.MDEL k a b", NO_COUNTERS),
    (WINDOWED, "BF.COUNT k a", NO_COUNTERS),
    (WINDOWED, "BF.INSERT k ID 5 ITEMS a", NO_COUNTERS),
    (
        COUNTED,
        "BF.INSERT k TTL 5 ITEMS a",
        "ERR filter was not made with WINDOW",
    ),
    // Windows, and what has none.
    (WINDOWED, "BF.MADD k a c", "[0, 1]"),
    (WINDOWED, "BF.MISSING k a b c", "1"),
    (WINDOWED, "BF.INFO k WINDOW", "[1000000000000]"),
    (WINDOWED, "BF.INFO k PERIODS", "[2]"),
    (WINDOWED, "BF.INFO k LIVEPERIODS", "[1]"),
    (WINDOWED, "BF.INSERT k TTL 2000000000000 ITEMS c", "[1]"),
    (WINDOWED, "BF.INSERT k TTL 2000000000001 ITEMS c", LONG_TTL),
    (
        NONE,
        "BF.INSERT k WINDOW 1000 PERIODS 3 TTL 3001 ITEMS a",
        LONG_TTL,
    ),
    (NONE, "BF.INSERT k WINDOW 1000 PERIODS 3 TTL 3000", "[]"),
    (TWO, "BF.INFO k WINDOW", "ERR invalid information value"),
    (TWO, "BF.INFO k PERIODS", "ERR invalid information value"),
    (
        TWO,
        "BF.INFO k LIVEPERIODS",
        "ERR invalid information value",
    ),
    (COUNTED, "BF.INFO k WINDOW", "ERR invalid information value"),
    // The widest window, and a rate that can't be divided by its periods.
    (
        NONE,
        "BF.RESERVE k 0.01 1 WINDOW 6405119470038038 PERIODS 1440",
        "OK",
    ),
    (
        NONE,
        "BF.RESERVE k 0.01 1 WINDOW 6405119470038039 PERIODS 1440",
        "ERR bad window",
    ),
    (
        NONE,
        "BF.RESERVE k 5e-324 1 NONSCALING WINDOW 1000 PERIODS 3",
        DEGRADED,
    ),
    // Options of which the last wins.
    (
        &["BF.RESERVE k 0.01 1 WINDOW 5 PERIODS 6 WINDOW 7000000000000 PERIODS 3"],
        "BF.INFO k WINDOW",
        "[7000000000000]",
    ),
    (
        &["BF.INSERT k WINDOW 7000000000000 PERIODS 3 PERIODS 2"],
        "BF.INFO k PERIODS",
        "[2]",
    ),
    (
        &["BF.RESERVE k 0.01 1 EX 5 EX 70000 EX 1000000"],
        "EXPIRE k 900000 GT",
        "0",
    ),
    (
        &["BF.RESERVE k 0.01 1 PX 5 PX 1000000000"],
        "EXPIRE k 900000 GT",
        "0",
    ),
    // Options whose value is not there, or is more than a point in time.
    (NONE, "BF.RESERVE k 0.01 100 WINDOW", "ERR bad window"),
    (
        NONE,
        "BF.RESERVE k 0.01 100 WINDOW 5 PERIODS",
        "ERR bad periods",
    ),
    (NONE, "BF.RESERVE k 0.01 100 EX", "ERR bad ttl"),
    (NONE, "BF.RESERVE k 0.01 100 PX", "ERR bad ttl"),
    (NONE, "BF.RESERVE k 0.01 100 EX 5 PX", "ERR bad ttl"),
    (
        NONE,
        "BF.RESERVE k 0.01 100 PX 9223372036854775807",
        "ERR bad ttl",
    ),
    (
        NONE,
        "BF.RESERVE k 0.01 100 EX 9223372036854775",
        "ERR bad ttl",
    ),
    (
        NONE,
        "BF.RESERVE k 0.01 100 EX 9223372036854775807",
        "ERR bad ttl",
    ),
    (NONE, "BF.INSERT k TTL", "ERR bad ttl"),
    (NONE, "BF.INSERT k ID", "ERR bad id"),
    (NONE, "BF.INSERT k AT", "ERR unknown argument received"),
    // What is wrong by itself comes before what does not go together.
    (
        NONE,
        "BF.RESERVE k 0.01 100 COUNTING WINDOW 1000 PERIODS 1441",
        "ERR bad periods",
    ),
    (
        NONE,
        "BF.INSERT k WINDOW 1000 PERIODS 3 COUNTING x",
        "ERR unknown argument received",
    ),
    (
        NONE,
        "BF.INSERT k WINDOW 9223372036854775807 PERIODS 2 COUNTING",
        "ERR bad window",
    ),
    (
        NONE,
        "BF.INSERT k WINDOW 1000 PERIODS 3 COUNTING ID x",
        "ERR bad id",
    ),
    // And that before what there is.
    (
        COUNTED,
        "BF.INSERT k WINDOW 1000 PERIODS 3 COUNTING ITEMS a",
        COMBINED,
    ),
    (
        WINDOWED,
        "BF.RESERVE k 0.01 100 COUNTING WINDOW 1000 PERIODS 3 NX",
        COMBINED,
    ),
    (
        &["SET k x"],
        "BF.INSERT k COUNTING WINDOW 1000 PERIODS 3 TTL 5000 ID 5",
        COMBINED,
    ),
    (WINDOWED, "BF.INSERT k COUNTING ITEMS a", "[0]"),
    (COUNTED, "BF.DEL k a ID", "ERR bad id"),
    (COUNTED, "BF.DEL k a AT", "ERR unknown argument received"),
    // Objects that can't be made one.
    (
        &["BF.ADD k a", "BF.INSERT other SEED <seed> ITEMS a"],
        "BF.MERGE k other",
        "ERR filters have different seeds",
    ),
    (
        &[
            "BF.INSERT k COUNTING",
            "BF.INSERT other SEED <seed> COUNTING",
        ],
        "BF.MERGE new k other",
        "ERR filters have different seeds",
    ),
    (
        &["BF.ADD k a", "BF.INSERT other COUNTING"],
        "BF.MERGE k other",
        KINDS,
    ),
    (
        &["BF.ADD k a", "BF.INSERT other COUNTING"],
        "BF.MERGE other k",
        KINDS,
    ),
    (
        &["BF.ADD k a", "BF.INSERT other WINDOW 1000 PERIODS 3"],
        "BF.MERGE new k other",
        KINDS,
    ),
    (
        &[
            "BF.INSERT k WINDOW 1000 PERIODS 3",
            "BF.INSERT other WINDOW 1000 PERIODS 4",
        ],
        "BF.MERGE k other",
        KINDS,
    ),
    (
        &[
            "BF.INSERT k COUNTING",
            "BF.INSERT other WINDOW 1000 PERIODS 3",
        ],
        "BF.MERGE k other",
        KINDS,
    ),
    (
        &[
            "BF.INSERT k ERROR 0.9 CAPACITY 14 NONSCALING ITEMS a",
            "BF.INSERT other ERROR 0.9 CAPACITY 28 NONSCALING ITEMS b",
        ],
        "BF.MERGE k other",
        "ERR error rates of the filters add up to 1 or more",
    ),
    (
        &[
            "BF.INSERT k ERROR 0.9 CAPACITY 1400 NONSCALING COUNTING ITEMS a",
            "BF.INSERT other ERROR 0.9 CAPACITY 2800 NONSCALING COUNTING ITEMS b",
        ],
        "BF.MERGE k other",
        "ERR error rates of the filters add up to 1 or more",
    ),
    (&["BF.ADD k a", "BF.ADD other b"], "BF.MERGE k other", "OK"),
    (&["BF.ADD k a"], "BF.MERGE k k k", "OK"),
    (
        &["BF.ADD k a", "SET other x"],
        "BF.MERGE new k other",
        WRONGTYPE,
    ),
    (
        &["BF.ADD k a", "BF.LOADCHUNK other 1 <header>"],
        "BF.MERGE k other",
        "ERR bloom object is still being loaded",
    ),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.DEL k a",
        "ERR bloom object is still being loaded",
    ),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.MISSING k a",
        "ERR bloom object is still being loaded",
    ),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.RESERVE k 0.01 10 NX",
        "ERR bloom object is still being loaded",
    ),
    // A key that is taken.
    (TWO, "BF.RESERVE k 0.01 100", "ERR item exists"),
    (TWO, "BF.RESERVE k 0.000001 2 NONSCALING", "ERR item exists"),
    (
        TWO,
        "BF.LOAD k <dump>",
        "BUSYKEY Target key name already exists.",
    ),
    (
        TWO,
        "BF.LOAD k <dump> 1000",
        "BUSYKEY Target key name already exists.",
    ),
    (
        TWO,
        "BF.LOADCHUNK k 1 <header>",
        "BUSYKEY Target key name already exists.",
    ),
    (TWO, "BF.LOADCHUNK k 2 x", "ERR received bad data"),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.LOADCHUNK k 1 <header>",
        "BUSYKEY Target key name already exists.",
    ),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.EXISTS k a",
        "ERR bloom object is still being loaded",
    ),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.ADD k a",
        "ERR bloom object is still being loaded",
    ),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.LOADCHUNK k 3 x",
        "ERR received bad data",
    ),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.LOADCHUNK k 1 x",
        "BUSYKEY Target key name already exists.",
    ),
    (
        &["BF.LOADCHUNK k 1 <header>", "BF.LOADCHUNK k 2 x"],
        "BF.LOADCHUNK k 2 x",
        "ERR received bad data",
    ),
    // Options whose value is not there.
    (NONE, "BF.RESERVE k 0.01 100 EXPANSION", "ERR bad expansion"),
    (
        NONE,
        "BF.RESERVE k 0.01 100 NONSCALING EXPANSION",
        "ERR bad expansion",
    ),
    (NONE, "BF.INSERT k EXPANSION", "ERR bad expansion"),
    (NONE, "BF.INSERT k CAPACITY", "ERR bad capacity"),
    (NONE, "BF.INSERT k ERROR", "ERR bad error rate"),
    (NONE, "BF.INSERT k TIGHTENING", "ERR bad tightening ratio"),
    (NONE, "BF.INSERT k SEED", "ERR invalid seed"),
    // The word that follows an option is its value, whatever it is.
    (NONE, "BF.INSERT k CAPACITY ITEMS a", "ERR bad capacity"),
    (
        NONE,
        "BF.INSERT k EXPANSION NONSCALING ITEMS a",
        "ERR bad expansion",
    ),
    // An expansion of 0 is NONSCALING.
    (
        &["BF.RESERVE k 0.01 100 EXPANSION 0"],
        "BF.INFO k EXPANSION",
        "[null]",
    ),
    (
        &["BF.INSERT k EXPANSION 0"],
        "BF.INFO k EXPANSION",
        "[null]",
    ),
    (
        &["BF.RESERVE k 0.01 100 EXPANSION 0 NONSCALING"],
        "BF.INFO k EXPANSION",
        "[null]",
    ),
    (
        &["BF.RESERVE k 0.01 100 NONSCALING EXPANSION 0"],
        "BF.INFO k EXPANSION",
        "[null]",
    ),
    (
        &["BF.INSERT k NONSCALING EXPANSION 0"],
        "BF.INFO k EXPANSION",
        "[null]",
    ),
    (
        &["BF.RESERVE k 0.01 100 NONSCALING NONSCALING"],
        "BF.INFO k EXPANSION",
        "[null]",
    ),
    // Of the same option twice the last wins.
    (
        &["BF.INSERT k CAPACITY 5 CAPACITY 7"],
        "BF.INFO k CAPACITY",
        "[7]",
    ),
    (
        &["BF.INSERT k ERROR 0.5 CAPACITY 7 ERROR 0.25"],
        "BF.INFO k ERROR",
        "[0.25]",
    ),
    (
        &["BF.INSERT k TIGHTENING 0.25 TIGHTENING 0.75"],
        "BF.INFO k TIGHTENING",
        "[0.75]",
    ),
    (
        &["BF.INSERT k EXPANSION 2 EXPANSION 3"],
        "BF.INFO k EXPANSION",
        "[3]",
    ),
    (
        &["BF.RESERVE k 0.01 100 EXPANSION 2 EXPANSION 3"],
        "BF.INFO k EXPANSION",
        "[3]",
    ),
    (
        &["BF.RESERVE k 0.01 100 EXPANSION 3 EXPANSION 0"],
        "BF.INFO k EXPANSION",
        "[null]",
    ),
    (
        &["BF.RESERVE k 0.01 100 EXPANSION 2 EXPANSION 0 NONSCALING"],
        "BF.INFO k EXPANSION",
        "[null]",
    ),
    (
        NONE,
        "BF.INSERT k VALIDATESCALETO 9223372036854775807 VALIDATESCALETO 1000",
        "[]",
    ),
    (
        NONE,
        "BF.INSERT k VALIDATESCALETO 1000 VALIDATESCALETO 9223372036854775807",
        "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit",
    ),
    // A rate too small to be halved, and one that soon is.
    (NONE, "BF.RESERVE k 5e-324 1", DEGRADED),
    (NONE, "BF.RESERVE k 5e-324 1 NONSCALING", OVER),
    (STEEP, "BF.ADD k c", DEGRADED),
    (
        STEEP,
        "BF.MADD k a c d",
        "[0, ERR false positive degrades to 0 on scale out]",
    ),
    (STEEP, "BF.INFO k MAXSCALEDCAPACITY", "[2]"),
    // The narrowest and the widest numbers.
    (NONE, "BF.RESERVE k 0.01 1", "OK"),
    (NONE, "BF.RESERVE k 1e-15 1 NONSCALING", "OK"),
    (NONE, "BF.RESERVE k 1e-300 1 NONSCALING", OVER),
    (NONE, "BF.RESERVE k 0.999999 100", "OK"),
    (NONE, "BF.RESERVE k 0.01 1 EXPANSION 4294967295", "OK"),
    (
        NONE,
        "BF.INSERT k CAPACITY 1 EXPANSION 1 VALIDATESCALETO 1",
        "[]",
    ),
    (NONE, "BF.INSERT k SEED <seed> ITEMS a", "[1]"),
    // Without items the object is made, or found.
    (NONE, "BF.INSERT k", "[]"),
    (
        NONE,
        "BF.INSERT k CAPACITY 100 ERROR 0.01 TIGHTENING 0.5 EXPANSION 2",
        "[]",
    ),
    (&["BF.INSERT k CAPACITY 7"], "BF.INFO k CAPACITY", "[7]"),
    (&["BF.INSERT k"], "BF.CARD k", "0"),
    (TWO, "BF.INSERT k", "[]"),
    (TWO, "BF.INSERT k NOCREATE", "[]"),
    // What an object is made of is settled once.
    (
        &["BF.INSERT k CAPACITY 7", "BF.INSERT k CAPACITY 9 ITEMS a"],
        "BF.INFO k CAPACITY",
        "[7]",
    ),
    (TWO, "BF.INSERT k CAPACITY 9 ITEMS a", "[0]"),
    // A field that only scaling objects have.
    (TWO, "BF.INFO k TIGHTENING", "ERR invalid information value"),
    (
        TWO,
        "BF.INFO k MAXSCALEDCAPACITY",
        "ERR invalid information value",
    ),
    (SCALING, "BF.INFO k TIGHTENING", "[0.5]"),
    // A non-scaling object that is full.
    (TWO, "BF.ADD k c", "ERR non scaling filter is full"),
    (TWO, "BF.MADD k c", "[ERR non scaling filter is full]"),
    (
        TWO,
        "BF.MADD k a c b",
        "[0, ERR non scaling filter is full]",
    ),
    (
        TWO,
        "BF.INSERT k ITEMS b a c d",
        "[0, 0, ERR non scaling filter is full]",
    ),
    (TWO, "BF.ADD k a", "0"),
    (TWO, "BF.MADD k a b", "[0, 0]"),
    (TWO, "BF.CARD k", "2"),
    (
        NONE,
        "BF.INSERT k CAPACITY 1 ERROR 0.01 NONSCALING ITEMS a b",
        "[1, ERR non scaling filter is full]",
    ),
    // Unless the settings say that it takes more.
    (SATURATING, "BF.CARD k", "4"),
    (SATURATING, "BF.INFO k CAPACITY", "[2]"),
    (SATURATING, "BF.INFO k FILTERS", "[1]"),
    (SATURATING, "BF.MEXISTS k a b c d", "[1, 1, 1, 1]"),
    (
        &[
            "CONFIG SET bf.bloom-saturate-nonscaling yes",
            "BF.RESERVE k 0.000001 2 NONSCALING",
            "BF.MADD k a b c d",
            "CONFIG SET bf.bloom-saturate-nonscaling no",
        ],
        "BF.MADD k d e",
        "[0, ERR non scaling filter is full]",
    ),
    // Memory.
    (NONE, "BF.RESERVE k 0.01 9223372036854775807", OVER),
    (
        NONE,
        "BF.RESERVE k 0.01 9223372036854775807 NONSCALING",
        OVER,
    ),
    (
        NONE,
        "BF.INSERT k CAPACITY 9223372036854775807 ITEMS a",
        OVER,
    ),
    (NONE, "BF.RESERVE k 0.01 100000000", OVER),
    (&[FILTERS_OF_100], "BF.RESERVE k 0.01 100", OVER),
    (&[FILTERS_OF_100], "BF.RESERVE k 0.01 100 NONSCALING", OVER),
    (&[FILTERS_OF_100], "BF.INSERT k", OVER),
    (&[FILTERS_OF_100], "BF.INSERT k ITEMS a b", OVER),
    (&[FILTERS_OF_100], "BF.ADD k a", OVER),
    (&[FILTERS_OF_100], "BF.MADD k a b", OVER),
    (&[FILTERS_OF_100], "BF.LOAD k <dump>", OVER),
    (&[FILTERS_OF_100], "BF.LOADCHUNK k 1 <header>", OVER),
    (&[FILTERS_OF_100], "BF.RESERVE k 0.01 10", "OK"),
    // A counter is four bits.
    (NONE, "BF.RESERVE k 0.01 20000000 NONSCALING", "OK"),
    (NONE, "BF.RESERVE k 0.01 20000000 NONSCALING COUNTING", OVER),
    (&[FILTERS_OF_100], "BF.RESERVE k 0.01 5 COUNTING", "OK"),
    (&[FILTERS_OF_100], "BF.RESERVE k 0.01 30 COUNTING", OVER),
    (&[FILTERS_OF_100], "BF.RESERVE k 0.01 30", "OK"),
    (&[OBJECTS_OF_200], "BF.RESERVE k 0.5 1 COUNTING", OVER),
    (
        &[OBJECTS_OF_200],
        "BF.INSERT k WINDOW 1000 PERIODS 3 ITEMS a",
        OVER,
    ),
    (
        &[
            "BF.INSERT k CAPACITY 1000 ITEMS a",
            "BF.INSERT other CAPACITY 2000 ITEMS b",
            "CONFIG SET bf.bloom-memory-usage-limit 4000",
        ],
        "BF.MERGE k other",
        OVER,
    ),
    (&[OBJECTS_OF_200], "BF.RESERVE k 0.01 100", OVER),
    (&[OBJECTS_OF_200], "BF.INSERT k ITEMS a b", OVER),
    (&[OBJECTS_OF_200], "BF.ADD k a", OVER),
    (&[OBJECTS_OF_200], "BF.MADD k a b", OVER),
    (&[OBJECTS_OF_200], "BF.LOAD k <dump>", OVER),
    (&[OBJECTS_OF_200], "BF.LOADCHUNK k 1 <header>", OVER),
    // The limits allow one filter, and growth is refused.
    (TIGHT, "BF.ADD k c", OVER),
    (
        TIGHT,
        "BF.MADD k c d",
        "[ERR operation exceeds bloom object memory limit]",
    ),
    (
        TIGHT,
        "BF.INSERT k ITEMS a b c d",
        "[0, 0, ERR operation exceeds bloom object memory limit]",
    ),
    (TIGHT, "BF.ADD k a", "0"),
    (TIGHT, "BF.INFO k MAXSCALEDCAPACITY", "[2]"),
    (
        &[
            "BF.RESERVE k 0.000001 2",
            "BF.MADD k a b",
            "CONFIG SET bf.bloom-memory-usage-limit 400",
        ],
        "BF.MADD k c d",
        "[ERR operation exceeds bloom object memory limit]",
    ),
];

const STEEP: &[&str] =
    &["BF.INSERT k CAPACITY 2 EXPANSION 1 ERROR 1e-5 TIGHTENING 1e-320 ITEMS a b"];
const DEGRADED: &str = "ERR false positive degrades to 0 on scale out";
const LONG_TTL: &str = "ERR ttl is longer than the window";
const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const OVER: &str = "ERR operation exceeds bloom object memory limit";
const FILTERS_OF_100: &str = "CONFIG SET bf.bloom-filter-max-memory-usage 100";
const OBJECTS_OF_200: &str = "CONFIG SET bf.bloom-memory-usage-limit 200";

const DEFAULTS: &str = "CONFIG SET bf.bloom-filter-max-memory-usage 64mb \
    bf.bloom-memory-usage-limit 0 bf.bloom-saturate-nonscaling no";

/// What words in angle brackets stand for.
pub type Blobs = HashMap<&'static str, Vec<u8>>;

pub fn blobs(client: &mut Client) -> Blobs {
    assert_eq!(
        client.cmd("BF.INSERT src CAPACITY 100 ITEMS a b"),
        truths(false, &[true, true])
    );
    let pieces = pieces(client, "src");
    let dump = dump(&pieces);
    let header = pieces[0].1.clone();
    let of_version = |version: u8| {
        let mut dump = dump.clone();
        dump[0] = version;
        dump
    };
    let longer = |bytes: &[u8]| [bytes, b"\0"].concat();
    let shorter = |bytes: &[u8]| bytes[..bytes.len() - 1].to_vec();
    HashMap::from([
        ("<newer>", of_version(2)),
        ("<newest>", of_version(255)),
        ("<one>", vec![1]),
        ("<cut>", shorter(&dump)),
        ("<long>", longer(&dump)),
        ("<cutheader>", shorter(&header)),
        ("<longheader>", longer(&header)),
        ("<header>", header),
        ("<cfheader>", cuckoo::header([1, 32, 0, 1], [2, 20, 1])),
        // All of the bits, and the cursor behind them.
        ("<bits>", pieces[1].1.clone()),
        ("<end>", pieces[1].0.to_string().into_bytes()),
        ("<dump>", dump),
        ("<seed>", vec![0xff; 32]),
        ("<seed31>", vec![0xff; 31]),
        ("<seed33>", vec![0xff; 33]),
    ])
}

/// Calls a command whose words in angle brackets stand for bytes.
pub fn send(client: &mut Client, line: &str, blobs: &Blobs) -> Reply {
    send_words(client, line.split(' '), blobs)
}

pub fn send_words<'w>(
    client: &mut Client,
    words: impl Iterator<Item = &'w str>,
    blobs: &Blobs,
) -> Reply {
    let args = words.map(|word| blobs.get(word).map_or(word.as_bytes(), Vec::as_slice));
    client.call(&args.collect::<Vec<_>>())
}

/// A reply in one line, the same in both protocols. A map is told by its values.
fn told(reply: &Reply) -> String {
    let list = |replies: Vec<String>| format!("[{}]", replies.join(", "));
    match reply {
        Reply::Int(number) => number.to_string(),
        Reply::Bool(value) => u8::from(*value).to_string(),
        Reply::Double(number) => format!("{number:?}"),
        Reply::Nil => "null".to_owned(),
        Reply::Array(replies) => list(replies.iter().map(told).collect()),
        Reply::Map(pairs) => list(pairs.iter().map(|(_, value)| told(value)).collect()),
        text => text.text(),
    }
}

fn check(client: &mut Client, resp3: bool, (given, command, reply): Row, blobs: &Blobs) {
    assert_eq!(client.cmd("FLUSHALL"), ok());
    for line in given {
        let done = send(client, line, blobs);
        assert!(!done.is_error(), "{line}: {done:?}");
    }
    let (data, keys) = (client.cmd("DEBUG DIGEST"), client.cmd("DBSIZE"));
    // Options are read in either case; keys and items here are in lower case anyway.
    let command = if resp3 {
        command.to_lowercase()
    } else {
        command.to_owned()
    };
    assert_eq!(
        told(&send(client, &command, blobs)),
        reply,
        "{given:?} {command}"
    );
    let begins = |code| reply.trim_start_matches('[').starts_with(code);
    if ["ERR ", "WRONGTYPE ", "BUSYKEY "].into_iter().any(begins) {
        let after = (client.cmd("DEBUG DIGEST"), client.cmd("DBSIZE"));
        assert_eq!(after, (data, keys), "{given:?} {command}");
    }
    if given.iter().any(|line| line.starts_with("CONFIG")) {
        assert_eq!(client.cmd(DEFAULTS), ok());
    }
}

#[test]
fn every_situation_has_its_reply() {
    let server = with_fixed_seed();
    let blobs = blobs(&mut server.client());
    in_both_protocols(&server, |client, resp3| {
        let mut check = |row: Row| check(client, resp3, row, &blobs);
        for row in ROWS {
            check(*row);
        }
        for command in ARITY {
            let name = command.split(' ').next().unwrap().to_lowercase();
            let reply = format!("ERR wrong number of arguments for '{name}' command");
            check((NONE, command, &reply));
        }
        for (given, command) in [&["SET k v"], &["RPUSH k a b"], &["XADD k 1-1 f v"]]
            .into_iter()
            .flat_map(|given| EACH_COMMAND.iter().map(move |command| (given, command)))
        {
            let reply = "WRONGTYPE Operation against a key holding the wrong kind of value";
            check((given, command, reply));
        }
        for (commands, words, reply) in FAMILIES {
            for (command, word) in commands
                .iter()
                .flat_map(|command| words.iter().map(move |word| (command, word)))
            {
                let command = command.replace("{}", word);
                // What is malformed is refused whether there is an object or not.
                check((NONE, &command, reply));
                if !ON_MISSING_KEYS.contains(reply) {
                    check((&["BF.INSERT k CAPACITY 100 ITEMS a"], &command, reply));
                }
            }
        }
    });
}

/// Words that are a number, and words that look like one.
const ODD_NUMBERS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"10",
    b"",
    b"-",
    b"+",
    b"-0",
    b"+0",
    b"00",
    b"01",
    b"-01",
    b"+1",
    b"--1",
    b"-+1",
    b"00000000000000000001",
    b"000000000000000000000000000001",
    b" 1",
    b"1 ",
    b"\t1",
    b"1\n",
    b"1\r\n",
    b"1\0",
    b"\x001",
    b"1x",
    b"0x1",
    b"1_0",
    b"1,0",
    b"1.",
    b"1.0",
    b"1e1",
    b"\xff",
    "\u{661}".as_bytes(),
    "\u{ff11}".as_bytes(),
];

const WIDEST: &[&[u8]] = &[
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"-9223372036854775809",
    b"09223372036854775807",
    b"18446744073709551615",
    b"99999999999999999999",
];

#[test]
fn a_number_is_what_the_servers_own_commands_take_for_one() {
    let server = with_fixed_seed();
    let blobs = blobs(&mut server.client());
    in_both_protocols(&server, |client, _| {
        let mut is_bad = |line: &str, number: &[u8]| {
            assert!(!client.cmd("DEL k n").is_error());
            let words = line.split(' ').map(|word| match word {
                "{}" => number,
                word => blobs.get(word).map_or(word.as_bytes(), Vec::as_slice),
            });
            match client.call(&words.collect::<Vec<_>>()) {
                Reply::Error(text) if text.starts_with("ERR value is not an integer") => true,
                Reply::Error(text) => text.starts_with("ERR bad "),
                _ => false,
            }
        };
        for number in ODD_NUMBERS.iter().chain(WIDEST) {
            let bad = is_bad("INCRBY n {}", number);
            for line in ["BF.SCANDUMP k {}", "BF.LOADCHUNK k {} x"] {
                assert_eq!(is_bad(line, number), bad, "{line} {number:?}");
            }
        }
        for number in ODD_NUMBERS {
            let bad = is_bad("INCRBY n {}", number) || number.starts_with(b"-");
            for line in [
                "BF.RESERVE k 0.01 {}",
                "BF.RESERVE k 0.01 100 EXPANSION {}",
                "BF.RESERVE k 0.01 100 WINDOW {} PERIODS 3",
                "BF.RESERVE k 0.01 100 PERIODS {} WINDOW 1000",
                "BF.RESERVE k 0.01 100 EX {}",
                "BF.RESERVE k 0.01 100 PX {}",
                "BF.INSERT k CAPACITY {}",
                "BF.INSERT k EXPANSION {} ITEMS a",
                "BF.INSERT k VALIDATESCALETO {}",
                "BF.INSERT k WINDOW 1000 PERIODS 3 TTL {}",
                "BF.INSERT k COUNTING ID {} ITEMS a",
                "BF.DEL k a ID {}",
                "BF.LOAD k <dump> {}",
            ] {
                assert_eq!(is_bad(line, number), bad, "{line} {number:?}");
            }
        }
    });
}

/// Offsets in a dump, and those in its first filter.
const EXPANSION: usize = 1;
const ERROR_RATE: usize = 5;
const TIGHTENING: usize = 13;
const SEED_IS_RANDOM: usize = 21;
const FILTERS: usize = 22;
const BLOB_BYTES: usize = 30;
const BLOB_VERSION: usize = 38;
const BITMAP_BYTES: usize = 39;
const HASHES: usize = 47;
const SEED: usize = 51;

fn number(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// The bytes with others in place of some.
fn with_patch(bytes: &[u8], offset: usize, patch: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[offset..offset + patch.len()].copy_from_slice(patch);
    bytes
}

/// What neither a dump nor a header of two filters of 10 items may hold.
fn impossible() -> Vec<(usize, Vec<u8>)> {
    let mut patches = vec![
        (SEED_IS_RANDOM, vec![2]),
        (FILTERS, number(0)),
        (FILTERS, number(1)),
        (FILTERS, number(3)),
        (FILTERS, number(u64::MAX)),
        (BLOB_BYTES, number(0)),
        (BLOB_BYTES, number(44)),
        (BLOB_BYTES, number(u64::MAX)),
        (BLOB_VERSION, vec![0]),
        (BLOB_VERSION, vec![2]),
        (BITMAP_BYTES, number(0)),
        (HASHES, vec![0; 4]),
        (HASHES, 5000_u32.to_le_bytes().to_vec()),
        (HASHES, vec![0xff; 4]),
        // A seed that is not the other filter's, nor the fixed one.
        (SEED, vec![1; 32]),
    ];
    for offset in [ERROR_RATE, TIGHTENING] {
        let rates = [0.0_f64, 1.0, -0.5, 1.5, f64::NAN, f64::INFINITY];
        patches.extend(rates.map(|rate| (offset, rate.to_le_bytes().to_vec())));
    }
    patches
}

/// The same, where the last filter's items and capacity stand: so far from the end.
fn impossible_at_the_end() -> [(usize, Vec<u8>); 5] {
    [
        (16, number(11)),
        (16, number(u64::MAX)),
        (8, number(0)),
        (8, number(u64::MAX)),
        (8, number(1 << 63)),
    ]
}

/// A dump of two filters, with its header, that leaves no key behind.
fn two_filters(client: &mut Client) -> (Vec<u8>, Vec<u8>) {
    let create = "BF.INSERT src CAPACITY 10 EXPANSION 1 ITEMS 0 1 2 3 4 5 6 7 8 9 10 11 12 13";
    assert!(!client.cmd(create).is_error());
    assert_eq!(field(client, "src", "FILTERS"), 2);
    let mut pieces = pieces(client, "src");
    assert_eq!(client.cmd("DEL src"), int(1));
    (dump(&pieces), pieces.swap_remove(0).1)
}

#[test]
fn what_is_no_object_is_not_loaded() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        let (whole, header) = two_filters(client);
        let load = |client: &mut Client, bytes: &[u8], what: &str| {
            let refused = error("ERR bloom object decoding failed");
            assert_eq!(client.call(&[b"BF.LOAD", b"k", bytes]), refused, "{what}");
        };
        let begin = |client: &mut Client, bytes: &[u8], what: &str| {
            let refused = error("ERR received bad data");
            let reply = client.call(&[b"BF.LOADCHUNK", b"k", b"1", bytes]);
            assert_eq!(reply, refused, "{what}");
        };
        for (offset, patch) in impossible() {
            let what = format!("{offset}: {patch:?}");
            load(client, &with_patch(&whole, offset, &patch), &what);
            begin(client, &with_patch(&header, offset, &patch), &what);
        }
        for (offset, patch) in impossible_at_the_end() {
            let what = format!("-{offset}: {patch:?}");
            load(
                client,
                &with_patch(&whole, whole.len() - offset, &patch),
                &what,
            );
            begin(
                client,
                &with_patch(&header, header.len() - offset, &patch),
                &what,
            );
        }
        for end in 0..whole.len() {
            load(client, &whole[..end], &format!("the first {end} bytes"));
        }
        for end in 0..header.len() {
            begin(client, &header[..end], &format!("the first {end} bytes"));
        }
        // In a dump the bitmap is there, and has its length.
        let length = u64::from_le_bytes(whole[BITMAP_BYTES..][..8].try_into().unwrap());
        for wrong in [length - 1, length + 1, u64::MAX] {
            let bytes = with_patch(&whole, BITMAP_BYTES, &number(wrong));
            load(client, &bytes, &format!("a bitmap of {wrong}"));
        }
        assert_eq!(client.cmd("DBSIZE"), int(0));

        // The fixed seed may be noted as random, and any growth is possible.
        for (offset, patch) in [
            (SEED_IS_RANDOM, vec![1]),
            (EXPANSION, vec![0xff; 4]),
            (EXPANSION, vec![0; 4]),
        ] {
            let bytes = with_patch(&whole, offset, &patch);
            let loaded = client.call(&[b"BF.LOAD", b"k", &bytes]);
            assert_eq!(loaded, ok(), "{offset} {patch:?}");
            assert_eq!(client.cmd("DEL k"), int(1));
        }
    });
}

#[test]
fn nothing_is_taken_for_a_size_that_is_only_claimed() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        let (_, header) = two_filters(client);
        let possible = 60 << 20;
        for bytes in [1, 100, possible, 1 << 40, 1 << 60, u64::MAX >> 4, u64::MAX] {
            let claim = with_patch(&header, BITMAP_BYTES, &number(bytes));
            let begun = client.call(&[b"BF.LOADCHUNK", b"k", b"1", &claim]);
            assert_eq!(begun == ok(), bytes <= possible, "{bytes}: {begun:?}");
            if begun == ok() {
                assert_eq!(client.cmd("BF.LOADCHUNK k 2 x"), ok());
                assert!(client.cmd("MEMORY USAGE k").as_int() < 2000);
                assert_eq!(client.cmd("DEL k"), int(1));
            }
            assert_eq!(client.cmd("DBSIZE"), int(0));
        }
    });
}
