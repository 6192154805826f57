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

/// The text of a fault for a value of more than [`MOST_BYTES`].
pub(crate) const BEYOND_MEMORY: &str = "it takes more than 256 TiB, which no server can hold";

/// Requires that some server can hold a value with an object of this size, which a field of the page asks for.
pub(crate) fn require_within_memory(field: &'static str, bytes: u64) -> Result<(), Fault> {
    if stored(bytes) <= MOST_BYTES {
        return Ok(());
    }
    Err(Fault::impossible(field, BEYOND_MEMORY))
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
    /// The setting `bf.cf-max-expansions`: the number of filters at which a cuckoo filter takes no more items.
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

    /// Returns the limits on the filters of a cuckoo filter that are filled: one that has as many as the setting allows takes no
    /// more items, even if the last of them has room.
    pub fn of_cuckoo(&self) -> cuckoo::Limits {
        cuckoo::Limits {
            filters: self.cuckoo_filters.saturating_sub(1),
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

    /// Returns the setting that a larger filter exceeds, and its value.
    pub(crate) fn memory(&self, is_of_filter: bool) -> (&'static str, u64) {
        if is_of_filter {
            (FILTER_MEMORY, self.filter)
        } else {
            (OBJECT_MEMORY, self.object)
        }
    }

    /// Returns the settings that a value of `bytes` exceeds, whose largest filter has `largest` bytes: each with what it has to
    /// be to admit the value.
    pub(crate) fn exceeded(&self, largest: u64, bytes: u64) -> Vec<(&'static str, u64)> {
        let mut exceeded = Vec::new();
        if largest > self.filter {
            exceeded.push((FILTER_MEMORY, largest));
        }
        if self.object > 0 && bytes > self.object {
            exceeded.push((OBJECT_MEMORY, bytes));
        }
        exceeded
    }
}

/// Returns what stops growth after `items` items: its name and the setting's value, as text and as JSON.
pub fn stop(name: &str, value: Option<u64>, items: u64) -> (String, Value) {
    let size = value.map_or(String::new(), |value| format!(" {}", grouped(value)));
    let noun = if items == 1 { "item" } else { "items" };
    let text = format!("{name}{size}, at {} {noun}", grouped(items));
    let bytes = value.filter(|_| name != CUCKOO_FILTERS);
    let found = json!({ "name": name, "bytes": bytes, "items": items });
    (text, found)
}

/// Returns why a server can't hold what exceeds these settings, and what to do about it; `None` if there are none. Each setting
/// comes with what it has to be.
pub fn refusal(exceeded: &[(&str, u64)], or: &str) -> Option<String> {
    let (&(first, least), others) = exceeded.split_first()?;
    let mut text = format!("a server with these limits can't hold it: set {first} to {least}");
    for (other, least) in others {
        text = format!("{text} and {other} to {least}");
    }
    Some(text + " there" + or)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Request;

    /// Returns the limits with the settings that a refusal asks for, each less `by`.
    fn raised(limits: Limits, refusal: &str, by: impl Fn(&str) -> u64) -> Limits {
        let words: Vec<&str> = refusal.split([' ', ',']).collect();
        let mut raised = limits;
        for of_setting in words.windows(3).filter(|words| words[1] == "to") {
            let value = of_setting[2].parse::<u64>().expect("a number") - by(of_setting[0]);
            match of_setting[0] {
                FILTER_MEMORY => raised.filter = value,
                OBJECT_MEMORY => raised.object = value,
                CUCKOO_FILTERS => raised.cuckoo_filters = value,
                other => panic!("{other}"),
            }
        }
        raised
    }

    /// Requires that servers with various limits refuse a plan if they don't admit it, and admit it with the settings that the
    /// refusal asks for, but with no lower ones.
    pub(crate) fn check(request: &dyn Request, is_admitted: impl Fn(&Limits) -> bool) {
        let bytes = [1, 9, 100, 5000, 60_000, 2_000_000, 100_000_000];
        for filter in bytes.into_iter().chain([u64::MAX]) {
            for object in bytes.into_iter().chain([0]) {
                for cuckoo_filters in [1, 3, 1 << 16] {
                    let limits = Limits {
                        filter,
                        object,
                        cuckoo_filters,
                    };
                    let planned = request.plan(&limits).expect("a plan");
                    let Some(refusal) = planned.refusal else {
                        assert!(is_admitted(&limits), "{limits:?}");
                        continue;
                    };
                    assert!(!is_admitted(&limits), "{limits:?}: {refusal}");
                    let enough = raised(limits, &refusal, |_| 0);
                    assert!(
                        is_admitted(&enough),
                        "{enough:?}: {refusal} {:?}",
                        planned.report.json["command"]
                    );
                    for named in [FILTER_MEMORY, OBJECT_MEMORY, CUCKOO_FILTERS] {
                        let less = raised(limits, &refusal, |name| u64::from(name == named));
                        let is_named = refusal.contains(named);
                        assert_eq!(is_admitted(&less), !is_named, "{less:?}: {refusal}");
                    }
                }
            }
        }
    }
}
