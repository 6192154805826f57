//! The options of `valkeybloom size` for cuckoo filters and sketches.

use clap::Args;

use valkeybloom_planner::{CountMin, Cuckoo, Request, TDigest, TopK};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::cms::CellSize;
use valkeybloom_sketches::topk::Shape;

use super::options::{self, FilterOptions};

/// The options for a cuckoo filter.
#[derive(Args)]
#[command(next_help_heading = "Cuckoo filters")]
pub struct CuckooOptions {
    /// Plan a cuckoo filter for --items, with an expansion of 1 by default
    #[arg(long, group = "other", requires = "items")]
    cuckoo: bool,
    /// Slots of a bucket, 1 to 255 [default: 2]
    #[arg(long, value_name = "N", requires = "cuckoo")]
    bucket_size: Option<u64>,
    /// The most items moved to make room for one, 1 to 65535 [default: 20]
    #[arg(long, value_name = "N", requires = "cuckoo")]
    max_iterations: Option<u64>,
    /// bf.cf-max-expansions of the server
    #[arg(long, value_name = "N", value_parser = options::items, default_value = "32")]
    pub max_filters: u64,
}

impl CuckooOptions {
    /// Returns the cuckoo filter to plan, if one is wanted.
    pub fn request(
        &self,
        items: Option<u64>,
        start: Option<u64>,
        filter: FilterOptions,
    ) -> Option<Request> {
        let defaults = Cuckoo::DEFAULTS;
        let expansion = if filter.nonscaling {
            0
        } else {
            let default = defaults.expansion.into();
            filter.expansion.map_or(default, u64::from)
        };
        let items = items.filter(|_| self.cuckoo)?;
        Some(Request::Cuckoo(Cuckoo {
            items,
            start,
            bucket_size: self.bucket_size.unwrap_or(defaults.bucket_size.into()),
            max_iterations: self
                .max_iterations
                .unwrap_or(defaults.max_iterations.into()),
            expansion,
        }))
    }
}

/// The options for a sketch.
#[derive(Args)]
#[command(next_help_heading = "Sketches")]
pub struct SketchOptions {
    /// Plan a count-min sketch: how often was an item counted?
    #[arg(long, groups = ["sketch", "other"], requires = "error", requires = "probability")]
    cms: bool,
    /// How far an estimate may exceed the count, as a share of all increments
    #[arg(long, value_name = "E", value_parser = options::rate, requires = "cms")]
    error: Option<Fraction>,
    /// The probability that an estimate exceeds the count by more
    #[arg(long, value_name = "P", value_parser = options::rate, requires = "cms")]
    probability: Option<Fraction>,
    /// Bytes of a counter: 1, 2, 4 or 8 [default: 4]
    #[arg(long, value_name = "BYTES", value_parser = options::cell_size, requires = "cms")]
    cell_size: Option<CellSize>,
    /// Plan a Top-K: which K items are most frequent?
    #[arg(long, groups = ["sketch", "other"], value_name = "K", value_parser = options::items)]
    topk: Option<u64>,
    /// Cells in a row of the Top-K [default: 20 for each of the K items]
    #[arg(long, value_name = "N", value_parser = options::items, requires = "topk")]
    width: Option<u64>,
    /// Rows of the Top-K [default: 7]
    #[arg(long, value_name = "N", value_parser = options::items, requires = "topk")]
    depth: Option<u64>,
    /// Decay of the Top-K [default: 0.9]
    #[arg(long, value_name = "D", value_parser = options::number, requires = "topk")]
    decay: Option<f64>,
    /// Plan a t-digest of compression C, or of 100: which quantiles do values have?
    #[arg(long, groups = ["sketch", "other"], value_name = "C", value_parser = options::items, num_args = 0..=1,
        default_missing_value = "100")]
    tdigest: Option<u64>,
}

impl SketchOptions {
    /// Returns the sketch to plan, if one is wanted.
    pub fn request(&self) -> Option<Request> {
        if let (true, Some(error), Some(probability)) = (self.cms, self.error, self.probability) {
            return Some(Request::CountMin(CountMin {
                error,
                probability,
                cell_size: self.cell_size.unwrap_or_default(),
            }));
        }
        if let Some(k) = self.topk {
            return Some(Request::TopK(TopK {
                k,
                width: self.width.unwrap_or(TopK::advised_width(k)),
                depth: self.depth.unwrap_or(Shape::DEFAULT_DEPTH),
                decay: self.decay.unwrap_or(Shape::DEFAULT_DECAY),
            }));
        }
        let compression = self.tdigest?;
        Some(Request::TDigest(TDigest { compression }))
    }
}
