//! Why a table did not change.

/// Why memory refused a change of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Memory allocation failed.
    OutOfMemory,
    /// The table would exceed the limit on memory.
    MemoryLimit,
}
