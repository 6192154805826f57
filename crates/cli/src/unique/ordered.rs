//! Threads that work on blocks, and a step that takes their results in the order of the blocks.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::failure::{Failure, Result};
use crate::lines::{Block, Blocks};

/// The most results that wait for one before them, for each thread.
const WAITING: usize = 2;

/// What the threads share.
struct Queue<T> {
    waiting: BTreeMap<u64, Result<T>>,
    /// The number of the next block, and whether a thread is at its step.
    next: u64,
    is_busy: bool,
    ended: Result<()>,
}

/// Passes each block to `work` in one of several threads, with the state of the thread, and the results to `step`, one after
/// another and in the order of the blocks.
///
/// # Errors
/// The first error in the order of the blocks. `step` gets all results before it.
pub fn run<S, T: Send>(
    blocks: Blocks,
    threads: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, Block) -> Result<T> + Sync,
    step: impl FnMut(T) -> Result<()> + Send,
) -> Result<()> {
    let queue = Mutex::new(Queue {
        waiting: BTreeMap::new(),
        next: 0,
        is_busy: false,
        ended: Ok(()),
    });
    let (step, moved) = (Mutex::new(step), Condvar::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let guard = Guard(&queue, &moved);
                let mut state = state();
                while let Some((number, block)) = blocks.next() {
                    let result = work(&mut state, block);
                    let mut queue = lock(&queue);
                    while number - queue.next >= (WAITING * threads) as u64 && queue.ended.is_ok() {
                        queue = moved.wait(queue).unwrap_or_else(PoisonError::into_inner);
                    }
                    queue.waiting.insert(number, result);
                    if take_steps(queue, guard.0, &step, &moved).is_break() {
                        blocks.stop();
                        break;
                    }
                }
            });
        }
    });
    let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    queue.ended?;
    blocks.end()
}

/// Takes all steps whose results are there, unless another thread is at them.
fn take_steps<'q, T>(
    mut queue: MutexGuard<'q, Queue<T>>,
    shared: &'q Mutex<Queue<T>>,
    step: &Mutex<impl FnMut(T) -> Result<()>>,
    moved: &Condvar,
) -> std::ops::ControlFlow<()> {
    while !queue.is_busy && queue.ended.is_ok() {
        let next = queue.next;
        let Some(result) = queue.waiting.remove(&next) else {
            break;
        };
        queue.is_busy = true;
        drop(queue);
        let done = result.and_then(|result| lock(step)(result));
        queue = lock(shared);
        queue.is_busy = false;
        queue.next += 1;
        if queue.ended.is_ok() {
            queue.ended = done;
        }
        moved.notify_all();
    }
    if queue.ended.is_err() {
        return std::ops::ControlFlow::Break(());
    }
    std::ops::ControlFlow::Continue(())
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the others if a thread panics, which would wait for its result.
struct Guard<'q, T>(&'q Mutex<Queue<T>>, &'q Condvar);

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(self.0).ended = Err(Failure::new("a thread panicked"));
            self.1.notify_all();
        }
    }
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
            let count = |(): &mut (), block: Block| {
                let first = block.items().next().expect("an item").to_vec();
                Ok((String::from_utf8(first).expect("digits"), block.len()))
            };
            run(
                blocks(&file),
                threads,
                || (),
                count,
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
            let steps = Mutex::new(0);
            let work = |(): &mut (), block: Block| {
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
                || (),
                work,
                |number| {
                    *lock(&steps) = number;
                    Ok(())
                },
            );
            let failed = failed.expect_err("it fails").to_string();
            let last = *lock(&steps);
            let after: usize = failed.parse().expect("a number");
            assert!(last < 800_000 && after > 800_000 && after - last < 400_000);
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_ends_all_threads() {
        let file = file();
        let work = |(): &mut (), block: Block| {
            let is_later = block.items().next().expect("an item").len() > 6;
            assert!(!is_later, "it panics");
            Ok(())
        };
        let _ = run(blocks(&file), 3, || (), work, Ok);
    }
}
