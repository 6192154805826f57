//! The limits of a server.

use serde_json::{Value, json};

use valkeybloom_protocol::names::{CUCKOO_FILTERS, FILTER_MEMORY, OBJECT_MEMORY};
use valkeybloom_sketches::{bloom, cuckoo};

use crate::Fault;
use crate::report::grouped;

/// The bytes that a server counts for each value besides the filters or the sketch.
const STORED_BYTES: u64 = 8;

/// The most bytes that a server can hold: the addresses of a process have 48 bits on ARM64, and 47 on x86-64.
const MOST_BYTES: u64 = 1 << 48;

/// Requires that some server can hold a value with an object of this size, which a field of the page asks for.
pub(crate) fn require_within_memory(field: &'static str, bytes: u64) -> Result<(), Fault> {
    if stored(bytes) <= MOST_BYTES {
        return Ok(());
    }
    let text = "it takes more than 256 TiB, which no server can hold";
    Err(Fault::impossible(field, text))
}

/// Returns the size of a value with an object of this size.
pub const fn stored(bytes: u64) -> u64 {
    bytes.saturating_add(STORED_BYTES)
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The setting `bf.bloom-filter-max-memory-usage` in bytes.
    pub filter: u64,
    /// The setting `bf.bloom-memory-usage-limit` in bytes; 0 means no limit.
    pub object: u64,
    /// The setting `bf.cf-max-expansions`.
    pub cuckoo_filters: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            filter: bloom::Limits::DEFAULT.filter_bytes,
            object: 0,
            cuckoo_filters: 32,
        }
    }
}

impl Limits {
    fn object_bytes(&self) -> u64 {
        match self.object {
            0 => u64::MAX,
            bytes => bytes.saturating_sub(STORED_BYTES),
        }
    }

    /// Returns the limits on a Bloom filter.
    pub(crate) fn of_bloom(&self) -> bloom::Limits {
        bloom::Limits {
            filter_bytes: self.filter,
            object_bytes: self.object_bytes(),
            saturate: false,
        }
    }

    /// Returns the limits on a cuckoo filter.
    pub(crate) fn of_cuckoo(&self) -> cuckoo::Limits {
        cuckoo::Limits {
            filters: self.cuckoo_filters,
            filter_bytes: self.filter,
            object_bytes: self.object_bytes(),
        }
    }

    /// Returns the same limits without the one on a single filter.
    pub(crate) fn of_object(self) -> Self {
        Self {
            filter: u64::MAX,
            ..self
        }
    }

    /// Returns the setting that limits the memory of a sketch of this size, and its value.
    pub(crate) fn refusing(&self, bytes: u64) -> Option<(&'static str, u64)> {
        let limits = [(FILTER_MEMORY, self.filter), (OBJECT_MEMORY, self.object)];
        let mut limits = limits.into_iter();
        limits.find(|&(name, limit)| bytes > limit && (limit > 0 || name == FILTER_MEMORY))
    }

    /// Returns the setting that a larger filter exceeds, and its value.
    pub(crate) fn memory(&self, is_of_filter: bool) -> (&'static str, u64) {
        if is_of_filter {
            (FILTER_MEMORY, self.filter)
        } else {
            (OBJECT_MEMORY, self.object)
        }
    }

    /// Returns why a server with these limits refuses an object of this size, whose largest filter has `largest` bytes, and
    /// what to do about it.
    pub(crate) fn refusal(&self, largest: Option<u64>, bytes: u64, or: &str) -> String {
        let larger = largest.filter(|largest| *largest > self.filter);
        let (setting, _) = self.memory(larger.is_some());
        refusal(setting, larger.unwrap_or(stored(bytes)), or)
    }
}

/// Returns what stops growth after `items` items: its name and the setting's value, as text and as JSON.
pub fn stop(name: &str, value: Option<u64>, items: u64) -> (String, Value) {
    let size = value.map_or(String::new(), |value| format!(" {}", grouped(value)));
    let text = format!("{name}{size}, at {} items", grouped(items));
    let bytes = value.filter(|_| name != CUCKOO_FILTERS);
    let found = json!({ "name": name, "bytes": bytes, "items": items });
    (text, found)
}

/// Returns why a server refuses what exceeds a limit, and what to do about it.
pub fn refusal(setting: &str, value: u64, or: &str) -> String {
    format!("a server with these limits refuses it: set {setting} to {value} there{or}")
}
