//! Strings of the server, and the arguments of a command.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};

use valkey_module::raw;

use super::api::call;

/// A string that the server owns. It is alive, and its bytes don't change, for `'a`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Str<'a>(NonNull<raw::RedisModuleString>, PhantomData<&'a ()>);

impl<'a> Str<'a> {
    /// The bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        let mut length = 0;
        // SAFETY: the string is alive and unchanged for 'a, and so are the bytes that the server points to. It
        // points to no string's with null.
        unsafe {
            let bytes = call!(RedisModule_StringPtrLen(self.0.as_ptr(), &raw mut length));
            std::slice::from_raw_parts(bytes.cast(), length)
        }
    }

    #[inline]
    pub(super) fn as_ptr(self) -> *mut raw::RedisModuleString {
        self.0.as_ptr()
    }
}

/// The bytes of a string; none if the pointer is null.
///
/// # Safety
/// The string, if there is one, is alive for `'a`, and its bytes don't change.
pub(super) unsafe fn bytes_of<'a>(string: *mut raw::RedisModuleString) -> &'a [u8] {
    NonNull::new(string).map_or(&[][..], |string| Str(string, PhantomData).bytes())
}

/// A new string, which belongs to the caller.
pub(super) fn new_string(bytes: &[u8]) -> *mut raw::RedisModuleString {
    // SAFETY: the server copies the bytes. Without a context it does not free the string by itself.
    unsafe {
        call!(RedisModule_CreateString(
            ptr::null_mut(),
            bytes.as_ptr().cast(),
            bytes.len()
        ))
    }
}

/// A command's arguments as the server passes them, without their number.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct RawArgv<'a>(*const *mut raw::RedisModuleString, PhantomData<&'a ()>);

/// The arguments of a command, its name first.
#[derive(Clone, Copy)]
pub struct Argv<'a>(&'a [Str<'a>]);

impl<'a> Argv<'a> {
    /// No arguments, of which the server may make no array.
    pub(super) const NONE: Self = Self(&[]);

    /// # Safety
    /// The server passed the two together, to a call that lasts for `'a`, and the count is not 0.
    #[inline]
    pub(super) unsafe fn new(words: RawArgv<'a>, count: c_int) -> Self {
        // SAFETY: so it is an array of `count` strings, none of them null, which are alive for 'a.
        Self(unsafe { std::slice::from_raw_parts(words.0.cast(), count as usize) })
    }

    /// The number of arguments, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The argument at an index.
    ///
    /// # Panics
    /// If there is none: the index comes from the program, never from a client.
    #[inline]
    pub fn string(&self, index: usize) -> Str<'a> {
        self.0[index]
    }

    /// The bytes of the arguments in a range.
    ///
    /// # Panics
    /// If some are not there, as above.
    #[inline]
    pub fn bytes_in(&self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.0[range].iter().map(|string| string.bytes())
    }
}
