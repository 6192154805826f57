//! Large blocks of memory, in large pages if the system has them. A filter is read at random places, and each page
//! touched costs time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{copy_nonoverlapping, null_mut};

/// The system's allocator, but pages of their own for large blocks.
pub struct Pages;

/// The size in bytes from which a block has pages of its own.
const LARGE: usize = 4 << 20;

/// The alignment that every page has.
const PAGE: usize = 4096;

const fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

/// Maps pages, which are zero, or returns null.
fn map(bytes: usize) -> *mut u8 {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping at an address that the system chooses touches no other memory.
    let block = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
    if block == libc::MAP_FAILED {
        return null_mut();
    }
    advise(block.cast(), bytes);
    block.cast()
}

/// Requests large pages. If there are none, the small ones stay.
fn advise(block: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the pages are this block's, and the advice does not change what they hold.
    unsafe {
        libc::madvise(block.cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (block, bytes);
}

// SAFETY: a block is allocated, resized and freed in one of two ways, which its layout alone decides. Both ways keep
// the trait's contract: pages are aligned, are zero when they are new, and belong to one block.
unsafe impl GlobalAlloc for Pages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promises are those that the system's allocator needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: the block was mapped with this size, and no one uses it any more.
            unsafe { libc::munmap(block.cast(), layout.size()) };
        } else {
            // SAFETY: the block is of the system's allocator, and has this layout.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size, rounded up to the alignment, does not overflow.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(layout), is_large(new)) {
            // SAFETY: the block is of the system's allocator, and has this layout.
            (false, false) => unsafe { System.realloc(block, layout, size) },
            #[cfg(target_os = "linux")]
            (true, true) => {
                // SAFETY: the block was mapped with this size, and the caller gives its address up.
                let moved = unsafe {
                    libc::mremap(block.cast(), layout.size(), size, libc::MREMAP_MAYMOVE)
                };
                if moved == libc::MAP_FAILED {
                    return null_mut();
                }
                advise(moved.cast(), size);
                moved.cast()
            }
            _ => {
                // SAFETY: the new layout has a size, because the caller promises that.
                let moved = unsafe { self.alloc(new) };
                if !moved.is_null() {
                    let kept = size.min(layout.size());
                    // SAFETY: both blocks have that many bytes, and they are two; the old one is the caller's to free.
                    unsafe {
                        copy_nonoverlapping(block, moved, kept);
                        self.dealloc(block, layout);
                    }
                }
                moved
            }
        }
    }
}
