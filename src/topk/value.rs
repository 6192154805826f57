//! Top-k lists as values of keys.

use std::sync::OnceLock;

use valkeybloom_sketches::topk::wire;
use valkeybloom_sketches::{DecodeError, RdbWrite, Relocate, Seed};

pub use valkeybloom_sketches::topk::TopK;

use crate::family::{Family, Whole};
use crate::ffi::{Form, RdbReader, server};
use crate::sums::{InfoSection, Totals};
use crate::values::Stored;

/// The bytes that a key's value takes in addition to its object.
pub const OVERHEAD_BYTES: u64 = Stored::<TopK>::PLANNED_BYTES - TopK::BASE_BYTES;

/// The cells, the heap, the search, and the slots' table with a first chunk.
const ALLOCATIONS_BESIDE_ITEMS: u64 = 5;

/// Returns the seed of all lists' indexes, a secret of this process.
pub fn seed() -> Seed {
    static SEED: OnceLock<Seed> = OnceLock::new();
    *SEED.get_or_init(|| Seed::new(server::random_bytes()))
}

impl Whole for TopK {}

impl Family for TopK {
    const NUMBER: usize = 3;
    const FORMS: &'static [Form] = &[Form::new(wire::TYPE_NAME, wire::RDB_VERSION)];
    const YIELDS: bool = true;
    const NAME: &'static str = "topk";
    const INFO: InfoSection = InfoSection::new(
        c"topk_core_metrics",
        &[
            c"topk_total_memory_bytes",
            c"topk_num_objects",
            c"topk_num_items_across_objects",
            c"topk_num_cells_across_objects",
        ],
    );

    fn load(from: &mut RdbReader, _form: usize, version: i32) -> Result<Self, DecodeError> {
        wire::read_rdb(version, from, seed())
    }

    fn beyond_limits(&self) -> Option<&'static str> {
        self.shape().within_limits().err().map(wire::reason)
    }

    fn write(&self, to: &mut impl RdbWrite) {
        wire::write_rdb(self, to);
    }

    #[inline]
    fn memory_bytes(&self) -> u64 {
        TopK::memory_bytes(self) + OVERHEAD_BYTES
    }

    fn allocations(&self) -> u64 {
        u64::from(self.listed()) + ALLOCATIONS_BESIDE_ITEMS
    }

    #[inline]
    fn totals(&self) -> Totals {
        let bytes = Family::memory_bytes(self);
        let (items, cells) = (self.listed().into(), self.shape().cells());
        [bytes, 1, items, cells, 0, 0, 0]
    }

    fn try_clone(&self) -> Option<Self> {
        TopK::try_clone(self)
    }

    fn relocate(&mut self, begin: usize, by: &mut impl Relocate) -> Option<usize> {
        TopK::relocate(self, begin, by)
    }
}
