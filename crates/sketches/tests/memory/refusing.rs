//! An allocator that refuses, and what runs under it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use valkeybloom_sketches::DecodeError;
use valkeybloom_testing::support::Stream;

/// Smaller requests are served: a table of small things may end the program.
const LEAST_BYTES: usize = 512;

thread_local! {
    /// The number of requests until the refused one; at 0 no request is refused.
    static LEFT: Cell<usize> = const { Cell::new(0) };
    /// The bytes that are allocated, and the most of them so far.
    static BYTES: Cell<[usize; 2]> = const { Cell::new([0; 2]) };
}

/// Counts bytes that are allocated in place of others.
fn count(less: usize, more: usize) {
    let [now, most] = BYTES.get();
    let now = (now + more).saturating_sub(less);
    BYTES.set([now, most.max(now)]);
}

/// Returns the most bytes that an operation had allocated at the same time, and its result.
pub fn most_bytes<T>(operation: impl FnOnce() -> T) -> (usize, T) {
    let [before, _] = BYTES.get();
    BYTES.set([before; 2]);
    let result = operation();
    (BYTES.get()[1] - before, result)
}

struct Refusing;

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Returns whether this is the request to refuse.
fn refuses(bytes: usize) -> bool {
    let left = LEFT.get();
    if bytes < LEAST_BYTES || left == 0 {
        return false;
    }
    LEFT.set(left - 1);
    left == 1
}

// SAFETY: requests that are not refused go to the system's allocator, unchanged; null means refused.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        count(0, layout.size());
        // SAFETY: our caller guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        count(0, layout.size());
        // SAFETY: our caller guarantees what the system's allocator requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        // SAFETY: all blocks are the system's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if refuses(size) {
            return std::ptr::null_mut();
        }
        count(layout.size(), size);
        // SAFETY: all blocks are the system's, and our caller guarantees the rest.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Runs an operation with its first request for memory refused, then with its second one, and so on until it makes no
/// more. Each run is on what `prepare` returns; what it returns goes to `check`, with whether memory was refused.
/// Returns how often that was.
pub fn each_refused<P, T>(
    mut prepare: impl FnMut() -> P,
    mut operation: impl FnMut(P) -> T,
    mut check: impl FnMut(T, bool),
) -> usize {
    for refused in 1.. {
        let prepared = prepare();
        LEFT.set(refused);
        let result = operation(prepared);
        let was_refused = LEFT.replace(0) == 0;
        check(result, was_refused);
        if !was_refused {
            return refused - 1;
        }
    }
    unreachable!("an operation ends")
}

/// Runs an operation as [`each_refused`] does, on nothing that is prepared.
pub fn each_refused_of<T>(mut operation: impl FnMut() -> T, check: impl FnMut(T, bool)) -> usize {
    each_refused(|| (), |()| operation(), check)
}

/// How values of a family are written to fields, read and copied.
pub struct Family<S> {
    pub write: fn(&S, &mut Stream),
    pub read: fn(&mut Stream) -> Result<S, DecodeError>,
    pub copy: fn(&S) -> Option<S>,
}

impl<S> Family<S> {
    /// Reads a value from its fields, and copies it. Requires an equal one each time, or a refusal.
    pub fn is_read_and_copied(&self, value: &S) -> usize {
        let fields = |value: &S| Stream::of(|to| (self.write)(value, to));
        let stored = fields(value);
        let check = |made: Result<S, DecodeError>, refused| match made {
            Ok(made) => assert!(fields(&made) == stored, "other fields"),
            Err(error) => assert_eq!((error, refused), (DecodeError::NoMemory, true)),
        };
        let copy = || (self.copy)(value).ok_or(DecodeError::NoMemory);
        let read = |mut from: Stream| (self.read)(&mut from);
        each_refused(|| stored.clone(), read, check) + each_refused_of(copy, check)
    }
}
