//! Count-min sketches as values of keys.

use valkeybloom_sketches::cms::wire;
use valkeybloom_sketches::{DecodeError, RdbWrite, Relocate};

pub use valkeybloom_sketches::cms::CountMin;

use crate::family::{Family, Whole};
use crate::ffi::{Digest, Form, RdbReader};
use crate::settings::Setting;
use crate::sums::{InfoSection, Totals};
use crate::values::Stored;

use super::settings;

/// The bytes that a key's value takes in addition to its sketch.
pub const OVERHEAD_BYTES: u64 = Stored::<CountMin>::PLANNED_BYTES - CountMin::BASE_BYTES;

impl Whole for CountMin {}

impl Family for CountMin {
    const NUMBER: usize = 2;
    const FORMS: &'static [Form] =
        &[Form::new(wire::TYPE_NAME, wire::RDB_VERSION).versioned_by(|| &settings::ENCODING)];
    const YIELDS: bool = true;
    const NAME: &'static str = "cms";
    const INFO: InfoSection = InfoSection::new(
        c"cms_core_metrics",
        &[
            c"cms_total_memory_bytes",
            c"cms_num_objects",
            c"cms_num_counters_across_objects",
        ],
    );

    fn settings() -> &'static [&'static Setting] {
        settings::ALL
    }

    fn load(from: &mut RdbReader, _form: usize, version: i32) -> Result<Self, DecodeError> {
        wire::read_rdb(version, from)
    }

    fn beyond_limits(&self) -> Option<&'static str> {
        (!self.shape().is_within_limits()).then_some("shape out of range")
    }

    fn write(&self, to: &mut impl RdbWrite) {
        wire::write_rdb(self, Self::FORMS[0].version(), to);
    }

    fn digest(&self, to: &mut Digest) {
        let shape = self.shape();
        for number in [
            shape.width(),
            shape.depth(),
            shape.cell_size().bytes(),
            self.count(),
        ] {
            to.add(number);
        }
        to.add_bytes(self.table());
    }

    #[inline]
    fn memory_bytes(&self) -> u64 {
        CountMin::memory_bytes(self) + OVERHEAD_BYTES
    }

    fn allocations(&self) -> u64 {
        2
    }

    #[inline]
    fn totals(&self) -> Totals {
        let bytes = Family::memory_bytes(self);
        [bytes, 1, self.shape().counters(), 0, 0, 0, 0]
    }

    fn try_clone(&self) -> Option<Self> {
        CountMin::try_clone(self)
    }

    fn relocate(&mut self, _begin: usize, by: &mut impl Relocate) -> Option<usize> {
        CountMin::relocate(self, by);
        None
    }
}
