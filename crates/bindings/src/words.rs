//! The words of a command for the parsers.

use valkeybloom_protocol::words::CommandWords;

/// A command's name and key, the caller's words, and words after these. Nothing is copied, because a caller may pass any
/// number of words.
pub struct Command<'w>(pub [&'w [&'w [u8]]; 3]);

impl<'w> Command<'w> {
    /// Returns a command with these words after its key.
    pub const fn new(start: &'w [&'w [u8]; 2], words: &'w [&'w [u8]]) -> Self {
        Self([start, words, &[]])
    }
}

impl CommandWords for Command<'_> {
    fn count(&self) -> usize {
        self.0.iter().map(|words| words.len()).sum()
    }

    fn word(&self, index: usize) -> &[u8] {
        let mut words = self.0.iter().copied().flatten();
        words.nth(index).expect("the index is below the count")
    }
}
