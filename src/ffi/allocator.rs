//! The global allocator: the server's, so that its memory accounting, limits and defragmentation see
//! every byte. Outside a server (tests, programs that use the core) it is the system's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use valkey_module::raw;

use super::api::{Optional, call};

#[global_allocator]
static ALLOCATOR: ServerAllocator = ServerAllocator;

/// `RedisModule_TryCalloc`, which Redis 7.0 lacks.
pub(super) static TRY_CALLOC: Optional<extern "C" fn(usize, usize) -> *mut c_void> =
    // SAFETY: servers export a function of this type under this name.
    unsafe { Optional::new(c"RedisModule_TryCalloc") };

struct ServerAllocator;

impl ServerAllocator {
    /// The alignment of the blocks of every server.
    const ALIGN_MIN: usize = 8;

    /// The alignment of `malloc`'s blocks, and of those of most servers; nothing in this crate needs a stricter one.
    const ALIGN_MAX: usize = 16;

    /// The most bytes that are requested without a trial. A server that can't allocate this little is about to fail
    /// anyway, so such a request may end it.
    const TRIAL_BYTES: usize = 1 << 20;

    /// Returns whether the server's allocator serves this layout.
    fn in_server(layout: Layout) -> bool {
        // SAFETY: the API's table is filled before the module allocates, and not written to afterwards.
        let loaded = unsafe { raw::RedisModule_Free }.is_some();
        loaded
            && (layout.align() <= Self::ALIGN_MIN
                || layout.align() <= Self::ALIGN_MAX
                    && *ALIGNS_LIKE_MALLOC.get_or_init(aligns_like_malloc))
    }
}

/// Whether the server's blocks are aligned like those of `malloc`.
static ALIGNS_LIKE_MALLOC: OnceLock<bool> = OnceLock::new();

/// Tries a block of the server's. A server that does not ask its allocator how large a block is, as with musl's, puts the
/// size in front: then all of its blocks begin 8 bytes after those of `malloc`.
fn aligns_like_malloc() -> bool {
    let bytes = ServerAllocator::ALIGN_MAX;
    // SAFETY: the API's table is filled, and the block is freed once.
    unsafe {
        let block = call!(RedisModule_Alloc(bytes));
        call!(RedisModule_Free(block));
        block.addr().is_multiple_of(bytes)
    }
}

/// Returns the bytes of the block that the server's allocator gave for a box or a vector, which begins here and takes
/// bytes.
pub fn bytes_given<T>(block: *const T) -> u64 {
    const { assert!(align_of::<T>() <= ServerAllocator::ALIGN_MIN) };
    // SAFETY: the block's alignment makes it one of the server's; the server only reads what it noted of its size.
    unsafe { call!(RedisModule_MallocSize(block.cast_mut().cast())) as u64 }
}

/// Returns the bytes of the block that the server's allocator gives for a number of bytes; 0 if it has no memory now.
pub fn bytes_given_for(bytes: u64) -> u64 {
    let mut block: Vec<u8> = Vec::new();
    match block.try_reserve_exact(bytes as usize) {
        Ok(()) if bytes > 0 => bytes_given(block.as_ptr()),
        _ => 0,
    }
}

// SAFETY: a block comes either from the server's allocator or from the system's, and goes back to the same one:
// `in_server` decides by the layout, by how the server aligns its blocks, which does not change, and by whether the API's
// table is filled, which happens before a module's first allocation and never in another program. A failed allocation
// returns null if the server has the `Try` functions, and ends the server if it lacks them.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::in_server(layout) {
            // SAFETY: our caller guarantees what the system's allocator requires: a size above 0.
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: both functions take any size.
        unsafe {
            match raw::RedisModule_TryAlloc {
                Some(try_alloc) => try_alloc(layout.size()).cast(),
                None => call!(RedisModule_Alloc(layout.size())).cast(),
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !Self::in_server(layout) {
            // SAFETY: our caller guarantees what the system's allocator requires: a size above 0.
            return unsafe { System.alloc_zeroed(layout) };
        }
        if let Some(try_calloc) = TRY_CALLOC.get() {
            return try_calloc(1, layout.size()).cast();
        }
        // `Calloc` ends the server if it fails, so a large block is allocated and freed first.
        // That is cheap, because nothing is written to the block.
        // SAFETY: the trial block is freed at once, with its own layout; `Calloc` takes any size.
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
            // SAFETY: `in_server` was true when the block was allocated too, so the block is the server's.
            unsafe { call!(RedisModule_Free(block.cast())) }
        } else {
            // SAFETY: `in_server` was false when the block was allocated too, so the block is the system's.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Self::in_server(layout) {
            // SAFETY: `in_server` was false when the block was allocated too, so the block is the system's.
            return unsafe { System.realloc(block, layout, size) };
        }
        if size <= layout.size().max(Self::TRIAL_BYTES) {
            // SAFETY: `in_server` was true when the block was allocated too, so the block is the server's.
            return unsafe { call!(RedisModule_Realloc(block.cast(), size)).cast() };
        }
        // `Realloc` ends the server if it fails, so a block that grows is copied to a new one.
        // SAFETY: our caller guarantees that the size, rounded up to the alignment, is valid for a layout.
        // The blocks don't overlap, the new one is larger, and the old one is freed once, with its layout.
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
