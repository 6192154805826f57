//! Commands: their entry points, registration and documentation.

use std::ffi::{CStr, CString, c_int};
use std::ptr::{self, NonNull};

use valkey_module::raw;
use valkeybloom_protocol::error::Error;

use super::api::{OK, call};
use super::context::{Ctx, Keyspace};
use super::positions::{Effect, MERGES, Sources, key_specs};
use super::reply::Reply;
use super::string::{Argv, RawArgv};

/// A command: its registration, and its documentation in COMMAND DOCS.
pub struct Command {
    name: &'static CStr,
    entry: Entry,
    effect: Effect,
    sources: Sources,
    fast: bool,
    tips: Option<&'static CStr>,
    summary: &'static CStr,
    complexity: &'static CStr,
    args: &'static [Arg],
}

impl Command {
    /// The version of the module that introduced all commands.
    const SINCE: &'static CStr = c"3.0.0";

    const fn new(name: &'static CStr, entry: Entry, effect: Effect) -> Self {
        Self {
            name,
            entry,
            effect,
            sources: Sources::None,
            fast: true,
            tips: None,
            summary: c"",
            complexity: c"O(1)",
            args: &[],
        }
    }

    /// Returns a command that reads its key.
    pub const fn reads(name: &'static CStr, entry: Entry) -> Self {
        Self::new(name, entry, Effect::Reads)
    }

    /// Returns a command that adds to its key.
    pub const fn adds(name: &'static CStr, entry: Entry) -> Self {
        Self::new(name, entry, Effect::Adds)
    }

    /// Returns a command that updates its key.
    pub const fn updates(name: &'static CStr, entry: Entry) -> Self {
        Self::new(name, entry, Effect::Updates)
    }

    /// Returns a command that updates its key, and returns or uses what it held.
    pub const fn reads_and_updates(name: &'static CStr, entry: Entry) -> Self {
        Self::new(name, entry, Effect::ReadsAndUpdates)
    }

    /// Returns a command that removes from its key.
    pub const fn removes(name: &'static CStr, entry: Entry) -> Self {
        Self::new(name, entry, Effect::Removes)
    }

    /// Returns a command that updates its key from numbered sources. Its entry point [finds keys](Entry::finds_keys).
    pub const fn merges(name: &'static CStr, entry: Entry) -> Self {
        assert!(entry.finds_keys);
        Self::new(name, entry, MERGES)
            .sources(Sources::Numbered)
            .slow()
    }

    /// Returns the part of the name before the dot, in capitals: `BF` of `bf.add`.
    pub fn prefix(&self) -> String {
        let name = self.name.to_string_lossy();
        let prefix = name.split('.').next().unwrap_or_default();
        prefix.to_ascii_uppercase()
    }

    /// Sets the keys besides the first one.
    pub const fn sources(mut self, sources: Sources) -> Self {
        self.sources = sources;
        self
    }

    /// Declares that the command's time depends on the size of the value.
    pub const fn slow(mut self) -> Self {
        self.fast = false;
        self
    }

    /// Advises clients not to cache replies, because a reply is large, or may change while the key does not.
    pub const fn uncached(mut self) -> Self {
        self.tips = Some(c"dont_cache");
        self
    }

    /// Sets the summary, one line.
    pub const fn summary(mut self, summary: &'static CStr) -> Self {
        self.summary = summary;
        self
    }

    /// Sets the time complexity in big-O notation, if it is not constant.
    pub const fn complexity(mut self, complexity: &'static CStr) -> Self {
        self.complexity = complexity;
        self
    }

    /// Sets the arguments after the keys.
    pub const fn args(mut self, args: &'static [Arg]) -> Self {
        self.args = args;
        self
    }
}

/// An argument in COMMAND DOCS.
#[derive(Clone, Copy)]
pub struct Arg {
    name: &'static CStr,
    kind: raw::RedisModuleCommandArgType,
    token: Option<&'static CStr>,
    /// The index of its specification, if it is a key.
    key_spec: c_int,
    flags: u32,
    parts: &'static [Arg],
}

impl Arg {
    const fn new(
        name: &'static CStr,
        kind: raw::RedisModuleCommandArgType,
        parts: &'static [Self],
    ) -> Self {
        Self {
            name,
            kind,
            token: None,
            key_spec: -1,
            flags: 0,
            parts,
        }
    }

    /// Returns an argument of any bytes.
    pub const fn text(name: &'static CStr) -> Self {
        let kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING;
        Self::new(name, kind, &[])
    }

    /// Returns the key of [`Sources::After`].
    pub const fn key(name: &'static CStr) -> Self {
        let kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY;
        let mut key = Self::new(name, kind, &[]);
        key.key_spec = 1;
        key
    }

    /// Returns an integer.
    pub const fn integer(name: &'static CStr) -> Self {
        let kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER;
        Self::new(name, kind, &[])
    }

    /// Returns a floating-point number.
    pub const fn double(name: &'static CStr) -> Self {
        let kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_DOUBLE;
        Self::new(name, kind, &[])
    }

    /// Returns a keyword without a value.
    pub const fn keyword(name: &'static CStr, word: &'static CStr) -> Self {
        let kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN;
        Self::new(name, kind, &[]).after(word)
    }

    /// Returns one of these parts.
    pub const fn one_of(name: &'static CStr, parts: &'static [Self]) -> Self {
        let kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF;
        Self::new(name, kind, parts)
    }

    /// Returns all of these parts.
    pub const fn block(name: &'static CStr, parts: &'static [Self]) -> Self {
        let kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK;
        Self::new(name, kind, parts)
    }

    /// Puts a keyword before the argument.
    pub const fn after(mut self, keyword: &'static CStr) -> Self {
        self.token = Some(keyword);
        self
    }

    /// Allows leaving the argument out.
    pub const fn optional(mut self) -> Self {
        self.flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL;
        self
    }

    /// Allows repeating the argument.
    pub const fn repeated(mut self) -> Self {
        self.flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE;
        self
    }
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

/// The result of a command: its reply, or the error that is its reply.
pub type Done = Result<Reply, Error>;

/// Makes the [`Entry`] of a command with this arity from its handler, which takes a [`Call`] and returns [`Done`].
/// With `numbered`, the command has a first key and numbered sources. With `finding`, it has a first key to add to, and a
/// function returns the place of another key after an option.
macro_rules! entry {
    (entering $arity:expr, $finds_keys:expr, |$ctx:ident, $words:ident, $count:ident| $body:expr) => {{
        extern "C" fn run<'a>(
            $ctx: $crate::ffi::Ctx<'a>,
            $words: $crate::ffi::RawArgv<'a>,
            $count: ::std::ffi::c_int,
        ) -> ::std::ffi::c_int {
            $body
        }
        $crate::ffi::Entry {
            run,
            arity: $arity,
            finds_keys: $finds_keys,
        }
    }};
    (numbered $handler:path, $arity:expr) => {
        $crate::ffi::entry!(entering $arity, true, |ctx, words, count| {
            let report = $crate::ffi::report_numbered;
            $crate::ffi::enter_or_report(ctx, words, count, $arity, report, $handler)
        })
    };
    (finding $find:path, $handler:path, $arity:expr) => {
        $crate::ffi::entry!(entering $arity, true, |ctx, words, count| {
            let report = |ctx, args| $crate::ffi::report_option(ctx, args, $find);
            $crate::ffi::enter_or_report(ctx, words, count, $arity, report, $handler)
        })
    };
    ($handler:path, $arity:expr) => {
        $crate::ffi::entry!(entering $arity, false, |ctx, words, count| $crate::ffi::enter(
            ctx, words, count, $arity, $handler
        ))
    };
}
pub(crate) use entry;

/// Runs a handler. This is the body of every entry point; only code generated by [`entry!`] calls it.
///
/// It checks the number of words, because a server that loads an AOF does not.
#[inline(always)]
pub fn enter<'a>(
    ctx: Ctx<'a>,
    words: RawArgv<'a>,
    count: c_int,
    arity: i32,
    handler: impl Fn(Call<'_, 'a>) -> Done,
) -> c_int {
    if count != arity && (arity >= 0 || count < -arity) {
        ctx.reply_error(Error::Arity);
        return OK;
    }
    // SAFETY: an entry point passes on the words that the server gave it, which include at least the command's name.
    let args = unsafe { Argv::new(words, count) };
    // SAFETY: the server calls an entry point once for each command, and this function is the entire call.
    let mut keyspace = unsafe { Keyspace::new(ctx) };
    let keys = &mut keyspace;
    match handler(Call { ctx, keys, args }) {
        Ok(reply) => reply.send(ctx),
        Err(error) => ctx.reply_error(error),
    }
    OK
}

/// Runs a handler as [`enter`] does, or reports the keys of the command if the server requests them, perhaps on another
/// thread.
#[inline(always)]
pub fn enter_or_report<'a>(
    ctx: Ctx<'a>,
    words: RawArgv<'a>,
    count: c_int,
    arity: i32,
    report: impl Fn(Ctx<'a>, Argv<'a>),
    handler: impl Fn(Call<'_, 'a>) -> Done,
) -> c_int {
    // SAFETY: the context is alive.
    if unsafe { call!(RedisModule_IsKeysPositionRequest(ctx.as_ptr())) } == 0 {
        return enter(ctx, words, count, arity, handler);
    }
    if count >= -arity {
        // SAFETY: an entry point passes on the words that the server gave it, which include at least the command's name.
        report(ctx, unsafe { Argv::new(words, count) });
    }
    OK
}

/// Registers commands and their ACL category, while the module loads.
pub(super) fn register(ctx: Ctx, category: &str, commands: &[Command]) -> Result<(), String> {
    let name = CString::new(category).unwrap_or_default();
    // SAFETY: the context is alive; the server copies the category's name.
    let added =
        unsafe { raw::RedisModule_AddACLCategory.map(|add| add(ctx.as_ptr(), name.as_ptr())) };
    let category = if added == Some(OK) { category } else { "" };
    let refused = commands.iter().find(|command| {
        let handle = create(ctx, command);
        !handle.is_some_and(|handle| {
            categorize(handle, command, category) && describe(handle, command)
        })
    });
    match refused {
        Some(command) => Err(format!("the server refused the command {:?}", command.name)),
        None => Ok(()),
    }
}

/// A command in the server's table.
type Handle = NonNull<raw::RedisModuleCommand>;

fn create(ctx: Ctx, command: &Command) -> Option<Handle> {
    let flags = match (command.effect, command.fast) {
        (_, true) if command.entry.finds_keys => c"write deny-oom fast getkeys-api",
        (_, false) if command.entry.finds_keys => c"write deny-oom getkeys-api",
        (Effect::Reads, true) => c"readonly fast",
        (Effect::Reads, false) => c"readonly",
        (Effect::Removes, true) => c"write fast",
        (Effect::Removes, false) => c"write",
        (_, true) => c"write deny-oom fast",
        (_, false) => c"write deny-oom",
    };
    let name = command.name.as_ptr();
    let last_key = match command.sources {
        Sources::Rest => -1,
        _ => 1,
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
        NonNull::new(call!(RedisModule_GetCommand(ctx.as_ptr(), name)))
    }
}

/// Puts a command into ACL categories of the server and the module's own one, if the server supports this. Returns
/// whether the server did not refuse.
fn categorize(handle: Handle, command: &Command, own: &str) -> bool {
    // SAFETY: nobody writes to the API's table once it is filled.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandACLCategories }) else {
        return true;
    };
    let access = match command.effect {
        Effect::Reads => "read",
        _ => "write",
    };
    let speed = if command.fast { "fast" } else { "slow" };
    let categories = format!("{access} {speed} {own}");
    let categories = CString::new(categories.trim_end()).unwrap_or_default();
    // SAFETY: the handle is a command of this module; the server copies the text.
    unsafe { set(handle.as_ptr(), categories.as_ptr()) == OK }
}

/// Registers a command's entries in COMMAND DOCS and COMMAND INFO, if the server supports this. Returns whether the
/// server did not refuse.
fn describe(handle: Handle, command: &Command) -> bool {
    // SAFETY: nobody writes to the API's table once it is filled.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandInfo }) else {
        return true;
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
        args.push(argument(&Arg::integer(c"numkeys"), &mut parts));
    }
    if matches!(command.sources, Sources::Rest | Sources::Numbered) {
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
        since: Command::SINCE.as_ptr(),
        history: ptr::null_mut(),
        tips: command.tips.map_or(ptr::null(), CStr::as_ptr),
        arity: command.entry.arity,
        key_specs: keys.as_mut_ptr(),
        args: args.as_mut_ptr(),
    };
    // SAFETY: the handle is a command of this module. Everything that the structure points to is alive during
    // the call, and the server copies it; each list ends in its terminator.
    unsafe { set(handle.as_ptr(), &raw const info) == OK }
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
    let mut made = raw::RedisModuleCommandArg {
        name: arg.name.as_ptr(),
        type_: arg.kind,
        key_spec_index: arg.key_spec,
        token: arg.token.map_or(ptr::null(), CStr::as_ptr),
        flags: arg.flags as c_int,
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
