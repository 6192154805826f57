//! The allocator. It notes whether memory is out, because the engine aborts a call in the same way after a panic and after an
//! allocation that failed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the latest allocation failed.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

#[global_allocator]
static ALLOCATOR: Noting = Noting;

struct Noting;

fn noted(block: *mut u8) -> *mut u8 {
    HAS_FAILED.store(block.is_null(), Ordering::Relaxed);
    block
}

// SAFETY: each method returns what the system's allocator returns for the same parameters.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        noted(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        noted(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        noted(unsafe { System.realloc(block, layout, size) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Returns whether the latest allocation failed. JavaScript calls it after the engine has aborted a call, to tell a lack of
/// memory from a bug.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_allocation_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}
