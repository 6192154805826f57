//! One, four or eight 64-bit words at once, behind functions that are safe to call.
//!
//! Operations on many items are written once, over [`Words`], and compiled for each [`Width`]. All widths give the
//! same results.

mod word;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

pub use word::{MAX_WORDS, Task, Use, Words, begun_with, byte_of, each_bit, groups};

/// The number of words that a processor handles at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Width {
    /// One word, on any processor.
    One = 1,
    /// Four words, on x86-64 with AVX2, BMI2 and POPCNT.
    Four = 4,
    /// Eight words, on x86-64 with AVX-512 (F and DQ) as well.
    Eight = 8,
}

/// The width chosen for each [`Use`]; 0 if none is chosen yet.
static WIDTHS: [AtomicU8; 3] = [const { AtomicU8::new(0) }; 3];

impl Use {
    const ALL: [Self; 3] = [Self::Hashing, Self::Lookups, Self::Passes];

    /// Returns the widest that this processor supports for this use.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(clippy::unused_self, reason = "there is one width alone")
    )]
    fn widest(self) -> Width {
        #[cfg(target_arch = "x86_64")]
        {
            let four = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt");
            let eight = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
            let counts = is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vpopcntdq");
            if four && eight && (counts || self != Self::Passes) {
                return Width::Eight;
            }
            if four {
                return Width::Four;
            }
        }
        Width::One
    }

    /// Chooses the fastest width. It depends on the processor, its microcode and the hypervisor: some gather slowly,
    /// some split wide words, some clock down for them. No name or feature flag reveals that, so each width is timed
    /// 64 times on synthetic data, for less than a microsecond each. The repetition is for processors that need 20 µs
    /// to power up wide units. The choice takes about 0.05 ms, once per process.
    #[cold]
    fn choose(self) -> Width {
        let widest = self.widest();
        let chosen = match self {
            Self::Passes => widest,
            Self::Hashing => sample::quickest(widest, |width, numbers| {
                run_at(width, sample::Mix(numbers));
            }),
            Self::Lookups => sample::quickest(widest, |width, numbers| {
                run_at(width, sample::Look(numbers));
            }),
        };
        WIDTHS[self as usize].store(chosen as u8, Relaxed);
        chosen
    }
}

impl Width {
    /// All widths, narrowest first.
    pub const ALL: [Self; 3] = [Self::One, Self::Four, Self::Eight];

    /// Returns the widest that this processor supports.
    pub fn of_processor() -> Self {
        Use::Hashing.widest()
    }

    /// Limits this process to a width, or to the widest that the processor supports for a use. Tests and benchmarks
    /// compare widths with it: all give the same results.
    pub fn limit_to(self) {
        for of in Use::ALL {
            WIDTHS[of as usize].store(self.min(of.widest()) as u8, Relaxed);
        }
    }

    /// Discards the choices: the next task of each use chooses a width again.
    pub fn choose() {
        for width in &WIDTHS {
            width.store(0, Relaxed);
        }
    }
}

/// Runs a task with the fastest words of this processor.
#[inline(always)]
pub fn run<T: Task>(task: T) -> T::Output {
    let mut width = WIDTHS[T::USE as usize].load(Relaxed);
    if width == 0 {
        width = T::USE.choose() as u8;
    }
    run_at(width, task)
}

/// Runs a task with words of a width that the processor supports for its use.
#[inline(always)]
fn run_at<T: Task>(width: u8, task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if width == Width::Eight as u8 {
            // SAFETY: the width is at most the widest that was detected for this use.
            return unsafe {
                if matches!(T::USE, Use::Passes) {
                    x86::run_eight_counting(task)
                } else {
                    x86::run_eight(task)
                }
            };
        }
        if width == Width::Four as u8 {
            // SAFETY: as above.
            return unsafe { x86::run_four(task) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = width;
    task.run::<u64>()
}

/// Reads the time stamp counter, or returns 0 on processors without one. It only compares one width with another, so
/// it need not be exact.
fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has this instruction, and no known system forbids it to programs.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Synthetic work that is timed to choose a width.
mod sample {
    use super::{Task, Use, Width, Words, groups};

    const ITEMS: usize = 64;
    static CELLS: [u8; 4096] = [0xff; 4096];

    /// The operations of hashing items of two blocks.
    pub(super) struct Mix<'n>(pub &'n mut [u64; ITEMS]);

    impl Task for Mix<'_> {
        const USE: Use = Use::Hashing;
        type Output = ();

        #[inline(always)]
        fn run<W: Words>(self) {
            for numbers in self.0.chunks_exact_mut(W::COUNT) {
                let mut v = [W::load(numbers), W::splat(1), W::splat(2), W::splat(3)];
                for _ in 0..10 {
                    v[0] = v[0].add(v[1]);
                    v[2] = v[2].add(v[3]);
                    v[1] = v[1].rotate::<13>().xor(v[0]);
                    v[3] = v[3].rotate::<16>().xor(v[2]);
                    v[0] = v[0].rotate::<32>().add(v[3]);
                    v[2] = v[2].add(v[1]).rotate::<32>();
                }
                v[0].xor(v[2]).store(numbers);
            }
        }
    }

    /// The operations of four rounds of lookups that find all items.
    pub(super) struct Look<'n>(pub &'n mut [u64; ITEMS]);

    impl Task for Look<'_> {
        const USE: Use = Use::Lookups;
        type Output = ();

        #[inline(always)]
        fn run<W: Words>(self) {
            let bits = CELLS.len() as u64 * 8;
            let reciprocal = W::splat(u64::MAX / bits);
            let mut found = u64::MAX;
            for _ in 0..4 {
                for (start, wanted) in groups::<W>(std::mem::take(&mut found)) {
                    let number = W::load(&self.0[start..]);
                    number.add(W::splat(!0 / 59)).store(&mut self.0[start..]);
                    let point = number.min(number.sub(W::splat(!0 - 58)));
                    let quotient = point.mul_high(reciprocal);
                    let mut rest = point.sub(quotient.mul(W::splat(bits)));
                    if !W::EXACT {
                        rest = rest.min(rest.sub(W::splat(2 * bits)));
                    }
                    let position = rest.min(rest.sub(W::splat(bits)));
                    found |= position.are_set_in(&CELLS, wanted) << start;
                }
            }
            self.0[0] ^= found;
        }
    }

    /// Returns the width, at most `widest`, that takes the least time for a sample. Where four words are supported,
    /// one word is never the fastest, so it is not timed.
    pub(super) fn quickest(widest: Width, run: impl Fn(u8, &mut [u64; ITEMS])) -> Width {
        if widest < Width::Eight {
            return widest;
        }
        let mut numbers = std::array::from_fn(|index| (index as u64).wrapping_mul(!0 / 59));
        let mut best = (u64::MAX, widest);
        for width in [Width::Eight, Width::Four] {
            for _ in 0..64 {
                let start = super::cycles();
                run(width as u8, &mut numbers);
                let time = super::cycles().wrapping_sub(start);
                if time < best.0 {
                    best = (time, width);
                }
            }
        }
        std::hint::black_box(numbers);
        best.1
    }
}
