//! Options that several subcommands share.

use clap::Args;

use valkeybloom_sketches::bloom::{Growth, Kind, Window};

use super::failure::{Failure, Result};

pub use valkeybloom_planner::words::{
    bytes, cell_size, count, duration_ms, items, maker, number, positive, rate, shard_count, shards,
};

/// The options for the growth of a new filter.
#[derive(Args, Clone, Copy)]
pub struct FilterOptions {
    /// Make a filter that does not grow: it is smaller, and full at its capacity
    #[arg(long)]
    pub nonscaling: bool,
    /// Growth factor from one filter to the next stacked on it [default: 2]
    #[arg(long, value_name = "N", conflicts_with = "nonscaling", value_parser = positive::<u32>)]
    pub expansion: Option<u32>,
}

impl FilterOptions {
    pub fn growth(self) -> Growth {
        let factor = self.expansion.unwrap_or(2);
        Growth::from_expansion(if self.nonscaling { 0 } else { factor })
    }
}

/// The options for the kind of a new filter.
#[derive(Args, Clone, Copy)]
pub struct KindOptions {
    /// Length of a period, like 1h: items expire
    #[arg(long, value_name = "TIME", value_parser = duration_ms, requires = "periods")]
    window: Option<u64>,
    /// Number of periods for which an item is found
    #[arg(long, value_name = "N", requires = "window", value_parser = items)]
    periods: Option<u64>,
    /// Items can be removed
    #[arg(long, conflicts_with = "window")]
    counting: bool,
    /// Make a filter that takes memory only for what is in it, and the least for all items
    #[arg(long, conflicts_with_all = ["window", "counting"])]
    scale_to: bool,
}

impl KindOptions {
    /// Returns the kind of the filter.
    ///
    /// # Errors
    /// There is no such window.
    pub fn kind(self) -> Result<Kind> {
        Ok(match self.window.zip(self.periods) {
            Some((ms, periods)) => {
                let invalid = || Failure::usage("a window has 1 to 60000 periods");
                Kind::Windowed(Window::new(ms, periods).ok_or_else(invalid)?)
            }
            None if self.counting => Kind::Counting,
            None if self.scale_to => Kind::ScaledTo,
            None => Kind::Plain,
        })
    }
}
