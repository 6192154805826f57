//! The structures of the interface.

use std::ffi::{c_char, c_int, c_void};

/// The type of an array: `struct ArrowSchema`.
#[derive(Debug)]
#[repr(C)]
pub struct ArrowSchema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut ArrowSchema,
    pub(super) dictionary: *mut ArrowSchema,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(super) private_data: *mut c_void,
}

/// An array: `struct ArrowArray`.
#[derive(Debug)]
#[repr(C)]
pub struct ArrowArray {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *mut *const c_void,
    pub(super) children: *mut *mut ArrowArray,
    pub(super) dictionary: *mut ArrowArray,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(super) private_data: *mut c_void,
}

/// A stream of arrays of one type: `struct ArrowArrayStream`.
#[derive(Debug)]
#[repr(C)]
pub struct ArrowArrayStream {
    pub(super) get_schema:
        Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub(super) get_next:
        Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub(super) get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub(super) private_data: *mut c_void,
}

impl ArrowSchema {
    // SAFETY: null pointers, no functions and zeros are values of all fields.
    pub(super) const RELEASED: Self = unsafe { std::mem::zeroed() };
}

impl ArrowArray {
    // SAFETY: as above.
    pub(super) const RELEASED: Self = unsafe { std::mem::zeroed() };
}
