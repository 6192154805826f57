//! The commands that bring situations about, and the refusals that several of them end in.

pub const NONE: &[&str] = &[];
pub const TWO: &[&str] = &["BF.RESERVE k 0.000001 2 NONSCALING", "BF.MADD k a b"];
pub const SCALING: &[&str] = &["BF.RESERVE k 0.000001 2", "BF.MADD k a b"];
/// Room for the first filter above, and for no second one.
pub const TIGHT: &[&str] = &[
    "CONFIG SET bf.bloom-filter-max-memory-usage 131",
    "BF.RESERVE k 0.000001 2",
    "BF.MADD k a b",
];
pub const COUNTED: &[&str] = &["BF.RESERVE k 0.000001 100 COUNTING", "BF.MADD k a b a"];
/// A window that ends long after any test.
pub const WINDOWED: &[&str] =
    &["BF.INSERT k ERROR 0.000001 WINDOW 1000000000000 PERIODS 2 TTL 1 ITEMS a b"];
pub const SATURATING: &[&str] = &[
    "CONFIG SET bf.bloom-saturate-nonscaling yes",
    "BF.RESERVE k 0.000001 2 NONSCALING",
    "BF.MADD k a b c d",
];
pub const STEEP: &[&str] =
    &["BF.INSERT k CAPACITY 2 EXPANSION 1 ERROR 1e-5 TIGHTENING 1e-320 ITEMS a b"];
pub const FILTERS_OF_100: &str = "CONFIG SET bf.bloom-filter-max-memory-usage 100";
pub const OBJECTS_OF_200: &str = "CONFIG SET bf.bloom-memory-usage-limit 200";

pub const NO_COUNTERS: &str = "ERR filter was not made with COUNTING";
pub const COMBINED: &str = "ERR WINDOW and COUNTING cannot be combined";
pub const KINDS: &str = "ERR filters are of different kinds";
pub const DEGRADED: &str = "ERR false positive degrades to 0 on scale out";
pub const LONG_TTL: &str = "ERR ttl is longer than the window";
pub const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub const OVER: &str = "ERR operation exceeds bloom object memory limit";
