//! Allocators of tests that move memory, as defragmentation does.

use valkeybloom_sketches::Relocate;
use valkeybloom_sketches::bloom::Object;

/// Moves this number of allocations, and then stops.
pub struct Moving(pub usize);

impl Relocate for Moving {
    fn should_stop(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }

    fn table<T>(&mut self, table: Vec<T>) -> Vec<T> {
        let mut moved = Vec::with_capacity(table.len());
        moved.extend(table);
        moved
    }

    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
        blob.to_vec().into_boxed_slice()
    }
}

/// Moves allocations, three at a time, and adds up their bytes.
#[derive(Default)]
pub struct Weighing {
    /// The sum of the bytes.
    pub bytes: u64,
    looks: u8,
}

impl Relocate for Weighing {
    fn should_stop(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        self.looks.is_multiple_of(3)
    }

    fn table<T>(&mut self, table: Vec<T>) -> Vec<T> {
        self.bytes += (table.capacity() * size_of::<T>()) as u64;
        let mut moved = Vec::with_capacity(table.capacity());
        moved.extend(table);
        moved
    }

    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
        self.bytes += blob.len() as u64;
        blob.to_vec().into_boxed_slice()
    }
}

/// Moves the memory of an object in steps, and applies `change` to each blob that moves.
pub fn relocate(
    object: &mut Object,
    mut steps: impl FnMut() -> usize,
    change: impl FnMut(&mut Vec<u8>),
) {
    struct Changing<C>(Moving, C);

    impl<C: FnMut(&mut Vec<u8>)> Relocate for Changing<C> {
        fn should_stop(&mut self) -> bool {
            self.0.should_stop()
        }

        fn table<T>(&mut self, table: Vec<T>) -> Vec<T> {
            self.0.table(table)
        }

        fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
            let mut moved = blob.to_vec();
            (self.1)(&mut moved);
            moved.into_boxed_slice()
        }
    }

    let parts = usize::try_from(object.allocations()).unwrap();
    let mut moving = Changing(Moving(steps()), change);
    let mut begin = 0;
    while let Some(next) = object.relocate(begin, &mut moving) {
        assert!(
            next > begin && next < parts,
            "{begin}, then {next} of {parts}"
        );
        begin = next;
        moving.0.0 = steps();
    }
}
