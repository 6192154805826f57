//! The feeds of values that are being read: the table of all feeds, and a value's key to it.
//!
//! A value keeps its id and nothing more, so values that are only fetched take no further memory. The feeds are in one table,
//! so that a timer finds those that nobody has read for a minute, and frees them. A feed is never saved, copied or
//! replicated. It moves with its value within the keyspace, and ends with the value, which a background thread may free.
//!
//! The bytes of a feed count in the sums of INFO from here on, apart from those of its value.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::Refusal;
use valkeybloom_sketches::{Cursor, Feed, Lost};

use crate::ffi::{self, bytes_given, server};
use crate::readers::{Client, Readers};
use crate::sums;

/// How long a feed is kept without a reader, in milliseconds. Modules with debug assertions are made for tests alone, which
/// must not wait for a minute.
const IDLE_MS: u64 = if cfg!(debug_assertions) {
    1_000
} else {
    60_000
};

/// The time between two sweeps of the table for idle feeds, in milliseconds, while there are any feeds.
const SWEEP_MS: u64 = IDLE_MS / 6;

/// The most feeds that are swept before commands have their turn.
const SWEEP_FEEDS: usize = 1_000;

/// The id of a value, or 0 if it has none: 63 random bits, and a mark. With the mark, the table may have the value's feed under
/// this id.
pub struct FeedSlot(AtomicU64);

/// Marks an id that may have a feed. The table ends a feed that nobody reads, and its value keeps the mark.
const OPEN: u64 = 1 << 63;

impl FeedSlot {
    /// Returns the slot of a value without an id.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the id that the value's feed has in the table, if there is one.
    fn open_id(&self) -> Option<u64> {
        let id = self.0.load(Relaxed);
        (id & OPEN != 0).then_some(id & !OPEN)
    }

    /// Returns the value's id, which is drawn now if it has none, or if its feed has ended: the items since then are
    /// unknown.
    fn current_id(&self, feeds: &Feeds) -> u64 {
        let mut id = self.0.load(Relaxed);
        let mut is_open = id & OPEN != 0;
        id &= !OPEN;
        // The feed of another value may have the id that was drawn.
        while id == 0 || is_open != feeds.contains_key(&id) {
            (id, is_open) = (u64::from_le_bytes(server::random_bytes()) & !OPEN, false);
            self.0.store(id, Relaxed);
        }
        id
    }

    /// Returns whether the value may have a feed, for which there must be an id with the mark.
    #[inline]
    pub fn may_be_open(&self) -> bool {
        self.open_id().is_some()
    }

    /// Passes the value's feed to a function that appends new items or makes the feed smaller. If nobody reads the value, takes
    /// its id away and returns false. The table of feeds is locked meanwhile, so the function must not use any
    /// [`FeedSlot`]: that would deadlock.
    #[inline]
    pub fn update(&self, update: impl FnOnce(&mut Feed)) -> bool {
        let Some(id) = self.open_id() else {
            return false;
        };
        let mut table = table();
        let Some(open) = table.feeds.get_mut(&id) else {
            self.0.store(0, Relaxed);
            return false;
        };
        let ring_bytes = open.feed.ring_bytes();
        update(&mut open.feed);
        if open.feed.ring_bytes() != ring_bytes {
            open.update_sums();
        }
        true
    }

    /// Returns the bytes of the feed and the number of its readers, or `None` if nobody reads the value.
    pub fn share(&self) -> Option<Share> {
        let id = self.open_id()?;
        let table = table();
        table.feeds.get(&id).map(|open| open.counted)
    }

    /// Ends the feed and takes the id away, because the value changes by more than new items.
    #[inline]
    pub fn end(&self) {
        if self.0.load(Relaxed) != 0 {
            self.close();
            self.0.store(0, Relaxed);
        }
    }

    /// Frees the feed.
    #[inline]
    fn close(&self) {
        if let Some(id) = self.open_id() {
            table().feeds.remove(&id);
        }
    }

    /// Returns the value's id, which it keeps while it only gains items and no feed of it ends. This counts as a read,
    /// because the client is fetching the value, which may take longer than an idle feed is kept.
    pub fn id(&self) -> u64 {
        let mut table = table();
        let id = self.current_id(&table.feeds);
        if let Some(open) = table.feeds.get_mut(&id) {
            open.read_ms = server::now_ms();
        }
        id
    }

    /// Returns the cursor after the last item, for a client. Creates the feed if needed; it numbers its items from those
    /// that the value has counted, `items`, and its bytes count in a family's sums.
    ///
    /// # Errors
    /// The server may use no more memory.
    pub fn begin(&self, family: usize, items: u64, client: Client) -> Result<Cursor, Error> {
        let table = &mut *table();
        let id = self.current_id(&table.feeds);
        let open = match table.feeds.entry(id) {
            Entry::Occupied(found) => found.into_mut(),
            // Reading is allowed when memory is out, but it must not take any.
            Entry::Vacant(_) if server::memory_is_out() => return Err(Error::MAXMEMORY),
            Entry::Vacant(place) => {
                self.0.store(id | OPEN, Relaxed);
                place.insert(Box::new(OpenFeed {
                    feed: Feed::new(id, items),
                    readers: Readers::default(),
                    read_ms: 0,
                    family,
                    counted: Share::default(),
                }))
            }
        };
        open.note(client);
        let end = open.feed.end();
        if table.next_sweep.is_none() {
            table.next_sweep = Some(0);
            ffi::call_after(SWEEP_MS, sweep);
        }
        Ok(end)
    }

    /// Returns the bytes of at most `most` items from a client's cursor on, and the cursor after them.
    ///
    /// # Errors
    /// The feed can't be read from this cursor, or there is no memory for the bytes.
    pub fn read(
        &self,
        from: Cursor,
        most: u64,
        client: Client,
    ) -> Result<(Vec<u8>, Cursor), Error> {
        let id = self.open_id().ok_or(Error::FEED_UNKNOWN)?;
        let mut table = table();
        let open = table.feeds.get_mut(&id).ok_or(Error::FEED_UNKNOWN)?;
        let [older, newer] = open.feed.since(from).map_err(|lost| match lost {
            Lost::Unknown => Error::FEED_UNKNOWN,
            Lost::Overrun => Error::FEED_OVERRUN,
        })?;
        let all = older.len() + newer.len();
        let count = all.min(usize::try_from(most).unwrap_or(usize::MAX));
        let older = &older[..count.min(older.len())];
        let newer = &newer[..count - older.len()];
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(count * Feed::ITEM_BYTES);
        room.map_err(|_| Error::Refused(Refusal::OutOfMemory))?;
        bytes.extend_from_slice(older.as_flattened());
        bytes.extend_from_slice(newer.as_flattened());
        open.note(client);
        let next = Cursor {
            sequence: from.sequence + count as u64,
            ..from
        };
        Ok((bytes, next))
    }
}

impl Drop for FeedSlot {
    #[inline]
    fn drop(&mut self) {
        self.close();
    }
}

/// A feed's share of the sums of INFO.
#[derive(Clone, Copy, Default)]
pub struct Share {
    /// The bytes that the feed takes.
    pub bytes: u64,
    /// The number of clients that read it lately.
    pub readers: u64,
    feeds: u64,
}

impl Share {
    /// Replaces this share in the sums of all feeds, and its bytes in those of a family.
    fn replace(&mut self, by: Self, family: usize) {
        let of_family = |share: &Self| sums::totals([share.bytes]);
        let of_feeds = |share: &Self| sums::totals([share.bytes, share.feeds, share.readers]);
        sums::change(family, &of_family(self), &of_family(&by));
        sums::change_feeds(&of_feeds(self), &of_feeds(&by));
        *self = by;
    }
}

/// The feed of a value.
struct OpenFeed {
    feed: Feed,
    readers: Readers,
    /// When it was last read, in milliseconds since the epoch.
    read_ms: u64,
    family: usize,
    /// What the sums contain of it.
    counted: Share,
}

impl OpenFeed {
    /// Notes a read by a client.
    fn note(&mut self, client: Client) {
        self.read_ms = server::now_ms();
        self.readers.note(client, self.read_ms);
        self.update_sums();
    }

    /// Updates the sums.
    fn update_sums(&mut self) {
        let share = Share {
            // A feed is a block of its own.
            bytes: bytes_given(&raw const *self)
                + ENTRY_BYTES
                + self.feed.ring_bytes()
                + self.readers.bytes(),
            readers: self.readers.count(),
            feeds: 1,
        };
        self.counted.replace(share, self.family);
    }
}

impl Drop for OpenFeed {
    fn drop(&mut self) {
        self.counted.replace(Share::default(), self.family);
    }
}

/// The feeds by the ids of their values.
type Feeds = BTreeMap<u64, Box<OpenFeed>>;

/// The approximate bytes of an entry of [`Feeds`], whose nodes are more than half full.
const ENTRY_BYTES: u64 = 32;

/// All feeds.
struct Table {
    feeds: Feeds,
    /// The id that the next sweep begins at; `None` if none is due.
    next_sweep: Option<u64>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    feeds: Feeds::new(),
    next_sweep: None,
});

#[inline]
fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the feeds that nobody has read lately, and forgets readers that are gone. Sweeps again later if feeds are left.
fn sweep() {
    let now_ms = server::now_ms();
    let table = &mut *table();
    let (mut idle, mut next) = (Vec::new(), None);
    let begin = table.next_sweep.unwrap_or(0);
    for (count, (id, open)) in table.feeds.range_mut(begin..).enumerate() {
        if count == SWEEP_FEEDS {
            next = Some(*id);
            break;
        }
        // The clock may have been set back.
        if now_ms.abs_diff(open.read_ms) >= IDLE_MS {
            idle.push(*id);
        } else {
            open.readers.forget(now_ms, IDLE_MS);
            open.update_sums();
        }
    }
    for id in idle {
        table.feeds.remove(&id);
    }
    let (next_sweep, after_ms) = match next {
        Some(id) => (Some(id), 1),
        None => ((!table.feeds.is_empty()).then_some(0), SWEEP_MS),
    };
    table.next_sweep = next_sweep;
    if next_sweep.is_some() {
        ffi::call_after(after_ms, sweep);
    }
}
