//! The positions of a command's keys among its words, and what the command does to each.

use std::ffi::{CStr, c_int};
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

/// The keys of a command besides its first one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sources {
    /// None.
    None,
    /// Sources: all words after the first key.
    Rest,
    /// Sources: the keys after their number, which follows the first key.
    Numbered,
    /// A key after this option, which the command reads and updates.
    After(&'static CStr),
}

impl Sources {
    /// Returns whether a command reports the positions of its keys to the server, because only its words show where they are.
    /// Without that report, a cluster routes commands of modules by their first key alone.
    pub(super) const fn are_reported(self) -> bool {
        matches!(self, Self::Numbered | Self::After(_))
    }
}

/// The access to a source key.
const SOURCE_ACCESS: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;

/// The access to a key after an option.
const OPTION_ACCESS: u32 = first_key_access(Effect::ReadsAndUpdates, Sources::None);

/// Returns the access to a command's first key.
const fn first_key_access(effect: Effect, sources: Sources) -> u32 {
    use raw::{
        REDISMODULE_CMD_KEY_ACCESS as ACCESS, REDISMODULE_CMD_KEY_DELETE as DELETE,
        REDISMODULE_CMD_KEY_INSERT as INSERT, REDISMODULE_CMD_KEY_RO as RO,
        REDISMODULE_CMD_KEY_RW as RW, REDISMODULE_CMD_KEY_UPDATE as UPDATE,
    };
    match (effect, sources) {
        (Effect::Adds, Sources::None | Sources::After(_)) => RW | INSERT,
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
    match sources {
        Sources::None | Sources::Rest => {}
        Sources::Numbered => {
            others.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
            others.fk.keynum.keynumidx = 0;
            others.fk.keynum.firstkey = 1;
            others.fk.keynum.keystep = 1;
        }
        Sources::After(option) => {
            // An item may be the same word. With this flag, the server asks the command for its keys, and does not
            // search for the word.
            others.flags = (OPTION_ACCESS | raw::REDISMODULE_CMD_KEY_VARIABLE_FLAGS).into();
            others.begin_search_type =
                raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
            others.bs.keyword.keyword = option.as_ptr();
            others.bs.keyword.startfrom = 2;
            others.fk.range.lastkey = 0;
        }
    }
    keys
}

/// Reports a key, in a context of the server's request for the positions of keys.
fn report(ctx: Ctx, place: usize, access: u32) {
    // SAFETY: this context is that of a request for positions, and the place is the index of a word.
    unsafe {
        call!(RedisModule_KeyAtPosWithFlags(
            ctx.as_ptr(),
            place as c_int,
            access as c_int
        ));
    }
}

/// Reports the keys of a command with numbered sources. The server may call this on another thread.
pub fn report_numbered(ctx: Ctx, args: Argv) {
    report(ctx, 1, first_key_access(MERGES, Sources::Numbered));
    for source in numbered_sources(args) {
        report(ctx, source, SOURCE_ACCESS);
    }
}

/// Reports the keys of a command that adds to its first key, and has another one after an option. `find` returns the place
/// of that one, if the command has it. The server may call this on another thread.
pub fn report_option(ctx: Ctx, args: Argv, find: impl Fn(&Argv) -> Option<usize>) {
    report(ctx, 1, first_key_access(Effect::Adds, Sources::None));
    if let Some(place) = find(&args) {
        report(ctx, place, OPTION_ACCESS);
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
