//! Sequential passes over memory, compiled for each width.

use super::word::{Task, Use, Words};

/// A pass: a function and its argument.
struct Pass<F, A>(F, A);

impl<A, T, F: FnOnce(A) -> T> Task for Pass<F, A> {
    const USE: Use = Use::Passes;
    type Output = T;

    #[inline(always)]
    fn run<W: Words>(self) -> T {
        (self.0)(self.1)
    }
}

/// Runs a function with the widest instructions of this processor. The function is `#[inline(always)]`, so that it is
/// compiled for them.
#[inline]
pub fn pass<A, T>(function: impl FnOnce(A) -> T, argument: A) -> T {
    super::run(Pass(function, argument))
}
