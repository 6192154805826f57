//! What answers lookups: the copy of the filter, and the program's own writes that it lacks.

use std::collections::HashMap;
use std::time::Duration;

use valkeybloom_sketches::Probe;
use valkeybloom_sketches::bloom::Object;

/// The most own writes that are kept until the copy has them.
const MOST_OWN: usize = 65_536;

/// A copy of a filter, and items that the program added at the server.
#[derive(Debug)]
pub struct LocalCopy {
    /// A plain filter, which has no periods: so lookups in it need no time.
    pub object: Object,
    /// Items that the copy may lack, by their first hash.
    own: HashMap<u64, Pending>,
}

/// An item that the program added.
#[derive(Debug)]
struct Pending {
    probe: Probe,
    /// A time when the server had it.
    had: Duration,
    /// Whether the copy should have it by now, and lacks it: either the item is lost, or the server that is read gets no
    /// changes. Only the server that was written to knows.
    is_overdue: bool,
}

impl LocalCopy {
    pub fn of(object: Object) -> Self {
        Self {
            object,
            own: HashMap::new(),
        }
    }

    /// Returns whether the filter claims an item, or the program added it; `None` if the server has to be asked.
    #[inline]
    pub fn claims(&self, item: &[u8]) -> Option<bool> {
        let probe = self.object.probe(item);
        let claimed = self.object.contains_probe(probe, || 0);
        self.with_own(probe.hashes().0, claimed)
    }

    /// Passes the result of [`claims`](Self::claims) for each item to `answer`.
    pub fn claims_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        mut answer: impl FnMut(Option<bool>),
    ) {
        let answer = |hash, claimed| answer(self.with_own(hash, claimed));
        self.object.contains_each_hashed(items, || 0, answer);
    }

    #[inline]
    fn with_own(&self, hash: u64, claimed: bool) -> Option<bool> {
        if claimed || self.own.is_empty() {
            return Some(claimed);
        }
        match self.own.get(&hash) {
            Some(own) => (!own.is_overdue).then_some(true),
            None => Some(false),
        }
    }

    /// Keeps an item that the server has. Returns whether there was room. An item that the filter claims is kept, too: the
    /// filter that replaces it may have been read before.
    pub fn keep(&mut self, item: &[u8], now: Duration) -> bool {
        let probe = self.object.probe(item);
        let has_room = self.own.len() < MOST_OWN || self.own.contains_key(&probe.hashes().0);
        if has_room {
            let own = Pending {
                probe,
                had: now,
                is_overdue: false,
            };
            self.own.insert(probe.hashes().0, own);
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

    /// Returns whether the copy lacks own writes that it should have.
    pub fn is_behind(&self) -> bool {
        self.own.values().any(|own| own.is_overdue)
    }

    /// Forgets the items that the server had before this time, because the copy has what the server had then. `may_lack`
    /// is whether it may lack them nevertheless, since another server is read.
    pub fn forget_before(&mut self, time: Duration, may_lack: bool) {
        let object = &self.object;
        self.own.retain(|_, own| {
            let is_due = own.had < time;
            own.is_overdue = is_due && may_lack && !object.contains_probe(own.probe, || 0);
            !is_due || own.is_overdue
        });
        if self.own.is_empty() {
            self.own = HashMap::new();
        }
    }
}
