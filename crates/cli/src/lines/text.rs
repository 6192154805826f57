//! Memory for what a block holds.

use std::mem;
use std::sync::{Mutex, PoisonError};

/// Bytes in parts, in memory that another text takes over.
#[derive(Default)]
pub struct Text {
    pub bytes: Vec<u8>,
    /// The position where each part ends.
    pub ends: Vec<usize>,
}

/// Empty texts with memory. The system would fill new memory with zeros, page by page.
static SPARE: Mutex<Vec<Text>> = Mutex::new(Vec::new());

/// The most bytes and ends of a text whose memory is kept.
const MOST_KEPT: usize = 4 << 20;
/// The most texts whose memory is kept.
const MOST_SPARE: usize = 32;

impl Text {
    /// Returns an empty text.
    pub fn new() -> Self {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        spare.pop().unwrap_or_default()
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        let most = self.bytes.capacity().max(self.ends.capacity());
        if !(1..=MOST_KEPT).contains(&most) {
            return;
        }
        self.bytes.clear();
        self.ends.clear();
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST_SPARE {
            spare.push(Self {
                bytes: mem::take(&mut self.bytes),
                ends: mem::take(&mut self.ends),
            });
        }
    }
}
