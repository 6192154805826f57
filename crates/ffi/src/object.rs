//! Objects of all families: how they are borrowed, given away and freed.

use std::ffi::c_char;

use valkeybloom_bindings::{Bloom, CountMin, Cuckoo, Family, Shared, Sketch, TDigest, TopK};

use super::border::{
    Failure, Outcome, borrow, call, no_options, put, require, require_info, slice, time,
};

/// A sketch of one of the families.
#[allow(clippy::large_enum_variant, reason = "each is in a box of its own")]
pub enum Object {
    Bloom(Shared<Bloom>),
    Cuckoo(Shared<Cuckoo>),
    CountMin(Shared<CountMin>),
    TopK(Shared<TopK>),
    TDigest(Shared<TDigest>),
}

/// The families of objects.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum Kind {
    /// Bloom filters: plain, with a window, with counts, or scaled to a number of items. "Not found" is certain; "found"
    /// is wrong at the error rate.
    Bloom = 1,
    /// Cuckoo filters: "not found" is certain, "found" is probable, and items can be removed.
    Cuckoo = 2,
    /// Count-min sketches: estimate how often items were counted. An estimate may be too high, but never too low.
    CountMin = 3,
    /// Top-k lists: the most frequent items, with estimates of their counts.
    TopK = 4,
    /// T-digests: estimate quantiles of observations. They are most exact at both ends.
    TDigest = 5,
}

/// Matches on the family and evaluates one expression for each.
macro_rules! each {
    ($object:expr, $shared:ident => $work:expr) => {
        match $object {
            Object::Bloom($shared) => $work,
            Object::Cuckoo($shared) => $work,
            Object::CountMin($shared) => $work,
            Object::TopK($shared) => $work,
            Object::TDigest($shared) => $work,
        }
    };
}
pub(crate) use each;

/// A family, as a case of [`Object`].
pub trait Typed: Family {
    fn object(self) -> Object;
    fn of(object: &Object) -> Option<&Shared<Self>>;
}

macro_rules! families {
    ($($family:ident),*) => {
        $(impl Typed for $family {
            fn object(self) -> Object {
                Object::$family(Shared::new(self))
            }
            fn of(object: &Object) -> Option<&Shared<Self>> {
                match object {
                    Object::$family(shared) => Some(shared),
                    _ => None,
                }
            }
        })*

        impl Object {
            pub const fn kind(&self) -> Kind {
                match self {
                    $(Self::$family(_) => Kind::$family,)*
                }
            }
        }

        impl From<Sketch> for Object {
            fn from(sketch: Sketch) -> Self {
                match sketch {
                    $(Sketch::$family(object) => $family::from(object).object(),)*
                }
            }
        }
    };
}

families!(Bloom, Cuckoo, CountMin, TopK, TDigest);

impl Object {
    /// Returns the failure of a call that this object's family does not have.
    pub fn lacks(&self, call: &str) -> Failure {
        fn name<F: Family>(_: &Shared<F>) -> &'static str {
            F::NAME
        }
        Failure::bad_family(format!("a {} has no {call}", each!(self, it => name(it))))
    }

    /// Returns a copy of what it holds.
    pub fn sketch(&self) -> Outcome<Sketch> {
        Ok(each!(self, it => it.read(Family::try_clone)??.into_sketch()))
    }

    /// Returns the time of a lookup: the option AT of Bloom filters. The other families have no options.
    ///
    /// # Safety
    /// The pointer is null, or that of a text that ends with a zero (in C) or of two numbers (in WebAssembly). Neither is
    /// changed while this function runs.
    pub unsafe fn time(&self, options: *const c_char) -> Outcome<Option<u64>> {
        // SAFETY: the pointer is null, or that of a text or of two numbers, whichever both functions read on this target.
        unsafe {
            match self {
                Self::Bloom(_) => time(options),
                _ => no_options(options).map(|()| None),
            }
        }
    }
}

/// Borrows an object of a family.
///
/// # Safety
/// The pointer is null, or valid during `'a`.
pub unsafe fn borrow_as<'a, F: Typed + 'a>(object: *const Object) -> Outcome<&'a Shared<F>> {
    // SAFETY: the pointer is null or valid.
    let object = unsafe { borrow(object) }?;
    F::of(object).ok_or_else(|| Failure::bad_family(format!("the object is not a {}", F::NAME)))
}

/// Borrows several objects of a family.
///
/// # Safety
/// There are `length` pointers, unless the array is null, each null or valid during `'a`.
pub unsafe fn borrow_all_as<'a, F: Typed + 'a>(
    objects: *const *const Object,
    length: usize,
) -> Outcome<Vec<&'a Shared<F>>> {
    // SAFETY: there are `length` pointers, or the array is null.
    let pointers = unsafe { slice(objects, length) }?;
    // SAFETY: each pointer is null or valid.
    let shared = |object: &*const Object| unsafe { borrow_as(*object) };
    let mut all = Vec::new();
    all.try_reserve_exact(pointers.len())?;
    for object in pointers {
        all.push(shared(object)?);
    }
    Ok(all)
}

/// Makes an object and gives it away, as [`give_made`] does.
///
/// # Safety
/// The place is null, or may be written to.
pub unsafe fn give_new<F: Typed>(
    place: *mut *mut Object,
    new: impl FnOnce() -> Outcome<F>,
) -> Outcome<()> {
    // SAFETY: the place is null, or may be written to.
    unsafe { give_made(place, || Ok(new()?.object())) }
}

/// Describes an object of a family.
///
/// # Safety
/// The pointer to the object is null or valid. That to the place is null, or may be written to, and its first field has a
/// value.
pub unsafe fn describe<F: Typed, I>(
    object: *const Object,
    info: *mut I,
    read: impl FnOnce(&F) -> I,
) -> Outcome<()> {
    // SAFETY: the object is null or valid, and the place is as `require_info` requires.
    unsafe {
        require_info(info)?;
        put(info, borrow_as::<F>(object)?.read(read)?)
    }
}

/// Gives away a value in a box of its own.
///
/// # Safety
/// The place is null, or may be written to.
pub unsafe fn give<T>(place: *mut *mut T, made: T) -> Outcome<()> {
    // SAFETY: the place is null, or may be written to.
    unsafe { give_made(place, || Ok(made)) }
}

/// Makes a value and gives it away in a box of its own. The place and the box come first, because a call that fails must
/// change nothing: `make` may empty a loader.
///
/// # Safety
/// The place is null, or may be written to.
pub unsafe fn give_made<T>(place: *mut *mut T, make: impl FnOnce() -> Outcome<T>) -> Outcome<()> {
    require(place)?;
    // `Box::new` would end the process if there is no memory, and `Box::try_new` is unstable. A boxed slice of one value has
    // the layout of a box.
    let mut one = Vec::new();
    one.try_reserve_exact(1)?;
    one.push(make()?);
    let one = Box::into_raw(one.into_boxed_slice());
    // SAFETY: the place is null, or may be written to.
    unsafe { put(place, one.cast()) }
}

/// Frees what was given away.
///
/// # Safety
/// The pointer is null, or that of a box that was given away, and not taken back.
pub unsafe fn free<T>(given: *mut T) {
    if !given.is_null() {
        // A destructor that panics would be a bug. There is no status to report it with.
        call(|| {
            // SAFETY: the box was given away, and not taken back.
            drop(unsafe { Box::from_raw(given) });
            Ok(())
        });
    }
}
