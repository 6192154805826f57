//! A writer of the pieces of BF.SCANDUMP. Objects with equal entries have equal pieces.

use super::read::{END, fingerprint_at};
use super::{Kind, Model, Table};

/// The most entries of a piece, on average.
const ENTRIES: u64 = 1 << 15;

/// Bits, the lowest of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn one(&mut self, bit: bool) {
        if self.count.is_multiple_of(8) {
            self.bytes.push(0);
        }
        *self.bytes.last_mut().expect("a byte") |= u8::from(bit) << (self.count % 8);
        self.count += 1;
    }

    fn number(&mut self, number: u64, bits: u32) {
        for bit in 0..bits {
            self.one(number >> bit & 1 == 1);
        }
    }

    /// Appends ones, and the zero that ends them.
    fn ones(&mut self, count: u64) {
        for _ in 0..count {
            self.one(true);
        }
        self.one(false);
    }
}

impl Model {
    /// Returns the pieces, with their cursors.
    pub fn pieces(&self) -> Vec<(u64, Vec<u8>)> {
        let entries = self.tables.iter().map(|table| table.entries.len() as u64);
        let pieces = entries.sum::<u64>().div_ceil(ENTRIES).next_power_of_two();
        let length = END / pieces;
        let mut all = vec![(1, self.header())];
        for begin in (0..pieces).map(|piece| piece * length) {
            all.push((begin + length + 1, self.piece(begin, begin + length)));
        }
        all
    }

    fn header(&self) -> Vec<u8> {
        let header = &self.header;
        let kind = match self.kind {
            Kind::Window { .. } => 1,
            Kind::Counting => 2,
            Kind::Scaled => 3,
        };
        let rate = header.error_rate.to_bits();
        let mut out = vec![130];
        for field in [1, kind, header.expansion, rate, header.capacity, 32] {
            out.extend(field.to_le_bytes());
        }
        out.extend(self.seed);
        if let Kind::Window { period_ms, periods } = self.kind {
            out.extend(period_ms.to_le_bytes());
            out.extend(periods.to_le_bytes());
        }
        out
    }

    fn piece(&self, begin: u64, end: u64) -> Vec<u8> {
        let held = self.tables.iter().flat_map(|table| table.entries.values());
        let newest = match self.kind {
            Kind::Window { .. } => held.max().copied().unwrap_or(0),
            Kind::Scaled | Kind::Counting => 0,
        };
        let tables = self.tables.len() as u64;
        let mut out = Vec::new();
        for field in [begin, end, newest, self.dropped, tables] {
            out.extend(field.to_le_bytes());
        }
        for table in &self.tables {
            write_table(self.kind, table, [begin, end], newest, &mut out);
        }
        out
    }
}

fn write_table(kind: Kind, table: &Table, positions: [u64; 2], newest: u64, out: &mut Vec<u8>) {
    let step = table.step;
    let [begin, end] = positions.map(|position| fingerprint_at(position, step.bits));
    let within = table.entries.range(begin..end);
    let count = within.clone().count() as u64;
    let mean = u128::from((end - begin).checked_div(count).unwrap_or(0));
    let k = (mean * 710 / 1024).checked_ilog2().unwrap_or(0);
    let mut codes = Bits::default();
    let mut next = begin;
    for (fingerprint, held) in within {
        let distance = fingerprint - next;
        next = fingerprint + 1;
        codes.ones(distance >> k);
        codes.number(distance, k);
        match kind {
            Kind::Scaled => {}
            Kind::Counting => {
                let log = held.ilog2();
                codes.ones(log.into());
                codes.number(*held, log);
            }
            Kind::Window { periods, .. } => codes.number(newest - held, periods.ilog2() + 1),
        }
    }
    let bytes = codes.bytes.len() as u64;
    for field in [
        step.number,
        step.most,
        step.bits.into(),
        count,
        k.into(),
        bytes,
    ] {
        out.extend(field.to_le_bytes());
    }
    out.extend(codes.bytes);
}
