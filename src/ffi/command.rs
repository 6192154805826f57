//! Commands: their entry points, registration and documentation.

use std::ffi::{CStr, CString, c_int};
use std::ptr;

use valkey_module::raw;

use super::api::{OK, call};
use super::context::{Ctx, Keyspace};
use super::positions::{Effect, MERGES, Sources, key_specs, report_positions};
use super::string::{Argv, RawArgv};

/// A command: its registration, and its documentation in COMMAND DOCS.
pub struct Command {
    /// The name, in lower case.
    pub name: &'static CStr,
    /// The entry point and the arity.
    pub entry: Entry,
    /// What the command does to its first key.
    pub effect: Effect,
    /// The source keys after the first key. The command only reads them.
    pub sources: Sources,
    /// Whether the command's time is independent of the size of the value.
    pub fast: bool,
    /// The summary, one line.
    pub summary: &'static CStr,
    /// The time complexity in big-O notation.
    pub complexity: &'static CStr,
    /// The version of the module that introduced the command.
    pub since: &'static CStr,
    /// The arguments after the keys.
    pub args: &'static [Arg],
}

impl Command {
    /// Returns a fast command that reads its key.
    pub const fn reads(name: &'static CStr, entry: Entry) -> Self {
        Self {
            name,
            entry,
            effect: Effect::Reads,
            sources: Sources::None,
            fast: true,
            summary: c"",
            complexity: c"O(1)",
            since: c"3.0.0",
            args: &[],
        }
    }

    /// Returns a fast command that reads its key, and may keep a cache for later reads in the value: its memory grows.
    pub const fn caches(name: &'static CStr, entry: Entry) -> Self {
        Self::reads(name, entry)
    }

    /// Returns a fast command that adds to its key.
    pub const fn adds(name: &'static CStr, entry: Entry) -> Self {
        Self {
            effect: Effect::Adds,
            ..Self::reads(name, entry)
        }
    }

    /// Returns a fast command that updates its key.
    pub const fn updates(name: &'static CStr, entry: Entry) -> Self {
        Self {
            effect: Effect::Updates,
            ..Self::reads(name, entry)
        }
    }

    /// Returns a command that updates its key from numbered sources. Its entry point [finds keys](Entry::finds_keys).
    pub const fn merges(name: &'static CStr, entry: Entry) -> Self {
        assert!(entry.finds_keys);
        Self {
            effect: MERGES,
            sources: Sources::Numbered,
            fast: false,
            ..Self::reads(name, entry)
        }
    }

    /// Returns a fast command that removes from its key.
    pub const fn removes(name: &'static CStr, entry: Entry) -> Self {
        Self {
            effect: Effect::Removes,
            ..Self::reads(name, entry)
        }
    }
}

/// Commands of one ACL category.
pub struct CommandGroup {
    /// The category.
    pub category: &'static CStr,
    /// The commands.
    pub commands: &'static [Command],
}

/// An argument in COMMAND DOCS.
pub struct Arg {
    /// The name.
    pub name: &'static CStr,
    /// The kind.
    pub kind: ArgKind,
    /// The keyword before the argument, or the argument itself if it is a keyword.
    pub token: Option<&'static CStr>,
    /// Whether the argument may be omitted.
    pub optional: bool,
    /// Whether the argument may be repeated.
    pub multiple: bool,
    /// The parts of a composed argument.
    pub parts: &'static [Arg],
}

/// Returns an argument that must be given.
pub const fn required(name: &'static CStr, kind: ArgKind) -> Arg {
    Arg {
        name,
        kind,
        token: None,
        optional: false,
        multiple: false,
        parts: &[],
    }
}

/// Returns an argument that follows a keyword.
pub const fn with_token(token: &'static CStr, name: &'static CStr, kind: ArgKind) -> Arg {
    Arg {
        token: Some(token),
        ..required(name, kind)
    }
}

/// Returns a keyword without a value.
pub const fn token(name: &'static CStr, word: &'static CStr) -> Arg {
    Arg {
        token: Some(word),
        ..required(name, ArgKind::Token)
    }
}

/// Returns an argument that may be omitted.
pub const fn optional(
    name: &'static CStr,
    kind: ArgKind,
    token: Option<&'static CStr>,
    parts: &'static [Arg],
) -> Arg {
    Arg {
        token,
        optional: true,
        parts,
        ..required(name, kind)
    }
}

/// The kind of an argument in COMMAND DOCS.
#[derive(Clone, Copy)]
pub enum ArgKind {
    /// Any bytes.
    Text,
    /// An integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A keyword without a value.
    Token,
    /// One of its parts.
    OneOf,
    /// All of its parts.
    Block,
}

/// A command's entry point and arity; [`entry!`] makes one from a handler.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Runs the command.
    pub run: EntryFn,
    /// The number of words, including the command's name. If negative, its absolute value is a minimum.
    pub arity: i32,
    /// Whether the entry point also reports the positions of a command's keys. Without that report, a cluster routes
    /// commands of modules by their first key alone.
    pub finds_keys: bool,
}

/// The function that the server calls to run a command.
pub type EntryFn = for<'a> extern "C" fn(Ctx<'a>, RawArgv<'a>, c_int) -> c_int;

/// A call of a command, passed to its handler.
pub struct Call<'c, 'a> {
    /// The context.
    pub ctx: Ctx<'a>,
    /// The keyspace, held exclusively during the call.
    pub keys: &'c mut Keyspace<'a>,
    /// The words, beginning with the command's name; their number matches the arity.
    pub args: Argv<'a>,
}

/// An error that a handler may return.
pub trait Failure {
    /// Replies with the error.
    fn reply(self, ctx: Ctx);
}

/// Makes the [`Entry`] of a command with this arity from its handler, which takes a [`Call`] and returns
/// `Result<(), impl Failure>`. With `numbered`, the command has a first key and numbered sources.
macro_rules! entry {
    ($handler:path, $arity:expr) => {
        $crate::ffi::entry!($handler, $arity, enter, false)
    };
    (numbered $handler:path, $arity:expr) => {
        $crate::ffi::entry!($handler, $arity, enter_numbered, true)
    };
    ($handler:path, $arity:expr, $enter:ident, $finds_keys:expr) => {{
        extern "C" fn run<'a>(
            ctx: $crate::ffi::Ctx<'a>,
            words: $crate::ffi::RawArgv<'a>,
            count: ::std::ffi::c_int,
        ) -> ::std::ffi::c_int {
            $crate::ffi::$enter(ctx, words, count, $arity, $handler)
        }
        $crate::ffi::Entry {
            run,
            arity: $arity,
            finds_keys: $finds_keys,
        }
    }};
}
pub(crate) use entry;

/// Runs a handler. This is the body of every entry point; only code generated by [`entry!`] calls it.
///
/// It checks the number of words, because a server that loads an AOF does not.
#[inline(always)]
pub fn enter<'a, E: Failure>(
    ctx: Ctx<'a>,
    words: RawArgv<'a>,
    count: c_int,
    arity: i32,
    handler: impl Fn(Call<'_, 'a>) -> Result<(), E>,
) -> c_int {
    if count != arity && (arity >= 0 || count < -arity) {
        ctx.reply_wrong_arity();
        return OK;
    }
    // SAFETY: an entry point passes on the words that the server gave it, which include at least the command's name.
    let args = unsafe { Argv::new(words, count) };
    // SAFETY: the server calls an entry point once for each command, and this function is the entire call.
    let mut keyspace = unsafe { Keyspace::new(ctx) };
    let keys = &mut keyspace;
    if let Err(error) = handler(Call { ctx, keys, args }) {
        error.reply(ctx);
    }
    OK
}

/// Runs a handler as [`enter`] does, or reports the keys of a command with numbered sources if the server requests
/// them, perhaps on another thread.
pub fn enter_numbered<'a, E: Failure>(
    ctx: Ctx<'a>,
    words: RawArgv<'a>,
    count: c_int,
    arity: i32,
    handler: impl Fn(Call<'_, 'a>) -> Result<(), E>,
) -> c_int {
    // SAFETY: the context is alive.
    if unsafe { call!(RedisModule_IsKeysPositionRequest(ctx.as_ptr())) } == 0 {
        return enter(ctx, words, count, arity, handler);
    }
    if count >= -arity {
        // SAFETY: an entry point passes on the words that the server gave it, which include at least the command's name.
        report_positions(ctx, unsafe { Argv::new(words, count) });
    }
    OK
}

/// Registers commands and their ACL category, while the module loads.
pub(super) fn register(ctx: Ctx, group: &CommandGroup) -> Result<(), String> {
    let category = group.category;
    // SAFETY: the context is alive; the server copies the category's name.
    let added =
        unsafe { raw::RedisModule_AddACLCategory.map(|add| add(ctx.as_ptr(), category.as_ptr())) };
    let category = if added == Some(OK) { category } else { c"" };
    for command in group.commands {
        let refused = || format!("the server refused the command {:?}", command.name);
        let handle = create(ctx, command).ok_or_else(refused)?;
        categorize(handle, command, category)
            .and_then(|()| describe(handle, command))
            .map_err(|Refused| refused())?;
    }
    Ok(())
}

/// The server refused a registration.
struct Refused;

/// A command in the server's table.
#[derive(Clone, Copy)]
struct Handle(ptr::NonNull<raw::RedisModuleCommand>);

fn create(ctx: Ctx, command: &Command) -> Option<Handle> {
    let flags = match (command.effect, command.fast) {
        _ if command.entry.finds_keys => c"write deny-oom getkeys-api",
        (Effect::Reads, true) => c"readonly fast",
        (Effect::Reads, false) => c"readonly",
        (Effect::Removes, true) => c"write fast",
        (Effect::Removes, false) => c"write",
        (_, true) => c"write deny-oom fast",
        (_, false) => c"write deny-oom",
    };
    let name = command.name.as_ptr();
    let last_key = if command.sources == Sources::Rest {
        -1
    } else {
        1
    };
    // SAFETY: the context is alive; the server copies name and flags. The entry point's type differs from
    // the server's only in transparent wrappers around the same pointers.
    unsafe {
        let entry = std::mem::transmute::<EntryFn, raw::RedisModuleCmdFunc>(command.entry.run);
        let status = call!(RedisModule_CreateCommand(
            ctx.as_ptr(),
            name,
            entry,
            flags.as_ptr(),
            1,
            last_key,
            1
        ));
        if status != OK {
            return None;
        }
        ptr::NonNull::new(call!(RedisModule_GetCommand(ctx.as_ptr(), name))).map(Handle)
    }
}

/// Puts a command into ACL categories of the server and the module's own one, if the server supports this.
fn categorize(handle: Handle, command: &Command, own: &CStr) -> Result<(), Refused> {
    // SAFETY: nobody writes to the API's table once it is filled.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandACLCategories }) else {
        return Ok(());
    };
    let access = match command.effect {
        Effect::Reads => "read",
        _ => "write",
    };
    let speed = if command.fast { "fast" } else { "slow" };
    let categories = format!("{access} {speed} {}", own.to_string_lossy());
    let categories = CString::new(categories.trim_end()).unwrap_or_default();
    // SAFETY: the handle is a command of this module; the server copies the text.
    let status = unsafe { set(handle.0.as_ptr(), categories.as_ptr()) };
    if status == OK { Ok(()) } else { Err(Refused) }
}

/// Registers a command's entries in COMMAND DOCS and COMMAND INFO, if the server supports this.
fn describe(handle: Handle, command: &Command) -> Result<(), Refused> {
    // SAFETY: nobody writes to the API's table once it is filled.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandInfo }) else {
        return Ok(());
    };
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut keys = key_specs(command.effect, command.sources);
    // The structures of an argument's parts must outlive the call.
    let mut parts = Vec::new();
    let mut args = vec![key_argument(c"key", 0)];
    if command.sources == Sources::Numbered {
        args.push(argument(
            &required(c"numkeys", ArgKind::Integer),
            &mut parts,
        ));
    }
    if command.sources != Sources::None {
        let mut sources = key_argument(c"source", 1);
        sources.flags = raw::REDISMODULE_CMD_ARG_MULTIPLE as c_int;
        args.push(sources);
    }
    args.extend(command.args.iter().map(|arg| argument(arg, &mut parts)));
    args.push(end_of_arguments());
    let info = raw::RedisModuleCommandInfo {
        version: &raw const version,
        summary: command.summary.as_ptr(),
        complexity: command.complexity.as_ptr(),
        since: command.since.as_ptr(),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity: command.entry.arity,
        key_specs: keys.as_mut_ptr(),
        args: args.as_mut_ptr(),
    };
    // SAFETY: the handle is a command of this module. Everything that the structure points to is alive during
    // the call, and the server copies it; each list ends in its terminator.
    let status = unsafe { set(handle.0.as_ptr(), &raw const info) };
    if status == OK { Ok(()) } else { Err(Refused) }
}

/// Returns the terminator of a list of arguments, an argument without a name.
fn end_of_arguments() -> raw::RedisModuleCommandArg {
    // SAFETY: all zero is a valid value of this C structure: numbers and null pointers.
    unsafe { std::mem::zeroed() }
}

fn key_argument(name: &'static CStr, spec: c_int) -> raw::RedisModuleCommandArg {
    raw::RedisModuleCommandArg {
        name: name.as_ptr(),
        type_: raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
        key_spec_index: spec,
        ..end_of_arguments()
    }
}

/// Converts an argument for the server. The result points to its parts, which are stored in `parts`.
fn argument(
    arg: &Arg,
    parts: &mut Vec<Box<[raw::RedisModuleCommandArg]>>,
) -> raw::RedisModuleCommandArg {
    let mut flags = 0;
    if arg.optional {
        flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL as c_int;
    }
    if arg.multiple {
        flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE as c_int;
    }
    let mut made = raw::RedisModuleCommandArg {
        name: arg.name.as_ptr(),
        type_: match arg.kind {
            ArgKind::Text => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            ArgKind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            ArgKind::Double => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_DOUBLE,
            ArgKind::Token => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
            ArgKind::OneOf => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
            ArgKind::Block => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
        },
        key_spec_index: -1,
        token: arg.token.map_or(ptr::null(), CStr::as_ptr),
        flags,
        ..end_of_arguments()
    };
    if !arg.parts.is_empty() {
        let mut inner: Vec<_> = arg.parts.iter().map(|part| argument(part, parts)).collect();
        inner.push(end_of_arguments());
        let mut inner = inner.into_boxed_slice();
        made.subargs = inner.as_mut_ptr();
        parts.push(inner);
    }
    made
}
