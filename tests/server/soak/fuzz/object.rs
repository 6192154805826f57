//! The contract of one object: how it grows, what it accepts, and what stops it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Cells, Geometry};

use super::super::clock;
use super::FILTER_LIMIT;
use super::answers::truth;
use super::errors::{DEGRADED, FULL, OVER};
use crate::harness::Reply;

/// The settings of the server under test.
pub const CAPACITY: i64 = 100;
pub const ERROR_RATE: f64 = 0.01;
pub const TIGHTENING: f64 = 0.5;
pub const EXPANSION: u32 = 2;

/// The bytes of a filter beside its bitmap: the contract does not specify whether a limit counts them.
const BESIDE_BITMAP: u64 = 128;
/// Rates below this may come out as 0, by the order of the arithmetic.
pub const NEAR_ZERO: f64 = 1e-300;

/// Whether an object may have a filter.
pub enum Fit {
    Yes,
    No(&'static str),
    Unsaid,
}

/// The window of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub period_ms: i64,
    pub periods: i64,
}

impl Window {
    /// Returns the period for items with this time to live. Periods are so long here that none ends while a test
    /// runs.
    fn target(self, ttl_ms: Option<i64>) -> i128 {
        let now = i128::try_from(clock().as_millis()).expect("not that late");
        let (length, periods) = (i128::from(self.period_ms), i128::from(self.periods));
        let current = now / length;
        let Some(ttl) = ttl_ms else {
            return current;
        };
        let end = (now + i128::from(ttl) + length - 1) / length;
        (end - periods)
            .max(current + 1 - periods)
            .clamp(0, current + 1)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// 0 where it can't grow.
    pub expansion: u32,
    pub error_rate: f64,
    pub tightening: f64,
    pub window: Option<Window>,
    pub counting: bool,
}

impl Shape {
    /// Returns whether it is of the type that has periods or counters.
    pub fn is_extended(&self) -> bool {
        self.window.is_some() || self.counting
    }

    /// Returns the rate at which filter `index` of a period is made.
    pub fn rate(&self, index: usize) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let (index, parts) = (
            index as f64,
            self.window
                .map_or(1.0, |window| window.periods as f64 + 1.0),
        );
        let error_rate = self.error_rate / parts;
        if self.expansion == 0 {
            error_rate
        } else if self.tightening.to_bits() == TIGHTENING.to_bits() {
            error_rate / ((index + 1.0) * (index + 2.0))
        } else {
            error_rate * (1.0 - self.tightening) * self.tightening.powf(index)
        }
    }

    /// Returns the bytes of a filter's cells; the core's tests check sizes against an independent implementation.
    fn bitmap_bytes(&self, index: usize, capacity: i64) -> u64 {
        let cells = if self.counting {
            Cells::Counters
        } else {
            Cells::Bits
        };
        let rate = Fraction::new(self.rate(index)).expect("a rate");
        Geometry::for_rate(capacity.unsigned_abs(), rate, cells).cell_bytes
    }

    pub fn fit(&self, index: usize, capacity: i64) -> Fit {
        let rate = self.rate(index);
        if rate <= 0.0 {
            return Fit::No(DEGRADED);
        }
        if rate < NEAR_ZERO {
            return Fit::Unsaid;
        }
        let bytes = self.bitmap_bytes(index, capacity);
        let limit = u64::from(FILTER_LIMIT);
        if bytes > limit {
            Fit::No(OVER)
        } else if bytes + BESIDE_BITMAP > limit {
            Fit::Unsaid
        } else {
            Fit::Yes
        }
    }
}

/// The reach of an object's growth.
pub enum Reach {
    Far,
    /// Up to this number of items, because of the error.
    Until(i64, &'static str),
    Unsaid,
}

/// The options for the items of one command.
#[derive(Clone, Copy, Default)]
pub struct Said {
    pub ttl_ms: Option<i64>,
    pub id: Option<u64>,
}

/// The number of additions of an item, by period and id.
type Held = BTreeMap<(i128, Option<u64>), i64>;

#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they do not depend on each other"
)]
pub struct Object {
    pub shape: Shape,
    /// The capacities of its filters, unless it is loose.
    pub capacities: Vec<i64>,
    /// The number of items that it counts; of a loose object, the least.
    pub items: i64,
    /// The most items that it may count.
    pub most: i64,
    /// The items that it must find.
    pub known: HashSet<Vec<u8>>,
    /// Whether its bits are arbitrary, and not those of items.
    pub strange: bool,
    /// The keys of its hash functions, if they are not those of all.
    pub seed: Option<Vec<u8>>,
    /// Whether its filters cannot be predicted: false positives decide where items go, or it was merged.
    pub loose: bool,
    /// Whether it was merged: its rate is then the requested one or a higher one.
    pub merged: bool,
    /// Whether it certainly has one filter.
    pub single: bool,
    /// The least capacity of any first filter in it.
    pub least_capacity: i64,
    /// The additions of each item, if it has periods or counters.
    held: HashMap<Vec<u8>, Held>,
    /// The number of items ever counted: from 15 on, a counter may be stuck.
    counted: i64,
    /// Whether an item was removed.
    removed: bool,
    /// The periods that were opened for sure, and those that may have been.
    periods: BTreeSet<i128>,
    perhaps: BTreeSet<i128>,
}

/// More than any estimate.
const ESTIMATE: i64 = 1 << 40;
/// Where counters end.
const STUCK: i64 = 15;

impl Object {
    pub fn new(shape: Shape, capacity: i64, ttl_ms: Option<i64>) -> Self {
        let periods = shape.window.map(|window| window.target(ttl_ms));
        Self {
            capacities: vec![capacity],
            items: 0,
            most: 0,
            known: HashSet::new(),
            strange: false,
            seed: None,
            loose: shape.is_extended(),
            merged: false,
            single: shape.window.is_none(),
            least_capacity: capacity,
            held: HashMap::new(),
            counted: 0,
            removed: false,
            periods: periods.into_iter().collect(),
            perhaps: BTreeSet::new(),
            shape,
        }
    }

    /// Nothing was added to it, in any way, or all was removed.
    pub fn is_empty(&self) -> bool {
        let nothing = if self.shape.counting {
            self.held.is_empty() && !self.is_stuck()
        } else {
            self.most == 0
        };
        nothing && !self.strange
    }

    /// Returns whether a filter may be full. With counters that is an estimate, since they correct the number of items.
    fn may_be_full(&self) -> bool {
        if !self.shape.counting {
            return self.most >= self.least_capacity;
        }
        let unclear = self.strange || self.merged || self.removed && self.is_stuck();
        let held = i64::try_from(self.held.len()).expect("not that many");
        unclear || 2 * held + 8 >= self.least_capacity
    }

    /// Notes that a counter changed, and the number of items is an estimate again.
    fn is_estimated(&mut self) {
        if self.shape.counting {
            (self.items, self.most) = (0, ESTIMATE);
        }
    }

    fn is_stuck(&self) -> bool {
        self.counted >= STUCK
    }

    /// Returns the least and the largest number of periods that answer.
    pub fn live_periods(&self) -> (usize, usize) {
        let all = self.periods.union(&self.perhaps).count();
        (self.periods.len(), all)
    }

    /// Adopts the numbers that the server reported.
    pub fn adopt(&mut self, items: Option<i64>, filters: Option<i64>) {
        if self.loose
            && let Some(items) = items
        {
            (self.items, self.most) = (items, items);
        }
        if filters == Some(1) && !self.merged && self.shape.window.is_none() {
            self.single = true;
        }
    }

    /// Allows for bits that no item of the model has set.
    pub fn gets_strange(&mut self) {
        self.strange = true;
        self.known.clear();
        self.held.clear();
    }

    pub fn capacity(&self) -> i64 {
        self.capacities.iter().sum()
    }

    fn next_capacity(&self) -> Option<i64> {
        let newest = *self.capacities.last().expect("there is a filter");
        // At least a sixteenth of the whole.
        let next = newest.checked_mul(i64::from(self.shape.expansion))?;
        let sum: i64 = self.capacities.iter().sum();
        Some(next.max(sum / 16 + i64::from(sum % 16 > 0)))
    }

    fn next_fit(&self) -> Fit {
        if self.shape.expansion == 0 {
            return Fit::No(FULL);
        }
        match self.next_capacity() {
            Some(capacity) => match self.shape.fit(self.capacities.len(), capacity) {
                Fit::Yes if self.capacity().checked_add(capacity).is_none() => Fit::Unsaid,
                fit => fit,
            },
            None => Fit::No(OVER),
        }
    }

    pub fn bitmaps(&self) -> impl Iterator<Item = u64> {
        let each = self.capacities.iter().enumerate();
        each.map(|(index, capacity)| self.shape.bitmap_bytes(index, *capacity))
    }

    /// Takes what the server says to an item that is to be added.
    pub fn add(
        &mut self,
        item: &[u8],
        said: Said,
        reply: &Reply,
        resp3: bool,
    ) -> Result<(), String> {
        if self.loose {
            self.add_loosely(item, said, reply, resp3)
        } else {
            self.add_exactly(item, reply, resp3)
        }
    }

    fn add_loosely(
        &mut self,
        item: &[u8],
        said: Said,
        reply: &Reply,
        resp3: bool,
    ) -> Result<(), String> {
        let known = self.known.contains(item);
        let may_be_full = self.may_be_full();
        if let Reply::Error(text) = reply {
            // A known item with an id or in another period may need room of its own.
            let needs_room = self.shape.window.is_some() || said.id.is_some();
            let due = match self.shape.expansion {
                0 => [FULL, FULL],
                _ => [OVER, DEGRADED],
            };
            return if known && !needs_room {
                Err(format!("{text:?} for a known item"))
            } else if !may_be_full {
                Err(format!("{text:?}, but there is room"))
            } else if due.contains(&text.as_str()) {
                Ok(())
            } else {
                Err(format!("{text:?} and not {due:?}"))
            };
        }
        let target = self.shape.window.map_or(0, |w| w.target(said.ttl_ms));
        let new = truth(reply, resp3)?;
        let held = self.held.get(item);
        if new {
            if known {
                return Err("a known item is new".to_owned());
            }
            self.items += 1;
            self.most += 1;
            self.periods.insert(target);
            self.single &= !may_be_full;
        } else {
            if self.is_empty() {
                return Err("an empty object knows it".to_owned());
            }
            let is_late = |held: &Held| held.keys().any(|(period, _)| *period >= target);
            let unchanged = !self.shape.is_extended()
                || !(self.shape.counting && said.id.is_some()) && held.is_some_and(is_late)
                // In a merged object, it may be added although another filter claims it.
                || !self.merged
                    && self.shape.window.is_none()
                    && held.is_some_and(|held| held.contains_key(&(0, said.id)));
            if !unchanged {
                self.most += 1;
                self.perhaps.insert(target);
                self.single &= !may_be_full;
            }
        }
        self.is_estimated();
        self.known.insert(item.to_vec());
        if self.shape.is_extended() {
            let held = self.held.entry(item.to_vec()).or_default();
            *held.entry((target, said.id)).or_default() += 1;
            self.counted += i64::from(self.shape.counting);
        }
        Ok(())
    }

    /// Takes what the server says to an item that is to be removed from counters.
    pub fn remove(
        &mut self,
        item: &[u8],
        id: Option<u64>,
        reply: &Reply,
        resp3: bool,
    ) -> Result<(), String> {
        let held = self.held.get_mut(item);
        let of_id = held.as_ref().and_then(|held| {
            let mut all = held.keys();
            all.find(|(_, of)| *of == id).copied()
        });
        if !truth(reply, resp3)? {
            let is_held = match id {
                None => held.is_some(),
                Some(_) => of_id.is_some(),
            };
            // Another filter may claim it as well, and what is stuck stays.
            return if is_held && self.single && !self.is_stuck() {
                Err("what is held is not removed".to_owned())
            } else {
                Ok(())
            };
        }
        if self.is_empty() {
            return Err("removed from what is empty".to_owned());
        }
        self.is_estimated();
        self.removed = true;
        let Some(held) = self.held.get_mut(item) else {
            self.gets_strange();
            return Ok(());
        };
        let entry = match of_id {
            Some(entry) => entry,
            // A single filter claims it, or the only one holds all.
            None if id.is_none() || self.single => *held.keys().next().expect("it is held"),
            None => {
                self.gets_strange();
                return Ok(());
            }
        };
        let count = held.get_mut(&entry).expect("it was found");
        *count -= 1;
        if *count == 0 {
            held.remove(&entry);
        }
        if held.is_empty() {
            self.held.remove(item);
            self.known.remove(item);
        }
        Ok(())
    }

    /// Returns whether this can be the count of an item.
    pub fn is_count(&self, item: &[u8], reported: i64) -> Result<(), String> {
        let held = self.held.get(item).map_or(0, |held| held.values().sum());
        let most = match (self.is_empty(), self.single) {
            (true, _) => 0,
            (_, true) => STUCK,
            _ => i64::MAX,
        };
        if (held.min(STUCK)..=most).contains(&reported) {
            Ok(())
        } else {
            Err(format!("{held} to {most} are due"))
        }
    }

    /// Becomes what answers for this object and another.
    pub fn absorb(&mut self, other: &Self) {
        self.loose = true;
        self.merged = true;
        self.single = false;
        // The bits of small filters give the number of items only roughly.
        self.items = self.items.max(other.items) / 2;
        self.most += other.most;
        for object in [self.strange, other.strange] {
            // A filter that may be empty or not counts for at least one item.
            self.most += if object { 1000 } else { 0 };
        }
        self.known.extend(other.known.iter().cloned());
        self.strange |= other.strange;
        self.counted += other.counted;
        self.removed |= other.removed;
        self.least_capacity = self.least_capacity.min(other.least_capacity);
        for (item, counts) in &other.held {
            // A union counts an item as often as either did.
            let held = self.held.entry(item.clone()).or_default();
            if counts.values().sum::<i64>() > held.values().sum::<i64>() {
                held.clone_from(counts);
            }
        }
        self.periods.extend(&other.periods);
        self.perhaps.extend(&other.perhaps);
    }

    fn add_exactly(&mut self, item: &[u8], reply: &Reply, resp3: bool) -> Result<(), String> {
        let known = self.known.contains(item);
        if let Reply::Error(text) = reply {
            let full = self.items == self.capacity();
            return match self.next_fit() {
                _ if known => Err(format!("{text:?} for a known item")),
                _ if !full => Err(format!("{text:?}, but there is room")),
                Fit::No(due) if due == text => Ok(()),
                Fit::Unsaid if [OVER, DEGRADED].contains(&text.as_str()) => Ok(()),
                Fit::No(due) => Err(format!("{text:?} and not {due:?}")),
                _ => Err(format!("{text:?}, but it can grow")),
            };
        }
        let new = truth(reply, resp3)?;
        if new {
            if known {
                return Err("a known item is new".to_owned());
            }
            if self.items == self.capacity() {
                if let Fit::No(due) = self.next_fit() {
                    return Err(format!("new, and not {due:?}"));
                }
                let capacity = self.next_capacity();
                self.capacities.push(capacity.ok_or("it grew too far")?);
            }
            self.items += 1;
            self.most += 1;
        } else if self.is_empty() {
            return Err("an empty object knows it".to_owned());
        }
        self.known.insert(item.to_vec());
        Ok(())
    }

    /// Returns how far it can grow, if that is enough for `least` items.
    pub fn reach(&self, least: i64) -> Reach {
        let mut grown = Self {
            capacities: self.capacities.clone(),
            ..Self::new(self.shape.clone(), 1, None)
        };
        let mut sum = self.capacity();
        for _ in 0..3000 {
            if sum >= least {
                return Reach::Far;
            }
            match grown.next_fit() {
                Fit::Yes => {
                    let capacity = grown.next_capacity().expect("it fits");
                    grown.capacities.push(capacity);
                    sum += capacity;
                }
                Fit::No(why) => return Reach::Until(sum, why),
                Fit::Unsaid => return Reach::Unsaid,
            }
        }
        Reach::Unsaid
    }
}
