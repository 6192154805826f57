//! Elements of an array, as items or numbers.

use std::ffi::CStr;

use valkeybloom_sketches::BadOffsets;

use super::abi::{ArrowArray, ArrowSchema};
use crate::batch::Batch;
use crate::error::{Code, Error};
use crate::strided::{Element, Strided};

/// Returns the kind of the numbers with this format.
pub(super) fn number_element(format: &[u8]) -> Option<Element> {
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

/// The names of types for errors, by what their formats begin with: the first that matches. Integers are never refused.
const NAMES: [(&str, &str); 22] = [
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
    ("vu", "string_view"),
    ("vz", "binary_view"),
    ("w:", "fixed_size_binary"),
    ("+s", "struct"),
    ("+m", "map"),
    ("+u", "union"),
    ("+", "list"),
];

/// The elements that can be items.
const ITEMS: &str = "strings, bytes or integers";

/// Some elements of an array.
pub struct Part<'b> {
    pub(super) schema: &'b ArrowSchema,
    pub(super) format: &'b [u8],
    pub(super) array: &'b ArrowArray,
    pub(super) offset: usize,
    pub(super) length: usize,
    /// The first element that is null because its row of the table is.
    pub(super) null_row: Option<usize>,
}

/// A value in a buffer: a number or bytes, for which any bits are valid. No other module implements it.
pub(super) trait Plain {}

impl Plain for u8 {}
impl Plain for i32 {}
impl Plain for i64 {}
impl Plain for [u8; 16] {}

impl<'b> Part<'b> {
    /// Returns the elements of an array, or of the only column of a table.
    ///
    /// # Safety
    /// Both pointers are null, or those of a schema and of an array of this schema, which follow the interface; and neither
    /// is released or changed during `'b`.
    pub unsafe fn find(
        schema: *const ArrowSchema,
        array: *const ArrowArray,
    ) -> Result<Self, Error> {
        // SAFETY: the caller promises that they are null or valid.
        let (schema, array) = unsafe { (schema.as_ref(), array.as_ref()) };
        let (Some(schema), Some(array)) = (schema, array) else {
            return Err(Error::bad_batch("there is no array"));
        };
        if schema.release.is_none() || array.release.is_none() {
            return Err(Error::bad_batch("the array is released"));
        }
        let whole = Self::slice(schema, array, 0, None)?;
        if whole.format != b"+s" {
            return Ok(whole);
        }
        if schema.n_children != 1 || array.n_children != 1 {
            let text = "a table is not a batch of items: pass one of its columns";
            return Err(Error::new(Code::BadType, text));
        }
        let (schema, child) = whole.child(0)?;
        let column = Self::slice(schema, child, whole.offset, Some(whole.length))?;
        Ok(Self {
            null_row: whole.first_null()?,
            ..column
        })
    }

    /// Returns the child at `index`, with its schema.
    pub(super) fn child(&self, index: usize) -> Result<(&'b ArrowSchema, &'b ArrowArray), Error> {
        let (schema, array) = (self.schema, self.array);
        // SAFETY: the interface says that there are that many pointers, each null or valid.
        let (schema, array) = unsafe {
            let schema = child_at(schema.children, schema.n_children, index);
            (schema, child_at(array.children, array.n_children, index))
        };
        let both = schema.zip(array);
        both.ok_or_else(|| Error::bad_batch("the array lacks its column"))
    }

    /// Returns the elements of an array without the `skipped` first: all of them, or `length`.
    pub(super) fn slice(
        schema: &'b ArrowSchema,
        array: &'b ArrowArray,
        skipped: usize,
        length: Option<usize>,
    ) -> Result<Self, Error> {
        if schema.format.is_null() {
            return Err(Error::bad_batch("the array has no type"));
        }
        // SAFETY: the interface says that it is a string.
        let format = unsafe { CStr::from_ptr(schema.format) }.to_bytes();
        let own = usize::try_from(array.length).map_err(|_| out_of_range())?;
        let rest = own.checked_sub(skipped).ok_or_else(out_of_range)?;
        let length = length.unwrap_or(rest);
        let offset = usize::try_from(array.offset).map_err(|_| out_of_range())?;
        let offset = offset.checked_add(skipped).ok_or_else(out_of_range)?;
        let end = offset.checked_add(length);
        // Then neither sums of offset and length overflow, nor their bytes: a view, the largest `Plain`, takes 16.
        if length > rest || end.is_none_or(|end| end >= usize::MAX / 32) {
            return Err(out_of_range());
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
            return Err(Error::bad_batch("the array lacks a buffer"));
        }
        // SAFETY: the interface says that there are that many pointers.
        Ok(unsafe { *self.array.buffers.add(index) }.cast())
    }

    /// Returns the first `count` values of a buffer. The buffer may be null if `count` is 0.
    pub(super) fn values<T: Plain>(&self, index: usize, count: usize) -> Result<&'b [T], Error> {
        let start: *const T = self.buffer(index)?.cast();
        if count == 0 {
            return Ok(&[]);
        }
        if start.is_null() {
            return Err(Error::bad_batch("the array lacks a buffer"));
        }
        if !start.is_aligned() {
            return Err(Error::bad_batch("a buffer of the array is not aligned"));
        }
        if count > isize::MAX.cast_unsigned() / size_of::<T>() {
            return Err(out_of_range());
        }
        // SAFETY: it is not null and aligned, the interface says that it has that many values, and they fit an address
        // space. Any bits are a valid `Plain`. No one changes them for all of `'b`.
        Ok(unsafe { std::slice::from_raw_parts(start, count) })
    }

    /// Returns which elements are null, unless none is.
    pub(super) fn nulls(&self) -> Result<Option<impl Fn(usize) -> bool + use<'b>>, Error> {
        let has_none = self.array.null_count == 0 || self.length == 0;
        // Null arrays and arrays with runs have no buffers, and the first buffer of unions has the types of the elements.
        let is_union = self.format.starts_with(b"+u");
        if has_none || is_union || self.array.n_buffers < 1 || self.buffer(0)?.is_null() {
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
    pub(super) fn require_no_nulls(&self, before: usize) -> Result<(), Error> {
        let firsts = [self.null_row, self.first_null()?];
        match firsts.into_iter().flatten().min() {
            None => Ok(()),
            Some(index) => Err(null_error(before + index)),
        }
    }

    /// Returns the offsets of the elements, one more than there are.
    fn offsets<O: Plain>(&self) -> Result<&'b [O], Error> {
        if self.length == 0 {
            return Ok(&[]);
        }
        let all = self.values(1, self.offset + self.length + 1)?;
        Ok(&all[self.offset..])
    }

    /// Returns the elements of this kind, which lie end to end in a buffer.
    pub(super) fn elements(&self, index: usize, element: Element) -> Result<Strided<'b>, Error> {
        let bytes = (self.offset + self.length).checked_mul(element.size());
        let bytes = bytes.ok_or_else(out_of_range)?;
        let values: &[u8] = if self.length == 0 || element.size() == 0 {
            &[]
        } else {
            &self.values::<u8>(index, bytes)?[self.offset * element.size()..]
        };
        let stride = element.size().cast_signed();
        // SAFETY: `length` elements of that size lie end to end in the buffer.
        Ok(unsafe { Strided::new(values.as_ptr(), self.length, stride, element) })
    }

    /// Returns the kind of the elements, if they are numbers and not the keys of a dictionary, which have a number's format.
    pub(super) fn element(&self) -> Option<Element> {
        number_element(self.format).filter(|_| self.schema.dictionary.is_null())
    }

    /// Returns the elements, if they are numbers. `before` elements precede them, for the indices in errors.
    pub fn numbers(&self, before: usize) -> Result<Strided<'b>, Error> {
        self.require_no_nulls(before)?;
        match self.element() {
            Some(element) => self.elements(1, element),
            None => Err(self.unknown("numbers")),
        }
    }

    /// Returns the error of an array that has no elements of the wanted kinds.
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

    /// Appends the elements to a batch.
    pub fn push_to(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        if !self.schema.dictionary.is_null() {
            return self.push_keys(batch);
        }
        if self.format == b"+r" {
            return self.push_runs(batch);
        }
        if self.is_null_type() && self.length > 0 {
            return Err(null_error(batch.len()));
        }
        self.require_no_nulls(batch.len())?;
        self.push_elements(batch)
    }

    /// Returns whether every element is null: there are no values.
    pub(super) fn is_null_type(&self) -> bool {
        self.format == b"n"
    }

    /// Appends the elements. Those that are null have any value, or none if all are.
    pub(super) fn push_elements(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        match self.format {
            b"n" => Ok(()),
            b"u" | b"z" => {
                let offsets = self.offsets::<i32>()?;
                batch.push_small(self.values(2, last_offset(offsets)?)?, offsets)
            }
            b"U" | b"Z" => {
                let offsets = self.offsets::<i64>()?;
                batch.push_large(self.values(2, last_offset(offsets)?)?, offsets)
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
}

/// Returns the child at `index` of `count` children, or `None` if there are fewer or it is null.
///
/// # Safety
/// Unless it is null, `children` points to `count` pointers, each null or valid for all of `'b`.
unsafe fn child_at<'b, T>(children: *mut *mut T, count: i64, index: usize) -> Option<&'b T> {
    let is_there = usize::try_from(count).is_ok_and(|count| index < count) && !children.is_null();
    // SAFETY: our caller guarantees it.
    is_there.then(|| unsafe { (*children.add(index)).as_ref() })?
}

fn out_of_range() -> Error {
    Error::bad_batch("the array's length or offset can't be right")
}

pub(super) fn null_error(index: usize) -> Error {
    Error::bad_batch(format!("item {index} is null"))
}

/// Returns the last offset, where the data end.
fn last_offset<O: Copy + TryInto<usize>>(offsets: &[O]) -> Result<usize, Error> {
    let end = offsets.last().map_or(Ok(0), |end| (*end).try_into());
    end.map_err(|_| BadOffsets.into())
}
