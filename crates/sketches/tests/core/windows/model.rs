//! A model of windows: of each item the newest period that it was put into.

use std::collections::BTreeMap;

use valkeybloom_sketches::bloom::{Added, Growth, Limits, Object, Refusal, Shape, Time, Window};

use crate::support::{Rng, dump_of, has_at, through_every_form};

/// The number of items that the model adds; others are strangers.
pub const ITEMS: usize = 40_000;

pub fn known(item: usize) -> [u8; 8] {
    (item as u64).to_le_bytes()
}

pub struct Model {
    object: Object,
    window: Window,
    limits: Limits,
    now: u64,
    /// The newest period that holds each item.
    newest: Vec<Option<u64>>,
    /// The number of items that each period took.
    periods: BTreeMap<u64, u64>,
    /// Another to which the same is done, and has to become the same.
    twin: Option<Object>,
    strangers: Rate,
    passed: Rate,
    /// Answers that only a false positive explains, of those that one could have changed.
    odd: Rate,
    pub refused: u64,
}

/// A number of hits, and of tries.
#[derive(Default)]
struct Rate {
    found: u64,
    asked: u64,
}

impl Rate {
    fn count(&mut self, found: bool) {
        self.found += u64::from(found);
        self.asked += 1;
    }

    /// Returns by how many deviations the hits exceed those expected at this rate.
    #[allow(clippy::cast_precision_loss, reason = "counts are small")]
    fn deviations(&self, rate: f64) -> f64 {
        let (found, asked) = (self.found as f64, self.asked as f64);
        (found - asked * rate) / (asked * rate * (1.0 - rate)).sqrt()
    }
}

impl Model {
    pub fn new(shape: Shape, now: u64, limits: Limits, rng: &mut Rng) -> Self {
        let window = shape.window().unwrap();
        Self {
            object: Object::new(&shape, rng.seed(), Time::at(now), limits).unwrap(),
            window,
            limits,
            now,
            newest: vec![None; ITEMS],
            periods: BTreeMap::from([(now / window.period_ms(), 0)]),
            twin: None,
            strangers: Rate::default(),
            passed: Rate::default(),
            odd: Rate::default(),
            refused: 0,
        }
    }

    fn is_live(&self, period: u64, now: u64) -> bool {
        period + self.window.periods() > now / self.window.period_ms()
    }

    /// Returns the period of items with this time to live: the first possible one whose end is not before theirs. It
    /// tries all of them.
    fn target(&self, ttl: Option<u64>) -> u64 {
        let current = self.now / self.window.period_ms();
        let Some(ttl) = ttl else {
            return current;
        };
        let oldest = (current + 1).saturating_sub(self.window.periods());
        let end = |period: u64| (period + self.window.periods()) * self.window.period_ms();
        let long = (oldest..=current).find(|period| end(*period) >= self.now + ttl);
        long.unwrap_or(current + 1)
    }

    /// Expires periods, as every write does first.
    fn tidy(&mut self) {
        let ahead = self.now / self.window.period_ms() + 1;
        let untidy = |period: u64| !self.is_live(period, self.now) || period > ahead;
        let expected = self.periods.keys().any(|period| untidy(*period));
        assert_eq!(self.object.tidy(self.now), expected);
        if let Some(twin) = &mut self.twin {
            assert_eq!(twin.tidy(self.now), expected);
        }
        if !expected {
            return;
        }
        assert!(!self.object.tidy(self.now), "not tidy at once");
        // All of one clock go back with it.
        let newest = self.periods.keys().next_back().copied().unwrap_or(0);
        let (back, periods) = (newest.saturating_sub(ahead), self.window.periods());
        let moved = |period: u64| {
            if period + periods + 1 > newest {
                period.saturating_sub(back)
            } else {
                period
            }
        };
        let mut tidied = BTreeMap::new();
        for (period, items) in std::mem::take(&mut self.periods) {
            if self.is_live(moved(period), self.now) {
                *tidied.entry(moved(period)).or_insert(0) += items;
            }
        }
        self.periods = tidied;
        let oldest = ahead.saturating_sub(periods);
        for newest in &mut self.newest {
            let period = newest.map(moved);
            *newest = period.filter(|period| *period >= oldest);
        }
    }

    fn add(&mut self, item: usize, ttl: Option<u64>) {
        self.tidy();
        let target = self.target(ttl);
        let held = self.newest[item].filter(|period| self.is_live(*period, self.now));
        let time = Time {
            now_ms: self.now,
            ttl_ms: ttl,
        };
        let (bytes, limits) = (known(item), self.limits);
        let added = self.object.add(&bytes, time, None, || limits);
        if let Some(twin) = &mut self.twin {
            assert_eq!(twin.add(&bytes, time, None, || limits), added);
        }
        let expected = match held {
            None => Added::New,
            Some(period) if period >= target => Added::Present,
            Some(_) => Added::Again,
        };
        match added {
            // A claim that is right can't be missed.
            Ok(added) if expected == Added::Present => assert_eq!(added, Added::Present),
            Ok(Added::New) => assert_eq!(expected, Added::New),
            Ok(Added::Present | Added::Again) => {}
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Full);
                assert!(expected != Added::Present, "refused what is held");
                self.refused += 1;
                return;
            }
        }
        if expected == Added::New {
            self.odd.count(added != Ok(expected));
        }
        let found = has_at(&self.object, &bytes, self.now);
        assert!(found, "{added:?} and denied, at {}, for {ttl:?}", self.now);
        // Without room to keep it for longer, an item stays in its period.
        let fixed = self.object.shape().params.growth == Growth::Fixed && !self.limits.saturate;
        if !fixed || added != Ok(Added::Present) {
            self.newest[item] = self.newest[item].max(Some(target));
        }
        if added != Ok(Added::Present) {
            *self.periods.entry(target).or_insert(0) += 1;
        }
    }

    fn ask(&mut self, item: usize, now: u64) {
        let found = has_at(&self.object, &known(item), now);
        match self.newest[item] {
            Some(period) if self.is_live(period, now) => {
                assert!(found, "item {item} of period {period} denied at {now}");
            }
            _ => self.passed.count(found),
        }
    }

    fn ask_stranger(&mut self, rng: &mut Rng) {
        let stranger = [rng.next().to_le_bytes(), *b"stranger"].concat();
        let found = has_at(&self.object, &stranger, self.now);
        self.strangers.count(found);
    }

    fn check_sums(&self, now: u64) {
        let object = &self.object;
        let live = || self.periods.iter().filter(|(p, _)| self.is_live(**p, now));
        assert_eq!(object.live_periods(|| now), Some(live().count() as u64));
        let (mut items, mut capacity) = (0, 0);
        let mut last = 0;
        for (period, filter, rate) in object.filters(|| now) {
            let period = period.unwrap();
            assert!(self.is_live(period, now), "period {period} at {now}");
            assert!(period >= last);
            assert!(rate < object.shape().params.error_rate.get());
            last = period;
            items += filter.items();
            capacity += filter.capacity();
        }
        assert_eq!(object.items(|| now), items);
        assert_eq!(object.capacity(|| now), capacity);
        assert_eq!(items, live().map(|(_, items)| items).sum::<u64>());
        assert!(object.is_within(self.limits));
        assert!(object.reach(|| now, self.limits) >= object.shape().params.capacity);
    }

    /// Replaces the object by the one read from its stored forms.
    fn travel(&mut self) {
        if let Some(twin) = &self.twin {
            let same = twin.memory_bytes() == self.object.memory_bytes();
            assert!(same, "{} bytes", twin.memory_bytes());
            through_every_form(twin);
            assert!(dump_of(twin) == dump_of(&self.object));
        }
        let copy = through_every_form(&self.object);
        self.twin = Some(std::mem::replace(&mut self.object, copy));
    }

    pub fn run(&mut self, steps: usize, per_period: usize, rng: &mut Rng) {
        let (period, window) = (self.window.period_ms(), self.window.ms());
        let span = usize::try_from(period).unwrap();
        for step in 0..steps {
            match rng.below(8) {
                0..=3 => {
                    let ttl = match rng.below(8) {
                        0 => Some(1 + rng.next() % window),
                        1 => Some(*rng.pick(&[1, period, window, window + 1, 9 * window])),
                        _ => None,
                    };
                    self.add(rng.below(ITEMS), ttl);
                }
                4 | 5 => self.ask(rng.below(ITEMS), self.now),
                6 => {
                    let around = rng.next() % (3 * window);
                    let now = (self.now + around).saturating_sub(window);
                    self.ask(rng.below(ITEMS), now);
                }
                _ => self.ask_stranger(rng),
            }
            // So far that half of the steps, which add, fill the periods on an average.
            if rng.below(per_period * 2) < span.min(per_period * 2) {
                let most = (period / (per_period as u64 * 2)).max(1);
                self.now += rng.next() % (2 * most) + u64::from(most == 1);
            }
            if step % 5_000 == 0 {
                self.travel();
            }
            if step % 500 == 0 {
                self.check_sums(self.now);
                self.check_sums((self.now + rng.next() % (2 * window)).saturating_sub(window));
            }
            if rng.below(20_000) == 0 {
                match rng.below(4) {
                    0 => self.now += rng.next() % (2 * window),
                    1 => self.now += 100 * window,
                    2 => self.now = self.now.saturating_sub(rng.next() % (2 * window)),
                    _ => self.now = self.now.saturating_sub(50 * window),
                }
            }
        }
        for item in 0..ITEMS {
            self.ask(item, self.now);
        }
    }

    #[track_caller]
    pub fn keeps_its_rate(&self) {
        let rate = self.object.shape().params.error_rate.get();
        for (of, counted) in [
            ("strangers", &self.strangers),
            ("passed items", &self.passed),
            ("additions", &self.odd),
        ] {
            assert!(counted.asked > 10_000, "{} {of}", counted.asked);
            let deviations = counted.deviations(rate);
            assert!(
                deviations <= 4.0,
                "{} of {} {of} were found at a rate of {rate}, {deviations:.1} deviations over it",
                counted.found,
                counted.asked,
            );
        }
    }
}
