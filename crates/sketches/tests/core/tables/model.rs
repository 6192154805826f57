//! What an object of tables holds, by maps of fingerprints.

use std::collections::BTreeMap;

use valkeybloom_sketches::bloom::{Added, Growth, Kind, Object, Refusal, Shape, Time};

use super::draft::{Contents, Draft};

#[derive(Clone)]
pub struct Model {
    pub shape: Shape,
    pub tables: Vec<Contents>,
    /// The oldest period of the window at the latest write, if there was one.
    dropped: Option<i128>,
}

impl Model {
    pub fn new(shape: &Shape) -> Self {
        let mut shape = *shape;
        shape.params.tightening = shape.tightening();
        let tables = vec![(shape.table_step([]).unwrap(), BTreeMap::new())];
        Self {
            shape,
            tables,
            dropped: None,
        }
    }

    /// Returns the number of the current period; 0 without a window.
    fn period(&self, now_ms: u64) -> i128 {
        self.shape
            .window()
            .map_or(0, |window| (now_ms / window.period_ms()).into())
    }

    /// Returns the oldest period that has not expired; without a window, a number below all that are kept.
    fn oldest(&self, now_ms: u64) -> i128 {
        let periods = self
            .shape
            .window()
            .map(|window| i128::from(window.periods()));
        periods.map_or(i128::MIN, |periods| self.period(now_ms) + 1 - periods)
    }

    /// Returns the tables that claim an item, with what they keep of it.
    fn claims(&self, hash: u64, now_ms: u64) -> Vec<(usize, i128)> {
        let oldest = self.oldest(now_ms);
        let tables = self.tables.iter().enumerate();
        let claims = tables.filter_map(|(index, (step, held))| {
            held.get(&(hash >> (64 - step.bits)))
                .map(|held| (index, *held))
        });
        claims.filter(|(_, held)| *held >= oldest).collect()
    }

    pub fn contains(&self, hash: u64, now_ms: u64) -> bool {
        !self.claims(hash, now_ms).is_empty()
    }

    pub fn count(&self, hash: u64) -> u64 {
        let claims = self.claims(hash, 0).into_iter();
        let counts = claims.map(|(_, count)| u64::try_from(count).unwrap());
        counts.fold(0, u64::saturating_add)
    }

    pub fn items(&self, now_ms: u64) -> u64 {
        let oldest = self.oldest(now_ms);
        let held = self.tables.iter().flat_map(|(_, held)| held.values());
        held.filter(|held| **held >= oldest).count() as u64
    }

    pub fn totals(&self) -> (u64, u64, u64) {
        let sum = |of: &dyn Fn(&Contents) -> u64| self.tables.iter().map(of).sum();
        (
            self.tables.len() as u64,
            sum(&|(_, held)| held.len() as u64),
            sum(&|(step, _)| step.most),
        )
    }

    pub fn draft(&self, object: &Object) -> Draft {
        Draft::of(
            &self.shape,
            object.hasher().seed().unwrap().as_bytes(),
            &self.tables,
            self.dropped,
        )
    }

    fn free(&mut self) {
        let mut left = self.tables.len();
        self.tables.retain(|(_, held)| {
            left -= 1;
            left == 0 || !held.is_empty()
        });
    }

    pub fn tidy(&mut self, now_ms: u64) {
        let Some(window) = self.shape.window() else {
            return;
        };
        let periods = i128::from(window.periods());
        let held = self.tables.iter().flat_map(|(_, held)| held.values());
        let newest_but_one = held.max().map(|newest| newest - 1);
        let reached = self.dropped.map(|dropped| dropped + periods - 1);
        let now = self.period(now_ms);
        let reached = newest_but_one.max(reached).unwrap_or(now);
        let back = (reached - now - 1).max(0);
        let oldest = now.max(reached - back) + 1 - periods;
        for (_, held) in &mut self.tables {
            for held in held.values_mut() {
                *held -= back;
            }
            held.retain(|_, held| *held >= oldest);
        }
        self.dropped = Some(oldest);
        self.free();
    }

    /// Returns the period to which an item is added.
    fn target(&self, time: Time) -> i128 {
        let Some(window) = self.shape.window() else {
            return 0;
        };
        let now = self.period(time.now_ms);
        let oldest = self.dropped.unwrap_or(i128::MIN);
        let current = now.max(oldest.saturating_add(i128::from(window.periods()) - 1));
        let until = time.ttl_ms.map(|ttl_ms| {
            let end = (i128::from(time.now_ms) + i128::from(ttl_ms)).min(u64::MAX.into()) - 1;
            end.div_euclid(window.period_ms().into()) + 1 - i128::from(window.periods())
        });
        until.map_or(current, |until| until.min(now + 1).max(oldest))
    }

    pub fn add(&mut self, hash: u64, time: Time) -> Result<Added, Refusal> {
        let (newest, claims) = (self.tables.len() - 1, self.claims(hash, time.now_ms));
        let target = self.target(time);
        let claim = claims.first().copied();
        let is_full = |(step, held): &Contents| held.len() as u64 >= step.most;
        let index = match claim {
            Some((index, held))
                if self.shape.window().is_some()
                    && index < newest
                    && !is_full(&self.tables[newest]) =>
            {
                if held >= target {
                    return Ok(Added::Present);
                }
                newest
            }
            Some((index, _)) => index,
            None if !is_full(&self.tables[newest]) => newest,
            None => match self.tables.iter().rposition(|table| !is_full(table)) {
                Some(older) => older,
                None if self.shape.params.growth == Growth::Fixed => return Err(Refusal::Full),
                None => {
                    let step = self
                        .shape
                        .table_step(self.tables.iter().map(|(step, _)| *step))?;
                    self.tables.push((step, BTreeMap::new()));
                    newest + 1
                }
            },
        };
        let (step, held) = &mut self.tables[index];
        let held = held.entry(hash >> (64 - step.bits));
        let mut changed = true;
        match self.shape.kind {
            Kind::Counting => *held.or_insert(0) += 1,
            Kind::Windowed(_) => {
                let held = held.or_insert(i128::MIN);
                changed = *held < target;
                *held = target.max(*held);
            }
            _ => changed = *held.or_insert(0) < 0,
        }
        Ok(match claim {
            None => Added::New,
            Some(_) if changed => Added::Again,
            Some(_) => Added::Present,
        })
    }

    pub fn remove(&mut self, hash: u64) -> bool {
        let claims = self.claims(hash, 0);
        let ([(index, count)], true) = (&claims[..], self.shape.is_counting()) else {
            return false;
        };
        let (step, held) = &mut self.tables[*index];
        let fingerprint = hash >> (64 - step.bits);
        if *count == 1 {
            held.remove(&fingerprint);
        } else {
            held.insert(fingerprint, count - 1);
        }
        self.free();
        true
    }
}
