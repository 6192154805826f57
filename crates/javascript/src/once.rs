//! Additions with receipts. JavaScript sends their commands.

use valkeybloom_near::once::{Adding, Addition, LACKING, Once, Receipts, Refusal};
use valkeybloom_sketches::Forgotten;

use valkeybloom_ffi::border::{
    Buffer, Failure, Items, Status, borrow, borrow_mut, call, put, slice,
};
use valkeybloom_ffi::object::{free, give, give_made};

/// Makes the receipts of a filter: a consumer's, whose name is not null, which begins at a position; or own ones, with a random
/// number in two halves. `is_on` says whether there are any.
///
/// # Safety
/// The key and the consumer have these lengths, and `once` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_new(
    key: *const u8,
    key_length: usize,
    consumer: *const u8,
    consumer_length: usize,
    begin: u64,
    high: u64,
    low: u64,
    is_on: bool,
    creates: bool,
    may_skip_receipts: bool,
    once: *mut *mut Once,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let receipts = if !is_on {
            Receipts::Off
        } else if consumer.is_null() {
            Receipts::Own(u128::from(high) << 64 | u128::from(low))
        } else {
            Receipts::Consumer(slice(consumer, consumer_length)?, begin)
        };
        let adding = Adding {
            creates,
            may_skip_receipts,
        };
        give(once, Once::new(slice(key, key_length)?, receipts, adding))
    })
}

/// Frees the receipts of a filter.
///
/// # Safety
/// The pointer is from [`valkeybloom_once_new`], and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_free(once: *mut Once) {
    // SAFETY: the caller keeps the contract above.
    unsafe { free(once) }
}

/// Returns whether additions have receipts.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_has_receipts(once: *const Once) -> bool {
    // SAFETY: the caller keeps the contract above.
    unsafe { borrow(once) }.is_ok_and(Once::has_receipts)
}

/// Sets `words` to those of the command that reads where a consumer's receipt ends.
///
/// # Safety
/// The pointer is valid, and `words` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_position_words(
    once: *const Once,
    words: *mut Items,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let sent = borrow(once)?.position_words().unwrap_or_default();
        put(words, Items::of(&sent)?)
    })
}

/// Returns the first position without an answer, by the reply to that command; -1 if it is not a receipt's.
///
/// # Safety
/// The pointer is valid, and the reply has this length.
#[unsafe(no_mangle)]
#[allow(clippy::cast_precision_loss, reason = "a number of JavaScript")]
pub unsafe extern "C" fn valkeybloom_once_position_in(
    once: *const Once,
    head: *const u8,
    head_length: usize,
) -> f64 {
    let mut position = -1.0;
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let found = borrow(once)?.position_in(slice(head, head_length)?);
        position = found.map_or(-1.0, |found| found as f64);
        Ok(())
    });
    position
}

/// Begins a call without items. `at` is the position of a consumer's first item.
///
/// # Safety
/// The pointer is valid, and `addition` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_begin(
    once: *mut Once,
    at: u64,
    addition: *mut *mut Addition,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe { give_made(addition, || Ok(borrow_mut(once)?.begin(at))) })
}

/// Appends an item to a call. `is_claimed` says whether a copy of the filter claims it.
///
/// # Safety
/// The pointers are valid, and the item has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_push(
    once: *mut Once,
    addition: *mut Addition,
    item: *const u8,
    item_length: usize,
    is_claimed: bool,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        borrow_mut(once)?.push(borrow_mut(addition)?, item, is_claimed)?;
        Ok(())
    })
}

/// Sets `words` to those of the command to send next, without the key, and `count` to the number of items at their end: 0 at
/// the end of the call, and then there are no words.
///
/// # Safety
/// The pointer is valid, and the places may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_command(
    addition: *mut Addition,
    words: *mut Items,
    count: *mut usize,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let Some(command) = borrow_mut(addition)?.command() else {
            return put(count, 0);
        };
        put(count, command.items().len())?;
        let sent = command.words.iter().map(Vec::as_slice);
        let all: Vec<&[u8]> = sent.chain(command.items()).collect();
        put(words, Items::of(&all)?)
    })
}

/// Takes the answers to the first items of the last command, a byte each.
///
/// # Safety
/// The pointer is valid, and there are so many answers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_take(
    addition: *mut Addition,
    answers: *const u8,
    count: usize,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let answers = slice(answers, count)?;
        borrow_mut(addition)?.take(answers.iter().map(|answer| *answer != 0));
        Ok(())
    })
}

/// Takes the refusal of an item, which stood in a reply after the answers that were taken.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_refuse_item(addition: *mut Addition) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        borrow_mut(addition)?.refuse_item();
        Ok(())
    })
}

/// Takes a server's error, which came in place of a reply. Returns what it means: 0 for any error, and 1 if the call goes on. 2
/// means that the server has no receipts; the last error then says so. 3 means that the receipt lacks answers; `known` then has
/// the first position with an answer, and the first one after it without an answer.
///
/// # Safety
/// The pointer is valid, the text has this length, and `known` may be written to.
#[unsafe(no_mangle)]
#[allow(clippy::cast_precision_loss, reason = "numbers of JavaScript")]
pub unsafe extern "C" fn valkeybloom_once_refuse(
    addition: *mut Addition,
    text: *const u8,
    text_length: usize,
    known: *mut [f64; 2],
) -> u32 {
    let mut meaning = 0;
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let text = String::from_utf8_lossy(slice(text, text_length)?);
        match borrow_mut(addition)?.refuse(&text) {
            Refusal::Other => return Ok(()),
            Refusal::Without => meaning = 1,
            Refusal::Lacking => {
                meaning = 2;
                return Err(Failure::refused(LACKING));
            }
            Refusal::Forgotten(Forgotten { from, to }) => {
                meaning = 3;
                put(known, [from as f64, to as f64])?;
            }
        }
        Ok(())
    });
    meaning
}

/// Sets `answers` to those of the call, a byte for each item.
///
/// # Safety
/// The pointer is valid, and `answers` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_answers(
    addition: *const Addition,
    answers: *mut Buffer,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let known = borrow(addition)?.answers().into_iter();
        let bytes: Vec<u8> = known.map(|answer| u8::from(answer == Some(true))).collect();
        put(answers, Buffer::of(bytes)?)
    })
}

/// Ends a call, and frees it. `is_told` says whether the program gets the answers.
///
/// # Safety
/// The pointers are valid, and the call has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_once_end(
    once: *mut Once,
    addition: *mut Addition,
    is_told: bool,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let addition = *Box::from_raw(addition);
        borrow_mut(once)?.end(addition, is_told);
        Ok(())
    })
}
