//! What an operator must be able to trust, put to the test at random and for long: a few seconds each
//! in `./build.sh test`, hours if wanted in `./build.sh soak`.
//!
//! Every failure names the seed of its random choices; `SOAK_SEED` runs that one again.

mod fuzz;
mod life;
mod reshard;
mod scarce;

use std::env;
use std::time::{Duration, Instant};

/// How long a test goes on.
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

    /// How many rounds there have been.
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

/// Random choices that can be made again: `SplitMix64` (Steele, Lea and Flood 2014).
pub struct Random(u64);

impl Random {
    /// From the clock, or from `SOAK_SEED`. Tells which, for the log of a test that fails.
    pub fn new(test: &str) -> Self {
        let seed = env::var("SOAK_SEED").map_or_else(
            |_| u64::from(std::process::id()) << 32 ^ u64::from(clock().subsec_nanos()),
            |text| text.parse().expect("SOAK_SEED is a number"),
        );
        eprintln!("{test}: SOAK_SEED={seed}");
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

fn clock() -> Duration {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
}
