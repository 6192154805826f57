//! Top-k lists: against what RedisBloom recorded, against its rules written down once more, against the exact
//! distribution of its draws, and against bytes that mean harm.

mod agreement;
mod chance;
mod life;
mod naive;
mod recorded;
mod refused;

use valkeybloom_sketches::topk::{
    Chance, Collision, Contest, Decay, Shape, TopK, one_by_one, wire,
};
use valkeybloom_sketches::{DecodeError, Seed};

use crate::support::{Field, Rng, Stream};
use valkeybloom_testing::loader::loaded;

/// Returns an empty sketch.
fn sketch(k: u64, width: u64, depth: u64, decay: f64) -> TopK {
    let shape = Shape::new(k, width, depth, decay).unwrap();
    TopK::new(shape, Seed::FIXED, u64::MAX).unwrap()
}

/// Adds an item without limits. Returns what left the list.
fn add(sketch: &mut TopK, item: &[u8], increment: u32) -> Option<Vec<u8>> {
    let added = sketch.add(item, increment, || u64::MAX).unwrap();
    added.left.map(Vec::from)
}

/// Returns the fields of a sketch in RDB.
fn fields_of(sketch: &TopK) -> Stream {
    let fields = Stream::of(|to| wire::write_rdb(sketch, to));
    loaded(wire::TYPE_NAME, wire::RDB_VERSION, fields)
}

/// Reads all of the fields.
fn read(mut fields: Stream) -> Result<TopK, DecodeError> {
    let sketch = wire::read_rdb(wire::RDB_VERSION, &mut fields, Seed::FIXED)?;
    assert!(fields.0.is_empty(), "bytes after the object");
    Ok(sketch)
}

/// Returns the list with its counts.
fn ranking(sketch: &TopK) -> Vec<(Vec<u8>, u32)> {
    let ranking = sketch.ranking().unwrap();
    ranking
        .map(|(item, count)| (item.to_vec(), count))
        .collect()
}

/// Chance from a generator, draw by draw.
struct Drawn(Rng);

/// Returns the next random number of a draw.
fn draw(rng: &mut Rng) -> u32 {
    u32::try_from(rng.next() >> 33).unwrap()
}

impl Chance for Drawn {
    fn contest(&mut self, collision: &Collision, decay: &Decay) -> Contest {
        one_by_one(collision, decay, || draw(&mut self.0))
    }
}

/// Returns an entry of the stored heap.
fn stored_entry(fingerprint: u32, length: u32, address: u64, count: u32) -> Vec<u8> {
    let mut bytes = [fingerprint, length].map(u32::to_le_bytes).concat();
    bytes.extend(address.to_le_bytes());
    bytes.extend([count, 0].map(u32::to_le_bytes).as_flattened());
    bytes
}

/// Returns the fields of a sketch of `width` cells, all empty, with these entries and items.
fn fields_with(width: u16, entries: &[(Vec<u8>, &[u8])]) -> Stream {
    let mut fields = vec![
        Field::Uint(entries.len() as u64),
        Field::Uint(width.into()),
        Field::Uint(1),
        Field::Double(0.9),
        Field::Bytes(vec![0; 8 * usize::from(width)]),
        Field::Bytes(
            entries
                .iter()
                .flat_map(|(entry, _)| entry.clone())
                .collect(),
        ),
    ];
    fields.extend(entries.iter().map(|(_, item)| Field::Bytes(item.to_vec())));
    Stream(fields.into())
}
