//! Options that several subcommands share.

use clap::Args;

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Growth, Kind, Params, Tightening, Window};

use super::failure::{Failure, Result};

pub use valkeybloom_planner::words::{
    bytes, cell_size, duration_ms, items, maker, number, rate, shards,
};

/// The options for a new filter.
#[derive(Args, Clone, Copy)]
pub struct FilterOptions {
    /// Make a filter that does not grow: it is smaller, and full at its capacity
    #[arg(long)]
    pub nonscaling: bool,
    /// Growth factor from one filter to the next stacked on it [default: 2]
    #[arg(long, value_name = "N", conflicts_with = "nonscaling",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub expansion: Option<u32>,
}

impl FilterOptions {
    pub fn growth(self) -> Growth {
        Growth::from_expansion(if self.nonscaling {
            0
        } else {
            self.expansion.unwrap_or(2)
        })
    }

    pub fn params(self, capacity: u64, error_rate: Fraction) -> Params {
        Params {
            capacity,
            error_rate,
            tightening: Tightening::HALF,
            growth: self.growth(),
        }
    }
}

/// Returns the kind of a filter with this window, or with counters.
///
/// # Errors
/// There is no such window.
pub fn kind(window: Option<(u64, u64)>, counting: bool) -> Result<Kind> {
    Ok(match window {
        Some((ms, periods)) => {
            let invalid = || Failure::usage("a window has 1 to 1440 periods");
            Kind::Windowed(Window::new(ms, periods).ok_or_else(invalid)?)
        }
        None if counting => Kind::Counting,
        None => Kind::Plain,
    })
}
