//! Payloads of RESTORE, in a form that every server from Redis 5 on reads, and of DUMP.

use std::ffi::CStr;

use crc::{CRC_64_REDIS, Crc};

use crate::bytes::{Buffer, ByteCursor, DecodeError, RdbRead, RdbWrite};
use crate::machine::memory;

static CHECKSUM: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

const MODULE_VALUE: u8 = 7;
const END_OF_VALUE: u8 = 0;
const UINT: u64 = 2;
const DOUBLE: u64 = 4;
const STRING: u64 = 5;

/// The letters in names of types, each at its number.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns a payload for RESTORE with a value of a type, whose fields `write` writes.
///
/// # Panics
/// If allocation fails: a log would lack the value. If the name is not that of a type, as for [`type_id`], or the encoding
/// version is not from 0 to 1023.
pub fn restore(
    type_name: &CStr,
    encoding_version: i32,
    write: impl FnOnce(&mut Payload),
) -> Vec<u8> {
    try_restore(type_name, encoding_version, write).expect("no memory for a payload")
}

/// Returns what [`restore`] does, or `None` if allocation fails.
///
/// # Panics
/// If the name or the encoding version is invalid, as for [`restore`].
pub fn try_restore(
    type_name: &CStr,
    encoding_version: i32,
    write: impl FnOnce(&mut Payload),
) -> Option<Vec<u8>> {
    const OLDEST_VERSION: u16 = 9;
    let id = type_id(type_name);
    let id = id.unwrap_or_else(|| panic!("not the name of a type: {type_name:?}"));
    assert!(
        (0..1024).contains(&encoding_version),
        "not an encoding version: {encoding_version}"
    );
    let mut payload = Payload(Buffer::default());
    payload.0.put(&[MODULE_VALUE]);
    payload.length(id | u64::from(encoding_version.unsigned_abs()));
    write(&mut payload);
    payload.0.put(&[END_OF_VALUE]);
    let mut bytes = payload.0.end()?;
    bytes.try_reserve_exact(FOOTER_BYTES).ok()?;
    dump_footer(&mut bytes, OLDEST_VERSION);
    Some(bytes)
}

/// Returns the number that stands for a type in RDB: six bits for each letter of its name, then ten zeros, the bits of
/// the encoding version.
/// Returns `None` for a name that is not nine letters, digits, `-` or `_`.
pub fn type_id(type_name: &CStr) -> Option<u64> {
    let name = type_name.to_bytes();
    let bits = |letter| LETTERS.iter().position(|l| l == letter);
    let id = name
        .iter()
        .try_fold(0, |id, letter| Some(id << 6 | bits(letter)? as u64))?;
    (name.len() == 9).then_some(id << 10)
}

/// Appends the footer of a DUMP payload: the RDB version, and a checksum of all before.
pub fn dump_footer(payload: &mut Vec<u8>, rdb_version: u16) {
    payload.extend(rdb_version.to_le_bytes());
    payload.extend(CHECKSUM.checksum(payload).to_le_bytes());
}

/// The size of a footer, in bytes.
const FOOTER_BYTES: usize = 10;

/// The fields of a value, written the way the server writes them.
pub struct Payload(Buffer);

impl Payload {
    /// Appends a number in RDB's encoding of lengths: in as few bytes as possible, big endian.
    fn length(&mut self, value: u64) {
        match value {
            0..0x40 => self.0.put(&value.to_le_bytes()[..1]),
            0x40..0x4000 => {
                let [.., high, low] = value.to_be_bytes();
                self.0.put(&[0x40 | high, low]);
            }
            0x4000..=0xffff_ffff => {
                self.0.put(&[0x80]);
                self.0.put(&value.to_be_bytes()[4..]);
            }
            _ => {
                self.0.put(&[0x81]);
                self.0.put(&value.to_be_bytes());
            }
        }
    }
}

impl RdbWrite for Payload {
    fn uint(&mut self, value: u64) {
        self.length(UINT);
        self.length(value);
    }

    fn double(&mut self, value: f64) {
        self.length(DOUBLE);
        self.0.put(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.length(STRING);
        self.length(value.len() as u64);
        self.0.put(value);
    }

    fn no_memory(&mut self, of: &str) {
        self.0.no_memory(of);
    }
}

const UNKNOWN_LENGTH: DecodeError = DecodeError::Malformed("unknown encoding of a length");

/// The number before a string.
enum Length {
    /// The string's length in bytes. Its bytes follow.
    Plain(u64),
    /// The number of the string's encoding.
    Encoded(u8),
}

/// The fields of a payload of DUMP that are not read yet.
pub(crate) struct Fields<'p>(ByteCursor<'p>);

impl<'p> Fields<'p> {
    /// Checks the footer and the type of a payload.
    pub fn of_dump(payload: &'p [u8]) -> Result<Self, DecodeError> {
        let (body, checksum) = payload.split_last_chunk().ok_or(DecodeError::Truncated)?;
        if CHECKSUM.checksum(body) != u64::from_le_bytes(*checksum) {
            return Err("wrong checksum".into());
        }
        // The fields of a module's value are the same in every version of RDB.
        let (value, _rdb_version) = body.split_last_chunk::<2>().ok_or(DecodeError::Truncated)?;
        match value {
            [MODULE_VALUE, fields @ ..] => Ok(Self(ByteCursor(fields))),
            _ => Err("a value of another type".into()),
        }
    }

    /// Reads the name of the type, and the encoding version.
    pub fn type_and_version(&mut self) -> Result<([u8; 9], i32), DecodeError> {
        let id = self.length()?;
        let letter = |index| LETTERS[(id >> (58 - 6 * index) & 0x3f) as usize];
        let version = i32::try_from(id & 0x3ff).unwrap_or_default();
        Ok((std::array::from_fn(letter), version))
    }

    /// Checks that the value ends here.
    pub fn end(&self) -> Result<(), DecodeError> {
        match self.0.0 {
            [END_OF_VALUE] => Ok(()),
            [] => Err(DecodeError::Truncated),
            _ => Err("bytes after the object".into()),
        }
    }

    /// Reads a number of `length` bytes, big endian.
    fn big_endian(&mut self, length: u64) -> Result<u64, DecodeError> {
        let bytes = self.0.slice(length)?.iter();
        Ok(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Reads the length of a string, or its encoding.
    fn string_length(&mut self) -> Result<Length, DecodeError> {
        let [first] = self.0.array()?;
        let low = first & 0x3f;
        Ok(Length::Plain(match (first >> 6, first) {
            (0, _) => low.into(),
            (1, _) => u64::from(low) << 8 | self.big_endian(1)?,
            (_, 0x80) => self.big_endian(4)?,
            (_, 0x81) => self.big_endian(8)?,
            (3, _) => return Ok(Length::Encoded(low)),
            _ => return Err(UNKNOWN_LENGTH),
        }))
    }

    fn length(&mut self) -> Result<u64, DecodeError> {
        match self.string_length()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => Err(UNKNOWN_LENGTH),
        }
    }

    fn field(&mut self, kind: u64) -> Result<(), DecodeError> {
        if self.length()? == kind {
            Ok(())
        } else {
            Err(DecodeError::Truncated)
        }
    }
}

impl RdbRead for Fields<'_> {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        self.field(UINT)?;
        self.length()
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        self.field(DOUBLE)?;
        self.0.double()
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        const LZF: u8 = 3;
        self.field(STRING)?;
        let bytes = match self.string_length()? {
            Length::Plain(length) => self.0.slice(length)?,
            Length::Encoded(width @ 0..=2) => {
                // A string of digits as a little-endian integer of 1, 2 or 4 bytes.
                let bytes = self.0.slice(1 << width)?;
                let negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
                let mut number = [if negative { 0xff } else { 0 }; 8];
                number[..bytes.len()].copy_from_slice(bytes);
                return Ok(i64::from_le_bytes(number).to_string().into_bytes());
            }
            Length::Encoded(LZF) => {
                let (compressed, length) = (self.length()?, self.length()?);
                return decompressed(self.0.slice(compressed)?, length);
            }
            Length::Encoded(_) => return Err("unknown encoding of a string".into()),
        };
        let copy = memory::copied(bytes).ok_or(DecodeError::NoMemory)?;
        Ok(copy.into_vec())
    }
}

/// Decompresses a string of the LZF format: literal runs, and copies of earlier bytes.
fn decompressed(from: &[u8], length: u64) -> Result<Vec<u8>, DecodeError> {
    const INVALID: DecodeError = DecodeError::Malformed("invalid compression");
    // Three bytes stand for at most 264.
    if length / 88 > from.len() as u64 {
        return Err(INVALID);
    }
    let length = usize::try_from(length).map_err(|_| DecodeError::NoMemory)?;
    let mut to = memory::reserved(length).ok_or(DecodeError::NoMemory)?;
    let mut from = ByteCursor(from);
    let byte = |from: &mut ByteCursor<'_>| match from.array() {
        Ok([byte]) => Ok(usize::from(byte)),
        Err(_) => Err(INVALID),
    };
    while !from.0.is_empty() {
        let control = byte(&mut from)?;
        let run = match control >> 5 {
            0 => control + 1,
            7 => 9 + byte(&mut from)?,
            short => short + 2,
        };
        if run > length - to.len() {
            return Err(INVALID);
        }
        if control < 32 {
            let literals = from.slice(run as u64).map_err(|_| INVALID)?;
            to.extend_from_slice(literals);
        } else {
            let distance = ((control & 31) << 8 | byte(&mut from)?) + 1;
            let start = to.len().checked_sub(distance).ok_or(INVALID)?;
            for index in start..start + run {
                to.push(to[index]);
            }
        }
    }
    if to.len() == length {
        Ok(to)
    } else {
        Err(INVALID)
    }
}
