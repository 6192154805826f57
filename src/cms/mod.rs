//! Count-min sketches in a server: their commands, keys and values.

mod commands;
mod table;
mod value;

pub use table::COMMANDS;
pub use value::CountMin;
