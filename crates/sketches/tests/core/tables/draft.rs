//! Objects of tables as their bytes say, written down once more after the description of the form.

use std::collections::BTreeMap;

use valkeybloom_sketches::bloom::{Kind, Shape, TableStep};

use crate::support::{Field, Stream};

/// The position behind the last one.
pub const END: u64 = 1 << 52;

/// A table: its step, and what it keeps of each fingerprint. A period is that before which it is not found.
pub type Contents = (TableStep, BTreeMap<u64, i128>);

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
    pub fn put(&mut self, number: u128, count: u32) {
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
    fn of((step, held): &Contents, range: [u64; 2], newest: i128, kind: &Kind) -> Self {
        let [begin, end] = range.map(|position| match step.bits.checked_sub(52) {
            Some(more) => position << more,
            None => position.div_ceil(END >> step.bits),
        });
        let within = held.range(begin..end);
        let count = within.clone().count() as u64;
        let mean = (end - begin).checked_div(count).unwrap_or(0);
        let k = (u128::from(mean) * 710 / 1024).checked_ilog2().unwrap_or(0);
        let (mut entries, mut next) = (Bits::default(), begin);
        for (fingerprint, held) in within {
            let distance = fingerprint - next;
            next = fingerprint + 1;
            entries.ones(distance >> k);
            entries.put(distance.into(), k);
            match kind {
                Kind::Counting => {
                    let log = held.ilog2();
                    entries.ones(log.into());
                    entries.put(held.cast_unsigned(), log);
                }
                Kind::Windowed(window) => {
                    let age = (newest - held).cast_unsigned();
                    entries.put(age, window.periods().ilog2() + 1);
                }
                _ => {}
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
    /// Returns the piece of tables with a range of positions.
    pub fn of(
        tables: &[Contents],
        range: [u64; 2],
        newest: i128,
        dropped: Option<i128>,
        shape: &Shape,
    ) -> Self {
        let kind = &shape.kind;
        let more = shape
            .window()
            .map_or(0, |window| 2 * i128::from(window.periods()) + 4);
        let stored = |period: i128| u64::try_from(period + more).unwrap_or(0);
        let any = tables.iter().any(|(_, held)| !held.is_empty());
        let sections = tables.iter();
        let sections = sections.map(|table| Section::of(table, range, newest, kind));
        Self {
            begin: range[0],
            end: range[1],
            newest: if any { stored(newest) } else { 0 },
            dropped: dropped.map_or(0, stored),
            count: tables.len() as u64,
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

impl Draft {
    /// Returns the draft of an object of a shape, with these tables.
    pub fn of(shape: &Shape, seed: &[u8], tables: &[Contents], dropped: Option<i128>) -> Self {
        let window = shape.window();
        let newest = match window {
            Some(_) => tables.iter().flat_map(|(_, held)| held.values()).max(),
            None => None,
        };
        let newest = newest.copied().unwrap_or(0);
        let all: usize = tables.iter().map(|(_, held)| held.len()).sum();
        let pieces = all.div_ceil(1 << 15).next_power_of_two() as u64;
        let piece = |number| {
            let range = [number, number + 1].map(|number| number * (END / pieces));
            Piece::of(tables, range, newest, dropped, shape)
        };
        Self {
            form: 1,
            kind: match shape.kind {
                Kind::Windowed(_) => 1,
                Kind::Counting => 2,
                Kind::Plain | Kind::ScaledTo => 3,
            },
            expansion: shape.params.growth.expansion().into(),
            error_rate: shape.params.error_rate.get(),
            capacity: shape.params.capacity,
            seed: seed.to_vec(),
            window: window.map(|window| (window.period_ms(), window.periods())),
            pieces: (0..pieces).map(piece).collect(),
            behind: Vec::new(),
        }
    }

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
