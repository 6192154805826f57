//! The bits of a good filter are as random as coin tosses, so they do not compress.

use std::f64::consts::LN_2;

use valkeybloom_testing::support::{Rng, object, params};

use crate::keys::{add, decimal};
use crate::{Table, grouped, scaled};

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "some millions"
)]
pub(crate) fn run(table: &mut Table) {
    let capacity = scaled(10_000_000);
    for rate in [0.01, 1e-6] {
        let mut filter = object(&params(capacity, rate, 0), Rng::new(1).seed());
        let empty = filter.filters().next().expect("one filter").0;
        let positions = empty.positions() as f64;
        // Each key sets random bits, so the share of zeros is exp(-hashes * keys / positions).
        let keys = (positions * LN_2 / f64::from(empty.hashes())) as u64;
        add(&mut filter, 0..keys.min(capacity), decimal, 0);
        let bits = filter.filters().next().expect("one filter").0.bitmap();
        let ones: u64 = bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let compressed = zstd::bulk::compress(bits, 19).expect("memory");
        let share = compressed.len() as f64 / bits.len() as f64;
        let claim = format!(
            "zstd -19 makes the bits of a half full filter at {rate} at most 0.1 % smaller"
        );
        let measured = format!(
            "{} bytes, {:.2} % of the bits set, to {:.3} %",
            grouped(bits.len() as u64),
            100.0 * ones as f64 / positions,
            100.0 * share,
        );
        table.claim(&claim, &measured, share >= 0.999);
    }
}
