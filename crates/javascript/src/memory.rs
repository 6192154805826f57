//! The memory that JavaScript writes arguments to.

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
