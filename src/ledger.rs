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
//!   replace the others when it is complete.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::ffi::{Ctx, DatabaseEvent, InfoWriter};

/// A value's share of the sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Bytes of memory.
    pub bytes: u64,
    /// Objects: 1.
    pub objects: u64,
    /// Objects of RedisBloom: 1 or 0.
    pub redisbloom: u64,
    /// Their filters.
    pub filters: u64,
    /// Items in these.
    pub items: u64,
    /// The capacity of these.
    pub capacity: u64,
}

/// The sums over some values.
#[derive(Debug, Default)]
pub struct Ledger {
    bytes: AtomicU64,
    objects: AtomicU64,
    redisbloom: AtomicU64,
    filters: AtomicU64,
    items: AtomicU64,
    capacity: AtomicU64,
}

impl Ledger {
    /// Enters a value.
    pub fn enter(&self, value: Footprint) {
        self.change(Footprint::default(), value);
    }

    /// Strikes a value out.
    pub fn strike(&self, value: Footprint) {
        self.change(value, Footprint::default());
    }

    /// Replaces a value's footprint.
    #[inline]
    pub fn change(&self, before: Footprint, after: Footprint) {
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
        change(&self.filters, before.filters, after.filters);
        change(&self.capacity, before.capacity, after.capacity);
    }

    fn add_to(&self, sum: &mut Footprint) {
        sum.bytes = sum.bytes.wrapping_add(self.bytes.load(Relaxed));
        sum.objects = sum.objects.wrapping_add(self.objects.load(Relaxed));
        sum.redisbloom = sum.redisbloom.wrapping_add(self.redisbloom.load(Relaxed));
        sum.filters = sum.filters.wrapping_add(self.filters.load(Relaxed));
        sum.items = sum.items.wrapping_add(self.items.load(Relaxed));
        sum.capacity = sum.capacity.wrapping_add(self.capacity.load(Relaxed));
    }
}

#[derive(Default)]
struct Books {
    /// Of the data that is being served, by the number of the database.
    served: Vec<Arc<Ledger>>,
    /// Of the data that is being loaded beside it.
    loading: Option<Vec<Arc<Ledger>>>,
}

static BOOKS: Mutex<Books> = Mutex::new(Books {
    served: Vec::new(),
    loading: None,
});

static UNLINKED: LazyLock<Arc<Ledger>> = LazyLock::new(Arc::default);

fn books() -> MutexGuard<'static, Books> {
    BOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn page(pages: &mut Vec<Arc<Ledger>>, database: i32) -> &mut Arc<Ledger> {
    let index = usize::try_from(database).unwrap_or(0);
    if pages.len() <= index {
        pages.resize_with(index + 1, Arc::default);
    }
    &mut pages[index]
}

/// The ledger of a database.
pub fn of_database(database: i32) -> Arc<Ledger> {
    page(&mut books().served, database).clone()
}

/// The ledger of a database for a value that an RDB stream brings.
pub fn of_loaded(database: i32) -> Arc<Ledger> {
    let mut books = books();
    let Books { served, loading } = &mut *books;
    page(loading.as_mut().unwrap_or(served), database).clone()
}

/// The ledger of values that lost their keys.
pub fn unlinked() -> Arc<Ledger> {
    UNLINKED.clone()
}

/// Whether a value's ledger is the one of values that lost their keys.
#[inline]
pub fn is_unlinked(ledger: &Arc<Ledger>) -> bool {
    Arc::ptr_eq(ledger, &UNLINKED)
}

/// Keeps the ledgers in step with what happens to whole databases.
pub fn on_database(event: DatabaseEvent) {
    let mut books = books();
    match event {
        DatabaseEvent::Flush(None) => books.served.clear(),
        DatabaseEvent::Flush(Some(database)) => {
            *page(&mut books.served, database) = Arc::default();
        }
        DatabaseEvent::Swap(one, other) => {
            let first = page(&mut books.served, one).clone();
            let second = std::mem::replace(page(&mut books.served, other), first);
            *page(&mut books.served, one) = second;
        }
        DatabaseEvent::SideLoadStarted => books.loading = Some(Vec::new()),
        DatabaseEvent::SideLoadAborted => books.loading = None,
        DatabaseEvent::SideLoadCompleted => {
            if let Some(loaded) = books.loading.take() {
                books.served = loaded;
            }
        }
    }
}

/// How often defragmentation moved an allocation.
pub static DEFRAG_HITS: AtomicU64 = AtomicU64::new(0);
/// How often defragmentation left an allocation where it was.
pub static DEFRAG_MISSES: AtomicU64 = AtomicU64::new(0);

fn sum(crashing: bool) -> Footprint {
    let mut sum = Footprint::default();
    // A crash may have interrupted the holder of the lock; then the sums stay 0.
    let books = if crashing {
        BOOKS.try_lock().ok()
    } else {
        Some(books())
    };
    for ledger in books.iter().flat_map(|books| &books.served) {
        ledger.add_to(&mut sum);
    }
    let renamed = UNLINKED.objects.load(Relaxed) > 0
        && !crashing
        && Ctx::server_info(c"memory", c"lazyfree_pending_objects") == Some(0);
    if renamed {
        UNLINKED.add_to(&mut sum);
    }
    sum
}

/// Writes the sections; `crashing` is set while the server crashes.
pub fn write_info(to: &mut InfoWriter, crashing: bool) {
    let sum = sum(crashing);
    to.section(c"bloom_core_metrics");
    to.field(c"bloom_total_memory_bytes", sum.bytes);
    to.field(c"bloom_num_objects", sum.objects);
    to.field(c"bloom_num_filters_across_objects", sum.filters);
    to.field(c"bloom_num_items_across_objects", sum.items);
    to.field(c"bloom_capacity_across_objects", sum.capacity);
    to.field(c"bloom_num_redisbloom_objects", sum.redisbloom);
    to.section(c"bloom_defrag_metrics");
    to.field(c"bloom_defrag_hits", DEFRAG_HITS.load(Relaxed));
    to.field(c"bloom_defrag_misses", DEFRAG_MISSES.load(Relaxed));
}
