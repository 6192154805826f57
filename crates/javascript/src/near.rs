//! A copy that follows a server's filter. JavaScript sends its commands, and passes the times: microseconds since a
//! moment of its choice.

use std::time::Duration;

use valkeybloom_bindings::{Bloom, Error, copied};
use valkeybloom_near::{Follower, OPEN, Options, Reply, State, Step, slot};
use valkeybloom_protocol::batch::{COMMAND_BYTES, COMMAND_ITEMS};

use valkeybloom_ffi::border::{
    Buffer, Items, Status, borrow, borrow_mut, call, put, put_made, slice,
};
use valkeybloom_ffi::object::{Object, free, give, give_new};

/// What became of a command: the numbers of [`valkeybloom_near_take`]. Any other one is that of no reply.
const NEWS: u32 = 0;
const CHUNK: u32 = 1;
const REFUSED: u32 = 2;

/// Returns the time of a number of microseconds, without the fraction of one; 0 for a negative number and NaN.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a double saturates"
)]
pub const fn time(us: f64) -> Duration {
    Duration::from_micros(us as u64)
}

/// Makes a follower with these times in microseconds: between polls, the greatest age, between fetches, which is 0 without
/// them, and the lag of a replica.
///
/// # Safety
/// The places are valid.
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

/// Returns the most items in one command.
#[unsafe(no_mangle)]
pub const extern "C" fn valkeybloom_command_items() -> usize {
    COMMAND_ITEMS
}

/// Returns the most bytes of items in one command.
#[unsafe(no_mangle)]
pub const extern "C" fn valkeybloom_command_bytes() -> usize {
    COMMAND_BYTES
}

/// Returns the slot of a key in a cluster.
///
/// # Safety
/// The key has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_slot(key: *const u8, key_length: usize) -> u32 {
    let mut found = 0;
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        found = slot(slice(key, key_length)?).into();
        Ok(())
    });
    found
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
            Step::Wait(until) => put(wait_us, until.saturating_sub(now).as_secs_f64() * 1e6),
            Step::Send(request) => put(words, Items::of(&request.words(b""))?),
        }
    })
}

/// Takes what became of a command:
///
/// | `kind` | | `number` | `id_or_text` | `bytes` |
/// |---|---|---|---|---|
/// | 0 | a reply of BF.READ | items | cursor | hashes |
/// | 1 | a reply of BF.SCANDUMP | cursor | id | chunk |
/// | 2 | an error of the server | | text | |
/// | 3 | no reply | | text | |
///
/// # Safety
/// The follower is valid, and `id_or_text` and `bytes` have these lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_near_take(
    follower: *mut Follower,
    kind: u32,
    number: u64,
    id_or_text: *const u8,
    id_or_text_length: usize,
    bytes: *const u8,
    bytes_length: usize,
    now_us: f64,
    random: f64,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let id = slice(id_or_text, id_or_text_length)?;
        let bytes = slice(bytes, bytes_length)?;
        let text = String::from_utf8_lossy(id);
        let reply = match kind {
            NEWS => Reply::News {
                cursor: id,
                items: number,
                hashes: bytes,
            },
            CHUNK => Reply::Chunk {
                cursor: number,
                bytes,
                id,
            },
            REFUSED => Reply::Refused(&text),
            _ => Reply::Lost(&text),
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

/// Describes a follower: its state, from 0 on syncing, following, missing, stale or refused; its age in microseconds, NaN
/// without a copy; and its polls, items, bytes, fetches, resyncs and errors. `last_error` receives the text of the latest error,
/// or a null buffer; it may be null.
///
/// # Safety
/// The follower is valid, and the places may be written to.
#[unsafe(no_mangle)]
#[allow(clippy::cast_precision_loss, reason = "numbers of JavaScript")]
pub unsafe extern "C" fn valkeybloom_near_describe(
    follower: *const Follower,
    now_us: f64,
    numbers: *mut [f64; 8],
    last_error: *mut Buffer,
) -> Status {
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        let (follower, now) = (borrow(follower)?, time(now_us));
        let (done, age) = (follower.stats(), follower.age(now));
        let state = match follower.state(now) {
            State::Syncing => 0.0,
            State::Following => 1.0,
            State::Missing => 2.0,
            State::Stale => 3.0,
            State::Refused => 4.0,
        };
        put(
            numbers,
            [
                state,
                age.map_or(f64::NAN, |age| age.as_secs_f64() * 1e6),
                done.polls as f64,
                done.items as f64,
                done.bytes as f64,
                done.fetches as f64,
                done.resyncs as f64,
                done.errors as f64,
            ],
        )?;
        put_made(last_error, || {
            let text = done.last_error.as_deref().map(str::as_bytes);
            Buffer::optional(text.map(copied).transpose()?)
        })
    })
}
