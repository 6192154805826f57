//! The server's strings, and the arguments of a command.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};

use valkey_module::raw;

use super::api::call;

/// A string that the server owns. It is alive and its bytes don't change for `'a`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Str<'a>(NonNull<raw::RedisModuleString>, PhantomData<&'a ()>);

impl<'a> Str<'a> {
    /// Returns the bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        let mut length = 0;
        // SAFETY: the string is alive and unchanged for 'a, and so are the bytes that the server returns a pointer
        // to. The pointer is not null for any string.
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

/// Returns the bytes of a string, or an empty slice if the pointer is null.
///
/// # Safety
/// The string, if there is one, is alive for `'a`, and its bytes don't change.
pub(super) unsafe fn bytes_of<'a>(string: *mut raw::RedisModuleString) -> &'a [u8] {
    NonNull::new(string).map_or(&[][..], |string| Str(string, PhantomData).bytes())
}

/// Makes a string that the caller owns.
pub(super) fn new_string(bytes: &[u8]) -> *mut raw::RedisModuleString {
    // SAFETY: the server copies the bytes. Without a context, it does not free the string automatically.
    unsafe {
        call!(RedisModule_CreateString(
            ptr::null_mut(),
            bytes.as_ptr().cast(),
            bytes.len()
        ))
    }
}

/// A command's arguments in the server's form, without their number.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct RawArgv<'a>(*const *mut raw::RedisModuleString, PhantomData<&'a ()>);

/// The number of a command's arguments. Only the server makes one, so it is that of the [`RawArgv`] beside it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct RawArgc(c_int);

impl RawArgc {
    pub(super) const fn get(self) -> c_int {
        self.0
    }
}

/// The arguments of a command, beginning with its name.
#[derive(Clone, Copy)]
pub struct Argv<'a>(&'a [Str<'a>]);

impl<'a> Argv<'a> {
    /// An empty list of arguments, for which the server may pass no array.
    pub(super) const NONE: Self = Self(&[]);

    /// # Safety
    /// The server passed `words` and `count` together, to a call that lasts for `'a`, and the count is not 0.
    #[inline]
    pub(super) unsafe fn new(words: RawArgv<'a>, count: RawArgc) -> Self {
        // SAFETY: our caller guarantees an array of `count` strings, which are not null and alive for 'a.
        Self(unsafe { std::slice::from_raw_parts(words.0.cast(), count.0 as usize) })
    }

    /// Returns the number of arguments, including the command's name.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the argument at an index.
    ///
    /// # Panics
    /// If the index is out of bounds. It comes from the program, never from a client.
    #[inline]
    pub fn string(&self, index: usize) -> Str<'a> {
        self.0[index]
    }

    /// Returns the bytes of each argument in a range.
    ///
    /// # Panics
    /// If the range is out of bounds. It comes from the program, never from a client.
    #[inline]
    pub fn bytes_in(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.0[range].iter().map(|string| string.bytes())
    }
}
