//! Advice on count-min sketches and Top-Ks.

use valkeybloom_planner::{TopK, stored};
use valkeybloom_sketches::cms::{self, CellSize, CountMin};
use valkeybloom_sketches::topk;

use super::piece::{Advice, new_key};
use crate::held::limits::{Settings, Sizes};
use crate::held::row::Row;
use crate::report::{counted, counted_as, grouped};

/// Warns of a count-min sketch of 4 bytes a counter, whose counters may have reached their largest value. Advises larger ones if the
/// server `has_sizes`.
pub fn saturated(
    row: &Row,
    (width, depth): (u64, u64),
    has_sizes: bool,
    settings: Settings,
) -> Option<Advice> {
    let (count, largest) = (row.items?, CellSize::Four.max());
    if count <= largest {
        return None;
    }
    let (size, what, option) = if has_sizes {
        let what = "count in one with 8 bytes a counter";
        (CellSize::Eight, what, " CELL_SIZE 8")
    } else {
        (CellSize::Four, "count in a new one", "")
    };
    // A loaded sketch may have more rows than one that a client makes.
    let depth = depth.min(cms::DEPTH_MAX);
    let shape = cms::Shape::new(width, depth, size)?;
    let bytes = stored(shape.bytes()?.saturating_add(CountMin::BASE_BYTES));
    let why = format!(
        "its counters end at {}, and it has counted {}, so frequent items may stand still",
        grouped(largest),
        grouped(count)
    );
    let command = format!("CMS.INITBYDIM {} {width} {depth}{option}", new_key(row));
    let sizes = Sizes::whole(bytes);
    Some(Advice::make(&why, what, command, sizes, settings))
}

/// Warns of a Top-K whose sketch is too narrow for the length of its list.
pub fn narrow(row: &Row, list: &TopK, settings: Settings) -> Option<Advice> {
    if !list.is_narrow() {
        return None;
    }
    let wide = TopK {
        width: TopK::advised_width(list.k),
        depth: list.depth.min(topk::DEPTH_MAX),
        ..list.clone()
    };
    let bytes = wide.when_full()?;
    let why = format!(
        "its {} too few to find the {}",
        counted_as(list.width, "cell", ["a row is", "a row are"]),
        counted(list.k, "most frequent item")
    );
    let what = format!(
        "{} a row take {} bytes instead of {} with a full list",
        grouped(wide.width),
        grouped(bytes),
        grouped(list.when_full()?)
    );
    let command = wide.command(&new_key(row));
    let sizes = Sizes::whole(bytes);
    Some(Advice::make(&why, &what, command, sizes, settings))
}
