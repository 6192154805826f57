//! Counters and ids in any order, against a multiset of what was added with which id. Only what it holds is
//! removed; nothing that it holds may be denied, no filter may take more than its capacity, and the rate
//! has to be the requested one.

use std::collections::{HashMap, HashSet};

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Added, Limits, Object, Refusal, Time, chunks, dump};

use crate::counting::{add, count, has, remove};
use crate::support::{
    FILTER_BYTES, NO_CLOCK, ROOMY, Rng, bitmaps, counting, dump_of, header_of, object_of, params,
    through_every_form,
};

/// Returns items and capacity of each filter.
fn fill(object: &Object) -> Vec<(u64, u64)> {
    let filters = object.views();
    filters.map(|f| (f.items(), f.capacity())).collect()
}

/// The order of ids.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Rising,
    RisingInGroups,
    Falling,
    OneForAll,
    OneFarAhead,
    Shuffled,
    TwoClocks,
    SomeLate,
    Few,
}

impl Order {
    const ALL: [Self; 9] = [
        Self::Rising,
        Self::RisingInGroups,
        Self::Falling,
        Self::OneForAll,
        Self::OneFarAhead,
        Self::Shuffled,
        Self::TwoClocks,
        Self::SomeLate,
        Self::Few,
    ];

    fn id(self, step: u64, rng: &mut Rng) -> u64 {
        match self {
            Self::RisingInGroups => 1_000 + step / 7,
            Self::Falling => u64::MAX - step,
            Self::OneForAll => 0,
            Self::OneFarAhead if step == 20 => u64::MAX,
            Self::OneFarAhead => step,
            Self::Shuffled => rng.next(),
            Self::TwoClocks => step + step % 2 * 700,
            Self::SomeLate if rng.below(4) == 0 => (1_000 + step).saturating_sub(rng.next() % 900),
            Self::Rising | Self::SomeLate => 1_000 + step,
            Self::Few => rng.next() % 12,
        }
    }
}

/// An object, and how often it holds each item with each id.
struct Model {
    object: Object,
    held: HashMap<(u64, Option<u64>), u64>,
}

impl Model {
    fn new(capacity: u64, rate: f64, expansion: u32, seed: Seed) -> Self {
        Self {
            object: object_of(&counting(params(capacity, rate, expansion)), seed),
            held: HashMap::new(),
        }
    }

    fn add(&mut self, item: u64, id: Option<u64>) {
        let known = has(&self.object, item);
        let before = count(&self.object, item);
        let added = add(&mut self.object, item, id).unwrap();
        assert_eq!(added, if known { Added::Again } else { Added::New });
        assert!(count(&self.object, item) > before || before >= 15);
        *self.held.entry((item, id)).or_default() += 1;
    }

    /// Adds items with one command.
    fn add_all(&mut self, items: &[u64], id: u64) {
        let held = |item: &u64| has(&self.object, *item);
        let mut known: HashSet<u64> = items.iter().copied().filter(held).collect();
        let words: Vec<_> = items.iter().map(|item| item.to_le_bytes()).collect();
        let each = words.iter().map(|word| &word[..]);
        let mut outcomes = Vec::new();
        let outcome = |added: Result<_, _>| outcomes.push(added.unwrap());
        let (time, id) = (Time::default(), Some(id));
        self.object.add_each(each, time, id, || ROOMY, outcome);
        for (item, added) in items.iter().zip(outcomes) {
            let is_new = known.insert(*item);
            assert_eq!(added, if is_new { Added::New } else { Added::Again });
            *self.held.entry((*item, id)).or_default() += 1;
        }
    }

    /// Returns the number of different items.
    fn different(&self) -> u64 {
        let items: HashSet<u64> = self.held.keys().map(|(item, _)| *item).collect();
        items.len() as u64
    }

    /// Removes what is held, and returns whether that was done.
    fn remove(&mut self, item: u64, id: Option<u64>) -> bool {
        let held = self.held.get_mut(&(item, id)).expect("it is held");
        let before = (dump_of(&self.object), count(&self.object, item));
        let removed = remove(&mut self.object, item, id);
        assert_eq!(removed, dump_of(&self.object) != before.0);
        assert_eq!(removed, count(&self.object, item) < before.1);
        if removed {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&(item, id));
            }
        }
        removed
    }

    /// Takes what another one holds, where that is more of an item: a union has as many as either.
    fn unite(&mut self, other: Self) {
        let of = |held: &HashMap<(u64, Option<u64>), u64>, item: u64| -> u64 {
            let of_item = held.iter().filter(|((held, _), _)| *held == item);
            of_item.map(|(_, times)| times).sum()
        };
        let more = |item: u64| of(&other.held, item) > of(&self.held, item);
        let items: HashSet<u64> = other.held.keys().map(|(item, _)| *item).collect();
        let items: HashSet<u64> = items.into_iter().filter(|item| more(*item)).collect();
        self.held.retain(|(item, _), _| !items.contains(item));
        let theirs = other.held.into_iter();
        self.held
            .extend(theirs.filter(|((item, _), _)| items.contains(item)));
    }

    /// Returns one of what is held; which one does not depend on how a map is kept.
    fn any(&self, rng: &mut Rng) -> Option<(u64, Option<u64>)> {
        let mut keys: Vec<_> = self.held.keys().copied().collect();
        keys.sort_unstable();
        (!keys.is_empty()).then(|| keys[rng.below(keys.len())])
    }

    #[track_caller]
    fn check(&self) {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for ((item, _), times) in &self.held {
            *counts.entry(*item).or_default() += times;
        }
        for (item, times) in counts {
            assert!(has(&self.object, item), "item {item} is denied");
            let reported = count(&self.object, item);
            assert!(
                reported >= times.min(15),
                "{reported} of item {item}, not {times}"
            );
        }
        for (items, capacity) in fill(&self.object) {
            assert!(items <= capacity, "{items} of {capacity}");
        }
    }

    /// Reads it from each stored form; it takes as much memory as before.
    #[track_caller]
    fn reload(&mut self) {
        let read = through_every_form(&self.object);
        assert_eq!(read.memory_bytes(), self.object.memory_bytes());
        self.object = read;
    }

    /// Returns how many of `asked` strangers are claimed.
    fn claims(&self, asked: u64) -> u64 {
        let strangers = (0..asked).map(|number| (1 << 63) + number);
        strangers.filter(|item| has(&self.object, *item)).count() as u64
    }
}

/// Adds only, then removals only, of items that are all different: a removal is refused where a filter claims
/// an item falsely, so no more often than the rate, and with rising ids never.
#[test]
#[allow(clippy::cast_precision_loss, reason = "counts are small")]
fn every_order_of_ids_keeps_the_rate_and_the_items() {
    let mut rng = Rng::new(1);
    for (capacity, rate, expansion) in [(500, 0.01, 1), (300, 0.05, 2), (400, 0.002, 1)] {
        for order in Order::ALL {
            let mut model = Model::new(capacity, rate, expansion, rng.seed());
            let mut added = Vec::new();
            for step in 0..3_000 {
                let (item, id) = (step, order.id(step, &mut rng));
                model.add(item, Some(id));
                added.push((item, Some(id)));
                if step % 500 == 0 {
                    model.check();
                    model.reload();
                }
            }
            model.check();
            let (filters, items, capacity) = model.object.totals();
            assert!(filters >= 3, "{filters} filters");
            assert!(items >= 2_700, "{items} of 3,000");
            assert!(capacity < 5_000, "{capacity} for {items}, {order:?}");
            let claimed = model.claims(20_000) as f64;
            let most = 2.0 * 20_000.0 * rate + 20.0;
            assert!(claimed <= most, "{claimed} of 20,000 at {rate}, {order:?}");

            let asked = added.len() as f64;
            let mut refused = 0.0;
            while !added.is_empty() {
                let (item, id) = added.swap_remove(rng.below(added.len()));
                refused += f64::from(u8::from(!model.remove(item, id)));
                if added.len() % 500 == 0 {
                    model.check();
                    model.reload();
                }
            }
            let is_rising = order == Order::Rising;
            let most = 2.0 * asked * rate + 10.0;
            let most = if is_rising { 0.0 } else { most };
            assert!(refused <= most, "{refused} at {rate}, {order:?}");
            let left = model.held.len() as f64;
            assert!(left.total_cmp(&refused).is_eq(), "{left} of {refused}");
            let used = bitmaps(&model.object);
            assert_eq!(used.iter().all(|c| *c == 0), model.held.is_empty());
        }
    }
}

/// All that can be done, in any sequence: again with the same id, again with others, without an id, removals,
/// merges, and every stored form; and without any ids. Filters are small, so that they claim much that they do not hold.
#[test]
fn random_sequences_with_ids_deny_nothing_that_is_held() {
    let mut rng = Rng::new(2);
    let orders = || Order::ALL.into_iter().map(Some).chain([None]);
    for (capacity, rate, expansion) in [(1, 0.3, 1), (10, 0.3, 1), (40, 0.05, 2), (20, 0.9, 1)] {
        for order in orders() {
            let seed = rng.seed();
            let id = |step, rng: &mut Rng| order.map(|order| order.id(step, rng));
            let mut model = Model::new(capacity, rate, expansion, seed);
            let (mut removed, mut merged) = (0, 0);
            for step in 0..1_500 {
                // Few items are added so often that their counters are full.
                let items = *rng.pick(&[4, 300, 300, 300]);
                let item = rng.next() % items;
                match rng.below(100) {
                    0..45 => model.add(item, id(step, &mut rng)),
                    45..50 => model.add(item, None),
                    50..60 => {
                        // Once more, with the id that it has.
                        if let Some((item, id)) = model.any(&mut rng) {
                            model.add(item, id);
                        }
                    }
                    60..97 => {
                        if let Some((item, id)) = model.any(&mut rng) {
                            removed += u32::from(model.remove(item, id));
                        }
                    }
                    97 if step % 2 == 0 => {
                        let mut other = Model::new(capacity, rate, expansion, seed);
                        for later in 0..rng.next() % 60 {
                            let id = id(step + later, &mut rng);
                            other.add(rng.next() % 300, id);
                        }
                        let both = [&model.object, &other.object];
                        // High rates may not allow an object with both.
                        if let Ok(object) = Object::merged(&both, ROOMY) {
                            model.object = object;
                            model.unite(other);
                            merged += 1;
                        }
                        model.reload();
                    }
                    98 => model.reload(),
                    _ => model.check(),
                }
            }
            model.check();
            assert!(removed > 50, "{removed} were removed, {order:?}");
            assert!(merged > 0 || rate >= 0.3, "{merged} were merged, {order:?}");
        }
    }
}

/// The number of items counts different ones, however many filters hold an item.
#[test]
fn items_in_several_filters_count_once() {
    let mut rng = Rng::new(3);
    let mut repeats = 0;
    for order in Order::ALL {
        let seed = rng.seed();
        let mut model = Model::new(7, 1e-9, 1, seed);
        for step in 0..600 {
            let id = order.id(step, &mut rng);
            match rng.below(20) {
                0..6 => model.add(rng.next() % 40, Some(id)),
                6 => {
                    let items: Vec<u64> = (0..20).map(|_| rng.next() % 40).collect();
                    model.add_all(&items, id);
                }
                7 => model.add(rng.next() % 40, None),
                8 => model.reload(),
                9 if step % 9 == 0 => {
                    let sources = [&model.object, &model.object];
                    model.object = Object::merged(&sources, ROOMY).unwrap();
                }
                _ => {
                    if let Some((item, id)) = model.any(&mut rng) {
                        model.remove(item, id);
                    }
                }
            }
            let different = model.different();
            assert_eq!(model.object.items(NO_CLOCK), different, "{order:?}, {step}");
            assert_eq!(model.object.totals().1, different);
            let taken: u64 = fill(&model.object).iter().map(|(items, _)| items).sum();
            repeats += taken - different;
        }
        // A union has no fewer items than either, and no more than both.
        let mut other = Model::new(7, 1e-9, 1, seed);
        for step in 0..100 {
            other.add(20 + step % 40, Some(order.id(step, &mut rng)));
        }
        let both = [model.different(), other.different()];
        model.object = Object::merged(&[&model.object, &other.object], ROOMY).unwrap();
        model.reload();
        let of_union = both[0].max(both[1])..=both[0] + both[1];
        assert!(of_union.contains(&model.object.items(NO_CLOCK)));
    }
    assert!(repeats > 1_000, "{repeats}");
}

/// Rising ids, as items come and go: every removal is exact. A filter that is empty again has no ids, so that
/// the stack does not grow on.
#[test]
#[allow(clippy::cast_precision_loss, reason = "counts are small")]
fn with_rising_ids_removal_is_exact() {
    for (capacity, expansion, held, oldest, filters) in [
        (500, 2, 1_200, true, 3),
        (500, 1, 1_200, true, 4),
        (500, 2, 1_200, false, 3),
        (200, 1, 500, false, 20),
    ] {
        let mut rng = Rng::new(held);
        let mut model = Model::new(capacity, 0.01, expansion, rng.seed());
        let mut live = std::collections::VecDeque::new();
        for step in 0..20_000_u64 {
            model.add(step, Some(step));
            live.push_back(step);
            if live.len() as u64 > held {
                if !oldest {
                    let index = rng.below(live.len());
                    live.swap(0, index);
                }
                let item = live.pop_front().unwrap();
                assert!(model.remove(item, Some(item)), "{item} at {step}");
            }
            if step % 2_000 == 0 {
                model.check();
                model.reload();
            }
        }
        model.check();
        let (count, ..) = model.object.totals();
        assert!(count <= filters, "{count} filters of {capacity} for {held}");
        let claimed = model.claims(20_000) as f64;
        assert!(claimed <= 400.0, "{claimed} of 20,000");
        for item in live {
            assert!(model.remove(item, Some(item)));
        }
        assert_eq!(model.object.totals().1, 0);
    }
}

/// The filters that take an id, and those that are queried for it.
#[test]
fn the_rules_of_ids() {
    let shape = counting(params(2, 0.0001, 1));
    let mut object = object_of(&shape, Seed::FIXED);
    let mut without = object_of(&shape, Seed::FIXED);
    for (item, id) in [(1, 10), (2, 20), (3, 30), (4, 40)] {
        assert_eq!(add(&mut object, item, Some(id)), Ok(Added::New));
        assert_eq!(add(&mut without, item, None), Ok(Added::New));
    }
    assert_eq!(object.totals(), (2, 4, 4));
    // Two numbers of each filter, and whether there are any.
    assert_eq!(object.memory_bytes(), without.memory_bytes() + 2 * 24);
    assert!(!remove(&mut without, 1, Some(10)), "no ids were given");
    // One filter took 10 to 20, and one 30 to 40: neither is queried for other ids.
    for (item, id) in [(1, 9), (1, 21), (1, 30), (3, 20), (3, 29), (3, 41), (9, 10)] {
        assert!(!remove(&mut object, item, Some(id)), "item {item}, id {id}");
    }
    // Late ones go where there is room, and not into what is full.
    for (item, id) in [(5, 5), (6, 29), (7, 35), (8, u64::MAX)] {
        assert_eq!(add(&mut object, item, Some(id)), Ok(Added::New));
    }
    assert_eq!(fill(&object), [(2, 2), (2, 2), (2, 2), (2, 2)]);
    // An item that a full filter holds already takes no room there.
    assert_eq!(add(&mut object, 1, Some(15)), Ok(Added::Again));
    assert_eq!(add(&mut object, 1, Some(15)), Ok(Added::Again));
    assert_eq!(object.totals().0, 4);
    assert_eq!(count(&object, 1), 3);
    for left in [2, 1, 0] {
        assert!(remove(&mut object, 1, Some(20)));
        assert_eq!(count(&object, 1), left);
    }
    // The item is in both filters under their ids; without an id the removal is ambiguous.
    assert!(remove(&mut object, 8, Some(u64::MAX)));
    assert_eq!(add(&mut object, 2, Some(u64::MAX)), Ok(Added::Again));
    assert!(!remove(&mut object, 2, None));
    assert!(remove(&mut object, 2, Some(20)));
    assert!(has(&object, 2));
    assert!(!remove(&mut object, 2, Some(10)), "that filter is empty");
    assert!(remove(&mut object, 2, None), "one is left");
    assert!(!has(&object, 2));
    // An empty filter has forgotten its ids, and takes any others.
    assert_eq!(fill(&object), [(0, 2), (2, 2), (2, 2), (1, 2)]);
    assert_eq!(add(&mut object, 9, Some(2)), Ok(Added::New));
    assert_eq!(fill(&object), [(1, 2), (2, 2), (2, 2), (1, 2)]);
    assert!(!remove(&mut object, 9, Some(15)));
    assert!(remove(&mut object, 9, Some(2)));
}

/// An item without an id goes to the filter that holds it with one.
#[test]
fn items_without_ids_join_those_with_them() {
    let mut object = object_of(&counting(params(5, 0.0001, 1)), Seed::FIXED);
    for item in 0..12 {
        assert_eq!(add(&mut object, item, Some(item)), Ok(Added::New));
    }
    assert_eq!(object.totals().0, 3);
    let before = fill(&object);
    for item in 0..12 {
        assert_eq!(add(&mut object, item, None), Ok(Added::Again));
    }
    assert_eq!(fill(&object), before);
    // A new one makes room by itself, and that filter has no ids.
    for item in 12..17 {
        assert_eq!(add(&mut object, item, None), Ok(Added::New));
    }
    assert_eq!(object.totals().0, 4);
    let object = &mut through_every_form(&object);
    for item in 15..17 {
        assert!(!remove(object, item, Some(item)));
        assert!(remove(object, item, None));
    }
    for item in 0..12 {
        assert!(remove(object, item, None));
        assert!(remove(object, item, Some(item)));
        assert!(!has(object, item));
    }
}

/// An object that does not scale is full for every id, still finds its items, and changes only if it may saturate.
#[test]
fn a_fixed_object_is_full_for_every_id() {
    let mut object = object_of(&counting(params(40, 0.0001, 0)), Seed::FIXED);
    for item in 0..40 {
        assert_eq!(add(&mut object, item, Some(100 + item)), Ok(Added::New));
    }
    let before = dump_of(&object);
    for id in [0, 99, 110, 139, 140, u64::MAX] {
        assert_eq!(add(&mut object, 1_000, Some(id)), Err(Refusal::Full));
    }
    assert_eq!(add(&mut object, 1_000, None), Err(Refusal::Full));
    assert!(dump_of(&object) == before);
    for id in [0, 110, 500] {
        assert_eq!(add(&mut object, 7, Some(id)), Ok(Added::Again));
    }
    assert_eq!(fill(&object), [(40, 40)]);
    let saturate = || Limits {
        saturate: true,
        ..ROOMY
    };
    let bytes = 1_000_u64.to_le_bytes();
    let added = object.add(&bytes, Time::default(), Some(3), saturate);
    assert_eq!(added, Ok(Added::New));
    assert_eq!(fill(&object), [(41, 40)]);
    assert!(remove(&mut object, 1_000, Some(3)));
    for id in [0, 110, 500, 107] {
        assert!(remove(&mut object, 7, Some(id)));
    }
    assert!(!has(&object, 7));
}

/// A merge makes a stack of several filters that does not scale. A removal makes room in any of them, and each item
/// is found in its own filter.
#[test]
fn ids_of_a_fixed_object_of_several_filters() {
    let shape = counting(params(4, 0.0001, 0));
    let sources: Vec<_> = (0..3)
        .map(|number| {
            let mut source = object_of(&shape, Seed::FIXED);
            for item in 0..3 {
                add(&mut source, 100 * number + item, None).unwrap();
            }
            source
        })
        .collect();
    let sources: Vec<_> = sources.iter().collect();
    let mut object = Object::merged(&sources, ROOMY).unwrap();
    assert_eq!(fill(&object), [(3, 4); 3]);
    let mut held = Vec::new();
    for (item, id) in [(1000, 10), (1001, 20), (1002, 5)] {
        add(&mut object, item, Some(id)).unwrap();
        held.push((item, id));
    }
    assert_eq!(fill(&object), [(4, 4); 3]);
    assert_eq!(add(&mut object, 1003, Some(15)), Err(Refusal::Full));
    assert!(remove(&mut object, 1, None) && remove(&mut object, 101, None));
    for (item, id) in [(1003, 15), (1004, 30)] {
        add(&mut object, item, Some(id)).unwrap();
        held.push((item, id));
        object = through_every_form(&object);
    }
    assert_eq!(fill(&object), [(4, 4); 3]);
    for (item, id) in held {
        assert!(has(&object, item));
        assert!(remove(&mut object, item, Some(id)), "item {item}, id {id}");
    }
    assert_eq!(object.totals().1, 7);
}

/// Limits count the table of ids, to the byte, and what they refuse changes nothing.
#[test]
fn limits_count_the_ids() {
    let within = |object_bytes| Limits {
        object_bytes,
        ..ROOMY
    };
    let mut object = object_of(&counting(params(4, 1e-9, 1)), Seed::FIXED);
    for item in 0..6 {
        add(&mut object, item, None).unwrap();
    }
    let (mut filters, ..) = object.totals();
    assert_eq!(filters, 2);
    let add = |object: &mut Object, item: u64, bytes| {
        let limits = || within(bytes);
        object.add(&item.to_le_bytes(), Time::default(), Some(item), limits)
    };
    for item in 6..30 {
        let (before, bytes) = (dump_of(&object), object.memory_bytes());
        // The bytes that a copy without limits takes.
        let mut copy = object.try_clone().unwrap();
        assert_eq!(copy.memory_bytes(), bytes);
        add(&mut copy, item, u64::MAX).unwrap();
        let needed = copy.memory_bytes();
        if needed > bytes {
            assert_eq!(
                add(&mut object, item, needed - 1),
                Err(Refusal::MemoryLimit)
            );
            assert!(dump_of(&object) == before);
            assert_eq!(object.memory_bytes(), bytes);
        }
        assert_eq!(add(&mut object, item, needed), Ok(Added::New));
        assert_eq!(object.memory_bytes(), needed);
        let (more, ..) = object.totals();
        let entries = if item == 6 { more } else { more - filters };
        let opened = object.views().skip(usize::try_from(filters).unwrap());
        let opened = opened.map(|f| f.geometry().blob_bytes() + FILTER_BYTES);
        assert_eq!(needed, bytes + 24 * entries + opened.sum::<u64>());
        filters = more;
    }
    assert!(filters > 6);
    // And so do those of a header.
    let bytes = object.memory_bytes();
    assert!(chunks::begin(&header_of(&object), within(bytes)).is_ok());
    assert!(chunks::begin(&header_of(&object), within(bytes - 1)).is_err());
    assert_eq!(
        dump::decode(&dump_of(&object)).unwrap().memory_bytes(),
        bytes
    );
}

/// Filters that earlier builds filled above their capacity load, and take no more.
#[test]
fn an_overfull_filter_takes_no_more() {
    let mut draft = crate::bloomfltx::draft::Draft::ranged();
    draft.stacks[0].filters[0].items = 7;
    draft.stacks[0].filters[1].items = 9;
    let mut object = dump::decode(&draft.dump()).unwrap();
    assert_eq!(fill(&object), [(7, 3), (9, 6)]);
    let mut new = 0;
    for item in 0..40 {
        let before = fill(&object);
        let added = add(&mut object, item, Some(item)).unwrap();
        new += u32::from(added == Added::New);
        let after = fill(&object);
        for (before, after) in before.iter().zip(&after) {
            assert!(after.0 <= before.0.max(before.1), "{before:?}, {after:?}");
        }
    }
    assert!(new > 5 && object.totals().0 > 2, "{new} were new");
}
