//! Objects of tables of fingerprints, as the pages describe them: maps of fingerprints, without shards, and a reader of
//! their pieces (docs/vectors.md). A test computes from them what any command answers, false positives included.

mod draft;
mod read;
mod union;

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{self, Added, Shape, TableStep};

pub use draft::{Bits, Draft, Piece};
pub use read::{END, fingerprint_at, read};

/// How an object keeps its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It has them.
    Scaled,
    /// It counts them.
    Counting,
    /// It forgets them.
    Window { period_ms: u64, periods: u64 },
}

/// A table: its fingerprints, each with its count, or the number of its period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub step: TableStep,
    pub entries: BTreeMap<u64, u64>,
}

/// The time of a write.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    pub now_ms: u64,
    /// The time to live of items; `None` for the window's.
    pub ttl_ms: Option<u64>,
}

/// The time of a write, in numbers of periods; zeros without a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// The oldest period that has not expired.
    oldest: u64,
    /// The period to which items are added.
    target: u64,
}

/// The reason that an object does not take an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It does not grow.
    Full,
    /// It has to begin a table.
    NeedsTable,
}

/// The parameters of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// 0 for one that is non-scaling.
    pub expansion: u64,
    pub error_rate: f64,
    pub capacity: u64,
}

/// An object. The numbers of its periods are those of its stored form.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub kind: Kind,
    pub header: Header,
    pub seed: [u8; 32],
    /// Oldest first: those with entries, and the newest.
    pub tables: Vec<Table>,
    /// The period before which all items were dropped.
    pub dropped: u64,
}

/// Returns the hash of an item whose first bits are its fingerprints.
pub fn hash(seed: &[u8; 32], item: &[u8]) -> u64 {
    let key = |at: usize| u64::from_le_bytes(seed[at..at + 8].try_into().expect("eight bytes"));
    let mut hasher = SipHasher13::new_with_keys(key(0), key(8));
    hasher.write(&(item.len() as u64).to_le_bytes());
    hasher.write(item);
    hasher.finish()
}

/// Returns the item of a number.
pub fn item(number: u32) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Returns the hashes of the items of numbers below `end` whose first byte is one of these, in order, with the numbers.
pub fn search(seed: &[u8; 32], end: u32, first_bytes: &[u8]) -> Vec<(u64, u32)> {
    let hashed = (0..end).map(|number| (hash(seed, &item(number)), number));
    let is_wanted = |(hash, _): &(u64, u32)| first_bytes.contains(&hash.to_be_bytes()[0]);
    let mut found: Vec<_> = hashed.filter(is_wanted).collect();
    found.sort_unstable();
    found
}

impl Table {
    pub fn new(step: TableStep) -> Self {
        Self {
            step,
            entries: BTreeMap::new(),
        }
    }

    fn of(&self, hash: u64) -> u64 {
        hash >> (u64::BITS - self.step.bits)
    }

    fn is_full(&self) -> bool {
        self.entries.len() as u64 >= self.step.most
    }

    fn held(&self, hash: u64) -> Option<u64> {
        self.entries.get(&self.of(hash)).copied()
    }
}

impl Model {
    /// Returns the model of an empty object.
    pub fn new(shape: &Shape, seed: &Seed) -> Self {
        let kind = match shape.kind {
            bloom::Kind::Windowed(window) => Kind::Window {
                period_ms: window.period_ms(),
                periods: window.periods(),
            },
            bloom::Kind::Counting => Kind::Counting,
            bloom::Kind::Plain | bloom::Kind::ScaledTo => Kind::Scaled,
        };
        let header = Header {
            expansion: shape.params.growth.expansion().into(),
            error_rate: shape.params.error_rate.get(),
            capacity: shape.params.capacity,
        };
        let first = shape.table_step([]).expect("a table");
        Self {
            kind,
            header,
            seed: *seed.as_bytes(),
            tables: vec![Table::new(first)],
            dropped: 0,
        }
    }

    pub fn hash(&self, item: &[u8]) -> u64 {
        hash(&self.seed, item)
    }

    /// Returns the number of periods of the window, and what is added to the number of a period.
    fn window(&self) -> Option<(u64, u64, u64)> {
        match self.kind {
            Kind::Window { period_ms, periods } => Some((period_ms, periods, 2 * periods + 4)),
            Kind::Scaled | Kind::Counting => None,
        }
    }

    /// Returns the oldest period that has not expired at a time.
    pub fn oldest(&self, now_ms: u64) -> u64 {
        self.window().map_or(0, |(period_ms, periods, ahead)| {
            now_ms / period_ms + ahead + 1 - periods
        })
    }

    /// Returns the oldest and the newest period that items may have after a write at a time; zeros without a window.
    pub fn periods_at(&self, now_ms: u64) -> [u64; 2] {
        let oldest = self
            .now(Moment {
                now_ms,
                ttl_ms: None,
            })
            .oldest;
        match self.kind {
            Kind::Window { periods, .. } => [oldest, oldest + periods],
            Kind::Scaled | Kind::Counting => [0; 2],
        }
    }

    fn claims(&self, table: &Table, hash: u64, oldest: u64) -> bool {
        let held = table.held(hash);
        held.is_some_and(|held| self.kind == Kind::Counting || held >= oldest)
    }

    pub fn contains(&self, hash: u64, now_ms: u64) -> bool {
        let oldest = self.oldest(now_ms);
        let mut tables = self.tables.iter();
        tables.any(|table| self.claims(table, hash, oldest))
    }

    pub fn count(&self, hash: u64) -> u64 {
        let held = self.tables.iter().filter_map(|table| table.held(hash));
        held.fold(0, u64::saturating_add)
    }

    /// Returns the number of items that have not expired.
    pub fn items(&self, now_ms: u64) -> u64 {
        let oldest = self.oldest(now_ms);
        let held = self.tables.iter().flat_map(|table| table.entries.values());
        let is_live = |held: &&u64| self.kind == Kind::Counting || **held >= oldest;
        held.filter(is_live).count() as u64
    }

    /// Returns the latest period in which the object was written.
    fn reached(&self, periods: u64) -> u64 {
        let held = self.tables.iter().flat_map(|table| table.entries.values());
        let newest = held.max().map_or(0, |newest| newest - 1);
        newest.max(self.dropped + periods - 1)
    }

    /// Begins a write to a window: sets items back with the clock, and drops those that have expired.
    pub fn tidy(&mut self, now_ms: u64) {
        let Some((period_ms, periods, ahead)) = self.window() else {
            return;
        };
        let period = now_ms / period_ms + ahead;
        let current = period.max(self.reached(periods));
        let lead = current.saturating_sub(period + 1);
        let oldest = current + 1 - periods;
        for table in &mut self.tables {
            table.entries.retain(|_, held| *held >= oldest);
            for held in table.entries.values_mut() {
                *held -= lead;
            }
        }
        self.dropped = self.dropped.max(oldest) - lead;
        self.forget_empty();
    }

    /// Drops the tables that have no entries, but for the newest.
    fn forget_empty(&mut self) {
        let mut left = self.tables.len();
        self.tables.retain(|table| {
            left -= 1;
            left == 0 || !table.entries.is_empty()
        });
    }

    /// Adds an item. The step of a table that the object has to begin is among `steps`.
    pub fn add(
        &mut self,
        hash: u64,
        now: Now,
        saturate: bool,
        steps: &[TableStep],
    ) -> Result<Added, Stop> {
        let place = match self.place(hash, now.oldest, saturate) {
            Err(Stop::NeedsTable) => {
                let last = self.tables.last().expect("never empty").step.number;
                let step = steps.iter().find(|step| step.number == last + 1);
                self.tables.push(Table::new(*step.ok_or(Stop::NeedsTable)?));
                self.forget_empty();
                self.tables.len() - 1
            }
            place => place?,
        };
        let added = self.add_to(place, hash, now.target);
        self.forget_empty();
        Ok(added)
    }

    /// Returns the time of additions, after [`tidy`](Self::tidy).
    pub fn now(&self, moment: Moment) -> Now {
        let Some((period_ms, periods, ahead)) = self.window() else {
            return Now::default();
        };
        let now = moment.now_ms / period_ms + ahead;
        let current = now.max(self.reached(periods));
        let oldest = current + 1 - periods;
        let Some(ttl_ms) = moment.ttl_ms else {
            let target = current;
            return Now { oldest, target };
        };
        let end = moment.now_ms.saturating_add(ttl_ms).div_ceil(period_ms);
        let target = (end.saturating_add(ahead) - periods).clamp(now - (periods - 1), now + 1);
        let target = target.clamp(oldest, current + 1);
        Now { oldest, target }
    }

    fn place(&self, hash: u64, oldest: u64, saturate: bool) -> Result<usize, Stop> {
        let newest = self.tables.len() - 1;
        let claims = |table: &Table| self.claims(table, hash, oldest);
        let has_room = |table: &Table| !table.is_full() && !table.entries.is_empty();
        if newest == 0 && !self.tables[0].is_full() {
            Ok(0)
        } else if let Some(claimant) = self.tables.iter().position(claims) {
            Ok(claimant)
        } else if !self.tables[newest].is_full() {
            Ok(newest)
        } else if let Some(older) = self.tables.iter().rposition(has_room) {
            Ok(older)
        } else if self.header.expansion > 0 {
            Err(Stop::NeedsTable)
        } else if saturate {
            Ok(newest)
        } else {
            Err(Stop::Full)
        }
    }

    fn add_to(&mut self, place: usize, hash: u64, target: u64) -> Added {
        let newest = self.tables.len() - 1;
        let is_window = self.window().is_some();
        if place < newest && is_window && !self.tables[newest].is_full() {
            // A later period goes to the newest table, and the older one keeps the entry as it is.
            if self.tables[place].held(hash) >= Some(target) {
                return Added::Present;
            }
            return match self.add_to(newest, hash, target) {
                Added::New => Added::Again,
                added => added,
            };
        }
        let table = &mut self.tables[place];
        let fingerprint = table.of(hash);
        let before = table.entries.get(&fingerprint).copied();
        let after = match self.kind {
            Kind::Scaled => 0,
            Kind::Counting => before.unwrap_or(0).saturating_add(1),
            Kind::Window { .. } => before.unwrap_or(0).max(target),
        };
        table.entries.insert(fingerprint, after);
        match before {
            None => Added::New,
            Some(before) if before == after => Added::Present,
            Some(_) => Added::Again,
        }
    }

    /// Takes one off the count of an item, if exactly one table claims it. Returns whether it did.
    pub fn remove(&mut self, hash: u64) -> bool {
        let mut tables = self.tables.iter_mut();
        let mut claimants = tables.by_ref().filter(|table| table.held(hash).is_some());
        let (Some(table), None) = (claimants.next(), claimants.next()) else {
            return false;
        };
        let fingerprint = table.of(hash);
        let held = table.entries.get_mut(&fingerprint).expect("it claims it");
        *held -= 1;
        if *held == 0 {
            table.entries.remove(&fingerprint);
            self.forget_empty();
        }
        true
    }

    /// Returns the steps of the tables.
    pub fn steps(&self) -> Vec<TableStep> {
        self.tables.iter().map(|table| table.step).collect()
    }
}
