//! Registration of commands, with their categories and documentation.

use std::ffi::{CStr, CString, c_int};
use std::io::{Error, ErrorKind};
use std::ptr::{self, NonNull};

use valkey_module::raw;

use super::api::{OK, call};
use super::command::{Arg, Command, EntryFn};
use super::context::Ctx;
use super::positions::{Effect, Sources, key_specs};
use super::string::new_string;

/// Requires that the server has none of the commands yet.
pub(super) fn require_vacant(ctx: Ctx, commands: &[Command]) -> Result<(), String> {
    let mut names = commands.iter().map(|command| command.name);
    match names.find(|name| exists(ctx, name)) {
        Some(name) => Err(format!("the server has the command {name:?}")),
        None => Ok(()),
    }
}

/// Returns whether the server has a command of this name, its own or a module's.
fn exists(ctx: Ctx, name: &CStr) -> bool {
    let (mut word, mut count) = (new_string(name.to_bytes()), 0);
    // SAFETY: the context is alive; the server reads one word and writes one number. Word and positions are freed once.
    unsafe {
        let positions = call!(RedisModule_GetCommandKeys(
            ctx.as_ptr(),
            &raw mut word,
            1,
            &raw mut count
        ));
        // For a command without positions, errno has another value.
        let is_unknown =
            positions.is_null() && Error::last_os_error().kind() == ErrorKind::NotFound;
        call!(RedisModule_Free(positions.cast()));
        call!(RedisModule_FreeString(ptr::null_mut(), word));
        !is_unknown
    }
}

/// Registers commands and their ACL category, while the module loads.
pub(super) fn register(ctx: Ctx, category: &str, commands: &[Command]) -> Result<(), String> {
    let name = c_text(category);
    // SAFETY: the context is alive; the server copies the category's name.
    let added =
        unsafe { raw::RedisModule_AddACLCategory.map(|add| add(ctx.as_ptr(), name.as_ptr())) };
    // A server without categories of modules has the commands in its own.
    let category = if added == Some(OK) { category } else { "" };
    for command in commands {
        let handle = create(ctx, command);
        let is_done = handle.is_some_and(|handle| {
            categorize(handle, command, category) && describe(handle, command)
        });
        if !is_done {
            return Err(format!("the server refused the command {:?}", command.name));
        }
    }
    Ok(())
}

fn c_text(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).expect("the module's texts have no zero byte")
}

/// A command in the server's table.
type Handle = NonNull<raw::RedisModuleCommand>;

fn create(ctx: Ctx, command: &Command) -> Option<Handle> {
    let access = match command.effect {
        Effect::Reads => "readonly",
        Effect::Removes => "write",
        _ => "write deny-oom",
    };
    let fast = if command.fast { " fast" } else { "" };
    let sources = command.entry.sources;
    let reports = if sources.are_reported() {
        " getkeys-api"
    } else {
        ""
    };
    let flags = c_text(format!("{access}{fast}{reports}"));
    let name = command.name.as_ptr();
    let last_key = match sources {
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
    let categories = c_text(format!("{access} {speed} {own}").trim_end());
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
    let sources = command.entry.sources;
    let mut keys = key_specs(command.effect, sources);
    // The structures of an argument's parts must outlive the call.
    let mut parts = Vec::new();
    let mut args = vec![key_argument(c"key", 0)];
    if sources == Sources::Numbered {
        args.push(argument(&Arg::integer(c"numkeys"), &mut parts));
    }
    if matches!(sources, Sources::Rest | Sources::Numbered) {
        let mut source = key_argument(c"source", 1);
        source.flags = raw::REDISMODULE_CMD_ARG_MULTIPLE as c_int;
        args.push(source);
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
    parts: &mut Vec<Vec<raw::RedisModuleCommandArg>>,
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
        made.subargs = inner.as_mut_ptr();
        parts.push(inner);
    }
    made
}
