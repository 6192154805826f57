//! The caller's memory.

use super::status::{Failure, Outcome};

/// Requires that a place for a result can be written to.
pub fn require<T>(place: *mut T) -> Outcome<()> {
    if place.is_null() || !place.is_aligned() {
        return Err(Failure::bad_pointer("there is no place for the result"));
    }
    Ok(())
}

/// Requires that a place for a result can be written to, if there is one.
pub fn require_if_given<T>(place: *mut T) -> Outcome<()> {
    if place.is_null() {
        return Ok(());
    }
    require(place)
}

/// Requires that a structure for a description can be written to. It begins with its size, because later versions have more
/// fields.
///
/// # Safety
/// The pointer is null, or its first field has a value.
pub unsafe fn require_info<T>(info: *const T) -> Outcome<()> {
    // SAFETY: the pointer is null, which is checked, or its first field has a value.
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

/// Makes a result and writes it, if the caller wants it.
///
/// # Safety
/// The pointer is null, or may be written to.
pub unsafe fn put_made<T>(place: *mut T, make: impl FnOnce() -> Outcome<T>) -> Outcome<()> {
    if place.is_null() {
        return Ok(());
    }
    // SAFETY: the place is as `put` requires.
    unsafe { put(place, make()?) }
}

fn require_pointer<T>(pointer: *const T) -> Outcome<()> {
    if !pointer.is_aligned() {
        return Err(Failure::bad_pointer("a pointer is not aligned"));
    }
    if pointer.is_null() {
        return Err(Failure::bad_pointer("a pointer is null"));
    }
    Ok(())
}

/// Borrows a value of the caller's.
///
/// # Safety
/// The pointer is null, or valid during `'a`, and the value is not changed meanwhile.
pub unsafe fn borrow<'a, T>(pointer: *const T) -> Outcome<&'a T> {
    require_pointer(pointer)?;
    // SAFETY: it is not null and aligned, and the caller promises the rest.
    Ok(unsafe { &*pointer })
}

/// Borrows a value of the caller's to change it.
///
/// # Safety
/// The pointer is null, or valid during `'a`, and nothing else uses the value meanwhile.
pub unsafe fn borrow_mut<'a, T>(pointer: *mut T) -> Outcome<&'a mut T> {
    require_pointer(pointer)?;
    // SAFETY: it is not null and aligned, and the caller promises the rest.
    Ok(unsafe { &mut *pointer })
}

/// Requires that an array fits an address space, and that its pointer is usable.
fn require_array<T>(start: *const T, length: usize) -> Outcome<()> {
    if start.is_null() || !start.is_aligned() {
        return Err(Failure::bad_pointer(
            "the pointer of an array is null or not aligned",
        ));
    }
    if length > isize::MAX.cast_unsigned() / size_of::<T>().max(1) {
        return Err(Failure::bad_pointer("an array is longer than the memory"));
    }
    Ok(())
}

/// Borrows an array of the caller's.
///
/// # Safety
/// There are `length` elements during `'a`, unless the pointer is null, and they are not changed meanwhile.
pub unsafe fn slice<'a, T>(start: *const T, length: usize) -> Outcome<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    require_array(start, length)?;
    // SAFETY: it is not null, aligned and no longer than the memory, and the caller promises the rest.
    Ok(unsafe { std::slice::from_raw_parts(start, length) })
}

/// Borrows an array of the caller's, if there is one.
///
/// # Safety
/// There are `length` elements during `'a`, unless the pointer is null, and they are not changed meanwhile.
pub unsafe fn optional<'a, T>(start: *const T, length: usize) -> Outcome<Option<&'a [T]>> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: the array is as `slice` requires.
    unsafe { slice(start, length) }.map(Some)
}

/// Borrows the caller's array for answers, and fills it with zeros.
///
/// # Safety
/// `length` elements may be written during `'a`, unless the pointer is null, and nothing else uses them meanwhile.
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
/// `length` elements may be written during `'a`, unless the pointer is null, and nothing else uses them meanwhile.
pub unsafe fn optional_answers<'a>(start: *mut u8, length: usize) -> Outcome<&'a mut [u8]> {
    if start.is_null() {
        return Ok(&mut []);
    }
    // SAFETY: the array is as `places` requires.
    let answers = unsafe { places(start, length) }?;
    answers.fill(2);
    Ok(answers)
}
