//! A reader of the pieces of BF.SCANDUMP, written from their description in docs/vectors.md.

use valkeybloom_sketches::bloom::TableStep;

use super::{Header, Kind, Model, Table};

/// The position behind the last one.
pub const END: u64 = 1 << 52;

/// The fields of a header or of a piece.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take(&mut self, length: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    fn length(&mut self) -> usize {
        usize::try_from(self.number()).expect("it fits memory")
    }

    fn bits(&mut self) -> u32 {
        u32::try_from(self.number()).expect("few bits")
    }
}

/// Bits, the lowest of a byte first.
struct Bits<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Bits<'_> {
    fn one(&mut self) -> bool {
        let bit = self.bytes[self.at / 8] >> (self.at % 8) & 1;
        self.at += 1;
        bit == 1
    }

    fn number(&mut self, bits: u32) -> u64 {
        (0..bits).fold(0, |number, bit| number | u64::from(self.one()) << bit)
    }

    fn ones(&mut self) -> u32 {
        let mut ones = 0;
        while self.one() {
            ones += 1;
        }
        ones
    }

    /// Checks that only zeros follow, less than a byte of them.
    fn end(mut self) {
        assert_eq!(self.at.div_ceil(8), self.bytes.len(), "bytes follow");
        while self.at < 8 * self.bytes.len() {
            assert!(!self.one(), "ones follow");
        }
    }
}

/// Returns the first fingerprint of `bits` bits at a position or after it.
pub const fn fingerprint_at(position: u64, bits: u32) -> u64 {
    match bits.checked_sub(52) {
        Some(more) => position << more,
        None => position.div_ceil(1 << (52 - bits)),
    }
}

/// Returns the object of these pieces.
///
/// # Panics
/// The pieces are invalid, not of an object of tables, or there were writes between them.
pub fn read(pieces: &[(u64, Vec<u8>)]) -> Model {
    let (header, pieces) = pieces.split_first().expect("a header");
    let mut model = read_header(&header.1);
    let mut begin = 0;
    for (cursor, piece) in pieces {
        let mut from = Fields(piece);
        let [first, end, newest, dropped, tables] = [(); 5].map(|()| from.number());
        assert_eq!(first, begin, "a gap between pieces");
        assert_eq!(*cursor, end + 1);
        begin = end;
        if !model.tables.is_empty() {
            assert_eq!(dropped, model.dropped, "pieces differ");
            assert_eq!(tables, model.tables.len() as u64, "pieces differ");
        }
        model.dropped = dropped;
        for index in 0..usize::try_from(tables).expect("few tables") {
            let step = TableStep {
                number: from.number(),
                most: from.number(),
                bits: from.bits(),
            };
            if index == model.tables.len() {
                model.tables.push(Table::new(step));
            }
            assert_eq!(model.tables[index].step, step, "pieces differ");
            let (kind, table) = (model.kind, &mut model.tables[index]);
            read_entries(&mut from, kind, table, [first, newest]);
        }
        assert!(from.0.is_empty(), "fields follow");
    }
    assert_eq!(begin, END, "pieces are missing");
    model
}

fn read_header(header: &[u8]) -> Model {
    let mut from = Fields(header);
    assert_eq!(from.take(1), [130], "not an object of tables");
    let [form, kind, expansion] = [(); 3].map(|()| from.number());
    assert_eq!(form, 1);
    let error_rate = f64::from_bits(from.number());
    let capacity = from.number();
    assert_eq!(from.number(), 32);
    let seed = from.take(32).try_into().expect("32 bytes");
    let kind = match kind {
        1 => Kind::Window {
            period_ms: from.number(),
            periods: from.number(),
        },
        2 => Kind::Counting,
        _ => Kind::Scaled,
    };
    assert!(from.0.is_empty(), "fields follow");
    Model {
        kind,
        header: Header {
            expansion,
            error_rate,
            capacity,
        },
        seed,
        tables: Vec::new(),
        dropped: 0,
    }
}

fn read_entries(from: &mut Fields, kind: Kind, table: &mut Table, [first, newest]: [u64; 2]) {
    let bits = table.step.bits;
    let [count, k] = [(); 2].map(|()| from.number());
    let k = u32::try_from(k).expect("few bits");
    let length = from.length();
    let mut codes = Bits {
        bytes: from.take(length),
        at: 0,
    };
    let mut next = fingerprint_at(first, bits);
    for _ in 0..count {
        let high = u64::from(codes.ones());
        let fingerprint = next + (high << k | codes.number(k));
        next = fingerprint + 1;
        let held = match kind {
            Kind::Scaled => 0,
            Kind::Counting => {
                let log = codes.ones();
                1 << log | codes.number(log)
            }
            Kind::Window { periods, .. } => newest - codes.number(periods.ilog2() + 1),
        };
        table.entries.insert(fingerprint, held);
    }
    codes.end();
}
