//! The latest new items of an object, for readers that keep a copy of it fresh.
//!
//! A feed numbers the items that were new to its object, and holds the hashes of the last ones in a ring. A reader's
//! [`Cursor`] is a point between two of them. The same new items in the same order set the same bits and stack the same
//! filters, so a copy of the object at one cursor becomes the object at a later cursor.

use std::collections::VecDeque;
use std::fmt;

use crate::hash::Probe;

/// A point in a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The id of the feed.
    pub feed: u64,
    /// The number of items before this point.
    pub sequence: u64,
}

impl Cursor {
    /// The number of hexadecimal digits of a feed's id.
    pub const DIGITS: usize = 16;
}

/// Writes `<feed>-<sequence>`.
impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.feed, self.sequence)
    }
}

/// Why a feed can't be read from a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The cursor is not one of this feed.
    Unknown,
    /// The ring no longer holds all items since the cursor.
    Overrun,
}

/// The items that were new to an object. A ring holds the last of them.
#[derive(Debug)]
pub struct Feed {
    id: u64,
    /// The hashes of the last items, oldest first.
    ring: VecDeque<Probe>,
    /// The number of items that were ever pushed.
    count: u64,
}

impl Feed {
    /// The bytes of an item, in the ring and in a reply: its two hashes.
    pub const ITEM_BYTES: usize = size_of::<Probe>();

    /// The number of items in a ring that has just been allocated.
    const FIRST: usize = 64;

    /// Creates a feed without items. Its id is random, so that no cursor fits two feeds.
    pub const fn new(id: u64) -> Self {
        Self {
            id,
            ring: VecDeque::new(),
            count: 0,
        }
    }

    /// Returns the id.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Returns the bytes of the ring, which are a power of two, or 0.
    pub fn ring_bytes(&self) -> u64 {
        (self.ring.capacity() * Self::ITEM_BYTES) as u64
    }

    /// Appends an item. The ring doubles until it has `most_bytes`, or there is no memory. Then it drops its oldest item
    /// for each new one. It calls `most_bytes` each time that it has filled up or gone round once.
    #[inline]
    pub fn push(&mut self, probe: Probe, most_bytes: impl FnOnce() -> u64) {
        let capacity = self.ring.capacity();
        if self.ring.len() == capacity {
            // The capacity is a power of two, or 0.
            if self.count & (capacity as u64).saturating_sub(1) == 0 {
                self.make_room(most_bytes());
            } else {
                self.ring.pop_front();
            }
        }
        if self.ring.capacity() > 0 {
            self.ring.push_back(probe);
        }
        self.count += 1;
    }

    #[cold]
    fn make_room(&mut self, most_bytes: u64) {
        self.fit(most_bytes);
        let (length, capacity) = (self.ring.len(), self.ring.capacity());
        if length < capacity {
            return;
        }
        let wanted = (2 * capacity).max(Self::FIRST).min(items_in(most_bytes));
        if wanted <= capacity || self.ring.try_reserve_exact(wanted - length).is_err() {
            self.ring.pop_front();
        }
    }

    /// Shrinks a ring of more than this many bytes. It drops its oldest items.
    pub fn fit(&mut self, most_bytes: u64) {
        let most = items_in(most_bytes);
        if self.ring.capacity() > most {
            self.ring.drain(..self.ring.len().saturating_sub(most));
            self.ring.shrink_to(most);
        }
    }

    /// Returns the cursor behind the last item.
    pub const fn end(&self) -> Cursor {
        Cursor {
            feed: self.id,
            sequence: self.count,
        }
    }

    /// Returns the items from a cursor on, oldest first.
    ///
    /// # Errors
    /// [`Lost`]
    pub fn since(&self, cursor: Cursor) -> Result<impl ExactSizeIterator<Item = Probe> + '_, Lost> {
        let behind = self.count.checked_sub(cursor.sequence);
        let behind = behind.filter(|_| cursor.feed == self.id);
        let behind = usize::try_from(behind.ok_or(Lost::Unknown)?).unwrap_or(usize::MAX);
        let skipped = self.ring.len().checked_sub(behind);
        Ok(self.ring.range(skipped.ok_or(Lost::Overrun)?..).copied())
    }
}

/// Returns the number of items of the largest ring that has at most this many bytes. It is a power of two, because
/// allocators waste nothing then, or 0.
fn items_in(bytes: u64) -> usize {
    let items = usize::try_from(bytes / Feed::ITEM_BYTES as u64).unwrap_or(usize::MAX);
    items.checked_ilog2().map_or(0, |log| 1 << log)
}
