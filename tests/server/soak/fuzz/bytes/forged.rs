//! Objects that no client made, in every form.

use super::super::mutate::{RATES, edge};
use super::samples::{FOOTER_BYTES, TYPE_BYTES};
use crate::soak::Random;
use crate::support::forged::{Forged, ForgedFilter, Rdb, seal};

/// Returns an object whose lengths are right and whose numbers may be anything.
pub fn forged(random: &mut Random) -> Forged {
    let mut object = Forged::new();
    let rate = |random: &mut Random| match random.below(3) {
        0 => *random.pick(&RATES),
        _ => *random.pick(&[0.5, 0.01, 0.001]),
    };
    object.expansion = edge(random) & u64::from(u32::MAX);
    object.error_rate = rate(random);
    object.tightening = rate(random);
    object.filters = (0..=random.below(4))
        .map(|_| {
            let length = random.below(40) + usize::from(!random.one_in(20));
            let capacity = if random.one_in(3) { edge(random) } else { 5 };
            let items = match random.below(6) {
                0 => edge(random),
                1 => capacity.wrapping_sub(1),
                _ => capacity,
            };
            let mut filter = ForgedFilter::new(capacity, items, random.bytes(length));
            filter.hashes = *random.pick(&[1, 2, 3, 3, 7, 64, 4096, 4097, 0]);
            filter
        })
        .collect();
    object
}

/// A field of an object with periods or counters.
enum Field {
    Uint(u64),
    Double(f64),
    Bytes(Vec<u8>),
    /// The header of a filter, and its cells.
    Blob(Vec<u8>, Vec<u8>),
}

/// The fields of such an object: their order and lengths are right, and its numbers may be anything.
pub struct ForgedExtended(Vec<Field>);

impl ForgedExtended {
    pub fn new(random: &mut Random) -> Self {
        use Field::{Blob, Bytes, Double, Uint};
        let odd = |random: &mut Random, right: u64| match random.below(12) {
            0 => Uint(edge(random)),
            _ => Uint(right),
        };
        let seed = vec![7; 32];
        let options = 1 + random.below(3) as u64;
        // Form 2 is that of counters with ids.
        let with_ids = options == 2 && random.one_in(2);
        let form = 1 + u64::from(with_ids);
        let mut fields = vec![Uint(form), odd(random, options)];
        let expansion = random.below(3) as u64;
        fields.push(odd(random, expansion));
        for _ in 0..2 {
            let rate = if random.one_in(12) {
                &RATES[..]
            } else {
                &[0.5, 0.01]
            };
            fields.push(Double(*random.pick(rate)));
        }
        fields.extend([odd(random, 5), Bytes(seed.clone())]);
        if options & 1 != 0 {
            let length = *random.pick(&[1_000_000_000_000, 10_000_000_000_000, 60_000]);
            fields.extend([odd(random, length), odd(random, 2)]);
        }
        let stacks = random.below(4) as u64;
        fields.push(Uint(stacks));
        for _ in 0..stacks {
            let period = random.below(3) as u64;
            let period = if options & 1 == 0 { 0 } else { period };
            fields.push(odd(random, period));
            let filters = 1 + random.below(3) as u64;
            if options & 2 != 0 && !with_ids {
                let ranges = random.below(3) as u64;
                fields.push(Uint(ranges));
                if ranges > 0 {
                    fields.extend([odd(random, 3), odd(random, 9)]);
                }
                for range in 0..ranges {
                    fields.extend([odd(random, 4 * range), odd(random, range)]);
                }
            }
            fields.push(Uint(filters));
            for _ in 0..filters {
                let cells = random.below(20) + usize::from(!random.one_in(20));
                let hashes: u32 = *random.pick(&[1, 2, 3, 3, 7, 4096, 4097, 0]);
                let (version, width) = if options & 2 != 0 { (2, 4) } else { (1, 1) };
                let length = cells * width;
                let head = [
                    &[version][..],
                    &(cells as u64).to_le_bytes(),
                    &hashes.to_le_bytes(),
                    &seed,
                ];
                fields.push(Blob(head.concat(), random.bytes(length)));
                let items = random.below(6) as u64;
                fields.extend([odd(random, 5), odd(random, items)]);
                if with_ids {
                    let took = random.below(2) as u64;
                    fields.push(Uint(took));
                    if took > 0 {
                        fields.extend([odd(random, 3), odd(random, 9)]);
                    }
                }
            }
        }
        Self(fields)
    }

    /// Returns the payload for RESTORE; the first bytes name the type.
    pub fn payload(&self, name: &[u8], version: [u8; 2]) -> Vec<u8> {
        let rdb = self
            .0
            .iter()
            .fold(Rdb::default(), |rdb, field| match field {
                Field::Uint(value) => rdb.uint(*value),
                Field::Double(value) => rdb.double(*value),
                Field::Bytes(bytes) => rdb.string(bytes),
                Field::Blob(head, cells) => rdb.string(&[&head[..], cells].concat()),
            });
        let mut value = rdb.payload(version);
        value.truncate(value.len() - FOOTER_BYTES);
        value[..TYPE_BYTES].copy_from_slice(name);
        seal(value, version)
    }

    /// Returns the bytes for BF.LOAD, or for BF.LOADCHUNK at cursor 1.
    pub fn flat(&self, whole: bool) -> Vec<u8> {
        let mut out = vec![if whole { 2 } else { 0x82 }];
        for field in &self.0 {
            let cells = if whole { usize::MAX } else { 0 };
            match field {
                Field::Uint(value) => out.extend(value.to_le_bytes()),
                Field::Double(value) => out.extend(value.to_le_bytes()),
                Field::Bytes(bytes) => {
                    out.extend((bytes.len() as u64).to_le_bytes());
                    out.extend(bytes);
                }
                Field::Blob(head, body) => {
                    let body = &body[..body.len().min(cells)];
                    out.extend(((head.len() + body.len()) as u64).to_le_bytes());
                    out.extend(head);
                    out.extend(body);
                }
            }
        }
        out
    }
}
