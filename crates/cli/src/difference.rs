//! Whether two servers hold the same value under a key: its parameters, its items, every bit and its time to live.
//!
//! Both may be written to meanwhile, the target as a replica that lags behind the source. What is read at the target is
//! held against two reads of the source, one before and one after:
//!
//! ```text
//!   source  ──first────────────────────now──▶
//!   target  ─────────there────────────────────▶   first ⊆ there ⊆ now, if bits are only ever set
//! ```
//!
//! Where it does not fit, target and source are read again after each of some pauses. The first read stays, so that a
//! replica has all the pauses to catch up with it.

use std::thread::sleep;
use std::time::Duration;

use redis::Value;

use valkeybloom_sketches::bloom::{Object, Stage, chunks};

use super::dump;
use super::expiry::Expiry;
use super::failure::Fault;
use super::payload;
use super::server::{Server, is_filter};
use super::size::Info;

/// Fields of BF.INFO that depend on the server, or follow from the others.
const OF_SERVERS: [&str; 3] = ["Size", "Max scaled capacity", "Estimated error rate"];

/// The bytes of cells that are compared at a time, if there are as many.
const SPAN_BYTES: usize = 16 << 20;

/// The end at which a server failed.
pub enum End {
    From(Fault),
    To(Fault),
}

/// The result of a comparison.
pub enum Verdict {
    Same,
    /// What differs at the target, in words.
    Different(String),
    /// The source changed while it was compared.
    Changing,
    /// The key is not at the source any more.
    Gone,
}

/// Compares a value of a type. Where the target lags behind, it is read again after each of these pauses.
pub fn compare(
    from: &Server,
    to: &Server,
    key: &[u8],
    kind: &str,
    pauses: &[Duration],
) -> Result<Verdict, End> {
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
        Verdict::Same => pair.by_expiry(),
        verdict => Ok(verdict),
    }
}

/// How a read of the target fits between two reads of the source.
enum Fit {
    /// It does.
    Fits,
    /// It does not.
    Lags,
    /// The source changed in a way that allows no comparison with its first read.
    Changed,
}

/// How reads of the target fitted in the end.
enum Settled<T> {
    /// The target had the last value.
    Same(T),
    /// The source had the first value, the target the second.
    Different(T, T),
    /// The source had this value at last, and others before.
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
    fn at_source<T>(&self, read: impl Fn(&Server, &[u8]) -> Result<T, Fault>) -> Result<T, End> {
        read(self.from, self.key).map_err(End::From)
    }

    fn at_target<T>(&self, read: impl Fn(&Server, &[u8]) -> Result<T, Fault>) -> Result<T, End> {
        read(self.to, self.key).map_err(End::To)
    }

    /// Reads the target until it fits, or the pauses are over.
    fn settle<T>(
        &self,
        mut first: T,
        read: impl Fn(&Server, &[u8]) -> Result<T, Fault>,
        are_same: impl Fn(&T, &T) -> bool,
        fit: impl Fn(&T, &T, &T) -> Fit,
    ) -> Result<Settled<T>, End> {
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

    /// Compares the times to live.
    fn by_expiry(&self) -> Result<Verdict, End> {
        let read = |server: &Server, key: &[u8]| Expiry::of(server, key);
        let are_same = |here: &Option<Expiry>, there: &Option<Expiry>| match (here, there) {
            (Some(here), Some(there)) => here.difference(there).is_none(),
            _ => false,
        };
        let first = self.at_source(read)?;
        if first.is_none() {
            return Ok(Verdict::Gone);
        }
        let settled = self.settle(first, read, are_same, |first, there, now| {
            match (first, there, now) {
                _ if are_same(there, now) => Fit::Fits,
                _ if are_same(first, now) => Fit::Lags,
                (Some(first), Some(there), Some(now)) if there.is_between(first, now) => Fit::Fits,
                _ => Fit::Changed,
            }
        })?;
        Ok(match settled {
            Settled::Same(_) => Verdict::Same,
            Settled::Different(Some(here), Some(there)) => match here.difference(&there) {
                Some(difference) => Verdict::Different(difference),
                None => Verdict::Same,
            },
            Settled::Different(_, None) => Verdict::Different("it is gone there".to_owned()),
            Settled::Different(None, _) | Settled::Changing(None) => Verdict::Gone,
            Settled::Changing(Some(_)) => Verdict::Changing,
        })
    }

    /// Compares what BF.SCANDUMP shows.
    fn by_chunks(&self) -> Result<Verdict, End> {
        let header = |server: &Server, key: &[u8]| dump::scan(server, key, 0).map(|(_, it)| it);
        let first = match self.at_source(header) {
            // No module but this one and RedisBloom has chunks.
            Err(End::From(fault)) if fault.lacks_command() => return self.by_dump(),
            first => first?,
        };
        let stage = Stage::of_header(&first);
        let settled = self.settle(first.clone(), header, <Vec<u8>>::eq, |first, there, now| {
            header_fits(first, there, now)
        });
        let there = match settled {
            Err(End::To(fault)) if fault.lacks_command() => return self.by_dump(),
            Err(end) => return Err(end),
            Ok(Settled::Same(there)) => there,
            Ok(Settled::Different(..)) => return Ok(Verdict::Different(self.parameter())),
            Ok(Settled::Changing(_)) => return Ok(Verdict::Changing),
        };
        // Filters that were stacked later have no end yet: those of the target's header are compared.
        let end = match (&stage, Stage::of_header(&there)) {
            (Some(_), Some(there)) => there.cell_bytes(),
            _ => u64::MAX,
        };
        match self.by_cells(end, stage.is_some())? {
            Verdict::Same => {}
            verdict => return Ok(verdict),
        }
        // Whatever it was that the cells belonged to, it must still be that: a window gains and loses periods.
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
    fn by_cells(&self, end: u64, is_plain: bool) -> Result<Verdict, End> {
        let mut offset = 0;
        loop {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let read = |most: usize| {
                move |server: &Server, key: &[u8]| span(server, key, offset, most.min(left))
            };
            let first = self.at_source(|server, key| {
                let at_least = SPAN_BYTES.min(left);
                let mut first = whole_chunks(server, key, offset, at_least)?;
                first.truncate(left);
                Ok(first)
            })?;
            // One byte more than there is shows that there is no more.
            let is_last = first.len() < SPAN_BYTES.min(left) || first.len() == left;
            let length = first.len() + usize::from(is_last);
            let fit = if is_plain { cells_fit } else { value_fits };
            let fit = |first: &Vec<u8>, there: &Vec<u8>, now: &Vec<u8>| fit(first, there, now);
            match self.settle(first, read(length), <Vec<u8>>::eq, fit)? {
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

    /// Compares the payloads of DUMP.
    fn by_dump(&self) -> Result<Verdict, End> {
        let first = self.at_source(dump::payload)?;
        if first.is_none() {
            return Ok(Verdict::Gone);
        }
        let are_same = |here: &Option<Vec<u8>>, there: &Option<Vec<u8>>| match (here, there) {
            (Some(here), Some(there)) => payload::are_same(here, there),
            (here, there) => here.is_none() && there.is_none(),
        };
        let settled = self.settle(first, dump::payload, are_same, |first, there, now| {
            match (first, there, now) {
                (Some(first), Some(there), Some(now)) => payload_fits(first, there, now),
                _ if are_same(first, now) => Fit::Lags,
                _ => Fit::Changed,
            }
        })?;
        Ok(match settled {
            Settled::Same(Some(_)) => Verdict::Same,
            Settled::Same(None) | Settled::Different(None, _) | Settled::Changing(None) => {
                Verdict::Gone
            }
            Settled::Different(Some(_), None) => Verdict::Different("it is gone there".to_owned()),
            Settled::Different(Some(_), Some(_)) => {
                Verdict::Different("its DUMP differs there".to_owned())
            }
            Settled::Changing(Some(_)) => Verdict::Changing,
        })
    }

    /// The parameter that differs where headers do, as BF.INFO names it.
    fn parameter(&self) -> String {
        let infos = self.at_source(Info::of).ok();
        let infos = infos.zip(self.at_target(Info::of).ok());
        let named = infos.and_then(|(here, there)| {
            let mut fields: Vec<_> = here.fields().iter().collect();
            // Always the same one, if several differ.
            fields.sort_by_key(|(name, _)| *name);
            fields.into_iter().find_map(|(name, value)| {
                let other = there.fields().get(name).unwrap_or(value);
                let differs = other != value && !OF_SERVERS.contains(&name.as_str());
                let (value, other) = (text(value), text(other));
                differs.then(|| format!("{name} is {other} there, not {value}"))
            })
        });
        named.unwrap_or_else(|| "its header differs there".to_owned())
    }
}

/// How a value fits that has to be the source's at some moment.
fn value_fits(first: &[u8], there: &[u8], now: &[u8]) -> Fit {
    if there == now {
        Fit::Fits
    } else if first == now {
        Fit::Lags
    } else {
        Fit::Changed
    }
}

/// How a header fits.
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

/// How cells of a plain filter fit.
fn cells_fit(first: &[u8], there: &[u8], now: &[u8]) -> Fit {
    if !is_within(first, now) {
        Fit::Changed
    } else if is_within(first, there) && is_within(there, now) {
        Fit::Fits
    } else {
        Fit::Lags
    }
}

/// How a payload of DUMP fits.
fn payload_fits(first: &[u8], there: &[u8], now: &[u8]) -> Fit {
    if payload::are_same(there, now) {
        return Fit::Fits;
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

/// The header and all cells of a plain filter.
fn plain(object: &Object) -> Option<(Vec<u8>, Vec<u8>)> {
    let header = chunks::header(object)?;
    Stage::of_header(&header)?;
    let cells = object.views().map(|view| view.bitmap());
    let cells = cells.collect::<Option<Vec<_>>>()?;
    Some((header, cells.concat()))
}

/// Whether all bits of the first are set in the second, which may be longer.
fn is_within(bits: &[u8], others: &[u8]) -> bool {
    let mut pairs = bits.iter().zip(others);
    bits.len() <= others.len() && pairs.all(|(own, other)| own & !other == 0)
}

/// The first byte that differs; of a plain filter, rather one that lacks a bit of the source.
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

/// Cells from an offset on, in whole chunks: at least this many bytes, if there are as many.
fn whole_chunks(
    server: &Server,
    key: &[u8],
    offset: u64,
    at_least: usize,
) -> Result<Vec<u8>, Fault> {
    let mut cells = Vec::new();
    while cells.len() < at_least {
        // The cursor is an offset, from 1.
        let cursor = offset + cells.len() as u64 + 1;
        let (next, chunk) = dump::scan(server, key, cursor)?;
        if next == 0 {
            break;
        }
        cells.extend(chunk);
    }
    Ok(cells)
}

/// Cells from an offset on: this many bytes, if there are as many.
fn span(server: &Server, key: &[u8], offset: u64, length: usize) -> Result<Vec<u8>, Fault> {
    let mut cells = whole_chunks(server, key, offset, length)?;
    cells.truncate(length);
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
