//! Keys with count-min sketches: storing, replicating and publishing their changes.

use std::ffi::CStr;

use valkeybloom_sketches::cms::CellSize;

use crate::ffi::{Argument, Argv, Ctx, Str};
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
    /// Stores a new sketch under the empty key, for the words of this command.
    pub fn create(self, sketch: CountMin, command: &CStr, args: Argv) {
        let needs_option = sketch.shape().cell_size() != CellSize::default();
        let mut change = self.store(sketch, None);
        if needs_option {
            change.replicate_verbatim();
        } else {
            // RedisBloom 8.8 does not know CELL_SIZE.
            let shape = [2, 3].map(|index| args.string(index));
            change.replicate(command, &[Argument::Items(&shape)]);
        }
        change.publish([CREATED]);
    }

    /// Publishes that the command counted all of its items.
    #[inline]
    pub fn counted_all(self) {
        self.publish_verbatim([COUNTED]);
    }

    /// Publishes that these items were counted, each followed by its increment.
    pub fn counted(self, pairs: &[Str]) {
        let mut change = self.close();
        change.replicate(c"CMS.INCRBY", &[Argument::Items(pairs)]);
        change.publish([COUNTED]);
    }

    /// Publishes that the command replaced the counters.
    pub fn merged(self) {
        self.publish_verbatim([MERGED]);
    }
}
