//! Cuckoo filters in a server: their commands, keys, settings and values.

mod chunks;
mod commands;
mod settings;
mod table;
mod value;

pub use table::COMMANDS;
pub use value::Cuckoo;
