//! The memory that JavaScript writes arguments to.

use valkeybloom_ffi::border::{borrow, call, require_stack};
use valkeybloom_ffi::object::Object;

/// Allocates bytes for JavaScript. Returns null if there is no memory for them.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_allocate(length: usize) -> *mut u8 {
    require_stack();
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

/// Returns whether answers of an object depend on the time: whether it is a Bloom filter with a window.
///
/// # Safety
/// The pointer is null, or an object's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_has_time(object: *const Object) -> bool {
    let mut has_time = false;
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        if let Object::Bloom(filter) = borrow(object)? {
            has_time = filter.read(|filter| filter.shape().window().is_some())?;
        }
        Ok(())
    });
    has_time
}
