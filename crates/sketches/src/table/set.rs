//! Fingerprints alone.

use super::refused::Refused;
use super::shards::{Room, Shards};

/// A set of fingerprints.
#[derive(Debug)]
pub struct Set(pub(super) Shards);

impl Set {
    /// Returns whether a fingerprint is in the set.
    #[inline]
    pub fn contains(&self, fingerprint: u64) -> bool {
        let (_, _, found) = self.0.find(fingerprint);
        found.is_there()
    }

    /// Adds a fingerprint. Returns whether it is new.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn add(&mut self, fingerprint: u64, room: Room) -> Result<bool, Refused> {
        let at = self.0.locate(fingerprint);
        let is_new = self.0.insert(&at, 0, room)?.is_none();
        if is_new {
            self.0.settle(at.address, fingerprint, room);
        }
        Ok(is_new)
    }
}
