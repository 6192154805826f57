//! What is known of one key. A field that its type lacks, or that its server does not report, is `None`.

use serde_json::json;

use valkeybloom_planner as planner;
use valkeybloom_protocol::bloom::{InfoField, kind_name};
use valkeybloom_protocol::names::{BF_INFO, COUNT_MIN, CUCKOO, T_DIGEST, TOP_K};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Growth, Kind, Window};
use valkeybloom_sketches::cuckoo::{FILTERS_MAX, Params};

use crate::info::Info;
use crate::report::{double, ratio};

/// A key that holds a filter or a sketch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub key: Vec<u8>,
    /// The type, as TYPE returns it.
    pub kind: String,
    /// Items of a filter or a Top-K, the sum of a count-min sketch's increments, or observations of a t-digest.
    pub items: Option<u64>,
    /// The change of the items per second, which `watch` alone knows.
    pub change: Option<f64>,
    /// The items that all filters have room for, or the length of a Top-K's list.
    pub capacity: Option<u64>,
    /// The requested error rate.
    pub rate: Option<f64>,
    /// The present error rate, estimated by the server.
    pub rate_now: Option<f64>,
    pub filters: Option<u64>,
    pub bytes: Option<u64>,
    /// The time to live in milliseconds as PTTL returns it, −1 for a key that does not expire.
    pub ttl_ms: Option<i64>,
    /// The time since the last use in seconds.
    pub idle_seconds: Option<u64>,
    pub details: Details,
}

/// What only some types have.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Details {
    #[default]
    Unknown,
    /// A filter that BF.LOADCHUNK has not fully loaded.
    PartlyLoaded,
    Bloom(Bloom),
    Cuckoo(Params),
    CountMin {
        width: u64,
        depth: u64,
        /// Bytes of a counter. This module reports them if they are not 4, and `RedisBloom` from 8.12 on.
        cell_size: Option<u64>,
    },
    TopK(planner::TopK),
    TDigest(planner::TDigest),
}

/// The parameters of a Bloom filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bloom {
    pub growth: Option<Growth>,
    /// The number of items at which it takes no more.
    pub reach: Option<u64>,
    /// What it supports beyond additions and lookups. A server that does not say has plain filters.
    pub kind: Kind,
    pub live_periods: Option<u64>,
    pub period_items: Option<u64>,
    /// The bytes of its feed, if it has one.
    pub feed_bytes: Option<u64>,
    /// The number of clients that read its feed lately.
    pub readers: Option<u64>,
}

/// Returns the command that describes values of a type.
pub fn info_command(kind: &str) -> &'static str {
    match kind {
        CUCKOO => "CF.INFO",
        COUNT_MIN => "CMS.INFO",
        TOP_K => "TOPK.INFO",
        T_DIGEST => "TDIGEST.INFO",
        _ => BF_INFO,
    }
}

impl Row {
    /// Takes what the fields of its type's INFO command say.
    pub fn fill(&mut self, info: &Info) {
        let details = match &self.kind[..] {
            CUCKOO => self.fill_cuckoo(info),
            COUNT_MIN => self.fill_count_min(info),
            TOP_K => self.fill_top_k(info),
            T_DIGEST => self.fill_t_digest(info),
            _ => Some(self.fill_bloom(info)),
        };
        self.details = details.unwrap_or_default();
    }

    fn fill_bloom(&mut self, info: &Info) -> Details {
        self.items = info.of_filter(InfoField::Items);
        self.capacity = info.of_filter(InfoField::Capacity);
        self.rate = info.of_filter(InfoField::Error);
        self.rate_now = info.of_filter(InfoField::EstimatedError);
        self.filters = info.of_filter(InfoField::Filters);
        self.bytes = info.of_filter(InfoField::Size).or(self.bytes);
        // A filter that does not grow has null.
        let expansion: Option<Option<u32>> = info.of_filter(InfoField::Expansion);
        let growth = expansion.map(|factor| Growth::from_expansion(factor.unwrap_or(0)));
        let period_ms = info.of_filter(InfoField::Window);
        let window = period_ms.zip(info.of_filter(InfoField::Periods));
        let window = window.and_then(|(ms, periods)| Window::new(ms, periods));
        let named = info.of_filter::<String>(InfoField::Kind);
        let kind = match (window, named.as_deref()) {
            (Some(window), _) => Kind::Windowed(window),
            (None, Some(name)) if name == kind_name(Kind::Counting) => Kind::Counting,
            (None, Some(name)) if name == kind_name(Kind::ScaledTo) => Kind::ScaledTo,
            _ => Kind::Plain,
        };
        let reach = match growth {
            Some(Growth::Fixed) => self.capacity,
            _ => info.of_filter(InfoField::MaxScaledCapacity),
        };
        Details::Bloom(Bloom {
            growth,
            reach,
            kind,
            live_periods: info.of_filter(InfoField::LivePeriods),
            period_items: info.of_filter(InfoField::PeriodItems),
            feed_bytes: info.of_filter(InfoField::FeedBytes),
            readers: info.of_filter(InfoField::FeedReaders),
        })
    }

    /// Each filter has `expansion` times the buckets of the one below it.
    fn fill_cuckoo(&mut self, info: &Info) -> Option<Details> {
        self.items = info.get("Number of items inserted");
        self.filters = info.get("Number of filters");
        let expansion: u16 = info.get("Expansion rate")?;
        let buckets: u64 = info.get("Number of buckets")?;
        let bucket_size: u8 = info.get("Bucket size")?;
        let slots = buckets.checked_mul(bucket_size.into())?;
        // The sum takes a step for each filter, and a server may name any number of them.
        let mut filters = 0..self.filters.filter(|filters| *filters <= FILTERS_MAX)?;
        let all = filters.try_fold((0_u64, slots), |(sum, next), _| {
            let after = next.saturating_mul(expansion.max(1).into());
            Some((sum.checked_add(next)?, after))
        });
        self.capacity = all.map(|(sum, _)| sum);
        Some(Details::Cuckoo(Params {
            capacity: slots,
            bucket_size,
            max_iterations: info.get("Max iterations")?,
            expansion,
        }))
    }

    fn fill_count_min(&mut self, info: &Info) -> Option<Details> {
        // Modules report the sum of increments as a signed number, which wraps.
        self.items = info.get("count").map(i64::cast_unsigned);
        let width: u64 = info.get("width")?;
        self.rate = (width > 0).then(|| 2.0 / double(width));
        Some(Details::CountMin {
            width,
            depth: info.get("depth")?,
            cell_size: info.get("cell_size"),
        })
    }

    fn fill_top_k(&mut self, info: &Info) -> Option<Details> {
        let k = info.get("k")?;
        self.capacity = Some(k);
        Some(Details::TopK(planner::TopK {
            k,
            width: info.get("width")?,
            depth: info.get("depth")?,
            decay: info.get("decay")?,
        }))
    }

    fn fill_t_digest(&mut self, info: &Info) -> Option<Details> {
        self.items = info.get("Observations");
        let compression = info.get("Compression")?;
        Some(Details::TDigest(planner::TDigest { compression }))
    }

    /// Returns the share of the capacity that is taken.
    pub fn full(&self) -> Option<f64> {
        let capacity = self.capacity.filter(|capacity| *capacity > 0)?;
        Some(ratio(self.items?, capacity))
    }

    /// Returns the parameters of a Bloom filter.
    pub const fn bloom(&self) -> Option<&Bloom> {
        match &self.details {
            Details::Bloom(bloom) => Some(bloom),
            _ => None,
        }
    }
}

impl Bloom {
    /// Returns the plan of a filter like this one, for `items` items in all.
    pub fn plan(&self, rate: f64, items: u64) -> Option<planner::Bloom> {
        let periods = match self.kind {
            Kind::Windowed(window) => window.periods() + 1,
            _ => 1,
        };
        Some(planner::Bloom {
            growth: self.growth?,
            kind: self.kind,
            ..planner::Bloom::plain(items.div_ceil(periods), Fraction::new(rate)?)
        })
    }
}

impl Details {
    /// Returns the fields of JSON.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Self::Unknown => json!({}),
            Self::PartlyLoaded => json!({ "partly_loaded": true }),
            Self::Bloom(bloom) => {
                let expansion = bloom.growth.map(Growth::expansion);
                let mut fields = json!({ "can_grow_to": bloom.reach, "expansion": expansion });
                if bloom.kind != Kind::Plain {
                    fields["kind"] = kind_name(bloom.kind).into();
                }
                if let Kind::Windowed(window) = bloom.kind {
                    fields["window_ms"] = window.period_ms().into();
                    fields["periods"] = window.periods().into();
                    fields["live_periods"] = bloom.live_periods.into();
                    fields["period_items"] = bloom.period_items.into();
                }
                if let Some(bytes) = bloom.feed_bytes {
                    fields["feed_bytes"] = bytes.into();
                }
                fields
            }
            Self::Cuckoo(it) => json!({ "expansion": it.expansion }),
            Self::CountMin {
                width,
                depth,
                cell_size,
            } => {
                json!({ "width": width, "depth": depth, "cell_size": cell_size.unwrap_or(4) })
            }
            Self::TopK(it) => {
                json!({ "k": it.k, "width": it.width, "depth": it.depth, "decay": it.decay })
            }
            Self::TDigest(it) => json!({ "compression": it.compression }),
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    #[test]
    fn a_number_of_filters_that_no_key_has_is_not_summed_up() {
        for (filters, capacity) in [
            (3, Some(0)),
            (FILTERS_MAX, Some(0)),
            (i64::MAX as u64, None),
        ] {
            let fields = [
                ("Number of filters", filters),
                ("Number of buckets", 0),
                ("Bucket size", 2),
                ("Max iterations", 20),
                ("Expansion rate", 1),
            ];
            let fields = fields.map(|(name, value)| {
                let value = Value::Int(value.cast_signed());
                (Value::BulkString(name.into()), value)
            });
            let mut row = Row {
                kind: CUCKOO.to_owned(),
                ..Row::default()
            };
            row.fill(&Info::try_from(Value::Map(fields.into())).expect("it has fields"));
            assert_eq!(row.capacity, capacity, "{filters}");
        }
    }
}
