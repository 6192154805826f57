//! The memory limits of a server, and which of them refuses an object.

use std::collections::HashMap;

use valkeybloom_protocol::bloom::Maker;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::names::{CUCKOO_FILTERS, FILTER_MEMORY, NEW_FILTERS, OBJECT_MEMORY};
use valkeybloom_sketches::bloom::Refusal;

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

/// A setting that limits memory, and a value of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    pub name: &'static str,
    pub bytes: u64,
}

/// The bytes that a limit is to admit.
#[derive(Clone, Copy)]
pub struct Demand {
    pub limit: Limit,
    pub needed: u64,
}

impl Demand {
    /// Returns the share of the limit that is needed.
    pub fn share(&self) -> f64 {
        ratio(self.needed, self.limit.bytes)
    }

    /// Returns the limit with a value that admits the bytes, and some more.
    pub fn raised(&self) -> Limit {
        let Limit { name, bytes } = self.limit;
        let bytes = self.needed.max(bytes.saturating_mul(2));
        Limit { name, bytes }
    }
}

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

    /// Returns the memory limits that refuse an object of these sizes, with values that admit it.
    pub fn exceeded(self, sizes: Sizes) -> Vec<Limit> {
        let demands = self.demands(sizes);
        let exceeded = demands.filter(|demand| demand.needed > demand.limit.bytes);
        exceeded.map(|demand| demand.raised()).collect()
    }

    /// Returns the memory limit that is nearest for an object of these sizes, if limits are known.
    pub fn nearest(self, sizes: Sizes) -> Option<Demand> {
        let demands = self.demands(sizes);
        demands.max_by(|one, other| one.share().total_cmp(&other.share()))
    }

    /// Returns what the limits that are known are to admit for an object of these sizes.
    pub fn demands(self, Sizes { filter, object }: Sizes) -> impl Iterator<Item = Demand> {
        let limits = [
            (FILTER_MEMORY, self.filter_limit, filter),
            (OBJECT_MEMORY, self.object_limit, object),
        ];
        limits.into_iter().filter_map(|(name, bytes, needed)| {
            let bytes = bytes.filter(|bytes| *bytes > 0)?;
            let limit = Limit { name, bytes };
            Some(Demand { limit, needed })
        })
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
        exceeded.into_iter().map(|limit| limit.name).collect()
    }
}

/// The least sizes of an object in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// The size of its largest filter.
    pub filter: u64,
    pub object: u64,
}

impl Sizes {
    /// Returns the sizes of an object that is one piece.
    pub const fn whole(bytes: u64) -> Self {
        Self {
            filter: bytes,
            object: bytes,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(filter_limit: Option<u64>, object_limit: Option<u64>) -> Settings {
        Settings {
            filter_limit,
            object_limit,
            ..Settings::default()
        }
    }

    #[test]
    fn the_limits_that_refuse_an_object_are_named_with_values_that_admit_it() {
        let filter = |bytes| Limit {
            name: FILTER_MEMORY,
            bytes,
        };
        let object = |bytes| Limit {
            name: OBJECT_MEMORY,
            bytes,
        };
        for (filter_limit, object_limit, sizes, exceeded) in [
            (Some(100), Some(0), (100, u64::MAX), &[][..]),
            (Some(100), Some(0), (101, 101), &[filter(200)]),
            (Some(100), Some(0), (201, 201), &[filter(201)]),
            (Some(100), Some(150), (100, 151), &[object(300)]),
            (
                Some(100),
                Some(150),
                (101, 151),
                &[filter(200), object(300)],
            ),
            (Some(u64::MAX - 1), None, (u64::MAX, 0), &[filter(u64::MAX)]),
            (None, None, (u64::MAX, u64::MAX), &[]),
        ] {
            let settings = settings(filter_limit, object_limit);
            let (filter, object) = sizes;
            let found = settings.exceeded(Sizes { filter, object });
            assert_eq!(found, exceeded, "{settings:?} {sizes:?}");
        }
    }

    #[test]
    fn the_nearest_limit_is_the_one_with_the_largest_share() {
        for (filter_limit, object_limit, sizes, nearest) in [
            (Some(100), Some(0), (1, u64::MAX), Some(FILTER_MEMORY)),
            (Some(100), Some(1000), (50, 499), Some(FILTER_MEMORY)),
            (Some(100), Some(1000), (50, 501), Some(OBJECT_MEMORY)),
            (None, Some(0), (1, 1), None),
        ] {
            let (filter, object) = sizes;
            let found = settings(filter_limit, object_limit).nearest(Sizes { filter, object });
            assert_eq!(found.map(|demand| demand.limit.name), nearest, "{sizes:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_limits_that_may_have_made_it() {
        let (filter, object) = (FILTER_MEMORY, OBJECT_MEMORY);
        for (filter_limit, object_limit, sizes, refusing) in [
            // One of them is unknown.
            (Some(100), None, Some((101, 101)), &[][..]),
            (None, Some(100), Some((101, 101)), &[]),
            (Some(100), Some(0), None, &[filter]),
            (Some(100), Some(150), Some((101, 101)), &[filter]),
            (Some(100), Some(150), Some((50, 151)), &[object]),
            (Some(100), Some(150), Some((101, 151)), &[filter, object]),
            // The sizes are unknown, or are estimates that no limit refuses.
            (Some(100), Some(150), None, &[]),
            (Some(100), Some(150), Some((50, 50)), &[]),
            (Some(100), Some(100), None, &[object]),
            (Some(100), Some(100), Some((50, 50)), &[object]),
        ] {
            let settings = settings(filter_limit, object_limit);
            let found = settings.refusing(sizes.map(|(filter, object)| Sizes { filter, object }));
            assert_eq!(found, refusing, "{settings:?} {sizes:?}");
        }
    }
}
