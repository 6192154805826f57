//! What the machine offers beyond safe Rust: the only `unsafe` of the core.

pub mod memory;
pub mod words;
pub mod work;
