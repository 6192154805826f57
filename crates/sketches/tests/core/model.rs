//! Objects against a model: a `HashSet` of the items added, and plain sums over the filters. Random sequences of all
//! operations, every way to store and load an object among them.

use std::collections::HashSet;

use valkeybloom_sketches::bloom::{
    Added, Dialect, Growth, Limits, Object, Params, Refusal, Shape, Tightening, Time, View, dump,
};
use valkeybloom_sketches::{MAX_CAPACITY, Seed};

use crate::sizes::{next_capacity, size};
use crate::support::{
    FILTER_BYTES, Field, NO_CLOCK, Rng, add_each, capacity, dump_of, fields_of, filters, has,
    has_each, items, of_valkey_bloom, params, rate_of, read_fields, relocate, through_chunks,
    tightening,
};

/// An object and what is known of it.
struct Model {
    object: Object,
    params: Params,
    limits: Limits,
    /// All that was added, whether it was taken for new or not.
    members: HashSet<Vec<u8>>,
    /// The items of the set, to pick from.
    list: Vec<Vec<u8>>,
    /// The number of adds that returned a new item.
    new: u64,
}

impl Model {
    fn new(params: Params, seed: Seed, limits: Limits) -> Self {
        Self {
            object: Object::plain(&params, seed, limits).unwrap(),
            params,
            limits,
            members: HashSet::new(),
            list: Vec::new(),
            new: 0,
        }
    }

    /// Returns the outcome of the next add of an unclaimed item, computed from the parameters and the filters alone.
    fn expected_for_new(&self) -> Result<Added, Refusal> {
        let newest = self.object.views().last().unwrap();
        if newest.items() < newest.capacity() {
            return Ok(Added::New);
        }
        let Limits {
            filter_bytes,
            object_bytes,
            saturate,
        } = self.limits;
        if self.params.growth == Growth::Fixed {
            return if saturate {
                Ok(Added::New)
            } else {
                Err(Refusal::Full)
            };
        }
        if rate_of(&self.params, self.object.totals().0).is_none() {
            return Err(Refusal::RateTooSmall);
        }
        let total = capacity(&self.object);
        let capacity = next_capacity(&self.params, newest.capacity(), total).unwrap();
        let blob = size(&self.params, self.object.totals().0, capacity).0 + 45;
        let total = bytes_of(&self.object) + blob + FILTER_BYTES;
        if blob > filter_bytes || total > object_bytes {
            Err(Refusal::MemoryLimit)
        } else {
            Ok(Added::New)
        }
    }

    /// Adds an item and looks at all that may have changed by it, or not.
    fn add(&mut self, item: Vec<u8>) -> Result<Added, Refusal> {
        let claimed = has(&self.object, &item);
        assert!(claimed || !self.members.contains(&item), "denied: {item:?}");
        let expected = if claimed {
            Ok(Added::Present)
        } else {
            self.expected_for_new()
        };
        let before = (expected != Ok(Added::New)).then(|| dump_of(&self.object));
        let limits = self.limits;
        let outcome = self.object.add(&item, Time::default(), None, || limits);
        assert_eq!(outcome, expected);
        if outcome == Err(Refusal::MemoryLimit) {
            let promised = self.object.reach(NO_CLOCK, limits);
            assert_eq!(promised, capacity(&self.object));
        }
        if let Some(before) = before {
            let changed = dump_of(&self.object) != before;
            assert!(!changed, "changed by {outcome:?}");
        }
        self.took(item, outcome);
        outcome
    }

    fn took(&mut self, item: Vec<u8>, outcome: Result<Added, Refusal>) {
        if outcome.is_ok() {
            assert!(has(&self.object, &item), "denied at once: {item:?}");
            self.new += u64::from(outcome == Ok(Added::New));
            if self.members.insert(item.clone()) {
                self.list.push(item);
            }
        }
    }

    fn add_each(&mut self, items: Vec<Vec<u8>>) {
        let outcomes = add_each(&mut self.object, &items, self.limits);
        let refused = outcomes.iter().position(Result::is_err);
        let tried = refused.map_or(items.len(), |refused| refused + 1);
        assert_eq!(outcomes.len(), tried);
        for (item, outcome) in items.into_iter().zip(outcomes) {
            self.took(item, outcome);
        }
    }

    /// Puts what is said to be the same object in the object's place.
    fn replace(&mut self, by: Object) {
        assert!(dump_of(&by) == dump_of(&self.object));
        assert_eq!(by.totals(), self.object.totals());
        assert_eq!(by.hasher(), self.object.hasher());
        self.object = by;
    }

    fn check_sums(&self) {
        let object = &self.object;
        let filters = filters(object);
        assert_eq!(items(object), self.new);
        assert_eq!(items(object), filters.iter().map(View::items).sum::<u64>());
        assert_eq!(
            capacity(object),
            filters.iter().map(View::capacity).sum::<u64>()
        );
        let totals = (filters.len() as u64, items(object), capacity(object));
        assert_eq!(object.totals(), totals);
        assert_eq!(object.memory_bytes(), bytes_of(object));
        assert_eq!(object.shape(), Shape::plain(self.params));
        let length = dump_of(object).len();
        assert_eq!(dump::encoded_len(object), Some(length));
        assert!(object.is_within(self.limits), "over its limits");
        assert!(object.reach(NO_CLOCK, self.limits) >= capacity(object));
        let mut total = 0;
        for pair in filters.windows(2) {
            total += pair[0].capacity();
            let next = next_capacity(&self.params, pair[0].capacity(), total);
            assert_eq!(Some(pair[1].capacity()), next);
            assert!(pair[0].is_full());
        }
    }

    fn check_members(&self) {
        for item in &self.list {
            assert!(has(&self.object, item), "denied: {item:?}");
        }
        let claims = has_each(&self.object, self.list.iter().map(Vec::as_slice));
        assert_eq!(claims, vec![true; self.list.len()]);
    }
}

/// Returns the memory of an object as the sum of its parts.
fn bytes_of(object: &Object) -> u64 {
    let blobs: u64 = object.views().map(|f| f.geometry().blob_bytes()).sum();
    let table = object.views().count() as u64 * FILTER_BYTES;
    size_of::<Object>() as u64 + table + blobs
}

fn through_rdb(object: &Object) -> Object {
    read_fields(Dialect::Bloomfltr, fields_of(object)).unwrap()
}

/// Returns an item: from few possible ones, so that many come again, or from many.
fn item(rng: &mut Rng) -> Vec<u8> {
    if rng.below(2) == 0 {
        rng.below(300).to_string().into_bytes()
    } else {
        let length = rng.below(24);
        rng.bytes(length)
    }
}

fn run(mut model: Model, steps: usize, rng: &mut Rng) {
    for step in 0..steps {
        match rng.below(16) {
            0..=5 => {
                let item = item(rng);
                let _ = model.add(item);
            }
            6 if !model.list.is_empty() => {
                let item = rng.pick(&model.list).clone();
                assert_eq!(model.add(item), Ok(Added::Present));
            }
            7 | 8 => {
                let items = (0..rng.below(40)).map(|_| item(rng)).collect();
                model.add_each(items);
            }
            9 => {
                let decoded = dump::decode(&dump_of(&model.object)).unwrap();
                model.replace(decoded);
            }
            10 => model.replace(through_rdb(&model.object)),
            11 => model.replace(through_chunks(&model.object)),
            12 => model.replace(model.object.try_clone().unwrap()),
            13 => {
                let before = dump_of(&model.object);
                relocate(&mut model.object, || 1 + rng.below(3), |_| {});
                assert!(dump_of(&model.object) == before);
            }
            _ => {
                // Unclaimed items would be new, and claimed ones would not.
                let item = item(rng);
                let claimed = has(&model.object, &item);
                assert!(claimed || !model.members.contains(&item));
            }
        }
        model.check_sums();
        if step % 16 == 0 {
            model.check_members();
        }
    }
    model.check_members();
}

#[test]
fn random_sequences_agree_with_a_set_and_plain_sums() {
    let mut rng = Rng::new(1);
    for _ in 0..200 {
        let capacity = *rng.pick(&[1, 2, 5, 20, 100]);
        let rate = *rng.pick(&[0.5, 0.1, 0.01, 1e-4]);
        let expansion = *rng.pick(&[0, 1, 1, 2, 2, 3, 10]);
        // Steep growth under our law soon needs more memory than there is.
        let params = Params {
            tightening: *rng.pick(&[
                Tightening::HALF,
                tightening(0.8),
                of_valkey_bloom(0.5),
                of_valkey_bloom(0.1),
            ]),
            ..params(capacity, rate, expansion)
        };
        let limits = match rng.below(4) {
            0 => Limits::NONE,
            // Tight enough that most objects come to feel one of them or the other.
            1 => Limits {
                filter_bytes: 600,
                object_bytes: u64::MAX,
                saturate: false,
            },
            2 => Limits {
                filter_bytes: u64::MAX,
                object_bytes: 2000,
                saturate: true,
            },
            _ => Limits {
                filter_bytes: u64::MAX,
                object_bytes: u64::MAX,
                saturate: rng.below(2) == 0,
            },
        };
        let seed = if rng.below(4) == 0 {
            Seed::FIXED
        } else {
            rng.seed()
        };
        run(Model::new(params, seed, limits), 150, &mut rng);
    }
}

/// Adds new items until one is refused.
#[track_caller]
fn fill_up(model: &mut Model) -> Refusal {
    for number in 0_u32..1_000_000 {
        if let Err(refusal) = model.add(number.to_le_bytes().to_vec()) {
            model.check_sums();
            model.check_members();
            return refusal;
        }
    }
    panic!("a million items, and none was refused");
}

#[test]
fn a_full_non_scaling_object_refuses_items_and_finds_its_own() {
    for capacity in [1, 10, 1000] {
        let limits = Limits {
            filter_bytes: u64::MAX,
            object_bytes: u64::MAX,
            saturate: false,
        };
        let mut model = Model::new(params(capacity, 0.001, 0), Seed::FIXED, limits);
        assert_eq!(fill_up(&mut model), Refusal::Full);
        assert_eq!(items(&model.object), capacity);
        for item in model.list.clone() {
            assert_eq!(model.add(item), Ok(Added::Present));
        }
    }
}

#[test]
fn a_saturating_object_exceeds_its_capacity_in_one_filter() {
    for limits in [
        Limits::NONE,
        Limits {
            filter_bytes: u64::MAX,
            object_bytes: u64::MAX,
            saturate: true,
        },
    ] {
        let mut model = Model::new(params(100, 0.001, 0), Seed::FIXED, limits);
        for number in 0..500_u32 {
            model.add(number.to_le_bytes().to_vec()).unwrap();
        }
        model.check_sums();
        model.check_members();
        assert_eq!(model.object.totals().0, 1);
        assert!(items(&model.object) > 200, "{}", items(&model.object));
        // More items than capacity is a state that is stored and read as any other.
        model.replace(through_rdb(&model.object));
        model.replace(through_chunks(&model.object));
        // Commands of a primary exceed the limits; from here on the settings of this server hold.
        model.limits = Limits {
            filter_bytes: u64::MAX,
            object_bytes: u64::MAX,
            saturate: false,
        };
        assert_eq!(fill_up(&mut model), Refusal::Full);
    }
}

#[test]
fn growth_ends_at_the_last_filter_that_the_limits_admit() {
    // The limit at which the second filter just fits, and one byte less.
    let params = params(100, 0.01, 2);
    let blob = |index, capacity| size(&params, index, capacity).0 + 45;
    let (first, second) = (blob(0, 100), blob(1, 200));
    let filter = FILTER_BYTES;
    let both = Object::BASE_BYTES + first + second + 2 * filter;
    for (filter_bytes, object_bytes, filters) in [
        (second, u64::MAX, 2),
        (second - 1, u64::MAX, 1),
        (u64::MAX, both, 2),
        (u64::MAX, both - 1, 1),
        (second, both, 2),
    ] {
        let limits = Limits {
            filter_bytes,
            object_bytes,
            saturate: false,
        };
        let mut model = Model::new(params, Seed::FIXED, limits);
        let promised = model.object.reach(NO_CLOCK, limits);
        assert_eq!(fill_up(&mut model), Refusal::MemoryLimit);
        assert_eq!(model.object.totals().0, filters);
        assert_eq!(items(&model.object), promised);
        assert_eq!(Shape::plain(params).reach(limits).0, promised);
        // A primary's stream is not held up by them.
        let item = b"from the primary";
        let added = model
            .object
            .add(item, Time::default(), None, || Limits::NONE);
        assert_eq!(added, Ok(Added::New));
        assert_eq!(model.object.totals().0, filters + 1);
        assert!(!model.object.is_within(limits));
    }
}

#[test]
fn an_object_that_the_limits_do_not_admit_is_not_made() {
    let params = params(100, 0.01, 2);
    let bytes = size(&params, 0, 100).0 + 45;
    let total = Object::BASE_BYTES + bytes + FILTER_BYTES;
    let made = |filter_bytes, object_bytes| {
        let limits = Limits {
            filter_bytes,
            object_bytes,
            saturate: false,
        };
        Object::plain(&params, Seed::FIXED, limits).map(|object| object.memory_bytes())
    };
    assert_eq!(made(bytes, total), Ok(total));
    assert_eq!(made(bytes - 1, total), Err(Refusal::MemoryLimit));
    assert_eq!(made(bytes, total - 1), Err(Refusal::MemoryLimit));
}

#[test]
fn sizes_beyond_any_machine_are_refused() {
    let made = |params: &Params, limits| {
        Object::plain(params, Seed::FIXED, limits)
            .map(|object| capacity(&object))
            .unwrap_err()
    };
    for capacity in [1 << 61, MAX_CAPACITY] {
        // The allocator refuses it if no limit does.
        let params = params(capacity, 0.01, 2);
        assert_eq!(made(&params, Limits::NONE), Refusal::OutOfMemory);
        let limits = Limits {
            filter_bytes: 64 << 20,
            object_bytes: u64::MAX,
            saturate: false,
        };
        assert_eq!(made(&params, limits), Refusal::MemoryLimit);
    }
    assert_eq!(
        made(&params(MAX_CAPACITY + 1, 0.01, 2), Limits::NONE),
        Refusal::MemoryLimit
    );
    assert_eq!(
        made(&params(1, 5e-324, 2), Limits::NONE),
        Refusal::RateTooSmall
    );
}

/// A capacity that does not fit in a number ends growth; nothing wraps around.
#[test]
fn growth_past_the_width_of_a_number_is_refused() {
    // The next capacity is under 2⁶³ but not the sum; over 2⁶³; and twice over 2⁶⁴.
    for expansion in [1, 2, 1 << 30, u32::MAX] {
        let mut model = Model::new(params(1, 0.5, expansion), Seed::FIXED, Limits::NONE);
        // A filter of a few bits is said to be for half of all items that can be counted, and full.
        let mut stream = fields_of(&model.object);
        let capacity = MAX_CAPACITY / 2 + 1;
        stream.0[5] = Field::Uint(capacity);
        stream.0[6] = Field::Uint(capacity);
        model.object = read_fields(Dialect::Bloomfltr, stream).unwrap();
        let before = dump_of(&model.object);
        let refusals: Vec<_> = (0..20_u8)
            .filter_map(|item| {
                let object = &mut model.object;
                object
                    .add(&[item], Time::default(), None, || Limits::NONE)
                    .err()
            })
            .collect();
        assert!(!refusals.is_empty());
        assert!(refusals.iter().all(|r| *r == Refusal::MemoryLimit));
        assert!(dump_of(&model.object) == before);
    }
}
