//! The border to C: statuses, texts of errors, the caller's memory, and memory given to the caller.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use valkeybloom_bindings::arrow::{self, ArrowArray, ArrowSchema};
#[cfg(not(target_family = "wasm"))]
use valkeybloom_bindings::parse_moment;
use valkeybloom_bindings::{self as bindings, Code, Error, Moment, copied};

/// The outcome of a call. The numbers stay; later versions may add others.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum Status {
    /// The call succeeded.
    Ok = 0,
    /// A server would refuse the parameter, item or union, with the same text.
    Refused = 1,
    /// The bytes are not those of an object, or chunks are missing.
    Undecodable = 2,
    /// There is not enough memory. Nothing has changed, unless a batch was under way.
    NoMemory = 3,
    /// The items of a batch can't be read: one is null, or the offsets don't ascend within the data.
    BadBatch = 4,
    /// The elements of an Arrow array have a type that items can't have.
    BadType = 5,
    /// A bug of this library, in this call or in an earlier one on this object. Free the object.
    Broken = 6,
    /// A pointer that the call needs is null or not aligned.
    BadPointer = 7,
    /// The object is of a family that does not have this call.
    BadFamily = 8,
}

/// The status and the text of a call that failed.
pub struct Failure(Status, Cow<'static, str>);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error.code() {
            Code::Refused => Status::Refused,
            Code::Undecodable => Status::Undecodable,
            Code::NoMemory => Status::NoMemory,
            Code::BadBatch => Status::BadBatch,
            Code::BadType => Status::BadType,
            Code::Broken => Status::Broken,
        };
        Self(status, error.text().to_owned().into())
    }
}

impl From<std::collections::TryReserveError> for Failure {
    fn from(error: std::collections::TryReserveError) -> Self {
        Error::from(error).into()
    }
}

impl Failure {
    pub fn refused(text: &'static str) -> Self {
        Error::new(Code::Refused, text).into()
    }

    pub fn bad_family(text: impl Into<Cow<'static, str>>) -> Self {
        Self(Status::BadFamily, text.into())
    }
}

pub type Outcome<T> = Result<T, Failure>;

thread_local! {
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Requires room on the stack of an engine of WebAssembly. Without room, the engine ends the call, which has done nothing yet.
#[inline]
pub fn require_stack() {
    #[cfg(target_family = "wasm")]
    super::stack::valkeybloom_require_stack();
}

/// Does the work of a call. A panic is a bug, but does not unwind into C.
pub fn call(work: impl FnOnce() -> Outcome<()>) -> Status {
    require_stack();
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let text = "valkeybloom failed because of a bug in it";
        Err(Failure(Status::Broken, text.into()))
    });
    outcome.map_or_else(note, |()| Status::Ok)
}

/// Notes the text of a failure, and returns its status. It is a function of its own because `call` is compiled for each call.
#[cold]
fn note(Failure(status, text): Failure) -> Status {
    let text = CString::new(text.replace('\0', "\\0")).ok();
    // A thread that is ending may no longer have a place for the text.
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
    status
}

/// Returns the error text of this thread's last failed call, in one line; the empty text if none has failed. It is
/// valid until the next call of this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_last_error() -> *const c_char {
    let text = LAST_ERROR.try_with(|last| last.borrow().as_ref().map(|text| text.as_ptr()));
    text.ok().flatten().unwrap_or(c"".as_ptr())
}

/// Returns the version of the library, such as "3.0.0". It is valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Sets the limits for all objects of the process: the most bytes of a filter that is stacked on others because they
/// are full, 1 GiB at first; and the most filters that a cuckoo filter grows to, at first 32, as on a server. An object
/// from bytes of elsewhere can't take more than that for an addition. What you create or load may be larger.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_limit_growth(filter_bytes: u64, cuckoo_filters: u64) {
    bindings::limit_growth(filter_bytes, cuckoo_filters);
}

fn bad_pointer(text: &'static str) -> Failure {
    Failure(Status::BadPointer, text.into())
}

/// Requires that a place for a result can be written to.
pub fn require<T>(place: *mut T) -> Outcome<()> {
    if place.is_null() || !place.is_aligned() {
        return Err(bad_pointer("there is no place for the result"));
    }
    Ok(())
}

/// Requires that a structure for a description can be written to. It begins with its size, because later versions have more
/// fields.
///
/// # Safety
/// The pointer is null, or its first field has a value.
pub unsafe fn require_info<T>(info: *const T) -> Outcome<()> {
    // SAFETY: the caller promises it, and null is checked.
    let size = unsafe { borrow(info.cast::<usize>()) }?;
    if *size < size_of::<T>() {
        return Err(Failure::refused("the size of the structure is not set"));
    }
    require(info.cast_mut())
}

/// Writes a result, if the caller wants it.
///
/// # Safety
/// The pointer is null, or may be written to.
pub unsafe fn put<T>(place: *mut T, value: T) -> Outcome<()> {
    if !place.is_null() {
        require(place)?;
        // SAFETY: it is not null and aligned, and the caller promises the rest.
        unsafe { place.write(value) };
    }
    Ok(())
}

/// Borrows a value of the caller's for the length of a call.
///
/// # Safety
/// The pointer is null, or valid for the length of the call.
pub unsafe fn borrow<'a, T>(pointer: *const T) -> Outcome<&'a T> {
    if !pointer.is_aligned() {
        return Err(bad_pointer("a pointer is not aligned"));
    }
    // SAFETY: it is aligned, and the caller promises the rest.
    unsafe { pointer.as_ref() }.ok_or_else(|| bad_pointer("a pointer is null"))
}

/// Borrows a value of the caller's that no other thread uses during the call.
///
/// # Safety
/// As for [`borrow`].
pub unsafe fn borrow_mut<'a, T>(pointer: *mut T) -> Outcome<&'a mut T> {
    if !pointer.is_aligned() {
        return Err(bad_pointer("a pointer is not aligned"));
    }
    // SAFETY: it is aligned, and the caller promises the rest.
    unsafe { pointer.as_mut() }.ok_or_else(|| bad_pointer("a pointer is null"))
}

/// Requires that an array fits an address space, and that its pointer is usable.
fn require_array<T>(start: *const T, length: usize) -> Outcome<()> {
    if start.is_null() || !start.is_aligned() {
        return Err(bad_pointer(
            "the pointer of an array is null or not aligned",
        ));
    }
    if length > isize::MAX.cast_unsigned() / size_of::<T>().max(1) {
        return Err(bad_pointer("an array is longer than the memory"));
    }
    Ok(())
}

/// Borrows an array of the caller's.
///
/// # Safety
/// There are `length` elements, unless the pointer is null, for the length of the call.
pub unsafe fn slice<'a, T>(start: *const T, length: usize) -> Outcome<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    require_array(start, length)?;
    // SAFETY: it is not null, aligned and no longer than the memory, and the caller promises the rest.
    Ok(unsafe { std::slice::from_raw_parts(start, length) })
}

/// Borrows an array of numbers, if there is one.
///
/// # Safety
/// As for [`slice()`].
pub unsafe fn optional<'a>(numbers: *const i64, length: usize) -> Outcome<Option<&'a [i64]>> {
    if numbers.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises it.
    unsafe { slice(numbers, length) }.map(Some)
}

/// Borrows the caller's array for answers, and fills it with zeros.
///
/// # Safety
/// `length` elements may be written, unless the pointer is null, for the length of the call.
pub unsafe fn places<'a, T: From<u8>>(start: *mut T, length: usize) -> Outcome<&'a mut [T]> {
    if length == 0 {
        return Ok(&mut []);
    }
    require_array(start, length)?;
    for index in 0..length {
        // SAFETY: the element is in the array. It may not have a value yet.
        unsafe { start.add(index).write(0.into()) };
    }
    // SAFETY: it is not null, aligned and no longer than the memory, and has values; the caller promises the rest.
    Ok(unsafe { std::slice::from_raw_parts_mut(start, length) })
}

/// Borrows the caller's array for the answers of a batch that is added, if there is one, and fills it with 2.
///
/// # Safety
/// As for [`places`].
pub unsafe fn optional_answers<'a>(start: *mut u8, length: usize) -> Outcome<&'a mut [u8]> {
    if start.is_null() {
        return Ok(&mut []);
    }
    // SAFETY: the caller promises it.
    let answers = unsafe { places(start, length) }?;
    answers.fill(2);
    Ok(answers)
}

/// Returns the words of options.
///
/// # Safety
/// The pointer is null, or that of a text that ends with a zero and is valid for the length of the call.
pub unsafe fn words<'a>(options: *const c_char) -> Vec<&'a [u8]> {
    if options.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller promises it.
    let text = unsafe { CStr::from_ptr(options) }.to_bytes();
    let words = text.split(u8::is_ascii_whitespace);
    words.filter(|word| !word.is_empty()).collect()
}

/// Returns the options AT and TTL of a call.
///
/// # Safety
/// As for [`words`].
#[cfg(not(target_family = "wasm"))]
pub unsafe fn moment(options: *const c_char) -> Outcome<Moment> {
    if options.is_null() {
        return Ok(Moment::default());
    }
    // SAFETY: the caller promises it.
    Ok(parse_moment(&unsafe { words(options) })?)
}

/// Returns the options AT and TTL of a call. JavaScript passes them as numbers. One below 0 stands for an option that is missing.
///
/// # Safety
/// The pointer is null, or that of two numbers.
#[cfg(target_family = "wasm")]
pub unsafe fn moment(options: *const c_char) -> Outcome<Moment> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "integers of JavaScript"
    )]
    fn given(number: f64) -> Option<u64> {
        (number >= 0.0).then_some(number as u64)
    }
    if options.is_null() {
        return Ok(Moment::default());
    }
    // SAFETY: the caller promises it.
    let [at_ms, ttl_ms] = unsafe { borrow(options.cast::<[f64; 2]>()) }?.map(given);
    Ok(bindings::moment(at_ms, ttl_ms)?)
}

/// Returns the time of a call whose only option is AT, in milliseconds since the epoch.
///
/// # Safety
/// As for [`moment`].
#[cfg(target_family = "wasm")]
pub unsafe fn time(options: *const c_char) -> Outcome<Option<u64>> {
    // SAFETY: the caller promises it.
    Ok(unsafe { moment(options) }?.at_ms)
}

/// Returns the time of a call whose only option is AT, in milliseconds since the epoch.
///
/// # Safety
/// As for [`words`].
#[cfg(not(target_family = "wasm"))]
pub unsafe fn time(options: *const c_char) -> Outcome<Option<u64>> {
    // SAFETY: the caller promises it.
    match unsafe { words(options) }[..] {
        [] => Ok(None),
        [at, time] if at.eq_ignore_ascii_case(b"AT") => Ok(parse_moment(&[at, time])?.at_ms),
        _ => Err(Failure::refused("AT with a time is the only option here")),
    }
}

/// Refuses options to a call that has none.
///
/// # Safety
/// As for [`words`].
pub unsafe fn no_options(options: *const c_char) -> Outcome<()> {
    // In WebAssembly, they are not words.
    let has_none = if cfg!(target_family = "wasm") {
        options.is_null()
    } else {
        // SAFETY: the caller promises it.
        unsafe { words(options) }.is_empty()
    };
    if has_none {
        Ok(())
    } else {
        Err(Failure::refused("there are no options here"))
    }
}

/// Many items in your memory: between offsets, or as an Arrow array. Set the fields you use; leave the others null or
/// 0. Nothing is copied, unless items are numbers.
///
/// Item `i` is the bytes from `offsets[i]` up to `offsets[i + 1]` in the data.
#[repr(C)]
pub struct Batch {
    /// The number of items between offsets.
    length: usize,
    /// The bytes of the items.
    data: *const u8,
    /// The number of bytes in `data`.
    data_length: usize,
    /// `length + 1` offsets of 32 bits.
    offsets32: *const i32,
    /// `length + 1` offsets of 64 bits, instead of those of 32 bits.
    offsets64: *const i64,
    /// The type of `array`: strings, bytes or integers. It stays yours: it is not released.
    schema: *const ArrowSchema,
    /// An Arrow array, instead of data and offsets. It stays yours: it is not released.
    array: *const ArrowArray,
}

/// Returns the items of a batch.
///
/// # Safety
/// The batch is as the header says, for the length of the call.
pub unsafe fn items<'a>(batch: *const Batch) -> Outcome<bindings::Batch<'a>> {
    // SAFETY: the caller promises it.
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
            // SAFETY: the caller promises it.
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
        _ => return Err(bad_pointer("a batch needs offsets of one size or an array")),
    }
    Ok(all)
}

/// Returned bytes. They are yours: free them with valkeybloom_buffer_free.
#[repr(C)]
pub struct Buffer {
    /// The first byte; null if there is nothing to free.
    data: *mut u8,
    /// The number of bytes.
    length: usize,
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
        // SAFETY: the caller promises it.
        drop(unsafe { Box::from_raw(array) });
    }
}

/// Frees the bytes of a buffer, and sets it to null. Null, and a buffer that is null, are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_buffer_free(buffer: *mut Buffer) {
    // SAFETY: the header requires a buffer that this library filled, or a null one.
    if let Some(buffer) = unsafe { buffer.as_mut() } {
        let Buffer { data, length } = std::mem::replace(buffer, Buffer::NONE);
        // SAFETY: as above.
        unsafe { take(data, length) };
    }
}

/// Returned items, end to end. They are yours: free them with valkeybloom_items_free.
#[repr(C)]
pub struct Items {
    /// The number of items.
    length: usize,
    /// The bytes of the items.
    data: *mut u8,
    /// The number of bytes in `data`.
    data_length: usize,
    /// `length + 1` offsets: item `i` is the bytes from `offsets[i]` up to `offsets[i + 1]`.
    offsets: *mut i64,
    /// The count of each item; null if the call returns none.
    counts: *mut u64,
}

impl Items {
    const NONE: Self = Self {
        length: 0,
        data: ptr::null_mut(),
        data_length: 0,
        offsets: ptr::null_mut(),
        counts: ptr::null_mut(),
    };

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
        // SAFETY: as above.
        unsafe {
            take(items.data, items.data_length);
            take(items.offsets, items.length + 1);
            take(items.counts, items.length);
        }
    }
}
