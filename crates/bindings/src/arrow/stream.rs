//! Streams of arrays.

use std::ffi::CStr;

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema};
use super::part::Part;
use crate::batch::Batch;
#[cfg(doc)]
use crate::error::Code;
use crate::error::Error;
use crate::strided::Strided;

/// All arrays of a stream, with their type. Dropping it releases them.
#[derive(Debug)]
pub struct Arrays {
    schema: ArrowSchema,
    arrays: Vec<ArrowArray>,
}

// SAFETY: the interface lets any thread read and release arrays.
unsafe impl Send for Arrays {}
// SAFETY: shared arrays are only read.
unsafe impl Sync for Arrays {}

impl Drop for Arrays {
    fn drop(&mut self) {
        for array in &mut self.arrays {
            if let Some(release) = array.release {
                // SAFETY: the array was not released yet, and nothing borrows it.
                unsafe { release(array) };
            }
        }
        if let Some(release) = self.schema.release {
            // SAFETY: the schema was not released yet, and nothing borrows it.
            unsafe { release(&raw mut self.schema) };
        }
    }
}

impl Arrays {
    /// Reads a stream to its end. The stream still has to be released by its owner.
    ///
    /// # Errors
    /// [`Code::BadBatch`] with the stream's own error, or [`Code::NoMemory`].
    ///
    /// # Safety
    /// The pointer is null, or points to a stream that follows the interface and that no one else uses during the call.
    pub unsafe fn read(stream: *mut ArrowArrayStream) -> Result<Self, Error> {
        // SAFETY: the caller promises that it is null or valid.
        let callbacks = unsafe { stream.as_ref() }.filter(|stream| stream.release.is_some());
        let callbacks = callbacks.and_then(|it| Some((it.get_schema?, it.get_next?)));
        let Some((get_schema, get_next)) = callbacks else {
            return Err(Error::bad_batch("the stream is released"));
        };
        let mut all = Self {
            schema: ArrowSchema::RELEASED,
            arrays: Vec::new(),
        };
        // SAFETY: the stream is valid and not released, and the schema may be overwritten.
        let status = unsafe { get_schema(stream, &raw mut all.schema) };
        if status != 0 {
            // SAFETY: the stream is valid and not released.
            return Err(unsafe { last_error(stream) });
        }
        loop {
            all.arrays.try_reserve(1)?;
            let mut array = ArrowArray::RELEASED;
            // SAFETY: the stream is valid and not released, and the array may be overwritten.
            let status = unsafe { get_next(stream, &raw mut array) };
            if status != 0 {
                // SAFETY: the stream is valid and not released.
                return Err(unsafe { last_error(stream) });
            }
            if array.release.is_none() {
                return Ok(all);
            }
            all.arrays.push(array);
        }
    }

    /// Passes the numbers of all arrays to `visit`.
    ///
    /// # Errors
    /// Those of [`numbers`](super::numbers) and of `visit`.
    pub fn each_numbers(
        &self,
        mut visit: impl FnMut(Strided<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut before = 0;
        for array in &self.arrays {
            // SAFETY: the stream gave these arrays and their schema, and they are not released before `self` is
            // dropped.
            let part = unsafe { Part::find(&raw const self.schema, array) }?;
            let numbers = part.numbers(before)?;
            before += numbers.len();
            visit(numbers)?;
        }
        Ok(())
    }

    /// Appends the items of all arrays to a batch.
    ///
    /// # Errors
    /// Those of [`push`](super::push).
    pub fn push_to<'b>(&'b self, batch: &mut Batch<'b>) -> Result<(), Error> {
        for array in &self.arrays {
            // SAFETY: the stream gave these arrays and their schema, and they are not released before `self` is
            // dropped.
            unsafe { Part::find(&raw const self.schema, array) }?.push_to(batch)?;
        }
        Ok(())
    }
}

/// Returns the error of a stream's last call.
///
/// # Safety
/// The stream is valid and not released, and its last call failed.
unsafe fn last_error(stream: *mut ArrowArrayStream) -> Error {
    // SAFETY: the stream is valid.
    let get = unsafe { (*stream).get_last_error };
    // SAFETY: the stream is not released, and its last call failed.
    let text = get.map_or(std::ptr::null(), |get| unsafe { get(stream) });
    if text.is_null() {
        return Error::bad_batch("the stream of arrays failed");
    }
    // SAFETY: the interface says that it is a string, valid until the stream's next call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    Error::bad_batch(text.replace('\n', " "))
}
