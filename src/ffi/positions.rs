//! The positions of a command's keys among its words, and what the command does to each.

use std::ffi::c_int;
use std::ops::Range;

use valkey_module::raw;

use super::api::call;
use super::context::Ctx;
use super::string::Argv;

/// What a command does to its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Reads the value.
    Reads,
    /// Adds to the value, or creates it; this may need memory.
    Adds,
    /// Changes data of the value; this may need memory.
    Updates,
    /// Changes data of the value, and returns or uses what it held; this may need memory.
    ReadsAndUpdates,
    /// Removes from the value.
    Removes,
}

/// What a command with numbered sources does to its first key.
pub(super) const MERGES: Effect = Effect::ReadsAndUpdates;

/// The source keys of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sources {
    /// None.
    None,
    /// All words after the first key.
    Rest,
    /// The keys after their number, which follows the first key.
    Numbered,
}

/// The access to a source key.
const SOURCE_ACCESS: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;

/// Returns the access to a command's first key.
const fn first_key_access(effect: Effect, sources: Sources) -> u32 {
    use raw::{
        REDISMODULE_CMD_KEY_ACCESS as ACCESS, REDISMODULE_CMD_KEY_DELETE as DELETE,
        REDISMODULE_CMD_KEY_INSERT as INSERT, REDISMODULE_CMD_KEY_RO as RO,
        REDISMODULE_CMD_KEY_RW as RW, REDISMODULE_CMD_KEY_UPDATE as UPDATE,
    };
    match (effect, sources) {
        (Effect::Adds, Sources::None) => RW | INSERT,
        // The sources are merged into the first key's value, so that value is read as well.
        (Effect::Adds, _) => RW | ACCESS | INSERT,
        (Effect::Updates, _) => RW | UPDATE,
        (Effect::ReadsAndUpdates, _) => RW | ACCESS | UPDATE,
        (Effect::Removes, _) => RW | DELETE,
        (Effect::Reads, _) => RO | ACCESS,
    }
}

/// Returns the positions of a command's keys: one or two specs, and the terminator.
pub(super) fn key_specs(effect: Effect, sources: Sources) -> [raw::RedisModuleCommandKeySpec; 3] {
    // SAFETY: all zero is a valid value of this C structure: numbers and null pointers. It is the terminator.
    let mut keys: [raw::RedisModuleCommandKeySpec; 3] = unsafe { std::mem::zeroed() };
    let [first, others, _] = &mut keys;
    first.flags = first_key_access(effect, sources).into();
    first.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    first.bs.index.pos = 1;
    first.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    first.fk.range.keystep = 1;
    if sources != Sources::None {
        *others = *first;
        others.flags = SOURCE_ACCESS.into();
        others.bs.index.pos = 2;
        others.fk.range.lastkey = -1;
    }
    if sources == Sources::Numbered {
        others.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
        others.fk.keynum.keynumidx = 0;
        others.fk.keynum.firstkey = 1;
        others.fk.keynum.keystep = 1;
    }
    keys
}

/// Reports the keys of a command with numbered sources, in a context of the server's request for them. The server may
/// call this on another thread.
pub(super) fn report_positions(ctx: Ctx, args: Argv) {
    let report = |place: usize, access: u32| {
        // SAFETY: this context is that of a request for positions, and each place is the index of a word.
        unsafe {
            call!(RedisModule_KeyAtPosWithFlags(
                ctx.as_ptr(),
                place as c_int,
                access as c_int
            ));
        }
    };
    report(1, first_key_access(MERGES, Sources::Numbered));
    for source in numbered_sources(args) {
        report(source, SOURCE_ACCESS);
    }
}

/// Returns the places of a command's numbered sources: none if there are fewer words, because the command fails then.
fn numbered_sources(args: Argv) -> Range<usize> {
    const FIRST: usize = 3;
    let number = str::from_utf8(args.string(FIRST - 1).bytes()).ok();
    let number = number.and_then(|word| word.parse().ok());
    let number = number.filter(|number| *number <= args.len() - FIRST);
    FIRST..FIRST + number.unwrap_or(0)
}
