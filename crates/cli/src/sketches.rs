//! Comparison of sketches in payloads of DUMP.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::cms::{self, CellSize, CountMin};
use valkeybloom_sketches::tdigest::{self, Compression, TDigest};
use valkeybloom_sketches::topk::{self, TopK};

use super::payload::value_of;
use super::program::Program;

/// A sketch.
enum Sketch {
    CountMin(CountMin),
    TopK(Box<TopK>),
    TDigest(TDigest),
}

impl Sketch {
    /// Decodes a payload; `None` for any other value.
    fn of(payload: &[u8]) -> Option<Self> {
        let count_min = value_of(payload, cms::wire::TYPE_NAME, cms::wire::read_rdb);
        // The seed is not stored, and matters to searches alone.
        let read =
            |version, fields: &mut _| topk::wire::read_rdb(version, fields, Seed::new([0; 32]));
        let top_k = || value_of(payload, topk::wire::TYPE_NAME, read);
        let digest = || value_of(payload, tdigest::wire::TYPE_NAME, tdigest::wire::read_rdb);
        let sketch = count_min.map(Self::CountMin);
        let sketch = sketch.or_else(|| top_k().map(|list| Self::TopK(Box::new(list))));
        sketch.or_else(|| digest().map(Self::TDigest))
    }
}

/// Returns the reason why a program refuses a client that brings the sketch in a payload; `None` if it takes it.
pub fn obstacle(payload: &[u8], to: Program) -> Option<String> {
    let (what, limit) = match (Sketch::of(payload)?, to) {
        (Sketch::CountMin(it), Program::RedisBloom) => {
            let bytes = it.shape().cell_size().bytes();
            let lacks = || format!("RedisBloom before 8.12 has no counters of size {bytes}");
            return (bytes != CellSize::default().bytes()).then(lacks);
        }
        (Sketch::CountMin(it), Program::ThisModule) if !it.shape().is_within_limits() => {
            (format!("{} rows", it.shape().depth()), cms::DEPTH_MAX)
        }
        (Sketch::TopK(it), Program::ThisModule) if it.shape().within_limits().is_err() => {
            (format!("{} rows", it.shape().depth()), topk::DEPTH_MAX)
        }
        (Sketch::TDigest(it), Program::ThisModule) if !it.compression().is_within_limits() => {
            let compression = it.compression().get();
            (
                format!("a compression of {compression}"),
                Compression::MAX.get(),
            )
        }
        _ => return None,
    };
    Some(format!(
        "it has {what}, and the server there takes at most {limit} from clients: replicate it, or load it from a file"
    ))
}

/// A difference between two values.
pub enum Difference {
    /// The sketches may have taken the same commands: they differ by what RedisBloom does not replicate.
    WithinAccuracy(&'static str),
    /// The values differ in this way.
    Real(String),
}

/// Returns the difference between two payloads; `None` if they are not sketches of one type.
pub fn difference(here: &[u8], there: &[u8]) -> Option<Difference> {
    let text = match (Sketch::of(here)?, Sketch::of(there)?) {
        (Sketch::CountMin(here), Sketch::CountMin(there)) => {
            if here.shape() != there.shape() {
                "its width, depth or cell size differs there".to_owned()
            } else if here.table() == there.table() {
                format!("its count is {} there, not {}", there.count(), here.count())
            } else {
                "its counters differ there".to_owned()
            }
        }
        (Sketch::TopK(here), Sketch::TopK(there)) => {
            let items = |list: &TopK| {
                let items = list
                    .entries()
                    .filter_map(|(_, item)| Some(item?.1.to_vec()));
                let mut items: Vec<_> = items.collect();
                items.sort();
                items
            };
            if here.shape() != there.shape() {
                "its k, width, depth or decay differs there".to_owned()
            } else if here.agrees_with(&there) {
                return Some(Difference::WithinAccuracy("chance decided otherwise there"));
            } else if items(&here) == items(&there) {
                "it lists the same items there, with other counts or cells".to_owned()
            } else {
                "it lists other items there".to_owned()
            }
        }
        (Sketch::TDigest(here), Sketch::TDigest(there)) => {
            let (own, other) = (here.observations(), there.observations());
            let ends = |digest: &TDigest| [digest.min(), digest.max()].map(f64::to_bits);
            if here.compression() != there.compression() {
                "its compression differs there".to_owned()
            } else if own != other {
                format!("it has {other} observations there, not {own}")
            } else if ends(&here) != ends(&there) {
                "its minimum or maximum differs there".to_owned()
            } else if here.agrees_with(&there) == Some(true) {
                return Some(Difference::WithinAccuracy("it has other nodes there"));
            } else {
                "its observations differ there, for the same number of them".to_owned()
            }
        }
        _ => return None,
    };
    Some(Difference::Real(text))
}

/// Returns whether a count-min sketch may have had the value of `between` while additions led from `first` to `last`;
/// `None` if additions can't have led from `first` to `last`, or if the payloads hold something else.
pub fn is_between(first: &[u8], between: &[u8], last: &[u8]) -> Option<bool> {
    let [first, between, last] = [first, between, last].map(Sketch::of);
    let (Sketch::CountMin(first), Sketch::CountMin(between), Sketch::CountMin(last)) =
        (first?, between?, last?)
    else {
        return None;
    };
    let leads = precedes(&first, &last);
    leads.then(|| precedes(&first, &between) && precedes(&between, &last))
}

/// Returns whether additions may lead from one sketch to the other.
fn precedes(one: &CountMin, other: &CountMin) -> bool {
    let bytes = usize::try_from(one.shape().cell_size().bytes()).unwrap_or(1);
    let cells = |sketch: &CountMin| -> Vec<u64> {
        let cells = sketch.table().chunks_exact(bytes);
        let number = |cell: &[u8]| {
            cell.iter()
                .rev()
                .fold(0, |n, byte| n << 8 | u64::from(*byte))
        };
        cells.map(number).collect()
    };
    one.shape() == other.shape()
        && one.count() <= other.count()
        && cells(one)
            .iter()
            .zip(cells(other))
            .all(|(one, other)| *one <= other)
}
