//! Defragmentation of a value's allocations, and the counts of moved ones.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use valkeybloom_sketches::Relocate;

use crate::ffi::Defrag;
use crate::settings;

/// The number of allocations that defragmentation moved.
pub static HITS: AtomicU64 = AtomicU64::new(0);
/// The number of allocations that defragmentation left where they were.
pub static MISSES: AtomicU64 = AtomicU64::new(0);

/// Moves the allocations of a value, except large ones.
pub struct Mover<'d>(pub &'d Defrag);

impl Mover<'_> {
    fn slice<T>(&self, slice: Box<[T]>) -> Box<[T]> {
        if size_of_val(&*slice) as u64 > settings::LARGE.unsigned() {
            return slice;
        }
        let (slice, moved) = self.0.relocate_slice(slice);
        count_moved(moved);
        slice
    }
}

impl Relocate for Mover<'_> {
    fn should_stop(&mut self) -> bool {
        self.0.should_stop()
    }

    fn table<T>(&mut self, table: Vec<T>) -> Vec<T> {
        self.slice(table.into_boxed_slice()).into_vec()
    }

    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
        self.slice(blob)
    }
}

/// Counts an allocation as moved or not moved.
pub fn count_moved(moved: bool) {
    let counter = if moved { &HITS } else { &MISSES };
    counter.fetch_add(1, Relaxed);
}
