//! Keys with t-digests: storing, replicating and publishing their changes.

use std::ffi::CStr;

use crate::keys;
use crate::settings::memory_limits;

use super::value::{OVERHEAD_BYTES, TDigest};

/// A key opened for reading.
pub type Reader<'k, 'a> = keys::Reader<'k, 'a, TDigest>;
/// Keys opened for reading together.
pub type Readers<'k, 'a> = keys::Readers<'k, 'a, TDigest>;
/// A key opened for writing.
pub type Writer<'k, 'a> = keys::Writer<'k, 'a, TDigest>;

/// The event of a new digest.
const CREATED: &CStr = c"tdigest.create";
/// The event of values added to a digest.
const ADDED: &CStr = c"tdigest.add";
/// The event of a digest whose observations were removed.
const RESET: &CStr = c"tdigest.reset";
/// The event of a digest that a merge made.
const MERGED: &CStr = c"tdigest.merge";

/// Returns the limit on the memory of a client's full digest in bytes.
pub fn max_bytes() -> u64 {
    let (filter_bytes, object_bytes) = memory_limits(OVERHEAD_BYTES);
    filter_bytes.min(object_bytes)
}

impl Writer<'_, '_> {
    /// Stores a new digest under the empty key.
    pub fn create(self, digest: TDigest) {
        let mut change = self.store(digest, None);
        change.replicate_verbatim();
        change.publish([CREATED]);
    }

    /// Publishes that the command added all of its values.
    #[inline]
    pub fn added(self) {
        self.publish_verbatim([ADDED]);
    }

    /// Publishes that the command removed all observations.
    pub fn emptied(self) {
        self.publish_verbatim([RESET]);
    }

    /// Stores the digest that a merge made. Like `RedisBloom`, and the server's own commands with `STORE` in their names,
    /// this replaces the key, and so removes its time to live.
    pub fn store_merged(self, digest: TDigest) {
        let mut change = self.store(digest, None);
        change.replicate_verbatim();
        change.publish([MERGED]);
    }
}
