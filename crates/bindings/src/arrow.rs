//! Arrays of Arrow's C data interface, as batches.
//!
//! The interface gives pointers, and says how long the memory behind them is only for views. What can be checked is
//! checked; that the data of strings reach to their last offset is the word of the one who made the array, as for every
//! reader of this interface.

use std::ffi::{CStr, c_char, c_int, c_void};

use valkeybloom_sketches::BadOffsets;

use super::batch::Batch;
use super::error::{Code, Error};
use super::strided::{Element, Strided};

/// The type of an array: `struct ArrowSchema`.
#[derive(Debug)]
#[repr(C)]
pub struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// An array: `struct ArrowArray`.
#[derive(Debug)]
#[repr(C)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// A stream of arrays of one type: `struct ArrowArrayStream`.
#[derive(Debug)]
#[repr(C)]
pub struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

impl ArrowSchema {
    const RELEASED: Self = Self {
        format: std::ptr::null(),
        name: std::ptr::null(),
        metadata: std::ptr::null(),
        flags: 0,
        n_children: 0,
        children: std::ptr::null_mut(),
        dictionary: std::ptr::null_mut(),
        release: None,
        private_data: std::ptr::null_mut(),
    };
}

impl ArrowArray {
    const RELEASED: Self = Self {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: std::ptr::null_mut(),
        children: std::ptr::null_mut(),
        dictionary: std::ptr::null_mut(),
        release: None,
        private_data: std::ptr::null_mut(),
    };
}

/// All arrays of a stream, with their type. They are released when this is dropped.
#[derive(Debug)]
pub struct Arrays {
    schema: ArrowSchema,
    arrays: Vec<ArrowArray>,
}

// SAFETY: the interface lets any thread read and release what it gave.
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
    /// The pointer is null, or that of a stream that follows the interface and that no one else uses meanwhile.
    pub unsafe fn read(stream: *mut ArrowArrayStream) -> Result<Self, Error> {
        // SAFETY: the caller promises that it is null or valid.
        let callbacks = unsafe { stream.as_ref() }.filter(|stream| stream.release.is_some());
        let callbacks = callbacks.and_then(|it| Some((it.get_schema?, it.get_next?)));
        let Some((get_schema, get_next)) = callbacks else {
            return Err(bad("the stream is released"));
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
    /// Those of [`numbers`] and of `visit`.
    pub fn each_numbers(
        &self,
        mut visit: impl FnMut(Strided<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut before = 0;
        for array in &self.arrays {
            // SAFETY: the stream gave these arrays and their schema, and they are not released before `self` is dropped.
            let numbers =
                unsafe { numbers(&raw const self.schema, std::ptr::from_ref(array), before) }?;
            before += numbers.len();
            visit(numbers)?;
        }
        Ok(())
    }

    /// Appends the items of all arrays to a batch.
    ///
    /// # Errors
    /// Those of [`push`].
    pub fn push_to<'b>(&'b self, batch: &mut Batch<'b>) -> Result<(), Error> {
        for array in &self.arrays {
            // SAFETY: the stream gave these arrays and their schema, and they are not released before `self` is dropped.
            unsafe { push(&raw const self.schema, std::ptr::from_ref(array), batch) }?;
        }
        Ok(())
    }
}

/// Returns the error of a stream's last call.
///
/// # Safety
/// The stream is valid and not released, and its last call failed.
unsafe fn last_error(stream: *mut ArrowArrayStream) -> Error {
    // SAFETY: as above.
    let get = unsafe { (*stream).get_last_error };
    // SAFETY: as above.
    let text = get.map_or(std::ptr::null(), |get| unsafe { get(stream) });
    if text.is_null() {
        return bad("the stream of arrays failed");
    }
    // SAFETY: the interface says that it is a string, valid until the stream's next call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    Error::new(Code::BadBatch, text.replace('\n', " "))
}

fn bad(text: &'static str) -> Error {
    Error::new(Code::BadBatch, text)
}

/// Appends the items of an array to a batch: strings, bytes, or integers. An array of structures, such as a table, has to
/// have one column.
///
/// # Errors
/// [`Code::BadType`] for any other type, [`Code::BadBatch`] for a null item and for numbers that can't be right, and
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
    let part = unsafe { Part::find(schema, array, batch.len()) }?;
    part.push_to(batch)
}

/// Returns the elements of an array of numbers, of which `before` precede it.
///
/// # Errors
/// [`Code::BadType`] for any other type, and [`Code::BadBatch`] for a null and for numbers that can't be right.
///
/// # Safety
/// As for [`push`], while the elements are used.
pub unsafe fn numbers<'b>(
    schema: *const ArrowSchema,
    array: *const ArrowArray,
    before: usize,
) -> Result<Strided<'b>, Error> {
    // SAFETY: the caller promises what this needs.
    let part = unsafe { Part::find(schema, array, before) }?;
    part.require_no_nulls(before)?;
    match element(part.format) {
        Some(element) => part.elements(1, element),
        None => Err(part.unknown()),
    }
}

/// Returns what an element of an array of this format is, if it is a number.
fn element(format: &[u8]) -> Option<Element> {
    let integer = |bytes, signed| Element::Integer {
        bytes,
        signed,
        swapped: false,
    };
    let float = |bytes| Element::Float {
        bytes,
        swapped: false,
    };
    Some(match format {
        b"c" => integer(1, true),
        b"C" => integer(1, false),
        b"s" => integer(2, true),
        b"S" => integer(2, false),
        b"i" => integer(4, true),
        b"I" => integer(4, false),
        b"l" => integer(8, true),
        b"L" => integer(8, false),
        b"f" => float(4),
        b"g" => float(8),
        _ => return None,
    })
}

/// Some elements of an array.
struct Part<'b> {
    format: &'b [u8],
    array: &'b ArrowArray,
    offset: usize,
    length: usize,
}

impl<'b> Part<'b> {
    /// Returns the elements of an array, or of the only column of a table.
    ///
    /// # Safety
    /// As for [`push`], for all of `'b`.
    unsafe fn find(
        schema: *const ArrowSchema,
        array: *const ArrowArray,
        before: usize,
    ) -> Result<Self, Error> {
        // SAFETY: the caller promises that they are null or valid.
        let (schema, array) = unsafe { (schema.as_ref(), array.as_ref()) };
        let (Some(schema), Some(array)) = (schema, array) else {
            return Err(bad("there is no array"));
        };
        if schema.release.is_none() || array.release.is_none() {
            return Err(bad("the array is released"));
        }
        let whole = Self::of(schema, array, 0, None)?;
        if whole.format != b"+s" {
            return Ok(whole);
        }
        if schema.n_children != 1 || array.n_children != 1 {
            let text = "a table is no batch of items: pass one of its columns";
            return Err(Error::new(Code::BadType, text));
        }
        whole.require_no_nulls(before)?;
        let lacking = || bad("the array lacks its column");
        if schema.children.is_null() || array.children.is_null() {
            return Err(lacking());
        }
        // SAFETY: the interface says that there is one child each.
        let (schema, child) = unsafe { ((*schema.children).as_ref(), (*array.children).as_ref()) };
        let (schema, child) = schema.zip(child).ok_or_else(lacking)?;
        Self::of(schema, child, whole.offset, Some(whole.length))
    }

    /// Returns the elements of an array from `more` on: all, or this many.
    fn of(
        schema: &'b ArrowSchema,
        array: &'b ArrowArray,
        more: usize,
        length: Option<usize>,
    ) -> Result<Self, Error> {
        let wrong = || bad("the array's length or offset can't be right");
        if schema.format.is_null() {
            return Err(bad("the array has no type"));
        }
        // SAFETY: the interface says that it is a string.
        let format = unsafe { CStr::from_ptr(schema.format) }.to_bytes();
        let own = usize::try_from(array.length).map_err(|_| wrong())?;
        let rest = own.checked_sub(more).ok_or_else(wrong)?;
        let length = length.unwrap_or(rest);
        let offset = usize::try_from(array.offset).map_err(|_| wrong())?;
        let offset = offset.checked_add(more).ok_or_else(wrong)?;
        let end = offset.checked_add(length);
        if length > rest || end.is_none_or(|end| end >= usize::MAX / 32) {
            return Err(wrong());
        }
        Ok(Self {
            // The values of a dictionary are elsewhere, whatever the type of its indices.
            format: if schema.dictionary.is_null() {
                format
            } else {
                b"dictionary"
            },
            array,
            offset,
            length,
        })
    }

    /// Returns the address of a buffer, which may be null.
    fn buffer(&self, index: usize) -> Result<*const u8, Error> {
        let count = usize::try_from(self.array.n_buffers).unwrap_or(0);
        if index >= count || self.array.buffers.is_null() {
            return Err(bad("the array lacks a buffer"));
        }
        // SAFETY: the interface says that there are that many pointers.
        Ok(unsafe { *self.array.buffers.add(index) }.cast())
    }

    /// Returns `count` values of a buffer from its start; none if it is null, as it may be without elements.
    fn values<T>(&self, index: usize, count: usize) -> Result<&'b [T], Error> {
        let start: *const T = self.buffer(index)?.cast();
        if count == 0 {
            return Ok(&[]);
        }
        if start.is_null() {
            return Err(bad("the array lacks a buffer"));
        }
        if !start.is_aligned() {
            return Err(bad("a buffer of the array is not aligned"));
        }
        if count > isize::MAX.cast_unsigned() / size_of::<T>() {
            return Err(bad("the array's length or offset can't be right"));
        }
        // SAFETY: it is not null and aligned, the interface says that it has that many values, which are plain numbers or
        // bytes, and they fit an address space. No one changes them for all of `'b`.
        Ok(unsafe { std::slice::from_raw_parts(start, count) })
    }

    /// Requires that no element is null. `before` items of the batch precede this part.
    fn require_no_nulls(&self, before: usize) -> Result<(), Error> {
        if self.array.null_count == 0 || self.length == 0 {
            return Ok(());
        }
        if self.array.n_buffers < 1 || self.buffer(0)?.is_null() {
            return Ok(());
        }
        let end = self.offset + self.length;
        let valid: &[u8] = self.values(0, end.div_ceil(8))?;
        let is_null = |at: &usize| valid[at / 8] >> (at % 8) & 1 == 0;
        match (self.offset..end).find(is_null) {
            None => Ok(()),
            Some(at) => Err(null(before + at - self.offset)),
        }
    }

    /// Returns the offsets of the elements, one more than there are.
    fn offsets<O>(&self) -> Result<&'b [O], Error> {
        if self.length == 0 {
            return Ok(&[]);
        }
        let all = self.values(1, self.offset + self.length + 1)?;
        Ok(&all[self.offset..])
    }

    fn elements(&self, index: usize, element: Element) -> Result<Strided<'b>, Error> {
        let bytes = self.offset + self.length;
        let bytes = bytes.checked_mul(element.size());
        let bytes = bytes.ok_or_else(|| bad("the array's length or offset can't be right"))?;
        let values: &[u8] = if self.length == 0 || element.size() == 0 {
            &[]
        } else {
            &self.values::<u8>(index, bytes)?[self.offset * element.size()..]
        };
        let stride = element.size().cast_signed();
        // SAFETY: there are `length` elements of that size behind one another, all of them in the buffer.
        Ok(unsafe { Strided::new(values.as_ptr(), self.length, stride, element) })
    }

    fn unknown(&self) -> Error {
        let format = String::from_utf8_lossy(self.format);
        let text = format!("an array of strings, bytes or integers is needed, not of {format}");
        Error::new(Code::BadType, text)
    }

    fn push_to(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        // The type without values: every element is null.
        if self.format == b"n" && self.length > 0 {
            return Err(null(batch.len()));
        }
        self.require_no_nulls(batch.len())?;
        match self.format {
            b"n" => Ok(()),
            b"u" | b"z" => {
                let offsets = self.offsets::<i32>()?;
                batch.push_small(self.values(2, end(offsets)?)?, offsets)
            }
            b"U" | b"Z" => {
                let offsets = self.offsets::<i64>()?;
                batch.push_large(self.values(2, end(offsets)?)?, offsets)
            }
            b"vu" | b"vz" => self.push_views(batch),
            [b'w', b':', width @ ..] => {
                let width = str::from_utf8(width).ok().and_then(|w| w.parse().ok());
                let element = Element::Bytes {
                    width: width.ok_or_else(|| self.unknown())?,
                    padded: false,
                };
                batch.push_strided(self.elements(1, element)?)
            }
            format => match element(format) {
                Some(element) => batch.push_strided(self.elements(1, element)?),
                None => Err(self.unknown()),
            },
        }
    }

    fn push_views(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        if self.length == 0 {
            return Ok(());
        }
        // After the nulls and the views, the buffers of long items, and last their sizes.
        let buffers = usize::try_from(self.array.n_buffers).unwrap_or(0);
        let count = buffers.checked_sub(3);
        let count = count.ok_or_else(|| bad("the array lacks a buffer"))?;
        let sizes = self.sizes(buffers - 1, count)?;
        let mut long = Vec::new();
        long.try_reserve_exact(count)?;
        for (index, size) in sizes.into_iter().enumerate() {
            let size = usize::try_from(size).map_err(|_| bad("a buffer's size is negative"))?;
            long.push(self.values::<u8>(2 + index, size)?);
        }
        let views: &[[u8; 16]] = self.values(1, self.offset + self.length)?;
        batch.push_views(&views[self.offset..], long)
    }

    fn sizes(&self, index: usize, count: usize) -> Result<Vec<i64>, Error> {
        let mut sizes = Vec::new();
        sizes.try_reserve_exact(count)?;
        sizes.extend_from_slice(self.values::<i64>(index, count)?);
        Ok(sizes)
    }
}

fn null(index: usize) -> Error {
    Error::new(Code::BadBatch, format!("item {index} is null"))
}

/// Returns the last of some offsets, where the data end.
fn end<O: Copy + TryInto<usize>>(offsets: &[O]) -> Result<usize, Error> {
    let end = offsets.last().map_or(Ok(0), |end| (*end).try_into());
    end.map_err(|_| BadOffsets.into())
}

#[cfg(test)]
mod tests;
