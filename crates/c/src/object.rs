//! Functions that all families share.

use std::ffi::c_void;

use valkeybloom_bindings::{self as bindings, Chunked, Family, Loader, Shared};

use super::bloom::Bloom;
use super::border::{
    Buffer, Failure, Outcome, Status, borrow, borrow_mut, call, put, require, slice,
};
use super::count_min::CountMin;
use super::cuckoo::Cuckoo;
use super::tdigest::TDigest;
use super::top_k::TopK;

/// An object that C holds a pointer to.
pub trait Handle: Sized {
    type Object: Family;
    fn of(object: Shared<Self::Object>) -> Self;
    fn shared(&self) -> &Shared<Self::Object>;
}

/// Gives a new object away.
///
/// # Safety
/// The place is null, or may be written to.
pub unsafe fn make<H: Handle>(
    place: *mut *mut H,
    new: impl FnOnce() -> Outcome<H::Object>,
) -> Outcome<()> {
    require(place)?;
    // SAFETY: the caller promises it.
    unsafe { give(place, H::of(Shared::new(new()?))) }
}

/// Gives away an object that is already made.
///
/// # Safety
/// The place is null, or may be written to.
pub unsafe fn give<T>(place: *mut *mut T, object: T) -> Outcome<()> {
    require(place)?;
    let mut one = Vec::new();
    one.try_reserve_exact(1)?;
    one.push(object);
    // A slice of one has the layout of a box.
    let one = Box::into_raw(one.into_boxed_slice());
    // SAFETY: the caller promises it.
    unsafe { put(place, one.cast()) }
}

/// Borrows several objects.
///
/// # Safety
/// There are that many pointers, unless the array is null, each null or valid.
pub unsafe fn all<'a, H: Handle + 'a>(
    objects: *const *const H,
    length: usize,
) -> Outcome<Vec<&'a Shared<H::Object>>> {
    // SAFETY: the caller promises it.
    let pointers = unsafe { slice(objects, length) }?;
    // SAFETY: the caller promises it.
    let shared = |object: &*const H| Ok(unsafe { borrow(*object) }?.shared());
    pointers.iter().map(shared).collect()
}

/// Frees an object that was given away.
///
/// # Safety
/// The pointer is null, or that of a box that was given away, and not taken back.
pub unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // A destructor that panics would be a bug. There is no status to report it with.
        call(|| {
            // SAFETY: the caller promises it.
            drop(unsafe { Box::from_raw(object) });
            Ok(())
        });
    }
}

/// Gives away a copy of an object.
///
/// # Safety
/// The pointers are null, or valid.
pub unsafe fn copy<H: Handle>(object: *const H, place: *mut *mut H) -> Outcome<()> {
    // SAFETY: the caller promises it.
    unsafe {
        let object = borrow(object)?.shared();
        make(place, || Ok(object.read(Family::try_clone)??))
    }
}

/// Compares two objects.
///
/// # Safety
/// The pointers are null, or valid.
pub unsafe fn equal<H: Handle>(one: *const H, other: *const H, equal: *mut bool) -> Outcome<()> {
    // SAFETY: the caller promises it.
    let both = unsafe { [borrow(one)?.shared(), borrow(other)?.shared()] };
    let answer = Shared::read_all(&both, |both| both[0].equals(both[1]))??;
    // SAFETY: the caller promises it.
    unsafe { put(equal, answer) }
}

/// Gives away the bytes of an object.
///
/// # Safety
/// The pointers are null, or valid.
pub unsafe fn to_bytes<H: Handle>(object: *const H, bytes: *mut Buffer) -> Outcome<()> {
    require(bytes)?;
    // SAFETY: the caller promises it.
    unsafe {
        put(
            bytes,
            Buffer::of(borrow(object)?.shared().read(Family::to_bytes)??)?,
        )
    }
}

/// Decodes an object, and gives it away.
///
/// # Safety
/// The pointers are null, or valid.
pub unsafe fn from_bytes<H: Handle>(
    data: *const u8,
    length: usize,
    place: *mut *mut H,
) -> Outcome<()> {
    // SAFETY: the caller promises it.
    unsafe {
        let bytes = slice(data, length)?;
        make(place, || Ok(H::Object::from_bytes(bytes)?))
    }
}

/// Gives away the chunk after a cursor.
///
/// # Safety
/// The pointers are null, or valid.
pub unsafe fn next_chunk<H: Handle<Object: Chunked>>(
    object: *const H,
    cursor: *mut u64,
    chunk: *mut Buffer,
) -> Outcome<()> {
    require(chunk)?;
    // SAFETY: the caller promises it.
    unsafe {
        let cursor = borrow_mut(cursor)?;
        let piece = borrow(object)?
            .shared()
            .read(|object| object.piece(*cursor))?;
        let (next, bytes) = piece?;
        *cursor = next;
        put(
            chunk,
            if next == 0 {
                Buffer::NONE
            } else {
                Buffer::of(bytes)?
            },
        )
    }
}

/// Loads a chunk.
///
/// # Safety
/// The pointers are null, or valid.
pub unsafe fn load<F: Chunked>(
    loader: &mut Loader<F>,
    cursor: u64,
    data: *const u8,
    length: usize,
) -> Outcome<()> {
    // SAFETY: the caller promises it.
    Ok(loader.load(cursor, unsafe { slice(data, length) }?)?)
}

/// Gives away the loaded object, and leaves the loader empty.
///
/// # Safety
/// The place is null, or may be written to.
pub unsafe fn finish<H: Handle<Object: Chunked>>(
    loader: &mut Loader<H::Object>,
    place: *mut *mut H,
) -> Outcome<()> {
    // SAFETY: the caller promises it.
    unsafe {
        make(
            place,
            || Ok(std::mem::replace(loader, Loader::new()).end()?),
        )
    }
}

/// The families of objects.
#[repr(C)]
pub enum Kind {
    /// A Bloom filter: valkeybloom_bloom.
    Bloom = 1,
    /// A cuckoo filter: valkeybloom_cuckoo.
    Cuckoo = 2,
    /// A count-min sketch: valkeybloom_count_min.
    CountMin = 3,
    /// A top-k list: valkeybloom_top_k.
    TopK = 4,
    /// A t-digest: valkeybloom_tdigest.
    TDigest = 5,
}

/// Decodes the bytes of an object of any family, as the family's own function does, whose name ends with _from_bytes.
/// `object` receives a pointer of the family's type. Free it with the family's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_decode(
    data: *const u8,
    length: usize,
    family: *mut Kind,
    object: *mut *mut c_void,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        require(family)?;
        require(object)?;
        let sketch = bindings::decode(slice(data, length)?)?;
        let kind = match bindings::name_of(&sketch) {
            bindings::Bloom::NAME => Kind::Bloom,
            bindings::Cuckoo::NAME => Kind::Cuckoo,
            bindings::CountMin::NAME => Kind::CountMin,
            bindings::TopK::NAME => Kind::TopK,
            _ => Kind::TDigest,
        };
        let of_another = |_| Failure::refused("the object is of another family");
        match kind {
            Kind::Bloom => make::<Bloom>(object.cast(), || {
                Family::of_sketch(sketch).map_err(of_another)
            }),
            Kind::Cuckoo => make::<Cuckoo>(object.cast(), || {
                Family::of_sketch(sketch).map_err(of_another)
            }),
            Kind::CountMin => make::<CountMin>(object.cast(), || {
                Family::of_sketch(sketch).map_err(of_another)
            }),
            Kind::TopK => make::<TopK>(object.cast(), || {
                Family::of_sketch(sketch).map_err(of_another)
            }),
            Kind::TDigest => make::<TDigest>(object.cast(), || {
                Family::of_sketch(sketch).map_err(of_another)
            }),
        }?;
        put(family, kind)
    })
}
