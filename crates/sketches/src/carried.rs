//! `RedisBloom`'s sketches as opaque values: stored and written back, never interpreted.
//!
//! | type | fields of encoding version 0 |
//! |---|---|
//! | `CMSk-TYPE` | width, depth, count; width · depth counters of four bytes |
//! | `TopK-TYPE` | k, width, depth, decay (a double); width · depth cells of eight bytes; k entries of 24 bytes; k items, each with a zero byte at its end |
//! | `TDIS-TYPE` | compression, lowest, highest (doubles); capacity, merged nodes, unmerged nodes, compressions; weight of the merged nodes, weight of the unmerged nodes (doubles); the means of all merged nodes, then their weights (doubles) |
//!
//! An entry of `TopK-TYPE` has the length of its item, and eight bytes that were an address in the process that wrote
//! it. Both are ignored.

use std::ffi::CStr;

use crc::{CRC_64_REDIS, Crc};

use crate::machine::memory::{self, Relocate};

use crate::bytes::{DecodeError, RdbRead, RdbWrite, push};

/// The type of a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sketch {
    /// A count-min sketch.
    CountMin,
    /// A list of the most frequent items.
    TopK,
    /// A t-digest.
    TDigest,
}

impl Sketch {
    /// All types.
    pub const ALL: [Self; 3] = [Self::CountMin, Self::TopK, Self::TDigest];

    /// The encoding version in RDB.
    pub const RDB_VERSION: i32 = 0;

    /// Returns the name of the type in a server.
    pub const fn type_name(self) -> &'static CStr {
        match self {
            Self::CountMin => c"CMSk-TYPE",
            Self::TopK => c"TopK-TYPE",
            Self::TDigest => c"TDIS-TYPE",
        }
    }

    /// Returns the number that stands for the type in RDB: six bits for each letter of its name, ten for the encoding
    /// version.
    fn type_id(self) -> u64 {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let bits = |letter| LETTERS.iter().position(|l| *l == letter).unwrap_or(0) as u64;
        let name = self.type_name().to_bytes().iter();
        name.fold(0, |id, letter| id << 6 | bits(*letter)) << 10
    }
}

/// Appends the footer of a DUMP payload: the RDB version, and a checksum of all before.
pub fn dump_footer(payload: &mut Vec<u8>, rdb_version: u16) {
    static CHECKSUM: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);
    payload.extend(rdb_version.to_le_bytes());
    payload.extend(CHECKSUM.checksum(payload).to_le_bytes());
}

/// Visits the fields of a value in order, and checks that they are those of its type. Claimed sizes are not trusted:
/// each string is read before its length is compared.
fn visit(sketch: Sketch, fields: &mut impl Fields) -> Result<(), DecodeError> {
    match sketch {
        Sketch::CountMin => {
            let (width, depth) = (fields.uint()?, fields.uint()?);
            if width == 0 || depth == 0 {
                return Err("no counters".into());
            }
            fields.uint()?;
            require_length(fields.string()?, &[width, depth, 4])
        }
        Sketch::TopK => {
            let [k, width, depth] = [fields.uint()?, fields.uint()?, fields.uint()?];
            if [k, width, depth]
                .iter()
                .any(|n| !(1..=u64::from(u32::MAX)).contains(n))
            {
                return Err("size out of range".into());
            }
            let decay = fields.double()?;
            if !(decay > 0.0 && decay <= 1.0) {
                return Err("decay out of range".into());
            }
            require_length(fields.string()?, &[width, depth, 8])?;
            require_length(fields.string()?, &[k, 24])?;
            for _ in 0..k {
                if fields.string()?.last() != Some(&0) {
                    return Err("item without its end".into());
                }
            }
            Ok(())
        }
        Sketch::TDigest => {
            let compression = fields.double()?;
            // The capacity is computed from this, and must fit.
            if !(1.0..=f64::from(1_u32 << 31)).contains(&compression) {
                return Err("compression out of range".into());
            }
            let [_lowest, _highest] = [fields.double()?, fields.double()?];
            let [capacity, merged, unmerged] = [fields.uint()?, fields.uint()?, fields.uint()?];
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is within the range above"
            )]
            if capacity != compression as u64 * 6 + 10 {
                return Err("capacity of another compression".into());
            }
            if merged > capacity || unmerged > capacity - merged {
                return Err("nodes above the capacity".into());
            }
            let _compressions = fields.uint()?;
            // The weights of merged and of unmerged nodes, then a mean and a weight for each merged node.
            for _ in 0..2 + 2 * merged {
                fields.double()?;
            }
            Ok(())
        }
    }
}

fn require_length(string: &[u8], factors: &[u64]) -> Result<(), DecodeError> {
    let length = factors
        .iter()
        .try_fold(1, |all: u64, one| all.checked_mul(*one));
    if length == Some(string.len() as u64) {
        Ok(())
    } else {
        Err("string of another length".into())
    }
}

/// The fields of a value in order, while it is read or written.
trait Fields {
    fn uint(&mut self) -> Result<u64, DecodeError>;
    fn double(&mut self) -> Result<f64, DecodeError>;
    fn string(&mut self) -> Result<&[u8], DecodeError>;
}

/// An opaque sketch.
#[derive(Debug, PartialEq, Eq)]
pub struct Carried {
    sketch: Sketch,
    /// The integers and doubles in order, eight bytes each.
    numbers: Box<[u8]>,
    /// The strings in order.
    strings: Box<[Box<[u8]>]>,
    /// Total length of the strings in bytes.
    string_bytes: u64,
}

impl Carried {
    /// Reads the fields of a value.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn read(sketch: Sketch, from: &mut impl RdbRead) -> Result<Self, DecodeError> {
        let mut kept = KeptReader {
            from,
            numbers: Vec::new(),
            strings: Vec::new(),
        };
        visit(sketch, &mut kept)?;
        Ok(Self {
            sketch,
            numbers: memory::boxed(kept.numbers).ok_or(DecodeError::NoMemory)?,
            string_bytes: kept.strings.iter().map(|string| string.len() as u64).sum(),
            strings: memory::boxed(kept.strings).ok_or(DecodeError::NoMemory)?,
        })
    }

    /// Writes the fields back in their order.
    pub fn write(&self, to: &mut impl RdbWrite) {
        let mut kept = KeptWriter {
            to,
            numbers: self.numbers.as_chunks().0.iter(),
            strings: self.strings.iter(),
        };
        let written = visit(self.sketch, &mut kept);
        debug_assert_eq!(written, Ok(()), "the same fields were read");
    }

    /// Returns a payload for RESTORE, in a form that every server from Redis 5 on reads. A log depends on it, so the
    /// program aborts if allocation fails.
    pub fn payload(&self) -> Vec<u8> {
        const MODULE_VALUE: u8 = 7;
        const END_OF_VALUE: u8 = 0;
        const RDB_VERSION: u16 = 9;
        let mut payload = Payload(vec![MODULE_VALUE]);
        payload.length(self.sketch.type_id());
        self.write(&mut payload);
        let mut bytes = payload.0;
        bytes.push(END_OF_VALUE);
        dump_footer(&mut bytes, RDB_VERSION);
        bytes
    }

    /// Returns the type of the sketch.
    pub const fn sketch(&self) -> Sketch {
        self.sketch
    }

    /// Returns the contents without lengths: first the numbers, then each string.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let strings = self.strings.iter().map(|string| &**string);
        std::iter::once(&*self.numbers).chain(strings)
    }

    /// Returns the sum of the sketch's allocations in bytes, without `self`.
    pub fn memory_bytes(&self) -> u64 {
        (self.numbers.len() + size_of_val(&*self.strings)) as u64 + self.string_bytes
    }

    /// Copies the sketch, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let mut strings = memory::reserved(self.strings.len())?;
        for string in &self.strings {
            strings.push(memory::copied(string)?);
        }
        Some(Self {
            numbers: memory::copied(&self.numbers)?,
            strings: strings.into_boxed_slice(),
            ..*self
        })
    }

    /// Moves the parts, starting with number `begin`. Returns the number of the next part if `by` stops before the
    /// end.
    pub fn relocate(&mut self, begin: usize, by: &mut impl Relocate) -> Option<usize> {
        let parts = std::iter::once(&mut self.numbers).chain(&mut self.strings);
        for (number, part) in parts.enumerate().skip(begin) {
            if number > begin && by.should_stop() {
                return Some(number);
            }
            *part = by.blob(std::mem::take(part));
        }
        None
    }
}

/// Fields that are read and kept.
struct KeptReader<'r, R> {
    from: &'r mut R,
    numbers: Vec<u8>,
    strings: Vec<Box<[u8]>>,
}

impl<R> KeptReader<'_, R> {
    fn keep(&mut self, number: [u8; 8]) -> Result<(), DecodeError> {
        let room = self.numbers.try_reserve(number.len());
        room.map_err(|_| DecodeError::NoMemory)?;
        self.numbers.extend(number);
        Ok(())
    }
}

impl<R: RdbRead> Fields for KeptReader<'_, R> {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        let value = self.from.uint()?;
        self.keep(value.to_le_bytes())?;
        Ok(value)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        let value = self.from.double()?;
        self.keep(value.to_le_bytes())?;
        Ok(value)
    }

    fn string(&mut self) -> Result<&[u8], DecodeError> {
        let string = memory::boxed(self.from.bytes()?).ok_or(DecodeError::NoMemory)?;
        push(&mut self.strings, string)?;
        Ok(self.strings.last().map_or(&[], |string| &**string))
    }
}

/// Kept fields that are written.
struct KeptWriter<'c, W> {
    to: &'c mut W,
    numbers: std::slice::Iter<'c, [u8; 8]>,
    strings: std::slice::Iter<'c, Box<[u8]>>,
}

impl<W: RdbWrite> Fields for KeptWriter<'_, W> {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        let bytes = self.numbers.next().ok_or(DecodeError::Truncated)?;
        let value = u64::from_le_bytes(*bytes);
        self.to.uint(value);
        Ok(value)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        let bytes = self.numbers.next().ok_or(DecodeError::Truncated)?;
        let value = f64::from_le_bytes(*bytes);
        self.to.double(value);
        Ok(value)
    }

    fn string(&mut self) -> Result<&[u8], DecodeError> {
        let string = self.strings.next().ok_or(DecodeError::Truncated)?;
        self.to.bytes(string);
        Ok(string)
    }
}

/// Writes fields the way the server writes those of a module's value.
struct Payload(Vec<u8>);

impl Payload {
    /// Appends a number in RDB's encoding of lengths: in as few bytes as possible, big endian.
    fn length(&mut self, value: u64) {
        match value {
            0..0x40 => self.0.push(value.to_le_bytes()[0]),
            0x40..0x4000 => {
                let [.., high, low] = value.to_be_bytes();
                self.0.extend([0x40 | high, low]);
            }
            0x4000..=0xffff_ffff => {
                self.0.push(0x80);
                self.0.extend(&value.to_be_bytes()[4..]);
            }
            _ => {
                self.0.push(0x81);
                self.0.extend(value.to_be_bytes());
            }
        }
    }
}

impl RdbWrite for Payload {
    fn uint(&mut self, value: u64) {
        self.0.push(2);
        self.length(value);
    }

    fn double(&mut self, value: f64) {
        self.0.push(4);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.0.push(5);
        self.length(value.len() as u64);
        self.0.extend(value);
    }
}
