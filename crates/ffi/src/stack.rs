//! The engine's stack. A call that overflows it ends anywhere, for example while an object is locked or while the
//! allocator rearranges its blocks. So each call first asks for more stack than calls use.

use std::hint::black_box;
use std::ptr::null_mut;

/// Reads rows of 16 words, calls a function, and writes the words.
macro_rules! hold {
    ($words:ident, $call:expr, $($row:ident)*) => {
        $(let $row = hold!(read $words 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15); $words = $words.add(16);)*
        $call;
        $($words = $words.add(16); hold!(write $words $row 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);)*
    };
    (read $words:ident $($at:literal)*) => { [$($words.add($at).read_volatile()),*] };
    (write $words:ident $row:ident $($at:literal)*) => { $($words.add($at).write_volatile($row[$at]);)* };
}

/// Fails with the engine's error if the stack has less than 8 KiB of room.
///
/// Engines require that the whole frame of a function fits when the function is entered. This function has a frame of
/// 1024 words, because a branch that is never taken has as many values at once. No word of the frame is written.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_require_stack() {
    let mut words: *mut u64 = black_box(null_mut());
    if words.is_null() {
        return;
    }
    // SAFETY: never reached, but the compiler can't know that.
    unsafe {
        hold!(words, black_box::<fn()>(|| ())(),
            a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 d0 d1
            e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 g0 g1 g2 g3 g4 g5 g6 g7 g8 g9 h0 h1);
    }
}
