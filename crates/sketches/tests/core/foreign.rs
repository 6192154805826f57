//! Bytes written by another implementation: valkey-bloom 1.0. For eight objects, the folder holds the DUMP payload,
//! the reply of BF.INFO, and the answers for thousands of items; and a rewritten AOF of the same server with each
//! object's BF.LOAD payload.

use std::collections::HashMap;

use bloomfilter::Bloom;
use serde_json::Value;
use valkeybloom_sketches::bloom::{Added, Dialect, Growth, Object, Refusal, dump};

use crate::support::{
    Field, Rng, Stream, add, blob_of, capacity, dump_of, fields_of, filters, grow, has, has_each,
    is_half_full, items, object, params, read_fields,
};

const OBJECTS: &str = include_str!("../../../../tests/data/valkey-bloom-1.0/objects.json");
const AOF: &[u8] = include_bytes!("../../../../tests/data/valkey-bloom-1.0/rewritten.aof");

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

    /// Up to a line's end.
    fn line(&mut self) -> &'b str {
        let end = self.0.windows(2).position(|two| two == b"\r\n").unwrap();
        let line = self.take(end);
        self.take(2);
        std::str::from_utf8(line).unwrap()
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

    /// Returns a string: its length and itself, or compressed by LZF, or its digits as an integer.
    fn string(&mut self) -> Vec<u8> {
        const INTEGERS: std::ops::Range<u8> = 0xc0..0xc3;
        const LZF: u8 = 0xc3;
        let first = self.0[0];
        if first < INTEGERS.start {
            let length = self.size();
            return self.take(length).to_vec();
        }
        self.byte();
        if INTEGERS.contains(&first) {
            let mut bytes = [0; 8];
            let length = 1 << (first - INTEGERS.start);
            bytes[8 - length..].copy_from_slice(self.take(length));
            let number = i64::from_le_bytes(bytes) >> (64 - 8 * length);
            return number.to_string().into_bytes();
        }
        assert_eq!(first, LZF);
        let (compressed, length) = (self.size(), self.size());
        let string = decompressed(self.take(compressed));
        assert_eq!(string.len(), length);
        string
    }
}

/// LZF: runs of literal bytes, and references to what was put out before.
fn decompressed(bytes: &[u8]) -> Vec<u8> {
    let (mut from, mut out) = (Bytes(bytes), Vec::new());
    while !from.0.is_empty() {
        let control = usize::from(from.byte());
        if control < 32 {
            out.extend(from.take(control + 1));
            continue;
        }
        let mut length = control >> 5;
        if length == 7 {
            length += usize::from(from.byte());
        }
        let back = (control & 31) << 8 | usize::from(from.byte());
        let start = out.len() - back - 1;
        // Byte by byte: a reference may reach into what it puts out.
        for index in start..start + length + 2 {
            out.push(out[index]);
        }
    }
    out
}

/// Returns the fields of a module's value in a DUMP payload.
fn fields(payload: &[u8]) -> Stream {
    fields_of_type(payload, 0x6e5a_2899_f96d_ac01)
}

/// Returns the fields of a payload whose type has this id: the name, six bits a character, and the encoding version
/// in the last ten bits.
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
            5 => Field::Bytes(from.string()),
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

/// The recording of one object.
struct Record {
    name: String,
    dump: Vec<u8>,
    info: Value,
    /// Items, and whether valkey-bloom's BF.MEXISTS claimed them.
    answers: Vec<(Vec<u8>, bool)>,
    /// The number of items added, from the first on.
    added: usize,
}

fn records() -> Vec<Record> {
    let objects: Value = serde_json::from_str(OBJECTS).unwrap();
    let objects = objects.as_object().unwrap();
    let record = |(name, value): (&String, &Value)| {
        let items = value["probe"].as_array().unwrap();
        let answers = value["answers"].as_str().unwrap().bytes();
        assert_eq!(items.len(), answers.len());
        let items = items.iter().map(|item| unhex(item.as_str().unwrap()));
        Record {
            name: name.clone(),
            dump: unhex(value["dump"].as_str().unwrap()),
            info: value["info"].clone(),
            answers: items.zip(answers.map(|answer| answer == b'1')).collect(),
            added: usize::try_from(value["added"].as_u64().unwrap()).unwrap(),
        }
    };
    let records: Vec<Record> = objects.iter().map(record).collect();
    assert_eq!(records.len(), 8);
    records
}

/// Returns the BF.LOAD payloads of the AOF, by key.
fn payloads() -> HashMap<String, Vec<u8>> {
    let mut from = Bytes(AOF);
    let mut payloads = HashMap::new();
    let number = |line: &str, sign| line.strip_prefix(sign).unwrap().parse::<usize>().unwrap();
    while !from.0.is_empty() {
        let count = number(from.line(), '*');
        let mut words: Vec<&[u8]> = Vec::new();
        for _ in 0..count {
            let length = number(from.line(), '$');
            words.push(from.take(length));
            assert_eq!(from.take(2), b"\r\n");
        }
        match words[..] {
            [b"SELECT", _] => {}
            [b"BF.LOAD", key, payload] => {
                let key = String::from_utf8(key.to_vec()).unwrap();
                payloads.insert(key, payload.to_vec());
            }
            ref other => panic!("unexpected: {other:?}"),
        }
    }
    assert_eq!(payloads.len(), 8);
    payloads
}

fn from_dump(record: &Record) -> Object {
    read_fields(Dialect::Bloomfltr, fields(&record.dump)).unwrap()
}

#[track_caller]
fn answers_as_recorded(object: &Object, record: &Record) {
    for (item, claimed) in &record.answers {
        assert_eq!(has(object, item), *claimed, "{}: {item:?}", record.name);
    }
    let batch = has_each(
        object,
        record.answers.iter().map(|(item, _)| item.as_slice()),
    );
    assert!(
        batch
            .iter()
            .eq(record.answers.iter().map(|(_, claimed)| claimed))
    );
    // And those that were added are among the claimed.
    assert!(
        record.answers[..record.added]
            .iter()
            .all(|(_, claimed)| *claimed)
    );
}

#[test]
fn dumped_objects_answer_as_they_did() {
    for record in records() {
        answers_as_recorded(&from_dump(&record), &record);
    }
}

#[test]
fn dumped_objects_report_the_recorded_info() {
    for record in records() {
        let (object, info) = (from_dump(&record), &record.info);
        let count = |field: &str| info[field].as_u64();
        let rate = |field: &str| info[field].as_str().map(|text| text.parse().unwrap());
        let params = object.shape().params;
        let filters = filters(&object).len() as u64;
        assert_eq!(Some(capacity(&object)), count("Capacity"));
        assert_eq!(Some(items(&object)), count("Number of items inserted"));
        assert_eq!(Some(filters), count("Number of filters"));
        assert_eq!(Some(params.error_rate.get()), rate("Error rate"));
        let expansion = match params.growth {
            Growth::Fixed => None,
            Growth::By(factor) => Some(u64::from(factor.get())),
        };
        assert_eq!(expansion, count("Expansion rate"), "{}", record.name);
        if expansion.is_some() {
            assert_eq!(Some(params.tightening.ratio()), rate("Tightening ratio"));
        }
    }
}

#[test]
fn dumped_objects_are_written_as_they_were() {
    for record in records() {
        let written = fields_of(&from_dump(&record));
        assert!(written == fields(&record.dump), "{}", record.name);
    }
}

/// One server wrote the objects in both forms, so either form gives the other.
#[test]
fn payloads_of_the_aof_are_the_same_objects_in_the_other_form() {
    let payloads = payloads();
    for record in records() {
        let payload = &payloads[&record.name];
        let object = dump::decode(payload).unwrap();
        answers_as_recorded(&object, &record);
        assert!(dump_of(&object) == *payload, "{}", record.name);
        assert!(dump_of(&from_dump(&record)) == *payload, "{}", record.name);
        let written = fields_of(&object);
        assert!(written == fields(&record.dump), "{}", record.name);
    }
}

/// Foreign filters stay as they came; filters stacked on them are this program's own.
#[test]
fn foreign_objects_grow_and_lose_nothing() {
    let mut rng = Rng::new(1);
    for record in records() {
        let mut object = from_dump(&record);
        let before: Vec<Vec<u8>> = object.views().map(|f| blob_of(&f).to_vec()).collect();
        let (count, held, _) = object.totals();
        let mut new = Vec::new();
        let scaling = object.shape().params.growth != Growth::Fixed;
        let mut refused = false;
        for _ in 0..1_000_000 {
            if refused || object.totals().0 == count + 2 {
                break;
            }
            let item = rng.bytes(20);
            match add(&mut object, &item) {
                Ok(Added::New) => new.push(item),
                Ok(Added::Present) => {}
                Ok(Added::Again) => panic!("counted in an object of bits"),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::Full);
                    refused = true;
                }
            }
        }
        assert_eq!(refused, !scaling);
        let grown = if scaling { count + 2 } else { count };
        assert_eq!(object.totals().0, grown);
        assert_eq!(items(&object), held + new.len() as u64);
        assert!(new.iter().all(|item| has(&object, item)), "{}", record.name);
        let claimed = record.answers.iter().filter(|(_, claimed)| *claimed);
        assert!(claimed.clone().all(|(item, _)| has(&object, item)));
        // All but the newest that came were full, and full ones are not touched again.
        for (filter, before) in filters(&object).iter().zip(&before[..before.len() - 1]) {
            assert!(blob_of(filter) == *before, "{}", record.name);
        }
        let again = dump::decode(&dump_of(&object)).unwrap();
        assert!(
            claimed
                .map(|(item, _)| item)
                .chain(&new)
                .all(|item| has(&again, item))
        );
    }
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
