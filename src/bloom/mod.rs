//! Bloom filters in a server: their commands, keys, settings and values.

mod chunks;
mod commands;
mod keys;
mod receipts;
mod settings;
mod table;
mod value;

pub use table::COMMANDS;
pub use value::Value;
