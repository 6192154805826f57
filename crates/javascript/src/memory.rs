//! The memory that JavaScript writes arguments to, and the allocator.

use valkeybloom_bindings::Bloom;

use super::border::{Status, call, put, slice};

/// Allocates bytes for JavaScript. Returns null if there is no memory for them.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_allocate(length: usize) -> *mut u8 {
    let mut bytes: Vec<u64> = Vec::new();
    match bytes.try_reserve_exact(length.div_ceil(8)) {
        Ok(()) => bytes.leak().as_mut_ptr().cast(),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Frees what [`valkeybloom_allocate`] returned for this length.
///
/// # Safety
/// The pointer is from there, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_deallocate(bytes: *mut u8, length: usize) {
    if !bytes.is_null() {
        // SAFETY: `valkeybloom_allocate` made a vector with this pointer and capacity.
        drop(unsafe { Vec::<u64>::from_raw_parts(bytes.cast(), 0, length.div_ceil(8)) });
    }
}

/// Sets `precedes` to whether additions alone can lead from the header of a Bloom filter's chunks to a later one.
///
/// # Safety
/// The headers have these lengths, and `precedes` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_precedes(
    header: *const u8,
    header_length: usize,
    later: *const u8,
    later_length: usize,
    precedes: *mut bool,
) -> Status {
    // SAFETY: the caller promises it.
    call(|| unsafe {
        let (header, later) = (slice(header, header_length)?, slice(later, later_length)?);
        put(precedes, Bloom::precedes(header, later))
    })
}

#[cfg(target_family = "wasm")]
mod allocator {
    use core::arch::wasm32::memory_size;
    use std::alloc::{GlobalAlloc, Layout, System};

    const PAGE: usize = 65_536;

    /// The allocator of the standard library, which would write zeros to memory that is zero already: memory that has
    /// just grown. For a filter of 100 MB that blocks the event loop for some 50 ms.
    struct Allocator;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    // SAFETY: it passes everything on to an allocator.
    unsafe impl GlobalAlloc for Allocator {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller's promise is the same.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: the caller's promise is the same.
            unsafe { System.dealloc(block, layout) }
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            // SAFETY: the caller's promise is the same.
            unsafe { System.realloc(block, layout, size) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            let used_end = memory_size::<0>() * PAGE;
            // SAFETY: the caller's promise is the same.
            let block = unsafe { System.alloc(layout) };
            if !block.is_null() {
                let used = used_end.saturating_sub(block.addr()).min(layout.size());
                // SAFETY: the block has this size at least.
                unsafe { block.write_bytes(0, used) };
            }
            block
        }
    }
}
