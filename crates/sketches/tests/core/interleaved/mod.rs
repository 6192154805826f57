//! Windows whose filters are large enough to be interleaved, compared with one filter of the `bloomfilter` crate for
//! each of their filters: answers, outcomes, and bits in every stored form are equal.

mod room;

use std::collections::BTreeMap;

use bloomfilter::Bloom;
use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{
    Added, Cells, HEADER_BYTES, Limits, Object, Shape, Time, Window,
};

use crate::sizes::crates;
use crate::support::{
    ROOMY, Rng, at_each_width, filters, has_at, params, relocate, through_every_form, windowed,
};

struct Crates {
    bloom: Bloom<[u8]>,
    items: u64,
}

struct Model {
    object: Object,
    window: Window,
    seed: Seed,
    now: u64,
    limits: Limits,
    /// The filters of each period, oldest first.
    periods: BTreeMap<u64, Vec<Crates>>,
}

impl Model {
    fn new(shape: Shape, now: u64, rng: &mut Rng) -> Self {
        let seed = rng.seed();
        let mut model = Self {
            object: Object::new(&shape, seed, Time::at(now), Limits::NONE).unwrap(),
            window: shape.window().unwrap(),
            seed,
            now,
            limits: ROOMY,
            periods: BTreeMap::new(),
        };
        let first = model.window.period_at(now);
        model.stack(first);
        model
    }

    /// Stacks a filter of the crate, of the size of the object's next filter in this period.
    fn stack(&mut self, period: u64) {
        let filters = self.periods.entry(period).or_default();
        let of_object = self.object.filters(|| self.now);
        let of_period = of_object.filter(|(number, ..)| *number == Some(period));
        let filter = of_period.map(|(_, filter, _)| filter).nth(filters.len());
        let size = filter.unwrap().geometry();
        filters.push(Crates {
            bloom: crates((size.cell_bytes, size.hashes), &self.seed),
            items: 0,
        });
    }

    fn tidy(&mut self) {
        self.object.tidy(self.now);
        let (window, current) = (self.window, self.window.period_at(self.now));
        self.periods
            .retain(|period, _| !window.has_expired(*period, current));
    }

    /// Returns whether the crate's filters claim an item in a period before `period`, and in that or a later one.
    fn claims(&self, item: &[u8], period: u64) -> (bool, bool) {
        let any = |filters: &Vec<Crates>| filters.iter().any(|of| of.bloom.check(item));
        let (mut before, mut from) = (false, false);
        for (number, filters) in &self.periods {
            *(if *number < period {
                &mut before
            } else {
                &mut from
            }) |= any(filters);
        }
        (before, from)
    }

    fn add_each(&mut self, items: &[Vec<u8>], ttl: Option<u64>, alone: bool) {
        self.tidy();
        let time = Time {
            now_ms: self.now,
            ttl_ms: ttl,
        };
        let (target, limits) = (self.window.target(time), self.limits);
        let mut outcomes = Vec::new();
        if alone {
            for item in items {
                outcomes.push(self.object.add(item, time, None, || limits));
            }
        } else {
            let items = items.iter().map(Vec::as_slice);
            self.object
                .add_each(items, time, None, || limits, |o| outcomes.push(o));
        }
        assert_eq!(outcomes.len(), items.len());
        for (item, outcome) in items.iter().zip(outcomes) {
            let (before, from) = self.claims(item, target);
            if from {
                assert_eq!(outcome, Ok(Added::Present));
                continue;
            }
            assert_eq!(outcome, Ok(if before { Added::Again } else { Added::New }));
            let full = |of: &Crates| of.items == self.object.shape().params.capacity;
            match self.periods.get(&target).map(Vec::len) {
                None => self.stack(target),
                Some(1) if full(&self.periods[&target][0]) => self.stack(target),
                Some(_) => {}
            }
            let newest = self
                .periods
                .get_mut(&target)
                .and_then(|filters| filters.last_mut());
            let newest = newest.unwrap();
            newest.bloom.set(item);
            newest.items += 1;
        }
    }

    fn ask(&self, items: &[Vec<u8>], now: u64) {
        let live = |period: &u64| !self.window.has_expired(*period, self.window.period_at(now));
        let mut answers = Vec::new();
        let slices = items.iter().map(Vec::as_slice);
        self.object
            .contains_each(slices, || now, |answer| answers.push(answer));
        for (item, answer) in items.iter().zip(answers) {
            let mut answering = self.periods.iter().filter(|(period, _)| live(period));
            let expected = answering.any(|(_, of)| of.iter().any(|of| of.bloom.check(item)));
            assert_eq!(answer, expected);
            assert_eq!(has_at(&self.object, item, now), expected);
        }
    }

    /// Compares all bits, and the numbers of filters and of items.
    fn compare_bits(&self) {
        let crates = self.periods.values().flatten();
        let views = self.object.views();
        assert_eq!(views.count(), crates.clone().count());
        for (view, of) in self.object.views().zip(crates) {
            let blob = of.bloom.as_slice();
            assert!(view.blob().unwrap() == blob, "other bits");
            let middle = blob.len() / 3..blob.len() / 2;
            let cells = &blob[blob.len() - usize::try_from(view.cell_bytes()).unwrap()..];
            assert!(
                *view.bitmap_range(middle.clone()).unwrap() == cells[middle],
                "other bits"
            );
            assert_eq!(view.items(), of.items);
        }
    }

    /// Compares each filter that the object returns: its size, all of its bits, and its answers for `items`.
    fn ask_each_filter(&self, items: &[Vec<u8>]) {
        let answering = || self.object.filters(|| self.now).map(|(_, view, _)| view);
        assert_eq!(answering().count(), self.object.views().count());
        let crates = self.periods.values().flatten();
        for views in [answering().collect::<Vec<_>>(), filters(&self.object)] {
            assert_eq!(views.len(), crates.clone().count());
            for (view, of) in views.iter().zip(crates.clone()) {
                let bits = &of.bloom.as_slice()[HEADER_BYTES..];
                assert!(*view.bitmap().unwrap() == *bits, "other bits");
                assert_eq!(view.geometry().cell_bytes, bits.len() as u64);
                assert_eq!(view.geometry().positions, bits.len() as u64 * 8);
                assert_eq!(view.geometry().hashes, of.bloom.number_of_hash_functions());
                assert_eq!(
                    (view.geometry().cells, view.items()),
                    (Cells::Bits, of.items)
                );
                for (byte, first) in bits.iter().zip((0..).step_by(8)) {
                    let in_use = (0..8).map(|bit| u8::from(view.is_in_use(first + bit)) << bit);
                    assert_eq!(in_use.sum::<u8>(), *byte);
                }
                assert!(!view.is_in_use(view.geometry().positions) && !view.is_in_use(u64::MAX));
                for item in items {
                    let claimed = view.contains(self.object.probe(item));
                    assert_eq!(claimed, of.bloom.check(item));
                }
            }
        }
    }

    /// Compares all bits, and checks every stored form.
    fn compare(&self) {
        self.compare_bits();
        through_every_form(&self.object);
    }

    /// Merges another window, whose periods this window lacks, into this one.
    fn merge(&mut self, other: Self) {
        let union = Object::union(&[&self.object, &other.object], Some(self.now), ROOMY);
        self.object = union.unwrap().unwrap();
        for (period, filters) in other.periods {
            assert!(self.periods.insert(period, filters).is_none());
        }
    }

    /// Adds `count` items in each of `periods` periods from now on, and looks them up.
    fn go_through(&mut self, periods: u64, count: usize, rng: &mut Rng) {
        for period in 0..periods {
            let items: Vec<Vec<u8>> = (0..count).map(|_| rng.bytes(9)).collect();
            self.now += period.min(1) * self.window.period_ms();
            self.add_each(&items, None, false);
            self.ask(&items, self.now);
        }
    }

    fn run(&mut self, steps: usize, rng: &mut Rng) {
        let (period, periods) = (self.window.period_ms(), self.window.periods());
        let capacity = self.object.shape().params.capacity;
        let known = usize::try_from(capacity * periods * 2).unwrap();
        let items = |rng: &mut Rng, count: usize| -> Vec<Vec<u8>> {
            let number = |rng: &mut Rng| rng.below(known).to_le_bytes().to_vec();
            (0..count).map(|_| number(rng)).collect()
        };
        for _ in 0..steps {
            match rng.below(16) {
                0..=6 => {
                    let ttl = (rng.below(4) == 0).then(|| 1 + rng.next() % self.window.ms());
                    let count = rng.below(300);
                    self.add_each(&items(rng, count), ttl, false);
                }
                7 => self.add_each(&items(rng, 20), None, true),
                8 => {
                    let later = self.now + rng.next() % (2 * period);
                    self.ask(&items(rng, 130), later);
                }
                9..=12 => self.now += rng.next() % (2 * period),
                13 => match rng.below(8) {
                    0 => self.now += rng.next() % self.window.ms(),
                    1 => {
                        let copy = self.object.try_clone().unwrap();
                        self.object = copy;
                    }
                    2 => self.object = through_every_form(&self.object),
                    3 => relocate(&mut self.object, || 3, |_| ()),
                    _ => {}
                },
                14 => {
                    // The object contains its own earlier state.
                    let copy = self.object.try_clone().unwrap();
                    self.add_each(&items(rng, 30), None, false);
                    let union = Object::union(&[&self.object, &copy], Some(self.now), ROOMY);
                    assert!(union.unwrap().is_none());
                    let union = Object::union(&[&copy, &self.object], Some(self.now), ROOMY);
                    let union = union.unwrap().unwrap_or(copy);
                    for item in items(rng, 100) {
                        let (one, other) = (&self.object, &union);
                        assert_eq!(has_at(one, &item, self.now), has_at(other, &item, self.now));
                    }
                }
                _ => self.compare(),
            }
        }
        self.compare();
    }
}

#[test]
fn bits_and_answers_equal_the_crates() {
    let mut rng = Rng::new(1);
    at_each_width(|_| {
        for (capacity, rate, periods) in [
            // More hash functions than are computed together.
            (1000, 1e-6, 10),
            (1900, 0.05, 8),
            (2100, 0.01, 17),
            (1501, 0.001, 24),
            (9001, 0.3, 11),
        ] {
            let shape = windowed(params(capacity, rate, 2), 1000, periods);
            let now = rng.next() % (1 << 40);
            Model::new(shape, now, &mut rng).run(400, &mut rng);
        }
    });
}

/// The window has more filters than a lookup searches together.
#[test]
fn lookups_search_all_of_80_periods() {
    let mut rng = Rng::new(2);
    let shape = windowed(params(1501, 0.02, 2), 1000, 80);
    let mut model = Model::new(shape, 1 << 40, &mut rng);
    model.go_through(80, 40, &mut rng);
    model.run(60, &mut rng);
}

/// Periods expire before their filters are fully interleaved.
#[test]
fn periods_that_expire_during_interleaving_leave_no_bits_to_others() {
    let mut rng = Rng::new(3);
    let shape = windowed(params(150_000, 0.01, 2), 1000, 8);
    let mut model = Model::new(shape, 1 << 40, &mut rng);
    model.go_through(30, 200, &mut rng);
    model.compare();
}

/// Compares filters before they are interleaved, during interleaving, and afterwards.
#[test]
fn each_returned_filter_has_its_own_bits() {
    let mut rng = Rng::new(10);
    let shape = windowed(params(1501, 0.01, 2), 1000, 12);
    let mut model = Model::new(shape, 1 << 40, &mut rng);
    let mut items = Vec::new();
    let mut shared = [0; 2];
    for _ in 0..24 {
        for _ in 0..6 {
            let more: Vec<Vec<u8>> = (0..20).map(|_| rng.bytes(9)).collect();
            model.add_each(&more, None, false);
            items.extend(more);
            model.ask_each_filter(&items);
            for period in model.object.periods() {
                shared[usize::from(!period.has_own_bits())] += 1;
            }
        }
        model.object = through_every_form(&model.object);
        model.now += model.window.period_ms();
        model.tidy();
    }
    let [apart, interleaved] = shared;
    assert!(apart > 0 && interleaved > 0, "{shared:?}");
}

/// Returns the shape of a window whose filters have `bytes` bytes.
fn shape_of(bytes: u64, periods: u64) -> Shape {
    // An item takes about a byte.
    let mut shapes =
        (bytes..2 * bytes).map(|capacity| windowed(params(capacity, 0.9, 0), 1000, periods));
    let has_as_many = |shape: &Shape| {
        let plan = shape.plan(1, Limits::NONE).unwrap();
        plan.filters[0].1.cell_bytes == bytes
    };
    shapes.find(has_as_many).unwrap()
}

/// Adds items one at a time, so that every state of interleaving is compared.
#[test]
fn bits_equal_the_crates_in_every_state_of_interleaving() {
    let mut rng = Rng::new(4);
    // Sizes with every remainder of a division by a word's bytes, and sizes a few bytes over those that whole steps
    // interleave.
    for bytes in (2049..2061).chain([2065, 2066, 2113, 2114, 2115, 2305]) {
        let mut model = Model::new(shape_of(bytes, 33), 1 << 40, &mut rng);
        let (period, window) = (model.window.period_ms(), model.window.ms());
        for step in 0..44 {
            let mut items =
                |count: usize| -> Vec<Vec<u8>> { (0..count).map(|_| rng.bytes(9)).collect() };
            // Too few to interleave all filters at once.
            model.add_each(&items(60), None, false);
            let alone = items(14);
            for item in alone.chunks(1) {
                let ttl = (rng.below(2) == 0).then(|| 1 + rng.next() % window);
                model.add_each(item, ttl, true);
                model.ask(item, model.now);
                model.compare_bits();
                // Some periods expire and leave empty lanes.
                if step > 30 && rng.below(8) == 0 {
                    model.now += period * (rng.next() % 4);
                }
            }
            model.now += period;
        }
        model.compare();
    }
}

/// If more than half of the periods of a group expire in a gap, the group is taken apart. Adds items one at a time, so
/// that every state is compared.
#[test]
fn bits_equal_the_crates_while_a_group_is_taken_apart() {
    let mut rng = Rng::new(7);
    for bytes in (2049..2055).chain([2065, 2114, 2305]) {
        for lanes in [8, 16, 24, 32] {
            let mut model = Model::new(shape_of(bytes, lanes), 1 << 40, &mut rng);
            let period = model.window.period_ms();
            let mut items =
                |count: usize| -> Vec<Vec<u8>> { (0..count).map(|_| rng.bytes(9)).collect() };
            // Later periods reuse the lanes. The last period has few items, in a random lane.
            for _ in 0..2 * lanes + u64::from(items(1)[0][0]) % lanes {
                model.add_each(&items(70), None, false);
                model.now += period;
            }
            model.add_each(&items(1), None, false);
            let left = 1 + u64::from(items(1)[0][0]) % (lanes / 2 - 1);
            model.now += period * (lanes - left);
            model.tidy();
            let after_gap = model.object.memory_bytes();
            for item in items(100).chunks(1) {
                model.add_each(item, None, true);
                model.ask(item, model.now);
                model.compare_bits();
            }
            // At least half of the lanes that are left have periods.
            let takes = model.object.memory_bytes();
            let most = 2 * blob_bytes(&model.object) + 2000 + 350 * left;
            assert!(
                takes <= most,
                "{takes} bytes, beyond {most}: {left} of {lanes}"
            );
            assert!(takes < after_gap, "nothing was freed");
            assert_eq!(model.object.check(), Ok(()));
            model.compare();
            // Other filters join the lanes that are left.
            model.go_through(2 * lanes, 3, &mut rng);
            model.compare();
        }
    }
}

/// A period never takes back bits that an earlier period left in its lane, whatever state the group was in when the
/// period got the lane.
#[test]
fn bits_equal_the_crates_in_reused_lanes() {
    let mut rng = Rng::new(8);
    let mut items = |count: usize| -> Vec<Vec<u8>> { (0..count).map(|_| rng.bytes(9)).collect() };
    for steps in 0..24 {
        // The period gets its lane while the group is being interleaved.
        let mut model = Model::new(shape_of(8000, 8), 1 << 40, &mut Rng::new(9));
        let period = model.window.period_ms();
        for _ in 0..7 {
            model.add_each(&items(50), None, false);
            model.now += period;
        }
        model.add_each(&items(steps), None, true);
        model.now += period;
        model.add_each(&items(1), None, true);
        model.now += 6 * period;
        model.add_each(&items(40), None, true);
        model.compare();

        // The period gets its lane while the group is taken apart, because there is no room for a filter of its own.
        let mut model = Model::new(shape_of(8000, 8), 1 << 40, &mut Rng::new(9));
        for _ in 0..11 {
            model.add_each(&items(70), None, false);
            model.now += period;
        }
        model.now += 5 * period;
        model.tidy();
        model.limits.object_bytes = model.object.memory_bytes() + 4000;
        model.add_each(&items(1 + steps), None, true);
        model.now += period;
        model.add_each(&items(1), None, true);
        model.limits = ROOMY;
        model.add_each(&items(40), None, true);
        model.compare();
    }
}

/// Every second period of the window has a different filter size, because it was merged in.
#[test]
fn lookups_search_filters_of_two_sizes() {
    let mut rng = Rng::new(5);
    let shape = |capacity| windowed(params(capacity, 0.02, 2), 1000, 40);
    let now = 1 << 40;
    let mut one = Model::new(shape(1501), now, &mut rng);
    let mut other = Model::new(shape(2501), now + 1000, &mut Rng::new(5));
    let mut all = Vec::new();
    for _ in 0..16 {
        for model in [&mut one, &mut other] {
            let items: Vec<Vec<u8>> = (0..200).map(|_| rng.bytes(9)).collect();
            model.add_each(&items, None, false);
            model.now += 2000;
            all.extend(items);
        }
    }
    one.merge(other);
    for _ in 0..40 {
        let items: Vec<Vec<u8>> = (0..30).map(|_| rng.bytes(9)).collect();
        let ttl = Some(1 + rng.next() % one.window.ms());
        one.add_each(&items, ttl, false);
        one.ask(&items, one.now);
        one.compare_bits();
    }
    one.ask(&all, one.now);
    one.run(30, &mut rng);
}

/// The window has more groups than a lookup searches together.
#[test]
fn lookups_search_all_of_290_periods() {
    let mut rng = Rng::new(6);
    let shape = windowed(params(1501, 0.5, 2), 1000, 290);
    let mut model = Model::new(shape, 1 << 40, &mut rng);
    let mut first = Vec::new();
    for period in 0..290 {
        let items: Vec<Vec<u8>> = (0..20).map(|_| rng.bytes(9)).collect();
        model.add_each(&items, None, false);
        if period % 8 == 0 {
            first.extend(items);
        }
        model.now += model.window.period_ms();
    }
    model.now -= model.window.period_ms();
    model.ask(&first, model.now);
    for item in first.chunks(1).step_by(10) {
        model.add_each(item, Some(1000), true);
        model.add_each(item, None, true);
    }
    model.add_each(&first, None, false);
    model.compare();
}

fn blob_bytes(object: &Object) -> u64 {
    object
        .views()
        .map(|filter| filter.geometry().blob_bytes())
        .sum()
}
