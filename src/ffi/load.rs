//! Loading the module: from the server's first call to everything registered.

use std::ffi::{CStr, c_int};

use valkey_module::raw;

use super::api::{ERR, OK, Optional, call};
use super::command::CommandGroup;
use super::context::Ctx;
use super::events::OnDatabase;
use super::info::WriteInfo;
use super::setting::Registration;
use super::string::{Argv, RawArgv};
use super::{allocator, api, command, context, events, info, setting};

/// What the module is made of.
pub struct Module {
    /// The name.
    pub name: &'static CStr,
    /// The version, as MODULE LIST shows it.
    pub version: i32,
    /// Takes the arguments behind the module's path, and returns the settings to register.
    pub configure: Configure,
    /// Called when the server has applied its config file.
    pub on_configured: fn(),
    /// Its types and commands.
    pub bundles: &'static [Bundle],
    /// Writes the INFO sections.
    pub write_info: WriteInfo,
    /// Called when something happens to databases.
    pub on_database: OnDatabase,
}

/// Types and commands that belong together.
pub struct Bundle {
    /// Registers the types.
    pub register_types: fn(Ctx, yields: bool) -> Result<(), String>,
    /// The commands, by ACL category.
    pub groups: &'static [CommandGroup],
    /// Whether types and commands that another module has are left to that module.
    pub yields: bool,
}

/// Takes the arguments behind the module's path, and returns the settings to register.
pub type Configure = fn(&[&[u8]]) -> Result<Vec<Registration>, String>;

/// Defines the function that the server calls to load the module, `RedisModule_OnLoad`, for a [`Module`].
macro_rules! on_load {
    ($module:expr) => {
        #[allow(unsafe_code, reason = "the server finds the function by this name")]
        #[unsafe(no_mangle)]
        extern "C" fn RedisModule_OnLoad(
            ctx: $crate::ffi::Ctx,
            words: $crate::ffi::RawArgv,
            count: ::std::ffi::c_int,
        ) -> ::std::ffi::c_int {
            $crate::ffi::load_module(&$module, ctx, words, count)
        }
    };
}
pub(crate) use on_load;

/// The body of `RedisModule_OnLoad`. Only what [`on_load!`] generates calls it.
pub fn load_module(module: &Module, ctx: Ctx, words: RawArgv, count: c_int) -> c_int {
    // SAFETY: the context is alive. This fills the API's table before any other code of the module runs,
    // so nobody reads an entry at the same time.
    let status = unsafe {
        raw::Export_RedisModule_Init(
            ctx.as_ptr(),
            module.name.as_ptr(),
            module.version,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    if status != OK || !api::has_required() {
        return ERR;
    }
    allocator::TRY_CALLOC.look_up();
    context::MUST_OBEY.look_up();
    VALKEYS_OPTIONS.look_up();
    std::panic::set_hook(Box::new(|panic| Ctx::log_warning(&panic.to_string())));
    let args = if count == 0 {
        Argv::NONE
    } else {
        // SAFETY: `RedisModule_OnLoad` passes on what the server called it with.
        unsafe { Argv::new(words, count) }
    };
    match register(module, ctx, args) {
        Ok(()) => OK,
        Err(what) => {
            Ctx::log_warning(&format!("{:?} not loaded: {what}", module.name));
            // SAFETY: `set_info_alias` alone takes a copy, and drops it before it returns.
            unsafe { context::free_detached() };
            ERR
        }
    }
}

fn register(module: &Module, ctx: Ctx, args: Argv) -> Result<(), String> {
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    let options = options as c_int | valkeys_options();
    // SAFETY: the context is alive.
    unsafe { call!(RedisModule_SetModuleOptions(ctx.as_ptr(), options)) };
    context::make_detached(ctx);
    for bundle in module.bundles {
        (bundle.register_types)(ctx, bundle.yields)?;
    }
    for bundle in module.bundles {
        for group in bundle.groups {
            match command::register(ctx, group) {
                Err(why) if bundle.yields => {
                    Ctx::log_warning(&format!("left to another module: {why}"));
                }
                done => done?,
            }
        }
    }
    let words: Vec<&[u8]> = (0..args.len()).map(|i| args.string(i).bytes()).collect();
    for registration in (module.configure)(&words)? {
        setting::register(ctx, &registration)?;
    }
    setting::apply_config_file(ctx)?;
    // Last: Redis 7.0 goes on calling these of a module that failed to load and is gone.
    info::register(ctx, module.write_info)?;
    events::subscribe(ctx, module.on_database)?;
    (module.on_configured)();
    Ok(())
}

/// Valkey 9.0: atomic slot migration may move the module's data. It does so by commands.
const HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
/// Valkey 9.2: a save without a fork may call `rdb_save` on another thread, and a key that is being saved can't be
/// opened for writing. While any module lacks this, such a server forks.
const HANDLE_FORKLESS_SAVE: c_int = 1 << 6;

/// Tells which options the server knows. By this name Valkey alone exports it; to Redis the bits above may come
/// to mean something else.
static VALKEYS_OPTIONS: Optional = Optional::new(c"ValkeyModule_GetModuleOptionsAll");

/// Those of Valkey's own options that the server knows.
fn valkeys_options() -> c_int {
    let Some(function) = VALKEYS_OPTIONS.get() else {
        return 0;
    };
    // SAFETY: the server exports a function of this type as ValkeyModule_GetModuleOptionsAll.
    let known: extern "C" fn() -> c_int = unsafe { std::mem::transmute(function) };
    known() & (HANDLE_ATOMIC_SLOT_MIGRATION | HANDLE_FORKLESS_SAVE)
}
