//! Arrays of Arrow's C data interface, as batches.
//!
//! The interface gives pointers, but the length of their memory only for views. Everything that can be checked is
//! checked. That the data of strings reach to the last offset has to be trusted, as by every reader of this interface.

use std::ffi::{CStr, c_char, c_int, c_void};

use valkeybloom_sketches::BadOffsets;

use super::batch::Batch;
use super::error::{Code, Error};
use super::items::Text;
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
    // SAFETY: null pointers, no functions and zeros are values of all fields.
    const RELEASED: Self = unsafe { std::mem::zeroed() };
}

impl ArrowArray {
    // SAFETY: as above.
    const RELEASED: Self = unsafe { std::mem::zeroed() };
}

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
            // SAFETY: the stream gave these arrays and their schema, and they are not released before `self` is
            // dropped.
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
            // SAFETY: the stream gave these arrays and their schema, and they are not released before `self` is
            // dropped.
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
    let part = unsafe { Part::find(schema, array) }?;
    part.push_to(batch)
}

/// Returns the elements of an array of numbers. `before` elements precede it, for the indices in errors.
///
/// # Errors
/// [`Code::BadType`] for any other type, and [`Code::BadBatch`] for a null or an impossible length or offset.
///
/// # Safety
/// As for [`push`], while the elements are used.
pub unsafe fn numbers<'b>(
    schema: *const ArrowSchema,
    array: *const ArrowArray,
    before: usize,
) -> Result<Strided<'b>, Error> {
    // SAFETY: the caller promises what this needs.
    let part = unsafe { Part::find(schema, array) }?;
    part.require_no_nulls(before)?;
    match part.element() {
        Some(element) => part.elements(1, element),
        None => Err(part.unknown("numbers")),
    }
}

/// Returns the kind of the elements of an array of numbers with this format.
fn element(format: &[u8]) -> Option<Element> {
    let swapped = false;
    let integer = |bytes, signed| Element::Integer {
        bytes,
        signed,
        swapped,
    };
    let float = |bytes| Element::Float { bytes, swapped };
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

/// The names of types that hold no items, by what their formats begin with.
const NAMES: [(&str, &str); 20] = [
    ("n", "null"),
    ("b", "bool"),
    ("e", "float16"),
    ("f", "float32"),
    ("g", "float64"),
    ("d:", "decimal"),
    ("td", "date"),
    ("tt", "time"),
    ("ts", "timestamp"),
    ("tD", "duration"),
    ("ti", "interval"),
    ("u", "string"),
    ("U", "large_string"),
    ("z", "binary"),
    ("Z", "large_binary"),
    ("v", "a view"),
    ("+s", "struct"),
    ("+m", "map"),
    ("+u", "union"),
    ("+", "list"),
];

/// The elements that can be items.
const ITEMS: &str = "strings, bytes or integers";

/// Some elements of an array.
struct Part<'b> {
    schema: &'b ArrowSchema,
    format: &'b [u8],
    array: &'b ArrowArray,
    offset: usize,
    length: usize,
    /// The first element that is null because its row of the table is.
    null_row: Option<usize>,
}

impl<'b> Part<'b> {
    /// Returns the elements of an array, or of the only column of a table.
    ///
    /// # Safety
    /// As for [`push`], for all of `'b`.
    unsafe fn find(schema: *const ArrowSchema, array: *const ArrowArray) -> Result<Self, Error> {
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
            let text = "a table is not a batch of items: pass one of its columns";
            return Err(Error::new(Code::BadType, text));
        }
        let (schema, child) = whole.child(0)?;
        let column = Self::of(schema, child, whole.offset, Some(whole.length))?;
        Ok(Self {
            null_row: whole.first_null()?,
            ..column
        })
    }

    /// Returns a child, below the number of those that the format has.
    fn child(&self, index: usize) -> Result<(&'b ArrowSchema, &'b ArrowArray), Error> {
        let has = |count| usize::try_from(count).is_ok_and(|count| index < count);
        let children = (self.schema.children, self.array.children);
        if has(self.schema.n_children)
            && has(self.array.n_children)
            && !children.0.is_null()
            && !children.1.is_null()
        {
            // SAFETY: the interface says that there are that many pointers, each null or valid.
            let both = unsafe {
                (
                    (*children.0.add(index)).as_ref(),
                    (*children.1.add(index)).as_ref(),
                )
            };
            if let (Some(schema), Some(array)) = both {
                return Ok((schema, array));
            }
        }
        Err(bad("the array lacks its column"))
    }

    /// Returns the elements of an array after the first `more`: all of them, or `length`.
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
            schema,
            format,
            array,
            offset,
            length,
            null_row: None,
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

    /// Returns the first `count` values of a buffer. The buffer may be null if `count` is 0.
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
        // SAFETY: it is not null and aligned, the interface says that it has that many values, which are plain numbers
        // or bytes, and they fit an address space. No one changes them for all of `'b`.
        Ok(unsafe { std::slice::from_raw_parts(start, count) })
    }

    /// Returns which elements are null, unless none is.
    fn nulls(&self) -> Result<Option<impl Fn(usize) -> bool + use<'b>>, Error> {
        let has_none = self.array.null_count == 0 || self.length == 0;
        // Null arrays have no such buffer, and the first buffer of arrays with runs is another one.
        if has_none || self.array.n_buffers < 1 || self.buffer(0)?.is_null() {
            return Ok(None);
        }
        let offset = self.offset;
        let valid: &[u8] = self.values(0, (offset + self.length).div_ceil(8))?;
        Ok(Some(move |index| {
            let at = offset + index;
            valid[at / 8] >> (at % 8) & 1 == 0
        }))
    }

    fn first_null(&self) -> Result<Option<usize>, Error> {
        let nulls = self.nulls()?;
        Ok(nulls.and_then(|is_null| (0..self.length).find(|index| is_null(*index))))
    }

    /// Requires that no element is null. `before` items of the batch precede this part.
    fn require_no_nulls(&self, before: usize) -> Result<(), Error> {
        let firsts = [self.null_row, self.first_null()?];
        match firsts.into_iter().flatten().min() {
            None => Ok(()),
            Some(index) => Err(null(before + index)),
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
        // SAFETY: `length` elements of that size lie end to end in the buffer.
        Ok(unsafe { Strided::new(values.as_ptr(), self.length, stride, element) })
    }

    /// Returns the kind of the elements, if they are numbers.
    fn element(&self) -> Option<Element> {
        // A dictionary's format is that of its keys.
        element(self.format).filter(|_| self.schema.dictionary.is_null())
    }

    fn unknown(&self, wanted: &str) -> Error {
        let format = String::from_utf8_lossy(self.format);
        let known = NAMES.iter().find(|(start, _)| format.starts_with(start));
        let name = match known {
            _ if !self.schema.dictionary.is_null() => "dictionary",
            _ if self.format == b"+r" => "run_end_encoded",
            Some((_, name)) => name,
            None => &format,
        };
        let text = format!("an array of {wanted} is needed, not of Arrow's type {name}");
        Error::new(Code::BadType, text)
    }

    fn push_to(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        if !self.schema.dictionary.is_null() {
            return self.push_keys(batch);
        }
        if self.format == b"+r" {
            return self.push_runs(batch);
        }
        // The type without values: every element is null.
        if self.format == b"n" && self.length > 0 {
            return Err(null(batch.len()));
        }
        self.require_no_nulls(batch.len())?;
        self.push_elements(batch)
    }

    /// Appends the elements. Those that are null have any value.
    fn push_elements(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
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
                    width: width.ok_or_else(|| self.unknown(ITEMS))?,
                    padded: false,
                };
                batch.push_strided(self.elements(1, element)?)
            }
            _ => match self.element() {
                Some(element @ Element::Integer { .. }) => {
                    batch.push_strided(self.elements(1, element)?)
                }
                _ => Err(self.unknown(ITEMS)),
            },
        }
    }

    /// Appends the values of a dictionary at this part's keys.
    fn push_keys(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        // SAFETY: the interface says that they are null or valid.
        let (schema, array) = unsafe {
            (
                self.schema.dictionary.as_ref(),
                self.array.dictionary.as_ref(),
            )
        };
        let (schema, array) = schema
            .zip(array)
            .ok_or_else(|| bad("the array lacks its values"))?;
        self.require_no_nulls(batch.len())?;
        let Some(element @ Element::Integer { .. }) = element(self.format) else {
            return Err(bad("the keys of a dictionary are integers"));
        };
        let mut keys = Vec::new();
        self.elements(1, element)?.append_integers(&mut keys)?;
        Self::of(schema, array, 0, None)?.push_chosen(keys.into_iter(), batch)
    }

    /// Appends the elements of an array of runs: equal elements side by side are one value, with the end of its run.
    fn push_runs(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        if let Some(row) = self.null_row {
            return Err(null(batch.len() + row));
        }
        let [(schema, ends), (of_values, values)] = [self.child(0)?, self.child(1)?];
        let ends = Self::of(schema, ends, 0, None)?;
        let Some(element @ Element::Integer { .. }) = ends.element() else {
            return Err(bad("the ends of runs are integers"));
        };
        let mut all = Vec::new();
        ends.elements(1, element)?.append_integers(&mut all)?;
        let is_before = |end: &i64, at: usize| i64::try_from(at).is_ok_and(|at| *end <= at);
        let mut run = all.partition_point(|end| is_before(end, self.offset));
        let places = (self.offset..self.offset + self.length).map(|at| {
            while all.get(run).is_some_and(|end| is_before(end, at)) {
                run += 1;
            }
            run.cast_signed() as i64
        });
        Self::of(of_values, values, 0, None)?.push_chosen(places, batch)
    }

    /// Appends the elements at these places.
    fn push_chosen(
        &self,
        chosen: impl ExactSizeIterator<Item = i64>,
        batch: &mut Batch<'b>,
    ) -> Result<(), Error> {
        let (mut own, mut values, mut places) = (Batch::new(), Text::new(), Vec::new());
        self.push_elements(&mut own)?;
        values.reserve(self.length)?;
        own.visit(&mut |mut items| items.try_for_each(|item| values.push(item)))?;
        let nulls = self.nulls()?;
        places.try_reserve_exact(chosen.len())?;
        for (index, place) in chosen.enumerate() {
            let place = u32::try_from(place).ok();
            let place = place.filter(|place| (*place as usize) < values.len());
            let place = place.ok_or_else(|| bad("a key is outside of the dictionary"))?;
            if nulls
                .as_ref()
                .is_some_and(|is_null| is_null(place as usize))
            {
                return Err(null(batch.len() + index));
            }
            places.push(place);
        }
        batch.push_chosen(values, places)
    }

    fn push_views(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        if self.length == 0 {
            return Ok(());
        }
        // The buffers of long items come after the nulls and the views. The last buffer has their sizes.
        let buffers = usize::try_from(self.array.n_buffers).unwrap_or(0);
        let count = buffers.checked_sub(3);
        let count = count.ok_or_else(|| bad("the array lacks a buffer"))?;
        let sizes = self.values::<i64>(buffers - 1, count)?;
        let mut long = Vec::new();
        long.try_reserve_exact(count)?;
        for (index, size) in sizes.iter().enumerate() {
            let size = usize::try_from(*size).map_err(|_| bad("a buffer's size is negative"))?;
            long.push(self.values::<u8>(2 + index, size)?);
        }
        let views: &[[u8; 16]] = self.values(1, self.offset + self.length)?;
        batch.push_views(&views[self.offset..], long)
    }
}

fn null(index: usize) -> Error {
    Error::new(Code::BadBatch, format!("item {index} is null"))
}

/// Returns the last offset, where the data end.
fn end<O: Copy + TryInto<usize>>(offsets: &[O]) -> Result<usize, Error> {
    let end = offsets.last().map_or(Ok(0), |end| (*end).try_into());
    end.map_err(|_| BadOffsets.into())
}

#[cfg(test)]
mod tests;
