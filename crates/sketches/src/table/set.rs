//! Fingerprints of which nothing is kept.

use super::refused::Refused;
use super::shards::{Room, Shards};

/// A set of fingerprints.
#[derive(Debug)]
pub struct Set(pub(super) Shards);

impl Set {
    /// Returns the number of fingerprints.
    pub const fn fingerprints(&self) -> u64 {
        self.0.entries()
    }

    /// Returns whether a fingerprint is in the set.
    #[inline]
    pub fn contains(&self, fingerprint: u64) -> bool {
        self.0.find(fingerprint).2.is_there()
    }

    /// Adds a fingerprint. Returns whether it is new.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn add(&mut self, fingerprint: u64, room: Room) -> Result<bool, Refused> {
        let (at, _, found) = self.0.find(fingerprint);
        if !found.is_there() {
            self.0.insert(&at, found, 0, room)?;
            self.0.settle(at.address, fingerprint, room);
        }
        Ok(!found.is_there())
    }
}
