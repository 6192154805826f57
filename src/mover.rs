//! What defragmentation moves, and how often.

use std::sync::atomic::Ordering::Relaxed;

use crate::config;
use crate::ffi::Defrag;
use crate::ledger::{self, Entered, Weighed};
use valkeybloom_sketches::Relocate;

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

/// Moves a value's box, and by `relocate` the allocations within, from the step that defragmentation has come to on.
/// `relocate` returns the step at which to go on. Returns false if it ran out of time.
pub fn defrag<V: Weighed>(
    mut value: Box<Entered<V>>,
    by: &Defrag,
    relocate: impl FnOnce(&mut V, usize, &mut Mover) -> Option<usize>,
) -> (Box<Entered<V>>, bool) {
    if !config::defrag_is_on() {
        return (value, true);
    }
    let begin = by.cursor();
    if begin == 0 {
        let moved;
        (value, moved) = by.relocate(value);
        count_moved(moved);
    }
    let next = relocate(value.value_mut(), begin, &mut Mover(by));
    if let Some(next) = next {
        by.set_cursor(next);
    }
    (value, next.is_none())
}

/// Counts an allocation that was moved, or was not.
fn count_moved(moved: bool) {
    let counter = if moved {
        &ledger::DEFRAG_HITS
    } else {
        &ledger::DEFRAG_MISSES
    };
    counter.fetch_add(1, Relaxed);
}
