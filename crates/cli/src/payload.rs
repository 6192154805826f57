//! Values in payloads of DUMP, field by field.
//!
//! Equal values may have different payloads: servers compress strings or not, as they are set to, and RedisBloom writes
//! addresses in its memory into lists of the most frequent items.

use std::borrow::Cow;
use std::collections::VecDeque;

use valkeybloom_sketches::bloom::chunks::Value;
use valkeybloom_sketches::bloom::{Dialect, Object, rdb};
use valkeybloom_sketches::carried::Sketch;
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

/// Returns the Bloom filter in a payload, or `None` if the payload holds another value, or half a filter.
pub fn filter(payload: &[u8]) -> Option<Object> {
    let is_of = |of: &Dialect| {
        let name = of.type_name().to_str();
        name.is_ok_and(|name| dump::is_of_type(payload, name))
    };
    let dialect = Dialect::ALL.into_iter().find(is_of)?;
    let mut fields = Fields::of(payload)?;
    match rdb::read(dialect, fields.version(), &mut fields).ok()? {
        Value::Complete(object) => Some(object),
        Value::Partial(_) => None,
    }
}

/// A field of a module's value.
#[derive(PartialEq)]
enum Field {
    Number(u64),
    /// The bits of a double.
    Double(u64),
    Text(Vec<u8>),
}

/// The fields of a module's value, and what stands for its type.
#[derive(PartialEq)]
struct Fields {
    id: u64,
    fields: VecDeque<Field>,
}

impl Fields {
    /// Reads a payload, or returns `None` if a module's value is not what it holds.
    fn of(payload: &[u8]) -> Option<Self> {
        const MODULE_VALUE: u8 = 7;
        let mut from = Bytes(dump::value(payload));
        if from.byte()? != MODULE_VALUE {
            return None;
        }
        let id = from.number()?;
        let mut fields = VecDeque::new();
        loop {
            // These numbers are the server's, for the kinds of fields that modules write.
            fields.push_back(match from.number()? {
                0 => break,
                1 | 2 => Field::Number(from.number()?),
                3 => Field::Double(f64::from(f32::from_le_bytes(from.array()?)).to_bits()),
                4 => Field::Double(u64::from_le_bytes(from.array()?)),
                5 => Field::Text(from.text()?.into_owned()),
                _ => return None,
            });
        }
        let top = Sketch::TopK.type_name().to_str().ok()?;
        if dump::is_of_type(payload, top) {
            clear_addresses(&mut fields);
        }
        Some(Self { id, fields })
    }

    /// The version of the value's encoding, which the last ten bits of a type's number are.
    fn version(&self) -> i32 {
        i32::try_from(self.id & 0x3ff).unwrap_or_default()
    }
}

/// Clears the addresses in the entries of a list of the most frequent items, which are its second string: each has two
/// numbers of four bytes, an address of eight, a count of four, and four bytes that hold nothing.
fn clear_addresses(fields: &mut VecDeque<Field>) {
    let strings = fields.iter_mut().filter_map(|field| match field {
        Field::Text(text) => Some(text),
        _ => None,
    });
    for entry in strings
        .skip(1)
        .take(1)
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

/// Bytes in the form of RDB files, read from their front. Every method returns `None` if they are not in that form.
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

    /// A number in six, 14, 32 or 64 bits, the highest first.
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

    /// A string: after its length, as the number that it shows, or compressed.
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
        // Byte by byte: a reference may reach into its own output.
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
        // Three literal bytes, a reference to the last one that reaches into its own output, and one to all of it.
        let bytes = [2, b'a', b'b', b'c', 0x20, 0, 0xe0, 1, 5];
        let text = b"abccccabccccabcc";
        let whole = decompressed(&bytes, text.len());
        assert_eq!(whole.as_deref(), Some(&text[..]));
        // Of another length than was claimed, cut, or with a reference to what is not there.
        for length in [0, 5, text.len() - 1, text.len() + 1] {
            assert_eq!(decompressed(&bytes, length), None, "{length}");
        }
        for cut in [1, 3, 5, 7, 8] {
            assert_eq!(decompressed(&bytes[..cut], text.len()), None, "{cut}");
        }
        assert_eq!(decompressed(&[0, b'a', 0x20, 1], 4), None);
    }

    /// A payload of a module's value with this id and these fields.
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
