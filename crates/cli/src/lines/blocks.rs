//! The blocks that a thread reads while others work on them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::block::Block;
use crate::failure::{Failure, Result};

/// The most blocks that wait for the consumer.
const MOST_WAITING: usize = 4;

/// How often a thread that waits for a block looks at what else it has to do.
const PAUSE: Duration = Duration::from_millis(50);

/// The blocks that a thread reads.
pub struct Blocks {
    receiver: Mutex<Receiver<Block>>,
    is_stopped: AtomicBool,
    reader: JoinHandle<Result<()>>,
}

impl Blocks {
    /// Starts a thread with `read`, which sends the blocks.
    pub fn new(read: impl FnOnce(&SyncSender<Block>) -> Result<()> + Send + 'static) -> Self {
        let (send, receive) = sync_channel(MOST_WAITING);
        let reader = thread::spawn(move || read(&send));
        Self {
            receiver: Mutex::new(receive),
            is_stopped: AtomicBool::new(false),
            reader,
        }
    }

    /// Returns the next block; `None` after the last, or if none is there once the blocks are stopped.
    pub fn next(&self) -> Option<Block> {
        self.wait(|| Ok(())).unwrap_or(None)
    }

    /// Returns the next block, and calls `meanwhile` before and while it waits.
    fn wait(&self, mut meanwhile: impl FnMut() -> Result<()>) -> Result<Option<Block>> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            meanwhile()?;
            match receiver.recv_timeout(PAUSE) {
                Ok(block) => return Ok(Some(block)),
                Err(RecvTimeoutError::Timeout) if !self.is_stopped.load(Relaxed) => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Ends a thread's wait for a block: the input may be a pipe in which nothing comes.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    /// Waits for the end of the thread that reads. All blocks must have been taken: it may wait until another one is.
    ///
    /// # Errors
    /// That of the thread, which may have panicked.
    pub fn end(self) -> Result<()> {
        let panicked = |_| Err(Failure::new("the thread that reads the files panicked"));
        self.reader.join().unwrap_or_else(panicked)
    }

    /// Passes the blocks to `take`, until the thread that reads has ended well. Calls `meanwhile` before and while it waits for
    /// a block.
    ///
    /// # Errors
    /// That of the thread, of `meanwhile`, or of `take`.
    pub fn each(
        self,
        mut meanwhile: impl FnMut() -> Result<()>,
        mut take: impl FnMut(&Block) -> Result<()>,
    ) -> Result<()> {
        while let Some(block) = self.wait(&mut meanwhile)? {
            // After an error the thread is not joined: it may wait for somebody who types.
            take(&block)?;
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
            let read = move |to: &SyncSender<Block>| {
                let block = Block::first_of(0, Path::new("f"), Unit::Lines, None);
                to.send(block).expect("it is awaited");
                end()
            };
            let mut count = 0;
            let take = |_: &Block| {
                count += 1;
                Ok(())
            };
            let ended = Blocks::new(read).each(|| Ok(()), take);
            let ended = ended.map_err(|failure| failure.to_string());
            assert_eq!((count, ended), (1, expected));
        }
    }

    #[test]
    fn a_wait_for_a_block_ends_once_the_blocks_are_stopped() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let blocks = Blocks::new(move |_| wait.recv().map_err(|_| Failure::new("no word")));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| blocks.next().is_none());
            blocks.stop();
            assert!(waiter.join().expect("it does not panic"));
        });
        drop(go);
        assert_eq!(blocks.end().expect_err("it fails").to_string(), "no word");
    }

    #[test]
    fn a_consumer_is_called_while_it_waits() {
        let (go, wait) = std::sync::mpsc::channel();
        let blocks = Blocks::new(move |_| wait.recv().map_err(|_| Failure::new("no word")));
        let mut calls = 0;
        let meanwhile = || {
            calls += 1;
            // Only a call after the first one lets the input end.
            if calls == 3 {
                go.send(()).expect("it waits");
            }
            Ok(())
        };
        blocks.each(meanwhile, |_| Ok(())).expect("it ends");
        let blocks = Blocks::new(|_| Ok(()));
        let failed = blocks.each(|| Err(Failure::new("too late")), |_| Ok(()));
        assert_eq!(failed.expect_err("it fails").to_string(), "too late");
    }
}
