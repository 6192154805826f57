//! What defragmentation moves, and how often.

use std::sync::atomic::Ordering::Relaxed;

use crate::bloom::Relocate;
use crate::config;
use crate::ffi::Defrag;
use crate::ledger;

/// Moves what is not large.
pub struct Mover<'d>(pub &'d Defrag);

impl Mover<'_> {
    fn slice<T>(&self, slice: Box<[T]>) -> Box<[T]> {
        if size_of_val(&*slice) as u64 > config::large_bytes() {
            return slice;
        }
        let (slice, moved) = self.0.relocate_slice(slice);
        count_moved(moved);
        slice
    }
}

impl Relocate for Mover<'_> {
    fn has_enough(&mut self) -> bool {
        self.0.should_stop()
    }

    fn table<T>(&mut self, table: Vec<T>) -> Vec<T> {
        self.slice(table.into_boxed_slice()).into_vec()
    }

    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
        self.slice(blob)
    }
}

/// Counts an allocation that was moved, or was not.
pub fn count_moved(moved: bool) {
    let counter = if moved {
        &ledger::DEFRAG_HITS
    } else {
        &ledger::DEFRAG_MISSES
    };
    counter.fetch_add(1, Relaxed);
}
