//! Names that programs share with the module: types, commands and settings.

use std::ffi::CStr;

use valkeybloom_sketches::bloom::Dialect;
use valkeybloom_sketches::carried::Sketch;
use valkeybloom_sketches::cuckoo;

/// The types of the module's values, as TYPE returns them.
pub const TYPES: [&CStr; 7] = [
    Dialect::Bloomfltr.type_name(),
    Dialect::Bloomfltx.type_name(),
    Dialect::RedisBloom.type_name(),
    cuckoo::wire::TYPE_NAME,
    Sketch::CountMin.type_name(),
    Sketch::TopK.type_name(),
    Sketch::TDigest.type_name(),
];

/// Returns the parameters of a filter.
pub const BF_INFO: &str = "BF.INFO";
/// Adds items, with options.
pub const BF_INSERT: &str = "BF.INSERT";
/// Loads a chunk of BF.SCANDUMP.
pub const BF_LOADCHUNK: &str = "BF.LOADCHUNK";
/// Creates a filter.
pub const BF_RESERVE: &str = "BF.RESERVE";

/// The setting that limits the bytes of one filter of an object.
pub const FILTER_MEMORY: &str = "bf.bloom-filter-max-memory-usage";
/// The setting that limits the bytes of an object; 0 means no limit.
pub const OBJECT_MEMORY: &str = "bf.bloom-memory-usage-limit";
