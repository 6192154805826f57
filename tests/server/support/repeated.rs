//! What goes on beside a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use crate::harness::wait_until;

/// A thread that does something over and over. If the test fails, the thread ends with the test's server.
pub struct Repeated {
    over: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Repeated {
    /// Calls a function with the number of each round.
    pub fn start(mut act: impl FnMut(u64) + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let thread = thread::spawn({
            let (over, rounds) = (Arc::clone(&over), Arc::clone(&rounds));
            move || {
                while !over.load(Relaxed) {
                    act(rounds.fetch_add(1, Relaxed));
                }
            }
        });
        Self {
            over,
            rounds,
            thread,
        }
    }

    /// Awaits some more rounds.
    #[track_caller]
    pub fn goes_on(&self) {
        let round = self.rounds.load(Relaxed);
        wait_until("the thread goes on", || {
            self.rounds.load(Relaxed) > round + 2
        });
    }

    /// Ends the thread after its current round.
    #[track_caller]
    pub fn end(self) {
        self.over.store(true, Relaxed);
        self.thread.join().expect("it did not fail");
    }
}
