//! Events of the server: loads that begin or end, and imports of slots.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use valkey_module::raw;

use super::api::{accepted, call};
use super::context::Ctx;

/// Called before a file, a log or a full resync is read.
static ON_LOADING: OnceLock<fn()> = OnceLock::new();
/// Called when a file, a log or a full resync has been read, or reading it failed.
static ON_LOADED: OnceLock<fn()> = OnceLock::new();

/// The number of atomic slot migrations that bring keys to this node now.
static IMPORTS: AtomicU32 = AtomicU32::new(0);

/// Valkey's event of atomic slot migrations, which the bindings do not name. In Redis the number has another meaning.
const SLOT_MIGRATION: u64 = 19;
const IMPORT_STARTED: u64 = 0;
const IMPORT_ABORTED: u64 = 2;
const IMPORT_COMPLETED: u64 = 4;

/// Has the server call `on_loading` before it loads data, and `on_loaded` after that.
pub(super) fn observe_loads(ctx: Ctx, on_loading: fn(), on_loaded: fn()) -> Result<(), String> {
    ON_LOADING.get_or_init(|| on_loading);
    ON_LOADED.get_or_init(|| on_loaded);
    subscribe(ctx, raw::REDISMODULE_EVENT_LOADING, "the event of loads")
}

/// Has imports of slots counted. A server may have atomic slot migrations, and lack their event.
pub(super) fn count_imports(ctx: Ctx) -> Result<(), String> {
    subscribe(ctx, SLOT_MIGRATION, "the event of atomic slot migrations")
}

/// Returns whether an atomic slot migration brings keys to this node now, as far as the server reports it.
pub(super) fn is_importing() -> bool {
    IMPORTS.load(Relaxed) > 0
}

/// Has the server call [`on_server_event`] for an event; `what` names it in the error.
fn subscribe(ctx: Ctx, id: u64, what: &str) -> Result<(), String> {
    let event = raw::RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the context is alive, and the callback lives as long as the module.
    let status = unsafe {
        call!(RedisModule_SubscribeToServerEvent(
            ctx.as_ptr(),
            event,
            Some(on_server_event)
        ))
    };
    accepted(status, what)
}

unsafe extern "C" fn on_server_event(
    _: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    match (event.id, subevent) {
        (raw::REDISMODULE_EVENT_LOADING, subevent) => {
            let has_ended = matches!(
                subevent,
                raw::REDISMODULE_SUBEVENT_LOADING_ENDED | raw::REDISMODULE_SUBEVENT_LOADING_FAILED
            );
            let handler = if has_ended { &ON_LOADED } else { &ON_LOADING };
            if let Some(handler) = handler.get() {
                handler();
            }
        }
        (SLOT_MIGRATION, IMPORT_STARTED) => {
            IMPORTS.fetch_add(1, Relaxed);
        }
        (SLOT_MIGRATION, IMPORT_ABORTED | IMPORT_COMPLETED) => {
            // An import that began before the module was loaded is not counted. If another one began since then, the end of
            // the first makes the rest of the other count as a client's.
            let imports = IMPORTS.load(Relaxed);
            IMPORTS.store(imports.saturating_sub(1), Relaxed);
        }
        _ => {}
    }
}
