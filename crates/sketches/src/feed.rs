//! The latest new items of an object, for readers that keep a copy of it fresh.
//!
//! A feed numbers the items that were new to its object, beginning with those that the object had counted before, and
//! holds the hashes of the last ones in a ring. A reader's [`Cursor`] is a point between two of them. The same new items
//! in the same order set the same bits and stack the same filters, so a copy of the object at one cursor becomes the
//! object at a later cursor.

use std::fmt;

use crate::hash::Probe;

/// A point in a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The id of the feed.
    pub feed: u64,
    /// The number of items before this point. The object had counted all of them there, unless it was full and counted no
    /// further.
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
    /// The last items. The length is a power of two, or 0.
    ring: Vec<Item>,
    /// The place of the next item in the ring, which is that of the oldest one if the ring is full.
    next: usize,
    /// The number of items before the next one: those that the object had counted already, and all that were pushed.
    count: u64,
    /// The number of items before the first one that the ring may hold, even if it has room for more.
    first: u64,
    /// The number of items at which the next one looks for more room: the ring is full then, or has gone round once more.
    due: u64,
}

/// An item of a feed, as a reader gets it: its two hashes, little-endian.
type Item = [u8; Feed::ITEM_BYTES];

impl Feed {
    /// The bytes of an item, in the ring and in a reply.
    pub const ITEM_BYTES: usize = size_of::<Probe>();

    /// The number of items in a ring that has just been allocated.
    const FIRST: usize = 64;

    /// Creates a feed without items, of an object that has counted `items` already. Its id is random, so that no cursor
    /// fits two feeds.
    pub const fn new(id: u64, items: u64) -> Self {
        Self {
            id,
            ring: Vec::new(),
            next: 0,
            count: items,
            first: items,
            due: items,
        }
    }

    /// Returns the bytes of the ring, which are a power of two, or 0.
    #[inline]
    pub const fn ring_bytes(&self) -> u64 {
        (self.ring.len() * Self::ITEM_BYTES) as u64
    }

    /// Appends an item. The ring doubles until it has `most_bytes`, or there is no memory. Then it drops its oldest item
    /// for each new one. It calls `most_bytes` each time that it has filled up or gone round once.
    #[inline]
    pub fn push(&mut self, probe: Probe, most_bytes: impl FnOnce() -> u64) {
        if self.count == self.due {
            self.make_room(most_bytes());
        }
        if let Some(place) = self.ring.get_mut(self.next) {
            *place = to_item(probe);
            self.next = (self.next + 1) & (self.ring.len() - 1);
        }
        self.count += 1;
    }

    #[cold]
    fn make_room(&mut self, most_bytes: u64) {
        let most = items_in(most_bytes);
        let length = self.ring.len();
        let wanted = (2 * length).max(Self::FIRST).min(most);
        if wanted != length {
            self.resize(wanted);
        }
        self.look_when_full();
    }

    /// Has [`push`](Self::push) look for more room when the ring is full, or, if it is full already, a round later.
    fn look_when_full(&mut self) {
        let length = self.ring.len();
        let full = self.oldest() + length as u64;
        self.due = if full > self.count {
            full
        } else {
            self.count + length.max(Self::FIRST) as u64
        };
    }

    /// Shrinks a ring of more than this many bytes. It drops its oldest items.
    pub fn fit(&mut self, most_bytes: u64) {
        let most = items_in(most_bytes);
        if self.ring.len() > most {
            self.resize(most);
            self.look_when_full();
        }
    }

    /// Gives the ring another length, and keeps its last items. Without memory, a longer ring is not made, and a shorter
    /// one is empty.
    fn resize(&mut self, length: usize) {
        let mut ring = Vec::new();
        if ring.try_reserve_exact(length).is_ok() {
            self.first = self.oldest().max(self.count.saturating_sub(length as u64));
            let [older, newer] = self.from(self.first);
            ring.extend_from_slice(older);
            ring.extend_from_slice(newer);
            self.next = ring.len() & length.wrapping_sub(1);
            ring.resize(length, Item::default());
        } else if length > self.ring.len() {
            return;
        } else {
            (self.first, self.next) = (self.count, 0);
        }
        self.ring = ring;
    }

    /// Returns the number of the oldest item in the ring.
    fn oldest(&self) -> u64 {
        let kept = self.count.saturating_sub(self.ring.len() as u64);
        self.first.max(kept)
    }

    /// Returns the items from one in the ring on, in two parts.
    fn from(&self, number: u64) -> [&[Item]; 2] {
        let count = usize::try_from(self.count - number).unwrap_or(usize::MAX);
        let (newer, older) = self.ring.split_at(self.next);
        match newer.len().checked_sub(count) {
            Some(begin) => [&newer[begin..], &[]],
            None => [&older[older.len() - (count - newer.len())..], newer],
        }
    }

    /// Returns the cursor behind the last item.
    pub const fn end(&self) -> Cursor {
        Cursor {
            feed: self.id,
            sequence: self.count,
        }
    }

    /// Returns the items from a cursor on, oldest first, in two parts, because the ring may wrap between them.
    ///
    /// # Errors
    /// [`Lost`]
    pub fn since(&self, cursor: Cursor) -> Result<[&[Item]; 2], Lost> {
        if cursor.feed != self.id || cursor.sequence > self.count {
            Err(Lost::Unknown)
        } else if cursor.sequence < self.oldest() {
            Err(Lost::Overrun)
        } else {
            Ok(self.from(cursor.sequence))
        }
    }
}

#[inline]
fn to_item(probe: Probe) -> Item {
    let (a, b) = probe.hashes();
    (u128::from(a) | u128::from(b) << 64).to_le_bytes()
}

/// Returns the number of items of the largest ring that has at most this many bytes. It is a power of two, because
/// allocators waste nothing then, or 0.
fn items_in(bytes: u64) -> usize {
    let items = usize::try_from(bytes / Feed::ITEM_BYTES as u64).unwrap_or(usize::MAX);
    items.checked_ilog2().map_or(0, |log| 1 << log)
}
