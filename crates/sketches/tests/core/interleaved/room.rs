//! The memory that interleaving takes, and the capacity that is left.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Added, Limits, Object, Refusal, Time};

use crate::support::{ROOMY, add_at, dump_of, params, relocate, windowed};

use super::blob_bytes;

/// A window of a day; tests fill hours to their capacity with new items.
struct Day {
    object: Object,
    next: u64,
}

const HOURS: u64 = 24;
const CAPACITY: u64 = 1500;

impl Day {
    fn new() -> Self {
        let shape = windowed(params(CAPACITY, 0.01, 2), 1, HOURS);
        let object = Object::new(&shape, Seed::FIXED, Time::at(0), Limits::NONE).unwrap();
        Self { object, next: 0 }
    }

    fn fill(&mut self, hour: u64, limits: Limits) -> Result<(), Refusal> {
        self.object.tidy(hour);
        let last = self.next + 2 * CAPACITY;
        while self
            .object
            .filters(|| hour)
            .all(|(at, filter, _)| at != Some(hour) || !filter.is_full())
        {
            self.next += 1;
            assert!(self.next < last, "items that are not there are claimed");
            let item = self.next.to_le_bytes();
            self.object.add(&item, Time::at(hour), None, || limits)?;
        }
        Ok(())
    }
}

#[test]
fn memory_stays_bounded_as_hours_expire() {
    let mut day = Day::new();
    let mut full = 0;
    for hour in 0..5 * HOURS {
        day.fill(hour, ROOMY).unwrap();
        let bytes = day.object.memory_bytes();
        if hour < HOURS {
            full = bytes;
            // Besides its bits, each filter takes rows in tables and a share of the overhead of eight lanes.
            let most = blob_bytes(&day.object) + 500 + 350 * hour;
            assert!(bytes <= most, "{bytes} bytes at {hour}, beyond {most}");
        } else {
            assert!(
                bytes <= full + 4096,
                "{bytes} bytes at {hour}, after {full}"
            );
        }
    }
    // The limit is the memory that the window takes now.
    let limits = Limits {
        object_bytes: day.object.memory_bytes(),
        ..ROOMY
    };
    for hour in 5 * HOURS..7 * HOURS {
        day.fill(hour, limits).unwrap();
        assert!(day.object.is_within(limits));
    }
}

#[test]
fn lanes_that_a_gap_leaves_empty_are_reused_or_freed() {
    let mut day = Day::new();
    for hour in 0..HOURS {
        day.fill(hour, ROOMY).unwrap();
    }
    let full = day.object.memory_bytes();
    let limits = Limits {
        object_bytes: full,
        ..ROOMY
    };
    // One of the interleaved periods is left.
    let later = 2 * HOURS - 2;
    day.fill(later, limits).unwrap();
    assert_eq!(day.object.periods().len(), 2);
    let most = blob_bytes(&day.object) + 1500;
    let bytes = day.object.memory_bytes();
    assert!(bytes <= most, "{bytes} bytes after a gap, beyond {most}");
    day.object.tidy(3 * HOURS);
    assert!(day.object.memory_bytes() < full / 20);
    day.object.tidy(4 * HOURS);
    assert!(day.object.periods().is_empty());
    assert!(
        day.object.memory_bytes() < 1000,
        "{}",
        day.object.memory_bytes()
    );
    for hour in 4 * HOURS..6 * HOURS {
        day.fill(hour, limits).unwrap();
    }
}

/// A period takes as many items as `reach` reports, and after a gap at least as many. Some lanes are empty then, but a
/// period reuses one only if at least half of its group is in use, or if there is no room for a filter of its own.
/// Interleaving that starts later takes memory, too.
#[test]
fn a_period_takes_the_reported_capacity() {
    let after_gaps = (1..8).map(|gap| (8, 4 * HOURS - 9 + gap, (0..60_000).step_by(1999)));
    let without = [7, 8, 15].map(|hours| (hours, 3 * HOURS, (9000..15_000).step_by(199)));
    for (hours, hour, spares) in after_gaps.chain(without) {
        for spare in spares {
            let mut day = Day::new();
            // The first period, which is empty, expires.
            day.object.tidy(3 * HOURS - hours);
            for hour in 3 * HOURS - hours..3 * HOURS {
                day.fill(hour, ROOMY).unwrap();
            }
            day.object.tidy(hour);
            let limits = Limits {
                object_bytes: day.object.memory_bytes() + spare,
                ..ROOMY
            };
            let promised = day.object.reach(|| hour, limits);
            let mut taken = 0;
            while taken <= 20 * CAPACITY {
                day.next += 1;
                let item = day.next.to_le_bytes();
                match day.object.add(&item, Time::at(hour), None, || limits) {
                    Ok(added) => taken += u64::from(added != Added::Present),
                    Err(refusal) => {
                        assert_eq!(refusal, Refusal::MemoryLimit);
                        break;
                    }
                }
            }
            // The reported reach excludes memory that taking groups apart frees after a gap.
            let keeps = if hour > 3 * HOURS {
                taken >= promised
            } else {
                taken == promised
            };
            assert!(
                keeps,
                "{taken}, not {promised}, at {hour} after {hours}, {spare} to spare"
            );
            assert!(day.object.is_within(limits));
        }
    }
}

#[test]
fn only_large_filters_are_interleaved() {
    for (capacity, interleaved) in [(1000, false), (4000, true)] {
        let mut object = Object::new(
            &windowed(params(capacity, 0.01, 2), 1, 8),
            Seed::FIXED,
            Time::at(0),
            ROOMY,
        )
        .unwrap();
        for now in 0..8 {
            for item in 0..50_u64 {
                add_at(&mut object, &(now << 32 | item).to_le_bytes(), now).unwrap();
            }
        }
        let none_is_apart = object.periods().iter().all(|period| !period.has_own_bits());
        assert_eq!(none_is_apart, interleaved);
    }
}

/// Returns a window of 40 hours with items in the first `hours` hours: `items` gives the number for each hour.
fn of_hours(hours: u64, items: impl Fn(u64) -> u64) -> Object {
    let shape = windowed(params(CAPACITY, 0.01, 2), 1, 40);
    let mut object = Object::new(&shape, Seed::FIXED, Time::at(0), ROOMY).unwrap();
    for hour in 0..hours {
        for item in 0..items(hour) {
            add_at(&mut object, &(hour << 8 | item).to_le_bytes(), hour).unwrap();
        }
    }
    // The tables of a clone have no spare room.
    object.try_clone().unwrap()
}

#[test]
fn filters_are_interleaved_if_there_is_room_for_the_overhead() {
    let mut rooms = Vec::new();
    for hours in [8, 16, 24, 32, 40] {
        // The next item starts to interleave the newest eight filters.
        let last = hours - 1;
        let object = of_hours(hours, |hour| if hour == last { 1 } else { 30 });
        let bytes = object.memory_bytes();
        let takes = |spare: &u64| {
            let limits = Limits {
                object_bytes: bytes + spare,
                ..ROOMY
            };
            let mut copy = object.try_clone().unwrap();
            copy.add(b"item", Time::at(last), None, || limits).unwrap();
            assert!(copy.is_within(limits));
            copy.memory_bytes() - bytes
        };
        let room = (0..5000).find(|spare| takes(spare) > 0).unwrap();
        assert_eq!(takes(&room), room);
        rooms.push(room);
    }
    // The first eight of a group's 32 lanes take more overhead than the lanes that join them.
    assert!(rooms[1] < rooms[0]);
    assert_eq!(rooms, [rooms[0], rooms[1], rooms[1], rooms[1], rooms[0]]);
}

#[test]
fn a_lane_of_a_sparse_group_is_reused_only_without_room_for_a_filter() {
    let object = of_hours(32, |_| 30);
    for left in 1..32 {
        let mut object = object.try_clone().unwrap();
        let hour = 71 - left;
        object.tidy(hour);
        assert_eq!(object.periods().len() as u64, left);
        let bytes = object.memory_bytes();
        let cells = object.views().next().unwrap().geometry().cell_bytes;
        let limits = Limits {
            object_bytes: bytes + cells / 2,
            ..ROOMY
        };
        assert_eq!(object.reach(|| hour, limits), CAPACITY);
        for (limits, in_lane) in [(limits, true), (ROOMY, left >= 16)] {
            let mut object = object.try_clone().unwrap();
            object
                .add(b"item", Time::at(hour), None, || limits)
                .unwrap();
            assert!(object.is_within(limits));
            assert_eq!(object.memory_bytes() < bytes + cells, in_lane, "{left}");
        }
    }
}

#[test]
fn each_interleaved_blob_is_moved_once() {
    let mut object = of_hours(40, |_| 30);
    // One period is left of a group of 32, and all eight of the next group.
    object.tidy(70);
    let cells = object.views().next().unwrap().geometry().cell_bytes;
    let dump = dump_of(&object);
    let mut large = 0;
    let count = |blob: &mut Vec<u8>| large += usize::from(blob.len() as u64 > cells);
    relocate(&mut object, || 2, count);
    assert_eq!(large, 40);
    assert!(dump_of(&object) == dump);
}
