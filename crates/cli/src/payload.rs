//! Parses payloads of DUMP into the fields of their values.
//!
//! Equal values may have different payloads: whether strings are compressed depends on a server's settings, and
//! RedisBloom writes memory addresses into its `TopK` lists.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::CStr;

use valkeybloom_sketches::bloom::chunks::Value;
use valkeybloom_sketches::bloom::{Dialect, Object, rdb};
use valkeybloom_sketches::topk;
use valkeybloom_sketches::{DecodeError, RdbRead};

use super::dump;

/// Returns whether two payloads hold the same value.
pub fn are_same(one: &[u8], other: &[u8]) -> bool {
    if dump::value(one) == dump::value(other) {
        return true;
    }
    let values = Fields::of(one).zip(Fields::of(other));
    values.is_some_and(|(one, other)| one == other)
}

/// Returns the Bloom filter in a payload; `None` for any other value, and for a partly loaded filter.
pub fn filter(payload: &[u8]) -> Option<Object> {
    let mut dialects = Dialect::ALL.into_iter();
    let dialect = dialects.find(|of| dump::is_of_type(payload, of.type_name().to_bytes()))?;
    let mut fields = Fields::of(payload)?;
    match rdb::read(dialect, fields.version(), &mut fields).ok()? {
        Value::Complete(object) => Some(object),
        Value::Partial(_) => None,
    }
}

/// Reads the value of a type in a payload by `read`, which takes the encoding version and the fields; `None` for any
/// other value.
pub fn value_of<T>(
    payload: &[u8],
    type_name: &CStr,
    read: impl FnOnce(i32, &mut Fields) -> Result<T, DecodeError>,
) -> Option<T> {
    if !dump::is_of_type(payload, type_name.to_bytes()) {
        return None;
    }
    let mut fields = Fields::of(payload)?;
    read(fields.version(), &mut fields).ok()
}

/// A field of a module's value.
#[derive(PartialEq)]
enum Field {
    Number(u64),
    /// The bits of a double.
    Double(u64),
    Text(Vec<u8>),
}

/// The fields of a module's value.
#[derive(PartialEq)]
pub struct Fields {
    /// The type's name and encoding version, packed.
    id: u64,
    fields: VecDeque<Field>,
}

impl Fields {
    /// Parses a payload; `None` if it holds no module's value.
    fn of(payload: &[u8]) -> Option<Self> {
        const MODULE_VALUE: u8 = 7;
        let mut from = Bytes(dump::value(payload));
        if from.byte()? != MODULE_VALUE {
            return None;
        }
        let id = from.number()?;
        let mut fields = VecDeque::new();
        loop {
            // The server's opcodes for the fields of a module's value.
            fields.push_back(match from.number()? {
                0 => break,
                1 | 2 => Field::Number(from.number()?),
                3 => Field::Double(f64::from(f32::from_le_bytes(from.array()?)).to_bits()),
                4 => Field::Double(u64::from_le_bytes(from.array()?)),
                5 => Field::Text(from.text()?.into_owned()),
                _ => return None,
            });
        }
        if dump::is_of_type(payload, topk::wire::TYPE_NAME.to_bytes()) {
            clear_addresses(&mut fields);
        }
        Some(Self { id, fields })
    }

    /// Returns the encoding version: the last ten bits of the id.
    fn version(&self) -> i32 {
        i32::try_from(self.id & 0x3ff).unwrap_or_default()
    }
}

/// Clears the addresses in the entries of a `TopK` list, its second string. Each entry has two numbers of four bytes,
/// an address of eight, a count of four, and four bytes of padding.
fn clear_addresses(fields: &mut VecDeque<Field>) {
    let mut strings = fields.iter_mut().filter_map(|field| match field {
        Field::Text(text) => Some(text),
        _ => None,
    });
    for entry in strings
        .nth(1)
        .into_iter()
        .flat_map(|text| text.chunks_exact_mut(24))
    {
        entry[8..16].fill(0);
        entry[20..].fill(0);
    }
}

impl RdbRead for Fields {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        match self.fields.pop_front() {
            Some(Field::Number(number)) => Ok(number),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        match self.fields.pop_front() {
            Some(Field::Double(bits)) => Ok(f64::from_bits(bits)),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        match self.fields.pop_front() {
            Some(Field::Text(text)) => Ok(text),
            _ => Err(DecodeError::Truncated),
        }
    }
}

/// Bytes in the form of RDB files, consumed from the front. Methods return `None` for invalid bytes.
struct Bytes<'p>(&'p [u8]);

impl<'p> Bytes<'p> {
    fn take(&mut self, count: usize) -> Option<&'p [u8]> {
        self.0.split_off(..count)
    }

    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Takes a number of six, 14, 32 or 64 bits, in big-endian order.
    fn number(&mut self) -> Option<u64> {
        Some(match self.byte()? {
            first @ 0..0x40 => u64::from(first),
            first @ 0x40..0x80 => u64::from(u16::from_be_bytes([first - 0x40, self.byte()?])),
            0x80 => u64::from(u32::from_be_bytes(self.array()?)),
            0x81 => u64::from_be_bytes(self.array()?),
            _ => return None,
        })
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// Takes a string in any of its forms: after its length, as a number, or compressed.
    fn text(&mut self) -> Option<Cow<'p, [u8]>> {
        let decimal = |number: i32| Some(Cow::Owned(number.to_string().into_bytes()));
        let form = *self.0.first()?;
        if form < 0xc0 {
            let length = self.size()?;
            return self.take(length).map(Cow::Borrowed);
        }
        self.byte()?;
        match form {
            0xc0 => decimal(i8::from_le_bytes(self.array()?).into()),
            0xc1 => decimal(i16::from_le_bytes(self.array()?).into()),
            0xc2 => decimal(i32::from_le_bytes(self.array()?)),
            0xc3 => {
                let (compressed, length) = (self.size()?, self.size()?);
                decompressed(self.take(compressed)?, length).map(Cow::Owned)
            }
            _ => None,
        }
    }
}

/// Decompresses LZF: runs of literal bytes, and references to earlier output. (The crate for it is deprecated.)
fn decompressed(bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    let (mut from, mut out) = (Bytes(bytes), Vec::new());
    while let Some(control) = from.byte() {
        let high = usize::from(control >> 5);
        if high == 0 {
            out.extend_from_slice(from.take(usize::from(control) + 1)?);
            continue;
        }
        let more = if high == 7 { from.byte()? } else { 0 };
        let count = high + usize::from(more) + 2;
        let back = usize::from(u16::from_be_bytes([control & 31, from.byte()?])) + 1;
        let start = out.len().checked_sub(back)?;
        if count > length.checked_sub(out.len())? {
            return None;
        }
        // Byte by byte, because a reference may overlap its own output.
        for at in start..start + count {
            out.push(out[at]);
        }
    }
    (out.len() == length).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lzf_is_decompressed() {
        // Three literal bytes, a reference to the last byte that overlaps its own output, and one to the whole output.
        let bytes = [2, b'a', b'b', b'c', 0x20, 0, 0xe0, 1, 5];
        let text = b"abccccabccccabcc";
        let whole = decompressed(&bytes, text.len());
        assert_eq!(whole.as_deref(), Some(&text[..]));
        // The length differs from the claimed one, bytes are missing, or a reference points before the output.
        for length in [0, 5, text.len() - 1, text.len() + 1] {
            assert_eq!(decompressed(&bytes, length), None, "{length}");
        }
        for cut in [1, 3, 5, 7, 8] {
            assert_eq!(decompressed(&bytes[..cut], text.len()), None, "{cut}");
        }
        assert_eq!(decompressed(&[0, b'a', 0x20, 1], 4), None);
    }

    /// Returns a payload of a module's value with these fields.
    fn payload(fields: &[u8]) -> Vec<u8> {
        let id = 0x6e5a_2899_f96d_ac01_u64.to_be_bytes();
        [&[7, 0x81][..], &id, fields, &[0; 11]].concat()
    }

    #[test]
    fn fields_are_the_same_in_every_form() {
        let short = payload(&[2, 5, 5, 2, b'4', b'2']);
        for other in [
            &[2, 0x40, 5, 5, 2, b'4', b'2'][..],
            &[2, 0x80, 0, 0, 0, 5, 5, 0xc0, 42],
            &[2, 0x81, 0, 0, 0, 0, 0, 0, 0, 5, 5, 0xc1, 42, 0],
            &[2, 5, 5, 0xc2, 42, 0, 0, 0],
            &[2, 5, 5, 0xc3, 3, 2, 1, b'4', b'2'],
        ] {
            assert!(are_same(&short, &payload(other)), "{other:?}");
        }
        for other in [
            &[2, 6, 5, 2, b'4', b'2'][..],
            &[2, 5, 5, 2, b'4', b'3'],
            &[2, 5],
            &[2, 5, 5, 9, b'4', b'2'],
            &[2, 5, 9],
        ] {
            assert!(!are_same(&short, &payload(other)), "{other:?}");
        }
        assert!(filter(&short).is_none());
    }
}
