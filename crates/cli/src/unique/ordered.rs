//! Threads that work on blocks, and a step that takes their results in the order of the blocks.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::failure::{Failure, Result};
use crate::lines::{Block, Blocks};

/// The most results that wait for one before them, for each thread.
const WAITING: usize = 2;

/// Passes each block to the worker of one of several threads, and the results to `step`, one after another and in the order of
/// the blocks. `worker` makes the worker of a thread.
///
/// # Errors
/// The first error in the order of the blocks. `step` gets all results before it.
pub fn run<T: Send, W: FnMut(Block) -> Result<T>>(
    blocks: Blocks,
    threads: usize,
    worker: impl Fn() -> W + Sync,
    mut step: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    // Each block goes to the threads with a sender for its result. The receivers wait in order, and bound both queues.
    let (jobs, taken) = channel::<(Block, SyncSender<Result<T>>)>();
    let (ordered, results) = sync_channel(WAITING * threads);
    let taken = Mutex::new(taken);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut work = worker();
                while let Some((block, result)) = next(&taken) {
                    // Nobody receives it after an error.
                    let _ = result.send(work(block));
                }
            });
        }
        scope.spawn(|| {
            while let Some(block) = blocks.next() {
                let (to, result) = sync_channel(1);
                if ordered.send(result).is_err() || jobs.send((block, to)).is_err() {
                    break;
                }
            }
            drop((ordered, jobs));
        });
        let _stop = Stop(&blocks);
        // The scope panics, too.
        let panicked = |_| Failure::new("a thread panicked");
        let mut results = results.into_iter();
        results.try_for_each(|result| step(result.recv().map_err(panicked)??))
    })?;
    blocks.end()
}

/// Stops the thread that waits for blocks, also after a panic.
struct Stop<'b>(&'b Blocks);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Waits for the next job, as one of several threads.
fn next<J>(jobs: &Mutex<Receiver<J>>) -> Option<J> {
    let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
    jobs.recv().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use clap::Parser;

    use super::*;
    use crate::lines::Input;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        input: Input,
    }

    /// Returns the blocks of a file with many of them.
    fn blocks(file: &tempfile::NamedTempFile) -> Blocks {
        let path = file.path().to_str().expect("it is UTF-8");
        Words::parse_from(["test", path]).input.blocks()
    }

    fn file() -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let mut lines = Vec::new();
        for line in 0..2_000_000 {
            writeln!(lines, "{line}").expect("memory takes all");
        }
        file.write_all(&lines).expect("it can be written");
        file
    }

    #[test]
    fn steps_have_the_order_of_the_blocks_and_end_at_the_first_error() {
        let file = file();
        for threads in [1, 3, 8] {
            let (mut lines, mut next) = (0, 0);
            let count = |block: Block| {
                let first = block.items().next().expect("an item").to_vec();
                Ok((String::from_utf8(first).expect("digits"), block.len()))
            };
            run(
                blocks(&file),
                threads,
                || count,
                |(first, count)| {
                    assert_eq!(first, next.to_string());
                    next += count;
                    lines += count;
                    Ok(())
                },
            )
            .expect("all is read");
            assert_eq!(lines, 2_000_000);
            // Work that fails in the sixth block and in all later ones.
            let mut last = 0;
            let work = |block: Block| {
                let first = block.items().next().expect("an item");
                let number: usize = String::from_utf8_lossy(first).parse().expect("a number");
                if number > 800_000 {
                    return Err(Failure::new(number.to_string()));
                }
                Ok(number)
            };
            let failed = run(
                blocks(&file),
                threads,
                || work,
                |number| {
                    last = number;
                    Ok(())
                },
            );
            let failed = failed.expect_err("it fails").to_string();
            let after: usize = failed.parse().expect("a number");
            assert!(last < 800_000 && after > 800_000 && after - last < 400_000);
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_ends_all_threads() {
        let file = file();
        let work = |block: Block| {
            let is_later = block.items().next().expect("an item").len() > 6;
            assert!(!is_later, "it panics");
            Ok(())
        };
        let _ = run(blocks(&file), 3, || work, Ok);
    }
}
