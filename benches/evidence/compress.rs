//! The bits of a good filter are as random as coin tosses, so they do not compress.

use std::f64::consts::LN_2;

use valkeybloom_sketches::bloom::Object;
use valkeybloom_testing::support::{Rng, add, object, params};

use crate::{Table, scaled};

pub(crate) fn run(table: &mut Table) {
    let keys = scaled(10_000_000);
    let mut rows = Vec::new();
    for rate in [0.01, 1e-6] {
        let filter = half_full(keys, rate);
        let (filter, _) = filter.filters().next().expect("one filter");
        let bits = filter.bitmap();
        let ones: u64 = bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let compressed = zstd::bulk::compress(bits, 19).expect("memory");
        #[allow(clippy::cast_precision_loss, reason = "some megabytes")]
        let (share, fill) = (
            compressed.len() as f64 / bits.len() as f64,
            ones as f64 / filter.positions() as f64,
        );
        table.claim(
            &format!("zstd -19 leaves at least 99.9 % of a filter of {keys} keys at {rate}"),
            &format!("{:.3} %", 100.0 * share),
            share >= 0.999,
        );
        rows.push([
            rate.to_string(),
            format!("{:.2} %", 100.0 * fill),
            bits.len().to_string(),
            compressed.len().to_string(),
        ]);
    }
    table.details(
        "A good filter does not compress",
        ["rate", "bits that are set", "bytes", "bytes compressed"],
        &rows,
    );
}

/// Returns a filter with as many random keys as set half of its bits.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "some millions"
)]
fn half_full(keys: u64, rate: f64) -> Object {
    let mut rng = Rng::new(1);
    let mut filter = object(&params(keys, rate, 0), rng.seed());
    let empty = filter.filters().next().expect("one filter").0;
    // Each key sets `hashes` random bits: the share of zeros is exp(-hashes * keys / positions).
    let keys = empty.positions() as f64 * LN_2 / f64::from(empty.hashes());
    for _ in 0..keys as u64 {
        add(&mut filter, &rng.next().to_le_bytes()).expect("the filter has room");
    }
    filter
}
