//! What interleaving takes, and what it leaves room for.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Added, Limits, Object, Refusal, Time};

use crate::support::{ROOMY, add_at, dump_of, params, relocate, windowed};

use super::blob_bytes;

/// A day of hours of which each takes as many new items as it is for.
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
fn a_window_that_goes_on_takes_no_more_memory() {
    let mut day = Day::new();
    let mut full = 0;
    for hour in 0..5 * HOURS {
        day.fill(hour, ROOMY).unwrap();
        let bytes = day.object.memory_bytes();
        if hour < HOURS {
            full = bytes;
            // Beside the filters, of each the rows in tables and a share of what goes with eight.
            let most = blob_bytes(&day.object) + 500 + 350 * hour;
            assert!(bytes <= most, "{bytes} bytes at {hour}, beyond {most}");
        } else {
            assert!(
                bytes <= full + 4096,
                "{bytes} bytes at {hour}, after {full}"
            );
        }
    }
    // Its limit is what it takes.
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
fn what_a_gap_leaves_is_used_or_freed() {
    let mut day = Day::new();
    for hour in 0..HOURS {
        day.fill(hour, ROOMY).unwrap();
    }
    let full = day.object.memory_bytes();
    let limits = Limits {
        object_bytes: full,
        ..ROOMY
    };
    // Of those that were interleaved together, one is left.
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

/// After a gap some lanes are empty, of which only half may be given away. And what is interleaved only later takes
/// something with it.
#[test]
fn what_is_promised_is_taken() {
    let after_gaps = (1..8).map(|gap| (8, 4 * HOURS - 9 + gap, (0..60_000).step_by(1999)));
    let without = [7, 8, 15].map(|hours| (hours, 3 * HOURS, (9000..15_000).step_by(199)));
    for (hours, hour, spares) in after_gaps.chain(without) {
        for spare in spares {
            let mut day = Day::new();
            // Its first period, which is empty, passes.
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
            // What is taken apart after a gap is promised to nobody.
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
fn it_is_interleaved_from_some_size_on() {
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

/// A window of 40 hours, of which so many have items.
fn of_hours(hours: u64, items: impl Fn(u64) -> u64) -> Object {
    let shape = windowed(params(CAPACITY, 0.01, 2), 1, 40);
    let mut object = Object::new(&shape, Seed::FIXED, Time::at(0), ROOMY).unwrap();
    for hour in 0..hours {
        for item in 0..items(hour) {
            add_at(&mut object, &(hour << 8 | item).to_le_bytes(), hour).unwrap();
        }
    }
    // It has no room to spare in its tables.
    object.try_clone().unwrap()
}

#[test]
fn lanes_are_made_where_there_is_room_for_all_that_goes_with_them() {
    let mut rooms = Vec::new();
    for hours in [8, 16, 24, 32, 40] {
        // With the next item these are interleaved.
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
    // The first eight of 32 take more than those that come to them.
    assert!(rooms[1] < rooms[0]);
    assert_eq!(rooms, [rooms[0], rooms[1], rooms[1], rooms[1], rooms[0]]);
}

#[test]
fn a_lane_beside_few_is_given_away_only_where_there_is_no_room() {
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
fn each_of_their_blobs_is_moved_once() {
    let mut object = of_hours(40, |_| 30);
    // One is left of 32, and eight that were interleaved after those.
    object.tidy(70);
    let cells = object.views().next().unwrap().geometry().cell_bytes;
    let dump = dump_of(&object);
    let mut large = 0;
    let count = |blob: &mut Vec<u8>| large += usize::from(blob.len() as u64 > cells);
    relocate(&mut object, || 2, count);
    assert_eq!(large, 40);
    assert!(dump_of(&object) == dump);
}
