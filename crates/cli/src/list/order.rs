//! The options of `list` and `watch` about the order of rows.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::held::columns::{Column, column, listed};
use crate::options::count;

/// The order of rows, and the load that reading them puts on the server.
#[derive(Args, Clone, Copy)]
pub struct Order {
    /// Sort by a column: texts in ascending order, numbers in descending order
    #[arg(long, value_name = "COLUMN", value_parser = sorting(), default_value = "key")]
    pub sort: &'static Column,
    /// Sort the other way round
    #[arg(long)]
    pub reverse: bool,
    /// Read at most this many keys a second; 0: no limit
    #[arg(long, value_name = "KEYS_PER_SECOND", value_parser = count, default_value_t = 10_000)]
    pub rate: u64,
}

fn sorting() -> impl TypedValueParser<Value = &'static Column> {
    let options = PossibleValuesParser::new(listed().map(Column::option));
    options.map(|option| column(&option))
}
