//! Comparison of one key at two servers: its parameters, its items, every bit and its time to live.
//!
//! Clients may write during the comparison, and the target may be a replica that lags behind the source. A read of the
//! target is compared with two reads of the source, one before and one after:
//!
//! ```text
//!   source  ──first────────────────────now──▶
//!   target  ─────────there────────────────────▶   first ⊆ there ⊆ now, if bits are only ever set
//! ```
//!
//! If the target does not fit, target and source are read again after each pause. The first read stays, so that a replica
//! has all the pauses to catch up with it.

use std::thread::sleep;
use std::time::Duration;

use redis::Value;

use valkeybloom_sketches::bloom::{Object, Stage, chunks};

use super::dump;
use super::expiry::Expiry;
use super::failure::Fault;
use super::info::Info;
use super::payload;
use super::server::{Server, is_filter};
use super::sketches::{self, Difference};

/// The fields of BF.INFO that depend on the server, or follow from other fields.
const SERVER_FIELDS: [&str; 3] = ["Size", "Max scaled capacity", "Estimated error rate"];

/// The bytes of cells that are compared at a time.
const SPAN_BYTES: usize = 16 << 20;

/// A fault, and the server that it comes from.
pub enum SideFault {
    Source(Fault),
    Target(Fault),
}

type Result<T, E = SideFault> = std::result::Result<T, E>;

/// The result of a comparison.
pub enum Verdict {
    Same,
    /// The target has a sketch of the same commands, which differs in this way within its accuracy.
    WithinAccuracy(&'static str),
    /// The target differs in this way.
    Different(String),
    /// The source changed during the comparison.
    Changing,
    /// The source no longer has the key.
    Gone,
}

/// Compares a value of a type. While the target lags behind, it is read again after each pause.
pub fn compare(
    from: &Server,
    to: &Server,
    key: &[u8],
    kind: &str,
    pauses: &[Duration],
) -> Result<Verdict> {
    let pair = Pair {
        from,
        to,
        key,
        pauses,
    };
    let verdict = if is_filter(kind) {
        pair.by_chunks()?
    } else {
        pair.by_dump()?
    };
    match verdict {
        found @ (Verdict::Same | Verdict::WithinAccuracy(_)) => {
            pair.by_expiry().map(|expiry| match expiry {
                Verdict::Same => found,
                expiry => expiry,
            })
        }
        verdict => Ok(verdict),
    }
}

/// The relation of a read of the target to two reads of the source.
enum Fit {
    /// The target has a value that the source may have had between the reads.
    Fits,
    /// The target does not have such a value yet.
    Lags,
    /// The source changed in a way that rules out a comparison with its first read.
    Changed,
}

/// The final relation of the reads, after all pauses.
enum Settled<T> {
    /// The target has this value.
    Same(T),
    /// The source has the first value, the target the second.
    Different(T, T),
    /// The source changed to this value.
    Changing(T),
}

/// A key at both servers.
struct Pair<'p> {
    from: &'p Server,
    to: &'p Server,
    key: &'p [u8],
    pauses: &'p [Duration],
}

impl Pair<'_> {
    fn at_source<T>(&self, read: impl Fn(&Server, &[u8]) -> Result<T, Fault>) -> Result<T> {
        read(self.from, self.key).map_err(SideFault::Source)
    }

    fn at_target<T>(&self, read: impl Fn(&Server, &[u8]) -> Result<T, Fault>) -> Result<T> {
        read(self.to, self.key).map_err(SideFault::Target)
    }

    /// Reads the target until it fits, or the pauses are over.
    fn settle<T>(
        &self,
        mut first: T,
        read: impl Fn(&Server, &[u8]) -> Result<T, Fault>,
        are_same: impl Fn(&T, &T) -> bool,
        fit: impl Fn(&T, &T, &T) -> Fit,
    ) -> Result<Settled<T>> {
        let mut pauses = self.pauses.iter();
        loop {
            let there = self.at_target(&read)?;
            if are_same(&first, &there) {
                return Ok(Settled::Same(there));
            }
            let now = self.at_source(&read)?;
            let fit = fit(&first, &there, &now);
            match (fit, pauses.next()) {
                (Fit::Fits, _) => return Ok(Settled::Same(there)),
                (Fit::Lags, None) => return Ok(Settled::Different(first, there)),
                (Fit::Changed, None) => return Ok(Settled::Changing(now)),
                (Fit::Lags, Some(pause)) => sleep(*pause),
                (Fit::Changed, Some(pause)) => {
                    first = now;
                    sleep(*pause);
                }
            }
        }
    }

    /// Compares values that are read whole; `read` returns `None` for a missing key.
    fn by_value<T>(
        &self,
        read: impl Fn(&Server, &[u8]) -> Result<Option<T>, Fault>,
        are_same: impl Fn(&T, &T) -> bool,
        fit: impl Fn(&T, &T, &T) -> Fit,
        difference: impl Fn(&T, &T) -> Verdict,
    ) -> Result<Verdict> {
        let first = self.at_source(&read)?;
        if first.is_none() {
            return Ok(Verdict::Gone);
        }
        let are_same = |here: &Option<T>, there: &Option<T>| match (here, there) {
            (Some(here), Some(there)) => are_same(here, there),
            (here, there) => here.is_none() && there.is_none(),
        };
        let settled = self.settle(first, read, are_same, |first, there, now| {
            match (first, there, now) {
                (Some(first), Some(there), Some(now)) => fit(first, there, now),
                _ if are_same(first, now) => Fit::Lags,
                _ => Fit::Changed,
            }
        })?;
        Ok(match settled {
            Settled::Same(Some(_)) => Verdict::Same,
            Settled::Same(None) | Settled::Different(None, _) | Settled::Changing(None) => {
                Verdict::Gone
            }
            Settled::Different(Some(here), Some(there)) => difference(&here, &there),
            Settled::Different(Some(_), None) => Verdict::Different("it is gone there".to_owned()),
            Settled::Changing(Some(_)) => Verdict::Changing,
        })
    }

    /// Compares the times to live.
    fn by_expiry(&self) -> Result<Verdict> {
        let are_same = |here: &Expiry, there: &Expiry| here.difference(there).is_none();
        self.by_value(
            Expiry::of,
            are_same,
            |first, there, now| match there {
                _ if are_same(there, now) => Fit::Fits,
                _ if are_same(first, now) => Fit::Lags,
                _ if there.is_between(first, now) => Fit::Fits,
                _ => Fit::Changed,
            },
            |here, there| Verdict::Different(here.difference(there).unwrap_or_default()),
        )
    }

    /// Compares payloads of DUMP.
    fn by_dump(&self) -> Result<Verdict> {
        self.by_value(
            dump::payload,
            |here, there| payload::are_same(here, there),
            |first, there, now| payload_fits(first, there, now),
            |here, there| match sketches::difference(here, there) {
                Some(Difference::WithinAccuracy(how)) => Verdict::WithinAccuracy(how),
                Some(Difference::Real(text)) => Verdict::Different(text),
                None => Verdict::Different("its DUMP differs there".to_owned()),
            },
        )
    }

    /// Compares the header and the chunks of BF.SCANDUMP.
    fn by_chunks(&self) -> Result<Verdict> {
        let header = |server: &Server, key: &[u8]| dump::scan(server, key, 0).map(|(_, it)| it);
        let first = match self.at_source(header) {
            // Only this module and RedisBloom have chunks.
            Err(SideFault::Source(fault)) if fault.lacks_command() => return self.by_dump(),
            first => first?,
        };
        let stage = Stage::of_header(&first);
        let settled = self.settle(first.clone(), header, <Vec<u8>>::eq, |first, there, now| {
            header_fits(first, there, now)
        });
        let there = match settled {
            Err(SideFault::Target(fault)) if fault.lacks_command() => return self.by_dump(),
            Err(fault) => return Err(fault),
            Ok(Settled::Same(there)) => there,
            Ok(Settled::Different(..)) => return Ok(Verdict::Different(self.parameter())),
            Ok(Settled::Changing(_)) => return Ok(Verdict::Changing),
        };
        // Filters that the source has stacked since are not in the target's header, and not compared.
        let end = match (&stage, Stage::of_header(&there)) {
            (Some(_), Some(there)) => there.cell_bytes(),
            _ => u64::MAX,
        };
        match self.by_cells(end, stage.is_some())? {
            Verdict::Same => {}
            verdict => return Ok(verdict),
        }
        // The cells must belong to the header that was compared: a window gains and loses periods.
        let now = self.at_source(header)?;
        let is_unchanged = match (&stage, Stage::of_header(&now)) {
            (Some(first), Some(now)) => first.precedes(&now),
            _ => there == now,
        };
        Ok(if is_unchanged {
            Verdict::Same
        } else {
            Verdict::Changing
        })
    }

    /// Compares the cells of all filters, up to this number of bytes.
    fn by_cells(&self, end: u64, is_plain: bool) -> Result<Verdict> {
        let mut offset = 0;
        loop {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let read = |at_least: usize, most: usize| {
                move |server: &Server, key: &[u8]| {
                    let mut cells = whole_chunks(server, key, offset, at_least)?;
                    cells.truncate(most);
                    Ok(cells)
                }
            };
            let first = self.at_source(read(SPAN_BYTES.min(left), left))?;
            // A request for one more byte than exists detects a longer value.
            let is_last = first.len() < SPAN_BYTES.min(left) || first.len() == left;
            let length = left.min(first.len() + usize::from(is_last));
            let fit = if is_plain { cells_fit } else { value_fits };
            let fit = |first: &Vec<u8>, there: &Vec<u8>, now: &Vec<u8>| fit(first, there, now);
            match self.settle(first, read(length, length), <Vec<u8>>::eq, fit)? {
                Settled::Same(there) => offset += there.len() as u64,
                Settled::Different(here, there) => {
                    let at = differs_at(&here, &there, is_plain);
                    return Ok(Verdict::Different(match at {
                        Some(at) => format!("its bits differ there, from byte {}", offset + at),
                        None => "its length differs there".to_owned(),
                    }));
                }
                Settled::Changing(_) => return Ok(Verdict::Changing),
            }
            if is_last {
                return Ok(Verdict::Same);
            }
        }
    }

    /// Names a field of BF.INFO that differs, to explain headers that differ.
    fn parameter(&self) -> String {
        let infos = self.at_source(Info::of).ok();
        let infos = infos.zip(self.at_target(Info::of).ok());
        let named = infos.and_then(|(here, there)| {
            let mut fields: Vec<_> = here.0.iter().collect();
            // The order is fixed, so that the same field is named in every run.
            fields.sort_by_key(|(name, _)| *name);
            fields.into_iter().find_map(|(name, value)| {
                let other = there.0.get(name).unwrap_or(value);
                let is_of_server = SERVER_FIELDS.contains(&&name[..]);
                let differs = other != value && !is_of_server;
                differs.then(|| format!("{name} is {} there, not {}", text(other), text(value)))
            })
        });
        named.unwrap_or_else(|| "its header differs there".to_owned())
    }
}

/// Compares a read of the target that must equal a read of the source.
fn value_fits(first: &[u8], there: &[u8], now: &[u8]) -> Fit {
    if there == now {
        Fit::Fits
    } else if first == now {
        Fit::Lags
    } else {
        Fit::Changed
    }
}

/// Compares headers: that of a plain filter fits between two others if additions lead from one to the next.
fn header_fits(first: &[u8], there: &[u8], now: &[u8]) -> Fit {
    let [before, between, after] = [first, there, now].map(Stage::of_header);
    match (before, between, after) {
        (Some(before), between, Some(after)) if before.precedes(&after) => {
            let fits = between.is_some_and(|it| before.precedes(&it) && it.precedes(&after));
            if fits { Fit::Fits } else { Fit::Lags }
        }
        _ => value_fits(first, there, now),
    }
}

/// Compares cells of a plain filter, whose bits are only ever set.
fn cells_fit(first: &[u8], there: &[u8], now: &[u8]) -> Fit {
    if !is_within(first, now) {
        Fit::Changed
    } else if is_within(first, there) && is_within(there, now) {
        Fit::Fits
    } else {
        Fit::Lags
    }
}

/// Compares payloads of DUMP: plain filters by header and cells, count-min sketches by counters, other values as a
/// whole.
fn payload_fits(first: &[u8], there: &[u8], now: &[u8]) -> Fit {
    if payload::are_same(there, now) {
        return Fit::Fits;
    }
    if let Some(is_between) = sketches::is_between(first, there, now) {
        return if is_between { Fit::Fits } else { Fit::Lags };
    }
    let plain =
        [first, there, now].map(|payload| payload::filter(payload).and_then(|it| plain(&it)));
    match plain {
        [Some(first), Some(there), Some(now)] => match header_fits(&first.0, &there.0, &now.0) {
            Fit::Fits => cells_fit(&first.1, &there.1, &now.1),
            fit => fit,
        },
        _ if payload::are_same(first, now) => Fit::Lags,
        _ => Fit::Changed,
    }
}

/// Returns the header and all cells of a plain filter.
fn plain(object: &Object) -> Option<(Vec<u8>, Vec<u8>)> {
    let header = chunks::header(object)?;
    Stage::of_header(&header)?;
    let cells = object.views().map(|view| view.bitmap());
    let cells = cells.collect::<Option<Vec<_>>>()?;
    Some((header, cells.concat()))
}

/// Returns whether all bits of the first slice are set in the second, which may be longer.
fn is_within(bits: &[u8], others: &[u8]) -> bool {
    let mut pairs = bits.iter().zip(others);
    bits.len() <= others.len() && pairs.all(|(own, other)| own & !other == 0)
}

/// Returns the position of the first byte that differs. For a plain filter, bytes that lack a bit of the source go
/// first.
fn differs_at(here: &[u8], there: &[u8], is_plain: bool) -> Option<u64> {
    let find = |differs: fn(u8, u8) -> bool| {
        let mut pairs = here.iter().zip(there);
        pairs.position(|(own, other)| differs(*own, *other))
    };
    let lacks = if is_plain {
        find(|own, other| own & !other != 0)
    } else {
        None
    };
    let at = lacks.or_else(|| find(|own, other| own != other))?;
    u64::try_from(at).ok()
}

/// Reads at least this many bytes of cells from an offset on, unless the value ends before, in whole chunks.
fn whole_chunks(
    server: &Server,
    key: &[u8],
    offset: u64,
    at_least: usize,
) -> Result<Vec<u8>, Fault> {
    let mut cells = Vec::new();
    while cells.len() < at_least {
        // Cursors are offsets, counted from 1.
        let cursor = offset + cells.len() as u64 + 1;
        let (next, chunk) = dump::scan(server, key, cursor)?;
        if next == 0 {
            break;
        }
        cells.extend(chunk);
    }
    Ok(cells)
}

fn text(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Nil => "none".to_owned(),
        other => format!("{other:?}"),
    }
}
