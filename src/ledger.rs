//! The INFO sections, and the ledger behind them.
//!
//! INFO equals the sum over the keyspace at every moment. The server can't say when a value leaves
//! it: a value is freed some time after its key is gone, in the background if it is large, and a
//! flush does not visit the values at all. So every database has a [`Ledger`], and every value is
//! entered in exactly one; it knows which, and subtracts exactly what it added.
//!
//! - A flushed database gets a new ledger, so that what was in the old one leaves the sum at once,
//!   however long the freeing takes. Two databases that are swapped swap ledgers.
//! - A value that loses its key moves to the ledger of the *unlinked*. Nearly always it is freed
//!   soon. But RENAME and MOVE unlink a value too and give it another key, and the server does not
//!   say so: what is in that ledger while nothing is being freed has a key. A write to such a value
//!   enters it where it belongs. (So one case is not exact: a value that was renamed, and not written
//!   to since, is left out while the background thread frees something else.)
//! - A full resync that loads data beside what is being served fills ledgers of its own, which
//!   replace the others when it is complete. Some servers do not say which database that data is for:
//!   such values are in the ledger of the *unplaced*, and before a database is flushed alone, those in
//!   it are moved to its own.

use std::collections::btree_map::{BTreeMap, Entry};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use valkeybloom_sketches::work;

use crate::ffi::{Ctx, DatabaseEvent, InfoWriter};
use crate::mover;

/// The most families.
pub const FAMILIES: usize = 8;

/// The most sums that a family can have.
pub const SUMS: usize = 7;

/// A value's share of its family's sums, in the order of [`InfoSection::sums`]; zeros after the last of them.
pub type Totals = [u64; SUMS];

/// The totals of a value that is not there.
pub const NOTHING: Totals = [0; SUMS];

/// A family's section of INFO. The server puts the module's name before all names.
pub struct InfoSection {
    /// The section.
    pub section: &'static CStr,
    /// The fields that are sums over all values, in the order of [`Totals`]. The first is positive for every value.
    pub sums: &'static [&'static CStr],
    /// The field that is the largest of the values' numbers in one of these sums.
    pub largest: Option<(&'static CStr, usize)>,
}

/// The sums over some values, for each family.
#[derive(Debug, Default)]
pub struct Ledger([FamilySums; FAMILIES]);

impl Ledger {
    /// Replaces the totals of a value of a family.
    #[inline]
    pub fn change(&self, family: usize, info: &InfoSection, before: &Totals, after: &Totals) {
        let own = &self.0[family];
        for ((sum, before), after) in own.sums.iter().zip(before).zip(after) {
            if before != after {
                // Sums wrap, because the change may be negative.
                sum.fetch_add(after.wrapping_sub(*before), Relaxed);
            }
        }
        if let Some((_, index)) = info.largest
            && before[index] != after[index]
        {
            own.change_largest(before[index], after[index]);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|own| own.sums[0].load(Relaxed) == 0)
    }
}

/// A family's sums over some values.
#[derive(Debug, Default)]
struct FamilySums {
    sums: [AtomicU64; SUMS],
    /// How many values have each number that the largest is taken of: a maximum can't be subtracted as a sum can.
    largest: Mutex<BTreeMap<u64, u64>>,
}

impl FamilySums {
    /// Moves a value from one number to another. Few writes get here. A background thread may do the same.
    #[cold]
    fn change_largest(&self, before: u64, after: u64) {
        let mut values = self.largest.lock().unwrap_or_else(PoisonError::into_inner);
        if after > 0 {
            *values.entry(after).or_default() += 1;
        }
        if let Entry::Occupied(mut count) = values.entry(before) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    fn add_to(&self, whole: &mut Whole, crashing: bool) {
        for (to, sum) in whole.sums.iter_mut().zip(&self.sums) {
            *to = to.wrapping_add(sum.load(Relaxed));
        }
        let largest =
            lock(&self.largest, crashing).and_then(|values| Some(*values.last_key_value()?.0));
        whole.largest = whole.largest.max(largest.unwrap_or(0));
    }
}

/// The ledgers of all databases.
struct Books {
    /// By the number of the database.
    placed: Vec<Arc<Ledger>>,
    /// Of values that may be in any.
    unplaced: Option<Arc<Ledger>>,
}

impl Books {
    const NEW: Self = Self {
        placed: Vec::new(),
        unplaced: None,
    };

    fn page(&mut self, database: i32) -> &mut Arc<Ledger> {
        let index = usize::try_from(database).unwrap_or(0);
        if self.placed.len() <= index {
            self.placed.resize_with(index + 1, Arc::default);
        }
        &mut self.placed[index]
    }

    fn ledgers(&self) -> impl Iterator<Item = &Arc<Ledger>> {
        self.placed.iter().chain(&self.unplaced)
    }
}

struct Shelf {
    /// Of the data that is being served.
    served: Books,
    /// Of the data that is being loaded beside it.
    loading: Option<Books>,
}

static SHELF: Mutex<Shelf> = Mutex::new(Shelf {
    served: Books::NEW,
    loading: None,
});

static UNLINKED: LazyLock<Arc<Ledger>> = LazyLock::new(Arc::default);

fn shelf() -> MutexGuard<'static, Shelf> {
    SHELF.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ledger of a database.
pub fn of_database(database: i32) -> Arc<Ledger> {
    shelf().served.page(database).clone()
}

/// The ledger for a value that an RDB stream brings to a database.
pub fn of_loaded(database: i32) -> Arc<Ledger> {
    let mut shelf = shelf();
    let Shelf { served, loading } = &mut *shelf;
    match loading {
        None => served.page(database).clone(),
        Some(loading) if Ctx::names_databases_of_side_loads() => loading.page(database).clone(),
        Some(loading) => loading.unplaced.get_or_insert_default().clone(),
    }
}

/// The ledger of values that may be in any database, while there are such values.
pub fn unplaced() -> Option<Arc<Ledger>> {
    let ledger = shelf().served.unplaced.clone();
    ledger.filter(|ledger| !ledger.is_empty())
}

/// Whether a ledger is that of values that lost their keys.
#[inline]
pub fn is_unlinked(ledger: &Arc<Ledger>) -> bool {
    Arc::ptr_eq(ledger, &UNLINKED)
}

/// The ledger of values that lost their keys.
pub fn unlinked() -> Arc<Ledger> {
    UNLINKED.clone()
}

/// Keeps the ledgers in step with what happens to whole databases.
pub fn on_database(event: DatabaseEvent) {
    let mut shelf = shelf();
    let Shelf { served, loading } = &mut *shelf;
    match event {
        DatabaseEvent::Flush(None) => *served = Books::NEW,
        DatabaseEvent::Flush(Some(database)) => *served.page(database) = Arc::default(),
        DatabaseEvent::Swap(one, other) => {
            let first = served.page(one).clone();
            let second = std::mem::replace(served.page(other), first);
            *served.page(one) = second;
        }
        DatabaseEvent::SideLoadStarted => *loading = Some(Books::NEW),
        DatabaseEvent::SideLoadAborted => *loading = None,
        DatabaseEvent::SideLoadCompleted => {
            if let Some(loaded) = loading.take() {
                *served = loaded;
            }
        }
    }
}

/// A family's sums over the keyspace.
#[derive(Default)]
struct Whole {
    sums: Totals,
    largest: u64,
}

/// What a lock guards. A crash may have interrupted its holder: then nobody waits, and there is nothing.
fn lock<T>(mutex: &Mutex<T>, crashing: bool) -> Option<MutexGuard<'_, T>> {
    if crashing {
        mutex.try_lock().ok()
    } else {
        Some(mutex.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn wholes(crashing: bool) -> [Whole; FAMILIES] {
    let mut wholes = <[Whole; FAMILIES]>::default();
    let mut add = |ledger: &Ledger| {
        for (whole, sums) in wholes.iter_mut().zip(&ledger.0) {
            sums.add_to(whole, crashing);
        }
    };
    let shelf = lock(&SHELF, crashing);
    for ledger in shelf.iter().flat_map(|shelf| shelf.served.ledgers()) {
        add(ledger);
    }
    let renamed = !UNLINKED.is_empty()
        && !crashing
        && Ctx::server_info(c"memory", c"lazyfree_pending_objects") == Some(0);
    if renamed {
        add(&UNLINKED);
    }
    wholes
}

/// Writes the sections of all families, in the order of their numbers; `crashing` is set while the server crashes.
pub fn write_info(sections: &[InfoSection], to: &mut InfoWriter, crashing: bool) {
    for (number, (info, whole)) in sections.iter().zip(wholes(crashing)).enumerate() {
        to.section(info.section);
        for (name, sum) in info.sums.iter().zip(whole.sums) {
            to.field(name, sum);
        }
        if let Some((name, _)) = info.largest {
            to.field(name, whole.largest);
        }
        if number == 0 {
            // For all families, under the name that it had when there was one.
            to.section(c"bloom_defrag_metrics");
            to.field(c"bloom_defrag_hits", mover::HITS.load(Relaxed));
            to.field(c"bloom_defrag_misses", mover::MISSES.load(Relaxed));
        }
    }
    if cfg!(debug_assertions) {
        // For tests, which assert on work instead of on time.
        let work = work::take();
        to.section(c"work");
        to.field(c"work_steps", work.steps);
        to.field(c"work_bytes", work.bytes);
    }
}
