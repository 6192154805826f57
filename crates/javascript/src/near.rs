//! A copy that follows a server's filter. JavaScript sends its commands, and passes what became of them.
//!
//! `now_us` is the [time](super::time) of the call. `random` is a random number from 0 to 1, which spreads the commands of many
//! followers.

use std::time::Duration;

use valkeybloom_bindings::{Bloom, Error, copied};
use valkeybloom_near::{Follower, OPEN, Options, Reply, Step};

use super::time::{micros, time};
use valkeybloom_ffi::border::{
    Buffer, Items, Status, borrow, borrow_mut, call, put, put_made, slice,
};
use valkeybloom_ffi::object::{Object, free, give, give_new};

/// A text of the program, which nobody frees.
#[repr(C)]
pub struct Text {
    start: *const u8,
    length: usize,
}

/// Makes a follower. `times` are in microseconds: that between polls; the greatest age of a copy that answers; that between
/// fetches from a server without BF.READ, or 0 to refuse such a server; and how far the replica that is read from may be behind.
/// With `confirm`, the copy only claims items, and the server alone denies them.
///
/// # Safety
/// `times` is valid, and `follower` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_new(
    times: *const [f64; 4],
    confirm: bool,
    follower: *mut *mut Follower,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let times = borrow(times)?;
        let [every, max_age, refresh, lag] = times.map(time);
        // Less than a microsecond is rounded to 0, but is not 0.
        let refresh = (times[2] > 0.0).then_some(refresh);
        let options = Options {
            every,
            max_age,
            confirm,
            refresh,
            lag,
        };
        give(follower, Follower::new(options))
    })
}

/// Frees a follower.
///
/// # Safety
/// The pointer is from [`valkeybloom_near_new`], and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_free(follower: *mut Follower) {
    // SAFETY: the caller keeps the contract above.
    unsafe { free(follower) }
}

/// Looks an item up. Returns 0, 1, or more if only the server has the answer.
///
/// # Safety
/// The follower is valid or null, and the item has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_contains(
    follower: *const Follower,
    item: *const u8,
    item_length: usize,
    now_us: f64,
) -> u8 {
    let mut answer = OPEN;
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let found = borrow(follower)?.contains(slice(item, item_length)?, time(now_us));
        answer = found.map_or(OPEN, u8::from);
        Ok(())
    });
    answer
}

/// Notes that the server has an item, which the program added.
///
/// # Safety
/// The follower is valid, and the item has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_keep(
    follower: *mut Follower,
    item: *const u8,
    item_length: usize,
    now_us: f64,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        borrow_mut(follower)?.keep(slice(item, item_length)?, time(now_us));
        Ok(())
    })
}

/// Sets `words` to those of the command to send next, in which the key is empty, or `wait_us` to the time until then. The
/// caller sets `words.length` to 0 before, which no command has.
///
/// # Safety
/// The follower is valid, and the places may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_next(
    follower: *mut Follower,
    now_us: f64,
    words: *mut Items,
    wait_us: *mut f64,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let now = time(now_us);
        match borrow_mut(follower)?.next(now) {
            Step::Wait(until) => put(wait_us, micros(until.saturating_sub(now))),
            Step::Send(request) => put(words, Items::of(&request.words(b""))?),
        }
    })
}

/// Takes the reply of BF.READ: the next cursor, the number of items there, and the hashes of the new items.
///
/// # Safety
/// The follower is valid, and `cursor` and `hashes` have these lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_take_news(
    follower: *mut Follower,
    items: u64,
    cursor: *const u8,
    cursor_length: usize,
    hashes: *const u8,
    hashes_length: usize,
    now_us: f64,
    random: f64,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let reply = Reply::News {
            cursor: slice(cursor, cursor_length)?,
            items,
            hashes: slice(hashes, hashes_length)?,
        };
        borrow_mut(follower)?.take(reply, time(now_us), random);
        Ok(())
    })
}

/// Takes the reply of BF.SCANDUMP: the next cursor, the filter's id, which may be empty, and the chunk.
///
/// # Safety
/// The follower is valid, and `id` and `chunk` have these lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_take_chunk(
    follower: *mut Follower,
    cursor: u64,
    id: *const u8,
    id_length: usize,
    chunk: *const u8,
    chunk_length: usize,
    now_us: f64,
    random: f64,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let reply = Reply::Chunk {
            cursor,
            bytes: slice(chunk, chunk_length)?,
            id: slice(id, id_length)?,
        };
        borrow_mut(follower)?.take(reply, time(now_us), random);
        Ok(())
    })
}

/// Takes the text of an error in place of a reply: the server's if `is_refusal`, else the reason why no reply came.
///
/// # Safety
/// The follower is valid, and the text has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_take_failure(
    follower: *mut Follower,
    is_refusal: bool,
    text: *const u8,
    text_length: usize,
    now_us: f64,
    random: f64,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let text = String::from_utf8_lossy(slice(text, text_length)?);
        let reply = if is_refusal {
            Reply::Refused(&text)
        } else {
            Reply::Lost(&text)
        };
        borrow_mut(follower)?.take(reply, time(now_us), random);
        Ok(())
    })
}

/// Makes a filter that equals the copy, or sets `filter` to null if the follower has no copy.
///
/// # Safety
/// The follower is valid, and `filter` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_copy(
    follower: *const Follower,
    filter: *mut *mut Object,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let Some((copy, _)) = borrow(follower)?.copy() else {
            return put(filter, std::ptr::null_mut());
        };
        let copy = copy.try_clone().ok_or(Error::NO_MEMORY)?;
        give_new(filter, || Ok(Bloom::from(copy)))
    })
}

/// Describes a follower: the name of its [state](valkeybloom_near::State::name), its [`numbers`], and the text of the latest
/// error, or a null buffer.
///
/// # Safety
/// The follower is valid, and the places may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_describe(
    follower: *const Follower,
    now_us: f64,
    state: *mut Text,
    last_error: *mut Buffer,
    numbers: *mut [f64; 7],
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let (follower, now) = (borrow(follower)?, time(now_us));
        let name = follower.state(now).name();
        let (start, length) = (name.as_ptr(), name.len());
        put(state, Text { start, length })?;
        put(
            numbers,
            self::numbers(follower, now).map(|(_, number)| number),
        )?;
        put_made(last_error, || {
            let text = follower.stats().last_error.as_deref().map(str::as_bytes);
            Buffer::optional(text.map(copied).transpose()?)
        })
    })
}

/// Returns the numbers of a description, with their names in follower.js. The age is in microseconds, and NaN
/// before the first complete poll.
#[allow(clippy::cast_precision_loss, reason = "numbers of JavaScript")]
fn numbers(follower: &Follower, now: Duration) -> [(&'static str, f64); 7] {
    let done = follower.stats();
    [
        ("age", follower.age(now).map_or(f64::NAN, micros)),
        ("polls", done.polls as f64),
        ("items", done.items as f64),
        ("bytes", done.bytes as f64),
        ("fetches", done.fetches as f64),
        ("resyncs", done.resyncs as f64),
        ("errors", done.errors as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follower_js_names_the_numbers_in_their_order() {
        let names = numbers(&Follower::default(), Duration::ZERO).map(|(name, _)| name);
        let list = format!("const NUMBERS = ['{}'];", names.join("', '"));
        assert!(include_str!("../package/follower.js").contains(&list));
    }

    #[test]
    fn a_description_counts_what_was_done() {
        let follower = &mut Follower::new(Options::default());
        let numbers = |follower: &_, us| {
            let all = self::numbers(follower, time(us));
            all.map(|(name, number)| format!("{name} {number:.0}"))
                .join(", ")
        };
        assert_eq!(
            numbers(follower, 5.0),
            "age NaN, polls 0, items 0, bytes 0, fetches 0, resyncs 0, errors 0"
        );
        follower.next(time(5.0));
        follower.take(Reply::Refused("ERR not found"), time(7.0), 0.0);
        follower.take(Reply::Lost("timed out"), time(8.0), 0.0);
        // The copy is as old as the command that it is the answer to.
        assert_eq!(
            numbers(follower, 12.0),
            "age 7, polls 0, items 0, bytes 0, fetches 0, resyncs 0, errors 1"
        );
    }
}
