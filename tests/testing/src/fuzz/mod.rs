//! The targets of fuzzing, which tests run on the inputs that were found.

pub mod args;
pub mod batch;
mod cms;
mod cuckoo;
pub mod decode;
mod forms;
mod memory;
mod operations;
mod replay;
mod source;
mod tdigest;
mod topk;

pub use replay::replay;
