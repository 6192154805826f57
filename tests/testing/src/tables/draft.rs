//! The stored form of an object, written down once more after its description. Objects with equal entries have equal forms.

use super::read::{END, fingerprint_at};
use super::{Kind, Model, Table};
use crate::support::{Field, Stream};

/// The most entries of a piece, on average.
const ENTRIES: usize = 1 << 15;

/// An object to be stored. Any field may be wrong.
#[derive(Clone, Debug)]
pub struct Draft {
    pub form: u64,
    pub kind: u64,
    pub expansion: u64,
    pub error_rate: f64,
    pub capacity: u64,
    pub seed: Vec<u8>,
    pub window: Option<(u64, u64)>,
    pub pieces: Vec<Piece>,
    pub behind: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct Piece {
    pub begin: u64,
    pub end: u64,
    pub newest: u64,
    pub dropped: u64,
    pub count: u64,
    pub sections: Vec<Section>,
    pub behind: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct Section {
    pub number: u64,
    pub most: u64,
    pub bits: u64,
    pub count: u64,
    pub k: u64,
    pub length: Option<u64>,
    pub entries: Bits,
}

/// Bits, the lowest of each byte first.
#[derive(Clone, Debug, Default)]
pub struct Bits(pub Vec<bool>);

impl Bits {
    pub fn put(&mut self, number: u64, count: u32) {
        self.0.extend((0..count).map(|bit| number >> bit & 1 == 1));
    }

    pub fn ones(&mut self, count: u64) {
        self.0.extend((0..count).map(|_| true));
        self.0.push(false);
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| (0..).zip(bits).map(|(at, bit)| u8::from(*bit) << at).sum();
        self.0.chunks(8).map(byte).collect()
    }
}

fn fields(numbers: &[u64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

impl Section {
    /// Returns the section of a table in a piece.
    fn of(table: &Table, range: [u64; 2], newest: u64, kind: Kind) -> Self {
        let step = table.step;
        let [begin, end] = range.map(|position| fingerprint_at(position, step.bits));
        let within = table.entries.range(begin..end);
        let count = within.clone().count() as u64;
        let mean = (end - begin).checked_div(count).unwrap_or(0);
        let k = (u128::from(mean) * 710 / 1024).checked_ilog2().unwrap_or(0);
        let (mut entries, mut next) = (Bits::default(), begin);
        for (fingerprint, held) in within {
            let distance = fingerprint - next;
            next = fingerprint + 1;
            entries.ones(distance >> k);
            entries.put(distance, k);
            match kind {
                Kind::Counting => {
                    let log = held.ilog2();
                    entries.ones(log.into());
                    entries.put(*held, log);
                }
                Kind::Window { periods, .. } => {
                    entries.put(newest - held, periods.ilog2() + 1);
                }
                Kind::Scaled => {}
            }
        }
        Self {
            number: step.number,
            most: step.most,
            bits: step.bits.into(),
            count,
            k: k.into(),
            length: None,
            entries,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let entries = self.entries.bytes();
        let length = self.length.unwrap_or(entries.len() as u64);
        let head = [
            self.number,
            self.most,
            self.bits,
            self.count,
            self.k,
            length,
        ];
        [fields(&head), entries].concat()
    }
}

impl Piece {
    /// Returns the piece of an object with a range of positions.
    pub fn of(model: &Model, range: [u64; 2]) -> Self {
        let held = model.tables.iter().flat_map(|table| table.entries.values());
        let newest = match model.kind {
            Kind::Window { .. } => held.max().copied().unwrap_or(0),
            Kind::Scaled | Kind::Counting => 0,
        };
        let sections = model.tables.iter();
        let sections = sections.map(|table| Section::of(table, range, newest, model.kind));
        Self {
            begin: range[0],
            end: range[1],
            newest,
            dropped: model.dropped,
            count: model.tables.len() as u64,
            sections: sections.collect(),
            behind: Vec::new(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = fields(&[self.begin, self.end, self.newest, self.dropped, self.count]);
        self.sections
            .iter()
            .for_each(|section| bytes.extend(section.bytes()));
        bytes.extend(&self.behind);
        bytes
    }
}

impl Model {
    pub fn draft(&self) -> Draft {
        let entries = self.tables.iter().map(|table| table.entries.len());
        let pieces = entries.sum::<usize>().div_ceil(ENTRIES).next_power_of_two() as u64;
        let range = |piece| [piece, piece + 1].map(|number| number * (END / pieces));
        let (kind, window) = match self.kind {
            Kind::Window { period_ms, periods } => (1, Some((period_ms, periods))),
            Kind::Counting => (2, None),
            Kind::Scaled => (3, None),
        };
        Draft {
            form: 1,
            kind,
            expansion: self.header.expansion,
            error_rate: self.header.error_rate,
            capacity: self.header.capacity,
            seed: self.seed.to_vec(),
            window,
            pieces: (0..pieces)
                .map(|piece| Piece::of(self, range(piece)))
                .collect(),
            behind: Vec::new(),
        }
    }

    /// Returns the pieces of BF.SCANDUMP, with their cursors.
    pub fn pieces(&self) -> Vec<(u64, Vec<u8>)> {
        let draft = self.draft();
        let pieces = draft
            .pieces
            .iter()
            .map(|piece| (piece.end + 1, piece.bytes()));
        [(1, draft.header())].into_iter().chain(pieces).collect()
    }
}

impl Draft {
    /// Returns the fields of the object without those of its pieces.
    fn head(&self) -> Vec<Field> {
        let mut fields = vec![
            Field::Uint(self.form),
            Field::Uint(self.kind),
            Field::Uint(self.expansion),
            Field::Double(self.error_rate),
            Field::Uint(self.capacity),
            Field::Bytes(self.seed.clone()),
        ];
        if let Some((period_ms, periods)) = self.window {
            fields.extend([period_ms, periods].map(Field::Uint));
        }
        fields
    }

    pub fn stream(&self) -> Stream {
        let pieces = self.pieces.iter().map(|piece| Field::Bytes(piece.bytes()));
        let fields = self.head().into_iter().chain(pieces);
        Stream(fields.chain([Field::Bytes(Vec::new())]).collect())
    }

    fn bytes(&self, version: u8, fields: impl IntoIterator<Item = Field>) -> Vec<u8> {
        let mut bytes = vec![version];
        for field in fields {
            match field {
                Field::Uint(number) => bytes.extend(number.to_le_bytes()),
                Field::Double(number) => bytes.extend(number.to_le_bytes()),
                Field::Bytes(string) => {
                    bytes.extend((string.len() as u64).to_le_bytes());
                    bytes.extend(string);
                }
            }
        }
        bytes.extend(&self.behind);
        bytes
    }

    pub fn dump(&self) -> Vec<u8> {
        self.bytes(2, self.stream().0)
    }

    pub fn header(&self) -> Vec<u8> {
        self.bytes(130, self.head())
    }
}
