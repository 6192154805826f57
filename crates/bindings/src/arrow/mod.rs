//! Arrays of Arrow's C data interface, as batches.
//!
//! The interface gives pointers, but the length of their memory only for views. Everything that can be checked is
//! checked. That the data of strings reach to the last offset has to be trusted, as by every reader of this interface.

mod abi;
mod indirect;
mod part;
mod stream;

use super::batch::Batch;
#[cfg(doc)]
use super::error::Code;
use super::error::Error;
use super::strided::Strided;
use part::Part;

pub use abi::{ArrowArray, ArrowArrayStream, ArrowSchema};
pub use stream::Arrays;

/// Appends the items of an array to a batch: strings, bytes, or integers. An array of structures, such as a table, has
/// to have one column.
///
/// # Errors
/// [`Code::BadType`] for any other type, [`Code::BadBatch`] for a null item or an impossible length or offset, and
/// [`Code::NoMemory`].
///
/// # Safety
/// Both pointers are null, or those of a schema and of an array of this schema, which follow the interface; and neither
/// is released or changed while the batch is used.
pub unsafe fn push(
    schema: *const ArrowSchema,
    array: *const ArrowArray,
    batch: &mut Batch,
) -> Result<(), Error> {
    // SAFETY: the caller promises what this needs.
    unsafe { Part::find(schema, array) }?.push_to(batch)
}

/// Returns the elements of an array of numbers. `before` elements precede it, for the indices in errors.
///
/// # Errors
/// [`Code::BadType`] for any other type, and [`Code::BadBatch`] for a null or an impossible length or offset.
///
/// # Safety
/// Both pointers are null, or those of a schema and of an array of this schema, which follow the interface; and neither
/// is released or changed during `'b`.
pub unsafe fn numbers<'b>(
    schema: *const ArrowSchema,
    array: *const ArrowArray,
    before: usize,
) -> Result<Strided<'b>, Error> {
    // SAFETY: the caller promises what this needs.
    unsafe { Part::find(schema, array) }?.numbers(before)
}

#[cfg(test)]
mod tests;
