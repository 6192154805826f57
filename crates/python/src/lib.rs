//! The classes of the Python package `valkeybloom`, over the crate `bindings`.

mod batches;
mod bloom;
mod chunks;
mod cms;
mod common;
mod cuckoo;
mod errors;
mod items;
mod locked;
mod memory;
mod near;
mod tdigest;
mod topk;
mod words;

#[global_allocator]
static PAGES: memory::Pages = memory::Pages;

/// The part of valkeybloom that is written in Rust. The package's `__init__` has the documentation.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    use valkeybloom_protocol::batch;

    #[pymodule_export]
    use super::bloom::Bloom;
    #[pymodule_export]
    use super::chunks::{BloomLoader, Chunks};
    #[pymodule_export]
    use super::cms::CountMin;
    #[pymodule_export]
    use super::cuckoo::CuckooFilter;
    #[pymodule_export]
    use super::near::{Follower, NearStats, forked};
    #[pymodule_export]
    use super::tdigest::TDigest;
    #[pymodule_export]
    use super::topk::TopK;

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    /// The most items in one command.
    #[pymodule_export]
    const COMMAND_ITEMS: usize = batch::COMMAND_ITEMS;
    /// The most bytes of items in one command.
    #[pymodule_export]
    const COMMAND_BYTES: usize = batch::COMMAND_BYTES;
}
