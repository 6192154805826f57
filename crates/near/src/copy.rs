//! What answers lookups: the copy of the filter, and the program's own writes that it lacks.

use std::collections::HashMap;
use std::time::Duration;

use valkeybloom_sketches::bloom::Object;

/// The most own writes that are kept until the copy has them.
const MOST_OWN: usize = 65_536;

/// A copy of a filter, and items that the program added at the server.
#[derive(Debug)]
pub struct Copy {
    pub object: Object,
    /// The hashes of items that the copy may lack, each with a time when the server had it.
    own: HashMap<u64, Duration>,
}

impl Copy {
    pub fn of(object: Object) -> Self {
        Self {
            object,
            own: HashMap::new(),
        }
    }

    /// Returns whether the filter claims an item, or the program added it.
    #[inline]
    pub fn claims(&self, item: &[u8]) -> bool {
        let probe = self.object.probe(item);
        self.object.contains_probe(probe, || 0) || self.is_own(probe.hashes().0)
    }

    /// Passes the result of [`claims`](Self::claims) for each item to `answer`.
    pub fn claims_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        mut answer: impl FnMut(bool),
    ) {
        let answer = |hash, claimed| answer(claimed || self.is_own(hash));
        self.object.contains_each_hashed(items, || 0, answer);
    }

    #[inline]
    fn is_own(&self, hash: u64) -> bool {
        !self.own.is_empty() && self.own.contains_key(&hash)
    }

    /// Keeps an item that the server has. Returns whether there was room. An item that the filter claims is kept, too: the
    /// filter that replaces it may have been read before.
    pub fn keep(&mut self, item: &[u8], now: Duration) -> bool {
        let has_room = self.own.len() < MOST_OWN;
        if has_room {
            let probe = self.object.probe(item);
            self.own.insert(probe.hashes().0, now);
        }
        has_room
    }

    /// Replaces the filter. Returns whether the items that the program added are still claimed: another hasher makes their
    /// hashes useless.
    pub fn replace(&mut self, object: Object) -> bool {
        let is_kept = !self.lacks_own() || self.object.hasher() == object.hasher();
        self.object = object;
        if !is_kept {
            self.own = HashMap::new();
        }
        is_kept
    }

    /// Returns whether the copy lacks own writes.
    pub fn lacks_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// Forgets the items that the server had before this time, because the copy has what the server had then.
    pub fn forget_before(&mut self, time: Duration) {
        self.own.retain(|_, had| *had >= time);
        if self.own.is_empty() {
            self.own = HashMap::new();
        }
    }
}
