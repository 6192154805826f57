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
//! If the target does not fit, target and source are read again after each pause. The first read stays, so that a replica
//! has all the pauses to catch up with it.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

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

/// The fields of BF.INFO that depend on the server, or follow from other fields.
const SERVER_FIELDS: [&str; 5] = [
    "Size",
    "Max scaled capacity",
    "Estimated error rate",
    "Feed bytes",
    "Feed readers",
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
enum Stop {
    Verdict(Verdict),
    Fault(SideFault),
}

type Result<T = (), E = Stop> = std::result::Result<T, E>;

/// The relation of a read of the target to two reads of the source.
enum Fit {
    /// The target has a value that the source may have had between the reads.
    Fits,
    /// The target does not have such a value yet.
    Lags,
    /// The source changed in a way that rules out a comparison with its first read.
    Changed,
}

impl Fit {
    /// Relates reads of a value. `precedes` returns whether additions may lead from one value to the other, and is true
    /// of equal values.
    fn of<T: ?Sized>(first: &T, target: &T, now: &T, precedes: impl Fn(&T, &T) -> bool) -> Self {
        match (precedes(first, now), precedes(target, now)) {
            (true, true) if precedes(first, target) => Self::Fits,
            (true, _) => Self::Lags,
            (false, true) if precedes(now, target) => Self::Fits,
            (false, _) => Self::Changed,
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

    /// Reads a value from both servers, and the target's again until it fits, or the pauses are over. Returns the target's
    /// value, or what `differ` says of the source's value and the target's.
    fn settle<T>(
        &self,
        read: impl Fn(&Server, &[u8]) -> Result<T, Fault>,
        are_same: impl Fn(&T, &T) -> bool,
        fit: impl Fn(&T, &T, &T) -> Fit,
        differ: impl Fn(T, T) -> Verdict,
    ) -> Result<T> {
        let mut first = self.at_source(&read)?;
        let mut pauses = self.pauses.iter();
        loop {
            let target = self.at_target(&read)?;
            if are_same(&first, &target) {
                return Ok(target);
            }
            let now = self.at_source(&read)?;
            let fit = fit(&first, &target, &now);
            match (fit, pauses.next()) {
                (Fit::Fits, _) => return Ok(target),
                (Fit::Lags, None) => return Err(Stop::Verdict(differ(first, target))),
                (Fit::Changed, None) => return Err(Stop::Verdict(Verdict::Changing)),
                (Fit::Lags, Some(pause)) => sleep(*pause),
                (Fit::Changed, Some(pause)) => {
                    first = now;
                    sleep(*pause);
                }
            }
        }
    }

    /// Compares the times to live.
    fn by_expiry(&self) -> Result {
        let are_same = |source: &Expiry, target: &Expiry| source.difference(target).is_none();
        let fit = |first: &Expiry, target: &Expiry, now: &Expiry| match target {
            _ if are_same(target, now) => Fit::Fits,
            _ if are_same(first, now) => Fit::Lags,
            _ if target.is_between(first, now) => Fit::Fits,
            _ => Fit::Changed,
        };
        let differ = |source: Expiry, target| {
            Verdict::Different(source.difference(&target).unwrap_or_default())
        };
        self.settle(Expiry::of, are_same, fit, differ).map(drop)
    }

    /// Compares payloads of DUMP.
    fn by_dump(&self) -> Result {
        let settled = self.settle(
            dump::payload,
            |source, target| sketches::are_same(source, target),
            |first, target, now| Fit::of(&first[..], target, now, payload_precedes),
            |source, target| sketches::difference(&source, &target),
        );
        settled.map(drop)
    }

    /// Compares the header and the chunks of BF.SCANDUMP.
    fn by_chunks(&self) -> Result {
        let header =
            |server: &Server, key: &[u8]| dump::scan(server, key, 0, false).map(|it| it.bytes);
        let target = self.settle(
            header,
            Vec::eq,
            |first, target, now| Fit::of(&first[..], target, now, header_precedes),
            |_, _| Verdict::Different(self.parameter()),
        )?;
        match Stage::of_header(&target) {
            Some(stage) => self.by_cells(&stage)?,
            None => self.by_pieces()?,
        }
        // The cells must belong to the header that was compared.
        if header_precedes(&target, &self.at_source(header)?) {
            Ok(())
        } else {
            Err(Stop::Verdict(Verdict::Changing))
        }
    }

    /// Compares the chunks of a filter that is not a stack, one after the other.
    fn by_pieces(&self) -> Result {
        let mut cursor = 1;
        while cursor > 0 {
            (cursor, _) = self.settle(
                |server, key| {
                    let chunk = dump::scan(server, key, cursor, false)?;
                    Ok((chunk.next, chunk.bytes))
                },
                PartialEq::eq,
                |first, target, now| Fit::of(first, target, now, PartialEq::eq),
                |_, _| Verdict::Different("its items differ at the target".to_owned()),
            )?;
        }
        Ok(())
    }

    /// Compares the cells of a stack at this stage: those that it has had then.
    fn by_cells(&self, stage: &Stage) -> Result {
        let end = stage.cell_bytes();
        let mut offset = 0;
        while offset < end {
            let length = SPAN_BYTES.min(end - offset);
            let target = self.settle(
                |server, key| cells(server, key, offset, length),
                Vec::eq,
                |first, target, now| Fit::of(&first[..], target, now, is_within),
                |source, target| {
                    Verdict::Different(match differs_at(&source, &target) {
                        Some(at) => {
                            format!("its bits differ at the target, from byte {}", offset + at)
                        }
                        None => "its length differs at the target".to_owned(),
                    })
                },
            )?;
            if (target.len() as u64) < length {
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
        let named = infos.and_then(|(source, target)| {
            // The order is fixed, so that the same field is named in every run.
            let names: BTreeSet<&str> = source.names().collect();
            let mut names = names.into_iter();
            names.find_map(|name| {
                let value = |info: &Info| info.get::<Option<String>>(name);
                let (own, other) = (value(&source)?, value(&target)?);
                let differs = own != other && !SERVER_FIELDS.contains(&name);
                let [own, other] = [own, other].map(|it| it.unwrap_or("none".to_owned()));
                differs.then(|| format!("{name} is {other} at the target, not {own}"))
            })
        });
        named.unwrap_or_else(|| "its header differs at the target".to_owned())
    }
}

/// Returns whether additions may lead from one header to the other. Of filters that are not plain, only equal headers
/// are compared.
fn header_precedes(one: &[u8], other: &[u8]) -> bool {
    match (Stage::of_header(one), Stage::of_header(other)) {
        (Some(one), Some(other)) => one.precedes(&other),
        _ => one == other,
    }
}

/// Returns whether additions may lead from one payload of DUMP to the other, as far as that can be told: of plain filters
/// and of count-min sketches. Of other values, only equal ones are compared.
fn payload_precedes(one: &[u8], other: &[u8]) -> bool {
    let sketches = sketches::decoded(one).zip(sketches::decoded(other));
    match &sketches {
        Some((Sketch::CountMin(one), Sketch::CountMin(other))) => sketches::precedes(one, other),
        Some((Sketch::Bloom(before), Sketch::Bloom(after))) => {
            match plain(before).zip(plain(after)) {
                Some((before, after)) => {
                    header_precedes(&before.0, &after.0) && is_within(&before.1, &after.1)
                }
                None => sketches::are_same(one, other),
            }
        }
        _ => sketches::are_same(one, other),
    }
}

/// Returns the header and all cells of a plain filter.
fn plain(object: &Object) -> Option<(Vec<u8>, Vec<u8>)> {
    let header = chunks::header(object)?;
    Stage::of_header(&header)?;
    let cells = object.filters().map(|(filter, _)| filter.bitmap());
    Some((header, cells.collect::<Vec<_>>().concat()))
}

/// Returns whether all bits of the first slice are set in the second, which may be longer.
fn is_within(bits: &[u8], others: &[u8]) -> bool {
    let mut pairs = bits.iter().zip(others);
    bits.len() <= others.len() && pairs.all(|(own, other)| own & !other == 0)
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
fn cells(server: &Server, key: &[u8], offset: u64, length: u64) -> Result<Vec<u8>, Fault> {
    let mut cells = Vec::new();
    while (cells.len() as u64) < length {
        // Cursors are offsets, counted from 1.
        let cursor = offset + cells.len() as u64 + 1;
        let chunk = dump::scan(server, key, cursor, false)?;
        if chunk.next == 0 {
            break;
        }
        cells.extend(chunk.bytes);
    }
    cells.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    Ok(cells)
}
