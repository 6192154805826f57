//! The names of types, commands and settings that programs share with the module.

use std::ffi::CStr;

use valkeybloom_sketches::bloom::Dialect;
use valkeybloom_sketches::{cms, cuckoo, tdigest, topk};

/// The types of the module's values, as TYPE returns them.
pub const TYPES: [&str; 7] = [
    text(Dialect::Bloomfltr.type_name()),
    text(Dialect::Bloomfltx.type_name()),
    text(Dialect::RedisBloom.type_name()),
    CUCKOO,
    COUNT_MIN,
    TOP_K,
    T_DIGEST,
];

/// The type of cuckoo filters.
pub const CUCKOO: &str = text(cuckoo::wire::TYPE_NAME);
/// The type of count-min sketches.
pub const COUNT_MIN: &str = text(cms::wire::TYPE_NAME);
/// The type of Top-K lists.
pub const TOP_K: &str = text(topk::wire::TYPE_NAME);
/// The type of t-digests.
pub const T_DIGEST: &str = text(tdigest::wire::TYPE_NAME);

const fn text(name: &CStr) -> &str {
    match name.to_str() {
        Ok(text) => text,
        Err(_) => panic!("names of types are ASCII"),
    }
}

/// The command that describes a filter.
pub const BF_INFO: &str = "BF.INFO";
/// The command that adds items, with options.
pub const BF_INSERT: &str = "BF.INSERT";
/// The command that loads a chunk from BF.SCANDUMP.
pub const BF_LOADCHUNK: &str = "BF.LOADCHUNK";
/// The command that removes items from a filter with counters, which no other program has.
pub const BF_MDEL: &str = "BF.MDEL";
/// The command that creates a filter.
pub const BF_RESERVE: &str = "BF.RESERVE";
/// The command that reads a chunk, which valkey-bloom lacks.
pub const BF_SCANDUMP: &str = "BF.SCANDUMP";

/// The setting that limits the bytes of each filter of an object.
pub const FILTER_MEMORY: &str = "bf.bloom-filter-max-memory-usage";
/// The setting that limits the bytes of an object; 0 means no limit.
pub const OBJECT_MEMORY: &str = "bf.bloom-memory-usage-limit";
/// The setting that limits the number of filters of a cuckoo filter.
pub const CUCKOO_FILTERS: &str = "bf.cf-max-expansions";
/// The setting that names the kind of new Bloom filters, one of [`Maker::NAMES`](crate::bloom::Maker::NAMES).
pub const NEW_FILTERS: &str = "bf.bloom-new-filters";
