//! The families of filters and sketches.

use clap::ValueEnum;

use valkeybloom_protocol::names::{COUNT_MIN, CUCKOO, T_DIGEST, TOP_K};
use valkeybloom_sketches::bloom::Dialect;

/// A family, whose name on the command line is that of the setting `bf.families`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Family {
    /// Bloom filter: was an item added?
    Bloom,
    /// Cuckoo filter: was an item added, and not removed?
    Cuckoo,
    /// Count-min sketch: how often was an item counted?
    Cms,
    /// Top-K: which K items are most frequent?
    Topk,
    /// t-digest: which quantiles do values have?
    Tdigest,
}

impl Family {
    /// Returns the family of a type, as TYPE returns it; `None` for other values.
    pub fn of(kind: &str) -> Option<Self> {
        Some(match kind {
            CUCKOO => Self::Cuckoo,
            COUNT_MIN => Self::Cms,
            TOP_K => Self::Topk,
            T_DIGEST => Self::Tdigest,
            kind if is_filter(kind) => Self::Bloom,
            _ => return None,
        })
    }

    /// Returns the name in the setting `bf.families`.
    pub fn word(self) -> String {
        let value = self.to_possible_value();
        value.expect("each has a value").get_name().to_owned()
    }

    /// Returns what its keys hold.
    pub const fn object(self) -> &'static str {
        match self {
            Self::Bloom => "Bloom filter",
            Self::Cuckoo => "cuckoo filter",
            Self::Cms => "count-min sketch",
            Self::Topk => "Top-K",
            Self::Tdigest => "t-digest",
        }
    }
}

/// Returns whether values of a type, as TYPE returns it, count an item that is added twice.
pub fn counts_twice(kind: &str) -> bool {
    match Family::of(kind) {
        // Filters with counts have this type. So do others, for which a receipt does no harm.
        Some(Family::Bloom) => dialect_of(kind) == Some(Dialect::Bloomfltx),
        Some(Family::Cms | Family::Topk | Family::Tdigest) => true,
        Some(Family::Cuckoo) | None => false,
    }
}

/// Returns the dialect of a type, as TYPE returns it; `None` if its values are not Bloom filters.
pub fn dialect_of(kind: &str) -> Option<Dialect> {
    let mut dialects = Dialect::ALL.into_iter();
    dialects.find(|of| of.type_name().to_bytes() == kind.as_bytes())
}

/// Returns whether the values of a type, as TYPE returns it, are Bloom filters.
pub fn is_filter(kind: &str) -> bool {
    dialect_of(kind).is_some()
}
