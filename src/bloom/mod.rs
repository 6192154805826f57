//! Bloom filters in a server: their commands, keys and values.

pub mod commands;
pub mod keys;
pub mod stored;
pub mod table;
