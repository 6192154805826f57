//! What `fetch` and `store` say to a server. JavaScript sends the commands, and keeps the errors of its client in a list: a
//! number is an error's place there.

use valkeybloom_bindings::{Error, random_seed};
use valkeybloom_near::conversation::{Existing, Failure, Options, Reply};

use super::time::time;
use valkeybloom_ffi::border::{
    Batch, Buffer, Items, Status, borrow, borrow_mut, call, items, put, slice,
};
use valkeybloom_ffi::object::{Object, give};

type Conversation = valkeybloom_near::conversation::Conversation<u32>;

/// How a conversation ended. JavaScript has the same list.
#[repr(u32)]
enum Ending {
    Done,
    NoKey,
    NoSketch,
    Exists,
    NotMergeable,
    Unexpected,
    Client,
    Refused,
}

/// Begins to fetch the object of a key.
///
/// # Safety
/// The key has this length, and `conversation` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_fetch_new(
    key: *const u8,
    key_length: usize,
    conversation: *mut *mut Conversation,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let fetch = Conversation::fetch(slice(key, key_length)?, random_seed()?);
        give(conversation, fetch)
    })
}

/// Begins to store a copy of an object. The first `prefix_length` bytes of the key are what the client adds to it. `existing`
/// is 0 to keep an existing key, 1 to replace and 2 to merge it, and `ttl_ms` is 0 without a time to live.
///
/// # Safety
/// The object is valid, the key has this length, and `conversation` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_store_new(
    object: *const Object,
    key: *const u8,
    key_length: usize,
    prefix_length: usize,
    existing: u32,
    ttl_ms: u64,
    random: u64,
    conversation: *mut *mut Conversation,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let sketch = borrow(object)?.sketch()?;
        let options = Options {
            existing: match existing {
                0 => Existing::Keep,
                1 => Existing::Replace,
                _ => Existing::Merge,
            },
            ttl_ms: Some(ttl_ms).filter(|ttl_ms| *ttl_ms > 0),
        };
        let (prefix, key) = slice(key, key_length)?.split_at(prefix_length);
        let store = Conversation::store(prefix, key, sketch, options, random);
        give(conversation, store)
    })
}

/// Frees a conversation.
///
/// # Safety
/// The conversation is valid, and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_conversation_free(conversation: *mut Conversation) {
    // SAFETY: the caller keeps the contract above.
    drop(unsafe { Box::from_raw(conversation) });
}

/// Sets `words` to those of the command to send next, or to none at the end.
///
/// # Safety
/// The conversation is valid, and `words` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_conversation_next(
    conversation: *mut Conversation,
    now_us: f64,
    words: *mut Items,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let next = borrow_mut(conversation)?.next(time(now_us));
        let next = next.unwrap_or_default();
        put(words, Items::of(&next)?)
    })
}

/// Takes the elements of a reply.
///
/// # Safety
/// The conversation and the batch are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_conversation_take(
    conversation: *mut Conversation,
    reply: *const Batch,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let reply = items(reply)?;
        let conversation = borrow_mut(conversation)?;
        let mut is_taken = false;
        // JavaScript's batches have one run.
        reply.visit_all(|items| {
            conversation.take(Reply::Came(&items.collect::<Vec<_>>()));
            is_taken = true;
        })?;
        if !is_taken {
            conversation.take(Reply::Came(&[]));
        }
        Ok(())
    })
}

/// Takes the client's error. `refusal` is the text of the server's error, or null if no reply came.
///
/// # Safety
/// The conversation is valid, and the text has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_conversation_fail(
    conversation: *mut Conversation,
    error: u32,
    refusal: *const u8,
    refusal_length: usize,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let text = String::from_utf8_lossy(slice(refusal, refusal_length)?);
        let refusal = (!refusal.is_null()).then_some(&text[..]);
        borrow_mut(conversation)?.take(Reply::Failed { error, refusal });
        Ok(())
    })
}

/// Ends a conversation. Sets `object` to what was fetched, or to null; `ending`, `error` and `text` to how it ended.
///
/// # Safety
/// The conversation is valid, and the places may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_conversation_end(
    conversation: *mut Conversation,
    object: *mut *mut Object,
    ending: *mut u32,
    error: *mut u32,
    text: *mut Buffer,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let ended = Conversation::Ended(Err(Failure::Unexpected));
        let (how, place, words) = match std::mem::replace(borrow_mut(conversation)?, ended).end() {
            Ok(None) => (Ending::Done, 0, None),
            Ok(Some(sketch)) => {
                give(object, sketch.into())?;
                (Ending::Done, 0, None)
            }
            Err(Failure::NoKey) => (Ending::NoKey, 0, None),
            Err(Failure::NoSketch(kind)) => (Ending::NoSketch, 0, Some(kind)),
            Err(Failure::Exists) => (Ending::Exists, 0, None),
            Err(Failure::NotMergeable) => (Ending::NotMergeable, 0, None),
            Err(Failure::Undecodable(error)) => return Err(Error::from(error).into()),
            Err(Failure::Unexpected) => (Ending::Unexpected, 0, None),
            Err(Failure::Client(error)) => (Ending::Client, error, None),
            Err(Failure::Refused { error, text }) => (Ending::Refused, error, Some(text)),
        };
        put(ending, how as u32)?;
        put(error, place)?;
        put(text, Buffer::optional(words.map(String::into_bytes))?)
    })
}
