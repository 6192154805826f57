//! Events of the server that concern whole databases or files.

use std::ffi::c_void;
use std::sync::OnceLock;

use valkey_module::raw;

use super::api::{accepted, call};
use super::context::{self, Ctx};

/// An event that concerns whole databases.
#[derive(Clone, Copy)]
pub enum DatabaseEvent {
    /// A database is about to be emptied, or all databases if `None`.
    Flush(Option<i32>),
    /// Two databases were swapped.
    Swap(i32, i32),
    /// A full resync begins to load data beside the served data.
    SideLoadStarted,
    /// The full resync was aborted.
    SideLoadAborted,
    /// The data of the full resync has replaced the served data.
    SideLoadCompleted,
    /// A file, a log or a full resync has been read, or reading it failed.
    Loaded,
}

/// Handles an event.
pub type OnDatabase = fn(DatabaseEvent);

static HANDLER: OnceLock<OnDatabase> = OnceLock::new();

/// Valkey's event of atomic slot migrations, which the bindings do not name. In Redis the number has another meaning.
const SLOT_MIGRATION: u64 = 19;
const IMPORT_STARTED: u64 = 0;
const IMPORT_ABORTED: u64 = 2;
const IMPORT_COMPLETED: u64 = 4;

/// Has the server call `handler` for every [`DatabaseEvent`]. `migrates_slots` is set for servers with atomic slot
/// migrations, whose imports are noted.
pub(super) fn subscribe(ctx: Ctx, handler: OnDatabase, migrates_slots: bool) -> Result<(), String> {
    HANDLER.get_or_init(|| handler);
    let ids = [
        raw::REDISMODULE_EVENT_FLUSHDB,
        raw::REDISMODULE_EVENT_SWAPDB,
        raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
        raw::REDISMODULE_EVENT_LOADING,
    ];
    let migration = migrates_slots.then_some(SLOT_MIGRATION);
    for id in ids.into_iter().chain(migration) {
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
    data: *mut c_void,
) {
    let event = match (event.id, subevent) {
        (raw::REDISMODULE_EVENT_FLUSHDB, raw::REDISMODULE_SUBEVENT_FLUSHDB_START) => {
            // SAFETY: with this event the server passes this structure, alive during the call.
            let info = unsafe { &*data.cast::<raw::RedisModuleFlushInfo>() };
            DatabaseEvent::Flush((info.dbnum >= 0).then_some(info.dbnum))
        }
        (raw::REDISMODULE_EVENT_SWAPDB, _) => {
            // SAFETY: with this event the server passes this structure, alive during the call.
            let info = unsafe { &*data.cast::<raw::RedisModuleSwapDbInfo>() };
            DatabaseEvent::Swap(info.dbnum_first, info.dbnum_second)
        }
        (
            raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED,
        ) => DatabaseEvent::SideLoadStarted,
        (
            raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_ABORTED,
        ) => DatabaseEvent::SideLoadAborted,
        (
            raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED,
        ) => DatabaseEvent::SideLoadCompleted,
        (
            raw::REDISMODULE_EVENT_LOADING,
            raw::REDISMODULE_SUBEVENT_LOADING_ENDED | raw::REDISMODULE_SUBEVENT_LOADING_FAILED,
        ) => DatabaseEvent::Loaded,
        (SLOT_MIGRATION, IMPORT_STARTED) => return context::import_started(),
        (SLOT_MIGRATION, IMPORT_ABORTED | IMPORT_COMPLETED) => return context::import_ended(),
        _ => return,
    };
    if let Some(handler) = HANDLER.get() {
        handler(event);
    }
}
