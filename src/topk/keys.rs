//! Keys with top-k lists: storing, replicating and publishing their changes.

use std::ffi::CStr;
use std::ops::Range;

use crate::ffi::{Argument, Argv, Ctx};
use crate::keys;
use crate::settings::memory_limits;

use super::value::{OVERHEAD_BYTES, TopK};

/// A key opened for reading.
pub type Reader<'k, 'a> = keys::Reader<'k, 'a, TopK>;
/// A key opened for writing.
pub type Writer<'k, 'a> = keys::Writer<'k, 'a, TopK>;

/// The event of a new list.
const CREATED: &CStr = c"topk.reserve";
/// The event of items added to a list.
const ADDED: &CStr = c"topk.add";

/// The number of words in a replicated part of a command, an even number.
const PART: usize = 1024;

/// Returns the limit on the memory of an object in bytes: none for a command that was already executed elsewhere.
pub fn limit_for(ctx: Ctx) -> u64 {
    if ctx.must_obey() {
        return u64::MAX;
    }
    let (filter_bytes, object_bytes) = memory_limits(OVERHEAD_BYTES);
    filter_bytes.min(object_bytes)
}

impl Writer<'_, '_> {
    /// Stores a new list under the empty key.
    pub fn create(self, object: TopK) {
        let mut change = self.store(object, None);
        change.replicate_verbatim();
        change.publish([CREATED]);
    }

    /// Publishes that the command added all of its items.
    #[inline]
    pub fn added_all(self) {
        self.publish_verbatim([ADDED]);
    }

    /// Publishes that this command added the items in these of its words, and no others.
    pub fn added(self, command: &CStr, args: Argv<'_>, words: Range<usize>) {
        let mut change = self.close();
        for start in words.clone().step_by(PART) {
            let part = start..words.end.min(start + PART);
            let part: Vec<_> = part.map(|index| args.string(index)).collect();
            change.replicate(command, &[Argument::Items(&part)]);
        }
        change.publish([ADDED]);
    }
}
