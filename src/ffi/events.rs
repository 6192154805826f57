//! Events of the server: loads that end, and imports of slots.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use valkey_module::raw;

use super::api::{accepted, call};
use super::context::Ctx;
use super::server::IMPORTS;

/// Called before a file, a log or a full resync is read.
static ON_LOADING: OnceLock<fn()> = OnceLock::new();
/// Called when a file, a log or a full resync has been read, or reading it failed.
static ON_LOADED: OnceLock<fn()> = OnceLock::new();

/// Valkey's event of atomic slot migrations, which the bindings do not name. In Redis the number has another meaning.
const SLOT_MIGRATION: u64 = 19;
const IMPORT_STARTED: u64 = 0;
const IMPORT_ABORTED: u64 = 2;
const IMPORT_COMPLETED: u64 = 4;

/// Has the server call `on_loading` before it loads data, and `on_loaded` after that. `migrates_slots` is set for servers
/// with atomic slot migrations, whose imports are noted.
pub(super) fn subscribe(
    ctx: Ctx,
    on_loading: fn(),
    on_loaded: fn(),
    migrates_slots: bool,
) -> Result<(), String> {
    ON_LOADING.get_or_init(|| on_loading);
    ON_LOADED.get_or_init(|| on_loaded);
    let migration = migrates_slots.then_some(SLOT_MIGRATION);
    let loading = [raw::REDISMODULE_EVENT_LOADING];
    for id in loading.into_iter().chain(migration) {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        let callback = Some(on_server_event as _);
        // SAFETY: the context is alive, and the callback lives as long as the module.
        let status = unsafe {
            call!(RedisModule_SubscribeToServerEvent(
                ctx.as_ptr(),
                event,
                callback
            ))
        };
        // A server without slot migrations refuses their event, and needs none.
        if id != SLOT_MIGRATION {
            accepted(status, "a server event")?;
        }
    }
    Ok(())
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
            // The module may have been loaded after it began.
            let has_any = IMPORTS.load(Relaxed) > 0;
            IMPORTS.fetch_sub(u32::from(has_any), Relaxed);
        }
        _ => {}
    }
}
