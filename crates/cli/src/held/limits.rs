//! The memory limits of a server, and which of them stops a filter.

use std::collections::HashMap;

use valkeybloom_protocol::bloom::Maker;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::names::{CUCKOO_FILTERS, FILTER_MEMORY, NEW_FILTERS, OBJECT_MEMORY};
use valkeybloom_sketches::bloom::{Kind, Refusal};

use super::row::{Bloom, Row};
use crate::failure::{Failure, Fault, unless_refused};
use crate::options;
use crate::report::ratio;
use crate::server::{Server, words};

/// The settings of a server; `None` if they are unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The memory limit of a filter in bytes.
    pub filter_limit: Option<u64>,
    /// The memory limit of an object in bytes; 0 for no limit.
    pub object_limit: Option<u64>,
    /// The most filters of a cuckoo filter's stack.
    pub cuckoo_filters: Option<u64>,
    /// The implementation that new filters and sketches follow.
    pub maker: Option<Maker>,
}

/// A memory limit: the name of its setting, its value, and the bytes that it is to admit.
type Limit = (&'static str, u64, u64);

impl Settings {
    /// Reads the settings of a server, as far as the user may.
    pub fn of(server: &Server) -> Result<Self, Fault> {
        let Some(node) = server.primaries()?.into_iter().next() else {
            return Ok(Self::default());
        };
        let value = |name| {
            let command = words(&format!("CONFIG GET {name}"));
            let found = server.query_on::<HashMap<String, String>>(&node, &command);
            let found = unless_refused(found)?.unwrap_or_default();
            Ok::<_, Fault>(found.get(name).cloned().unwrap_or_default())
        };
        let number = |name| Ok::<_, Fault>(options::bytes(&value(name)?).ok());
        Ok(Self {
            filter_limit: number(FILTER_MEMORY)?,
            object_limit: number(OBJECT_MEMORY)?,
            cuckoo_filters: number(CUCKOO_FILTERS)?,
            maker: options::maker(&value(NEW_FILTERS)?).ok(),
        })
    }

    /// Returns whether count-min sketches are known to take another `CELL_SIZE` than 4.
    pub fn has_cell_sizes(self) -> bool {
        self.maker.is_some_and(|maker| maker != Maker::RedisBloom)
    }

    /// Returns the memory limits that refuse an object of these sizes, each with a value that admits it.
    pub fn exceeded(self, sizes: Sizes) -> Vec<(&'static str, u64)> {
        let limits = self.memory(sizes);
        let exceeded = limits.filter(|(_, limit, needed)| needed > limit);
        exceeded.map(raised).collect()
    }

    /// Returns the memory limits that are known, for an object of these sizes.
    fn memory(self, Sizes { filter, object }: Sizes) -> impl Iterator<Item = Limit> {
        let limits = [
            (FILTER_MEMORY, self.filter_limit, filter),
            (OBJECT_MEMORY, self.object_limit, object),
        ];
        let limits = limits.into_iter();
        let limits = limits.filter_map(|(name, limit, needed)| Some((name, limit?, needed)));
        limits.filter(|(_, limit, _)| *limit > 0)
    }

    /// Returns the settings that may have refused an object: those that its sizes exceed, or the one that comes first if the
    /// sizes are unknown or estimates. Returns none if a limit is unknown, or either may be the one.
    pub fn refusing(self, sizes: Option<Sizes>) -> Vec<&'static str> {
        let (Some(filter_limit), Some(object_limit)) = (self.filter_limit, self.object_limit)
        else {
            return Vec::new();
        };
        if object_limit == 0 {
            return vec![FILTER_MEMORY];
        }
        let exceeded = self.exceeded(sizes.unwrap_or_default());
        // An object has more bytes than any of its filters.
        if exceeded.is_empty() && object_limit <= filter_limit {
            return vec![OBJECT_MEMORY];
        }
        exceeded.into_iter().map(|(name, _)| name).collect()
    }
}

/// The least sizes of an object in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// The size of its largest filter.
    pub filter: u64,
    pub object: u64,
}

/// Reports a failure for an object that was to be made or filled. If a limit refused it, the report names the limit. The sizes
/// are known if the object is a new filter, which can have more shards.
pub fn failure(server: &Server, what: &str, fault: &Fault, sizes: Option<Sizes>) -> Failure {
    let refusal = Error::from(Refusal::MemoryLimit);
    let limits = if fault.is(refusal) {
        Settings::of(server).unwrap_or_default()
    } else {
        Settings::default()
    };
    match &limits.refusing(sizes)[..] {
        [] => server.failure(what, fault),
        names => {
            let (address, names) = (server.address(), names.join(" and "));
            let or = sizes.map_or("", |_| ", or use more shards");
            Failure::new(format!(
                "{what} {address}: {refusal}; raise {names} there{or}"
            ))
        }
    }
}

/// Returns the settings that refuse the next filter, each with a value that admits it.
pub fn ending_growth(
    row: &Row,
    bloom: &Bloom,
    reach: u64,
    settings: Settings,
) -> Option<Vec<(&'static str, u64)>> {
    settings.filter_limit.and(settings.object_limit)?;
    let bytes = row.bytes?;
    let next = if bloom.kind == Kind::Plain {
        let plan = bloom.plan(row.rate?, reach)?;
        plan.next_filter_bytes(row.filters?)?
    } else {
        // A table grows little by little.
        bytes
    };
    let sizes = Sizes {
        filter: next,
        object: bytes.saturating_add(next),
    };
    let mut refusing = settings.exceeded(sizes);
    if refusing.is_empty() {
        // The sizes are estimates for the filters of other modules, so a limit that is near is it. If none is, the error rate of
        // the next filter would be too small.
        let share = |(_, limit, needed): &Limit| ratio(*needed, *limit);
        let limits = settings.memory(sizes).filter(|limit| share(limit) > 0.5);
        let nearest = limits.max_by(|one, other| share(one).total_cmp(&share(other)));
        refusing.push(raised(nearest?));
    }
    Some(refusing)
}

/// Returns the name of a limit, and a value that admits the bytes.
fn raised((name, limit, needed): Limit) -> (&'static str, u64) {
    (name, needed.max(limit.saturating_mul(2)))
}
