//! Memory for what a block holds.

use std::mem;
use std::sync::{Mutex, PoisonError};

/// Byte strings, one after another. Their memory comes from a pool, and goes back to it.
pub struct Strings {
    pub bytes: Vec<u8>,
    /// The position after each one and the byte or bytes that end it.
    pub ends: Vec<usize>,
}

/// Empty strings with memory, at most 128 MiB. The C library musl returns freed memory to the system, which fills new memory
/// with zeros: `unique` took three times the system's time with it, and 1.5 times the user's, before there was this pool.
static POOL: Mutex<Vec<Strings>> = Mutex::new(Vec::new());

/// The most memory of pooled strings: the bytes of one of them, and their number.
const MOST_MEMORY: usize = 4 << 20;
const MOST_POOLED: usize = 32;

impl Strings {
    /// Creates an empty one, with memory if the pool has any.
    pub fn from_pool() -> Self {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        pool.pop().unwrap_or_else(|| Self {
            bytes: Vec::new(),
            ends: Vec::new(),
        })
    }
}

impl Drop for Strings {
    fn drop(&mut self) {
        let memory = self.bytes.capacity() + self.ends.capacity() * size_of::<usize>();
        if !(1..=MOST_MEMORY).contains(&memory) {
            return;
        }
        self.bytes.clear();
        self.ends.clear();
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < MOST_POOLED {
            pool.push(Self {
                bytes: mem::take(&mut self.bytes),
                ends: mem::take(&mut self.ends),
            });
        }
    }
}
