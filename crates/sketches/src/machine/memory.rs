//! Fallible allocation, relocation of allocations, and prefetching.

#[cfg(not(target_family = "wasm"))]
use std::alloc::alloc_zeroed as allocate_zeroed;

/// Moves an object's allocations.
pub trait Relocate {
    /// Returns whether to stop. Callers check before each step but the first.
    fn should_stop(&mut self) -> bool;
    /// Moves a table: returns the same values, perhaps at another address.
    fn table<T>(&mut self, table: Vec<T>) -> Vec<T>;
    /// Moves a blob: returns the same bytes, perhaps at another address.
    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]>;
    /// Visits a box that stays where it is.
    #[allow(clippy::borrowed_box, reason = "it is about the block of the box")]
    fn fixed<T>(&mut self, _block: &Box<T>) {}
}

/// Allocates `len` zero bytes, or returns `None` if allocation fails.
///
/// The allocator returns memory that is zero already: a fresh 64 MiB bitmap costs a mapping, not a pass over 64 MiB.
pub fn zeroed(len: usize) -> Option<Box<[u8]>> {
    let layout = std::alloc::Layout::array::<u8>(len).ok()?;
    if len == 0 {
        return Some(Box::default());
    }
    // SAFETY: the layout's size is `len`, which is not zero.
    let block = unsafe { allocate_zeroed(layout) };
    if block.is_null() {
        return None;
    }
    // SAFETY: the block is `len` initialised bytes from the global allocator, with the layout that the box will free,
    // and it has no other owner.
    Some(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(block, len)) })
}

/// Allocates zeros in WebAssembly, whose allocator would also write them to memory that has just grown, and is zero.
#[cfg(target_family = "wasm")]
unsafe fn allocate_zeroed(layout: std::alloc::Layout) -> *mut u8 {
    let grown = core::arch::wasm32::memory_size::<0>() << 16;
    // SAFETY: the caller promises that the layout's size is not zero.
    let block = unsafe { std::alloc::alloc(layout) };
    if !block.is_null() {
        let used = grown.saturating_sub(block.addr()).min(layout.size());
        // SAFETY: the block has the layout's size.
        unsafe { block.write_bytes(0, used) };
    }
    block
}

/// Allocates an empty table with capacity for exactly `len` values, or returns `None` if allocation fails.
pub fn reserved<T>(len: usize) -> Option<Vec<T>> {
    let mut table = Vec::new();
    table.try_reserve_exact(len).ok()?;
    Some(table)
}

/// Collects values into a table without spare capacity, or returns `None` if one of them is missing or allocation fails.
pub fn collected<T>(values: impl ExactSizeIterator<Item = Option<T>>) -> Option<Vec<T>> {
    let mut table = reserved(values.len())?;
    for value in values {
        table.push(value?);
    }
    Some(table)
}

/// Returns the size of a type on a 64-bit server in bytes, which the caller states. If the statement is wrong, no build for
/// a 64-bit machine succeeds. Other machines plan objects of such servers, where their own sizes would be wrong.
pub const fn stated<T>(bytes: usize) -> usize {
    assert!(
        !cfg!(target_pointer_width = "64") || size_of::<T>() == bytes,
        "the stated size of a type is wrong"
    );
    bytes
}

/// Size of a pointer to bytes, with their number, in bytes.
pub const BLOB_POINTER: usize = stated::<Box<[u8]>>(16);

/// Frees a table's spare capacity. The table keeps it if an exact copy can't be allocated.
pub fn fit<T>(table: &mut Vec<T>) {
    if table.capacity() > table.len()
        && let Some(mut exact) = reserved(table.len())
    {
        exact.append(table);
        *table = exact;
    }
}

/// Boxes the values of a table, or returns `None` if it has spare capacity and an exact copy can't be allocated.
pub fn boxed<T>(mut table: Vec<T>) -> Option<Box<[T]>> {
    fit(&mut table);
    (table.capacity() == table.len()).then(|| table.into_boxed_slice())
}

/// Copies values without spare capacity, or returns `None` if allocation fails.
pub fn copied<T: Copy>(values: &[T]) -> Option<Box<[T]>> {
    let mut copy = reserved(values.len())?;
    copy.extend_from_slice(values);
    Some(copy.into_boxed_slice())
}

/// Returns an index of something that is in memory, and so fits a `usize`.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "it fits, see above")]
pub const fn index(number: u64) -> usize {
    number as usize
}

/// Prefetches the cache line of `bytes[index]`. It is a hint: it does not affect results, and an index past the end is
/// allowed.
#[inline]
pub fn prefetch(bytes: &[u8], index: usize) {
    let address = bytes.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches no memory that the program can see and never faults, whatever the
    // address; SSE, which it needs, is part of every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch touches no memory that the program can see and never faults, whatever the
    // address; every AArch64 has it. It changes neither flags nor the stack.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
