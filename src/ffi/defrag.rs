//! Active defragmentation: moving a value's allocations to blocks that the server chooses.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use valkey_module::raw;

use super::api::call;

/// One step of the defragmentation of one value.
///
/// The server makes the context for one call of a value's callback. It is alive during that call, and every `unsafe`
/// block below relies on this.
pub struct Defrag(pub(super) *mut raw::RedisModuleDefragCtx);

impl Defrag {
    /// Returns whether the time for this step is over.
    pub fn should_stop(&self) -> bool {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_DefragShouldStop(self.0)) != 0 }
    }

    /// Returns the cursor at which the last step stopped; 0 in the first step.
    pub fn cursor(&self) -> usize {
        let mut cursor = 0;
        // SAFETY: the context is alive; the server writes a number, or leaves the 0.
        unsafe { call!(RedisModule_DefragCursorGet(self.0, &raw mut cursor)) };
        cursor as usize
    }

    /// Sets the cursor at which the next step begins.
    pub fn set_cursor(&self, cursor: usize) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_DefragCursorSet(self.0, cursor as _)) };
    }

    /// Moves a block; returns its new place, or `None` if it stays.
    ///
    /// # Safety
    /// The block comes from the server's allocator, and is not used after a move.
    unsafe fn move_block(&self, block: *mut c_void) -> Option<NonNull<c_void>> {
        // SAFETY: the context is alive, and our caller guarantees the rest.
        NonNull::new(unsafe { call!(RedisModule_DefragAlloc(self.0, block)) })
    }

    /// Moves a box if the server wants to, and returns whether it moved.
    pub fn relocate<T>(&self, value: Box<T>) -> (Box<T>, bool) {
        let block = Box::into_raw(value);
        // SAFETY: the block belongs to a box, so it is from the server's allocator. If the server moves it, it
        // copies the bytes to a block of the same size and frees the old one, which is a move in Rust's sense.
        unsafe {
            match self.move_block(block.cast()) {
                Some(moved) => (Box::from_raw(moved.as_ptr().cast()), true),
                None => (Box::from_raw(block), false),
            }
        }
    }

    /// Moves a boxed slice if the server wants to, and returns whether it moved.
    pub fn relocate_slice<T>(&self, value: Box<[T]>) -> (Box<[T]>, bool) {
        let len = value.len();
        if len == 0 {
            return (value, false);
        }
        let block = Box::into_raw(value);
        // SAFETY: the slice is not empty, so the block is its box's allocation, from the server's allocator.
        // If the server moves it, it copies the bytes to a block of the same size, which holds `len` elements
        // too, and frees the old one.
        unsafe {
            match self.move_block(block.cast()) {
                Some(moved) => {
                    let moved = ptr::slice_from_raw_parts_mut(moved.as_ptr().cast(), len);
                    (Box::from_raw(moved), true)
                }
                None => (Box::from_raw(block), false),
            }
        }
    }
}
