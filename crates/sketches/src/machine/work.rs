//! Work, counted in builds with debug assertions, so that tests can assert on it instead of on time.
//!
//! Code that the length of an input, or the depth of an object, can repeat counts what it does here. In other builds
//! counting costs nothing.

/// Work done by one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Places looked at: positions, buckets, filters or periods. Each takes some nanoseconds.
    pub steps: u64,
    /// Bytes passed over: read, written, or both. Each takes less than a nanosecond.
    pub bytes: u64,
}

#[cfg(debug_assertions)]
std::thread_local! {
    static DONE: std::cell::Cell<Work> = const { std::cell::Cell::new(Work { steps: 0, bytes: 0 }) };
}

/// Adds to the work of this thread.
#[inline(always)]
#[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "not counted"))]
fn add(steps: u64, bytes: u64) {
    #[cfg(debug_assertions)]
    DONE.with(|done| {
        let Work {
            steps: steps_before,
            bytes: bytes_before,
        } = done.get();
        done.set(Work {
            steps: steps_before.wrapping_add(steps),
            bytes: bytes_before.wrapping_add(bytes),
        });
    });
}

/// Counts places that are looked at.
#[inline(always)]
pub fn steps(count: usize) {
    add(count as u64, 0);
}

/// Counts bytes that are passed over.
#[inline(always)]
pub fn bytes(count: usize) {
    add(0, count as u64);
}

/// Returns the work of this thread since the last call. Nothing, in builds without debug assertions.
pub fn take() -> Work {
    #[cfg(debug_assertions)]
    return DONE.with(std::cell::Cell::take);
    #[cfg(not(debug_assertions))]
    Work::default()
}
