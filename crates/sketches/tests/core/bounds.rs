//! The most that a command may cost on any accepted object, in counted work, not in time.
//!
//! Forged filters hold all positions of an item but the last, so that a lookup reads all of them in every filter. The
//! `bloomfilter` crate computes the positions of an item.

use bloomfilter::Bloom;
use valkeybloom_sketches::bloom::{Added, Kind, Limits, Object, Refusal, Time, dump};
use valkeybloom_sketches::{Seed, work};

use crate::bloomfltx::draft::{Draft, FilterDraft, StackDraft};
use crate::support::{
    ROOMY, Rng, add, blob, blob_of, has, has_each, object, of_filters, of_valkey_bloom, params,
    through_every_form,
};

/// The most steps for one item in a lookup of many: 25 µs, at two thirds of a nanosecond each.
const STEPS_OF_ITEM: u64 = 38_000;

/// The most steps of any command beside its items: 10 ms, at some nanoseconds each.
const STEPS_OF_COMMAND: u64 = 3_000_000;

/// The most hash functions of an object in which each item is looked up to the end.
const PATIENCE: u32 = 6 << 10;

const ITEMS: u64 = 200;

/// Returns the cells of a filter that holds all positions of an item but the last; `None` where that is one of the
/// others too.
fn all_but_last(item: &[u8], bytes: usize, hashes: u32, seed: &Seed) -> Option<Vec<u8>> {
    let of = |hashes| {
        let mut bloom = Bloom::<[u8]>::from_bytes(blob(hashes, seed, &vec![0; bytes])).unwrap();
        bloom.set(item);
        bloom.as_slice()[45..].to_vec()
    };
    let cells = of(hashes - 1);
    (cells != of(hashes)).then_some(cells)
}

/// Returns an item, and the cells of filters of this size that hold all but its last position. `None` where there is
/// hardly any such item, since the positions are fewer than the hash functions.
fn nearly_held(
    bytes: usize,
    hashes: u32,
    seed: &Seed,
    rng: &mut Rng,
) -> Option<(Vec<u8>, Vec<u8>)> {
    (0..100).find_map(|_| {
        let item = rng.bytes(8);
        let cells = all_but_last(&item, bytes, hashes, seed)?;
        Some((item, cells))
    })
}

const SEED: [u8; 32] = [7; 32];

fn plain(filters: usize, hashes: u32, cells: &[u8]) -> Object {
    let blob = blob(hashes, &Seed::new(SEED), cells);
    of_filters(1, &vec![(blob, 1, 1); filters])
}

fn steps_of<T>(action: impl FnOnce() -> T) -> (u64, T) {
    work::take();
    let result = action();
    (work::take().steps, result)
}

#[test]
fn lookups_end_at_the_limit_of_hash_functions() {
    let mut rng = Rng::new(1);
    let seed = Seed::new(SEED);
    for (filters, hashes, bytes, deep) in [
        (1100, 1100, 400, true),
        (7, 1000, 400, true),
        (6, 1024, 400, false),
        (1100, 5, 16, false),
        (1100, 6, 16, true),
        (1100, 7, 16, true),
    ] {
        let (item, cells) = nearly_held(bytes, hashes, &seed, &mut rng).unwrap();
        let mut object = plain(filters, hashes, &cells);
        let in_use = u32::try_from(filters).unwrap() * (hashes - 1);
        let name = format!("{filters} filters of {hashes} hash functions");
        let claimed = deep && in_use >= PATIENCE;
        let (steps, found) = steps_of(|| has(&object, &item));
        assert_eq!(found, claimed, "{name}");
        assert!(steps < STEPS_OF_ITEM, "{name}: {steps} steps");
        let items = || (0..ITEMS).map(|_| &item[..]);
        let (steps, found) = steps_of(|| has_each(&object, items()));
        assert!(found.into_iter().all(|found| found == claimed), "{name}");
        assert!(steps < ITEMS * STEPS_OF_ITEM, "{name}: {steps} steps");
        // It is known or added, and found from then on; there may be no filter after the deepest.
        match add(&mut object, &item) {
            Err(refusal) => {
                assert_eq!(
                    (refusal, claimed, filters),
                    (Refusal::RateTooSmall, false, 1100)
                );
                continue;
            }
            added => assert_eq!(added == Ok(Added::Present), claimed, "{name}"),
        }
        assert!(has(&object, &item), "{name}");
        assert_eq!(has_each(&object, items().take(1)), [true], "{name}");
    }
}

/// Objects that a program made stay below the limit: the deepest possible stack answers like its filters.
#[test]
fn the_deepest_stack_answers_as_its_filters_do() {
    let mut rng = Rng::new(2);
    let params = valkeybloom_sketches::bloom::Params {
        tightening: of_valkey_bloom(0.5),
        ..params(1, 0.3, 1)
    };
    let mut stack = object(&params, rng.seed());
    let mut members = Vec::new();
    while let Ok(added) = {
        let item = rng.bytes(9);
        let added = add(&mut stack, &item);
        members.push(item);
        added
    } {
        assert!(matches!(added, Added::New | Added::Present));
    }
    members.pop();
    let hashes: u64 = stack.views().map(|f| u64::from(f.geometry().hashes)).sum();
    assert!(hashes > 10 * u64::from(PATIENCE), "{hashes} hash functions");
    let strangers: Vec<_> = (0..3_000).map(|_| rng.bytes(9)).collect();
    let items: Vec<_> = members.iter().chain(&strangers).collect();
    let theirs: Vec<_> = stack
        .views()
        .map(|filter| Bloom::<[u8]>::from_bytes(blob_of(&filter).to_vec()).unwrap())
        .collect();
    let claimed = |item: &&Vec<u8>| theirs.iter().any(|filter| filter.check(&item[..]));
    let expected: Vec<bool> = items.iter().map(claimed).collect();
    let (steps, together) = steps_of(|| has_each(&stack, items.iter().map(|item| &item[..])));
    assert!(together == expected);
    assert!(steps < items.len() as u64 * STEPS_OF_ITEM / 4, "{steps}");
    for (item, expected) in items.iter().zip(&expected).step_by(7) {
        assert_eq!(has(&stack, item), *expected);
    }
    assert!(expected[..members.len()].iter().all(|held| *held));
}

/// Returns a window of 1,440 periods, each with `filters` filters that nearly hold an item.
fn window(filters: usize, hashes: u32, cells: &[u8]) -> Draft {
    let filter = FilterDraft::new(1, cells, hashes, 1, 1);
    let stack = |period| StackDraft::new(period, vec![filter.clone(); filters]);
    let mut draft = Draft::new(1, (10_000..11_440).map(stack).collect());
    draft.window = (1_000, 1_440);
    draft
}

const NOW: u64 = 11_439_000;

#[test]
fn lookups_in_windows_end_at_the_limit_of_hash_functions() {
    let mut rng = Rng::new(3);
    for (filters, hashes, bytes) in [(2, 700, 400), (1, 1100, 400), (2, 40, 400), (1, 60, 4_000)] {
        let (item, cells) = nearly_held(bytes, hashes, &Seed::FIXED, &mut rng).unwrap();
        let mut object = dump::decode(&window(filters, hashes, &cells).dump()).unwrap();
        let name = format!("{filters} filters of {hashes} hash functions and {bytes} bytes");
        // While filters are interleaved, and after it.
        for round in 0..40 {
            let (steps, found) = steps_of(|| object.contains(&item, || NOW));
            assert!(found, "{name}, round {round}");
            assert!(
                steps < STEPS_OF_ITEM,
                "{name}, round {round}: {steps} steps"
            );
            let mut claimed = 0;
            let items = || (0..ITEMS).map(|_| &item[..]);
            let (steps, ()) = steps_of(|| {
                object.contains_each(items(), || NOW, |found| claimed += u64::from(found));
            });
            assert_eq!(claimed, ITEMS, "{name}, round {round}");
            assert!(
                steps < ITEMS * STEPS_OF_ITEM,
                "{name}, round {round}: {steps}"
            );
            let others: Vec<_> = (0..64).map(|_| rng.bytes(8)).collect();
            let time = Time::at(NOW);
            object.add_each(
                others.iter().map(|i| &i[..]),
                time,
                None,
                || Limits::NONE,
                |_| (),
            );
        }
        // It is kept for as long as the newest period, whichever of the others expire.
        let added = object.add(&item, Time::at(NOW), None, || Limits::NONE);
        assert!(
            matches!(added, Ok(Added::Again | Added::Present)),
            "{name}: {added:?}"
        );
        let last = NOW + 1_439_999;
        assert!(object.contains(&item, || last), "{name}");
        object.tidy(last);
        assert!(object.contains(&item, || last), "{name}");
    }
}

/// Objects of all shapes that are accepted, each with an item that its filters nearly hold.
#[test]
fn no_shape_makes_a_command_slow() {
    let mut rng = Rng::new(4);
    let (mut accepted, mut worst) = (0, [0; 3]);
    for _ in 0..150 {
        let [hashes, bytes, filters] = [(1, 10), (3, 7), (1, 11)].map(|(least, more)| {
            let most = 1 << (least + rng.below(more + 1));
            1 + rng.below(most)
        });
        let (hashes, bytes) = (1 + u32::try_from(hashes).unwrap(), 8 + bytes);
        let Some((item, cells)) = nearly_held(bytes, hashes, &Seed::FIXED, &mut rng) else {
            continue;
        };
        let draft = match rng.below(3) {
            0 => window(1 + filters / 1_440, hashes, &cells),
            kind => {
                let version = u8::try_from(kind).unwrap();
                let cells = if kind == 2 { counted(&cells) } else { cells };
                let filter = FilterDraft::new(version, &cells, hashes, 1, 1);
                let mut draft = Draft::new(2, vec![StackDraft::new(0, vec![filter; filters])]);
                if kind == 1 {
                    draft.options = 1;
                    draft.stacks[0].period = NOW / 1_000;
                }
                draft
            }
        };
        let Ok(mut object) = dump::decode(&draft.dump()) else {
            continue;
        };
        accepted += 1;
        let now = || NOW;
        let name = format!(
            "{filters} filters, {hashes} hash functions, {bytes} bytes: {:?}",
            object.shape().kind
        );
        let items = || (0..ITEMS).map(|_| &item[..]);
        let each = steps_of(|| object.contains_each(items(), now, |_| ())).0 / ITEMS;
        assert!(each < STEPS_OF_ITEM, "{name}: {each} steps");
        let at_once = [
            steps_of(|| object.contains(&item, now)).0,
            steps_of(|| object.estimated_rate(now)).0,
            steps_of(|| object.filters(now).count()).0,
            steps_of(|| object.reach(now, ROOMY)).0,
            steps_of(|| object.count(&item)).0,
            steps_of(|| object.remove(&item, None)).0,
            steps_of(|| object.tidy(NOW)).0,
        ];
        let others: Vec<_> = (0..ITEMS).map(|_| rng.bytes(8)).collect();
        let others = || others.iter().map(|item| &item[..]);
        let adds =
            steps_of(|| object.add_each(others(), Time::at(NOW), None, || Limits::NONE, |_| ()));
        let adds = adds.0 / ITEMS;
        assert!(adds < STEPS_OF_ITEM, "{name}: {adds} steps");
        let most = at_once.into_iter().max().unwrap_or(0);
        assert!(most < STEPS_OF_COMMAND, "{name}: {most} steps");
        worst = [worst[0].max(each), worst[1].max(adds), worst[2].max(most)];
    }
    assert!(
        accepted > 30,
        "{accepted} of them are valid; the worst takes {worst:?} steps"
    );
}

/// Counters of 1 where these bits are set.
fn counted(bits: &[u8]) -> Vec<u8> {
    let bit = |at: usize| bits[at / 8] >> (at % 8) & 1;
    (0..bits.len() * 4)
        .map(|byte| bit(2 * byte) | bit(2 * byte + 1) << 4)
        .collect()
}

/// Adds `count` random items. Returns the refusals.
fn add_random(object: &mut Object, count: usize, time: Time, rng: &mut Rng) -> Vec<Refusal> {
    let items: Vec<_> = (0..count).map(|_| rng.bytes(8)).collect();
    let mut refused = Vec::new();
    object.add_each(
        items.iter().map(|i| &i[..]),
        time,
        None,
        || ROOMY,
        |added| {
            refused.extend(added.err());
        },
    );
    refused
}

/// A window that was reserved for one item a period, and gets sixty.
#[test]
fn windows_adapt_to_the_items_per_period() {
    for expansion in [1, 2, 10] {
        let shape = crate::support::windowed(params(1, 0.01, expansion), 1_000, 1_440);
        let mut object = Object::new(&shape, Seed::FIXED, Time::at(0), ROOMY).unwrap();
        let mut rng = Rng::new(5);
        for period in 0..1_440 {
            let refused = add_random(&mut object, 60, Time::at(period * 1_000), &mut rng);
            assert_eq!(refused, []);
        }
        let (filters, ..) = object.totals();
        assert!(filters < 1_560, "{filters} filters, expansion {expansion}");
        let rate = object.estimated_rate(|| 1_439_000);
        assert!(rate < 0.0105, "{rate}, expansion {expansion}");
        through_every_form(&object);
        // One burst does not enlarge the periods after it.
        let later = |period: u64| Time::at(1_440_000 + period * 1_000);
        for (period, items) in [(0, 1_000), (1, 1), (2, 1), (3, 1)] {
            object.tidy(later(period).now_ms);
            assert_eq!(add_random(&mut object, items, later(period), &mut rng), []);
        }
        let room = |period| object.room(later(period));
        assert_eq!(
            [1, 2, 3].map(room),
            [Some(64), Some(1), Some(1)],
            "expansion {expansion}"
        );
    }
    // Objects that do not grow keep their capacity.
    let shape = crate::support::windowed(params(3, 0.01, 0), 1_000, 4);
    assert!(matches!(shape.kind, Kind::Windowed(_)));
    let mut object = Object::new(&shape, Seed::FIXED, Time::at(0), ROOMY).unwrap();
    for period in 0..4 {
        for item in 0..3_u8 {
            let item = [item, u8::try_from(period).unwrap()];
            object
                .add(&item, Time::at(period * 1_000), None, || ROOMY)
                .unwrap();
        }
        assert_eq!(object.room(Time::at(period * 1_000)), Some(3));
    }
}

/// A client that keeps windows from adapting ends at the most filters that there may be.
#[test]
fn the_number_of_filters_of_a_window_is_bounded() {
    let shape = crate::support::windowed(params(1, 0.01, 1), 1_000, 1_440);
    let mut object = Object::new(&shape, Seed::FIXED, Time::at(0), ROOMY).unwrap();
    let mut rng = Rng::new(6);
    let mut refused = 0;
    for period in 0..1_440 {
        let items = if period % 2 == 0 { 60 } else { 1 };
        let why = add_random(&mut object, items, Time::at(period * 1_000), &mut rng);
        assert!(why.is_empty() || why == [Refusal::MemoryLimit], "{why:?}");
        refused += why.len();
    }
    assert!(refused > 0);
    assert!(object.totals().0 <= 4_096, "{:?}", object.totals());
    through_every_form(&object);
}
