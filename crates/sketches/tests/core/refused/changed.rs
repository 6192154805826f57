//! Cut and flipped bytes of objects of every dialect: refused, or another object that bears every operation.
//! Changes of several fields at once are in the fuzz target `decode`.

use std::mem::discriminant;

use valkeybloom_sketches::bloom::chunks::Value;
use valkeybloom_sketches::bloom::{Dialect, Limits, Object, Time, dump, rdb};
use valkeybloom_sketches::{DecodeError, MAX_CAPACITY};

use crate::plain::Plain;
use crate::support::{
    Field, Stream, begin, dump_of, fields_of, has_at, header_of, through_every_form,
};
use crate::{draft, tables};

/// Does with an object what can be done, at any time, within limits that keep this small.
pub fn survives_use(mut object: Object) {
    through_every_form(&object);
    let limits = Limits {
        filter_bytes: 1 << 12,
        object_bytes: 1 << 14,
        saturate: true,
    };
    for now_ms in [0, 7_500, 10_001, 50_000, 3, i64::MAX as u64] {
        let now = || now_ms;
        let time = Time {
            now_ms,
            ttl_ms: (now_ms % 2 == 1).then_some(i64::MAX as u64),
        };
        object.tidy(now_ms);
        for item in 0..8_u8 {
            let item = [item];
            if object.add(&item, time, || limits).is_ok() {
                assert!(has_at(&object, &item, now_ms));
            }
            let removed = object.remove(&item);
            let claimed = has_at(&object, &item, now_ms);
            if object.shape().is_counting() {
                assert_eq!(object.count(&item) > 0, claimed);
            } else {
                assert!(!removed);
                assert_eq!(object.count(&item), 0);
            }
        }
        // An estimate takes longer than all the rest.
        if now_ms == 10_001 {
            assert!((0.0..=1.0).contains(&object.estimated_rate(now)));
        }
        let mut rates = object.filters().map(|(_, rate)| rate);
        assert!(rates.all(|rate| (0.0..=1.0).contains(&rate)));
        assert!(object.items(now).max(object.capacity()) <= MAX_CAPACITY);
        assert!(!object.is_plain() || object.reach(limits) >= object.capacity());
        if let Ok(merged) = Object::merged(&[&object, &object], limits) {
            through_every_form(&merged);
        }
    }
    if object.is_plain() {
        assert!(object.reach(Limits::NONE) >= object.capacity());
    }
    through_every_form(&object.try_clone().unwrap());
}

/// The stored forms of an object.
struct Sample {
    dialect: Dialect,
    dump: Option<Vec<u8>>,
    header: Vec<u8>,
    fields: Stream,
}

impl Sample {
    /// Returns whether all accepted bytes of the dialect are written again. The entries of tables may be coded otherwise.
    fn is_kept(&self) -> bool {
        self.dialect != Dialect::Bloomfltx
    }

    fn read(&self, fields: Stream) -> Result<Value, DecodeError> {
        let mut stream = fields;
        let value = rdb::read(self.dialect, self.dialect.rdb_version(), &mut stream)?;
        // The server checks for fields after the value.
        if stream == Stream::default() {
            Ok(value)
        } else {
            Err(DecodeError::Truncated)
        }
    }

    /// Requires the error of a form that was cut. Which one it is depends on the cut in the forms of `RedisBloom`, a
    /// header of which may be another dialect's.
    #[track_caller]
    fn is_cut<T>(&self, read: Result<T, DecodeError>, name: &str) {
        let error = read.err().unwrap_or_else(|| panic!("{name} accepted"));
        let may_be_other = self.dialect == Dialect::RedisBloom;
        assert!(
            may_be_other || error == DecodeError::Truncated,
            "{name}: {error}"
        );
    }
}

fn samples() -> Vec<Sample> {
    let plain = Plain::valid();
    let mut samples = vec![Sample {
        dialect: Dialect::Bloomfltr,
        dump: Some(plain.dump()),
        header: plain.header(),
        fields: plain.stream(),
    }];
    for object in tables::few() {
        samples.push(Sample {
            dialect: Dialect::Bloomfltx,
            dump: Some(dump_of(&object)),
            header: header_of(&object),
            fields: fields_of(&object),
        });
    }
    let mut drafts = draft::drafts();
    drafts.retain(|draft| draft.version == 4);
    for draft in drafts {
        samples.push(Sample {
            dialect: Dialect::RedisBloom,
            dump: None,
            header: draft.header(),
            fields: draft.fields(),
        });
    }
    samples
}

/// Cuts the items of each link of an object of `RedisBloom` to its entries.
fn cut_items(fields: &mut Stream) {
    const FIRST_LINK: usize = 4;
    let mut total = 0;
    for link in fields.0.make_contiguous()[FIRST_LINK..].chunks_mut(8) {
        let (Field::Uint(entries), Field::Uint(items)) = (&link[0], &link[7]) else {
            panic!("other fields: {link:?}");
        };
        let items = *entries.min(items);
        link[7] = Field::Uint(items);
        total += items;
    }
    fields.0[0] = Field::Uint(total);
}

/// Returns bytes with each of their bits flipped.
fn flipped(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..bytes.len() * 8).map(|bit| {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    })
}

#[test]
fn every_flipped_bit_of_a_dump_is_refused_or_another_object() {
    let (mut valid, mut tried) = (0, 0);
    for sample in samples() {
        for bytes in sample.dump.iter().flat_map(|dump| flipped(dump)) {
            tried += 1;
            let Ok(object) = dump::decode(&bytes) else {
                continue;
            };
            let written = dump_of(&object);
            // The flag that says whether the seed is the fixed one may be another.
            let same = written[..21] == bytes[..21] && written[22..] == bytes[22..];
            assert!(same || !sample.is_kept(), "{bytes:?}");
            survives_use(object);
            valid += 1;
        }
    }
    assert!(
        valid > 300 && valid < tried / 2,
        "{valid} of {tried} were valid"
    );
}

#[test]
fn every_flipped_bit_of_a_header_is_refused_or_another_object() {
    let (mut valid, mut tried) = (0, 0);
    for sample in samples() {
        for header in flipped(&sample.header) {
            tried += 1;
            if let Ok(Value::Partial(partial)) = begin(&header) {
                // No more memory than a small multiple of what came, whatever it claims.
                let most = 1_000 + 10 * header.len() as u64;
                assert!(sample.dump.is_none() || partial.memory_bytes() < most);
                assert_eq!(partial.pieces().count(), 1);
                valid += 1;
            }
        }
    }
    assert!(
        valid > 100 && valid < tried / 2,
        "{valid} of {tried} were valid"
    );
}

#[test]
fn every_flipped_bit_of_the_fields_is_refused_or_another_object() {
    let mut valid = [0; 3];
    for sample in samples() {
        for index in 0..sample.fields.0.len() {
            let flipped: Vec<Field> = match &sample.fields.0[index] {
                Field::Bytes(bytes) => flipped(bytes).map(Field::Bytes).collect(),
                Field::Uint(value) => (0..64).map(|bit| Field::Uint(value ^ 1 << bit)).collect(),
                Field::Double(value) => (0..64)
                    .map(|bit| Field::Double(f64::from_bits(value.to_bits() ^ 1 << bit)))
                    .collect(),
            };
            // Every sixteenth bit of the long blobs of `RedisBloom`.
            let step = if flipped.len() > 900 { 16 } else { 1 };
            for field in flipped.into_iter().step_by(step) {
                let mut fields = sample.fields.clone();
                fields.0[index] = field;
                // Zero filters are those of a partial object.
                let Ok(Value::Complete(object)) = sample.read(fields.clone()) else {
                    continue;
                };
                let mut written = fields_of(&object);
                if sample.dump.is_some() {
                    // The seed's flag.
                    written.0[4] = fields.0[4].clone();
                } else {
                    cut_items(&mut fields);
                }
                assert!(written == fields || !sample.is_kept(), "field {index}");
                survives_use(object);
                valid[sample.dialect as usize] += 1;
            }
        }
    }
    assert!(
        valid.iter().all(|valid| *valid > 64),
        "{valid:?} were valid"
    );
}

#[test]
fn every_truncation_is_refused() {
    for sample in samples() {
        let dump = sample.dump.as_deref().unwrap_or_default();
        for end in 0..dump.len() {
            sample.is_cut(dump::decode(&dump[..end]), &format!("dump of {end} bytes"));
        }
        for end in 0..sample.header.len() {
            let name = format!("header of {end} bytes");
            sample.is_cut(begin(&sample.header[..end]), &name);
        }
        for end in 0..sample.fields.0.len() {
            let cut = Stream(sample.fields.0.iter().take(end).cloned().collect());
            sample.is_cut(sample.read(cut), &format!("{end} fields"));
        }
    }
}

#[test]
fn a_field_of_another_kind_is_refused() {
    for sample in samples() {
        for index in 0..sample.fields.0.len() {
            for other in [
                Field::Uint(1),
                Field::Double(0.5),
                Field::Bytes(vec![1; 60]),
            ] {
                if discriminant(&other) != discriminant(&sample.fields.0[index]) {
                    let mut fields = sample.fields.clone();
                    fields.0[index] = other;
                    sample.is_cut(sample.read(fields), &format!("field {index}"));
                }
            }
        }
    }
}
