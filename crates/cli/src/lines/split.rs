//! Splits a file into blocks of whole lines, or of whole items that end with a zero byte.

use super::block::Block;
use super::form::Opened;
use crate::failure::Result;

/// The approximate size of a block. It never changes: equal items of a block are sent as one, so the positions in a receipt
/// depend on it.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Passes on a block. Fails if the block is refused, or the receiver is gone.
pub type Sink<'s> = &'s dyn Fn(Block) -> Result<()>;

/// Sends the items that end with a byte. The block is the first of the file.
pub fn lines(mut block: Block, mut opened: Opened<'_>, end: u8, send: Sink<'_>) -> Result<()> {
    loop {
        match block.fill(&mut opened.from, BLOCK_BYTES, end) {
            Ok(0) => {
                block.end_last(end);
                return send(block);
            }
            // An item that is longer than a block stays where it is.
            Ok(_) if block.len() == 0 => {}
            Ok(_) => send(block.take())?,
            Err(error) => return Err(block.broken(error)),
        }
    }
}
