//! What the contract says of one object: how it grows, what it takes, and what stops it.

use std::collections::HashSet;
use std::f64::consts::LN_2;

use super::FILTER_LIMIT;
use super::answers::truth;
use super::model::{DEGRADED, FULL, OVER};
use crate::harness::Reply;

/// The settings of the server under test.
pub const CAPACITY: i64 = 100;
pub const ERROR_RATE: f64 = 0.01;
pub const TIGHTENING: f64 = 0.5;
pub const EXPANSION: u32 = 2;

/// What a filter may take beside its bitmap: whether a limit counts it is not said.
const BESIDE_BITMAP: f64 = 128.0;
/// Rates below this may come out as 0, by the order of the arithmetic.
pub const NEAR_ZERO: f64 = 1e-300;

/// Whether an object may have a filter.
pub enum Fit {
    Yes,
    No(&'static str),
    Unsaid,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// 0 where it can't grow.
    pub expansion: u32,
    pub error_rate: f64,
    pub tightening: f64,
}

impl Shape {
    /// The rate at which filter `index` is made.
    pub fn rate(&self, index: usize) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let index = index as f64;
        if self.expansion == 0 {
            self.error_rate
        } else if self.tightening.to_bits() == TIGHTENING.to_bits() {
            self.error_rate / ((index + 1.0) * (index + 2.0))
        } else {
            self.error_rate * (1.0 - self.tightening) * self.tightening.powf(index)
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn bitmap_bytes(&self, index: usize, capacity: i64) -> f64 {
        (capacity as f64 * self.rate(index).ln() / (-8.0 * LN_2 * LN_2)).ceil()
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
        let limit = f64::from(FILTER_LIMIT);
        if bytes > limit {
            Fit::No(OVER)
        } else if bytes + BESIDE_BITMAP > limit {
            Fit::Unsaid
        } else {
            Fit::Yes
        }
    }
}

/// How far an object can grow.
pub enum Reach {
    Far,
    /// Up to so many items, because of the error.
    Until(i64, &'static str),
    Unsaid,
}

#[derive(Clone, Debug)]
pub struct Object {
    pub shape: Shape,
    pub capacities: Vec<i64>,
    pub items: i64,
    /// What it must answer 1 for.
    pub known: HashSet<Vec<u8>>,
    /// Whether its bits are any, and not those of items.
    pub strange: bool,
}

impl Object {
    pub fn new(shape: Shape, capacity: i64) -> Self {
        Self {
            shape,
            capacities: vec![capacity],
            items: 0,
            known: HashSet::new(),
            strange: false,
        }
    }

    /// Nothing was added to it, in any way.
    pub fn is_empty(&self) -> bool {
        self.items == 0 && !self.strange
    }

    pub fn capacity(&self) -> i64 {
        self.capacities.iter().sum()
    }

    fn next_capacity(&self) -> Option<i64> {
        let newest = *self.capacities.last().expect("there is a filter");
        newest.checked_mul(i64::from(self.shape.expansion))
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
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        each.map(|(index, capacity)| self.shape.bitmap_bytes(index, *capacity) as u64)
    }

    /// Takes what the server says to a new or known item.
    pub fn add(&mut self, item: &[u8], reply: &Reply, resp3: bool) -> Result<(), String> {
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
        } else if self.is_empty() {
            return Err("an empty object knows it".to_owned());
        }
        self.known.insert(item.to_vec());
        Ok(())
    }

    /// How far it can grow, if that is enough for `least` items.
    pub fn reach(&self, least: i64) -> Reach {
        let mut grown = Self {
            known: HashSet::new(),
            ..self.clone()
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
