//! The settings that all families share.

use valkeybloom_protocol::bloom::Maker;
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::Limits;

use crate::ffi::{self, Ctx};

pub use crate::ffi::Setting;

static FILTER_MEMORY: Setting = Setting::memory(
    c"bloom-filter-max-memory-usage",
    Limits::DEFAULT.filter_bytes.cast_signed(),
    1,
)
.with_alias(c"bloom_filter_max_memory_usage");
static OBJECT_MEMORY: Setting = Setting::memory(c"bloom-memory-usage-limit", 0, 0);
/// The size in bytes above which a value is freed in the background, and an allocation is not moved by defragmentation.
pub static LARGE: Setting = Setting::memory(c"bloom-large-item-threshold", 4096, 0)
    .with_alias(c"bloom_large_item_threshold");
/// Whether objects take part in defragmentation.
pub static DEFRAG: Setting = Setting::switch(c"bloom-defrag-enabled", true);
static NEW_FILTERS: Setting = Setting::choice(c"bloom-new-filters", &Maker::NAMES);
static INFO_ALIAS: Setting =
    Setting::switch(c"bloom-info-alias", true).with_effect(|value| ffi::set_info_alias(value != 0));

/// The settings that all families share; their names are from the time when there was only one family.
pub static SHARED: [&Setting; 6] = [
    &FILTER_MEMORY,
    &OBJECT_MEMORY,
    &LARGE,
    &NEW_FILTERS,
    &DEFRAG,
    &INFO_ALIAS,
];

/// Returns the memory limits for clients in bytes: of a filter, and of an object. The setting for objects limits the
/// total memory of a value, which includes `overhead_bytes` besides the object's own bytes.
pub fn memory_limits(overhead_bytes: u64) -> (u64, u64) {
    let object_bytes = match OBJECT_MEMORY.unsigned() {
        0 => u64::MAX,
        bytes => bytes.saturating_sub(overhead_bytes),
    };
    (FILTER_MEMORY.unsigned(), object_bytes)
}

/// Returns the memory limit of a command on an object that is a single piece, without `overhead_bytes`: both settings limit
/// the total memory of its value. A command that was already executed elsewhere has no limit.
pub fn piece_limit(ctx: Ctx, overhead_bytes: u64) -> u64 {
    if ctx.must_obey() {
        return u64::MAX;
    }
    let (filter_bytes, object_bytes) = memory_limits(overhead_bytes);
    object_bytes.min(filter_bytes.saturating_sub(overhead_bytes))
}

/// Returns the implementation that new filters follow.
pub fn maker() -> Maker {
    Maker::ALL[NEW_FILTERS.index()]
}

/// Returns whether a command is a client's, on a server that follows `RedisBloom`.
pub fn follows_redisbloom(ctx: Ctx) -> bool {
    maker() == Maker::RedisBloom && !ctx.must_obey()
}

/// Returns the error of a command: this module's, or `RedisBloom`'s on a server that follows it.
pub fn error_for(ctx: Ctx, own: Error, redisbloom: Error) -> Error {
    if follows_redisbloom(ctx) {
        redisbloom
    } else {
        own
    }
}

/// Returns whether a command is parsed and executed by `RedisBloom`'s rules where they accept more than this module's: a
/// server that follows `RedisBloom` gets it, or `RedisBloom` may have sent it.
pub fn has_redisbloom_rules(ctx: Ctx) -> bool {
    ctx.must_obey() || follows_redisbloom(ctx)
}

/// Allows a client what these peers do not have.
///
/// # Errors
/// [`Error::NotMade`]: new filters are to be those of one of these peers, so that its servers can take the data back.
pub fn require_in(lacking: &[Maker], ctx: Ctx, what: &'static str) -> Result<(), Error> {
    let maker = maker();
    if lacking.contains(&maker) && !ctx.must_obey() {
        return Err(Error::NotMade(maker.name(), what));
    }
    Ok(())
}
