//! Against a model: a `HashSet` of what was added, and plain sums over the filters. Random
//! sequences of all that can be done to an object, among it every way by which one travels.

use std::collections::HashSet;

use valkeybloom::bloom::chunks::{self, Partial, Piece, Progress};
use valkeybloom::bloom::codec::RdbRead;
use valkeybloom::bloom::sizing::{Geometry, MAX_CAPACITY};
use valkeybloom::bloom::{
    Added, BloomObject, Filter, Growth, Limits, Params, Refusal, Seed, codec,
};

use crate::support::{Field, Rng, Stream, fraction, has, params, plain};

/// An object and what is known of it.
struct Model {
    object: BloomObject,
    params: Params,
    limits: Limits,
    /// All that was added, whether it was taken for new or not.
    members: HashSet<Vec<u8>>,
    /// The same, to pick from.
    list: Vec<Vec<u8>>,
    /// How often an add answered that the item was new.
    new: u64,
}

impl Model {
    fn new(params: Params, seed: Seed, limits: Limits) -> Self {
        Self {
            object: BloomObject::new(&params, seed, limits).unwrap(),
            params,
            limits,
            members: HashSet::new(),
            list: Vec::new(),
            new: 0,
        }
    }

    /// What the next add of an item that is not claimed must answer, worked out from the parameters
    /// and the filters alone.
    fn expected_for_new(&self) -> Result<Added, Refusal> {
        let newest = self.object.filters().last().unwrap();
        if newest.items() < newest.capacity() {
            return Ok(Added::New);
        }
        let Limits::Within {
            filter_bytes,
            object_bytes,
            saturate,
        } = self.limits
        else {
            return Ok(Added::New);
        };
        let Growth::By(factor) = self.params.growth else {
            return if saturate {
                Ok(Added::New)
            } else {
                Err(Refusal::Full)
            };
        };
        let capacity = newest.capacity() * u64::from(factor.get());
        let rate = self.params.rate(self.object.filters().len() as u64);
        let blob = Geometry::new(capacity, rate.unwrap()).bitmap_bytes + 45;
        let total = bytes_of(&self.object) + blob + size_of::<Filter>() as u64;
        if blob > filter_bytes || total > object_bytes {
            Err(Refusal::MemoryLimit)
        } else {
            Ok(Added::New)
        }
    }

    /// Adds an item and looks at all that may have changed by it, or not.
    fn add(&mut self, item: Vec<u8>) -> Result<Added, Refusal> {
        let probe = self.object.probe(&item);
        let claimed = self.object.contains(probe);
        assert!(claimed || !self.members.contains(&item), "denied: {item:?}");
        let expected = if claimed {
            Ok(Added::Present)
        } else {
            self.expected_for_new()
        };
        let before = (expected != Ok(Added::New)).then(|| codec::encode(&self.object));
        let limits = self.limits;
        let outcome = self.object.add(probe, || limits);
        assert_eq!(outcome, expected);
        if outcome == Err(Refusal::MemoryLimit) {
            let promised = self.object.max_scaled_capacity(limits);
            assert_eq!(promised, self.object.capacity());
        }
        if let Some(before) = before {
            let changed = codec::encode(&self.object) != before;
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
        let limits = self.limits;
        let mut outcomes = Vec::new();
        let slices = items.iter().map(Vec::as_slice);
        self.object
            .add_each(slices, || limits, |outcome| outcomes.push(outcome));
        let refused = outcomes.iter().position(Result::is_err);
        let tried = refused.map_or(items.len(), |refused| refused + 1);
        assert_eq!(outcomes.len(), tried);
        for (item, outcome) in items.into_iter().zip(outcomes) {
            self.took(item, outcome);
        }
    }

    /// Puts what is said to be the same object in the object's place.
    fn replace(&mut self, by: BloomObject) {
        assert!(codec::encode(&by) == codec::encode(&self.object));
        assert_eq!(by.items(), self.object.items());
        assert_eq!(by.seed(), self.object.seed());
        self.object = by;
    }

    fn check_sums(&self) {
        let object = &self.object;
        let filters = object.filters();
        assert_eq!(object.items(), self.new);
        assert_eq!(
            object.items(),
            filters.iter().map(Filter::items).sum::<u64>()
        );
        assert_eq!(
            object.capacity(),
            filters.iter().map(Filter::capacity).sum::<u64>()
        );
        assert_eq!(object.memory_bytes(), bytes_of(object));
        assert_eq!(object.params(), self.params);
        assert_eq!(codec::encoded_len(object), codec::encode(object).len());
        assert!(object.is_within(self.limits), "over its limits");
        assert!(object.max_scaled_capacity(self.limits) >= object.capacity());
        for pair in filters.windows(2) {
            let factor = u64::from(self.params.growth.expansion());
            assert_eq!(pair[1].capacity(), pair[0].capacity() * factor);
            assert!(pair[0].is_full());
        }
    }

    fn check_members(&self) {
        for item in &self.list {
            assert!(has(&self.object, item), "denied: {item:?}");
        }
        let mut claimed = 0;
        let items = self.list.iter().map(Vec::as_slice);
        self.object
            .contains_each(items, |answer| claimed += usize::from(answer));
        assert_eq!(claimed, self.list.len());
    }
}

/// What an object takes, from what its parts take.
fn bytes_of(object: &BloomObject) -> u64 {
    let filters = object.filters();
    let blobs: usize = filters.iter().map(|f| f.blob().len()).sum();
    let tables = size_of_val(filters);
    (size_of::<BloomObject>() + tables + blobs) as u64
}

fn through_rdb(object: &BloomObject) -> BloomObject {
    let mut stream = Stream::default();
    codec::write_rdb(object, &mut stream);
    let count = stream.uint().unwrap();
    let read = codec::read_rdb(count, &mut stream).unwrap();
    assert!(stream.0.is_empty(), "left behind: {stream:?}");
    read
}

fn through_chunks(object: &BloomObject) -> BloomObject {
    let (mut cursor, header) = chunks::piece(object, 0);
    let mut partial = Partial::new(header.bytes(), Limits::Obey).unwrap();
    loop {
        let (next, piece) = chunks::piece(object, cursor);
        assert!(matches!(piece, Piece::Chunk(_)));
        assert_ne!(next, 0, "more was expected than there is");
        cursor = next;
        if let Progress::Complete(object) = partial.load(cursor, piece.bytes()).unwrap() {
            let object = plain(object);
            assert_eq!(chunks::piece(&object, cursor).0, 0);
            return object;
        }
    }
}

/// Copies all that an object has in memory to other places, in a random order.
fn relocate(object: &mut BloomObject, rng: &mut Rng) {
    let filters = object.filters().len();
    for _ in 0..filters {
        let index = rng.below(filters);
        let moved = object.relocate_filter(index, |blob| {
            let mut copy = Vec::with_capacity(blob.len());
            copy.extend_from_slice(&blob);
            copy.into_boxed_slice()
        });
        assert!(moved);
    }
    assert!(!object.relocate_filter(filters, |_| panic!("there is no such filter")));
    object.relocate_table(|table| {
        let mut copy = Vec::with_capacity(table.len());
        copy.extend(table);
        copy
    });
}

/// An item: from few possible ones, so that many come again, or from many.
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
                let decoded = codec::decode(&codec::encode(&model.object)).unwrap();
                model.replace(decoded);
            }
            10 => model.replace(through_rdb(&model.object)),
            11 => model.replace(through_chunks(&model.object)),
            12 => model.replace(model.object.try_clone().unwrap()),
            13 => {
                let before = codec::encode(&model.object);
                relocate(&mut model.object, rng);
                assert!(codec::encode(&model.object) == before);
            }
            _ => {
                // What is not claimed would be taken for new, and what is, would not.
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
        let rate = *rng.pick(&[0.5, 0.1, 0.01, 1e-6]);
        let expansion = *rng.pick(&[0, 1, 1, 2, 2, 3, 10]);
        let params = Params {
            tightening: fraction(*rng.pick(&[0.5, 0.5, 0.8, 0.1])),
            ..params(capacity, rate, expansion)
        };
        let limits = match rng.below(4) {
            0 => Limits::Obey,
            // Tight enough that most objects come to feel one of them or the other.
            1 => Limits::Within {
                filter_bytes: 600,
                object_bytes: u64::MAX,
                saturate: false,
            },
            2 => Limits::Within {
                filter_bytes: u64::MAX,
                object_bytes: 2000,
                saturate: true,
            },
            _ => Limits::Within {
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
fn a_non_scaling_object_refuses_when_it_is_full_and_goes_on_to_know() {
    for capacity in [1, 10, 1000] {
        let limits = Limits::Within {
            filter_bytes: u64::MAX,
            object_bytes: u64::MAX,
            saturate: false,
        };
        let mut model = Model::new(params(capacity, 0.001, 0), Seed::FIXED, limits);
        assert_eq!(fill_up(&mut model), Refusal::Full);
        assert_eq!(model.object.items(), capacity);
        for item in model.list.clone() {
            assert_eq!(model.add(item), Ok(Added::Present));
        }
    }
}

#[test]
fn a_saturating_object_takes_more_than_it_is_for_in_one_filter() {
    for limits in [
        Limits::Obey,
        Limits::Within {
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
        assert_eq!(model.object.filters().len(), 1);
        assert!(model.object.items() > 200, "{}", model.object.items());
        // More items than capacity is a state that is stored and read as any other.
        model.replace(through_rdb(&model.object));
        model.replace(through_chunks(&model.object));
        // What a primary sent on is held, and the settings of this server hold from here on.
        model.limits = Limits::Within {
            filter_bytes: u64::MAX,
            object_bytes: u64::MAX,
            saturate: false,
        };
        assert_eq!(fill_up(&mut model), Refusal::Full);
    }
}

#[test]
fn growth_ends_at_the_last_filter_that_the_limits_admit() {
    // Where the second filter of this object ends, to the byte, and one byte before.
    let params = params(100, 0.01, 2);
    let rate = |index| params.rate(index).unwrap();
    let blob = |index, capacity| Geometry::new(capacity, rate(index)).blob_bytes();
    let (first, second) = (blob(0, 100), blob(1, 200));
    let filter = size_of::<Filter>() as u64;
    let both = BloomObject::BASE_BYTES + first + second + 2 * filter;
    for (filter_bytes, object_bytes, filters) in [
        (second, u64::MAX, 2),
        (second - 1, u64::MAX, 1),
        (u64::MAX, both, 2),
        (u64::MAX, both - 1, 1),
        (second, both, 2),
    ] {
        let limits = Limits::Within {
            filter_bytes,
            object_bytes,
            saturate: false,
        };
        let mut model = Model::new(params, Seed::FIXED, limits);
        let promised = model.object.max_scaled_capacity(limits);
        assert_eq!(fill_up(&mut model), Refusal::MemoryLimit);
        assert_eq!(model.object.filters().len(), filters);
        assert_eq!(model.object.items(), promised);
        assert_eq!(params.reach(limits).0, promised);
        // A primary's stream is not held up by them.
        let probe = model.object.probe(b"from the primary");
        assert_eq!(model.object.add(probe, || Limits::Obey), Ok(Added::New));
        assert_eq!(model.object.filters().len(), filters + 1);
        assert!(!model.object.is_within(limits));
    }
}

#[test]
fn an_object_that_the_limits_do_not_admit_is_not_made() {
    let params = params(100, 0.01, 2);
    let bytes = Geometry::new(100, params.rate(0).unwrap()).blob_bytes();
    let total = BloomObject::BASE_BYTES + bytes + size_of::<Filter>() as u64;
    let made = |filter_bytes, object_bytes| {
        let limits = Limits::Within {
            filter_bytes,
            object_bytes,
            saturate: false,
        };
        BloomObject::new(&params, Seed::FIXED, limits).map(|object| object.memory_bytes())
    };
    assert_eq!(made(bytes, total), Ok(total));
    assert_eq!(made(bytes - 1, total), Err(Refusal::MemoryLimit));
    assert_eq!(made(bytes, total - 1), Err(Refusal::MemoryLimit));
}

#[test]
fn what_no_machine_can_hold_is_refused() {
    let made = |params: &Params, limits| {
        BloomObject::new(params, Seed::FIXED, limits)
            .map(|object| object.capacity())
            .unwrap_err()
    };
    for capacity in [1 << 61, MAX_CAPACITY] {
        // By the allocator, where no limit does it.
        let params = params(capacity, 0.01, 2);
        assert_eq!(made(&params, Limits::Obey), Refusal::OutOfMemory);
        let limits = Limits::Within {
            filter_bytes: 64 << 20,
            object_bytes: u64::MAX,
            saturate: false,
        };
        assert_eq!(made(&params, limits), Refusal::MemoryLimit);
    }
    assert_eq!(
        made(&params(MAX_CAPACITY + 1, 0.01, 2), Limits::Obey),
        Refusal::MemoryLimit
    );
    assert_eq!(
        made(&params(1, 5e-324, 2), Limits::Obey),
        Refusal::RateTooSmall
    );
}

/// A capacity that does not fit in a number ends growth; nothing wraps around.
#[test]
fn growth_past_the_width_of_a_number_is_refused() {
    // The next capacity is under 2⁶³ but not the sum; over 2⁶³; and twice over 2⁶⁴.
    for expansion in [1, 2, 1 << 30, u32::MAX] {
        let mut model = Model::new(params(1, 0.5, expansion), Seed::FIXED, Limits::Obey);
        // A filter of a few bits is said to be for half of all items that can be counted, and full.
        let mut stream = Stream::default();
        codec::write_rdb(&model.object, &mut stream);
        let capacity = MAX_CAPACITY / 2 + 1;
        stream.0[6] = Field::Uint(capacity);
        stream.0[7] = Field::Uint(capacity);
        stream.0.pop_front();
        model.object = codec::read_rdb(1, &mut stream).unwrap();
        let before = codec::encode(&model.object);
        let refusals: Vec<_> = (0..20_u8)
            .filter_map(|item| {
                let probe = model.object.probe(&[item]);
                model.object.add(probe, || Limits::Obey).err()
            })
            .collect();
        assert!(!refusals.is_empty());
        assert!(refusals.iter().all(|r| *r == Refusal::MemoryLimit));
        assert!(codec::encode(&model.object) == before);
    }
}
