//! The feeds of values that are being read: the table of all feeds, and a value's place in it.
//!
//! A value keeps four bytes, so that one that nobody reads costs no more. The table frees what nobody has read for a
//! minute, which only a list of all feeds allows. A feed is never saved, copied or replicated: where its value goes
//! within the keyspace, it goes too, and it ends with the value, which a background thread may free.
//!
//! The bytes of a feed count in the sums of INFO from here on, apart from those of its value.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::Refusal;
use valkeybloom_sketches::{Cursor, Feed, Lost};

use crate::ffi::{self, Ctx};
use crate::readers::{Client, Readers};
use crate::sums;

/// How long a feed is kept without a reader, in milliseconds. Tests do not wait for a minute.
const IDLE_MS: u64 = if cfg!(debug_assertions) {
    1_000
} else {
    60_000
};

/// The time between two looks for idle feeds, in milliseconds, while there are any feeds.
const LOOK_MS: u64 = IDLE_MS / 6;

/// The most places of the table that are looked at before commands have their turn.
const LOOK_PLACES: usize = 1_000;

/// A value's place in the table: its index plus one, or 0 if nobody has ever read the value. Two marks save looks there.
pub struct FeedSlot(AtomicU32);

/// Marks a place that may have a feed.
const OPEN: u32 = 1 << 31;

/// Marks a place that may have an id.
const NAMED: u32 = 1 << 30;

impl FeedSlot {
    /// Returns the place of a value without a feed.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns the index of the value's place in the table.
    fn index(&self) -> Option<usize> {
        ((self.0.load(Relaxed) & !(OPEN | NAMED)) as usize).checked_sub(1)
    }

    /// Returns the index of the value's place in the table, which it gets now unless it had one.
    ///
    /// # Errors
    /// There is no memory for it, or the server may use no more.
    fn occupy(&self, table: &mut Table) -> Result<usize, Error> {
        if let Some(index) = self.index() {
            return Ok(index);
        }
        // Reading is allowed when memory is out, but it must not take any.
        if Ctx::memory_is_out() {
            return Err(Error::MAXMEMORY);
        }
        let index = table.occupy().ok_or(OUT_OF_MEMORY)?;
        #[allow(
            clippy::cast_possible_truncation,
            reason = "there are fewer than 2^30 places"
        )]
        self.0.store(index as u32 + 1, Relaxed);
        Ok(index)
    }

    /// Returns whether the value may have a feed, for which there must be a place with the mark.
    #[inline]
    pub fn may_be_open(&self) -> bool {
        self.0.load(Relaxed).cast_signed() < 0
    }

    /// Passes the value's feed to a function that appends new items or makes the feed smaller. Does nothing, and returns
    /// false, if nobody reads the value.
    #[inline]
    pub fn update(&self, update: impl FnOnce(&mut Feed)) -> bool {
        let Some(index) = self.index() else {
            return false;
        };
        let mut table = table();
        let Some(open) = &mut table.places[index].open else {
            self.0.fetch_and(!OPEN, Relaxed);
            return false;
        };
        let ring_bytes = open.feed.ring_bytes();
        update(&mut open.feed);
        if open.feed.ring_bytes() != ring_bytes {
            open.count();
        }
        true
    }

    /// Returns the bytes of the feed and the number of its readers, or `None` if nobody reads the value.
    pub fn share(&self) -> Option<Share> {
        let index = self.index()?;
        let table = table();
        let open = table.places[index].open.as_ref();
        open.map(|open| open.counted)
    }

    /// Ends the feed and takes the id away, because the value changes by more than new items.
    #[inline]
    pub fn end(&self) {
        if self.0.load(Relaxed) & (OPEN | NAMED) != 0
            && let Some(index) = self.index()
        {
            table().places[index] = Place::default();
            self.0.fetch_and(!(OPEN | NAMED), Relaxed);
        }
    }

    /// Returns the value's id: a random number that it keeps while it only gains items and no feed of it ends. Whoever
    /// asks for it fetches the value, which may take longer than an idle feed is kept, so that counts as a read.
    ///
    /// # Errors
    /// There is no memory for it, or the server may use no more.
    pub fn id(&self) -> Result<u64, Error> {
        let mut table = table();
        let index = self.occupy(&mut table)?;
        self.0.fetch_or(NAMED, Relaxed);
        let place = &mut table.places[index];
        if let Some(open) = &mut place.open {
            open.read_ms = Ctx::now_ms();
        }
        Ok(place.id())
    }

    /// Returns the cursor after the last item, for a client. Creates the feed if needed; it numbers its items from those
    /// that the value has counted, `items`, and its bytes count in a family's sums.
    ///
    /// # Errors
    /// There is no memory for it, or the server may use no more.
    pub fn begin(&self, family: usize, items: u64, client: Client) -> Result<Cursor, Error> {
        if self.share().is_none() && Ctx::memory_is_out() {
            return Err(Error::MAXMEMORY);
        }
        let mut table = table();
        let index = self.occupy(&mut table)?;
        self.0.fetch_or(OPEN | NAMED, Relaxed);
        let place = &mut table.places[index];
        let id = place.id();
        let open = place.open.get_or_insert_with(|| {
            Box::new(Open {
                feed: Feed::new(id, items),
                readers: Readers::default(),
                read_ms: 0,
                family,
                counted: Share::default(),
            })
        });
        open.note(client);
        let end = open.feed.end();
        if table.look.is_none() {
            table.look = Some(0);
            ffi::call_after(LOOK_MS, end_idle);
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
        let index = self.index().ok_or(Error::FEED_UNKNOWN)?;
        let mut table = table();
        let open = table.places[index]
            .open
            .as_mut()
            .ok_or(Error::FEED_UNKNOWN)?;
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
        room.map_err(|_| OUT_OF_MEMORY)?;
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
        if let Some(index) = self.index() {
            table().leave(index);
        }
    }
}

const OUT_OF_MEMORY: Error = Error::Refused(Refusal::OutOfMemory);

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
        sums::change(sums::FEEDS, &of_feeds(self), &of_feeds(&by));
        *self = by;
    }
}

/// The place of a value in the table.
#[derive(Default)]
struct Place {
    /// The id of the value and of its feed; 0 if nobody has asked for it.
    id: u64,
    /// The value's feed.
    open: Option<Box<Open>>,
}

struct Open {
    feed: Feed,
    readers: Readers,
    /// When it was last read, in milliseconds since the epoch.
    read_ms: u64,
    family: usize,
    /// What the sums contain of it.
    counted: Share,
}

impl Open {
    /// Notes a read by a client.
    fn note(&mut self, client: Client) {
        self.read_ms = Ctx::now_ms();
        self.readers.note(client, self.read_ms);
        self.count();
    }

    /// Brings the sums up to date.
    fn count(&mut self) {
        let share = Share {
            bytes: size_of::<Self>() as u64 + self.feed.ring_bytes() + self.readers.bytes(),
            readers: self.readers.count(),
            feeds: 1,
        };
        self.counted.replace(share, self.family);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.counted.replace(Share::default(), self.family);
    }
}

impl Place {
    fn id(&mut self) -> u64 {
        while self.id == 0 {
            self.id = u64::from_le_bytes(Ctx::random_bytes());
        }
        self.id
    }
}

/// All feeds.
struct Table {
    places: Vec<Place>,
    /// The indices of empty places. It has room for all of them, because values leave where nothing may fail.
    empty: Vec<usize>,
    /// The index that the next look for idle feeds begins at; `None` if no look is due.
    look: Option<usize>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    places: Vec::new(),
    empty: Vec::new(),
    look: None,
});

#[inline]
fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// Returns the index of an empty place, which is taken, or `None` if there is no memory for one.
    fn occupy(&mut self) -> Option<usize> {
        if let Some(index) = self.empty.pop() {
            return Some(index);
        }
        let index = self.places.len();
        if index + 1 >= NAMED as usize {
            return None;
        }
        self.places.try_reserve(1).ok()?;
        self.empty.try_reserve(index + 1).ok()?;
        self.places.push(Place::default());
        Some(index)
    }

    /// Frees the place of a value.
    fn leave(&mut self, index: usize) {
        self.places[index] = Place::default();
        self.empty.push(index);
        if self.empty.len() == self.places.len() {
            (self.places, self.empty) = (Vec::new(), Vec::new());
        }
    }
}

/// Ends the feeds that nobody has read lately, and forgets readers that are gone. Looks again later if there are others.
fn end_idle() {
    let now_ms = Ctx::now_ms();
    let mut table = table();
    let all = table.places.len();
    let begin = table.look.unwrap_or(0).min(all);
    let end = all.min(begin + LOOK_PLACES);
    for place in &mut table.places[begin..end] {
        let Some(open) = &mut place.open else {
            continue;
        };
        // The clock may have been set back.
        if now_ms.abs_diff(open.read_ms) >= IDLE_MS {
            // The next feed gets another id, because the items between the two are unknown.
            *place = Place::default();
        } else {
            open.readers.forget(now_ms, IDLE_MS);
            open.count();
        }
    }
    let (look, after_ms) = if end < all {
        (Some(end), 1)
    } else {
        ((sums::feeds() > 0).then_some(0), LOOK_MS)
    };
    table.look = look;
    if look.is_some() {
        ffi::call_after(after_ms, end_idle);
    }
}
