//! Memory that is given to the caller.

use std::ptr;

use valkeybloom_bindings::copied;

use super::status::Outcome;

/// Returned bytes. They are yours: free them with valkeybloom_buffer_free.
#[repr(C)]
pub struct Buffer {
    /// The first byte; null if there is nothing to free.
    pub data: *mut u8,
    /// The number of bytes.
    pub length: usize,
}

impl Buffer {
    pub const NONE: Self = Self {
        data: ptr::null_mut(),
        length: 0,
    };

    pub fn of(bytes: impl Into<Vec<u8>>) -> Outcome<Self> {
        let (data, length) = give(exact(bytes)?);
        Ok(Self { data, length })
    }

    pub fn optional(bytes: Option<impl Into<Vec<u8>>>) -> Outcome<Self> {
        bytes.map_or(Ok(Self::NONE), Self::of)
    }
}

/// Makes an array that has no unused capacity. Shrinking it in place would end the process if there is no memory.
fn exact<T: Copy>(array: impl Into<Vec<T>>) -> Outcome<Box<[T]>> {
    let mut array = array.into();
    if array.capacity() > array.len() {
        array = copied(&array)?;
    }
    Ok(array.into_boxed_slice())
}

/// Gives away an array.
fn give<T>(array: Box<[T]>) -> (*mut T, usize) {
    let length = array.len();
    (Box::into_raw(array).cast(), length)
}

/// Frees an array that was given away.
///
/// # Safety
/// The pointer is null, or that of an array that was [given](give) away with this length, and not taken back.
unsafe fn take<T>(data: *mut T, length: usize) {
    if !data.is_null() {
        let array = ptr::slice_from_raw_parts_mut(data, length);
        // SAFETY: the array was given away with this length, and not taken back.
        drop(unsafe { Box::from_raw(array) });
    }
}

/// Frees the bytes of a buffer, and sets it to null. Null, and a buffer that is null, are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_buffer_free(buffer: *mut Buffer) {
    // SAFETY: the header requires a buffer that this library filled, or a null one.
    if let Some(buffer) = unsafe { buffer.as_mut() } {
        let Buffer { data, length } = std::mem::replace(buffer, Buffer::NONE);
        // SAFETY: this library gave away the array with this length, and the buffer is null from now on.
        unsafe { take(data, length) };
    }
}

/// Returned items, end to end. They are yours: free them with valkeybloom_items_free.
#[repr(C)]
pub struct Items {
    /// The number of items.
    pub length: usize,
    /// The bytes of the items.
    pub data: *mut u8,
    /// The number of bytes in `data`.
    pub data_length: usize,
    /// `length + 1` offsets: item `i` is the bytes from `offsets[i]` up to `offsets[i + 1]`.
    pub offsets: *mut i64,
    /// The count of each item; null if the call returns none.
    pub counts: *mut u64,
}

impl Items {
    const NONE: Self = Self {
        length: 0,
        data: ptr::null_mut(),
        data_length: 0,
        offsets: ptr::null_mut(),
        counts: ptr::null_mut(),
    };

    /// Copies words.
    pub fn of_words(words: &[impl AsRef<[u8]>]) -> Outcome<Self> {
        Self::of(words.iter().map(|word| (word.as_ref(), None)))
    }

    /// Copies items, with or without their counts.
    pub fn of<'i>(items: impl ExactSizeIterator<Item = (&'i [u8], Option<u32>)>) -> Outcome<Self> {
        let (mut data, mut offsets, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        offsets.try_reserve_exact(items.len() + 1)?;
        counts.try_reserve_exact(items.len())?;
        offsets.push(0);
        for (item, count) in items {
            data.try_reserve(item.len())?;
            data.extend_from_slice(item);
            offsets.push(data.len().cast_signed() as i64);
            counts.extend(count.map(u64::from));
        }
        let length = offsets.len() - 1;
        let (data, offsets, counts) = (exact(data)?, exact(offsets)?, exact(counts)?);
        let (data, data_length) = give(data);
        let (offsets, _) = give(offsets);
        let counts = if counts.len() < length || length == 0 {
            ptr::null_mut()
        } else {
            give(counts).0
        };
        Ok(Self {
            length,
            data,
            data_length,
            offsets,
            counts,
        })
    }
}

/// Frees items, and sets them to null. Null, and items that are null, are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_items_free(items: *mut Items) {
    // SAFETY: the header requires items that this library filled, or null ones.
    if let Some(items) = unsafe { items.as_mut() } {
        let items = std::mem::replace(items, Items::NONE);
        // SAFETY: this library gave away the arrays with these lengths, and the structure is null from now on.
        unsafe {
            take(items.data, items.data_length);
            take(items.offsets, items.length + 1);
            take(items.counts, items.length);
        }
    }
}
