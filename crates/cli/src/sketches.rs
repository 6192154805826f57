//! Values in payloads of DUMP, decoded and compared.

use valkeybloom_sketches::cms::{self, CellSize, CountMin};
use valkeybloom_sketches::tdigest::{Compression, TDigest};
use valkeybloom_sketches::topk::{self, TopK};
use valkeybloom_sketches::{Seed, Sketch};

use super::dump;
use super::program::Program;

/// Decodes a payload; `None` for a value of another type, and for a partly loaded filter.
pub fn decoded(payload: &[u8]) -> Option<Sketch> {
    // The seed is not stored, and matters to searches alone.
    Sketch::from_dump(payload, Seed::FIXED).ok()
}

/// Returns whether two payloads hold the same value. Equal values may have different payloads: whether strings are
/// compressed depends on a server's settings.
pub fn are_same(one: &[u8], other: &[u8]) -> bool {
    if dump::value(one) == dump::value(other) {
        return true;
    }
    match (decoded(one), decoded(other)) {
        // RedisBloom stores addresses of its memory, where this module stores how often items have collided.
        (Some(Sketch::TopK(one)), Some(Sketch::TopK(other))) => {
            one.shape() == other.shape()
                && one.cells() == other.cells()
                && one.entries().eq(other.entries())
        }
        (Some(one), Some(other)) => one.to_dump() == other.to_dump(),
        _ => false,
    }
}

/// Returns the reason why a program refuses a client that brings the sketch in a payload; `None` if it takes it.
pub fn obstacle(payload: &[u8], to: Program) -> Option<String> {
    let (what, limit) = match (decoded(payload)?, to) {
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
            let compression = format!("a compression of {}", it.compression().get());
            (compression, Compression::MAX.get())
        }
        _ => return None,
    };
    Some(format!(
        "it has {what}, and the target takes at most {limit} from clients: replicate it, or load it from a file"
    ))
}

/// The result of a comparison.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    Same,
    /// The target has a sketch of the same commands, which differs in this way within its accuracy.
    WithinAccuracy(&'static str),
    /// The target differs in this way.
    Different(String),
    /// The source changed during the comparison.
    Changing,
}

/// Returns the difference between two payloads that hold other values.
pub fn difference(source: &[u8], target: &[u8]) -> Verdict {
    let text = match (decoded(source), decoded(target)) {
        (Some(Sketch::CountMin(source)), Some(Sketch::CountMin(target))) => {
            if source.shape() != target.shape() {
                "its width, depth or cell size differs at the target".to_owned()
            } else if source.table() == target.table() {
                format!(
                    "its count is {} at the target, not {}",
                    target.count(),
                    source.count()
                )
            } else {
                "its counters differ at the target".to_owned()
            }
        }
        (Some(Sketch::TopK(source)), Some(Sketch::TopK(target))) => {
            let items = |list: &TopK| {
                let items = list.entries();
                let items = items.filter_map(|(_, item)| Some(item?.1.to_vec()));
                let mut items: Vec<_> = items.collect();
                items.sort();
                items
            };
            if source.shape() != target.shape() {
                "its k, width, depth or decay differs at the target".to_owned()
            } else if source.agrees_with(&target) {
                return Verdict::WithinAccuracy("random decay differs at the target");
            } else if items(&source) == items(&target) {
                "it lists the same items at the target, with other counts or cells".to_owned()
            } else {
                "it lists other items at the target".to_owned()
            }
        }
        (Some(Sketch::TDigest(source)), Some(Sketch::TDigest(target))) => {
            let (own, other) = (source.observations(), target.observations());
            let ends = |digest: &TDigest| [digest.min(), digest.max()].map(f64::to_bits);
            if source.compression() != target.compression() {
                "its compression differs at the target".to_owned()
            } else if own != other {
                format!("it has {other} observations at the target, not {own}")
            } else if ends(&source) != ends(&target) {
                "its minimum or maximum differs at the target".to_owned()
            } else if source.agrees_with(&target) == Some(true) {
                return Verdict::WithinAccuracy("it has other nodes at the target");
            } else {
                "its observations differ at the target, for the same number of them".to_owned()
            }
        }
        _ => "its DUMP differs at the target".to_owned(),
    };
    Verdict::Different(text)
}

/// Returns whether additions may lead from one count-min sketch to the other.
pub fn precedes(one: &CountMin, other: &CountMin) -> bool {
    let bytes = usize::try_from(one.shape().cell_size().bytes()).unwrap_or(1);
    let counters = one.table().chunks_exact(bytes);
    let mut pairs = counters.zip(other.table().chunks_exact(bytes));
    one.shape() == other.shape()
        && one.count() <= other.count()
        // The last byte of a counter is the highest.
        && pairs.all(|(one, other)| one.iter().rev().le(other.iter().rev()))
}
