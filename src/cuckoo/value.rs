//! Cuckoo filters as values of keys.

use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::{DecodeError, RdbWrite, Relocate};

pub use valkeybloom_sketches::cuckoo::Cuckoo;

use crate::family::{Family, Whole};
use crate::ffi::{AofWriter, Digest, Form, RdbReader};
use crate::settings::Setting;
use crate::sums::{InfoSection, Totals};
use crate::values::Stored;

use super::settings;

/// The bytes that a key's value takes in addition to its object.
pub const OVERHEAD_BYTES: u64 = Stored::<Cuckoo>::PLANNED_BYTES - Cuckoo::BASE_BYTES;

/// The table of filters, the summaries, and their table.
const ALLOCATIONS_BESIDE_FILTERS: u64 = 3;

impl Whole for Cuckoo {}

impl Family for Cuckoo {
    const NUMBER: usize = 1;
    const FORMS: &'static [Form] = &[Form::new(wire::TYPE_NAME, wire::RDB_VERSION)];
    const NAME: &'static str = "cuckoo";
    const INFO: InfoSection = InfoSection::new(
        c"cuckoo_core_metrics",
        &[
            c"cuckoo_total_memory_bytes",
            c"cuckoo_num_objects",
            c"cuckoo_num_filters_across_objects",
            c"cuckoo_num_items_across_objects",
            c"cuckoo_num_slots_across_objects",
        ],
    );

    fn settings() -> &'static [&'static Setting] {
        settings::ALL
    }

    fn load(from: &mut RdbReader, _form: usize, version: i32) -> Result<Self, DecodeError> {
        wire::read_rdb(version, from)
    }

    fn write(&self, to: &mut impl RdbWrite) {
        wire::write_rdb(self, to);
    }

    fn rewrite(&self, to: &mut AofWriter) {
        let header = wire::write_header(self);
        to.emit_numbered(c"CF.LOADCHUNK", 1, &header);
        for (cursor, chunk) in wire::chunks(self) {
            to.emit_numbered(c"CF.LOADCHUNK", cursor, chunk);
        }
    }

    fn digest(&self, to: &mut Digest) {
        to.add_bytes(&wire::write_header(self));
        for (index, filter) in (0..).zip(self.filters()) {
            // Empty filters are skipped, because they may or may not have memory for their slots.
            if filter.occupied() > 0 {
                to.add(index);
                to.add_bytes(filter.slots());
            }
        }
    }

    #[inline]
    fn memory_bytes(&self) -> u64 {
        Cuckoo::memory_bytes(self) + OVERHEAD_BYTES
    }

    fn allocations(&self) -> u64 {
        self.filters().len() as u64 + ALLOCATIONS_BESIDE_FILTERS
    }

    #[inline]
    fn totals(&self) -> Totals {
        // A damaged file may claim any number of items.
        let items = self.items().min(self.size());
        let filters = self.filters().len() as u64;
        let bytes = Family::memory_bytes(self);
        [bytes, 1, filters, items, self.size(), 0, 0]
    }

    fn try_clone(&self) -> Option<Self> {
        Cuckoo::try_clone(self)
    }

    fn relocate(&mut self, begin: usize, by: &mut impl Relocate) -> Option<usize> {
        Cuckoo::relocate(self, begin, by)
    }
}
