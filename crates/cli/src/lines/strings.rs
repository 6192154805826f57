//! Memory for what a block holds.

use std::mem;
use std::sync::{Mutex, PoisonError};

/// Byte strings, one after another. Their memory comes from a pool, and goes back to it.
pub struct Strings {
    pub bytes: Vec<u8>,
    /// The position after each one and the byte or bytes that end it.
    pub ends: Vec<usize>,
}

/// Empty strings with memory. The system would fill new memory with zeros, page by page.
static POOL: Mutex<Vec<Strings>> = Mutex::new(Vec::new());

/// The most memory of one that is pooled, in bytes.
const MOST_MEMORY: usize = 4 << 20;
/// The most that are pooled.
const MOST_POOLED: usize = 32;

impl Default for Strings {
    /// Returns none, with memory for some if the pool has any.
    fn default() -> Self {
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
