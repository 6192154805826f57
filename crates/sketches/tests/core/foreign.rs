//! Payloads of DUMP, by a reader that shares no code with this program.

use crate::support::{Field, Stream};

/// A cursor over bytes that are known to be whole.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    /// Returns a length as RDB files hold it: in six bits, 14, 32 or 64, the highest first.
    fn length(&mut self) -> u64 {
        let first = self.byte();
        let wide = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        match first {
            0..0x40 => u64::from(first),
            0x40..0x80 => u64::from(first - 0x40) << 8 | u64::from(self.byte()),
            0x80 => wide(self.take(4)),
            0x81 => wide(self.take(8)),
            _ => panic!("no length begins with {first:#x}"),
        }
    }

    fn size(&mut self) -> usize {
        usize::try_from(self.length()).unwrap()
    }
}

/// Returns the fields of a payload whose type has this id: the name, six bits a character, and the encoding version
/// in the last ten bits. Its strings are not compressed.
pub fn fields_of_type(payload: &[u8], type_id: u64) -> Stream {
    const MODULE_VALUE: u8 = 7;
    const RDB_VERSION_AND_CHECKSUM: usize = 2 + 8;
    let mut from = Bytes(payload);
    assert_eq!(from.byte(), MODULE_VALUE);
    assert_eq!(from.length(), type_id);
    let mut stream = Stream::default();
    loop {
        let field = match from.length() {
            0 => break,
            2 => Field::Uint(from.length()),
            4 => Field::Double(f64::from_le_bytes(from.take(8).try_into().unwrap())),
            5 => {
                let length = from.size();
                Field::Bytes(from.take(length).to_vec())
            }
            other => panic!("no value of the type is of kind {other}"),
        };
        stream.0.push_back(field);
    }
    assert_eq!(from.0.len(), RDB_VERSION_AND_CHECKSUM);
    stream
}

pub fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
