//! The sections of INFO, and the ledgers that they are computed from.
//!
//! INFO equals the sum over the keyspace at every moment. The server does not report when a value leaves the
//! keyspace: it frees a value some time after its key is gone, in the background if the value is large, and a
//! flush does not visit the values at all. So every database has a [`Ledger`], and every value is entered in
//! exactly one ledger. The value refers to its ledger, and subtracts exactly what it added.
//!
//! - A flushed database gets a new ledger, so its old values leave the sum at once, however long freeing them
//!   takes. Swapped databases swap their ledgers.
//! - A value that loses its key moves to the ledger of *unlinked* values. Nearly always it is freed soon. But
//!   RENAME and MOVE also unlink a value, and then give it another key without reporting that. So the values in
//!   this ledger are counted while the server is freeing nothing, because they have keys then. A write to such a
//!   value enters it in its database's ledger. (So one case is not exact: a value that was renamed, and not
//!   written to since, is left out while the background thread frees something else.)
//! - A full resync that loads data beside the served data fills its own ledgers, which replace the served ones
//!   when it is complete. Some servers do not report the database of a loaded value. Such values are in the ledger
//!   of *unplaced* values. Before a single database is flushed, the unplaced values in it are moved to the
//!   database's own ledger.

use std::collections::btree_map::{BTreeMap, Entry};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use valkeybloom_sketches::work;

use crate::ffi::{Ctx, DatabaseEvent, InfoWriter};
use crate::mover;

/// The maximum number of families.
pub const FAMILIES: usize = 8;

/// The maximum number of sums of a family.
pub const SUMS: usize = 7;

/// A value's share of its family's sums, in the order of [`InfoSection::sums`], padded with zeros.
pub type Totals = [u64; SUMS];

/// The totals before a value exists, and after it is gone.
pub const NOTHING: Totals = [0; SUMS];

/// A family's section of INFO. The server puts the module's name before all names.
pub struct InfoSection {
    /// The name of the section.
    pub section: &'static CStr,
    /// The fields that are sums over all values, in the order of [`Totals`]. The first sum is positive for every value.
    pub sums: &'static [&'static CStr],
    /// The field that is a maximum over all values, and the index in [`Totals`] of the number it is taken of.
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
    /// The number of values for each number that the maximum is taken of. Unlike a sum, a maximum can't be reduced
    /// when a value leaves.
    largest: Mutex<BTreeMap<u64, u64>>,
}

impl FamilySums {
    /// Replaces a value's number. Few writes get here. A background thread may call this at the same time.
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

    /// Adds these sums to those over the keyspace.
    fn add_to(&self, total: &mut KeyspaceSums, crashing: bool) {
        for (to, sum) in total.sums.iter_mut().zip(&self.sums) {
            *to = to.wrapping_add(sum.load(Relaxed));
        }
        let largest =
            lock(&self.largest, crashing).and_then(|values| Some(*values.last_key_value()?.0));
        total.largest = total.largest.max(largest.unwrap_or(0));
    }
}

/// The ledgers of all databases of one data set.
struct Ledgers {
    /// The ledgers by database number.
    by_database: Vec<Arc<Ledger>>,
    /// The ledger of values whose database is unknown.
    unplaced: Option<Arc<Ledger>>,
}

impl Ledgers {
    const NEW: Self = Self {
        by_database: Vec::new(),
        unplaced: None,
    };

    fn of_database(&mut self, database: i32) -> &mut Arc<Ledger> {
        let index = usize::try_from(database).unwrap_or(0);
        if self.by_database.len() <= index {
            self.by_database.resize_with(index + 1, Arc::default);
        }
        &mut self.by_database[index]
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Ledger>> {
        self.by_database.iter().chain(&self.unplaced)
    }
}

/// The ledgers of all data sets, but for unlinked values.
struct DataSets {
    /// The ledgers of the data that is being served.
    served: Ledgers,
    /// The ledgers of the data that is being loaded beside it.
    loading: Option<Ledgers>,
}

static DATA_SETS: Mutex<DataSets> = Mutex::new(DataSets {
    served: Ledgers::NEW,
    loading: None,
});

static UNLINKED: LazyLock<Arc<Ledger>> = LazyLock::new(Arc::default);

fn data_sets() -> MutexGuard<'static, DataSets> {
    DATA_SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the ledger of a database.
pub fn of_database(database: i32) -> Arc<Ledger> {
    data_sets().served.of_database(database).clone()
}

/// Returns the ledger for a value that is loaded from an RDB stream into a database.
pub fn of_loaded(database: i32) -> Arc<Ledger> {
    let DataSets { served, loading } = &mut *data_sets();
    match loading {
        None => served.of_database(database).clone(),
        Some(loading) if Ctx::names_databases_of_side_loads() => {
            loading.of_database(database).clone()
        }
        Some(loading) => loading.unplaced.get_or_insert_default().clone(),
    }
}

/// Returns the ledger of values whose database is unknown, or `None` if there are no such values.
pub fn unplaced() -> Option<Arc<Ledger>> {
    let ledger = data_sets().served.unplaced.clone();
    ledger.filter(|ledger| !ledger.is_empty())
}

/// Returns whether a ledger is the one of values that lost their keys.
#[inline]
pub fn is_unlinked(ledger: &Arc<Ledger>) -> bool {
    Arc::ptr_eq(ledger, &UNLINKED)
}

/// Returns the ledger of values that lost their keys.
pub fn unlinked() -> Arc<Ledger> {
    UNLINKED.clone()
}

/// Updates the ledgers at an event that concerns whole databases.
pub fn on_database(event: DatabaseEvent) {
    let DataSets { served, loading } = &mut *data_sets();
    match event {
        DatabaseEvent::Flush(None) => *served = Ledgers::NEW,
        DatabaseEvent::Flush(Some(database)) => *served.of_database(database) = Arc::default(),
        DatabaseEvent::Swap(one, other) => {
            let first = served.of_database(one).clone();
            let second = std::mem::replace(served.of_database(other), first);
            *served.of_database(one) = second;
        }
        DatabaseEvent::SideLoadStarted => *loading = Some(Ledgers::NEW),
        DatabaseEvent::SideLoadAborted => *loading = None,
        DatabaseEvent::SideLoadCompleted => {
            if let Some(loaded) = loading.take() {
                *served = loaded;
            }
        }
        DatabaseEvent::Loaded => {}
    }
}

/// A family's sums over the keyspace, and its maximum.
#[derive(Default)]
struct KeyspaceSums {
    sums: Totals,
    largest: u64,
}

/// Locks a mutex. While the server crashes, this does not wait, because the crash may have interrupted the lock's
/// holder; then it returns `None`.
fn lock<T>(mutex: &Mutex<T>, crashing: bool) -> Option<MutexGuard<'_, T>> {
    if crashing {
        mutex.try_lock().ok()
    } else {
        Some(mutex.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns each family's sums over the keyspace.
fn keyspace_sums(crashing: bool) -> [KeyspaceSums; FAMILIES] {
    let mut totals = <[KeyspaceSums; FAMILIES]>::default();
    let mut add = |ledger: &Ledger| {
        for (total, sums) in totals.iter_mut().zip(&ledger.0) {
            sums.add_to(total, crashing);
        }
    };
    let data_sets = lock(&DATA_SETS, crashing);
    for ledger in data_sets.iter().flat_map(|sets| sets.served.iter()) {
        add(ledger);
    }
    // While nothing is being freed, unlinked values are renamed ones.
    let renamed = !UNLINKED.is_empty()
        && !crashing
        && Ctx::server_info(c"memory", c"lazyfree_pending_objects") == Some(0);
    if renamed {
        add(&UNLINKED);
    }
    totals
}

/// Writes the INFO sections of all families, in the order of their numbers; `crashing` is set while the server crashes.
pub fn write_info(sections: &[InfoSection], to: &mut InfoWriter, crashing: bool) {
    let totals = sections.iter().zip(keyspace_sums(crashing));
    for (number, (info, total)) in totals.enumerate() {
        to.section(info.section);
        for (name, sum) in info.sums.iter().zip(total.sums) {
            to.field(name, sum);
        }
        if let Some((name, _)) = info.largest {
            to.field(name, total.largest);
        }
        if number == 0 {
            // These count all families; the names are from the time when there was only one.
            to.section(c"bloom_defrag_metrics");
            to.field(c"bloom_defrag_hits", mover::HITS.load(Relaxed));
            to.field(c"bloom_defrag_misses", mover::MISSES.load(Relaxed));
        }
    }
    if cfg!(debug_assertions) {
        // For tests, which assert on work instead of time.
        let work = work::take();
        to.section(c"work");
        to.field(c"work_steps", work.steps);
        to.field(c"work_bytes", work.bytes);
    }
}
