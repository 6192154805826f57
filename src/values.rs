//! The server's operations on a value of any family: save, load, copy, move, free.

use std::sync::Arc;

use valkeybloom_sketches::{DecodeError, RdbRead, RdbWrite};

use crate::family::Family;
use crate::ffi::{
    AofWriter, Ctx, Defrag, Digest, Form, NativeType, RdbReader, RdbWriter, TypeHandle,
};
use crate::ledger::{self, Ledger, NOTHING};
use crate::mover::{self, Mover};
use crate::settings;

/// The bytes that the main thread frees in a tenth of a millisecond, at 0.05 ns for each. An eviction must not free less
/// in the background, because it would see no memory come back, and evict more keys than needed.
const FREED_AT_ONCE_BYTES: u64 = 2 << 20;

/// The bytes that are freed in the time of freeing one small allocation, about 50 ns.
const ALLOCATION_BYTES: u64 = 1 << 10;

/// A value, and the ledger that it is entered in.
pub struct Entered<V: Family> {
    value: V,
    ledger: Arc<Ledger>,
}

impl<V: Family> Entered<V> {
    /// Enters a value in a ledger.
    pub fn new(value: V, ledger: Arc<Ledger>) -> Self {
        ledger.change(V::NUMBER, &V::INFO, &NOTHING, &value.totals());
        Self { value, ledger }
    }

    /// Returns the value.
    #[inline]
    pub fn value(&self) -> &V {
        &self.value
    }

    /// Changes the value, and updates the ledger.
    #[inline]
    pub fn update<R>(&mut self, change: impl FnOnce(&mut V) -> R) -> R {
        let before = self.value.totals();
        let result = change(&mut self.value);
        let after = self.value.totals();
        self.ledger.change(V::NUMBER, &V::INFO, &before, &after);
        result
    }

    /// Reads the value, and updates the ledger: a read may make a cache within the value.
    pub fn caching<R>(&self, read: impl FnOnce(&V) -> R) -> R {
        let before = self.value.totals();
        let result = read(&self.value);
        let after = self.value.totals();
        self.ledger.change(V::NUMBER, &V::INFO, &before, &after);
        result
    }

    /// Returns whether the value is in the ledger of values that lost their keys.
    #[inline]
    pub fn is_unlinked(&self) -> bool {
        ledger::is_unlinked(&self.ledger)
    }

    /// Returns whether the value is in this ledger.
    pub fn is_in(&self, ledger: &Arc<Ledger>) -> bool {
        Arc::ptr_eq(&self.ledger, ledger)
    }

    /// Moves the value's entry to another ledger.
    pub fn enter_in(&mut self, ledger: Arc<Ledger>) {
        let totals = self.value.totals();
        self.ledger.change(V::NUMBER, &V::INFO, &totals, &NOTHING);
        ledger.change(V::NUMBER, &V::INFO, &NOTHING, &totals);
        self.ledger = ledger;
    }
}

impl<V: Family> Drop for Entered<V> {
    fn drop(&mut self) {
        let totals = self.value.totals();
        self.ledger.change(V::NUMBER, &V::INFO, &totals, &NOTHING);
    }
}

impl<V: Family> NativeType for Entered<V> {
    const FORMS: &'static [Form] = V::FORMS;

    fn handles() -> &'static [TypeHandle] {
        V::handles()
    }

    fn form(&self) -> usize {
        self.value.form()
    }

    fn load(
        from: &mut RdbReader,
        form: usize,
        version: i32,
        database: i32,
    ) -> Result<Self, String> {
        let value = V::load(from, form, version).and_then(|value| {
            if Ctx::loads_for_client() {
                value.require_limits()?;
            }
            Ok(value)
        });
        let value = value.map_err(|error| error.to_string())?;
        Ok(Self::new(value, ledger::of_loaded(database)))
    }

    /// Writes the fields of the value, without reading its ledger. Any thread may call this while no other thread
    /// changes the value.
    fn save(&self, to: &mut RdbWriter) {
        self.value.save(to);
    }

    fn rewrite(&self, to: &mut AofWriter) {
        self.value.rewrite(to);
    }

    fn memory_bytes(&self) -> u64 {
        self.value.memory_bytes()
    }

    fn digest(&self, to: &mut Digest) {
        self.value.digest(to);
        to.end_sequence();
    }

    fn frees_in_background(&self) -> bool {
        let bytes = self.memory_bytes();
        let work = self.value.allocations().saturating_mul(ALLOCATION_BYTES);
        bytes > settings::large_bytes() && bytes.saturating_add(work) > FREED_AT_ONCE_BYTES
    }

    fn unlinked(&mut self) {
        self.enter_in(ledger::unlinked());
    }

    fn copy(&self, database: i32) -> Option<Self> {
        let copy = self.value.try_clone()?;
        Some(Self::new(copy, ledger::of_database(database)))
    }

    fn defrag(mut value: Box<Self>, by: &Defrag) -> (Box<Self>, bool) {
        if !settings::defrag_is_on() {
            return (value, true);
        }
        let begin = by.cursor();
        if begin == 0 {
            let moved;
            (value, moved) = by.relocate(value);
            mover::count_moved(moved);
        }
        let next = value.value.relocate(begin, &mut Mover(by));
        if let Some(next) = next {
            by.set_cursor(next);
        }
        (value, next.is_none())
    }
}

impl RdbRead for RdbReader {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        self.load_uint().ok_or(DecodeError::Truncated)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        self.load_double().ok_or(DecodeError::Truncated)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        self.load_bytes().ok_or(DecodeError::Truncated)
    }
}

impl RdbWrite for RdbWriter {
    fn uint(&mut self, value: u64) {
        self.save_uint(value);
    }

    fn double(&mut self, value: f64) {
        self.save_double(value);
    }

    fn bytes(&mut self, value: &[u8]) {
        self.save_bytes(value);
    }
}

/// The bytes of fields that are hashed at a time. Each hashing of the server takes a third of a microsecond.
const HASHED_BYTES: usize = 64 << 10;

/// Feeds a digest the fields that `write` writes.
pub fn digest_fields(to: &mut Digest, write: impl FnOnce(&mut DigestedFields)) {
    let mut fields = DigestedFields {
        to,
        bytes: Vec::new(),
    };
    write(&mut fields);
    fields.to.add_bytes(&fields.bytes);
}

/// Fields for a digest.
pub struct DigestedFields<'d> {
    to: &'d mut Digest,
    /// The last fields, not hashed yet.
    bytes: Vec<u8>,
}

impl DigestedFields<'_> {
    fn add(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > HASHED_BYTES {
            self.to.add_bytes(&self.bytes);
            self.bytes.clear();
        }
        if bytes.len() > HASHED_BYTES {
            self.to.add_bytes(bytes);
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

impl RdbWrite for DigestedFields<'_> {
    fn uint(&mut self, value: u64) {
        self.add(&value.to_le_bytes());
    }

    fn double(&mut self, value: f64) {
        self.add(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.add(&(value.len() as u64).to_le_bytes());
        self.add(value);
    }
}
