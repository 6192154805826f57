//! The processor and the allocator beyond safe Rust: the only `unsafe` code of this crate.

pub mod memory;
pub mod words;
pub mod work;
