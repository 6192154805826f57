//! Comparison of one key at two servers: its parameters, its items, every bit and its time to live.
//!
//! Clients may write during the comparison, and the target may be a replica that lags behind the source. A read of the
//! target is compared with two reads of the source, one before and one after:
//!
//! ```text
//!   source  ──first─────────────────────now──▶
//!   target  ─────────target────────────────────▶   first ⊆ target ⊆ now, if bits are only ever set
//! ```
//!
//! If the target does not fit, target and source are read again after each pause. The first read stays as long as the source only
//! gains items, so that a replica has all the pauses to catch up with it.

use std::thread::sleep;
use std::time::Duration;

use valkeybloom_protocol::bloom::InfoField;
use valkeybloom_sketches::Sketch;
use valkeybloom_sketches::bloom::{Object, Stage, chunks};

use super::dump;
use super::expiry::Expiry;
use super::failure::Fault;
use super::family::is_filter;
use super::info::Info;
use super::pair::{Pair, SideFault};
use super::server::Server;
use super::sketches::{self, Verdict};

/// The fields of BF.INFO that explain headers that differ: first those that others follow from. All others depend on the
/// server or the clock.
const EXPLAINING: [InfoField; 9] = [
    InfoField::Kind,
    InfoField::Window,
    InfoField::Periods,
    InfoField::Error,
    InfoField::Expansion,
    InfoField::Tightening,
    InfoField::Capacity,
    InfoField::Filters,
    InfoField::Items,
];

/// The bytes of cells that are compared at a time.
const SPAN_BYTES: u64 = 16 << 20;

/// Compares a value of a type. While the target lags behind, it is read again after each pause.
///
/// # Errors
/// A server refuses a command, or lacks the key.
pub fn compare(
    pair: &Pair<'_>,
    key: &[u8],
    kind: &str,
    pauses: &[Duration],
) -> Result<Verdict, SideFault> {
    let comparison = Comparison { pair, key, pauses };
    let ended = match is_filter(kind).then(|| comparison.by_chunks()) {
        // Only this module and RedisBloom have chunks.
        Some(Err(Stop::Fault(SideFault::Source(fault) | SideFault::Target(fault))))
            if fault.forbids_calls() =>
        {
            comparison.by_dump()
        }
        Some(ended) => ended,
        None => comparison.by_dump(),
    };
    let ended = match ended {
        Ok(()) | Err(Stop::Verdict(Verdict::WithinAccuracy(_))) => {
            comparison.by_expiry().and(ended)
        }
        ended => ended,
    };
    match ended {
        Ok(()) => Ok(Verdict::Same),
        Err(Stop::Verdict(verdict)) => Ok(verdict),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

/// Why a comparison ends before all is known to be the same.
#[derive(Debug, PartialEq)]
enum Stop {
    Verdict(Verdict),
    Fault(SideFault),
}

type Result<T = (), E = Stop> = std::result::Result<T, E>;

/// The relation of a read of the target to two reads of the source.
#[derive(Debug, PartialEq)]
enum Fit {
    /// The target has a value that the source may have had between the reads.
    Fits,
    /// The target has another value, perhaps an earlier one.
    Lags,
    /// The source changed in a way that rules out a comparison with its first read.
    Changed,
}

/// What a server holds of a part of a value at a moment.
trait Snapshot: PartialEq + Sized {
    /// Returns whether a snapshot of the target shows the same.
    fn is_same(&self, target: &Self) -> bool {
        self == target
    }

    /// Returns whether additions may lead from this snapshot to another. They may if both are the same.
    fn precedes(&self, other: &Self) -> bool {
        self.is_same(other)
    }

    /// Relates snapshots of the source, the target and the source again.
    fn fit(first: &Self, target: &Self, now: &Self) -> Fit {
        match (first.precedes(now), target.precedes(now)) {
            (true, true) if first.precedes(target) => Fit::Fits,
            (true, _) => Fit::Lags,
            (false, true) if now.precedes(target) => Fit::Fits,
            (false, _) => Fit::Changed,
        }
    }
}

impl Snapshot for Expiry {
    fn is_same(&self, target: &Self) -> bool {
        self.difference(target).is_none()
    }

    fn fit(first: &Self, target: &Self, now: &Self) -> Fit {
        match target {
            _ if target.is_same(now) => Fit::Fits,
            _ if first.is_same(now) => Fit::Lags,
            _ if target.is_between(first, now) => Fit::Fits,
            _ => Fit::Changed,
        }
    }
}

/// A payload of DUMP.
#[derive(PartialEq)]
struct Payload(Vec<u8>);

impl Snapshot for Payload {
    fn is_same(&self, target: &Self) -> bool {
        sketches::are_same(&self.0, &target.0)
    }

    /// Looks into plain filters and count-min sketches. Other values precede only equal ones.
    fn precedes(&self, other: &Self) -> bool {
        match (sketches::decoded(&self.0), sketches::decoded(&other.0)) {
            (Some(Sketch::CountMin(one)), Some(Sketch::CountMin(other))) => {
                sketches::precedes(&one, &other)
            }
            (Some(Sketch::Bloom(one)), Some(Sketch::Bloom(two))) => {
                let pair = plain(&one).zip(plain(&two));
                pair.map_or_else(
                    || self.is_same(other),
                    |(one, two)| one.0.precedes(&two.0) && one.1.precedes(&two.1),
                )
            }
            _ => self.is_same(other),
        }
    }
}

/// The header of a filter, its first chunk.
#[derive(PartialEq)]
struct Header(Vec<u8>);

impl Snapshot for Header {
    fn precedes(&self, other: &Self) -> bool {
        Stage::header_precedes(&self.0, &other.0)
    }
}

/// The cells of a plain filter, or some of them.
#[derive(Debug, PartialEq)]
struct Cells(Vec<u8>);

impl Snapshot for Cells {
    /// Returns whether all bits are set in the other cells, which may be more.
    fn precedes(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() <= other.0.len() && pairs.all(|(own, other)| own & !other == 0)
    }
}

/// A chunk of a filter that is not plain, and the cursor of the next.
#[derive(PartialEq)]
struct Piece(u64, Vec<u8>);

impl Snapshot for Piece {}

/// Takes snapshots of the source and of the target until they fit, or the pauses are over. Returns the target's snapshot.
///
/// # Errors
/// The target does not fit. `differ` describes how the source's snapshot and the target's differ.
fn settle<S: Snapshot>(
    mut source: impl FnMut() -> Result<S>,
    mut target: impl FnMut() -> Result<S>,
    differ: impl Fn(&S, &S) -> Verdict,
    pauses: &[Duration],
) -> Result<S> {
    let mut first = source()?;
    let mut pauses = pauses.iter();
    loop {
        let target = target()?;
        if first.is_same(&target) {
            return Ok(target);
        }
        let now = source()?;
        match (S::fit(&first, &target, &now), pauses.next()) {
            (Fit::Fits, _) => return Ok(target),
            (Fit::Lags, None) => return Err(Stop::Verdict(differ(&now, &target))),
            (Fit::Changed, None) => return Err(Stop::Verdict(Verdict::Changing)),
            (Fit::Lags, Some(pause)) => sleep(*pause),
            (Fit::Changed, Some(pause)) => {
                first = now;
                sleep(*pause);
            }
        }
    }
}

/// The comparison of a key.
struct Comparison<'c> {
    pair: &'c Pair<'c>,
    key: &'c [u8],
    pauses: &'c [Duration],
}

impl Comparison<'_> {
    fn at_source<T>(&self, read: impl Fn(&Server, &[u8]) -> Result<T, Fault>) -> Result<T> {
        read(&self.pair.source, self.key).map_err(|fault| Stop::Fault(SideFault::Source(fault)))
    }

    fn at_target<T>(&self, read: impl Fn(&Server, &[u8]) -> Result<T, Fault>) -> Result<T> {
        read(&self.pair.target, self.key).map_err(|fault| Stop::Fault(SideFault::Target(fault)))
    }

    /// [Settles](settle()) what is read of the key.
    fn settle<S: Snapshot>(
        &self,
        read: impl Fn(&Server, &[u8]) -> Result<S, Fault>,
        differ: impl Fn(&S, &S) -> Verdict,
    ) -> Result<S> {
        let (source, target) = (|| self.at_source(&read), || self.at_target(&read));
        settle(source, target, differ, self.pauses)
    }

    /// Compares the times to live.
    fn by_expiry(&self) -> Result {
        let differ = |source: &Expiry, target: &Expiry| {
            Verdict::Different(source.difference(target).unwrap_or_default())
        };
        self.settle(Expiry::of, differ).map(drop)
    }

    /// Compares payloads of DUMP.
    fn by_dump(&self) -> Result {
        let read = |server: &Server, key: &[u8]| dump::payload(server, key).map(Payload);
        let differ =
            |source: &Payload, target: &Payload| sketches::difference(&source.0, &target.0);
        self.settle(read, differ).map(drop)
    }

    /// Compares the header and the chunks of BF.SCANDUMP.
    fn by_chunks(&self) -> Result {
        let read = |server: &Server, key: &[u8]| Ok(Header(dump::scan(server, key, 0)?.bytes));
        let target = self.settle(read, |_, _| Verdict::Different(self.parameter()))?;
        match Stage::of_header(&target.0) {
            Some(stage) => self.by_cells(&stage)?,
            None => self.by_pieces()?,
        }
        // The cells must belong to the header that was compared.
        if target.precedes(&self.at_source(read)?) {
            Ok(())
        } else {
            Err(Stop::Verdict(Verdict::Changing))
        }
    }

    /// Compares the chunks of a filter that is not plain, one after the other.
    fn by_pieces(&self) -> Result {
        let mut cursor = 1;
        while cursor > 0 {
            let read = |server: &Server, key: &[u8]| {
                let chunk = dump::scan(server, key, cursor)?;
                Ok(Piece(chunk.next, chunk.bytes))
            };
            let differ =
                |_: &_, _: &_| Verdict::Different("its items differ at the target".to_owned());
            cursor = self.settle(read, differ)?.0;
        }
        Ok(())
    }

    /// Compares the cells of a plain filter that it had at this stage.
    fn by_cells(&self, stage: &Stage) -> Result {
        let end = stage.cell_bytes();
        let mut offset = 0;
        while offset < end {
            let length = SPAN_BYTES.min(end - offset);
            let read = |server: &Server, key: &[u8]| cells(server, key, offset, length);
            let differ = |source: &Cells, target: &Cells| {
                Verdict::Different(match differs_at(&source.0, &target.0) {
                    Some(at) => format!("its bits differ at the target, from byte {}", offset + at),
                    None => "its length differs at the target".to_owned(),
                })
            };
            let target = self.settle(read, differ)?;
            if (target.0.len() as u64) < length {
                break;
            }
            offset += length;
        }
        Ok(())
    }

    /// Names a field of BF.INFO that differs, to explain headers that differ.
    fn parameter(&self) -> String {
        let infos = self.at_source(Info::of).ok();
        let infos = infos.zip(self.at_target(Info::of).ok());
        let named = infos.and_then(|(source, target)| parameter(&source, &target));
        named.unwrap_or_else(|| "its header differs at the target".to_owned())
    }
}

/// Names the first field of BF.INFO that explains how headers differ.
fn parameter(source: &Info, target: &Info) -> Option<String> {
    let value = |info: &Info, field| info.of_filter::<Option<String>>(field);
    // The items of a window are not in its header, and expire.
    let is_window = value(source, InfoField::Window).is_some();
    let mut fields = EXPLAINING.into_iter();
    fields.find_map(|field| {
        let (own, other) = (value(source, field)?, value(target, field)?);
        let differs = own != other && !(is_window && field == InfoField::Items);
        let [own, other] = [own, other].map(|it| it.unwrap_or("none".to_owned()));
        let name = field.title().to_string_lossy();
        differs.then(|| format!("{name} is {other} at the target, not {own}"))
    })
}

/// Returns the header and all cells of a plain filter.
fn plain(object: &Object) -> Option<(Header, Cells)> {
    let header = chunks::header(object)?;
    Stage::of_header(&header)?;
    let cells = object.filters().map(|(filter, _)| filter.bitmap());
    Some((Header(header), Cells(cells.collect::<Vec<_>>().concat())))
}

/// Returns the position of the first byte that differs. Bytes that lack a bit of the source go first.
fn differs_at(source: &[u8], target: &[u8]) -> Option<u64> {
    let mut pairs = source.iter().zip(target);
    let lacks = pairs.position(|(own, other)| own & !other != 0);
    let mut pairs = source.iter().zip(target);
    let at = lacks.or_else(|| pairs.position(|(own, other)| own != other))?;
    u64::try_from(at).ok()
}

/// Reads the cells from an offset on, `length` bytes unless the value ends before.
fn cells(server: &Server, key: &[u8], offset: u64, length: u64) -> Result<Cells, Fault> {
    let mut cells = Vec::new();
    while (cells.len() as u64) < length {
        // Cursors are offsets, counted from 1.
        let cursor = offset + cells.len() as u64 + 1;
        let chunk = dump::scan(server, key, cursor)?;
        if chunk.next == 0 {
            break;
        }
        cells.extend(chunk.bytes);
    }
    cells.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    Ok(Cells(cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;

    #[test]
    fn a_target_fits_between_two_reads_of_the_source() {
        use Fit::{Changed, Fits, Lags};
        for (first, target, now, expected) in [
            // The source is at rest.
            (0b01, 0b01, 0b01, Fits),
            (0b01, 0b00, 0b01, Lags),
            (0b01, 0b11, 0b01, Lags),
            // It gains a bit.
            (0b01, 0b01, 0b11, Fits),
            (0b01, 0b11, 0b11, Fits),
            (0b01, 0b00, 0b11, Lags),
            (0b01, 0b10, 0b11, Lags),
            (0b01, 0b111, 0b11, Lags),
            // It is replaced.
            (0b01, 0b10, 0b10, Fits),
            (0b01, 0b01, 0b10, Changed),
            (0b01, 0b00, 0b10, Changed),
            (0b01, 0b11, 0b10, Changed),
        ] {
            let [one, other, later] = [first, target, now].map(|bits| Cells(vec![bits]));
            let fit = Cells::fit(&one, &other, &later);
            assert_eq!(fit, expected, "{first:b} {target:b} {now:b}");
        }
    }

    #[test]
    fn snapshots_are_taken_until_they_fit_or_the_pauses_are_over() {
        let differ = |text: &str| Err(Stop::Verdict(Verdict::Different(text.to_owned())));
        let lags = || differ("1 0");
        let changing = || Err(Stop::Verdict(Verdict::Changing));
        let fits = |bits| Ok(Cells(vec![bits]));
        for (source, target, pauses, expected) in [
            (&[0b01][..], &[0b01][..], 0, fits(0b01)),
            (&[0b01, 0b01], &[0b00], 0, lags()),
            (&[0b01, 0b01, 0b01], &[0b00, 0b00], 1, lags()),
            // The source gained a bit between the reads, which is no difference.
            (&[0b00, 0b01], &[0b11], 0, differ("1 3")),
            // It need only catch up with the first read.
            (&[0b01, 0b11], &[0b00, 0b01], 1, fits(0b01)),
            // After a change, the first read is the new value's.
            (&[0b01, 0b10], &[0b00], 0, changing()),
            (&[0b01, 0b10], &[0b00, 0b10], 1, fits(0b10)),
            (&[0b01, 0b10, 0b100], &[0b00, 0b01], 1, changing()),
        ] {
            let case = format!("{source:?} {target:?}");
            let (mut source, mut target) = (source.iter(), target.iter());
            let read = |bits: Option<&u8>| Ok(Cells(vec![*bits.expect("too many reads")]));
            let found = settle(
                || read(source.next()),
                || read(target.next()),
                |one, other| Verdict::Different(format!("{} {}", one.0[0], other.0[0])),
                &vec![Duration::ZERO; pauses],
            );
            assert_eq!(found, expected, "{case}");
            assert!(source.next().is_none() && target.next().is_none(), "{case}");
        }
    }

    #[test]
    fn bytes_that_lack_a_bit_of_the_source_are_named_first() {
        for (source, target, at) in [
            (&[1, 1][..], &[1, 1][..], None),
            (&[1, 1], &[3, 1], Some(0)),
            (&[1, 1], &[3, 0], Some(1)),
            (&[1, 1], &[1], None),
        ] {
            assert_eq!(differs_at(source, target), at, "{source:?} {target:?}");
        }
    }

    /// Returns a reply of BF.INFO with these fields.
    fn info(fields: &str) -> Info {
        let fields = fields.split(", ").map(|field| {
            let (name, value) = field.rsplit_once(' ').expect("a name and a value");
            let value = match value {
                "nil" => Value::Nil,
                value => Value::BulkString(value.into()),
            };
            (Value::BulkString(name.into()), value)
        });
        Info::try_from(Value::Map(fields.collect())).expect("it is a map")
    }

    #[test]
    fn a_parameter_is_named_rather_than_what_follows_from_it_or_from_the_clock() {
        for (source, target, named) in [
            ("Capacity 1", "Capacity 1", None),
            ("Capacity 1, Size 1", "Capacity 1, Size 2", None),
            ("Capacity 1", "Number of filters 1", None),
            (
                "Capacity 1, Error rate 0.1",
                "Capacity 2, Error rate 0.2",
                Some("Error rate is 0.2 at the target, not 0.1"),
            ),
            (
                "Expansion rate 2",
                "Expansion rate nil",
                Some("Expansion rate is none at the target, not 2"),
            ),
            (
                "Number of items inserted 1",
                "Number of items inserted 2",
                Some("Number of items inserted is 2 at the target, not 1"),
            ),
            (
                "Window 5, Live periods 1, Items in current period 1, Number of items inserted 1",
                "Window 6, Live periods 0, Items in current period 0, Number of items inserted 0",
                Some("Window is 6 at the target, not 5"),
            ),
            (
                "Window 5, Live periods 1, Items in current period 1, Number of items inserted 1",
                "Window 5, Live periods 0, Items in current period 0, Number of items inserted 0",
                None,
            ),
        ] {
            let found = parameter(&info(source), &info(target));
            assert_eq!(found.as_deref(), named, "{source}; {target}");
        }
    }
}
