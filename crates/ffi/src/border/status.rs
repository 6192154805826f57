//! Statuses, and the texts of errors.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use valkeybloom_bindings::{Code, Error};

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
        Self(status, error.into_text())
    }
}

impl From<std::collections::TryReserveError> for Failure {
    fn from(error: std::collections::TryReserveError) -> Self {
        Error::from(error).into()
    }
}

impl Failure {
    /// Returns whether a server would refuse the call, too.
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self(Status::Refused, _))
    }

    pub fn refused(text: &'static str) -> Self {
        Error::new(Code::Refused, text).into()
    }

    pub fn bad_pointer(text: &'static str) -> Self {
        Self(Status::BadPointer, text.into())
    }

    pub fn bad_family(text: impl Into<Cow<'static, str>>) -> Self {
        Self(Status::BadFamily, text.into())
    }
}

pub type Outcome<T> = Result<T, Failure>;

thread_local! {
    static LAST_ERROR: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"")) };
}

/// Requires room on the stack of an engine of WebAssembly. Without room, the engine ends the call, which has done nothing yet.
#[inline]
pub fn require_stack() {
    #[cfg(target_family = "wasm")]
    crate::stack::valkeybloom_require_stack();
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
    let text =
        text_for_c(&text).unwrap_or(Cow::Borrowed(c"not enough memory for the error's text"));
    // A thread that is ending may no longer have a place for the text.
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
    status
}

/// Returns a text for C; `None` if there is no memory for it.
fn text_for_c(text: &str) -> Option<Cow<'static, CStr>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(text.len() + 1).ok()?;
    bytes.extend(text.bytes().map(|byte| if byte == 0 { b' ' } else { byte }));
    CString::new(bytes).ok().map(Cow::Owned)
}

/// Returns the error text of this thread's last failed call, in one line; the empty text if none has failed. It is
/// valid until the next call of this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_last_error() -> *const c_char {
    let text = LAST_ERROR.try_with(|last| last.borrow().as_ptr());
    text.unwrap_or(c"".as_ptr())
}
