//! The classes of the Python package `valkeybloom`, over the crate `bindings`.

#[allow(unsafe_code, reason = "it reads memory that Python owns")]
mod batches;
mod bloom;
#[allow(unsafe_code, reason = "threads of Python are ended by C")]
mod calls;
mod chunks;
mod cms;
mod common;
mod conversation;
mod cuckoo;
mod errors;
mod items;
mod locked;
mod near;
mod once;
mod process;
mod returned;
mod tdigest;
mod topk;
mod words;

/// The part of valkeybloom that is written in Rust. The package's `__init__` has the documentation.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;
    use valkeybloom_bindings as bindings;
    use valkeybloom_protocol::batch;

    #[pymodule_export]
    use super::bloom::Bloom;
    #[pymodule_export]
    use super::chunks::Chunks;
    #[pymodule_export]
    use super::cms::CountMin;
    #[pymodule_export]
    use super::conversation::Conversation;
    use super::conversation::object_of;
    #[pymodule_export]
    use super::cuckoo::CuckooFilter;
    use super::items::bytes_of;
    use super::locked::detached;
    #[pymodule_export]
    use super::near::{Follower, NearStats};
    #[pymodule_export]
    use super::once::{Addition, Receipts, Refusal};
    #[pymodule_export]
    use super::process::forked;
    #[pymodule_export]
    use super::tdigest::TDigest;
    #[pymodule_export]
    use super::topk::TopK;
    use super::words::Whole;

    /// Set the limits for all objects of the process: the most bytes of a filter that is stacked on others because they
    /// are full, and the most filters that a cuckoo filter grows to, which is 32 on a server.
    ///
    /// Loaded bytes decide how fast an object grows; these limits bound what a single addition can allocate. Beyond them,
    /// it raises ValueError. What you create or load may be larger.
    #[pyfunction]
    #[pyo3(signature = (*, filter_bytes = Whole::of(1 << 30), cuckoo_filters = Whole::of(32)), text_signature = "(*, filter_bytes=1073741824, cuckoo_filters=32)")]
    fn limit_growth(filter_bytes: Whole, cuckoo_filters: Whole) -> PyResult<()> {
        let filter_bytes = filter_bytes.get("filter_bytes")?;
        valkeybloom_bindings::limit_growth(filter_bytes, cuckoo_filters.get("cuckoo_filters")?);
        Ok(())
    }

    /// Decode an object of any class, from `to_bytes`, from a server's DUMP, or a payload of BF.LOAD.
    ///
    /// Raises ValueError if the bytes are not an object.
    ///
    /// >>> from valkeybloom import TopK, decode
    /// >>> decode(TopK(3).to_bytes())
    /// <TopK(3, 8, 7, 0.9) of 0 items>
    #[pyfunction]
    #[pyo3(signature = (data, /))]
    fn decode<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, bytes) = (data.py(), bytes_of(data)?);
        let bytes = bytes.as_bytes();
        object_of(py, detached(py, || bindings::decode(bytes))?)
    }

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    /// The mark of an item whose answer only the server has.
    #[pymodule_export]
    const OPEN: u8 = valkeybloom_near::OPEN;
    /// The text of the error if the server has no receipts.
    #[pymodule_export]
    const LACKING: &str = valkeybloom_near::once::LACKING;
    /// The most items in one command.
    #[pymodule_export]
    const COMMAND_ITEMS: usize = batch::COMMAND_ITEMS;
    /// The most bytes of items in one command.
    #[pymodule_export]
    const COMMAND_BYTES: usize = batch::COMMAND_BYTES;
}
