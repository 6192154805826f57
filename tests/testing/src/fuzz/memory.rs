//! What decoding takes of memory. Only the fuzzer has the allocator that counts it, in one thread.

use peak_alloc::PeakAlloc;

/// Makes a value, and returns it with the number of bytes that it keeps allocated, if they are counted.
pub fn measured<T>(make: impl FnOnce() -> T) -> (T, Option<usize>) {
    let before = PeakAlloc.current_usage();
    let thing = make();
    let took = (before > 0).then(|| PeakAlloc.current_usage() - before);
    (thing, took)
}

/// Decodes a value, and asserts that this never took more than `most` bytes of memory, if they are counted.
pub fn bounded<T>(most: usize, decode: impl FnOnce() -> T) -> T {
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    let decoded = decode();
    let took = PeakAlloc.peak_usage() - before;
    assert!(
        took <= most,
        "took {took} bytes, at most {most} are allowed"
    );
    decoded
}
