//! Count-min sketches in a server: their commands, keys, settings and values.

mod commands;
mod settings;
mod table;
mod value;

pub use table::COMMANDS;
pub use value::CountMin;
