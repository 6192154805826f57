//! The options of `list` and `watch` about the order of rows.

use clap::Args;

use super::columns::Column;

/// The order of rows, and the load that reading them puts on the server.
#[derive(Args, Clone)]
pub struct Order {
    /// Sort by a column: texts in ascending order, numbers in descending order
    #[arg(long, value_name = "COLUMN", value_enum, default_value = "key")]
    pub sort: Column,
    /// Sort the other way round
    #[arg(long)]
    pub reverse: bool,
    /// Read at most this many keys a second; 0: no limit
    #[arg(long, value_name = "KEYS_PER_SECOND", default_value_t = 10_000)]
    pub rate: u64,
}
