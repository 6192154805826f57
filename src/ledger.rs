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
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::ffi::{Ctx, DatabaseEvent, InfoWriter};
use valkeybloom_sketches::work;

/// A value's share of the sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Bytes of memory.
    pub bytes: u64,
    /// Objects: 1.
    pub objects: u64,
    /// Objects of RedisBloom: 1 or 0.
    pub redisbloom: u64,
    /// Objects of which chunks are still to come: 1 or 0.
    pub half_loaded: u64,
    /// Their filters.
    pub filters: u64,
    /// Items in these.
    pub items: u64,
    /// The capacity of these; of cuckoo filters the slots.
    pub capacity: u64,
}

/// Values that INFO sums up together.
#[derive(Clone, Copy)]
pub enum Family {
    /// Bloom objects.
    Bloom,
    /// Cuckoo filters.
    Cuckoo,
    /// Values that are carried.
    Carried,
}

const FAMILIES: usize = 3;

/// A value that INFO tells of.
pub trait Weighed {
    /// With which others.
    const FAMILY: Family;
    /// Its share of the sums.
    fn footprint(&self) -> Footprint;
}

/// A value, and the ledger in which it is entered.
pub struct Entered<V: Weighed> {
    value: V,
    ledger: Arc<Ledger>,
}

impl<V: Weighed> Entered<V> {
    /// A value, which this enters in a ledger.
    pub fn new(value: V, ledger: Arc<Ledger>) -> Self {
        let footprint = value.footprint();
        ledger.of(V::FAMILY).change(Footprint::default(), footprint);
        Self { value, ledger }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &V {
        &self.value
    }

    /// The value, for a change that leaves its footprint as it is.
    #[inline]
    pub fn value_mut(&mut self) -> &mut V {
        &mut self.value
    }

    /// Changes the value, and its entry with it.
    #[inline]
    pub fn update<R>(&mut self, change: impl FnOnce(&mut V) -> R) -> R {
        let before = self.value.footprint();
        let result = change(&mut self.value);
        let after = self.value.footprint();
        self.ledger.of(V::FAMILY).change(before, after);
        result
    }

    /// Whether it is in the ledger of values that lost their keys.
    #[inline]
    pub fn is_unlinked(&self) -> bool {
        Arc::ptr_eq(&self.ledger, &UNLINKED)
    }

    /// Whether it is in this ledger.
    pub fn is_in(&self, ledger: &Arc<Ledger>) -> bool {
        Arc::ptr_eq(&self.ledger, ledger)
    }

    /// Moves its entry to another ledger.
    pub fn enter_in(&mut self, ledger: Arc<Ledger>) {
        let footprint = self.value.footprint();
        self.ledger
            .of(V::FAMILY)
            .change(footprint, Footprint::default());
        ledger.of(V::FAMILY).change(Footprint::default(), footprint);
        self.ledger = ledger;
    }
}

impl<V: Weighed> Drop for Entered<V> {
    fn drop(&mut self) {
        let footprint = self.value.footprint();
        self.ledger
            .of(V::FAMILY)
            .change(footprint, Footprint::default());
    }
}

/// The sums over some values, for each family.
#[derive(Debug, Default)]
pub struct Ledger([Totals; FAMILIES]);

impl Ledger {
    #[inline]
    fn of(&self, family: Family) -> &Totals {
        &self.0[family as usize]
    }

    fn is_empty(&self) -> bool {
        let objects = self.0.iter().map(|sums| sums.objects.load(Relaxed));
        objects.sum::<u64>() == 0
    }
}

/// The sums over some values.
#[derive(Debug, Default)]
struct Totals {
    bytes: AtomicU64,
    objects: AtomicU64,
    redisbloom: AtomicU64,
    half_loaded: AtomicU64,
    filters: AtomicU64,
    items: AtomicU64,
    capacity: AtomicU64,
    /// How many values have how many filters: a maximum can't be taken back as a sum can.
    depths: Mutex<BTreeMap<u64, u64>>,
}

impl Totals {
    /// Replaces a value's footprint; that of a value that is not there is empty.
    #[inline]
    fn change(&self, before: Footprint, after: Footprint) {
        let change = |sum: &AtomicU64, before: u64, after: u64| {
            if before != after {
                // Sums wrap, because the change may be negative.
                sum.fetch_add(after.wrapping_sub(before), Relaxed);
            }
        };
        change(&self.items, before.items, after.items);
        change(&self.bytes, before.bytes, after.bytes);
        change(&self.objects, before.objects, after.objects);
        change(&self.redisbloom, before.redisbloom, after.redisbloom);
        change(&self.half_loaded, before.half_loaded, after.half_loaded);
        change(&self.filters, before.filters, after.filters);
        change(&self.capacity, before.capacity, after.capacity);
        if before.filters != after.filters {
            self.change_depth(before.filters, after.filters);
        }
    }

    /// Most writes add no filter, and don't get here. A background thread may strike values out meanwhile.
    #[cold]
    fn change_depth(&self, before: u64, after: u64) {
        let mut depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        if after > 0 {
            *depths.entry(after).or_default() += 1;
        }
        if let Entry::Occupied(mut values) = depths.entry(before) {
            *values.get_mut() -= 1;
            if *values.get() == 0 {
                values.remove();
            }
        }
    }

    fn add_to(&self, sums: &mut Sums, crashing: bool) {
        let add = |to: &mut u64, sum: &AtomicU64| *to = to.wrapping_add(sum.load(Relaxed));
        let all = &mut sums.all;
        add(&mut all.bytes, &self.bytes);
        add(&mut all.objects, &self.objects);
        add(&mut all.redisbloom, &self.redisbloom);
        add(&mut all.half_loaded, &self.half_loaded);
        add(&mut all.filters, &self.filters);
        add(&mut all.items, &self.items);
        add(&mut all.capacity, &self.capacity);
        let depths = lock(&self.depths, crashing);
        let deepest = depths.and_then(|depths| Some(*depths.last_key_value()?.0));
        sums.max_filters = sums.max_filters.max(deepest.unwrap_or(0));
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

/// How often defragmentation moved an allocation.
pub static DEFRAG_HITS: AtomicU64 = AtomicU64::new(0);
/// How often defragmentation left an allocation where it was.
pub static DEFRAG_MISSES: AtomicU64 = AtomicU64::new(0);

/// What INFO tells of the keyspace.
#[derive(Default)]
struct Sums {
    all: Footprint,
    /// Of the object that has the most.
    max_filters: u64,
}

/// What a lock guards. A crash may have interrupted its holder: then nobody waits, and there is nothing.
fn lock<T>(mutex: &Mutex<T>, crashing: bool) -> Option<MutexGuard<'_, T>> {
    if crashing {
        mutex.try_lock().ok()
    } else {
        Some(mutex.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn sums(crashing: bool) -> [Sums; FAMILIES] {
    let mut sums = <[Sums; FAMILIES]>::default();
    let mut add = |ledger: &Ledger| {
        for (sums, totals) in sums.iter_mut().zip(&ledger.0) {
            totals.add_to(sums, crashing);
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
    sums
}

/// Writes the sections; `crashing` is set while the server crashes.
pub fn write_info(to: &mut InfoWriter, crashing: bool) {
    let [bloom, cuckoo, carried] = sums(crashing);
    let Sums {
        all: sum,
        max_filters,
    } = bloom;
    to.section(c"bloom_core_metrics");
    to.field(c"bloom_total_memory_bytes", sum.bytes);
    to.field(c"bloom_num_objects", sum.objects);
    to.field(c"bloom_num_filters_across_objects", sum.filters);
    to.field(c"bloom_num_items_across_objects", sum.items);
    to.field(c"bloom_capacity_across_objects", sum.capacity);
    to.field(c"bloom_num_redisbloom_objects", sum.redisbloom);
    to.field(c"bloom_num_half_loaded_objects", sum.half_loaded);
    to.field(c"bloom_max_filters_in_object", max_filters);
    to.section(c"bloom_defrag_metrics");
    to.field(c"bloom_defrag_hits", DEFRAG_HITS.load(Relaxed));
    to.field(c"bloom_defrag_misses", DEFRAG_MISSES.load(Relaxed));
    let Sums {
        all: sum,
        max_filters,
    } = cuckoo;
    to.section(c"cuckoo_core_metrics");
    to.field(c"cuckoo_total_memory_bytes", sum.bytes);
    to.field(c"cuckoo_num_objects", sum.objects);
    to.field(c"cuckoo_num_filters_across_objects", sum.filters);
    to.field(c"cuckoo_num_items_across_objects", sum.items);
    to.field(c"cuckoo_num_slots_across_objects", sum.capacity);
    to.field(c"cuckoo_max_filters_in_object", max_filters);
    to.section(c"carried_metrics");
    to.field(c"carried_num_values", carried.all.objects);
    to.field(c"carried_memory_bytes", carried.all.bytes);
    if cfg!(debug_assertions) {
        // For tests, which assert on work instead of on time.
        let work = work::take();
        to.section(c"work");
        to.field(c"work_steps", work.steps);
        to.field(c"work_bytes", work.bytes);
    }
}
