//! What decoding takes of memory. Only the fuzzer has the allocator that counts it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bytes that are allocated now.
static NOW: AtomicUsize = AtomicUsize::new(0);
/// The largest value of [`NOW`] so far.
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts what is taken. It is for programs with one thread.
pub struct Counting;

fn taken(bytes: usize) {
    let now = NOW.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(now, Relaxed);
}

// SAFETY: every call is passed on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Makes a value, and returns it with the number of bytes that it keeps allocated, if they are counted.
pub fn measured<T>(make: impl FnOnce() -> T) -> (T, Option<usize>) {
    let before = NOW.load(Relaxed);
    let thing = make();
    (thing, (before > 0).then(|| NOW.load(Relaxed) - before))
}

/// Decodes a value, and asserts that this never took more than `most` bytes of memory, if they are counted.
pub fn bounded<T>(most: usize, decode: impl FnOnce() -> T) -> T {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let decoded = decode();
    let took = MOST.load(Relaxed) - before;
    assert!(
        took <= most,
        "took {took} bytes, at most {most} are allowed"
    );
    decoded
}
