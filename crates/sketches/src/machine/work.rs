//! Work counters of builds with debug assertions: tests assert on work instead of on time.
//!
//! Code counts its work if the length of an input, or the depth of an object, can repeat it. In other builds counting
//! costs nothing.

/// The work of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Positions, buckets, filters or periods visited. Each takes some nanoseconds.
    pub steps: u64,
    /// Bytes read or written. Each takes less than a nanosecond.
    pub bytes: u64,
}

#[cfg(debug_assertions)]
std::thread_local! {
    static DONE: std::cell::Cell<Work> = const { std::cell::Cell::new(Work { steps: 0, bytes: 0 }) };
}

/// Adds to the work of this thread.
#[inline]
#[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "not counted"))]
fn add(steps: u64, bytes: u64) {
    #[cfg(debug_assertions)]
    DONE.with(|done| {
        let before = done.get();
        done.set(Work {
            steps: before.steps.wrapping_add(steps),
            bytes: before.bytes.wrapping_add(bytes),
        });
    });
}

/// Counts visited positions, buckets, filters or periods.
#[inline]
pub fn steps(count: usize) {
    add(count as u64, 0);
}

/// Counts bytes read or written.
#[inline]
pub fn bytes(count: usize) {
    add(0, count as u64);
}

/// Returns the work of this thread since the last call; zero in builds without debug assertions.
pub fn take() -> Work {
    #[cfg(debug_assertions)]
    return DONE.with(std::cell::Cell::take);
    #[cfg(not(debug_assertions))]
    Work::default()
}
