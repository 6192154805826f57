//! The dialect of objects with a window or with counters: the type `bloomfltx`.
//!
//! RDB (encoding version 1), dump (version 2) and header of chunks (version 130) have the same fields. In RDB they are
//! fields of the stream. In the other forms they follow the version byte, every number as eight bytes and every string
//! after its length. A header has every blob cut after its own header.
//!
//! | part | fields |
//! |---|---|
//! | the object | form, 1 to 3; 1 with a window or 2 with counters; expansion; error rate; tightening ratio; capacity; seed; with a window, length of a period in ms and number of periods; number of stacks |
//! | each stack | number of the period; in form 1 with counters, number of id ranges, which is 0; in form 3, number of repeats; number of filters |
//! | each filter | blob; capacity; items; in forms 2 and 3, either 1 with the lowest and the highest id that it took, or 0 |
//!
//! Form 2 is for counters that took ids, and form 3 for those of them in which an item is in several filters. Objects
//! without ids are written in form 1, which earlier builds read. Earlier builds wrote ids in form 1 too: after a number
//! of ranges other than 0, the lowest and the highest id of all, then for each range its first id and the number of its
//! filter. Counters are one stack. Earlier builds wrote several after a merge, which are read as one.

use crate::bloom::filter::HEADER_BYTES;
use crate::bloom::law::{MAX_FILTERS, Params};
use crate::bloom::object::{
    FilterOutline, Ids, Interval, Kind, Object, Outline, PeriodOutline, Shape, Window,
};
use crate::hash::{Hasher, Seed};
use crate::machine::memory;

use super::extent::{Bytes, Extent, read_blob};
use crate::bytes::{Buffer, ByteCursor, DecodeError, RdbRead, RdbWrite, push};

/// The encoding version in RDB.
pub const RDB_VERSION: i32 = 1;

/// The version of dumps and headers.
pub const VERSION: u8 = 2;

/// The values of the form, the first field.
const WITHOUT_IDS: u64 = 1;
const WITH_IDS: u64 = 2;
const WITH_REPEATS: u64 = 3;

const WINDOW: u64 = 1;
const COUNTERS: u64 = 2;

/// Reads the fields in RDB, or returns `None` if a partly loaded object follows.
pub fn read_rdb(from: &mut impl RdbRead) -> Result<Option<Outline>, DecodeError> {
    match from.uint()? {
        0 => Ok(None),
        form @ (WITHOUT_IDS | WITH_IDS | WITH_REPEATS) => read_fields(form, from).map(Some),
        _ => Err(DecodeError::UnsupportedVersion),
    }
}

/// Reads a whole dump or header.
pub fn read(bytes: &[u8], extent: Extent) -> Result<Outline, DecodeError> {
    let mut from = ByteCursor(bytes);
    if from.array::<1>()? != [extent.version(VERSION)] {
        return Err(DecodeError::UnsupportedVersion);
    }
    let outline = read_rdb(&mut from)?.ok_or(DecodeError::UnsupportedVersion)?;
    from.end()?;
    extent.check(outline.filters())?;
    Ok(outline)
}

fn read_fields(form: u64, from: &mut impl RdbRead) -> Result<Outline, DecodeError> {
    let options = from.uint()?;
    let (expansion, error_rate, tightening) = (from.uint()?, from.double()?, from.double()?);
    let capacity = from.uint()?;
    let seed = from.bytes()?;
    let kind = match options {
        WINDOW => {
            let window = Window::new(from.uint()?, from.uint()?);
            Kind::Windowed(window.ok_or("window out of range")?)
        }
        COUNTERS => Kind::Counting,
        0 => return Err("neither window nor counters".into()),
        3 => return Err("window with counters".into()),
        _ => return Err("unknown options".into()),
    };
    if form != WITHOUT_IDS && kind != Kind::Counting {
        return Err("ids without counters".into());
    }
    let mut periods: Vec<PeriodOutline> = Vec::new();
    let mut ids = Ids::default();
    for _ in 0..from.uint()? {
        let number = from.uint()?;
        let repeats = match form {
            WITH_REPEATS => from.uint()?,
            _ => 0,
        };
        let ranges = match (form, kind) {
            (WITHOUT_IDS, Kind::Counting) => read_ranges(from)?,
            _ => None,
        };
        let (intervals, filters) = read_filters(form != WITHOUT_IDS, from)?;
        let of_stack = match ranges {
            Some((taken, ranges)) => ids_of_ranges(taken, &ranges, filters.len())?,
            None => Ids {
                intervals: boxed(intervals)?,
                repeats,
            },
        };
        match periods.last_mut() {
            Some(only) if form == WITHOUT_IDS && kind == Kind::Counting && number == 0 => {
                ids = append(&mut only.filters, ids, filters, &of_stack)?;
            }
            before => {
                if before.is_none() {
                    ids = of_stack;
                }
                push(&mut periods, PeriodOutline { number, filters })?;
            }
        }
    }
    if let (Kind::Counting, Some(one)) = (kind, periods.last_mut()) {
        memory::fit(&mut one.filters);
    }
    memory::fit(&mut periods);
    let params = Params::from_stored(capacity, error_rate, tightening, expansion)?;
    let mut shape = Shape { params, kind };
    // Early builds did not mark ratios as ours.
    shape.params.tightening = shape.tightening();
    let seed = seed.try_into().map_err(|_| "seed of another length")?;
    Ok(Outline {
        law: shape.law().ok_or("error rate out of range")?,
        hasher: Hasher::Sip(Seed::new(seed)),
        shape,
        ids,
        periods,
    })
}

/// Appends filters of counters to those of another stack. Returns the ids of all of them.
fn append(
    filters: &mut Vec<FilterOutline>,
    mut ids: Ids,
    more: Vec<FilterOutline>,
    ids_of_more: &Ids,
) -> Result<Ids, DecodeError> {
    let first = filters.len();
    let count = first + more.len();
    // The ids are copied for each stack.
    if count as u64 > MAX_FILTERS {
        return Err("more filters than any program stacks".into());
    }
    if !(ids.is_empty() && ids_of_more.is_empty()) {
        ids = ids.copy(count).ok_or(DecodeError::NoMemory)?;
        let more = &ids_of_more.intervals;
        ids.intervals[first..][..more.len()].copy_from_slice(more);
    }
    let room = filters.try_reserve(more.len());
    room.map_err(|_| DecodeError::NoMemory)?;
    filters.extend(more);
    Ok(ids)
}

/// Reads the filters of a stack, and the ids that each of them took, if these follow.
fn read_filters(
    with_ids: bool,
    from: &mut impl RdbRead,
) -> Result<(Vec<Option<Interval>>, Vec<FilterOutline>), DecodeError> {
    let (mut intervals, mut filters) = (Vec::new(), Vec::new());
    for _ in 0..from.uint()? {
        let (blob, capacity, items) = (read_blob(from)?, from.uint()?, from.uint()?);
        push(&mut filters, FilterOutline::headed(blob, capacity, items)?)?;
        if with_ids {
            let interval = match from.uint()? {
                0 => None,
                1 => Some((from.uint()?, from.uint()?)),
                _ => return Err("ids flag out of range".into()),
            };
            push(&mut intervals, interval)?;
        }
    }
    memory::fit(&mut filters);
    // A period without filters would take many more bytes in memory than its few in a file.
    if filters.is_empty() {
        return Err("no filters".into());
    }
    Ok((intervals, filters))
}

fn boxed<T>(values: Vec<T>) -> Result<Box<[T]>, DecodeError> {
    memory::boxed(values).ok_or(DecodeError::NoMemory)
}

/// The first id of a range and the number of the filter that took it. A range ends where the next one begins.
type Range = (u64, u64);

/// Reads the lowest and the highest id of a stack and its ranges, if it has any.
fn read_ranges(from: &mut impl RdbRead) -> Result<Option<(Interval, Vec<Range>)>, DecodeError> {
    let count = from.uint()?;
    if count == 0 {
        return Ok(None);
    }
    let (taken, mut ranges) = ((from.uint()?, from.uint()?), Vec::new());
    for _ in 0..count {
        push(&mut ranges, (from.uint()?, from.uint()?))?;
    }
    Ok(Some((taken, ranges)))
}

/// Returns the id intervals of a stack's filters: the ranges, clipped to the lowest and the highest id.
fn ids_of_ranges(
    (lowest, highest): Interval,
    ranges: &[Range],
    filters: usize,
) -> Result<Ids, DecodeError> {
    if lowest > highest {
        return Err("ids out of order".into());
    }
    let begins = ranges.first().is_some_and(|(first, _)| *first == 0);
    let mut pairs = ranges.windows(2);
    let rising = pairs.all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
    if !(begins && rising) {
        return Err("ranges out of order".into());
    }
    let mut intervals = memory::reserved(filters).ok_or(DecodeError::NoMemory)?;
    intervals.resize(filters, None);
    let ends = ranges.iter().skip(1).map(|(first, _)| *first - 1);
    for ((first, index), end) in ranges.iter().zip(ends.chain([u64::MAX])) {
        let index = usize::try_from(*index).ok();
        let interval = index.and_then(|index| intervals.get_mut(index));
        let interval = interval.ok_or("ranges out of order")?;
        let (first, last) = ((*first).max(lowest), end.min(highest));
        *interval = (first <= last).then_some((first, last));
    }
    Ok(Ids {
        intervals: boxed(intervals)?,
        repeats: 0,
    })
}

/// Writes the fields, in RDB or as bytes.
pub fn write_fields(object: &Object, to: &mut impl RdbWrite) {
    let Shape { params, kind } = object.shape();
    let no_ids = Ids::default();
    let ids = object.ids().unwrap_or(&no_ids);
    let (with_ids, with_repeats) = (!ids.is_empty(), ids.repeats > 0);
    to.uint(match (with_ids, with_repeats) {
        (false, _) => WITHOUT_IDS,
        (true, false) => WITH_IDS,
        (true, true) => WITH_REPEATS,
    });
    to.uint(match kind {
        Kind::Plain => 0,
        Kind::Windowed(_) => WINDOW,
        Kind::Counting => COUNTERS,
    });
    to.uint(u64::from(params.growth.expansion()));
    to.double(params.error_rate.get());
    to.double(params.tightening.to_stored());
    to.uint(params.capacity);
    to.bytes(object.hasher().seed().unwrap_or(&Seed::FIXED).as_bytes());
    if let Kind::Windowed(window) = kind {
        to.uint(window.period_ms());
        to.uint(window.periods());
    }
    to.uint(object.stacks().count() as u64);
    let mut blobs = object.blobs();
    for (number, stack) in object.stacks() {
        to.uint(number);
        if kind == Kind::Counting && !with_ids {
            to.uint(0);
        }
        if with_repeats {
            to.uint(ids.repeats);
        }
        to.uint(stack.filters().len() as u64);
        for (index, filter) in stack.filters().iter().enumerate() {
            // A filter keeps its header even if its bits are interleaved.
            to.filter(&filter.blob()[..HEADER_BYTES], || blobs.next().flatten());
            to.uint(filter.capacity());
            to.uint(filter.items());
            if !with_ids {
                continue;
            }
            to.uint(u64::from(ids.interval(index).is_some()));
            if let Some((lowest, highest)) = ids.interval(index) {
                to.uint(lowest);
                to.uint(highest);
            }
        }
    }
}

/// Writes a dump or a header, or returns `None` if allocation fails.
pub fn write(object: &Object, extent: Extent) -> Option<Vec<u8>> {
    let mut out = Bytes {
        written: Buffer::new(),
        extent,
    };
    out.written.put(&[extent.version(VERSION)]);
    write_fields(object, &mut out);
    out.written.end()
}
