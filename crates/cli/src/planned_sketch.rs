//! The memory of a planned count-min sketch, Top-K or t-digest.

use clap::Args;
use serde_json::{Value, json};

use valkeybloom_protocol::names::{FILTER_MEMORY, OBJECT_MEMORY};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::cms::{self, CellSize, CountMin};
use valkeybloom_sketches::tdigest::{Compression, TDigest};
use valkeybloom_sketches::topk::{self, TopK};

use super::failure::{Failure, Result};
use super::options;
use super::report::{Report, grouped};

/// The options for a sketch.
#[derive(Args)]
#[command(next_help_heading = "Sketches")]
pub struct SketchOptions {
    /// Plan a count-min sketch: how often was an item counted?
    #[arg(long, group = "sketch", requires = "error", requires = "probability")]
    cms: bool,
    /// How far an estimate may exceed the count, as a share of all increments
    #[arg(long, value_name = "E", value_parser = options::rate, requires = "cms")]
    error: Option<Fraction>,
    /// The probability that an estimate exceeds the count by more
    #[arg(long, value_name = "P", value_parser = options::rate, requires = "cms")]
    probability: Option<Fraction>,
    /// Bytes of a counter: 1, 2, 4 or 8 [default: 4]
    #[arg(long, value_name = "BYTES", value_parser = cell_size, requires = "cms")]
    cell_size: Option<CellSize>,
    /// Plan a Top-K: which K items are most frequent?
    #[arg(long, group = "sketch", value_name = "K", value_parser = options::items)]
    topk: Option<u64>,
    /// Cells in a row of the Top-K [default: 8]
    #[arg(long, value_name = "N", value_parser = options::items, requires = "topk")]
    width: Option<u64>,
    /// Rows of the Top-K [default: 7]
    #[arg(long, value_name = "N", value_parser = options::items, requires = "topk")]
    depth: Option<u64>,
    /// Decay of the Top-K [default: 0.9]
    #[arg(long, value_name = "D", requires = "topk")]
    decay: Option<f64>,
    /// Plan a t-digest of compression C, or of 100: which quantiles do values have?
    #[arg(long, group = "sketch", value_name = "C", value_parser = options::items, num_args = 0..=1,
        default_missing_value = "100")]
    tdigest: Option<u64>,
}

/// Reads the size of a counter.
fn cell_size(word: &str) -> Result<CellSize, String> {
    let bytes = word.parse().ok();
    let size = bytes.and_then(CellSize::of_bytes);
    size.ok_or_else(|| "not 1, 2, 4 or 8".to_owned())
}

/// The limits of a server on a sketch, in bytes. An object limit of 0 means no limit.
pub struct Limits {
    pub filter: u64,
    pub object: u64,
}

impl Limits {
    /// Returns the limit that refuses a sketch of this size: the setting, and its value.
    fn refusing(&self, bytes: u64) -> Option<(&'static str, u64)> {
        let limits = [(FILTER_MEMORY, self.filter), (OBJECT_MEMORY, self.object)];
        let mut limits = limits.into_iter();
        limits.find(|&(name, limit)| bytes > limit && (limit > 0 || name == FILTER_MEMORY))
    }
}

impl SketchOptions {
    /// Reports the planned sketch; `None` if no sketch is wanted.
    pub fn run(&self, limits: &Limits, json: bool) -> Option<Result<()>> {
        let mut report = Report::default();
        let planned = if let (true, Some(error), Some(probability)) =
            (self.cms, self.error, self.probability)
        {
            self.count_min(&mut report, error, probability)
        } else if let Some(k) = self.topk {
            self.top_k(&mut report, k)
        } else {
            digest(&mut report, self.tdigest?)
        };
        let (bytes, command) = match planned {
            Ok(planned) => planned,
            Err(failure) => return Some(Err(failure)),
        };
        let bytes = bytes.saturating_add(options::STORED_BYTES);
        report.number("bytes", bytes);
        let refusing = limits.refusing(bytes);
        let (text, found) = match refusing {
            None => ("none".to_owned(), Value::Null),
            Some((name, limit)) => (
                format!("{name} {}", grouped(limit)),
                json!({ "name": name, "bytes": limit }),
            ),
        };
        report.row("limit", text, found);
        report.row("command", command.clone(), command);
        let refused = |(name, _)| {
            let advice = format!("set {name} to {bytes} there");
            Failure::new(format!("a server with these limits refuses it: {advice}"))
        };
        Some(report.end(json, refusing.map_or(Ok(()), |limit| Err(refused(limit)))))
    }

    /// Returns the bytes, and the command.
    fn count_min(
        &self,
        report: &mut Report,
        error: Fraction,
        probability: Fraction,
    ) -> Result<(u64, String)> {
        let size = self.cell_size.unwrap_or_default();
        let shape = cms::Shape::for_rates(error, probability, size);
        let planned = shape.and_then(|shape| {
            let bytes = shape.bytes()?.checked_add(CountMin::BASE_BYTES)?;
            Some((shape, bytes))
        });
        let none = || Failure::usage("no sketch has this error and probability");
        let (shape, bytes) = planned.ok_or_else(none)?;
        let (error, probability) = (error.get(), probability.get());
        report.row("error rate", error.to_string(), error);
        report.row("probability", probability.to_string(), probability);
        report.number("width", shape.width());
        report.number("depth", shape.depth());
        report.number("largest count", size.max());
        let option = match size {
            CellSize::Four => String::new(),
            size => format!(" CELL_SIZE {}", size.bytes()),
        };
        Ok((
            bytes,
            format!("CMS.INITBYPROB key {error} {probability}{option}"),
        ))
    }

    /// Returns the bytes without the items' own, and the command.
    fn top_k(&self, report: &mut Report, k: u64) -> Result<(u64, String)> {
        let width = self.width.unwrap_or(topk::Shape::DEFAULT_WIDTH);
        let depth = self.depth.unwrap_or(topk::Shape::DEFAULT_DEPTH);
        let decay = self.decay.unwrap_or(topk::Shape::DEFAULT_DECAY);
        let shape = topk::Shape::new(k, width, depth, decay);
        let shape = shape.map_err(|fault| {
            Failure::usage(match fault {
                topk::Fault::K => "K is not within 1 to 4294967295".to_owned(),
                topk::Fault::Width => "the width is not within 1 to 4294967295".to_owned(),
                topk::Fault::Depth => format!("the depth is not within 1 to {}", topk::DEPTH_MAX),
                topk::Fault::Decay => "the decay is not above 0 and at most 1".to_owned(),
                topk::Fault::Cells => "there are more than 4294967295 cells".to_owned(),
            })
        })?;
        report.number("items listed", k);
        report.number("width", width);
        report.number("depth", depth);
        report.row("decay", decay.to_string(), decay);
        let command = format!("TOPK.RESERVE key {k} {width} {depth} {decay}");
        Ok((TopK::bytes_of(&shape), command))
    }
}

/// Returns the bytes of a full t-digest, and the command.
fn digest(report: &mut Report, compression: u64) -> Result<(u64, String)> {
    let none = || {
        Failure::usage(format!(
            "the compression is not within 1 to {}",
            Compression::MAX.get()
        ))
    };
    let compression = Compression::new(compression).ok_or_else(none)?;
    report.number("compression", compression.get().into());
    report.number("nodes", compression.capacity());
    let command = format!("TDIGEST.CREATE key COMPRESSION {}", compression.get());
    Ok((TDigest::most_bytes(compression), command))
}
