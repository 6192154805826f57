//! Measures what the server's allocator gives for a value beyond the bytes that the value requests.

use valkeybloom_sketches::Relocate;

use crate::family::Family;
use crate::ffi::bytes_given;

/// Visits the blocks of a value as defragmentation does, but leaves them where they are, and adds up the bytes by which each
/// is larger than requested.
struct Meter {
    spare_bytes: u64,
}

impl Meter {
    fn measure<T>(&mut self, block: *const T, asked: usize) {
        self.spare_bytes += bytes_given(block).saturating_sub(asked as u64);
    }
}

impl Relocate for Meter {
    fn should_stop(&mut self) -> bool {
        false
    }

    fn table<T>(&mut self, table: Vec<T>) -> Vec<T> {
        let asked = table.capacity() * size_of::<T>();
        if asked > 0 {
            self.measure(table.as_ptr(), asked);
        }
        table
    }

    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
        self.table(blob.into_vec()).into_boxed_slice()
    }

    fn fixed<T>(&mut self, block: &Box<T>) {
        self.measure(&raw const **block, size_of::<T>());
    }
}

/// Returns the bytes that the allocator gave for the blocks of a value beyond the requested ones. The few blocks
/// that defragmentation does not visit count as if they were of the requested size.
pub fn spare_bytes<V: Family>(value: &mut V) -> u64 {
    let mut meter = Meter { spare_bytes: 0 };
    value.relocate(0, &mut meter);
    meter.spare_bytes
}
