//! The blocks that a thread reads while others work on them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::block::Block;
use crate::failure::{Failure, Result};

/// The most blocks that wait for the consumer.
const BLOCKS: usize = 4;

/// How often a thread that waits for a block checks whether the blocks are stopped.
const STOP: Duration = Duration::from_millis(50);

/// The blocks that a thread reads.
pub struct Blocks {
    receiver: Mutex<Receiver<Block>>,
    is_stopped: AtomicBool,
    bytes: Arc<AtomicU64>,
    reader: JoinHandle<Result<()>>,
}

impl Blocks {
    /// Starts a thread with `read`, which counts the bytes that it reads and sends the blocks.
    pub fn new(
        read: impl FnOnce(&AtomicU64, &SyncSender<Block>) -> Result<()> + Send + 'static,
    ) -> Self {
        let (send, receive) = sync_channel(BLOCKS);
        let bytes = Arc::new(AtomicU64::new(0));
        let reader = thread::spawn({
            let bytes = Arc::clone(&bytes);
            move || read(&bytes, &send)
        });
        Self {
            receiver: Mutex::new(receive),
            is_stopped: AtomicBool::new(false),
            bytes,
            reader,
        }
    }

    /// Returns the next block; `None` after the last, and once the blocks are stopped.
    pub fn next(&self) -> Option<Block> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match receiver.recv_timeout(STOP) {
                Ok(block) => return Some(block),
                Err(RecvTimeoutError::Timeout) if !self.is_stopped.load(Relaxed) => {}
                Err(_) => return None,
            }
        }
    }

    /// Ends a thread's wait for a block: the input may be a pipe in which nothing comes.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    /// Waits for the end of the thread that reads.
    ///
    /// # Errors
    /// That of the thread, which may have panicked.
    pub fn end(self) -> Result<()> {
        let panicked = |_| Err(Failure::new("the thread that reads the files panicked"));
        self.reader.join().unwrap_or_else(panicked)
    }

    /// Passes the blocks to `take`, until the thread that reads has ended well.
    ///
    /// # Errors
    /// That of the thread, or that of `take`.
    pub fn each(self, mut take: impl FnMut(&Block, u64) -> Result<()>) -> Result<()> {
        while let Some(block) = self.next() {
            // After an error the thread is not joined: it may wait for somebody who types.
            take(&block, self.bytes.load(Relaxed))?;
        }
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::block::Unit;
    use super::*;

    #[test]
    fn an_input_has_ended_only_if_its_reader_says_so() {
        type End = fn() -> Result<()>;
        let panicked = "the thread that reads the files panicked";
        let ends: [(End, _); 3] = [
            (|| Ok(()), Ok(())),
            (|| Err(Failure::new("no more")), Err("no more".to_owned())),
            (|| panic!("a fault of the reader"), Err(panicked.to_owned())),
        ];
        for (end, expected) in ends {
            let read = move |_: &AtomicU64, to: &SyncSender<Block>| {
                let block = Block::first_of(Path::new("f"), Unit::Lines);
                to.send(block).expect("it is awaited");
                end()
            };
            let mut count = 0;
            let ended = Blocks::new(read).each(|_, _| {
                count += 1;
                Ok(())
            });
            let ended = ended.map_err(|failure| failure.to_string());
            assert_eq!((count, ended), (1, expected));
        }
    }
}
