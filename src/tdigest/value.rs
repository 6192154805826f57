//! T-digests as values of keys.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use valkeybloom_sketches::tdigest::wire;
use valkeybloom_sketches::{DecodeError, RdbWrite, Relocate};

pub use valkeybloom_sketches::tdigest::TDigest;

use crate::family::{Family, Whole};
use crate::ffi::{Form, RdbReader, server};
use crate::sums::{InfoSection, Totals};
use crate::values::Stored;

/// The bytes that a key's value takes in addition to its object.
pub const OVERHEAD_BYTES: u64 = Stored::<TDigest>::PLANNED_BYTES - TDigest::BASE_BYTES;

/// The number of digests mended since the last line in the log.
static MENDED: AtomicU64 = AtomicU64::new(0);

/// Logs how many digests were mended, if there were any.
pub fn log_mended() {
    let count = MENDED.swap(0, Relaxed);
    if count > 0 {
        server::log_warning(&format!(
            "mended t-digests whose means were infinite or not numbers: {count}"
        ));
    }
}

impl Whole for TDigest {}

impl Family for TDigest {
    const NUMBER: usize = 4;
    const FORMS: &'static [Form] = &[Form::new(wire::TYPE_NAME, wire::RDB_VERSION)];
    const YIELDS: bool = true;
    const NAME: &'static str = "tdigest";
    const INFO: InfoSection = InfoSection::new(
        c"tdigest_core_metrics",
        &[
            c"tdigest_total_memory_bytes",
            c"tdigest_num_objects",
            c"tdigest_num_nodes_across_objects",
            c"tdigest_num_observations_across_objects",
        ],
    );

    fn load(from: &mut RdbReader, _form: usize, version: i32) -> Result<Self, DecodeError> {
        let wire::Loaded { digest, is_mended } = wire::load_rdb(version, from)?;
        if is_mended {
            MENDED.fetch_add(1, Relaxed);
            if !server::is_loading() {
                log_mended();
            }
        }
        Ok(digest)
    }

    fn beyond_limits(&self) -> Option<&'static str> {
        (!self.compression().is_within_limits()).then_some("compression out of range")
    }

    fn write(&self, to: &mut impl RdbWrite) {
        wire::write_rdb(self, to);
    }

    #[inline]
    fn memory_bytes(&self) -> u64 {
        TDigest::memory_bytes(self) + OVERHEAD_BYTES
    }

    fn allocations(&self) -> u64 {
        5
    }

    #[inline]
    fn totals(&self) -> Totals {
        let bytes = Family::memory_bytes(self);
        let nodes = self.merged_nodes() + self.unmerged_nodes();
        let observations = self.observations().cast_unsigned();
        [bytes, 1, nodes as u64, observations, 0, 0, 0]
    }

    fn try_clone(&self) -> Option<Self> {
        TDigest::try_clone(self)
    }

    fn relocate(&mut self, begin: usize, by: &mut impl Relocate) -> Option<usize> {
        TDigest::relocate(self, begin, by)
    }
}
