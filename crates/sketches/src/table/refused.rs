//! Why memory refuses.

/// Why a table did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Memory allocation failed.
    OutOfMemory,
    /// The table would exceed the limit on memory.
    MemoryLimit,
}
