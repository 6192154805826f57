//! Keys with count-min sketches: storing, replicating and publishing their changes.

use std::ffi::CStr;

use crate::ffi::Ctx;
use crate::keys;
use crate::settings::memory_limits;

use super::value::{CountMin, OVERHEAD_BYTES};

/// A key opened for reading.
pub type Reader<'k, 'a> = keys::Reader<'k, 'a, CountMin>;
/// Sketches under several keys, to be read together.
pub type Readers<'k, 'a> = keys::Readers<'k, 'a, CountMin>;
/// A key opened for writing.
pub type Writer<'k, 'a> = keys::Writer<'k, 'a, CountMin>;

/// The event of a new sketch.
const CREATED: &CStr = c"cms.init";
/// The event of items counted.
const COUNTED: &CStr = c"cms.incrby";
/// The event of sketches merged into this one.
const MERGED: &CStr = c"cms.merge";

/// Returns the most bytes of a new sketch, without its overhead. A command that was already executed elsewhere has no
/// limit.
pub fn max_bytes_for(ctx: Ctx) -> u64 {
    if ctx.must_obey() {
        return u64::MAX;
    }
    let (filter_bytes, object_bytes) = memory_limits(OVERHEAD_BYTES);
    object_bytes.min(filter_bytes.saturating_sub(OVERHEAD_BYTES))
}

impl Writer<'_, '_> {
    /// Stores a new sketch under the empty key.
    pub fn create(self, sketch: CountMin) {
        let mut change = self.store(sketch, None);
        change.replicate_verbatim();
        change.publish([CREATED]);
    }

    /// Publishes that the command counted items.
    #[inline]
    pub fn counted(self) {
        self.publish_verbatim([COUNTED]);
    }

    /// Publishes that the command replaced the counters.
    pub fn merged(self) {
        self.publish_verbatim([MERGED]);
    }
}
