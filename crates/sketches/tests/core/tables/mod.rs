//! Objects that count, forget or grow to a named size, against maps of the fingerprints of their items.

mod merging;
mod moving;
mod plans;

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Added, Object, Refusal, Shape, Time, Window, chunks, dump};
use valkeybloom_testing::tables::{Model, Moment, Now, Stop};

use crate::support::{
    ROOMY, Rng, add_at, add_each_at, begin_partial, counting, dump_of, fields_of, has, has_at,
    has_each_at, header_of, object_of, params, relocate, scaled_to, through_chunks,
    through_every_form, windowed,
};

/// Returns an object and the same commands' effects on its model.
struct Pair {
    object: Object,
    /// A copy that was made in the middle, of contents alone.
    copy: Object,
    model: Model,
    shape: Shape,
    items: Vec<[u8; 8]>,
    now_ms: u64,
}

impl Pair {
    fn new(shape: &Shape, items: u64, now_ms: u64, rng: &mut Rng) -> Self {
        let object = object_of(shape, rng.seed());
        let copy = object.try_clone().unwrap();
        let items = (0..items).map(|_| rng.next().to_le_bytes()).collect();
        let model = Model::new(shape, object.hasher().seed().unwrap());
        let mut shape = *shape;
        shape.params.tightening = shape.tightening();
        Self {
            object,
            copy,
            model,
            shape,
            items,
            now_ms,
        }
    }

    /// Adds some items, to the object together, and to the copy one by one.
    fn add(&mut self, count: usize, rng: &mut Rng) {
        let period_ms = self.shape.window().map_or(1, Window::period_ms);
        let ttl_ms = match rng.below(8) {
            0 => Some(1 + rng.next() % (3 * period_ms)),
            1 => Some(rng.next() % (1 << rng.below(60))),
            _ => None,
        };
        let now_ms = self.now_ms;
        let time = Time { now_ms, ttl_ms };
        assert_eq!(self.object.tidy(self.now_ms), self.copy.tidy(self.now_ms));
        self.model.tidy(self.now_ms);
        assert!(!self.object.tidy(self.now_ms));
        let items: Vec<_> = (0..count).map(|_| *rng.pick(&self.items)).collect();
        let now = self.model.now(Moment { now_ms, ttl_ms });
        let outcomes = add_each_at(&mut self.object, &items, time, ROOMY);
        for (item, outcome) in items.iter().zip(&outcomes) {
            let claimed = self.model.contains(self.model.hash(item), self.now_ms);
            assert_eq!(self.add_to_model(item, now), *outcome);
            assert_eq!(self.copy.add(item, time, || ROOMY), *outcome);
            assert!(outcome.is_err() || claimed == (*outcome != Ok(Added::New)));
        }
    }

    fn add_to_model(&mut self, item: &[u8], now: Now) -> Result<Added, Refusal> {
        let hash = self.model.hash(item);
        match self.model.add(hash, now, false, &[]) {
            Ok(added) => Ok(added),
            Err(Stop::Full) => Err(Refusal::Full),
            Err(Stop::NeedsTable) => {
                let next = self.shape.table_step(self.model.steps())?;
                Ok(self.model.add(hash, now, false, &[next]).unwrap())
            }
        }
    }

    fn remove(&mut self, rng: &mut Rng) {
        for _ in 0..=rng.below(self.items.len() / 4) {
            let item = *rng.pick(&self.items);
            let removed = self.object.remove(&item);
            assert_eq!(self.copy.remove(&item), removed);
            let hash = self.model.hash(&item);
            assert_eq!(self.shape.is_counting() && self.model.remove(hash), removed);
        }
    }

    /// Moves the clock, forward and back.
    fn wait(&mut self, rng: &mut Rng) {
        let window = self.shape.window();
        let (period_ms, window_ms) =
            window.map_or((1, 1), |window| (window.period_ms(), window.ms()));
        self.now_ms = match rng.below(16) {
            0 => self.now_ms.saturating_sub(rng.next() % (2 * period_ms)),
            1 => self.now_ms.saturating_sub(rng.next() % (2 * window_ms)),
            2 => rng.next() % (2 * window_ms),
            3 => self.now_ms + rng.next() % (3 * window_ms),
            4 => self.now_ms + window_ms * (rng.next() % 100_000),
            5 => self.now_ms + window_ms,
            _ => self.now_ms + rng.next() % (2 * period_ms),
        };
    }

    /// Copies the contents on one of the ways that there are.
    fn sync(&mut self, rng: &mut Rng) {
        let from = *rng.pick(&[&self.object, &self.copy]);
        self.copy = match rng.below(4) {
            0 => dump::decode(&dump_of(from)).unwrap(),
            1 => through_chunks(from),
            2 => through_every_form(from),
            _ => from.try_clone().unwrap(),
        };
    }

    fn check(&self, rng: &mut Rng) {
        for object in [&self.object, &self.copy] {
            object.check().unwrap();
            let now = || self.now_ms;
            let is_same = dump_of(object) == self.model.draft().dump();
            assert!(is_same, "other bytes than the model's: {:?}", self.shape);
            let tables = &self.model.tables;
            let count = tables.len() as u64;
            let held = tables.iter().map(|table| table.entries.len() as u64).sum();
            let most = tables.iter().map(|table| table.step.most).sum();
            assert_eq!(object.totals(), (count, held, most));
            assert_eq!((object.filter_count(), object.capacity()), (count, most));
            assert_eq!(object.items(now), self.model.items(self.now_ms));
            assert!((0.0..=1.0).contains(&object.estimated_rate(now)));
            if let Some(window) = self.shape.window() {
                assert!(object.live_periods(now).unwrap() <= window.periods() + 1);
                assert!(object.period_items(now).unwrap() <= object.items(now));
            }
            // Lookups at any time, of which the object knows nothing.
            let (half, twice) = (self.now_ms / 2, self.now_ms.saturating_mul(2));
            let any = rng.next();
            let at = *rng.pick(&[self.now_ms, half, twice, any, u64::MAX]);
            let hashes = self.items.iter().map(|item| self.model.hash(item));
            let expected = hashes.map(|hash| self.model.contains(hash, at));
            let expected: Vec<_> = expected.collect();
            let claims = has_each_at(object, &self.items, at);
            assert!(claims == expected, "other answers at {at}");
            for (item, expected) in self.items.iter().zip(expected).step_by(7) {
                assert_eq!(object.contains(item, || at), expected);
                if self.shape.is_counting() {
                    assert_eq!(object.count(item), self.model.count(self.model.hash(item)));
                } else {
                    assert_eq!(object.count(item), 0);
                }
            }
        }
    }
}

/// Returns shapes whose items soon exceed what was reserved.
fn shapes(capacity: u64) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (rate, expansion) in [(0.4, 1), (0.02, 2), (0.05, 0)] {
        let params = params(capacity, rate, expansion);
        shapes.extend([counting(params), scaled_to(params)]);
        for periods in [1, 3, 24, 1440, 60_000] {
            shapes.push(windowed(params, 100, periods));
        }
    }
    shapes
}

#[test]
fn objects_hold_what_their_models_do() {
    let (mut most, mut gone) = (0, 0);
    for capacity in [1, 9] {
        for (number, shape) in (0..).zip(shapes(capacity)) {
            let mut rng = Rng::new(number);
            let begin = *rng.pick(&[0, 50, 1 << 40]);
            let mut pair = Pair::new(&shape, 600, begin, &mut rng);
            for _ in 0..400 {
                let tables = pair.object.filter_count();
                match rng.below(12) {
                    0..6 => {
                        let count = 1 << rng.below(8);
                        pair.add(count, &mut rng);
                    }
                    6 | 7 => pair.remove(&mut rng),
                    8 => pair.sync(&mut rng),
                    9 => relocate(&mut pair.object, || 1 + rng.below(3), |_| {}),
                    _ => pair.wait(&mut rng),
                }
                pair.check(&mut rng);
                gone += u32::from(pair.object.filter_count() < tables);
                most = most.max(tables);
            }
        }
    }
    assert!(most > 2 && gone > 10, "{most} tables, {gone} went");
}

/// Objects of many shards, which are split and joined, and of several pieces.
#[test]
fn large_objects_hold_what_their_models_do() {
    for (number, shape) in (100..).zip(shapes(900)) {
        let mut rng = Rng::new(number);
        let mut pair = Pair::new(&shape, 40_000, 1 << 40, &mut rng);
        for step in 0..30 {
            match rng.below(12) {
                0..6 => pair.add(4_000, &mut rng),
                6 | 7 => (0..3).for_each(|_| pair.remove(&mut rng)),
                8 => pair.sync(&mut rng),
                9 => relocate(&mut pair.object, || 1 + rng.below(30), |_| {}),
                _ => pair.wait(&mut rng),
            }
            if step % 5 == 4 {
                pair.check(&mut rng);
            }
        }
    }
}

/// While an object is read in chunks, an item that is there all the time is in exactly one of them, whatever is added and
/// removed.
#[test]
fn chunks_that_are_read_among_changes_have_what_stays() {
    for (number, shape) in (200..).zip(shapes(3_000)) {
        let mut rng = Rng::new(number);
        let mut pair = Pair::new(&shape, 120_000, 1 << 40, &mut rng);
        (0..25).for_each(|_| pair.add(4_000, &mut rng));
        let (start, is_window) = (pair.model.clone(), shape.window().is_some());
        // Whether each item is claimed, and how often it was counted.
        let held = |pair: &Pair| -> Vec<(bool, u64)> {
            // Items that are added again stay longer than a chunk that was read before says.
            let model = if is_window { &start } else { &pair.model };
            let hashes = pair.items.iter().map(|item| pair.model.hash(item));
            let held = hashes.map(|hash| {
                let count = if is_window { 0 } else { model.count(hash) };
                (model.contains(hash, pair.now_ms), count)
            });
            held.collect()
        };
        let held_at_first = held(&pair).into_iter();
        let mut stays: Vec<_> = held_at_first
            .map(|(stays, count)| (stays, count..=count))
            .collect();
        let mut partial = begin_partial(&header_of(&pair.object)).unwrap();
        let mut cursor = 1;
        let loaded = loop {
            let (next, chunk) = chunks::piece(&pair.object, cursor).unwrap();
            if let Some(loaded) = partial.load(next, &chunk).unwrap() {
                break loaded;
            }
            cursor = next;
            pair.remove(&mut rng);
            pair.now_ms += rng.next() % 60;
            pair.add(3_000, &mut rng);
            for ((stays, counts), (claimed, count)) in stays.iter_mut().zip(held(&pair)) {
                *stays &= claimed;
                *counts = count.min(*counts.start())..=count.max(*counts.end());
            }
        };
        for (item, (stays, counts)) in pair.items.iter().zip(stays) {
            assert!(
                !stays || has_at(&loaded, item, pair.now_ms),
                "denied: {shape:?}"
            );
            if shape.is_counting() && pair.object.filter_count() == 1 {
                assert!(counts.contains(&loaded.count(item)));
            }
        }
    }
}

/// Between two chunks the clock is set back, perhaps to 1970, or a period is dropped.
#[test]
fn chunks_from_before_the_clock_was_set_are_loaded() {
    let shape = windowed(params(100_000, 0.001, 2), 100, 3);
    for set_to in [0, 100, 5_000, 10_100] {
        let mut object = object_of(&shape, Seed::FIXED);
        let items: Vec<_> = (0..100_000_u64).map(u64::to_le_bytes).collect();
        for (number, items) in items.chunks(25_000).enumerate() {
            let now_ms = 9_800 + 100 * (number as u64).min(2);
            object.tidy(now_ms);
            let added = add_each_at(&mut object, items, Time::at(now_ms), ROOMY);
            assert!(added.iter().all(Result::is_ok));
        }
        let mut partial = begin_partial(&header_of(&object)).unwrap();
        let (cursor, chunk) = chunks::piece(&object, 1).unwrap();
        assert!(partial.load(cursor, &chunk).unwrap().is_none());
        assert!(object.tidy(set_to));
        object.add(b"later", Time::at(set_to), || ROOMY).unwrap();
        let mut rest = chunks::pieces(&object).filter(|(next, _)| *next > cursor);
        let loaded = rest
            .find_map(|(next, chunk)| partial.load(next, &chunk).unwrap())
            .unwrap();
        assert!(dump_of(&loaded) == dump_of(&object));
        let copy = through_every_form(&object);
        for now_ms in [set_to, set_to + 100, set_to + 200, set_to + 400] {
            let may_lack = now_ms > set_to + 100 || set_to > 10_000;
            for item in items.iter().step_by(99) {
                let has = has_at(&object, item, now_ms);
                assert_eq!(has_at(&copy, item, now_ms), has);
                assert!(may_lack || has);
            }
        }
    }
}

/// A piece may claim a newest period without having items of it.
#[test]
fn an_object_agrees_with_its_tables_on_what_was_dropped() {
    let shape = windowed(params(100, 0.01, 2), 100, 3);
    let mut draft = Model::new(&shape, &Seed::FIXED).draft();
    for newest in [1_000, 1 << 36, 1 << 50] {
        draft.pieces[0].newest = newest;
        let mut object = dump::decode(&draft.dump()).unwrap();
        for (number, now_ms) in [0, 50, 150, 250].into_iter().enumerate() {
            let item = number.to_le_bytes();
            assert_eq!(add_at(&mut object, &item, now_ms), Ok(Added::New));
            assert_eq!(add_at(&mut object, &item, now_ms), Ok(Added::Present));
            assert_eq!(object.totals().1, 1 + number as u64);
        }
        let copy = through_every_form(&object);
        for number in 0..4_usize {
            assert!(copy.contains(&number.to_le_bytes(), || 250), "{newest}");
        }
    }
}

/// Counts and periods at the ends of their codes.
#[test]
fn extreme_counts_and_periods_are_kept() {
    let mut rng = Rng::new(7);
    for bits in [12, 13, 30, 59, 60] {
        for count in [1, 2, 3, 4, 1 << 20, u64::MAX - 1, u64::MAX] {
            let shape = counting(params(10, 0.01, 2));
            let mut model = Model::new(&shape, &rng.seed());
            model.tables[0].step.bits = bits;
            let last = u64::MAX >> (64 - bits);
            let held = [0, 1, last - 1, last].map(|fingerprint| (fingerprint, count));
            model.tables[0].entries.extend(held);
            let draft = model.draft();
            let mut object = dump::decode(&draft.dump()).unwrap();
            assert!(dump_of(&object) == draft.dump(), "{bits} bits, {count}");
            assert_eq!(fields_of(&object), draft.stream());
            let mut items = (0..1_u64 << 16).map(u64::to_le_bytes);
            if let Some(item) = items.find(|item| has(&object, item)) {
                assert_eq!(object.count(&item), count);
                assert!(object.remove(&item));
                assert_eq!(object.count(&item), count - 1);
            }
        }
    }
    let mut object = object_of(&windowed(params(10, 0.01, 2), 1, 60_000), rng.seed());
    for now_ms in [0, 1, 59_999, 60_000, 60_001_u64] {
        add_at(&mut object, &now_ms.to_le_bytes(), now_ms).unwrap();
        let copy = through_every_form(&object);
        for item in [0, 1, 59_999, 60_000, 60_001_u64] {
            let live = item <= now_ms && item + 60_000 > now_ms;
            assert_eq!(
                has_at(&copy, &item.to_le_bytes(), now_ms),
                live,
                "{item} {now_ms}"
            );
        }
    }
}

#[test]
fn writes_of_items_that_are_there_free_the_memory_of_others() {
    let mut object = object_of(&windowed(params(100_000, 0.01, 2), 1000, 24), Seed::FIXED);
    for item in 0..100_000_u64 {
        add_at(&mut object, &item.to_le_bytes(), 1_000_000).unwrap();
    }
    let full = object.memory_bytes();
    for step in 0..1_000_u64 {
        let item = (step % 10).to_le_bytes();
        add_at(&mut object, &item, 1_024_000 + step * 100).unwrap();
    }
    let left = object.memory_bytes();
    assert!(left < full / 100, "{left}");
}
