//! Bytes by the descriptions of their forms: a reader that shares no code with this program.

use bloomfilter::Bloom;
use valkeybloom_sketches::bloom::Object;

use crate::support::{
    Field, Rng, Stream, capacity, dump_of, fields_of, grow, has, is_half_full, items, object,
    params,
};

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

/// A reader of the formats that shares no code with this program: it follows their description, and reads blobs with
/// the crate on which valkey-bloom is built.
struct Reader {
    filters: Vec<Bloom<[u8]>>,
    items: u64,
    capacity: u64,
}

impl Reader {
    fn of_dump(dump: &[u8]) -> Self {
        let mut from = Bytes(dump);
        let number = |from: &mut Bytes| u64::from_le_bytes(from.take(8).try_into().unwrap());
        assert_eq!(from.byte(), 1, "version");
        from.take(4 + 8 + 8 + 1);
        let mut reader = Self {
            filters: Vec::new(),
            items: 0,
            capacity: 0,
        };
        for _ in 0..number(&mut from) {
            let length = usize::try_from(number(&mut from)).unwrap();
            let blob = from.take(length).to_vec();
            reader.filters.push(Bloom::from_bytes(blob).unwrap());
            reader.items += number(&mut from);
            reader.capacity += number(&mut from);
        }
        assert!(from.0.is_empty(), "bytes after the object");
        reader
    }

    fn of_fields(mut fields: Stream) -> Self {
        let number = |fields: &mut Stream| match fields.0.pop_front() {
            Some(Field::Uint(number)) => number,
            other => panic!("{other:?} is no number"),
        };
        let count = number(&mut fields);
        number(&mut fields);
        assert!(matches!(fields.0.pop_front(), Some(Field::Double(_))));
        assert!(matches!(fields.0.pop_front(), Some(Field::Double(_))));
        number(&mut fields);
        let mut reader = Self {
            filters: Vec::new(),
            items: 0,
            capacity: 0,
        };
        for index in 1..=count {
            let capacity = number(&mut fields);
            reader.capacity += capacity;
            reader.items += if index == count {
                number(&mut fields)
            } else {
                capacity
            };
            let Some(Field::Bytes(blob)) = fields.0.pop_front() else {
                panic!("no blob");
            };
            reader.filters.push(Bloom::from_bytes(blob).unwrap());
        }
        assert_eq!(fields, Stream::default(), "fields after the object");
        reader
    }

    #[track_caller]
    fn is(&self, object: &Object, rng: &mut Rng) {
        assert_eq!(self.items, items(object));
        assert_eq!(self.capacity, capacity(object));
        let mut claimed = 0;
        for _ in 0..3000 {
            let length = rng.below(24);
            let item = rng.bytes(length);
            let answer = self.filters.iter().any(|filter| filter.check(&item));
            assert_eq!(has(object, &item), answer, "{item:?}");
            claimed += u32::from(answer);
        }
        assert!(claimed > 0, "nothing was claimed");
    }
}

/// valkey-bloom can read the objects that this program writes, with the same answers.
#[test]
fn written_bytes_can_be_read_by_their_description() {
    let mut rng = Rng::new(31);
    for (capacity, rate, expansion, filters) in
        [(300, 0.1, 0, 1), (100, 0.2, 2, 4), (20, 0.2, 1, 9)]
    {
        let mut object = object(&params(capacity, rate, expansion), rng.seed());
        grow(&mut object, &mut rng, |object| {
            is_half_full(object, filters)
        });
        Reader::of_dump(&dump_of(&object)).is(&object, &mut rng);
        let written = fields_of(&object);
        Reader::of_fields(written).is(&object, &mut rng);
    }
}
