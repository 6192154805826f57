//! The server's module API behind safe types: all that crosses between it and Rust is here.
//!
//! This file knows nothing of Bloom filters. What is above it gives it a value type (a
//! [`NativeType`]), commands, settings and event handlers, and gets contexts, keys and streams.
//!
//! The API is a table of function pointers that the server fills while it loads the module, before
//! any other line of this file runs. A server that lacks a function leaves its pointer empty: what
//! is optional is asked for with [`optional`], and of what is needed every server from Redis 7.0 on
//! has all.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the API's lengths and enums are C ints of either sign; the values are small"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use valkey_module::raw;

use crate::bloom::codec::{DecodeError, RdbRead, RdbWrite};

const OK: c_int = raw::REDISMODULE_OK as c_int;
const ERR: c_int = raw::REDISMODULE_ERR as c_int;

/// A function of the API, inside an `unsafe` block: the table is written once, while the module
/// loads, and only read afterwards.
macro_rules! api {
    ($name:ident) => {{
        match raw::$name {
            Some(function) => function,
            None => missing(stringify!($name)),
        }
    }};
}

/// A call of the API: `call!(RedisModule_Name(arguments))`, inside an `unsafe` block that says why
/// the arguments are right.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => { (api!($name))($($argument),*) };
}

#[cold]
fn missing(name: &str) -> ! {
    panic!("this server's module API has no {name}")
}

/// A function that some servers have and the bindings do not name.
fn optional(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: as in `api!`.
    let get = unsafe { raw::RedisModule_GetApi }?;
    let mut function: *mut c_void = ptr::null_mut();
    // SAFETY: the name ends in a zero byte, and the server writes a pointer into `function`.
    let status = unsafe { get(name.as_ptr(), (&raw mut function).cast()) };
    if status == OK {
        NonNull::new(function)
    } else {
        None
    }
}

/// The server's allocator, so that its memory accounting, limits and defragmentation see every
/// byte. Outside a server (tests, programs that use the core) it is the system's.
pub struct ServerAllocator;

impl ServerAllocator {
    /// The API aligns as `malloc` does; a stricter layout is not asked for in this crate.
    const ALIGN_MAX: usize = 16;

    /// Below this many bytes a server that can't go on without them would not last anyway.
    const TRIAL_BYTES: usize = 1 << 20;

    fn in_server(layout: Layout) -> bool {
        // SAFETY: as in `api!`.
        let loaded = unsafe { raw::RedisModule_Free }.is_some();
        loaded && layout.align() <= Self::ALIGN_MAX
    }
}

// SAFETY: blocks come from the server's allocator or from the system's, and go back to the one that
// they came from: which one it is depends on the layout, and on whether the API's table is filled,
// which happens before the first allocation of a module and never in another program. Where the
// `Try` functions exist (optional in the API), the others abort instead of returning null.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::in_server(layout) {
            // SAFETY: the caller's promise is the same.
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: a size, and no pointer, is passed.
        unsafe {
            match raw::RedisModule_TryAlloc {
                Some(try_alloc) => try_alloc(layout.size()).cast(),
                None => call!(RedisModule_Alloc(layout.size())).cast(),
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !Self::in_server(layout) {
            // SAFETY: the caller's promise is the same.
            return unsafe { System.alloc_zeroed(layout) };
        }
        if let Some(function) = NonNull::new(TRY_CALLOC.load(Relaxed)) {
            // SAFETY: the pointer was given out by the server under this function's name.
            let try_calloc: extern "C" fn(usize, usize) -> *mut c_void =
                unsafe { std::mem::transmute(function) };
            return try_calloc(1, layout.size()).cast();
        }
        // Redis 7.0 has no such function, and ends where `Calloc` fails: whether there is that much
        // memory is tried first. Nothing is written to it, so the trial is cheap.
        // SAFETY: the trial's block is given back at once; otherwise sizes are passed.
        unsafe {
            if layout.size() > Self::TRIAL_BYTES {
                let trial = self.alloc(layout);
                if trial.is_null() {
                    return trial;
                }
                self.dealloc(trial, layout);
            }
            call!(RedisModule_Calloc(1, layout.size())).cast()
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if Self::in_server(layout) {
            // SAFETY: the block came from the server's allocator, see above.
            unsafe { call!(RedisModule_Free(block.cast())) }
        } else {
            // SAFETY: the block came from the system's allocator, see above.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Self::in_server(layout) {
            // SAFETY: the block came from the system's allocator, see above.
            return unsafe { System.realloc(block, layout, size) };
        }
        if size <= layout.size().max(Self::TRIAL_BYTES) {
            // SAFETY: the block came from the server's allocator, see above.
            return unsafe { call!(RedisModule_Realloc(block.cast(), size)).cast() };
        }
        // A server ends where `Realloc` fails, so what grows is moved.
        // SAFETY: the caller promises that the size, rounded up to the alignment, is one of a layout. The
        // new block is another one, and larger; the old one is given back once it is copied.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size());
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

#[global_allocator]
static ALLOCATOR: ServerAllocator = ServerAllocator;

static TRY_CALLOC: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static MUST_OBEY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// A context that lives as long as the module, for what has none of its own.
static MODULE: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(ptr::null_mut());

/// A string of the server's, valid as long as what it was taken from.
#[derive(Clone, Copy)]
pub struct Str<'a>(NonNull<raw::RedisModuleString>, PhantomData<&'a ()>);

impl<'a> Str<'a> {
    /// The bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        let mut length = 0;
        // SAFETY: the string is alive for 'a, and its bytes are not written while it is shared.
        unsafe {
            let bytes = call!(RedisModule_StringPtrLen(self.0.as_ptr(), &raw mut length));
            if bytes.is_null() {
                return &[];
            }
            std::slice::from_raw_parts(bytes.cast(), length)
        }
    }
}

/// A new string, owned by whoever is given the pointer.
fn new_string(bytes: &[u8]) -> *mut raw::RedisModuleString {
    // SAFETY: without a context the string belongs to the caller; the bytes are copied.
    unsafe {
        call!(RedisModule_CreateString(
            ptr::null_mut(),
            bytes.as_ptr().cast(),
            bytes.len()
        ))
    }
}

/// The arguments of a command, its name among them.
#[derive(Clone, Copy)]
pub struct Argv<'a> {
    first: *const *mut raw::RedisModuleString,
    count: usize,
    lifetime: PhantomData<&'a ()>,
}

impl<'a> Argv<'a> {
    /// How many there are, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The argument at an index.
    ///
    /// # Panics
    /// If there is none: the index comes from the program, never from a client.
    #[inline]
    pub fn string(&self, index: usize) -> Str<'a> {
        assert!(index < self.count, "argument {index} of {}", self.count);
        // SAFETY: the server gave `count` strings, none of them null, alive while the command runs.
        Str(
            unsafe { NonNull::new_unchecked(*self.first.add(index)) },
            PhantomData,
        )
    }
}

/// What a command runs in.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Ctx<'a>(*mut raw::RedisModuleCtx, PhantomData<&'a ()>);

/// The arguments as the server hands them to an entry point.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct RawArgv<'a>(*const *mut raw::RedisModuleString, PhantomData<&'a ()>);

/// A command's entry point; [`entry`](crate::entry) makes one of a handler.
pub type Entry = for<'a> extern "C" fn(Ctx<'a>, RawArgv<'a>, c_int) -> c_int;

/// The body of every entry point.
#[inline(always)]
pub fn enter<'a>(
    ctx: Ctx<'a>,
    words: RawArgv<'a>,
    count: c_int,
    handler: impl Fn(Ctx<'a>, Argv<'a>),
) -> c_int {
    let args = Argv {
        first: words.0,
        count: count as usize,
        lifetime: PhantomData,
    };
    handler(ctx, args);
    OK
}

/// One piece of a replicated command.
pub enum Piece<'p> {
    /// A word.
    Word(&'static CStr),
    /// Bytes.
    Bytes(&'p [u8]),
    /// A number as text.
    Text(String),
    /// Arguments of the command that runs.
    Items(&'p [Str<'p>]),
}

impl<'a> Ctx<'a> {
    /// Replies `+text`.
    pub fn reply_simple(self, text: &CStr) {
        // SAFETY: the context is alive; the text is copied.
        unsafe { call!(RedisModule_ReplyWithSimpleString(self.0, text.as_ptr())) };
    }

    /// Replies `-text`, where the text begins with its code.
    pub fn reply_error(self, text: &str) {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the context is alive; the text is copied.
        unsafe { call!(RedisModule_ReplyWithError(self.0, text.as_ptr())) };
    }

    /// Replies that the number of arguments is wrong, with the command's name.
    pub fn reply_wrong_arity(self) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_WrongArity(self.0)) };
    }

    /// Replies a boolean in RESP3, 0 or 1 in RESP2.
    #[inline]
    pub fn reply_bool(self, value: bool) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithBool(self.0, c_int::from(value))) };
    }

    /// Replies an integer.
    #[inline]
    pub fn reply_integer(self, value: i64) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithLongLong(self.0, value)) };
    }

    /// Replies a double: RESP3 only.
    pub fn reply_double(self, value: f64) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithDouble(self.0, value)) };
    }

    /// Replies null.
    pub fn reply_null(self) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithNull(self.0)) };
    }

    /// Replies a bulk string.
    pub fn reply_bytes(self, bytes: &[u8]) {
        // SAFETY: the context is alive; the bytes are copied.
        unsafe {
            call!(RedisModule_ReplyWithStringBuffer(
                self.0,
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
    }

    /// Begins an array of so many replies.
    #[inline]
    pub fn reply_array(self, len: usize) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithArray(self.0, len as i64)) };
    }

    /// Begins a map of so many pairs; in RESP2 a flat array of twice as many replies.
    pub fn reply_map(self, pairs: usize) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplyWithMap(self.0, pairs as i64)) };
    }

    fn flags(self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_GetContextFlags(self.0)) as u32 }
    }

    /// Whether the client speaks RESP3.
    pub fn is_resp3(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_RESP3 != 0
    }

    /// Whether the command comes from the primary, an AOF or a slot import: it happened already,
    /// and is to be done whatever this server's settings.
    pub fn must_obey(self) -> bool {
        if let Some(function) = NonNull::new(MUST_OBEY.load(Relaxed)) {
            // SAFETY: the pointer was given out by the server under this function's name.
            let must_obey: extern "C" fn(*mut raw::RedisModuleCtx) -> c_int =
                unsafe { std::mem::transmute(function) };
            must_obey(self.0) != 0
        } else {
            let obeyed = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
            self.flags() & obeyed != 0
        }
    }

    /// The number of the database that the client has selected.
    pub fn database(self) -> i32 {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_GetSelectedDb(self.0)) }
    }

    /// The time in milliseconds since the epoch.
    pub fn now_ms() -> u64 {
        // SAFETY: no arguments.
        unsafe { call!(RedisModule_Milliseconds()) }.max(0) as u64
    }

    /// 32 random bytes from the server's generator.
    pub fn random_bytes() -> [u8; 32] {
        let mut bytes = [0; 32];
        // SAFETY: 32 bytes are there to be written.
        unsafe { call!(RedisModule_GetRandomBytes(bytes.as_mut_ptr(), bytes.len())) };
        bytes
    }

    /// Sends the command on to replicas and AOF as it came.
    pub fn replicate_verbatim(self) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplicateVerbatim(self.0)) };
    }

    /// Sends another command on to replicas and AOF.
    pub fn replicate(self, command: &CStr, pieces: &[Piece]) {
        let mut owned = Vec::new();
        let mut strings = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let bytes = match piece {
                Piece::Word(word) => word.to_bytes(),
                Piece::Bytes(bytes) => bytes,
                Piece::Text(text) => text.as_bytes(),
                Piece::Items(items) => {
                    strings.extend(items.iter().map(|item| item.0.as_ptr()));
                    continue;
                }
            };
            let string = new_string(bytes);
            owned.push(string);
            strings.push(string);
        }
        // SAFETY: the format "v" takes an array of strings and its length; the server retains or
        // copies what it keeps. The strings made here are given back afterwards, once.
        unsafe {
            call!(RedisModule_Replicate(
                self.0,
                command.as_ptr(),
                c"v".as_ptr(),
                strings.as_mut_ptr(),
                strings.len()
            ));
            for string in owned {
                call!(RedisModule_FreeString(ptr::null_mut(), string));
            }
        }
    }

    /// Publishes a keyspace event of the generic class.
    pub fn notify(self, event: &CStr, key: Str) {
        // SAFETY: context and key are alive.
        unsafe {
            call!(RedisModule_NotifyKeyspaceEvent(
                self.0,
                raw::REDISMODULE_NOTIFY_GENERIC as c_int,
                event.as_ptr(),
                key.0.as_ptr()
            ))
        };
    }

    /// Tells WATCH and client tracking that the key has changed.
    pub fn signal_modified(self, key: Str) {
        // SAFETY: context and key are alive.
        unsafe { call!(RedisModule_SignalModifiedKey(self.0, key.0.as_ptr())) };
    }

    /// Opens a key. A key opened to read that does not exist has no value.
    #[inline]
    pub fn open(self, name: Str<'a>, access: Access) -> Key<'a> {
        let mode = match access {
            Access::Read => raw::REDISMODULE_READ,
            Access::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: context and name are alive for 'a; the key is closed when it is dropped.
        let key = unsafe { call!(RedisModule_OpenKey(self.0, name.0.as_ptr(), mode as c_int)) };
        Key(key.cast(), PhantomData)
    }

    /// Writes a line to the server's log, whatever bytes it is of.
    pub fn log_warning(text: &str) {
        let text: String = text
            .chars()
            .map(|c| if c == '\0' { '?' } else { c })
            .collect();
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: a log line needs no context; the format takes one string, which ends in zero.
        unsafe {
            call!(RedisModule_Log(
                ptr::null_mut(),
                c"warning".as_ptr(),
                c"%s".as_ptr(),
                text.as_ptr()
            ));
        }
    }

    /// A number in the server's own INFO, if it has such a field.
    pub fn server_info(section: &CStr, field: &CStr) -> Option<u64> {
        let mut error = 0;
        // SAFETY: without a context the data is ours, and is given back here.
        unsafe {
            let data = call!(RedisModule_GetServerInfo(ptr::null_mut(), section.as_ptr()));
            let value = call!(RedisModule_ServerInfoGetFieldUnsigned(
                data,
                field.as_ptr(),
                &raw mut error
            ));
            call!(RedisModule_FreeServerInfo(ptr::null_mut(), data));
            (error == OK).then_some(value)
        }
    }
}

/// What a key is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To look.
    Read,
    /// To look and to change.
    Write,
}

/// What a key holds.
pub enum Held<V> {
    /// There is no such key.
    Nothing,
    /// A value of the type that was asked for.
    Value(V),
    /// A value of another type.
    Other,
}

/// An open key, closed when it is dropped.
pub struct Key<'a>(*mut raw::RedisModuleKey, PhantomData<&'a ()>);

impl Key<'_> {
    /// The value.
    #[inline]
    pub fn value<T: NativeType>(&self) -> Held<&T> {
        match self.pointer::<T>() {
            Held::Nothing => Held::Nothing,
            Held::Other => Held::Other,
            // SAFETY: a value of this type, made by `into_server`. Commands run one at a time, so
            // nobody changes it while this key is borrowed, and `value_mut` borrows it exclusively.
            Held::Value(value) => Held::Value(unsafe { value.as_ref() }),
        }
    }

    /// The value, to be changed. The key has to be open for writing.
    #[inline]
    pub fn value_mut<T: NativeType>(&mut self) -> Held<&mut T> {
        match self.pointer::<T>() {
            Held::Nothing => Held::Nothing,
            Held::Other => Held::Other,
            // SAFETY: as in `value`; the borrow of the key is exclusive.
            Held::Value(mut value) => Held::Value(unsafe { value.as_mut() }),
        }
    }

    #[inline]
    fn pointer<T: NativeType>(&self) -> Held<NonNull<T>> {
        if self.0.is_null() {
            return Held::Nothing;
        }
        // SAFETY: the key is open. The type is compared before the value is taken for one.
        unsafe {
            let found = call!(RedisModule_ModuleTypeGetType(self.0));
            if found.is_null() {
                let kind = call!(RedisModule_KeyType(self.0));
                return if kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
                    Held::Nothing
                } else {
                    Held::Other
                };
            }
            if !T::handles()
                .iter()
                .any(|handle| found == handle.0.load(Relaxed))
            {
                return Held::Other;
            }
            let value = call!(RedisModule_ModuleTypeGetValue(self.0));
            NonNull::new(value.cast()).map_or(Held::Other, Held::Value)
        }
    }

    /// Stores a value under the key, which is empty and open for writing. False if it was not.
    pub fn set<T: NativeType>(&mut self, value: T) -> bool {
        let handle = T::handles()[value.form()].0.load(Relaxed);
        let value = into_server(value);
        // SAFETY: the key is open; on success the value belongs to the server, else it is still
        // ours and is given up here.
        unsafe {
            let set = call!(RedisModule_ModuleTypeSetValue(self.0, handle, value)) == OK;
            if !set {
                drop(from_server::<T>(value));
            }
            set
        }
    }

    /// Sets the time at which the key expires, in milliseconds since the epoch.
    pub fn expire_at(&mut self, ms: i64) {
        // SAFETY: the key is open for writing.
        unsafe { call!(RedisModule_SetAbsExpire(self.0, ms)) };
    }
}

impl Drop for Key<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the key is open and closed once.
            unsafe { call!(RedisModule_CloseKey(self.0)) };
        }
    }
}

/// The server's name for a registered type.
pub struct TypeHandle(AtomicPtr<raw::RedisModuleType>);

impl TypeHandle {
    /// The handle of a type that is not registered yet.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

/// A type as the server knows it.
pub struct Form {
    /// The name, nine characters.
    pub name: &'static CStr,
    /// The encoding version that is written, and the highest that is read.
    pub version: i32,
}

/// A value that keys can hold. The server calls these; all but `Drop` run on its main thread or in
/// a forked child.
pub trait NativeType: Sized + Send + 'static {
    /// The types that the server knows these values as.
    const FORMS: &'static [Form];

    /// Where the server's handles of these types are kept, in the same order.
    fn handles() -> &'static [TypeHandle];
    /// Which of them this value is.
    fn form(&self) -> usize;
    /// Reads a value of a form that goes to a database.
    ///
    /// # Errors
    /// Any [`DecodeError`]; the server reports the key, or refuses the RESTORE.
    fn load(
        from: &mut RdbReader,
        form: usize,
        version: i32,
        database: i32,
    ) -> Result<Self, DecodeError>;
    /// Writes the value.
    fn save(&self, to: &mut RdbWriter);
    /// Writes the commands that make the value.
    fn rewrite(&self, to: &mut AofWriter);
    /// Bytes of memory.
    fn memory_bytes(&self) -> u64;
    /// Feeds the digest by which two servers' values are compared.
    fn digest(&self, to: &mut Digest);
    /// Whether the value is large enough to be freed in the background.
    fn frees_in_background(&self) -> bool;
    /// The key lost the value: it will be dropped, or it was renamed or moved.
    fn unlinked(&mut self);
    /// A copy for a database, or `None` where there is no memory for it.
    fn copy(&self, database: i32) -> Option<Self>;
    /// Moves what the value is made of to less fragmented memory. False if it was interrupted.
    fn defrag(value: Box<Self>, by: &Defrag) -> (Box<Self>, bool);
}

fn into_server<T: NativeType>(value: T) -> *mut c_void {
    Box::into_raw(Box::new(value)).cast()
}

/// # Safety
/// The pointer came from [`into_server`] of the same type, and is not used again.
#[allow(
    clippy::unnecessary_box_returns,
    reason = "the box is the allocation given back"
)]
unsafe fn from_server<T: NativeType>(value: *mut c_void) -> Box<T> {
    // SAFETY: the caller's promise.
    unsafe { Box::from_raw(value.cast()) }
}

/// # Safety
/// The pointer came from [`into_server`] of the same type, and nobody changes the value during 'a.
unsafe fn borrow<'a, T: NativeType>(value: *const c_void) -> &'a T {
    // SAFETY: the caller's promise.
    unsafe { &*value.cast() }
}

// SAFETY of the callbacks below: the server calls them for values of the type for which they were
// registered, which all came from `into_server`, one callback at a time for one value; streams and
// contexts are alive during the call.

unsafe extern "C" fn rdb_load<T: NativeType, const FORM: usize>(
    io: *mut raw::RedisModuleIO,
    version: c_int,
) -> *mut c_void {
    // SAFETY: see above.
    let database = unsafe { call!(RedisModule_GetDbIdFromIO(io)) };
    let loaded = if version > T::FORMS[FORM].version {
        Err(DecodeError::UnsupportedVersion)
    } else {
        T::load(&mut RdbReader(io), FORM, version, database)
    };
    match loaded {
        Ok(value) => into_server(value),
        Err(error) => {
            Ctx::log_warning(&format!(
                "loading a {:?} failed: {error}",
                T::FORMS[FORM].name
            ));
            ptr::null_mut()
        }
    }
}

unsafe extern "C" fn rdb_save<T: NativeType>(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: see above.
    unsafe { borrow::<T>(value) }.save(&mut RdbWriter(io));
}

unsafe extern "C" fn aof_rewrite<T: NativeType>(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: see above.
    unsafe { borrow::<T>(value) }.rewrite(&mut AofWriter { io, key });
}

unsafe extern "C" fn mem_usage<T: NativeType>(
    _: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
    _samples: usize,
) -> usize {
    // SAFETY: see above.
    unsafe { borrow::<T>(value) }.memory_bytes() as usize
}

unsafe extern "C" fn digest<T: NativeType>(to: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: see above.
    unsafe { borrow::<T>(value) }.digest(&mut Digest(to));
}

unsafe extern "C" fn free<T: NativeType>(value: *mut c_void) {
    // SAFETY: see above; the server gives the value up. This may run on a background thread.
    drop(unsafe { from_server::<T>(value) });
}

unsafe extern "C" fn free_effort<T: NativeType>(
    _: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> usize {
    // SAFETY: see above. 0 asks for the background whatever the server's threshold.
    usize::from(!unsafe { borrow::<T>(value) }.frees_in_background())
}

unsafe extern "C" fn unlink<T: NativeType>(
    _: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) {
    // SAFETY: see above; the value is const in the signature only, it came from a box, and no
    // reference to it is alive while the server deletes its key.
    unsafe { &mut *value.cast_mut().cast::<T>() }.unlinked();
}

unsafe extern "C" fn copy<T: NativeType>(
    ctx: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: see above.
    let database = unsafe { call!(RedisModule_GetToDbIdFromOptCtx(ctx)) };
    // SAFETY: see above.
    let copy = unsafe { borrow::<T>(value) }.copy(database);
    copy.map_or(ptr::null_mut(), into_server)
}

unsafe extern "C" fn defrag<T: NativeType>(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: see above; the value goes back into its place before the server looks at it again.
    unsafe {
        let (moved, done) = T::defrag(from_server::<T>(*value), &Defrag(ctx));
        *value = Box::into_raw(moved).cast();
        c_int::from(!done)
    }
}

/// A value being read from an RDB stream.
pub struct RdbReader(*mut raw::RedisModuleIO);

impl RdbReader {
    fn checked<V>(&self, value: V) -> Result<V, DecodeError> {
        // SAFETY: the stream is alive.
        if unsafe { call!(RedisModule_IsIOError(self.0)) } == 0 {
            Ok(value)
        } else {
            Err(DecodeError::Truncated)
        }
    }
}

impl RdbRead for RdbReader {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        // SAFETY: the stream is alive.
        let value = unsafe { call!(RedisModule_LoadUnsigned(self.0)) };
        self.checked(value)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        // SAFETY: the stream is alive.
        let value = unsafe { call!(RedisModule_LoadDouble(self.0)) };
        self.checked(value)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        let mut length = 0;
        // SAFETY: the stream is alive; the server gives a block of exactly `length` bytes of its
        // allocator, which is this program's too, or null.
        unsafe {
            let bytes = call!(RedisModule_LoadStringBuffer(self.0, &raw mut length));
            if bytes.is_null() {
                return Err(DecodeError::Truncated);
            }
            if length == 0 {
                call!(RedisModule_Free(bytes.cast()));
                return self.checked(Vec::new());
            }
            let block = ptr::slice_from_raw_parts_mut(bytes.cast::<u8>(), length);
            self.checked(Box::from_raw(block).into_vec())
        }
    }
}

/// A value being written to an RDB stream.
pub struct RdbWriter(*mut raw::RedisModuleIO);

impl RdbWrite for RdbWriter {
    fn uint(&mut self, value: u64) {
        // SAFETY: the stream is alive.
        unsafe { call!(RedisModule_SaveUnsigned(self.0, value)) };
    }

    fn double(&mut self, value: f64) {
        // SAFETY: the stream is alive.
        unsafe { call!(RedisModule_SaveDouble(self.0, value)) };
    }

    fn bytes(&mut self, value: &[u8]) {
        // SAFETY: the stream is alive; the bytes are copied.
        unsafe {
            call!(RedisModule_SaveStringBuffer(
                self.0,
                value.as_ptr().cast(),
                value.len()
            ));
        }
    }
}

/// A value being written as commands.
pub struct AofWriter {
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
}

impl AofWriter {
    /// Writes `command key bytes`.
    pub fn emit(&mut self, command: &CStr, bytes: &[u8]) {
        // SAFETY: stream and key are alive; the format takes a string, and bytes with a length.
        unsafe {
            call!(RedisModule_EmitAOF(
                self.io,
                command.as_ptr(),
                c"sb".as_ptr(),
                self.key,
                bytes.as_ptr(),
                bytes.len()
            ));
        }
    }

    /// Writes `command key number bytes`.
    pub fn emit_numbered(&mut self, command: &CStr, number: u64, bytes: &[u8]) {
        // SAFETY: as in `emit`, with a long long between the two.
        unsafe {
            call!(RedisModule_EmitAOF(
                self.io,
                command.as_ptr(),
                c"slb".as_ptr(),
                self.key,
                number as c_longlong,
                bytes.as_ptr(),
                bytes.len()
            ));
        }
    }
}

/// The digest of a value.
pub struct Digest(*mut raw::RedisModuleDigest);

impl Digest {
    /// Adds a number.
    pub fn add(&mut self, value: u64) {
        // SAFETY: the digest is alive.
        unsafe { call!(RedisModule_DigestAddLongLong(self.0, value as c_longlong)) };
    }

    /// Adds bytes.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the digest is alive; the bytes are read only, the signature says less.
        unsafe {
            call!(RedisModule_DigestAddStringBuffer(
                self.0,
                bytes.as_ptr().cast(),
                bytes.len()
            ));
        }
    }

    /// Ends a sequence whose order matters.
    pub fn end_sequence(&mut self) {
        // SAFETY: the digest is alive.
        unsafe { call!(RedisModule_DigestEndSequence(self.0)) };
    }
}

/// The server's offer to move allocations.
pub struct Defrag(*mut raw::RedisModuleDefragCtx);

impl Defrag {
    /// Whether the time for this step is over.
    pub fn should_stop(&self) -> bool {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_DefragShouldStop(self.0)) != 0 }
    }

    /// Where the last step stopped; 0 at the first.
    pub fn cursor(&self) -> usize {
        let mut cursor = 0;
        // SAFETY: the context is alive, and writes a number where there is one.
        unsafe { call!(RedisModule_DefragCursorGet(self.0, &raw mut cursor)) };
        cursor as usize
    }

    /// Where the next step is to begin.
    pub fn set_cursor(&self, cursor: usize) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_DefragCursorSet(self.0, cursor as _)) };
    }

    /// The new place of a block, or `None` if it stays.
    ///
    /// # Safety
    /// The block is from the server's allocator; after a move it is no longer used.
    unsafe fn place(&self, block: *mut c_void) -> Option<NonNull<c_void>> {
        // SAFETY: the caller's promise.
        NonNull::new(unsafe { call!(RedisModule_DefragAlloc(self.0, block)) })
    }

    /// Moves a box, or leaves it. Tells whether it was moved.
    pub fn relocate<T>(&self, value: Box<T>) -> (Box<T>, bool) {
        let block = Box::into_raw(value);
        // SAFETY: the block came from a box, and the server copies its bytes to the new place: a
        // move as Rust knows it.
        unsafe {
            match self.place(block.cast()) {
                Some(moved) => (Box::from_raw(moved.as_ptr().cast()), true),
                None => (Box::from_raw(block), false),
            }
        }
    }

    /// Moves a boxed slice, or leaves it. Tells whether it was moved.
    pub fn relocate_slice<T>(&self, value: Box<[T]>) -> (Box<[T]>, bool) {
        let len = value.len();
        if len == 0 {
            return (value, false);
        }
        let block = Box::into_raw(value);
        // SAFETY: as in `relocate`; the length stays.
        unsafe {
            match self.place(block.cast()) {
                Some(moved) => {
                    let moved = ptr::slice_from_raw_parts_mut(moved.as_ptr().cast(), len);
                    (Box::from_raw(moved), true)
                }
                None => (Box::from_raw(block), false),
            }
        }
    }
}

/// A setting as the server sees it: the name is the one by which it is set.
pub enum Setting {
    /// A whole number.
    Number {
        /// The value to start with, and the range.
        default: i64,
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
        /// Whether it is an amount of memory, and may be given as `64mb`.
        memory: bool,
    },
    /// Text.
    Text {
        /// The value to start with.
        default: String,
    },
    /// Yes or no.
    Switch {
        /// The value to start with.
        default: bool,
    },
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
    /// Yes or no.
    Switch(bool),
}

/// Something that the server can set and get.
pub trait Settable: Sync {
    /// The value now.
    fn get(&self) -> Value;
    /// Takes a value, or refuses it in words.
    ///
    /// # Errors
    /// Why the value can't be.
    fn set(&self, value: Value) -> Result<(), String>;
    /// Where a text's last answer is kept.
    fn text(&self) -> &TextSlot;
}

/// The string that the server was last given as a setting's value; it borrows it until the next.
pub struct TextSlot(AtomicPtr<raw::RedisModuleString>);

impl TextSlot {
    /// An empty slot.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn replace(&self, text: &str) -> *mut raw::RedisModuleString {
        let new = new_string(text.as_bytes());
        let old = self.0.swap(new, Relaxed);
        if !old.is_null() {
            // SAFETY: the string was made here, and the server has copied what it asked for last.
            unsafe { call!(RedisModule_FreeString(ptr::null_mut(), old)) };
        }
        new
    }
}

type Settables = &'static dyn Settable;

/// A setting under one of its names, for the server to register.
pub struct Registration {
    /// The name, without the module's.
    pub name: &'static CStr,
    /// What the server has to know of the setting.
    pub setting: Setting,
    /// The setting.
    pub target: Settables,
    /// Whether a pattern leaves the name out.
    pub hidden: bool,
}

/// # Safety
/// The pointer is the private data under which a setting was registered.
unsafe fn settable(private: *mut c_void) -> Settables {
    // SAFETY: the caller's promise: a reference that lives as long as the module.
    unsafe { *private.cast::<Settables>() }
}

fn outcome(result: Result<(), String>, error: *mut *mut raw::RedisModuleString) -> c_int {
    let Err(text) = result else {
        return OK;
    };
    if !error.is_null() {
        // SAFETY: the server gives a place for the text, and frees the string.
        unsafe { *error = new_string(text.as_bytes()) };
    }
    ERR
}

unsafe extern "C" fn get_number(_: *const c_char, private: *mut c_void) -> c_longlong {
    // SAFETY: registered below with this private data.
    match unsafe { settable(private) }.get() {
        Value::Number(number) => number,
        _ => 0,
    }
}

unsafe extern "C" fn set_number(
    _: *const c_char,
    value: c_longlong,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: registered below with this private data.
    outcome(
        unsafe { settable(private) }.set(Value::Number(value)),
        error,
    )
}

unsafe extern "C" fn get_switch(_: *const c_char, private: *mut c_void) -> c_int {
    // SAFETY: registered below with this private data.
    c_int::from(unsafe { settable(private) }.get() == Value::Switch(true))
}

unsafe extern "C" fn set_switch(
    _: *const c_char,
    value: c_int,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: registered below with this private data.
    outcome(
        unsafe { settable(private) }.set(Value::Switch(value != 0)),
        error,
    )
}

unsafe extern "C" fn get_text(
    _: *const c_char,
    private: *mut c_void,
) -> *mut raw::RedisModuleString {
    // SAFETY: registered below with this private data.
    let setting = unsafe { settable(private) };
    match setting.get() {
        Value::Text(text) => setting.text().replace(&text),
        _ => ptr::null_mut(),
    }
}

unsafe extern "C" fn set_text(
    _: *const c_char,
    value: *mut raw::RedisModuleString,
    private: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    let bytes = NonNull::new(value).map_or(&[][..], |value| Str(value, PhantomData).bytes());
    let text = String::from_utf8_lossy(bytes).into_owned();
    // SAFETY: registered below with this private data.
    outcome(unsafe { settable(private) }.set(Value::Text(text)), error)
}

/// The INFO that is being written.
pub struct InfoWriter(*mut raw::RedisModuleInfoCtx);

impl InfoWriter {
    /// Begins a section. The server puts the module's name before the name.
    pub fn section(&mut self, name: &CStr) {
        // SAFETY: the context is alive; the name is copied.
        unsafe { call!(RedisModule_InfoAddSection(self.0, name.as_ptr())) };
    }

    /// Adds a field to the section. The server puts the module's name before the name.
    pub fn field(&mut self, name: &CStr, value: u64) {
        // SAFETY: the context is alive; the name is copied.
        unsafe {
            call!(RedisModule_InfoAddFieldULongLong(
                self.0,
                name.as_ptr(),
                value
            ))
        };
    }
}

/// What happens to whole databases.
#[derive(Clone, Copy)]
pub enum DatabaseEvent {
    /// A database, or with `None` every one, is about to be emptied.
    Flush(Option<i32>),
    /// Two databases changed places.
    Swap(i32, i32),
    /// A full resync begins to load beside the data that is being served.
    SideLoadStarted,
    /// It was given up.
    SideLoadAborted,
    /// It has taken the place of the data that was served.
    SideLoadCompleted,
}

/// Takes the words behind the module's path, and gives the settings to register.
pub type Configure = fn(&[&[u8]]) -> Result<Vec<Registration>, String>;

/// What the module is made of; `table.rs` holds the one.
pub struct Module {
    /// The name.
    pub name: &'static CStr,
    /// The version, as MODULE LIST shows it.
    pub version: i32,
    /// Registers the types.
    pub register_types: fn(Ctx) -> Result<(), String>,
    /// Takes the words behind the module's path.
    pub configure: Configure,
    /// Told when the server has applied the settings of its config file.
    pub configured: fn(),
    /// The ACL category of the commands.
    pub category: &'static CStr,
    /// The commands.
    pub commands: &'static [Command],
    /// Writes the INFO sections; true while the server crashes.
    pub info: fn(&mut InfoWriter, bool),
    /// Told what happens to databases.
    pub on_database: fn(DatabaseEvent),
}

/// What a command does to its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It looks.
    Reads,
    /// It adds, and may need memory for it.
    Adds,
    /// It takes away.
    Removes,
}

/// A command: how it is registered, and what COMMAND DOCS says.
pub struct Command {
    /// The name, in lower case.
    pub name: &'static CStr,
    /// Runs it.
    pub entry: Entry,
    /// What it does to its key.
    pub effect: Effect,
    /// Whether other keys follow the first, which it reads.
    pub reads_others: bool,
    /// Whether it takes a time that does not grow with what the key holds.
    pub fast: bool,
    /// The number of arguments with the name, negative if more may follow.
    pub arity: i32,
    /// One line.
    pub summary: &'static CStr,
    /// In big-O notation.
    pub complexity: &'static CStr,
    /// The version of the module that brought it.
    pub since: &'static CStr,
    /// What follows the key.
    pub args: &'static [Arg],
}

/// An argument in COMMAND DOCS.
pub struct Arg {
    /// The name.
    pub name: &'static CStr,
    /// The kind.
    pub kind: ArgKind,
    /// The word in front of it, or the word that it is.
    pub token: Option<&'static CStr>,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether it may be repeated.
    pub multiple: bool,
    /// What it is composed of.
    pub parts: &'static [Arg],
}

/// The kind of an argument in COMMAND DOCS.
#[derive(Clone, Copy)]
pub enum ArgKind {
    /// Any bytes.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Double,
    /// A word that stands for itself.
    Token,
    /// One of its parts.
    OneOf,
    /// All of its parts.
    Block,
}

static INFO: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static ON_DATABASE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

unsafe extern "C" fn on_info(ctx: *mut raw::RedisModuleInfoCtx, crashing: c_int) {
    if let Some(function) = NonNull::new(INFO.load(Relaxed)) {
        // SAFETY: `load` stored a function of this type.
        let info: fn(&mut InfoWriter, bool) = unsafe { std::mem::transmute(function) };
        info(&mut InfoWriter(ctx), crashing != 0);
    }
}

unsafe extern "C" fn on_server_event(
    _: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    // SAFETY: the server passes the structure that belongs to the event, alive during the call.
    let event = unsafe {
        match (event.id, subevent) {
            (raw::REDISMODULE_EVENT_FLUSHDB, raw::REDISMODULE_SUBEVENT_FLUSHDB_START) => {
                let info = &*data.cast::<raw::RedisModuleFlushInfo>();
                DatabaseEvent::Flush((info.dbnum >= 0).then_some(info.dbnum))
            }
            (raw::REDISMODULE_EVENT_SWAPDB, _) => {
                let info = &*data.cast::<raw::RedisModuleSwapDbInfo>();
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
            _ => return,
        }
    };
    if let Some(function) = NonNull::new(ON_DATABASE.load(Relaxed)) {
        // SAFETY: `load` stored a function of this type.
        let on_database: fn(DatabaseEvent) = unsafe { std::mem::transmute(function) };
        on_database(event);
    }
}

/// The word that [`InfoAlias`] replaces, and its replacement.
const ALIAS: (&[u8], &[u8]) = (b"bloom", b"bf");

static FILTER: AtomicPtr<raw::RedisModuleCommandFilter> = AtomicPtr::new(ptr::null_mut());

/// Lets `INFO bloom` mean `INFO bf`, or no longer.
///
/// The server matches a section by the module's name, so the argument has to be rewritten before
/// the command runs. The server calls a filter for every command: it is registered only while it
/// is wanted.
pub fn set_info_alias(on: bool) {
    let ctx = MODULE.load(Relaxed);
    if ctx.is_null() {
        return;
    }
    // SAFETY: the context lives as long as the module; a filter is registered once and given back
    // once.
    unsafe {
        if on && FILTER.load(Relaxed).is_null() {
            let flags = raw::REDISMODULE_CMDFILTER_NOSELF as c_int;
            let filter = call!(RedisModule_RegisterCommandFilter(ctx, Some(filter), flags));
            FILTER.store(filter, Relaxed);
        } else if !on {
            let filter = FILTER.swap(ptr::null_mut(), Relaxed);
            if !filter.is_null() {
                call!(RedisModule_UnregisterCommandFilter(ctx, filter));
            }
        }
    }
}

unsafe extern "C" fn filter(ctx: *mut raw::RedisModuleCommandFilterCtx) {
    // SAFETY: the context and its arguments are alive during the call, and indices are below the
    // count; a replaced argument takes the new string over.
    unsafe {
        let word = |index| {
            let string = call!(RedisModule_CommandFilterArgGet(ctx, index));
            NonNull::new(string).map_or(&[][..], |string| Str(string, PhantomData).bytes())
        };
        let name = word(0);
        if name.len() != 4 || !name.eq_ignore_ascii_case(b"info") {
            return;
        }
        for index in 1..call!(RedisModule_CommandFilterArgsCount(ctx)) {
            if word(index).eq_ignore_ascii_case(ALIAS.0) {
                let replacement = new_string(ALIAS.1);
                call!(RedisModule_CommandFilterArgReplace(ctx, index, replacement));
            }
        }
    }
}

/// The server's call when the module is loaded.
///
/// # Safety
/// Called by the server, once, with its own context and arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    words: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    let module = &crate::MODULE;
    // SAFETY: this fills the API's table, before anything else uses it.
    let status = unsafe {
        raw::Export_RedisModule_Init(
            ctx,
            module.name.as_ptr(),
            module.version,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    if status != OK {
        return ERR;
    }
    let pointer = |name| optional(name).map_or(ptr::null_mut(), NonNull::as_ptr);
    TRY_CALLOC.store(pointer(c"RedisModule_TryCalloc"), Relaxed);
    MUST_OBEY.store(pointer(c"RedisModule_MustObeyClient"), Relaxed);
    std::panic::set_hook(Box::new(|panic| Ctx::log_warning(&panic.to_string())));
    let args = Argv {
        first: words.cast_const(),
        count: count as usize,
        lifetime: PhantomData,
    };
    match load(ctx, module, args) {
        Ok(()) => OK,
        Err(what) => {
            Ctx::log_warning(&format!("{:?} not loaded: {what}", module.name));
            let module_ctx = MODULE.swap(ptr::null_mut(), Relaxed);
            if !module_ctx.is_null() {
                // SAFETY: it was made by this load, and nothing uses it any more.
                unsafe { call!(RedisModule_FreeThreadSafeContext(module_ctx)) };
            }
            ERR
        }
    }
}

fn load(ctx: *mut raw::RedisModuleCtx, module: &Module, args: Argv) -> Result<(), String> {
    let done = |status: c_int, what: &str| {
        if status == OK {
            Ok(())
        } else {
            Err(format!("the server refused {what}"))
        }
    };
    // SAFETY: the context is the one of the load; it is passed to nothing that outlives it.
    unsafe {
        let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
            | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD
            | OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION;
        call!(RedisModule_SetModuleOptions(ctx, options as c_int));
        let module_ctx = call!(RedisModule_GetDetachedThreadSafeContext(ctx));
        MODULE.store(module_ctx, Relaxed);
    }
    (module.register_types)(Ctx(ctx, PhantomData))?;
    register_commands(ctx, module)?;
    let words: Vec<&[u8]> = (0..args.len()).map(|i| args.string(i).bytes()).collect();
    for registration in (module.configure)(&words)? {
        let status = register_setting(ctx, &registration);
        done(status, "a setting")?;
    }
    // SAFETY: the settings are registered.
    let status = unsafe { call!(RedisModule_LoadConfigs(ctx)) };
    done(status, "a value of a setting; see the line above")?;
    // Last, when nothing can fail any more: Redis 7.0 would go on calling a module that it has
    // thrown out.
    // SAFETY: the context is the one of the load; the callbacks live as long as the module.
    unsafe {
        INFO.store(module.info as *mut c_void, Relaxed);
        ON_DATABASE.store(module.on_database as *mut c_void, Relaxed);
        done(
            call!(RedisModule_RegisterInfoFunc(ctx, Some(on_info))),
            "INFO",
        )?;
        for (id, version) in [
            (raw::REDISMODULE_EVENT_FLUSHDB, 1),
            (raw::REDISMODULE_EVENT_SWAPDB, 1),
            (raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD, 1),
        ] {
            let event = raw::RedisModuleEvent {
                id,
                dataver: version,
            };
            let callback = Some(on_server_event as _);
            let status = call!(RedisModule_SubscribeToServerEvent(ctx, event, callback));
            done(status, "a server event")?;
        }
    }
    (module.configured)();
    Ok(())
}

/// Valkey 9: the module's data may be sent by atomic slot migration. Its commands say all.
const OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;

/// Registers one of a value's types; to be called while the module loads.
///
/// # Errors
/// The server refused it.
pub fn register_type<T: NativeType, const FORM: usize>(ctx: Ctx) -> Result<(), String> {
    let Form { name, version } = &T::FORMS[FORM];
    let mut methods = raw::RedisModuleTypeMethods {
        version: 4,
        rdb_load: Some(rdb_load::<T, FORM>),
        rdb_save: Some(rdb_save::<T>),
        aof_rewrite: Some(aof_rewrite::<T>),
        mem_usage: None,
        digest: Some(digest::<T>),
        free: Some(free::<T>),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: None,
        unlink: None,
        copy: None,
        defrag: Some(defrag::<T>),
        mem_usage2: Some(mem_usage::<T>),
        free_effort2: Some(free_effort::<T>),
        unlink2: Some(unlink::<T>),
        copy2: Some(copy::<T>),
        aux_save2: None,
    };
    // SAFETY: the context is the one of the load; the methods are copied.
    let handle = unsafe {
        call!(RedisModule_CreateDataType(
            ctx.0,
            name.as_ptr(),
            *version,
            &raw mut methods
        ))
    };
    if handle.is_null() {
        return Err(format!("the server refused the type {name:?}"));
    }
    T::handles()[FORM].0.store(handle, Relaxed);
    Ok(())
}

fn register_setting(ctx: *mut raw::RedisModuleCtx, registration: &Registration) -> c_int {
    let name = registration.name;
    // One small block per setting, for as long as the module lives.
    let private = Box::into_raw(Box::new(registration.target)).cast::<c_void>();
    let hidden = if registration.hidden {
        raw::REDISMODULE_CONFIG_HIDDEN
    } else {
        0
    };
    // SAFETY: the context is the one of the load; names and defaults are copied; the private data
    // lives as long as the module.
    unsafe {
        match &registration.setting {
            Setting::Number {
                default,
                min,
                max,
                memory,
            } => {
                let unit = if *memory {
                    raw::REDISMODULE_CONFIG_MEMORY
                } else {
                    0
                };
                call!(RedisModule_RegisterNumericConfig(
                    ctx,
                    name.as_ptr(),
                    *default,
                    hidden | unit,
                    *min,
                    *max,
                    Some(get_number),
                    Some(set_number),
                    None,
                    private
                ))
            }
            Setting::Text { default } => {
                let default = CString::new(default.as_str()).unwrap_or_default();
                call!(RedisModule_RegisterStringConfig(
                    ctx,
                    name.as_ptr(),
                    default.as_ptr(),
                    hidden,
                    Some(get_text),
                    Some(set_text),
                    None,
                    private
                ))
            }
            Setting::Switch { default } => call!(RedisModule_RegisterBoolConfig(
                ctx,
                name.as_ptr(),
                c_int::from(*default),
                hidden,
                Some(get_switch),
                Some(set_switch),
                None,
                private
            )),
        }
    }
}

fn register_commands(ctx: *mut raw::RedisModuleCtx, module: &Module) -> Result<(), String> {
    // SAFETY: the context is the one of the load; the name is copied.
    let own = unsafe {
        let added = raw::RedisModule_AddACLCategory.map(|add| add(ctx, module.category.as_ptr()));
        if added == Some(OK) {
            module.category
        } else {
            c""
        }
    };
    // SAFETY: the table is only read.
    let set_categories = unsafe { raw::RedisModule_SetCommandACLCategories };
    for command in module.commands {
        let refused = || format!("the server refused the command {:?}", command.name);
        let flags = match (command.effect, command.fast) {
            (Effect::Adds, true) => c"write deny-oom fast",
            (Effect::Adds, false) => c"write deny-oom",
            (Effect::Removes, true) => c"write fast",
            (Effect::Removes, false) => c"write",
            (Effect::Reads, true) => c"readonly fast",
            (Effect::Reads, false) => c"readonly",
        };
        // SAFETY: the context is the one of the load. The entry point differs from the type that is
        // wanted in transparent wrappers around the same pointers only.
        let handle = unsafe {
            let entry = std::mem::transmute::<Entry, raw::RedisModuleCmdFunc>(command.entry);
            let name = command.name.as_ptr();
            if call!(RedisModule_CreateCommand(
                ctx,
                name,
                entry,
                flags.as_ptr(),
                1,
                if command.reads_others { -1 } else { 1 },
                1
            )) != OK
            {
                return Err(refused());
            }
            call!(RedisModule_GetCommand(ctx, name))
        };
        if handle.is_null() {
            return Err(refused());
        }
        if let Some(set) = set_categories {
            let access = match command.effect {
                Effect::Reads => "read",
                Effect::Adds | Effect::Removes => "write",
            };
            let speed = if command.fast { "fast" } else { "slow" };
            let categories = format!("{access} {speed} {}", own.to_string_lossy());
            let categories = CString::new(categories.trim_end()).unwrap_or_default();
            // SAFETY: the handle is a command of this module; the text is copied.
            if unsafe { set(handle, categories.as_ptr()) } != OK {
                return Err(refused());
            }
        }
        // SAFETY: as in `api!`.
        if let Some(set) = unsafe { raw::RedisModule_SetCommandInfo } {
            describe(handle, command, set).map_err(|()| refused())?;
        }
    }
    Ok(())
}

type SetCommandInfo =
    unsafe extern "C" fn(*mut raw::RedisModuleCommand, *const raw::RedisModuleCommandInfo) -> c_int;

fn describe(
    handle: *mut raw::RedisModuleCommand,
    command: &Command,
    set: SetCommandInfo,
) -> Result<(), ()> {
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let reads = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
    let access = match command.effect {
        Effect::Adds => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT,
        Effect::Removes => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
        Effect::Reads => reads,
    };
    // SAFETY: all zero is a valid value of these C structures: null pointers, and the marks that
    // end the lists.
    let (mut keys, mut end): (
        [raw::RedisModuleCommandKeySpec; 3],
        raw::RedisModuleCommandArg,
    ) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let specs = [(access, 1, 0), (reads, 2, -1)];
    let others = usize::from(command.reads_others);
    for (key, (access, first, last)) in keys.iter_mut().zip(&specs[..=others]) {
        key.flags = u64::from(*access);
        key.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        key.bs.index.pos = *first;
        key.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        key.fk.range.lastkey = *last;
        key.fk.range.keystep = 1;
    }

    // The structures of an argument's parts have to outlive the call.
    let mut parts: Vec<Box<[raw::RedisModuleCommandArg]>> = Vec::new();
    let mut args = vec![end];
    args[0].name = c"key".as_ptr();
    args[0].type_ = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY;
    args[0].key_spec_index = 0;
    if command.reads_others {
        let mut other = end;
        other.name = c"source".as_ptr();
        other.type_ = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY;
        other.key_spec_index = 1;
        other.flags = raw::REDISMODULE_CMD_ARG_MULTIPLE as c_int;
        args.push(other);
    }
    for arg in command.args {
        args.push(argument(arg, &mut parts));
    }
    end.key_spec_index = -1;
    end.name = ptr::null();
    args.push(end);

    let info = raw::RedisModuleCommandInfo {
        version: &raw const version,
        summary: command.summary.as_ptr(),
        complexity: command.complexity.as_ptr(),
        since: command.since.as_ptr(),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity: command.arity,
        key_specs: keys.as_mut_ptr(),
        args: args.as_mut_ptr(),
    };
    // SAFETY: the handle is a command of this module; all that the structure points to is alive
    // during the call, and the server copies it.
    if unsafe { set(handle, &raw const info) } == OK {
        Ok(())
    } else {
        Err(())
    }
}

fn argument(
    arg: &Arg,
    parts: &mut Vec<Box<[raw::RedisModuleCommandArg]>>,
) -> raw::RedisModuleCommandArg {
    // SAFETY: all zero is a valid value of this C structure.
    let end: raw::RedisModuleCommandArg = unsafe { std::mem::zeroed() };
    let mut made = end;
    made.name = arg.name.as_ptr();
    made.key_spec_index = -1;
    made.token = arg.token.map_or(ptr::null(), CStr::as_ptr);
    made.type_ = match arg.kind {
        ArgKind::Text => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
        ArgKind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
        ArgKind::Double => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_DOUBLE,
        ArgKind::Token => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
        ArgKind::OneOf => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
        ArgKind::Block => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
    };
    if arg.optional {
        made.flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL as c_int;
    }
    if arg.multiple {
        made.flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE as c_int;
    }
    if !arg.parts.is_empty() {
        let mut inner: Vec<_> = arg.parts.iter().map(|part| argument(part, parts)).collect();
        inner.push(end);
        let mut inner = inner.into_boxed_slice();
        made.subargs = inner.as_mut_ptr();
        parts.push(inner);
    }
    made
}
