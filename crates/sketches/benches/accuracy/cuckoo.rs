//! How full cuckoo filters are when an item finds no room.

use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Params, Shape};

use crate::percent;

const BUCKETS: u64 = 1 << 20;

/// The number of filters of each shape. The table has their median and the lowest.
const FILTERS: u32 = 5;

/// Prints the table of docs/cuckoo.md.
pub fn print() {
    println!(
        "| slots per bucket | slots in use when an item finds no room, the median | the lowest |"
    );
    println!("|---|---|---|");
    for bucket_size in [1, 2, 4, 8, 16] {
        let mut shares: Vec<f64> = (0..FILTERS).map(|run| share(bucket_size, run)).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let (lowest, median) = (shares[0], shares[shares.len() / 2]);
        println!(
            "| {bucket_size} | {} | {} |",
            percent(median),
            percent(lowest)
        );
    }
}

/// Fills a filter that does not grow, and returns the share of its slots that are in use then.
#[allow(clippy::cast_precision_loss, reason = "some millions")]
fn share(bucket_size: u8, run: u32) -> f64 {
    let slots = BUCKETS * u64::from(bucket_size);
    let params = Params {
        capacity: slots,
        bucket_size,
        expansion: 0,
        ..Params::REDISBLOOM
    };
    let shape = Shape::new(&params).expect("a shape");
    let mut filter = Cuckoo::new(shape, &Limits::NONE).expect("memory");
    let added = (0..slots).find(|number| {
        let item = format!("{run}:item:{number}");
        filter.add(item.as_bytes(), false, || Limits::NONE).is_err()
    });
    added.unwrap_or(slots) as f64 / slots as f64
}
