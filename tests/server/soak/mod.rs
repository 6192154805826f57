//! Random tests of what operators rely on: a few seconds each in `./build.sh test`, hours if wanted in `./build.sh
//! soak`.
//!
//! Every failure names the seed of its random choices; `SOAK_SEED` repeats that run.

mod buffers;
mod disks;
pub mod fuzz;
mod life;
mod reshard;
mod tables;
mod ways;

use std::env;
use std::time::{Duration, Instant};

use valkeybloom_sketches::bloom::dump;

use crate::harness::{Client, ok};
use crate::support::Rng;
use crate::support::pieces::object;

/// The length of a test.
pub struct Budget {
    end: Option<Instant>,
    least: u64,
    done: u64,
}

impl Budget {
    /// So many rounds in `./build.sh test`; in `./build.sh soak`, which sets `SOAK_SECONDS`, as many as
    /// there is time for.
    pub fn rounds(least: u64) -> Self {
        let seconds = env::var("SOAK_SECONDS").ok();
        let seconds = seconds.map(|text| text.parse().expect("SOAK_SECONDS is a number"));
        Self {
            end: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            least,
            done: 0,
        }
    }

    /// Returns the number of rounds so far.
    pub fn done(&self) -> u64 {
        self.done
    }
}

impl Iterator for Budget {
    /// The number of the round.
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let goes_on = self.done < self.least || self.end.is_some_and(|end| Instant::now() < end);
        goes_on.then(|| {
            self.done += 1;
            self.done - 1
        })
    }
}

/// Returns random choices that can be made again: seeds them from the clock, or from `SOAK_SEED`, and prints the seed for the
/// log of a failed test.
pub fn random(test: &str) -> Rng {
    let seed = env::var("SOAK_SEED").map_or_else(
        |_| u64::from(std::process::id()) << 32 ^ u64::from(clock().subsec_nanos()),
        |text| text.parse().expect("SOAK_SEED is a number"),
    );
    eprintln!("{test}: SOAK_SEED={seed}");
    Rng::new(seed)
}

fn clock() -> Duration {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Changes a setting of a server.
#[track_caller]
fn set(client: &mut Client, setting: &str) {
    let set = format!("CONFIG SET {setting}");
    assert_eq!(client.cmd(&set), ok(), "{setting}");
}

/// Returns the dump, as BF.LOAD takes it, of the object in these chunks of BF.SCANDUMP.
fn dump_of(chunks: &[(u64, Vec<u8>)]) -> Vec<u8> {
    dump::encode(&object(chunks)).expect("an object of ours")
}
