//! Bytes of an object, changed where it matters: in its fields, or anywhere.

use std::ops::Range;

use super::super::Random;

/// The place of a field, and its encoding.
#[derive(Clone)]
pub struct Span {
    pub at: Range<usize>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Little endian, of the field's width.
    Integer,
    Double,
    /// An RDB file's number, or the length of a string in it.
    Length,
}

/// An object's bytes, and its fields in them.
pub struct Sample {
    pub bytes: Vec<u8>,
    spans: Vec<Span>,
    /// The number of bytes at the start that never change.
    fixed: usize,
}

const EDGES: [u64; 22] = [
    0,
    1,
    2,
    3,
    44,
    45,
    63,
    64,
    255,
    4096,
    4097,
    16383,
    16384,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 61,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

pub const RATES: [f64; 20] = [
    0.5,
    0.25,
    0.01,
    0.999_999,
    1.0 - f64::EPSILON / 2.0,
    1e-308,
    5e-324,
    1e-30,
    0.0,
    -0.0,
    1.0,
    1.5,
    2.0,
    -1.0,
    -0.01,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::EPSILON,
];

pub fn edge(random: &mut Random) -> u64 {
    *random.pick(&EDGES)
}

impl Sample {
    /// Makes a sample for BF.LOAD, or for BF.LOADCHUNK at cursor 1.
    pub fn flat(bytes: Vec<u8>) -> Self {
        let spans = flat_spans(&bytes, 0);
        Self {
            bytes,
            spans,
            fixed: 0,
        }
    }

    /// Makes a sample for RESTORE, without the footer. `fixed` bytes name the type.
    pub fn rdb(bytes: Vec<u8>, fixed: usize) -> Self {
        let spans = rdb_spans(&bytes, fixed);
        Self {
            bytes,
            spans,
            fixed,
        }
    }

    /// These bytes with some changes, or with the end of another sample's.
    pub fn mutated(&self, random: &mut Random, others: &[Self]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let fields = *random.pick(&[0, 1, 1, 2]);
        // From the end on, so that a field that grows does not move the fields still to be changed.
        let mut chosen: Vec<&Span> = (0..fields).map(|_| random.pick(&self.spans)).collect();
        chosen.sort_by_key(|span| std::cmp::Reverse(span.at.start));
        chosen.dedup_by_key(|span| span.at.start);
        for span in &chosen {
            let value = span.other(random, &self.bytes[span.at.clone()]);
            bytes.splice(span.at.clone(), value);
        }
        if random.one_in(10) {
            let other = random.pick(others);
            let end = random.pick(&self.spans).at.start.min(bytes.len());
            let start = random.pick(&other.spans).at.start;
            bytes.truncate(end.max(self.fixed));
            bytes.extend(&other.bytes[start..]);
        }
        let changes = random.below(3);
        for _ in 0..changes.max(usize::from(chosen.is_empty())) {
            change(random, &mut bytes, self.fixed);
        }
        bytes
    }
}

impl Span {
    /// Another value for the field.
    fn other(&self, random: &mut Random, now: &[u8]) -> Vec<u8> {
        match self.kind {
            Kind::Integer => {
                let mut wide = [0; 8];
                wide[..now.len()].copy_from_slice(now);
                let now_is = u64::from_le_bytes(wide);
                let value = match random.below(4) {
                    0 => now_is.wrapping_add(1),
                    1 => now_is.wrapping_sub(1),
                    _ => edge(random),
                };
                value.to_le_bytes()[..now.len()].to_vec()
            }
            Kind::Double => random.pick(&RATES).to_le_bytes().to_vec(),
            Kind::Length => length(random),
        }
    }
}

/// Returns a number as RDB files write it, in any of their ways.
fn length(random: &mut Random) -> Vec<u8> {
    let value = edge(random);
    let [.., high, low] = value.to_be_bytes();
    match random.below(6) {
        0 => vec![low & 0x3f],
        1 => vec![0x40 | (high & 0x3f), low],
        2 => [&[0x80], &value.to_be_bytes()[4..]].concat(),
        // Marks of compressed strings and of numbers in strings, and bytes without a meaning.
        3 => vec![*random.pick(&[0xc0, 0xc1, 0xc2, 0xc3, 0x82, 0xff])],
        _ => [&[0x81], value.to_be_bytes().as_slice()].concat(),
    }
}

/// Makes one change to any byte after the first `fixed`.
fn change(random: &mut Random, bytes: &mut Vec<u8>, fixed: usize) {
    let length = bytes.len() - fixed;
    if length < 2 {
        bytes.extend(random.bytes(3));
        return;
    }
    let at = fixed + random.below(length);
    match random.below(12) {
        0..6 => bytes[at] ^= 1 << random.below(8),
        6 => bytes[at] = *random.pick(&[0, 1, 2, 5, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xff]),
        7 => {
            bytes.remove(at);
        }
        8 => bytes.insert(at, random.next().to_le_bytes()[0]),
        9 => bytes.truncate(at),
        10 => {
            let width = bytes[at..].len().min(*random.pick(&[1, 2, 4, 8]));
            bytes[at..at + width].copy_from_slice(&edge(random).to_le_bytes()[..width]);
        }
        _ => {
            let end = (at + random.below(60)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            let to = fixed + random.below(length);
            bytes.splice(to..to, piece);
        }
    }
}

/// Consecutive spans.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    spans: Vec<Span>,
}

impl Walk<'_> {
    fn take(&mut self, width: usize, kind: Kind) -> &[u8] {
        let at = self.at..self.at + width;
        self.spans.push(Span {
            at: at.clone(),
            kind,
        });
        self.at += width;
        &self.bytes[at]
    }

    fn number(&mut self) -> usize {
        let bytes = self.take(8, Kind::Integer);
        let value = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        usize::try_from(value).expect("a sample is right, and small")
    }

    /// Takes the header of a filter. Returns the length of its bitmap, or of its counters.
    fn head(&mut self) -> usize {
        let counters = self.take(1, Kind::Integer) == [2];
        let bitmap = self.number() * if counters { 4 } else { 1 };
        self.take(4, Kind::Integer);
        self.take(32, Kind::Integer);
        self.spans.pop();
        bitmap
    }

    /// Returns an RDB file's number.
    fn length(&mut self) -> usize {
        let first = self.bytes[self.at];
        let width = match first {
            0..0x40 => 1,
            0x40..0x80 => 2,
            0x80 => 5,
            _ => 9,
        };
        let mut bytes = self.take(width, Kind::Length).to_vec();
        match width {
            1 | 2 => bytes[0] &= 0x3f,
            _ => bytes[0] = 0,
        }
        let all = bytes.iter();
        all.fold(0, |value, byte| value << 8 | usize::from(*byte))
    }
}

/// The fields of an object with periods or counters, in any of its forms.
struct Extended {
    /// Lengths of the filters' cells.
    cells: Vec<u64>,
}

impl Walk<'_> {
    /// Behind the first byte of a dump or of a header.
    fn extended(&mut self, whole: bool) -> Extended {
        let with_ids = self.number() == 2;
        let options = self.number();
        self.number();
        self.take(8, Kind::Double);
        self.take(8, Kind::Double);
        self.number();
        self.number();
        self.at += 32;
        if options & 1 != 0 {
            self.number();
            self.number();
        }
        let mut cells = Vec::new();
        for _ in 0..self.number() {
            self.number();
            // Half loaded objects keep the ranges of their header.
            let counters = options & 2 != 0;
            let ranges = if counters && !with_ids {
                self.number()
            } else {
                0
            };
            for _ in 0..2 * (ranges + usize::from(ranges > 0)) {
                self.take(8, Kind::Integer);
            }
            for _ in 0..self.number() {
                self.number();
                let length = self.head();
                cells.push(length as u64);
                self.at += if whole { length } else { 0 };
                self.take(8, Kind::Integer);
                self.take(8, Kind::Integer);
                if with_ids && self.number() == 1 {
                    self.take(8, Kind::Integer);
                    self.take(8, Kind::Integer);
                }
            }
        }
        Extended { cells }
    }
}

/// Returns the lengths of the filters' cells that a header of BF.LOADCHUNK claims, one that was accepted.
pub fn cells_of(header: &[u8]) -> Vec<u64> {
    if header[0] == EXTENDED_HEADER {
        let mut walk = Walk {
            bytes: header,
            at: 1,
            spans: Vec::new(),
        };
        return walk.extended(false).cells;
    }
    let filters = header[30..].chunks_exact(8 + 45 + 16);
    let lengths = filters.map(|filter| filter[9..17].try_into().expect("eight bytes"));
    lengths.map(u64::from_le_bytes).collect()
}

/// The first bytes of a dump and of a header of an object with periods or counters.
const EXTENDED_DUMP: u8 = 2;
const EXTENDED_HEADER: u8 = 0x82;

fn flat_spans(bytes: &[u8], at: usize) -> Vec<Span> {
    let mut walk = Walk {
        bytes,
        at,
        spans: Vec::new(),
    };
    let version = bytes[at];
    if [EXTENDED_DUMP, EXTENDED_HEADER].contains(&version) {
        walk.take(1, Kind::Integer);
        walk.extended(version == EXTENDED_DUMP);
        return walk.spans;
    }
    let whole = walk.take(1, Kind::Integer) == [1];
    walk.take(4, Kind::Integer);
    walk.take(8, Kind::Double);
    walk.take(8, Kind::Double);
    walk.take(1, Kind::Integer);
    let filters = walk.number();
    for _ in 0..filters {
        walk.number();
        let bitmap = walk.head();
        if whole {
            walk.at += bitmap;
        }
        walk.take(8, Kind::Integer);
        walk.take(8, Kind::Integer);
    }
    walk.spans
}

fn rdb_spans(bytes: &[u8], at: usize) -> Vec<Span> {
    let mut walk = Walk {
        bytes,
        at,
        spans: Vec::new(),
    };
    // A half loaded object starts with a number of 0, and has a header before its bitmaps.
    let half = bytes[at..].starts_with(&[2, 0]);
    let mut strings = 0;
    loop {
        let opcode = bytes[walk.at];
        walk.at += 1;
        match opcode {
            0 => return walk.spans,
            2 => {
                walk.length();
            }
            4 => {
                walk.take(8, Kind::Double);
            }
            5 if bytes[walk.at] == 0xc3 => {
                // A compressed string: both its lengths, and its opaque bytes.
                walk.at += 1;
                let compressed = walk.length();
                walk.length();
                walk.at += compressed;
                strings += 1;
            }
            5 => {
                let length = walk.length();
                let end = walk.at + length;
                match (half, strings) {
                    (true, 0) => walk.spans.extend(flat_spans(bytes, walk.at)),
                    (true, _) => {}
                    // The seed of an object with periods or counters is a field of its own.
                    (false, _) if length == 32 => {}
                    (false, _) => {
                        walk.head();
                    }
                }
                strings += 1;
                walk.at = end;
            }
            other => panic!("an opcode that samples do not have: {other}"),
        }
    }
}
