//! Many items in the caller's memory.

use valkeybloom_bindings as bindings;
use valkeybloom_bindings::arrow::{self, ArrowArray, ArrowSchema};

use super::memory::{borrow, slice};
use super::status::{Failure, Outcome};

/// Many items in your memory: between offsets, or as an Arrow array. Set the fields you use; leave the others null or
/// 0. Strings and bytes are read in place. Integers, bytes of a fixed width, and the values of dictionaries and runs are
/// copied.
///
/// Item `i` is the bytes from `offsets[i]` up to `offsets[i + 1]` in the data.
#[repr(C)]
pub struct Batch {
    /// The number of items between offsets.
    pub length: usize,
    /// The bytes of the items.
    pub data: *const u8,
    /// The number of bytes in `data`.
    pub data_length: usize,
    /// `length + 1` offsets of 32 bits.
    pub offsets32: *const i32,
    /// `length + 1` offsets of 64 bits, instead of those of 32 bits.
    pub offsets64: *const i64,
    /// The type of `array`: strings, bytes or integers. It stays yours: it is not released.
    pub schema: *const ArrowSchema,
    /// An Arrow array, instead of data and offsets. It stays yours: it is not released.
    pub array: *const ArrowArray,
}

/// Returns the items of a batch.
///
/// # Safety
/// The batch and all that it points to are as the header says, and not changed, during `'a`.
pub unsafe fn items<'a>(batch: *const Batch) -> Outcome<bindings::Batch<'a>> {
    // SAFETY: the pointer is null, or that of a batch.
    let batch = unsafe { borrow(batch) }?;
    let mut all = bindings::Batch::new();
    let given = [
        !batch.offsets32.is_null(),
        !batch.offsets64.is_null(),
        !batch.array.is_null(),
    ];
    match given {
        [false, false, false] if batch.length == 0 => {}
        [false, false, true] => {
            // SAFETY: the header requires that the schema and the array follow the interface of Arrow.
            unsafe { arrow::push(batch.schema, batch.array, &mut all) }?;
        }
        [true, false, false] | [false, true, false] => {
            let count = batch.length.saturating_add(1);
            // SAFETY: the caller promises that there are that many bytes.
            let data = unsafe { slice(batch.data, batch.data_length) }?;
            if given[0] {
                // SAFETY: the caller promises that there are that many offsets.
                all.push_small(data, unsafe { slice(batch.offsets32, count) }?)?;
            } else {
                // SAFETY: the caller promises that there are that many offsets.
                all.push_large(data, unsafe { slice(batch.offsets64, count) }?)?;
            }
        }
        _ => {
            return Err(Failure::bad_pointer(
                "a batch needs offsets of one size or an array",
            ));
        }
    }
    Ok(all)
}
