//! Measures the memory of objects.

use crate::harness::Client;
use crate::objects::fill;
use crate::{Goal, Line, run, server};

/// A kind of tables: its name, the words that reserve one for a number of items, and the most bits that an item is to take.
type Kind = (&'static str, fn(u64) -> String, f64);

const TABLES: [Kind; 3] = [
    ("counted", |items| format!("{items} COUNTING"), 14.0),
    ("scaled to", |items| format!("1000 SCALETO {items}"), 11.5),
    (
        "in a window",
        |items| format!("{} WINDOW 3600000 PERIODS 24", items / 25),
        17.5,
    ),
];

/// The numbers of items in tables.
const NUMBERS: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

fn case_of(kind: &str, items: u64) -> String {
    format!("memory of {items} items {kind}")
}

#[allow(clippy::cast_precision_loss, reason = "some megabytes")]
fn bytes_of_grown(client: &mut Client, case: &str) -> Line {
    run(client, "BF.RESERVE grown 0.01 1000 EXPANSION 2");
    fill(client, "BF.MADD", "grown", 0..1_000_000);
    let size = run(client, "BF.INFO grown SIZE").as_array()[0].as_int() as f64;
    let filters = run(client, "BF.INFO grown FILTERS").as_array()[0].as_int();
    let items = run(client, "BF.CARD grown").as_int() as f64;
    // The minimum for filters of these capacities, at the rates 0.01 / ((i + 1)(i + 2)).
    let need: f64 = (0..i32::try_from(filters).expect("few filters"))
        .map(|i| {
            let rate = 0.01 / (f64::from(i + 1) * f64::from(i + 2));
            let bits = -rate.ln() / std::f64::consts::LN_2.powi(2);
            1000.0 * 2_f64.powi(i) * bits / 8.0
        })
        .sum();
    Line {
        case: case.to_owned(),
        measured: format!("{size:.0} bytes, {:.1} bits an item", size * 8.0 / items),
        compared_with: format!("the least for these rates: {need:.0} bytes"),
        ratio: size / need,
        goal: Goal::AtMost(1.12),
    }
}

fn bytes_beside_blob(client: &mut Client, case: &str) -> Line {
    run(client, "BF.RESERVE one 0.01 1000");
    let size = run(client, "BF.INFO one SIZE").as_array()[0].as_int();
    let debug = run(client, "BF.DEBUG one").as_array()[1].text();
    let bitmap = debug
        .strip_prefix("bytes:")
        .and_then(|rest| rest.split(' ').next());
    let bitmap: i64 = bitmap.and_then(|b| b.parse().ok()).expect("a number");
    // The blob consists of a header of 45 bytes and the bitmap.
    let beside = i32::try_from(size - 45 - bitmap).expect("little");
    Line {
        case: case.to_owned(),
        measured: format!("{beside} bytes"),
        compared_with: "200 bytes".to_owned(),
        ratio: f64::from(beside) / 200.0,
        goal: Goal::AtMost(1.0),
    }
}

#[allow(clippy::cast_precision_loss, reason = "some megabytes")]
fn bits_of_table(client: &mut Client, case: &str, goal: f64) -> Line {
    let [bytes, items] =
        ["MEMORY USAGE table", "BF.CARD table"].map(|line| run(client, line).as_int() as f64);
    let bits = 8.0 * bytes / items;
    Line {
        case: case.to_owned(),
        measured: format!("{bytes:.0} bytes, {bits:.1} bits an item"),
        compared_with: format!("{goal} bits"),
        ratio: bits / goal,
        goal: Goal::AtMost(1.0),
    }
}

pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> Vec<Line> {
    let (grown, small) = (
        "memory of 1M items grown from 1000",
        "memory beside the blob",
    );
    let mut lines = Vec::new();
    let tables = || NUMBERS.map(|items| TABLES.map(|(kind, ..)| case_of(kind, items)));
    let is_table_wanted = tables().as_flattened().iter().any(|case| wanted(case));
    if !wanted(grown) && !wanted(small) && !is_table_wanted {
        return lines;
    }
    let server = server();
    let mut client = server.client();
    if wanted(grown) {
        lines.push(bytes_of_grown(&mut client, grown));
    }
    for (kind, words, goal) in TABLES {
        for items in NUMBERS {
            let case = case_of(kind, items);
            if wanted(&case) {
                run(
                    &mut client,
                    &format!("BF.RESERVE table 0.01 {}", words(items)),
                );
                fill(&mut client, "BF.MADD", "table", 0..items);
                lines.push(bits_of_table(&mut client, &case, goal));
                run(&mut client, "DEL table");
            }
        }
    }
    if wanted(small) {
        lines.push(bytes_beside_blob(&mut client, small));
    }
    lines
}
