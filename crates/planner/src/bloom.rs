//! Planned Bloom filters.

use std::num::NonZeroU32;

use valkeybloom_protocol::bloom::{Defaults, Maker, Reserve};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::names::{BF_RESERVE, NEW_FILTERS};
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::bloom::{
    Growth, Kind, Limits as BloomLimits, New, Params, PartSize, Plan, Refusal, Tightening,
    shard_capacity,
};
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

use crate::limits::{BEYOND_MEMORY, Limits, refusal, require_within_memory, stop, stored};
use crate::picture::{Curve, Picture};
use crate::report::{Report, ratio, rounded, to_double};
use crate::{Fault, Planned, Request};

/// The most shards that are tried: the number of a cluster's slots.
pub const MOST_SHARDS: u32 = 16_384;

/// The expansion of BF.RESERVE without options.
const EXPANSION: u32 = 2;

/// A Bloom filter to plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Bloom {
    /// Number of items; with a window, in one period.
    pub items: u64,
    /// The error rate.
    pub rate: Fraction,
    /// Capacity of the first filter, if it is not the number of items.
    pub start: Option<u64>,
    /// The growth when the filter is full.
    pub growth: Growth,
    /// What the filter supports beyond additions and lookups.
    pub kind: Kind,
    /// The kind of new filters that the server is set to.
    pub maker: Maker,
    /// The keys that the filter is spread over, if it is.
    pub shards: Option<Shards>,
}

/// The number of keys that a filter is spread over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// The fewest that the limits allow.
    Fewest,
    /// This many.
    Exactly(NonZeroU32),
}

/// The figures of a filter with all its items.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// The size in bytes of the value.
    pub bytes: u64,
    /// The number of its filters or tables.
    pub filters: u64,
    /// The expected error rate.
    pub rate: f64,
    /// The lowest limit on a filter that admits it.
    pub least_filter_limit: u64,
    /// The lowest limit on an object that admits it.
    pub least_object_limit: u64,
}

/// One shard of a filter, or the whole filter.
struct Shard {
    new: New,
    items: u64,
    /// The words after the key.
    words: String,
}

impl Bloom {
    /// Returns the filter that BF.RESERVE without options creates.
    pub fn plain(items: u64, rate: Fraction) -> Self {
        Self {
            items,
            rate,
            start: None,
            growth: Growth::from_expansion(EXPANSION),
            kind: Kind::Plain,
            maker: Maker::Own,
            shards: None,
        }
    }

    /// Returns the command that creates the filter under a key.
    pub fn command(&self, key: &str) -> String {
        let items = self.items.min(MAX_CAPACITY);
        let words = self.words(items, items);
        format!("{BF_RESERVE} {key} {words}")
    }

    /// Returns the figures of the filter.
    ///
    /// # Errors
    /// There is no such filter.
    pub fn figures(&self) -> Result<Figures, Fault> {
        let shard = self.shard(NonZeroU32::MIN, self.maker)?;
        let plan = shard.plan(BloomLimits::NONE)?;
        Ok(Figures {
            bytes: stored(plan.full_bytes),
            filters: plan.parts.len() as u64,
            rate: plan.rate_at(plan.items),
            least_filter_limit: plan.least.filter_bytes,
            least_object_limit: stored(plan.least.object_bytes),
        })
    }

    /// Returns the sizes in bytes of the newest filter, and of the value, once a stack of `filters` filters with room for the
    /// items has room for `more` items. Returns `None` if there is no such stack.
    pub fn growth_to(&self, more: u64, filters: u64) -> Option<(u64, u64)> {
        let stack = |first, items| {
            let start = Some(first);
            let stack = Self {
                items,
                start,
                ..self.clone()
            };
            let shard = stack.shard(NonZeroU32::MIN, self.maker).ok()?;
            shard.plan(BloomLimits::NONE).ok()
        };
        // The larger the first filter is, the fewer filters have room for the items.
        let (mut too_small, mut first) = (0, self.items);
        while first - too_small > 1 {
            let middle = too_small + (first - too_small) / 2;
            let has_room = |plan: Plan| plan.parts.len() as u64 <= filters;
            if stack(middle, self.items).is_some_and(has_room) {
                first = middle;
            } else {
                too_small = middle;
            }
        }
        let plan = stack(first, more)?;
        let newest = plan.parts.last()?;
        Some((newest.bytes(newest.capacity), stored(plan.full_bytes)))
    }

    fn shards(&self, limits: &Limits) -> Result<NonZeroU32, Fault> {
        match self.shards {
            None => Ok(NonZeroU32::MIN),
            Some(Shards::Exactly(shards)) => Ok(shards),
            Some(Shards::Fewest) => {
                let mut all = (1..=MOST_SHARDS).filter_map(NonZeroU32::new);
                let fewest = all.find(|&shards| {
                    let shard = self.shard(shards, self.maker);
                    shard.is_ok_and(|shard| shard.plan(limits.of_bloom()).is_ok())
                });
                // What no number of shards makes possible has another reason.
                let other = || self.shard(NonZeroU32::MIN, self.maker).err();
                let text = format!("more than {MOST_SHARDS} shards would be needed");
                fewest.ok_or_else(|| other().unwrap_or_else(|| Fault::impossible("shards", text)))
            }
        }
    }

    /// Returns the shard that a server makes of the command's words.
    fn shard(&self, shards: NonZeroU32, maker: Maker) -> Result<Shard, Fault> {
        let capacity = shard_capacity(self.start.unwrap_or(self.items), shards);
        let items = shard_capacity(self.items, shards);
        let words = self.words(capacity.min(MAX_CAPACITY), items.min(MAX_CAPACITY));
        let command = format!("{BF_RESERVE} key {words}");
        let command: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let params = Params {
            capacity,
            error_rate: self.rate,
            tightening: Tightening::HALF,
            growth: Growth::from_expansion(EXPANSION),
        };
        let reserve = Reserve::parse(&*command, Defaults { params, maker }, Origin::Client);
        let new = reserve.and_then(|reserve| reserve.create);
        // RedisBloom ignores the options that make filters of other kinds.
        let new = new.and_then(|new| match self.kind {
            kind if kind == new.shape().kind => Ok(new),
            Kind::Counting => Err(Error::NotMade(maker.name(), "COUNTING")),
            Kind::ScaledTo => Err(Error::NotMade(maker.name(), "SCALETO")),
            _ => Err(Error::NotMade(maker.name(), "WINDOW")),
        });
        let new = new.map_err(|error| {
            let text = error.to_string();
            Fault::invalid("maker", text.trim_start_matches("ERR "))
        })?;
        Ok(Shard { new, items, words })
    }

    /// Returns the words of BF.RESERVE after the key. They name the growth even if it is the default, which a server's
    /// settings can change.
    fn words(&self, capacity: u64, items: u64) -> String {
        let growth = match self.growth {
            Growth::Fixed => " NONSCALING".to_owned(),
            Growth::By(expansion) => format!(" EXPANSION {expansion}"),
        };
        let kind = match self.kind {
            Kind::Plain => String::new(),
            Kind::Windowed(of) => format!(" WINDOW {} PERIODS {}", of.period_ms(), of.periods()),
            Kind::Counting => " COUNTING".to_owned(),
            Kind::ScaledTo => format!(" SCALETO {items}"),
        };
        format!("{} {capacity}{growth}{kind}", self.rate.get())
    }
}

impl Request for Bloom {
    fn plan(&self, limits: &Limits) -> Result<Planned, Fault> {
        let shards = self.shards(limits)?;
        let shard = self.shard(shards, self.maker)?;
        let plan = shard.plan(BloomLimits::NONE)?;

        let mut report = Report::default();
        report.number("items", self.items);
        report.row("error rate", self.rate.get().to_string(), self.rate.get());
        if self.shards.is_some() {
            report.number("shards", shards.get().into());
            report.number("capacity of a shard", shard.new.shape().params.capacity);
        }
        let held = self.items.saturating_mul(shard.new.shape().most_periods());
        describe(&mut report, &plan, held, shards);
        let rate = rounded(plan.rate_at(plan.items), 3);
        report.row("rate when full", rate.to_string(), rate);
        let (text, limit) = match shard.new.reach(limits.of_bloom()) {
            (_, None) => ("none".to_owned(), serde_json::Value::Null),
            (reach, Some(Refusal::Full)) => stop("NONSCALING", None, reach),
            (reach, Some(Refusal::RateTooSmall)) => stop("error rate", None, reach),
            (reach, Some(Refusal::MemoryLimit | Refusal::OutOfMemory)) => {
                let further = shard.new.reach(limits.of_object().of_bloom()).0 > reach;
                let (name, value) = limits.memory(further);
                stop(name, Some(value), reach)
            }
        };
        report.row("limit", text, limit);
        if self.maker != Maker::Own {
            let setting = format!("{NEW_FILTERS} {}", self.maker.name());
            report.row("setting", &*setting, &*setting);
        }
        let key = self.shards.map_or("key", |_| "key:0");
        let command = format!("{BF_RESERVE} {key} {}", shard.words);
        let others = match shards.get() {
            1 => String::new(),
            shards => format!("   (and so on, up to key:{})", shards - 1),
        };
        report.row("command", command.clone() + &others, command);
        let BloomLimits {
            filter_bytes,
            object_bytes,
            ..
        } = plan.least;
        let exceeded = limits.exceeded(filter_bytes, stored(object_bytes));
        let refusal = refusal(&exceeded, ", or spread it over shards");
        Ok(Planned { report, refusal })
    }

    /// Returns pictures of one key, up to twice the items, compared with the peers' filters for the same words.
    fn pictures(&self, limits: &Limits) -> Vec<Picture> {
        let shards = self.shards(limits).unwrap_or(NonZeroU32::MIN);
        let own = std::iter::once(self.maker);
        let others = Maker::ALL.into_iter().filter(|maker| *maker != self.maker);
        let curves = own.chain(others).filter_map(|maker| {
            let shard = self.shard(shards, maker).ok()?;
            Some((name(maker), shard))
        });
        let curves: Vec<(&str, Shard)> = curves.collect();
        let Some((_, first)) = curves.first() else {
            return Vec::new();
        };
        let items = first.items.saturating_mul(first.new.shape().most_periods());
        let (at, end) = (to_double(items), 2.0 * to_double(items));
        let of = self.shards.map_or("", |_| " of one shard");
        let x = match self.kind {
            Kind::Windowed(_) => "items in all periods",
            _ => "items",
        };
        let picture = |title: &str, requested, curve: fn(&Shard, &str, f64) -> Option<Curve>| {
            let curves = curves.iter();
            let curves = curves.filter_map(|(name, shard)| curve(shard, name, end));
            Picture {
                title: format!("{title}{of}"),
                x,
                at,
                requested,
                curves: curves.collect(),
            }
        };
        let rate = Some(self.rate.get());
        vec![
            picture("Bytes", None, Shard::bytes),
            picture("Error rate", rate, Shard::rates),
        ]
    }
}

/// Returns the name of a maker of filters.
const fn name(maker: Maker) -> &'static str {
    match maker {
        Maker::Own => "this module",
        Maker::ValkeyBloom => "valkey-bloom",
        Maker::RedisBloom => "RedisBloom",
    }
}

impl Shard {
    /// Returns the plan for its items.
    fn plan(&self, limits: BloomLimits) -> Result<Plan, Fault> {
        let plan = self.new.plan(self.items, limits);
        let plan = plan.map_err(|refusal| {
            let (field, text) = match refusal {
                Refusal::RateTooSmall => (
                    "rate",
                    "that rate is too small for the last filters of its stack",
                ),
                Refusal::Full => ("items", "a filter that does not grow would be full before"),
                Refusal::MemoryLimit | Refusal::OutOfMemory => ("items", BEYOND_MEMORY),
            };
            Fault::impossible(field, text)
        })?;
        require_within_memory("items", plan.full_bytes)?;
        Ok(plan)
    }

    /// Returns the plan for up to twice the items.
    fn plan_of_twice(&self) -> Option<Plan> {
        let shape = self.new.shape();
        let most = match shape.params.growth {
            Growth::Fixed => shape.params.capacity,
            Growth::By(_) => self.items.saturating_mul(2).min(MAX_CAPACITY),
        };
        let plan = |items| self.new.plan(items, BloomLimits::NONE).ok();
        plan(most).or_else(|| plan(self.items))
    }

    fn bytes(&self, name: &str, end: f64) -> Option<Curve> {
        let plan = self.plan_of_twice()?;
        // A table takes memory for what is in it.
        if matches!(plan.parts[0].size, PartSize::Table(..)) {
            let points = plan.points(64).into_iter();
            let bytes = |(items, bytes, _)| (to_double(items), to_double(stored(bytes)));
            return Some(Curve::new(name, points.map(bytes)).until(end));
        }
        let mut items = 0;
        let steps = plan.parts.iter().map(|filter| {
            items += filter.capacity;
            (items, stored(filter.object_bytes))
        });
        Some(Curve::of_steps(name, steps, end))
    }

    fn rates(&self, name: &str, end: f64) -> Option<Curve> {
        let plan = self.plan_of_twice()?;
        let each = (256 / plan.parts.len() as u64).clamp(2, 64);
        let points = plan.points(each).into_iter();
        let points = points.map(|(items, _, rate)| (to_double(items), rate));
        Some(Curve::new(name, points).until(end))
    }
}

/// Adds the rows for the memory of all shards of a plan, which hold at most `items` items.
fn describe(report: &mut Report, plan: &Plan, items: u64, shards: NonZeroU32) {
    let shards = u64::from(shards.get());
    let of_shards = |bytes: u64| stored(bytes).saturating_mul(shards);
    report.number("bytes when made", of_shards(plan.first_bytes));
    let full = of_shards(plan.full_bytes);
    report.number("bytes when full", full);
    let each = ratio(full, items);
    report.row("bytes an item", format!("{each:.2}"), each);
    report.number("filters", plan.parts.len() as u64 * shards);
    let (mut hashes, mut bits): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    for part in &plan.parts {
        match part.size {
            PartSize::Filter(geometry) => hashes.push(geometry.hashes),
            PartSize::Table(step, _) => bits.push(step.bits),
        }
    }
    for (name, numbers) in [("hash functions", hashes), ("fingerprint bits", bits)] {
        if !numbers.is_empty() {
            let text: Vec<String> = numbers.iter().map(u32::to_string).collect();
            report.row(name, text.join(" "), numbers);
        }
    }
}

#[cfg(test)]
mod tests {
    use valkeybloom_sketches::bloom::Window;

    use super::*;
    use crate::limits::tests::check;

    /// Also under expansion 1, where later filters are larger than the law of expansion says.
    #[test]
    fn growth_is_known_from_the_room_and_the_number_of_filters() {
        for maker in Maker::ALL {
            for (start, expansion) in [(1, 2), (7, 1), (100, 3), (1000, 10)] {
                let request = Bloom {
                    start: Some(start),
                    growth: Growth::from_expansion(expansion),
                    maker,
                    ..Bloom::plain(100_000, Fraction::new(0.01).expect("a rate"))
                };
                let Ok(plan) = request
                    .shard(NonZeroU32::MIN, maker)
                    .and_then(|shard| shard.plan(BloomLimits::NONE))
                else {
                    assert_eq!(expansion, 1, "{maker:?}");
                    continue;
                };
                let mut items = 0;
                for (number, parts) in (1..).zip(plan.parts.windows(2)) {
                    items += parts[0].capacity;
                    let stack = Bloom {
                        items,
                        start: None,
                        ..request.clone()
                    };
                    let expected = Some((parts[1].bytes(0), stored(parts[1].object_bytes)));
                    assert_eq!(stack.growth_to(items + 1, number), expected, "{stack:?}");
                }
            }
        }
    }

    #[test]
    fn a_refusal_names_each_limit() {
        let growths = [0, 1, 2].map(Growth::from_expansion);
        let window = Window::new(1000, 5).map(Kind::Windowed).expect("a window");
        for (items, start) in [
            (1, None),
            (900, Some(100)),
            (300_000, None),
            (300_000, Some(50)),
        ] {
            for kind in [Kind::Plain, Kind::Counting, Kind::ScaledTo, window] {
                for growth in growths {
                    let start = start.filter(|_| growth != Growth::Fixed);
                    let rate = Fraction::new(0.01).expect("a rate");
                    let request = Bloom {
                        start,
                        growth,
                        kind,
                        ..Bloom::plain(items, rate)
                    };
                    let Ok(shard) = request.shard(NonZeroU32::MIN, Maker::Own) else {
                        continue;
                    };
                    if shard.plan(BloomLimits::NONE).is_ok() {
                        check(&request, |limits| shard.plan(limits.of_bloom()).is_ok());
                    }
                }
            }
        }
    }
}
