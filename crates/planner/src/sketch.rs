//! Planned count-min sketches, Top-K and t-digests.

use serde_json::json;

use valkeybloom_protocol::names::FILTER_MEMORY;
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::cms::{self, CellSize};
use valkeybloom_sketches::tdigest::{self, Compression};
use valkeybloom_sketches::topk;

use crate::limits::{Limits, refusal, require_within_memory, stored};
use crate::picture::{Picture, sweep, whole};
use crate::report::{Report, grouped, to_double};
use crate::{Fault, Planned, Request};

/// A count-min sketch to plan.
#[derive(Clone, Debug, PartialEq)]
pub struct CountMin {
    /// How far an estimate may exceed the count, as a share of all increments.
    pub error: Fraction,
    /// The probability that an estimate exceeds the count by more.
    pub probability: Fraction,
    /// The size of a counter.
    pub cell_size: CellSize,
}

/// A Top-K to plan. Its bytes are those with a full list, without the items themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct TopK {
    /// Length of the list.
    pub k: u64,
    /// Cells in a row.
    pub width: u64,
    /// Number of rows.
    pub depth: u64,
    /// The decay.
    pub decay: f64,
}

/// A t-digest to plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TDigest {
    /// The compression.
    pub compression: u64,
}

/// Adds what all sketches have to a report: the bytes, the limit and the command. Both settings limit a sketch as a whole.
fn planned(mut report: Report, bytes: u64, limits: &Limits, command: String) -> Planned {
    let bytes = stored(bytes);
    report.number("bytes", bytes);
    let exceeded = limits.exceeded(bytes, bytes);
    let first = exceeded.first();
    let first = first.map(|(name, _)| limits.memory(*name == FILTER_MEMORY));
    let text = first.map(|(name, limit)| format!("{name} {}", grouped(limit)));
    let found = first.map(|(name, limit)| json!({ "name": name, "bytes": limit }));
    report.row("limit", text.unwrap_or("none".to_owned()), found);
    report.row("command", command.clone(), command);
    let refusal = refusal(&exceeded, "");
    Planned { report, refusal }
}

impl CountMin {
    /// Returns the shape, and the size in bytes.
    fn shape(&self) -> Option<(cms::Shape, u64)> {
        let shape = cms::Shape::for_rates(self.error, self.probability, self.cell_size)?;
        let bytes = shape.bytes()?.checked_add(cms::CountMin::BASE_BYTES)?;
        Some((shape, bytes))
    }

    /// Returns why there is no such sketch. In single precision, a probability may be 0 or 1, which no error makes up for.
    fn unfit(&self) -> Fault {
        let error = Fraction::HALF;
        let (field, text) = match (Self { error, ..*self }).shape() {
            Some(_) => ("error", "no sketch has this error and probability"),
            None => ("probability", "no sketch has this probability"),
        };
        Fault::invalid(field, text)
    }
}

impl Request for CountMin {
    fn plan(&self, limits: &Limits) -> Result<Planned, Fault> {
        let (shape, bytes) = self.shape().ok_or_else(|| self.unfit())?;
        require_within_memory("error", bytes)?;
        let (error, probability) = (self.error.get(), self.probability.get());
        let mut report = Report::default();
        report.row("error rate", error.to_string(), error);
        report.row("probability", probability.to_string(), probability);
        report.number("width", shape.width());
        report.number("depth", shape.depth());
        report.number("largest count", self.cell_size.max());
        let option = match self.cell_size {
            CellSize::Four => String::new(),
            size => format!(" CELL_SIZE {}", size.bytes()),
        };
        let command = format!("CMS.INITBYPROB key {error} {probability}{option}");
        Ok(planned(report, bytes, limits, command))
    }

    fn pictures(&self, _: &Limits) -> Vec<Picture> {
        sweep("Bytes", "error", self.error.get(), |error| {
            let error = Fraction::new(error)?;
            let (_, bytes) = Self { error, ..*self }.shape()?;
            Some(stored(bytes))
        })
    }
}

impl TopK {
    /// The fewest cells in a row for each item of the list that suit most streams.
    const LEAST_CELLS_PER_ITEM: u64 = 5;
    /// The advised number of cells in a row for each item of the list.
    const ADVISED_CELLS_PER_ITEM: u64 = 20;

    /// Returns the cells in a row that suit most streams for a list of `k` items.
    pub const fn advised_width(k: u64) -> u64 {
        k.saturating_mul(Self::ADVISED_CELLS_PER_ITEM)
    }

    /// Returns whether the rows have too few cells to find the `k` most frequent items of most streams.
    pub const fn is_narrow(&self) -> bool {
        self.width < self.k.saturating_mul(Self::LEAST_CELLS_PER_ITEM)
    }

    /// Returns the command that creates the list under a key.
    pub fn command(&self, key: &str) -> String {
        let (k, width, depth, decay) = (self.k, self.width, self.depth, self.decay);
        format!("TOPK.RESERVE {key} {k} {width} {depth} {decay}")
    }

    /// Returns the size in bytes of the value with a full list, without its items; `None` if there is no such list.
    pub fn when_full(&self) -> Option<u64> {
        let shape = topk::Shape::new(self.k, self.width, self.depth, self.decay).ok()?;
        Some(stored(topk::TopK::bytes_of(&shape)))
    }

    fn shape(&self) -> Result<topk::Shape, Fault> {
        let range = |what, most| format!("{what} is not within 1 to {most}");
        let shape = topk::Shape::new(self.k, self.width, self.depth, self.decay);
        let shape = shape.and_then(topk::Shape::within_limits);
        shape.map_err(|fault| {
            let most = u64::from(u32::MAX);
            let (field, text) = match fault {
                topk::Fault::K => ("k", range("K", most)),
                topk::Fault::Width => ("width", range("the width", most)),
                topk::Fault::Depth => ("depth", range("the depth", topk::DEPTH_MAX)),
                topk::Fault::Decay => ("decay", "the decay is not above 0 and at most 1".into()),
                topk::Fault::Cells => ("width", format!("there are more than {most} cells")),
            };
            Fault::invalid(field, text)
        })
    }
}

impl Request for TopK {
    fn plan(&self, limits: &Limits) -> Result<Planned, Fault> {
        let bytes = topk::TopK::bytes_of(&self.shape()?);
        let mut report = Report::default();
        report.number("items listed", self.k);
        report.number("width", self.width);
        report.number("depth", self.depth);
        report.row("decay", self.decay.to_string(), self.decay);
        Ok(planned(report, bytes, limits, self.command("key")))
    }

    fn pictures(&self, _: &Limits) -> Vec<Picture> {
        let at = to_double(self.k);
        sweep("Bytes, without the items", "items listed", at, |k| {
            let k = whole(k);
            let shape = Self { k, ..*self }.shape().ok()?;
            Some(stored(topk::TopK::bytes_of(&shape)))
        })
    }
}

fn within_limits(compression: u64) -> Option<Compression> {
    Compression::new(compression).filter(|compression| compression.is_within_limits())
}

impl Request for TDigest {
    fn plan(&self, limits: &Limits) -> Result<Planned, Fault> {
        let compression = within_limits(self.compression).ok_or_else(|| {
            let most = Compression::MAX.get();
            let text = format!("the compression is not within 1 to {most}");
            Fault::invalid("compression", text)
        })?;
        let mut report = Report::default();
        report.number("compression", compression.get());
        report.number("nodes", compression.capacity());
        let command = format!("TDIGEST.CREATE key COMPRESSION {}", compression.get());
        let bytes = tdigest::TDigest::most_bytes(compression);
        Ok(planned(report, bytes, limits, command))
    }

    fn pictures(&self, _: &Limits) -> Vec<Picture> {
        let at = to_double(self.compression);
        sweep("Bytes of a full digest", "compression", at, |compression| {
            let compression = within_limits(whole(compression))?;
            Some(stored(tdigest::TDigest::most_bytes(compression)))
        })
    }
}
