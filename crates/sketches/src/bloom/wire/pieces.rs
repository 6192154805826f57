//! The fingerprints of an object of tables, in pieces.
//!
//! A *position* has the first 52 bits of a fingerprint, with zeros behind a shorter one. A piece has all entries of all tables
//! whose positions are in a range. So an entry that is there while pieces are read one by one is in exactly one of them,
//! whatever is added or removed meanwhile. The ranges follow from the number of fingerprints, so equal objects have equal bytes.
//!
//! | part | fields, eight bytes each |
//! |---|---|
//! | the piece | first position; the one behind the last; newest period with items; the period before which all were dropped; number of tables |
//! | each table, oldest first | number of its step; the items that it is for; bits of a fingerprint; number of entries; *k*; length of the entries in bytes; the entries |
//! | each entry, as bits | the distance from the entry before, Rice-coded: its last *k* bits behind as many ones as the others say, and a zero; the count in Elias' gamma code, or the number of periods before the newest |
//!
//! References: Rice and Plaunt 1971; Elias 1975.

use crate::MAX_CAPACITY;
use crate::bloom::law::TableStep;
use crate::bloom::object::{Clock, Object, Part, Shape, Tables};
use crate::bytes::{Buffer, ByteCursor, DecodeError, RdbRead, RdbWrite, push};
use crate::hash::Hasher;
use crate::machine::memory;
use crate::machine::words::begun_with;
use crate::table::{Filling, Held, Payload, Period, Refused, Table};

/// The bits of a position. Cursors are positions, and some clients read integers as doubles.
const POSITION_BITS: u32 = 52;

/// The position behind the last one.
pub const END: u64 = 1 << POSITION_BITS;

/// The most entries that a piece has on average.
const ENTRIES: u64 = 1 << 15;

/// The entries of a table after which a piece ends. Only with fingerprints that are not random does a range have so many.
const MOST_ENTRIES: usize = 1 << 18;

/// Returns the end of the range that begins at a position, and the piece of it; `None` if allocation fails.
pub fn piece(tables: &Tables, begin: u64) -> Option<(u64, Vec<u8>)> {
    // Others are about to go.
    let parts = tables.parts_in_use();
    let all: u64 = parts.clone().map(|part| part.table.fingerprints()).sum();
    let log = all.div_ceil(ENTRIES).next_power_of_two().ilog2();
    let length = END >> log.min(POSITION_BITS);
    let mut end = (begin / length + 1) * length;
    for Part { step, table } in parts.clone() {
        let [first, after] = [begin, end].map(|position| fingerprint_at(position, step.bits));
        if table.fingerprints() > MOST_ENTRIES as u64
            && let Some(next) = table.iter(first..after).nth(MOST_ENTRIES)
        {
            end = position_of(next.fingerprint, step.bits);
        }
    }
    let [newest, dropped] =
        [tables.newest_period(), tables.dropped()].map(|period| tables.stored(period));
    let count = parts.clone().count() as u64;
    let mut out = Buffer::default();
    for field in [begin, end, newest, dropped, count] {
        out.uint(field);
    }
    for part in parts {
        write_part(tables, part, begin..end, &mut out);
    }
    Some((end, out.end()?))
}

/// Returns the first fingerprint of so many bits at a position or behind it.
const fn fingerprint_at(position: u64, bits: u32) -> u64 {
    match bits.checked_sub(POSITION_BITS) {
        Some(more) => position << more,
        None => position.div_ceil(1 << (POSITION_BITS - bits)),
    }
}

/// Returns the position of a fingerprint of so many bits.
const fn position_of(fingerprint: u64, bits: u32) -> u64 {
    match bits.checked_sub(POSITION_BITS) {
        Some(more) => fingerprint >> more,
        None => fingerprint << (POSITION_BITS - bits),
    }
}

fn write_part(tables: &Tables, part: &Part, range: std::ops::Range<u64>, out: &mut Buffer) {
    let TableStep { number, most, bits } = part.step;
    let [begin, end] = [range.start, range.end].map(|position| fingerprint_at(position, bits));
    let mut entries = Bits::default();
    let within = part.table.iter(begin..end);
    let count = within.clone().count() as u64;
    let k = rice(end.saturating_sub(begin), count);
    let (mut next, newest) = (begin, tables.newest_period().0);
    for Held { fingerprint, value } in within {
        let distance = fingerprint - next;
        next = fingerprint + 1;
        entries.put_ones(distance >> k);
        entries.put(distance << 1 & ((2 << k) - 1), k + 1);
        match part.table.payload() {
            Payload::Nothing => {}
            Payload::Count => {
                let log = value.ilog2();
                entries.put_ones(log.into());
                entries.put(0, 1);
                entries.put(value ^ 1 << log, log);
            }
            Payload::Period(periods) => entries.put(newest - value, age_bits(periods)),
        }
    }
    let Some(entries) = entries.end() else {
        return out.no_memory("entries");
    };
    for field in [number, most, bits.into(), count, k.into()] {
        out.uint(field);
    }
    out.bytes(&entries);
}

/// Returns the number of bits that a Rice code leaves as they are: the logarithm of ln 2 times the mean distance.
fn rice(span: u64, count: u64) -> u32 {
    let mean = span.checked_div(count).unwrap_or(0);
    let median = (u128::from(mean) * 710) >> 10;
    median.checked_ilog2().unwrap_or(0)
}

/// Returns the bits of the number of periods before the newest: there is one more than the window has.
const fn age_bits(periods: u32) -> u32 {
    u32::BITS - periods.leading_zeros()
}

/// Bits that are written, the lowest of a byte first.
#[derive(Default)]
struct Bits {
    out: Buffer,
    word: u128,
    used: u32,
}

impl Bits {
    /// Appends at most 64 bits. No other bit of `bits` is set.
    fn put(&mut self, bits: u64, count: u32) {
        self.word |= u128::from(bits) << self.used;
        self.used += count;
        if self.used >= u64::BITS {
            self.flush(8);
        }
    }

    #[inline]
    fn put_ones(&mut self, count: u64) {
        let mut left = count;
        while left > 0 {
            let some = u32::try_from(left.min(63)).unwrap_or(63);
            self.put((1 << some) - 1, some);
            left -= u64::from(some);
        }
    }

    fn flush(&mut self, bytes: u32) {
        self.out.put(&self.word.to_le_bytes()[..bytes as usize]);
        self.word = self.word.checked_shr(8 * bytes).unwrap_or(0);
        self.used = self.used.saturating_sub(8 * bytes);
    }

    fn end(mut self) -> Option<Vec<u8>> {
        self.flush(self.used.div_ceil(8));
        self.out.end()
    }
}

/// Bits that are read.
struct BitCursor<'b> {
    bytes: &'b [u8],
    bit: usize,
}

impl BitCursor<'_> {
    /// Returns the next bits, with zeros behind the end.
    fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.bit / 8..).unwrap_or_default();
        let word = rest.first_chunk().map(|word| u64::from_le_bytes(*word));
        word.unwrap_or_else(|| begun_with(rest)) >> (self.bit % 8)
    }

    /// Skips bits.
    fn skip(&mut self, count: u32) -> Result<(), DecodeError> {
        self.bit += count as usize;
        if self.bit > 8 * self.bytes.len() {
            return Err("entries end too early".into());
        }
        Ok(())
    }

    /// Reads at most 64 bits.
    fn get(&mut self, count: u32) -> Result<u64, DecodeError> {
        let (mut bits, mut done) = (0, 0);
        while done < count {
            let some = (count - done).min(56);
            bits |= (self.peek() & ((1 << some) - 1)) << done;
            self.skip(some)?;
            done += some;
        }
        Ok(bits)
    }

    /// Reads ones, the zero behind them, and `k` bits. Returns the number of the ones, and the bits.
    #[inline]
    fn rice(&mut self, k: u32) -> Result<(u64, u64), DecodeError> {
        let word = self.peek();
        let ones = word.trailing_ones();
        if ones + 1 + k > 56 {
            return Ok((self.ones()?, self.get(k)?));
        }
        self.skip(ones + 1 + k)?;
        Ok((ones.into(), word >> (ones + 1) & ((1 << k) - 1)))
    }

    /// Reads ones, and the zero behind them. Returns their number.
    fn ones(&mut self) -> Result<u64, DecodeError> {
        let mut all = 0;
        loop {
            let ones = self.peek().trailing_ones().min(56);
            all += u64::from(ones);
            self.skip(ones)?;
            if ones < 56 {
                self.skip(1)?;
                return Ok(all);
            }
        }
    }
}

/// A table in a piece.
struct Section<'p> {
    step: TableStep,
    /// The number of entries.
    count: u64,
    k: u32,
    entries: &'p [u8],
}

impl<'p> Section<'p> {
    fn read(from: &mut ByteCursor<'p>, payload: Payload) -> Result<Self, DecodeError> {
        let (number, most, bits) = (from.uint()?, from.uint()?, from.uint()?);
        let (count, k, length) = (from.uint()?, from.uint()?, from.uint()?);
        let entries = from.slice(length)?;
        let [bits, k] = [bits, k].map(|bits| u32::try_from(bits).unwrap_or(u32::MAX));
        let step = TableStep { number, most, bits };
        let is_known = (Table::LEAST_BITS..=payload.most_bits()).contains(&bits)
            && (1..=MAX_CAPACITY).contains(&most)
            && step.rate_at(most) < 1.0
            && k <= bits
            && count <= length.saturating_mul(8);
        if !is_known {
            return Err("table out of range".into());
        }
        Ok(Self {
            step,
            count,
            k,
            entries,
        })
    }
}

/// A piece, taken apart.
struct Piece<'p> {
    begin: u64,
    end: u64,
    newest: u64,
    dropped: u64,
    sections: Vec<Section<'p>>,
}

impl<'p> Piece<'p> {
    fn read(bytes: &'p [u8], shape: &Shape) -> Result<Self, DecodeError> {
        let payload = shape.payload();
        let mut from = ByteCursor(bytes);
        let (begin, end) = (from.uint()?, from.uint()?);
        let (newest, dropped) = (from.uint()?, from.uint()?);
        if !(begin < end && end <= END) {
            return Err("piece out of range".into());
        }
        let count = from.uint()?;
        if !(1..=TableStep::MOST as u64).contains(&count) {
            return Err("piece of too many tables".into());
        }
        if newest.max(dropped) > Clock::LAST_PERIOD + 1 + Clock::least_ahead(shape.window()) {
            return Err("period out of range".into());
        }
        let mut sections: Vec<Section> = Vec::new();
        for _ in 0..count {
            let section = Section::read(&mut from, payload)?;
            let is_next = |last: &Section| last.step.number < section.step.number;
            if !sections.last().is_none_or(is_next) {
                return Err("tables out of order".into());
            }
            push(&mut sections, section)?;
        }
        from.end()?;
        Ok(Self {
            begin,
            end,
            newest,
            dropped,
            sections,
        })
    }

    /// Passes the entries of a section, with counts, or the numbers of periods before the newest.
    fn each(
        &self,
        section: &Section,
        payload: Payload,
        mut pass: impl FnMut(u64, u64) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let bits = section.step.bits;
        let end = fingerprint_at(self.end, bits);
        let mut next = fingerprint_at(self.begin, bits);
        let mut from = BitCursor {
            bytes: section.entries,
            bit: 0,
        };
        for _ in 0..section.count {
            let (high, low) = from.rice(section.k)?;
            let fingerprint = next.saturating_add(high << section.k | low);
            if high > u64::MAX >> (section.k + 1) || fingerprint >= end {
                return Err("fingerprint out of range".into());
            }
            let payload = match payload {
                Payload::Nothing => 0,
                Payload::Count => {
                    let log = from.ones()?;
                    let log = u32::try_from(log).ok().filter(|log| *log < u64::BITS);
                    let log = log.ok_or("count out of range")?;
                    1 << log | from.get(log)?
                }
                Payload::Period(periods) => {
                    let age = from.get(age_bits(periods))?;
                    let age = Some(age).filter(|age| *age <= periods.into());
                    age.ok_or("period out of range")?
                }
            };
            pass(fingerprint, payload)?;
            next = fingerprint + 1;
        }
        if from.bit.div_ceil(8) != section.entries.len() {
            return Err("bytes behind the entries".into());
        }
        Ok(())
    }
}

impl From<Refused> for DecodeError {
    fn from(_: Refused) -> Self {
        // Tables are made without a limit.
        Self::NoMemory
    }
}

/// An object while its pieces are read.
#[derive(Debug)]
pub struct Pieces {
    shape: Shape,
    hasher: Hasher,
    all: Vec<Vec<u8>>,
    /// The position behind the last piece.
    end: u64,
}

impl Pieces {
    /// Begins an object.
    pub const fn new(shape: Shape, hasher: Hasher) -> Self {
        Self {
            shape,
            hasher,
            all: Vec::new(),
            end: 0,
        }
    }

    /// Returns the pieces so far.
    pub fn all(&self) -> &[Vec<u8>] {
        &self.all
    }

    /// Returns the position behind the last piece.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Returns the begin of the range of a piece.
    pub fn begin_of(piece: &[u8]) -> Option<u64> {
        piece.first_chunk().map(|begin| u64::from_le_bytes(*begin))
    }

    /// Returns the end of the range of a piece.
    pub fn end_of(piece: &[u8]) -> Option<u64> {
        let (_, rest) = piece.split_first_chunk::<8>()?;
        rest.first_chunk().map(|end| u64::from_le_bytes(*end))
    }

    /// Returns the size of the pieces in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let pieces = self.all.iter().map(Vec::capacity);
        let table = self.all.capacity() * size_of::<Vec<u8>>();
        (table + pieces.sum::<usize>()) as u64
    }

    /// Takes the next piece. If it is not valid, nothing changes.
    pub fn push(&mut self, mut piece: Vec<u8>) -> Result<(), DecodeError> {
        let payload = self.shape.payload();
        let read = Piece::read(&piece, &self.shape)?;
        if read.begin != self.end {
            return Err("piece out of order".into());
        }
        for section in &read.sections {
            read.each(section, payload, |_, _| Ok(()))?;
        }
        let end = read.end;
        drop(read);
        memory::fit(&mut piece);
        push(&mut self.all, piece)?;
        self.end = end;
        Ok(())
    }

    /// Takes the last piece back.
    pub fn pop(&mut self) {
        if let Some(piece) = self.all.pop() {
            self.end = Self::begin_of(&piece).unwrap_or(0);
        }
    }

    /// Makes the object.
    pub fn build(&self) -> Result<Object, DecodeError> {
        if self.end != END {
            return Err("missing pieces".into());
        }
        let mut pieces = memory::reserved(self.all.len()).ok_or(DecodeError::NoMemory)?;
        for piece in &self.all {
            pieces.push(Piece::read(piece, &self.shape)?);
        }
        // The newest period is never followed by an earlier one, unless the clock was set back, and all periods with it.
        let mut next = u64::MAX;
        for piece in pieces.iter_mut().rev() {
            piece.newest = piece.newest.min(next);
            if piece.sections.iter().any(|section| section.count > 0) {
                next = piece.newest;
            }
        }
        let periods = self.shape.most_periods() - 1;
        let newest = pieces.iter().map(|piece| piece.newest).max().unwrap_or(0);
        let dropped = pieces.last().map_or(0, |last| last.dropped);
        let maker = Maker {
            payload: self.shape.payload(),
            // What expired while the pieces were made is left out.
            oldest: newest.saturating_sub(periods).max(dropped).max(periods),
            current: Period(newest.saturating_sub(1)),
        };
        let sections = by_number(&pieces)?;
        let number_of = |(_, section): &(&Piece, &Section)| section.step.number;
        let last = sections.last().map(number_of);
        let mut parts = Vec::new();
        for sections in sections.chunk_by(|one, other| number_of(one) == number_of(other)) {
            let part = maker.make(sections)?;
            if part.table.fingerprints() > 0 || last == Some(part.step.number) {
                push(&mut parts, part)?;
            }
            if parts.len() > TableStep::MOST {
                return Err("too many tables".into());
            }
        }
        memory::fit(&mut parts);
        let periods_left = parts.iter().flat_map(|part| part.table.periods());
        let newest_left = periods_left.map(|(period, _)| period.0).max().unwrap_or(0);
        // The tables have dropped what the newest period leaves out. Without items of that period, only `dropped` says so.
        let dropped = if newest_left < newest {
            dropped.max(newest.saturating_sub(periods))
        } else {
            dropped
        };
        let tables = Tables::of_parts(&self.shape, self.hasher, parts, Period(dropped))?;
        Ok(Object::of_tables(tables))
    }
}

/// Returns the sections of all pieces by the numbers of their tables, each with its piece.
fn by_number<'a, 'p>(
    pieces: &'a [Piece<'p>],
) -> Result<Vec<(&'a Piece<'p>, &'a Section<'p>)>, DecodeError> {
    let count = pieces.iter().map(|piece| piece.sections.len()).sum();
    let mut all = memory::reserved(count).ok_or(DecodeError::NoMemory)?;
    for piece in pieces {
        all.extend(piece.sections.iter().map(|section| (piece, section)));
    }
    all.sort_unstable_by_key(|(piece, section)| (section.step.number, piece.begin));
    Ok(all)
}

/// Makes tables of their sections.
struct Maker {
    payload: Payload,
    /// The first period that is kept.
    oldest: u64,
    /// The period before the newest.
    current: Period,
}

impl Maker {
    fn make(&self, sections: &[(&Piece, &Section)]) -> Result<Part, DecodeError> {
        let step = sections[0].1.step;
        if sections.iter().any(|(_, section)| section.step != step) {
            return Err("tables of one number that differ".into());
        }
        let mut entries = 0;
        if self.payload == Payload::Count {
            self.each(sections, |_, count| {
                entries += Payload::Count.entries(count);
                Ok(())
            })?;
        } else {
            entries = sections.iter().map(|(_, section)| section.count).sum();
        }
        let mut filling = Filling::new(step.bits, self.payload, entries, self.current)?;
        self.each(sections, |fingerprint, held| {
            Ok(filling.push(fingerprint, held)?)
        })?;
        let table = Table::filled(filling)?;
        Ok(Part { step, table })
    }

    /// Passes the fingerprints that are kept, each with its count, or the number of its period.
    fn each(
        &self,
        sections: &[(&Piece, &Section)],
        mut pass: impl FnMut(u64, u64) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        for (piece, section) in sections {
            piece.each(section, self.payload, |fingerprint, held| {
                match self.payload {
                    Payload::Nothing | Payload::Count => pass(fingerprint, held),
                    Payload::Period(_) => match piece.newest.saturating_sub(held) {
                        period if period < self.oldest => Ok(()),
                        period => pass(fingerprint, period),
                    },
                }
            })?;
        }
        Ok(())
    }
}
