//! Refused allocations: a call fails with a status, and the program does not end.

#![allow(unsafe_code, reason = "the functions are those of C")]

#[allow(dead_code, reason = "the tests of the sketches use the rest")]
#[path = "../../sketches/tests/memory/refusing.rs"]
mod refusing;

use std::ffi::CString;
use std::ptr::{null, null_mut};

use refusing::each_refused;
use valkeybloom_ffi::any::{
    valkeybloom_contains, valkeybloom_copy, valkeybloom_equal, valkeybloom_free,
};
use valkeybloom_ffi::bloom::{valkeybloom_bloom_new, valkeybloom_bloom_union};
use valkeybloom_ffi::border::{Buffer, Status, valkeybloom_buffer_free};
use valkeybloom_ffi::count_min::{valkeybloom_count_min_merge, valkeybloom_count_min_new};
use valkeybloom_ffi::object::Object;
use valkeybloom_ffi::tdigest::{valkeybloom_tdigest_merge, valkeybloom_tdigest_new};
use valkeybloom_ffi::top_k::{valkeybloom_top_k_add, valkeybloom_top_k_new};

/// An object that is freed in the end.
struct Owned(*mut Object);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the library made it, or it is null.
        unsafe { valkeybloom_free(self.0) }
    }
}

/// Returns the object that a call makes, which has to succeed.
fn made(make: impl FnOnce(*mut *mut Object) -> Status) -> Owned {
    let mut object = null_mut();
    assert!(matches!(make(&raw mut object), Status::Ok));
    Owned(object)
}

/// Requires that a call succeeded, or that memory was refused to it. Returns whether it succeeded.
#[track_caller]
fn succeeded(status: Status, was_refused: bool) -> bool {
    match status {
        Status::Ok => true,
        Status::NoMemory if was_refused => false,
        other => panic!("status {}", other as u32),
    }
}

fn copy(object: &Owned) -> Owned {
    // SAFETY: all pointers are valid.
    made(|place| unsafe { valkeybloom_copy(object.0, place) })
}

fn equal(one: &Owned, other: &Owned) -> bool {
    let mut equal = false;
    // SAFETY: all pointers are valid.
    let status = unsafe { valkeybloom_equal(one.0, other.0, &raw mut equal) };
    assert!(matches!(status, Status::Ok));
    equal
}

/// The items are so long that memory for them is refused.
#[test]
fn an_addition_that_fails_leaves_a_full_list_as_it_was() {
    let (rare, frequent) = ([1; 2000], [2; 2000]);
    let add = |list: &Owned, item: &[u8], by| {
        let mut expelled = Buffer::NONE;
        // SAFETY: all pointers are valid.
        let status = unsafe {
            let expelled = &raw mut expelled;
            valkeybloom_top_k_add(list.0, item.as_ptr(), item.len(), by, expelled)
        };
        (status, expelled)
    };
    // SAFETY: the place is valid.
    let full = made(|list| unsafe { valkeybloom_top_k_new(1, 1000, 3, 0.9, list) });
    assert!(matches!(add(&full, &rare, 1).0, Status::Ok));
    let refusals = each_refused(
        || copy(&full),
        |list| {
            let (status, expelled) = add(&list, &frequent, 10);
            (list, status, expelled)
        },
        |(list, status, mut expelled), was_refused| {
            if succeeded(status, was_refused) {
                assert_eq!(expelled.length, rare.len());
                // SAFETY: the library filled it.
                unsafe { valkeybloom_buffer_free(&raw mut expelled) };
            } else {
                assert!(expelled.data.is_null() && equal(&list, &full));
            }
        },
    );
    assert!(refusals > 0, "nothing was refused");
}

type Union = unsafe fn(*const *const Object, usize, *mut *mut Object) -> Status;

/// The lists of the objects are longer than what is never refused.
#[test]
fn many_objects_are_united() {
    let objects: [(Owned, Union); 3] = [
        (
            // SAFETY: all pointers are valid.
            made(|place| unsafe { valkeybloom_bloom_new(100, 0.01, null(), null(), place) }),
            // SAFETY: the caller promises valid pointers.
            |all, length, place| unsafe { valkeybloom_bloom_union(all, length, null(), place) },
        ),
        (
            // SAFETY: all pointers are valid.
            made(|place| unsafe { valkeybloom_count_min_new(100, 3, null(), place) }),
            // SAFETY: the caller promises valid pointers.
            |all, length, place| unsafe { valkeybloom_count_min_merge(all, null(), length, place) },
        ),
        (
            // SAFETY: the place is valid.
            made(|place| unsafe { valkeybloom_tdigest_new(100, place) }),
            // SAFETY: the caller promises valid pointers.
            |all, length, place| unsafe { valkeybloom_tdigest_merge(all, length, 0, place) },
        ),
    ];
    for (object, union) in objects {
        let copies: Vec<_> = (0..200).map(|_| copy(&object)).collect();
        let all: Vec<*const Object> = copies.iter().map(|copy| copy.0.cast_const()).collect();
        let refusals = each_refused(
            || (),
            |()| {
                let mut united = null_mut();
                // SAFETY: all pointers are valid.
                let status = unsafe { union(all.as_ptr(), all.len(), &raw mut united) };
                (status, Owned(united))
            },
            |(status, united), was_refused| {
                assert_eq!(succeeded(status, was_refused), !united.0.is_null());
            },
        );
        assert!(refusals > 3, "{refusals} were refused");
    }
}

/// A lookup in a filter reads the options, and one in a sketch of another family refuses them.
#[test]
fn options_of_many_words_are_read() {
    // SAFETY: all pointers are valid.
    let filter = made(|place| unsafe { valkeybloom_bloom_new(100, 0.01, null(), null(), place) });
    // SAFETY: all pointers are valid.
    let sketch = made(|place| unsafe { valkeybloom_count_min_new(100, 3, null(), place) });
    let options = CString::new("AT 1 ".repeat(100)).unwrap();
    for (object, outcome) in [(filter, Status::Ok), (sketch, Status::Refused)] {
        let refusals = each_refused(
            || (),
            |()| {
                let mut found = false;
                let (options, found) = (options.as_ptr(), &raw mut found);
                // SAFETY: all pointers are valid.
                unsafe { valkeybloom_contains(object.0, null(), 0, options, found) }
            },
            |status, was_refused| {
                let due = if was_refused {
                    Status::NoMemory
                } else {
                    outcome
                };
                assert_eq!(status as u32, due as u32);
            },
        );
        assert!(refusals > 0, "nothing was refused");
    }
}
