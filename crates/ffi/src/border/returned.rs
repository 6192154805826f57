//! Memory that is given to the caller.

use std::ptr;

use valkeybloom_bindings::copied;

use super::status::Outcome;

/// Returned bytes. They are yours: free them with valkeybloom_buffer_free.
#[repr(C)]
pub struct Buffer {
    /// The first byte. Null if there is no value: an empty one has a pointer, and the length 0.
    pub data: *mut u8,
    /// The number of bytes.
    pub length: usize,
}

impl Buffer {
    pub const NONE: Self = Self {
        data: ptr::null_mut(),
        length: 0,
    };

    /// Gives bytes away. Text and slices have to be [copied] first, which may fail.
    pub fn of(bytes: Vec<u8>) -> Outcome<Self> {
        let (data, length) = give(exact(bytes)?);
        Ok(Self { data, length })
    }

    pub fn optional(bytes: Option<Vec<u8>>) -> Outcome<Self> {
        bytes.map_or(Ok(Self::NONE), Self::of)
    }
}

/// Makes an array that has no unused capacity. Shrinking it in place would end the process if there is no memory.
fn exact<T: Copy>(mut array: Vec<T>) -> Outcome<Box<[T]>> {
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

/// Frees the bytes of a buffer, and sets its fields to null and 0. Does nothing if the pointer is null, or `data` is.
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

    /// Copies items.
    pub fn of(items: &[impl AsRef<[u8]>]) -> Outcome<Self> {
        Ok(Self::given(joined(items)?, ptr::null_mut()))
    }

    /// Copies items and their counts.
    pub fn of_counted<'i>(items: impl ExactSizeIterator<Item = (&'i [u8], u32)>) -> Outcome<Self> {
        let (mut names, mut counts) = (Vec::new(), Vec::new());
        names.try_reserve_exact(items.len())?;
        counts.try_reserve_exact(items.len())?;
        for (item, count) in items {
            names.push(item);
            counts.push(count.into());
        }
        let joined = joined(&names)?;
        let (counts, _) = give(exact(counts)?);
        Ok(Self::given(joined, counts))
    }

    fn given((data, offsets): Joined, counts: *mut u64) -> Self {
        let length = offsets.len() - 1;
        let ((data, data_length), (offsets, _)) = (give(data), give(offsets));
        Self {
            length,
            data,
            data_length,
            offsets,
            counts,
        }
    }
}

/// The bytes of items end to end, and where each begins and the last ends.
type Joined = (Box<[u8]>, Box<[i64]>);

/// Copies items end to end.
fn joined(items: &[impl AsRef<[u8]>]) -> Outcome<Joined> {
    let (mut data, mut offsets) = (Vec::new(), Vec::new());
    data.try_reserve_exact(items.iter().map(|item| item.as_ref().len()).sum())?;
    offsets.try_reserve_exact(items.len() + 1)?;
    offsets.push(0);
    for item in items {
        data.extend_from_slice(item.as_ref());
        offsets.push(data.len().cast_signed() as i64);
    }
    Ok((exact(data)?, exact(offsets)?))
}

/// Frees items, and sets their fields to null and 0. Null is ignored, as the pointer and in a field.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn made<T>(outcome: Outcome<T>) -> T {
        outcome.unwrap_or_else(|_| panic!("it was refused"))
    }

    #[test]
    fn an_empty_value_is_not_a_missing_one_and_each_is_freed_once() {
        let full = made(Buffer::optional(Some(b"red".to_vec())));
        let empty = made(Buffer::optional(Some(Vec::new())));
        let missing = made(Buffer::optional(None));
        for (mut buffer, length, is_null) in
            [(full, 3, false), (empty, 0, false), (missing, 0, true)]
        {
            assert_eq!((buffer.length, buffer.data.is_null()), (length, is_null));
            for _ in 0..2 {
                // SAFETY: the library filled it, or freed it.
                unsafe { valkeybloom_buffer_free(&raw mut buffer) };
                assert!(buffer.length == 0 && buffer.data.is_null());
            }
        }
        // SAFETY: it may be null.
        unsafe { valkeybloom_buffer_free(ptr::null_mut()) };
    }

    #[test]
    fn items_have_counts_if_the_call_returns_some_and_are_freed_once() {
        let all = [&b"red"[..], b"", b"green"];
        for count in 0..=all.len() {
            let expected = &all[..count];
            let plain = made(Items::of(expected));
            assert!(plain.counts.is_null());
            let counted = made(Items::of_counted(expected.iter().copied().zip([7, 8, 9])));
            assert!(!counted.counts.is_null());
            for mut items in [plain, counted] {
                assert_eq!(items.length, count);
                // SAFETY: the arrays have these lengths.
                let (data, offsets) = unsafe {
                    let data = std::slice::from_raw_parts(items.data, items.data_length);
                    (data, std::slice::from_raw_parts(items.offsets, count + 1))
                };
                assert_eq!(data, expected.concat());
                let lengths = offsets.windows(2).map(|ends| ends[1] - ends[0]);
                assert!(lengths.eq(expected.iter().map(|item| item.len().cast_signed() as i64)));
                if !items.counts.is_null() {
                    // SAFETY: there is a count for each item.
                    let counts = unsafe { std::slice::from_raw_parts(items.counts, count) };
                    assert_eq!(counts, &[7, 8, 9][..count]);
                }
                for _ in 0..2 {
                    // SAFETY: the library filled them, or freed them.
                    unsafe { valkeybloom_items_free(&raw mut items) };
                    assert!(items.length == 0 && items.data.is_null() && items.counts.is_null());
                }
            }
        }
        // SAFETY: the pointer may be null.
        unsafe { valkeybloom_items_free(ptr::null_mut()) };
    }
}
