//! What is known of one key. A field that its type lacks, or that its server does not report, is `None`.

use std::collections::HashMap;

use redis::{FromRedisValue, Value};

use valkeybloom_protocol::bloom::InfoField;

use super::family::Family;

/// A key that holds a filter or a sketch.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub key: Vec<u8>,
    /// The type, as TYPE returns it.
    pub kind: String,
    /// Items of a filter or a Top-K, the sum of a count-min sketch's increments, or observations of a t-digest.
    pub items: Option<u64>,
    /// The items that all filters have room for, or the length of a Top-K's list.
    pub capacity: Option<u64>,
    /// The requested error rate.
    pub rate: Option<f64>,
    /// The present error rate, estimated by the server.
    pub rate_now: Option<f64>,
    pub filters: Option<u64>,
    pub bytes: Option<u64>,
    pub ttl: Option<Ttl>,
    /// The time since the last use in seconds.
    pub idle_seconds: Option<u64>,
    pub details: Details,
}

/// The time to live of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ttl {
    Ms(u64),
    /// The key does not expire.
    Never,
}

/// What only some types have.
#[derive(Clone, Debug, PartialEq)]
pub enum Details {
    Bloom(Bloom),
    Cuckoo {
        /// 0 for a filter that does not grow.
        expansion: Option<u64>,
    },
    CountMin {
        width: Option<u64>,
        depth: Option<u64>,
        /// Bytes of a counter.
        cell_size: u64,
    },
    TopK {
        k: Option<u64>,
        width: Option<u64>,
        depth: Option<u64>,
        decay: Option<f64>,
    },
    TDigest {
        compression: Option<u64>,
    },
    /// A filter that BF.LOADCHUNK has not fully loaded.
    PartlyLoaded,
}

/// The parameters of a Bloom filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bloom {
    pub growth: Growth,
    /// The number of items at which it takes no more; with a window, those of the current period.
    pub reach: Option<u64>,
    /// The items that `reach` limits.
    pub reaching: Option<u64>,
    /// The length of a period in milliseconds, and the number of periods.
    pub window: Option<(u64, u64)>,
    pub live_periods: Option<u64>,
}

/// How a Bloom filter grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Growth {
    #[default]
    Unknown,
    Fixed,
    By(u32),
}

/// The fields of a reply to an INFO command, from any module.
struct Fields(HashMap<String, Value>);

impl Fields {
    fn read(reply: Value) -> Self {
        Self(HashMap::from_redis_value(reply).unwrap_or_default())
    }

    fn get<T: FromRedisValue>(&self, name: &str) -> Option<T> {
        let value = self.0.get(name)?;
        T::from_redis_value(value.clone()).ok()
    }

    fn of_filter<T: FromRedisValue>(&self, field: InfoField) -> Option<T> {
        self.get(field.title().to_str().unwrap_or_default())
    }
}

impl Row {
    /// Creates a row from the reply to its type's INFO command.
    pub fn new(key: Vec<u8>, kind: &str, info: Value) -> Self {
        let fields = Fields::read(info);
        let mut row = Self::bare(key, kind, Details::PartlyLoaded);
        match Family::of(kind) {
            Family::Bloom => row.fill_bloom(&fields),
            Family::Cuckoo => row.fill_cuckoo(&fields),
            Family::CountMin => row.fill_count_min(&fields),
            Family::TopK => row.fill_top_k(&fields),
            Family::TDigest => {
                row.items = fields.get("Observations");
                let compression = fields.get("Compression");
                row.details = Details::TDigest { compression };
            }
        }
        row
    }

    /// Creates the row of a filter that is not fully loaded.
    pub fn partly_loaded(key: Vec<u8>, kind: &str) -> Self {
        Self::bare(key, kind, Details::PartlyLoaded)
    }

    fn bare(key: Vec<u8>, kind: &str, details: Details) -> Self {
        Self {
            key,
            kind: kind.to_owned(),
            items: None,
            capacity: None,
            rate: None,
            rate_now: None,
            filters: None,
            bytes: None,
            ttl: None,
            idle_seconds: None,
            details,
        }
    }

    fn fill_bloom(&mut self, fields: &Fields) {
        self.items = fields.of_filter(InfoField::Items);
        self.capacity = fields.of_filter(InfoField::Capacity);
        self.rate = fields.of_filter(InfoField::Error);
        self.rate_now = fields.of_filter(InfoField::EstimatedError);
        self.filters = fields.of_filter(InfoField::Filters);
        self.bytes = fields.of_filter(InfoField::Size);
        let expansion: Option<Option<u32>> = fields.of_filter(InfoField::Expansion);
        let growth = match expansion {
            None => Growth::Unknown,
            Some(None | Some(0)) => Growth::Fixed,
            Some(Some(expansion)) => Growth::By(expansion),
        };
        let window = fields.of_filter(InfoField::Window);
        let window = window.zip(fields.of_filter(InfoField::Periods));
        let live_periods: Option<u64> = fields.of_filter(InfoField::LivePeriods);
        let reach = match (growth, window) {
            (Growth::Fixed, None) => self.capacity,
            // Its periods have one capacity.
            (Growth::Fixed, Some(_)) => (|| self.capacity?.checked_div(live_periods?))(),
            _ => fields.of_filter(InfoField::MaxScaledCapacity),
        };
        let reaching = match window {
            None => self.items,
            Some(_) => fields.of_filter(InfoField::PeriodItems),
        };
        self.details = Details::Bloom(Bloom {
            growth,
            reach,
            reaching,
            window,
            live_periods,
        });
    }

    /// Each filter has `expansion` times the buckets of the one below it.
    fn fill_cuckoo(&mut self, fields: &Fields) {
        let expansion: Option<u64> = fields.get("Expansion rate");
        self.items = fields.get("Number of items inserted");
        self.filters = fields.get("Number of filters");
        let first: Option<u64> = fields.get("Number of buckets");
        let slots = first.zip(fields.get("Bucket size"));
        let slots = slots.and_then(|(first, size): (u64, u64)| first.checked_mul(size));
        self.capacity = (|| {
            let (mut next, mut all, factor) = (slots?, 0_u64, expansion?.max(1));
            let filters = self.filters?;
            if factor == 1 {
                return next.checked_mul(filters);
            }
            for filter in 0..filters {
                if filter > 0 {
                    next = next.checked_mul(factor)?;
                }
                all = all.checked_add(next)?;
            }
            Some(all)
        })();
        self.details = Details::Cuckoo { expansion };
    }

    fn fill_count_min(&mut self, fields: &Fields) {
        let width: Option<u64> = fields.get("width");
        // Modules report the sum of increments as a signed number, which wraps.
        self.items = fields.get("count").map(i64::cast_unsigned);
        #[allow(clippy::cast_precision_loss, reason = "a rate has few digits")]
        let rate = width.filter(|width| *width > 0).map(|w| 2.0 / w as f64);
        self.rate = rate;
        self.details = Details::CountMin {
            width,
            depth: fields.get("depth"),
            cell_size: fields.get("cell_size").unwrap_or(4),
        };
    }

    fn fill_top_k(&mut self, fields: &Fields) {
        let k = fields.get("k");
        self.capacity = k;
        self.details = Details::TopK {
            k,
            width: fields.get("width"),
            depth: fields.get("depth"),
            decay: fields.get("decay"),
        };
    }

    /// Sets the number of items in a Top-K's list from the reply to TOPK.LIST.
    pub fn set_listed(&mut self, reply: &Value) {
        if let Value::Array(items) = reply {
            let listed = items.iter().filter(|item| **item != Value::Nil);
            self.items = Some(listed.count() as u64);
        }
    }

    /// Returns the share of the capacity that is taken.
    pub fn full(&self) -> Option<f64> {
        let capacity = self.capacity.filter(|capacity| *capacity > 0)?;
        Some(crate::report::ratio(self.items?, capacity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a reply of RESP2: names and values in turn.
    fn reply(fields: &[(&str, Value)]) -> Value {
        let words = fields.iter().flat_map(|(name, value)| {
            let name = Value::BulkString(name.as_bytes().to_vec());
            [name, value.clone()]
        });
        Value::Array(words.collect())
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_filter_of_redisbloom_reports_no_rates() {
        let info = reply(&[
            ("Capacity", Value::Int(300)),
            ("Size", Value::Int(1000)),
            ("Number of filters", Value::Int(2)),
            ("Number of items inserted", Value::Int(150)),
            ("Expansion rate", Value::Int(2)),
        ]);
        let row = Row::new(b"k".to_vec(), "MBbloom--", info);
        assert_eq!((row.items, row.capacity), (Some(150), Some(300)));
        assert_eq!((row.full(), row.bytes), (Some(0.5), Some(1000)));
        assert_eq!((row.rate, row.rate_now), (None, None));
        let Details::Bloom(bloom) = row.details else {
            panic!("a Bloom filter")
        };
        assert_eq!(bloom.growth, Growth::By(2));
        assert_eq!((bloom.reach, bloom.window), (None, None));
    }

    #[test]
    fn a_filter_of_valkey_bloom_reports_no_estimate() {
        let info = reply(&[
            ("Capacity", Value::Int(100)),
            ("Size", Value::Int(384)),
            ("Number of filters", Value::Int(1)),
            ("Number of items inserted", Value::Int(100)),
            ("Error rate", text("0.01")),
            ("Expansion rate", Value::Nil),
        ]);
        let row = Row::new(b"k".to_vec(), "bloomfltr", info);
        assert_eq!((row.rate, row.rate_now), (Some(0.01), None));
        let Details::Bloom(bloom) = row.details else {
            panic!("a Bloom filter")
        };
        // It does not grow, so its capacity is the limit.
        assert_eq!((bloom.growth, bloom.reach), (Growth::Fixed, Some(100)));
    }

    #[test]
    fn cuckoo_filters_have_the_slots_of_all_filters() {
        for (filters, expansion, slots) in [(1, 2, 20), (3, 2, 140), (3, 1, 60), (1, 0, 20)] {
            let info = reply(&[
                ("Number of buckets", Value::Int(10)),
                ("Bucket size", Value::Int(2)),
                ("Number of filters", Value::Int(filters)),
                ("Expansion rate", Value::Int(expansion)),
            ]);
            let row = Row::new(b"k".to_vec(), "MBbloomCF", info);
            assert_eq!(row.capacity, Some(slots), "{filters} × {expansion}");
        }
    }

    #[test]
    fn sketches_have_fields_of_their_own() {
        let info = reply(&[
            ("width", Value::Int(2000)),
            ("depth", Value::Int(7)),
            ("count", Value::Int(-1)),
        ]);
        let row = Row::new(b"k".to_vec(), "CMSk-TYPE", info);
        assert_eq!((row.items, row.rate), (Some(u64::MAX), Some(0.001)));
        assert_eq!((row.capacity, row.full()), (None, None));

        let info = reply(&[("k", Value::Int(4)), ("decay", text("0.9"))]);
        let mut row = Row::new(b"k".to_vec(), "TopK-TYPE", info);
        assert_eq!((row.items, row.capacity), (None, Some(4)));
        // RedisBloom fills the list with nulls.
        row.set_listed(&Value::Array(vec![text("a"), text("b"), Value::Nil]));
        assert_eq!(row.full(), Some(0.5));

        let info = reply(&[
            ("Compression", Value::Int(100)),
            ("Observations", Value::Int(9)),
        ]);
        let row = Row::new(b"k".to_vec(), "TDIS-TYPE", info);
        let compression = Some(100);
        assert_eq!(
            (row.items, row.details),
            (Some(9), Details::TDigest { compression })
        );
    }

    #[test]
    fn an_unexpected_reply_leaves_all_fields_unknown() {
        let row = Row::new(b"k".to_vec(), "bloomfltr", Value::Okay);
        assert_eq!((row.items, row.bytes, row.full()), (None, None, None));
    }
}
