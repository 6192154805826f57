//! Compares the memory of cuckoo filters with that of counting filters of the same error rate.

use crate::harness::{Client, Reply};
use crate::objects::{batches, fill};
use crate::{Goal, Line, run, server};

const FOREIGN: u64 = 1_000_000;

pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> Vec<Line> {
    let cases = [(100_000, "100k"), (10_000_000, "10M")];
    let cases = cases.into_iter().flat_map(|(items, name)| {
        [1, 2, 4].map(|slots| {
            (
                items,
                slots,
                format!("memory of cuckoo filter for {name}, {slots} slots"),
            )
        })
    });
    let cases: Vec<_> = cases.filter(|(.., name)| wanted(name)).collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let server = server();
    let mut client = server.client();
    let lines = cases.into_iter().map(|(items, slots, case)| {
        run(&mut client, "FLUSHALL");
        run(
            &mut client,
            &format!("CF.RESERVE k {items} BUCKETSIZE {slots}"),
        );
        fill(&mut client, "CF.INSERT", "k ITEMS", 0..items);
        let foreign = items..items + FOREIGN;
        let claimed = batches(&mut client, "CF.MEXISTS k", foreign).map(|reply| {
            let found = reply.as_array().iter();
            found.filter(|found| **found == Reply::Int(1)).count()
        });
        let claimed: usize = claimed.sum();
        #[allow(clippy::cast_precision_loss, reason = "some millions")]
        let (rate, items_of) = (claimed as f64 / FOREIGN as f64, items as f64);
        let filters = run(&mut client, "CF.INFO k").as_array()[5].as_int();
        let size = usage(&mut client) / items_of;
        run(
            &mut client,
            "CONFIG SET bf.bloom-filter-max-memory-usage 1gb",
        );
        run(&mut client, "DEL k");
        run(
            &mut client,
            &format!("BF.RESERVE k {rate} {items} COUNTING"),
        );
        fill(&mut client, "BF.MADD", "k", 0..items);
        let counters = usage(&mut client) / items_of;
        Line {
            case,
            measured: format!(
                "{size:.2} bytes an item, {filters} filters, {:.2} % claimed",
                100.0 * rate
            ),
            compared_with: format!("COUNTING of this rate: {counters:.2}"),
            ratio: size / counters,
            goal: Goal::None,
        }
    });
    lines.collect()
}

#[allow(clippy::cast_precision_loss, reason = "some megabytes")]
fn usage(client: &mut Client) -> f64 {
    run(client, "MEMORY USAGE k").as_int() as f64
}
