//! Commands: their entry points and documentation.

use std::ffi::{CStr, c_int};

use valkey_module::raw;
use valkeybloom_protocol::error::Error;

use super::api::{OK, call};
use super::context::{Ctx, Keyspace};
use super::positions::{Effect, MERGES, Sources};
use super::reply::Reply;
use super::string::{Argv, RawArgc, RawArgv};

/// A command: its registration, and its documentation in COMMAND DOCS.
pub struct Command {
    pub(super) name: &'static CStr,
    pub(super) entry: Entry,
    pub(super) effect: Effect,
    pub(super) fast: bool,
    pub(super) tips: Option<&'static CStr>,
    pub(super) summary: &'static CStr,
    pub(super) complexity: &'static CStr,
    pub(super) args: &'static [Arg],
}

impl Command {
    /// The version of the module that introduced all commands.
    pub(super) const SINCE: &'static CStr = c"3.0.0";

    const fn new(name: &'static CStr, entry: Entry, effect: Effect) -> Self {
        Self {
            name,
            entry,
            effect,
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

    /// Returns a command that updates its key from numbered sources.
    pub const fn merges(name: &'static CStr, entry: Entry) -> Self {
        assert!(matches!(entry.sources, Sources::Numbered));
        Self::new(name, entry, MERGES).slow()
    }

    /// Returns the part of the name before the dot, in capitals: `BF` of `bf.add`.
    pub fn prefix(&self) -> String {
        let name = self.name.to_string_lossy();
        let prefix = name.split('.').next().unwrap_or_default();
        prefix.to_ascii_uppercase()
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
    pub(super) name: &'static CStr,
    pub(super) kind: raw::RedisModuleCommandArgType,
    pub(super) token: Option<&'static CStr>,
    /// The index of its specification, if it is a key.
    pub(super) key_spec: c_int,
    pub(super) flags: u32,
    pub(super) parts: &'static [Arg],
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

/// A command's entry point, with what follows from its words; [`entry!`] makes one from a handler.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Runs the command.
    pub run: EntryFn,
    /// The number of words, including the command's name. If negative, its absolute value is a minimum.
    pub arity: i32,
    /// The keys besides the first one. The entry point reports their positions if [only the words show
    /// them](Sources::are_reported).
    pub sources: Sources,
}

/// The function that the server calls to run a command.
pub type EntryFn = for<'a> extern "C" fn(Ctx<'a>, RawArgv<'a>, RawArgc) -> c_int;

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
/// Its keys besides the first one are `numbered`, or the `rest` of the words. With `after`, the command adds to its first key,
/// and a function returns the place of another key after an option.
macro_rules! entry {
    (entering $arity:expr, $sources:expr, |$ctx:ident, $words:ident, $count:ident| $body:expr) => {{
        extern "C" fn run<'a>(
            $ctx: $crate::ffi::Ctx<'a>,
            $words: $crate::ffi::RawArgv<'a>,
            $count: $crate::ffi::RawArgc,
        ) -> ::std::ffi::c_int {
            $body
        }
        $crate::ffi::Entry {
            run,
            arity: $arity,
            sources: $sources,
        }
    }};
    (numbered $handler:path, $arity:expr) => {
        $crate::ffi::entry!(entering $arity, $crate::ffi::Sources::Numbered, |ctx, words, count| {
            let report = $crate::ffi::report_numbered;
            $crate::ffi::enter_or_report(ctx, words, count, $arity, report, $handler)
        })
    };
    (after $option:literal by $find:path, $handler:path, $arity:expr) => {
        $crate::ffi::entry!(entering $arity, $crate::ffi::Sources::After($option), |ctx, words, count| {
            let report = |ctx, args| $crate::ffi::report_option(ctx, args, $find);
            $crate::ffi::enter_or_report(ctx, words, count, $arity, report, $handler)
        })
    };
    (rest $handler:path, $arity:expr) => {
        $crate::ffi::entry!(directly $handler, $arity, $crate::ffi::Sources::Rest)
    };
    (directly $handler:path, $arity:expr, $sources:expr) => {
        $crate::ffi::entry!(entering $arity, $sources, |ctx, words, count| $crate::ffi::enter(
            ctx, words, count, $arity, $handler
        ))
    };
    ($handler:path, $arity:expr) => {
        $crate::ffi::entry!(directly $handler, $arity, $crate::ffi::Sources::None)
    };
}
pub(crate) use entry;

/// Returns whether a command with this arity may have this number of words.
const fn accepts(arity: i32, count: c_int) -> bool {
    if arity < 0 {
        count >= -arity
    } else {
        count == arity
    }
}

/// Runs a handler. This is the body of every entry point; only code generated by [`entry!`] calls it.
///
/// It checks the number of words, because a server that loads an AOF does not.
#[inline(always)]
pub fn enter<'a>(
    ctx: Ctx<'a>,
    words: RawArgv<'a>,
    count: RawArgc,
    arity: i32,
    handler: impl Fn(Call<'_, 'a>) -> Done,
) -> c_int {
    if !accepts(arity, count.get()) {
        ctx.reply_error(Error::Arity);
        return OK;
    }
    // SAFETY: only the server makes words and their number, which include at least the command's name.
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
    count: RawArgc,
    arity: i32,
    report: impl Fn(Ctx<'a>, Argv<'a>),
    handler: impl Fn(Call<'_, 'a>) -> Done,
) -> c_int {
    // SAFETY: the context is alive.
    if unsafe { call!(RedisModule_IsKeysPositionRequest(ctx.as_ptr())) } == 0 {
        return enter(ctx, words, count, arity, handler);
    }
    if accepts(arity, count.get()) {
        // SAFETY: only the server makes words and their number, which include at least the command's name.
        report(ctx, unsafe { Argv::new(words, count) });
    }
    OK
}
