//! Cuckoo filters in a server: their commands, keys and values, and how the words of the commands are read.

mod commands;
mod keys;
mod stored;
mod table;

pub use stored::Stored;
pub use table::COMMANDS;
