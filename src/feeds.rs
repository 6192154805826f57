//! The feeds of values that are being read: the table of all feeds, and a value's place in it.
//!
//! A value keeps four bytes, so that one that nobody reads costs no more. The table frees what nobody has read for a
//! minute, which only a list of all feeds allows. A feed is never saved, copied or replicated: where its value goes
//! within the keyspace, it goes too, and it ends with the value.
//!
//! The bytes of a feed count in the sums of INFO from here on, apart from those of its value.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::Refusal;
use valkeybloom_sketches::{Cursor, Feed, Lost};

use crate::ffi::{self, Ctx};
use crate::sums::{self, NOTHING, Totals};

/// How long a feed is kept without a reader, in milliseconds. Tests do not wait for a minute.
const IDLE_MS: u64 = if cfg!(debug_assertions) {
    1_000
} else {
    60_000
};

/// The time between two looks for idle feeds, in milliseconds, while there are any feeds.
const LOOK_MS: u64 = IDLE_MS / 6;

/// A value's feed, if it has one.
pub struct Fed(AtomicU32);

impl Fed {
    /// Returns the place of a value without a feed.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns the index of the value's place in the table.
    #[inline(always)]
    fn index(&self) -> Option<usize> {
        (self.0.load(Relaxed) as usize).checked_sub(1)
    }

    /// Returns whether somebody has begun to read the value.
    #[inline(always)]
    pub fn is_begun(&self) -> bool {
        self.index().is_some()
    }

    /// Passes the value's feed to a function that appends new items, and counts its bytes anew. Does nothing, and returns
    /// false, if nobody reads the value.
    pub fn append(&self, append: impl FnOnce(&mut Feed)) -> bool {
        let Some(index) = self.index() else {
            return false;
        };
        let Place::Open(open) = &mut table().places[index] else {
            return false;
        };
        append(&mut open.feed);
        open.count_bytes();
        true
    }

    /// Returns the bytes of the feed.
    pub fn bytes(&self) -> u64 {
        self.index()
            .map_or(0, |index| match &table().places[index] {
                Place::Open(open) => open.counted_bytes,
                Place::Empty | Place::Ended { .. } => 0,
            })
    }

    /// Ends the feed, because its value changes by more than new items.
    #[inline(always)]
    pub fn end(&self) {
        if let Some(index) = self.index() {
            table().end(index, Ending::Changed);
        }
    }

    /// Returns the cursor behind the last item. Makes a feed if there is none; its bytes count in a family's sums.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn begin(&self, family: usize) -> Result<Cursor, Error> {
        let mut table = table();
        if self.index().is_none() {
            let number = table.occupy().ok_or(OUT_OF_MEMORY)?;
            self.0.store(number, Relaxed);
        }
        let index = self.index().ok_or(OUT_OF_MEMORY)?;
        Ok(table.begin(index, family))
    }

    /// Returns the bytes of at most `most` items from a cursor on, the cursor behind them, and the number of items that
    /// follow.
    ///
    /// # Errors
    /// The feed can't be read from this cursor, or there is no memory for the bytes.
    pub fn read(&self, from: Cursor, most: u64) -> Result<(Vec<u8>, Cursor, u64), Error> {
        let index = self.index().ok_or(Error::FEED_UNKNOWN)?;
        table().places[index].read(from, most)
    }
}

impl Drop for Fed {
    #[inline]
    fn drop(&mut self) {
        if let Some(index) = self.index() {
            table().leave(index, self.0.load(Relaxed));
        }
    }
}

const OUT_OF_MEMORY: Error = Error::Refused(Refusal::OutOfMemory);

/// Why a feed ended before its value.
#[derive(Clone, Copy)]
enum Ending {
    Changed,
    Idle,
}

/// The place of a value in the table.
enum Place {
    /// No value has this place.
    Empty,
    /// The value has a feed.
    Open(Box<Open>),
    /// The value had the feed with this id.
    Ended { id: u64, ending: Ending },
}

struct Open {
    feed: Feed,
    /// When it was last read, in milliseconds since the epoch.
    read_ms: u64,
    family: usize,
    /// The bytes that the family's sums contain.
    counted_bytes: u64,
}

impl Open {
    fn count_bytes(&mut self) {
        let bytes = size_of::<Self>() as u64 + self.feed.ring_bytes();
        if bytes != self.counted_bytes {
            sums::change(self.family, &of_bytes(self.counted_bytes), &of_bytes(bytes));
            self.counted_bytes = bytes;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        sums::change(self.family, &of_bytes(self.counted_bytes), &NOTHING);
    }
}

fn of_bytes(bytes: u64) -> Totals {
    let mut totals = NOTHING;
    totals[0] = bytes;
    totals
}

impl Place {
    fn read(&mut self, from: Cursor, most: u64) -> Result<(Vec<u8>, Cursor, u64), Error> {
        let open = match self {
            Self::Open(open) => open,
            Self::Ended { id, ending } if *id == from.feed => {
                return Err(match ending {
                    Ending::Changed => Error::FEED_CHANGED,
                    Ending::Idle => Error::FEED_IDLE,
                });
            }
            Self::Ended { .. } | Self::Empty => return Err(Error::FEED_UNKNOWN),
        };
        let items = open.feed.since(from).map_err(|lost| match lost {
            Lost::Unknown => Error::FEED_UNKNOWN,
            Lost::Overrun => Error::FEED_OVERRUN,
        })?;
        let all = items.len();
        let count = all.min(usize::try_from(most).unwrap_or(usize::MAX));
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(count * Feed::ITEM_BYTES);
        room.map_err(|_| OUT_OF_MEMORY)?;
        for probe in items.take(count) {
            let (a, b) = probe.hashes();
            bytes.extend_from_slice(&a.to_le_bytes());
            bytes.extend_from_slice(&b.to_le_bytes());
        }
        open.read_ms = Ctx::now_ms();
        let next = Cursor {
            sequence: from.sequence + count as u64,
            ..from
        };
        Ok((bytes, next, (all - count) as u64))
    }
}

/// All feeds.
struct Table {
    places: Vec<Place>,
    /// The numbers of empty places, which are above their indices by one. It has room for all of them, because values
    /// leave where nothing may fail.
    empty: Vec<u32>,
    /// Whether a look for idle feeds is due.
    is_watched: bool,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    places: Vec::new(),
    empty: Vec::new(),
    is_watched: false,
});

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// Returns the number of an empty place, which is taken, or `None` if there is no memory for one.
    fn occupy(&mut self) -> Option<u32> {
        if let Some(number) = self.empty.pop() {
            return Some(number);
        }
        let places = self.places.len() + 1;
        let number = u32::try_from(places).ok()?;
        self.places.try_reserve(1).ok()?;
        self.empty.try_reserve(places).ok()?;
        self.places.push(Place::Empty);
        Some(number)
    }

    /// Frees the place of a value.
    fn leave(&mut self, index: usize, number: u32) {
        self.places[index] = Place::Empty;
        self.empty.push(number);
        if self.empty.len() == self.places.len() {
            (self.places, self.empty) = (Vec::new(), Vec::new());
        }
    }

    fn end(&mut self, index: usize, ending: Ending) {
        if let Place::Open(open) = &self.places[index] {
            let id = open.feed.id();
            self.places[index] = Place::Ended { id, ending };
        }
    }

    fn begin(&mut self, index: usize, family: usize) -> Cursor {
        let read_ms = Ctx::now_ms();
        if let Place::Open(open) = &mut self.places[index] {
            open.read_ms = read_ms;
            return open.feed.end();
        }
        let mut open = Box::new(Open {
            feed: Feed::new(u64::from_le_bytes(Ctx::random_bytes())),
            read_ms,
            family,
            counted_bytes: 0,
        });
        open.count_bytes();
        let cursor = open.feed.end();
        self.places[index] = Place::Open(open);
        if !self.is_watched {
            self.is_watched = true;
            ffi::call_after(LOOK_MS, end_idle);
        }
        cursor
    }
}

/// Ends the feeds that nobody has read lately, and looks again later if there are others.
fn end_idle() {
    let now_ms = Ctx::now_ms();
    let mut table = table();
    table.is_watched = false;
    for index in 0..table.places.len() {
        if let Place::Open(open) = &table.places[index] {
            // The clock may have been set back.
            if now_ms.abs_diff(open.read_ms) >= IDLE_MS {
                table.end(index, Ending::Idle);
            } else {
                table.is_watched = true;
            }
        }
    }
    if table.is_watched {
        ffi::call_after(LOOK_MS, end_idle);
    }
}
