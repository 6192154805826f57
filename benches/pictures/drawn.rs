//! The contents of the pictures.

use std::fs;
use std::path::Path;

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Cells, Geometry};

use super::chart::{Axis, Curve, Panel, Row, curves, dots, panels};
use super::terminal::session;

/// Returns all pictures, with the names of their files.
pub fn all(root: &Path) -> Vec<(&'static str, String)> {
    let page = |name: &str| {
        let path = root.join("docs").join(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let (sizing, speed) = (page("sizing.md"), page("speed.md"));
    vec![
        ("memory.svg", memory()),
        ("growth.svg", growth(&sizing)),
        ("rates.svg", rates(&sizing)),
        ("peers.svg", peers(&speed)),
        ("speed.svg", ratios(&speed)),
        ("list.svg", list(&page("tool.md"))),
        ("dashboard.svg", dashboard(&page("operating.md"))),
        ("count-min.svg", count_min(&page("count-min.md"))),
        ("top-k.svg", top_k(&page("top-k.md"))),
        ("t-digest.svg", digests(&page("t-digest.md"))),
    ]
}

/// Returns the bits of a filter, including its header.
#[allow(clippy::cast_precision_loss, reason = "sizes are far below 2⁵³")]
fn bits(capacity: u64, rate: f64) -> f64 {
    let rate = Fraction::new(rate).expect("a rate");
    8.0 * Geometry::for_rate(capacity, rate, Cells::Bits).blob_bytes() as f64
}

/// Returns the filters of a stack that holds `items` items: for each filter, the items and bits of the stack up to it.
fn stack(first: u64, expansion: u64, rate: f64, items: u64) -> Vec<(u64, f64)> {
    let mut filters: Vec<(u64, f64)> = Vec::new();
    let (mut newest, mut index) = (first, 1.0);
    loop {
        let (taken, before) = filters.last().copied().unwrap_or_default();
        if taken > 0 {
            newest = (newest * expansion).max(taken.div_ceil(16));
        }
        let own = bits(newest, rate / (index * (index + 1.0)));
        filters.push((taken + newest, before + own));
        if taken + newest >= items {
            return filters;
        }
        index += 1.0;
    }
}

fn ticks(values: &[f64], name: impl Fn(f64) -> String) -> Vec<(f64, String)> {
    values.iter().map(|value| (*value, name(*value))).collect()
}

#[allow(clippy::cast_precision_loss, reason = "sizes are far below 2⁵³")]
fn memory() -> String {
    let rates: Vec<f64> = (0..=50)
        .map(|step| 10_f64.powf(-1.0 - f64::from(step) / 10.0))
        .collect();
    let curve = |name: &str, bytes: &dyn Fn(f64) -> f64| Curve {
        name: name.to_owned(),
        points: rates.iter().map(|rate| (*rate, bytes(*rate))).collect(),
        name_at: 0.0,
    };
    let million = 1_000_000;
    let grown = |rate: f64| {
        let (items, bits) = *stack(1000, 2, rate, million).last().expect("some");
        bits / 8.0 / items as f64
    };
    let mut drawn = [
        curve("NONSCALING", &|rate| bits(million, rate) / 8e6),
        curve("grown from 1,000", &grown),
        curve("may grow", &|rate| bits(million, rate / 2.0) / 8e6),
    ];
    (drawn[0].name_at, drawn[2].name_at) = (8.0, -6.0);
    let x = Axis {
        ends: (0.1, 1e-6),
        logarithmic: true,
        pixels: (60.0, 680.0),
        ticks: ticks(&[0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6], |rate| {
            format!("{} %", (rate * 1e8).round() / 1e6)
        }),
    };
    let y = Axis {
        ends: (0.0, 6.0),
        logarithmic: false,
        pixels: (350.0, 40.0),
        ticks: ticks(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], |bytes| {
            bytes.to_string()
        }),
    };
    curves(
        "Bytes an item of a full filter for a million, by the requested error rate",
        &x,
        &y,
        &drawn,
        &[],
    )
}

#[allow(clippy::cast_precision_loss, reason = "sizes are far below 2⁵³")]
fn growth(page: &str) -> String {
    let last = 2_000_000;
    let curve = |name: &str, expansion: u64| {
        let mut points = Vec::new();
        let mut from = 500.0;
        for (items, bits) in stack(1000, expansion, 0.01, last) {
            let to = items.min(last) as f64;
            // While a filter fills, the bits per item fall in proportion to 1 / items.
            let steps = (0..=12).map(|step| from * (to / from).powf(f64::from(step) / 12.0));
            points.extend(steps.map(|items| (items, bits / items)));
            from = to;
        }
        Curve {
            name: name.to_owned(),
            points,
            name_at: 0.0,
        }
    };
    let sizes = [500, 700, 1000, 2000, 4000, 10_000, 100_000, last];
    let reserved = sizes.map(|items| (items as f64, bits(items, 0.005) / items as f64));
    let drawn = [
        curve("EXPANSION 2", 2),
        curve("EXPANSION 1", 1),
        Curve {
            name: "reserved for all".to_owned(),
            points: reserved.to_vec(),
            name_at: 0.0,
        },
    ];
    let x = Axis {
        ends: (500.0, last as f64),
        logarithmic: true,
        pixels: (60.0, 680.0),
        ticks: vec![
            (1e3, "1,000".to_owned()),
            (1e4, "10,000".to_owned()),
            (1e5, "100,000".to_owned()),
            (1e6, "1,000,000 items".to_owned()),
        ],
    };
    let y = Axis {
        ends: (0.0, 40.0),
        logarithmic: false,
        pixels: (350.0, 40.0),
        ticks: ticks(&[0.0, 10.0, 20.0, 30.0, 40.0], |bits| bits.to_string()),
    };
    let measured = &table(page, "| | this module |")[0];
    let bits = |column: usize| number(measured[column]).expect("bits an item");
    let peers = [
        (1e6, bits(2), "RedisBloom at a million"),
        (1e6, bits(3), "valkey-bloom"),
    ];
    curves(
        "Bits an item at 1 %, after a first filter for 1,000",
        &x,
        &y,
        &drawn,
        &peers,
    )
}

/// Returns the cells of the rows below the line of a page that begins with `head`.
fn table<'p>(page: &'p str, head: &str) -> Vec<Vec<&'p str>> {
    let lines = page.lines().skip_while(|line| !line.starts_with(head));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// Returns the number at the start of a cell, if any.
fn number(cell: &str) -> Option<f64> {
    let digits = cell.trim_start_matches(['≤', '≥', ' ']).replace(',', "");
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.');
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

fn rates(page: &str) -> String {
    let rows = table(page, "| requested | capacity |")
        .into_iter()
        .map(|row| {
            let growth = if row[2] == "NONSCALING" {
                row[2].to_owned()
            } else {
                format!("EXPANSION {}", row[2])
            };
            let requested = number(row[0]).expect("a rate");
            let share = |cell: &str| number(cell).map(|rate| rate / requested);
            Row {
                name: format!(
                    "{}, {} items, capacity {}, {growth}",
                    row[0], row[3], row[1]
                ),
                values: row[4..].iter().map(|cell| share(cell)).collect(),
                goal: None,
            }
        });
    let rows: Vec<Row> = rows.collect();
    let ticks = ["0.1", "1", "10", "100"];
    let series = ["this module", "RedisBloom", "valkey-bloom"];
    dots(
        "Measured error rate over the requested one, 1: as requested",
        420.0,
        (0.1, 100.0),
        &ticks,
        &series,
        &rows,
    )
}

fn peers(page: &str) -> String {
    let rows = table(page, "| case | this module |")
        .into_iter()
        .map(|row| {
            let own = number(row[1]).expect("nanoseconds");
            let values = row[1..4].iter();
            Row {
                name: row[0].to_owned(),
                values: values
                    .map(|cell| number(cell).map(|time| time / own))
                    .collect(),
                goal: None,
            }
        });
    let rows: Vec<Row> = rows.collect();
    let ticks = ["0.5", "1", "2", "5", "10", "20"];
    let series = ["this module", "RedisBloom", "valkey-bloom"];
    dots(
        "Processor time of a command over that of this module",
        290.0,
        (0.5, 25.0),
        &ticks,
        &series,
        &rows,
    )
}

fn ratios(page: &str) -> String {
    let rows = table(page, "| case | AMD: measured |")
        .into_iter()
        .map(|row| {
            let base = row[2].split(':').next().unwrap_or_default();
            Row {
                name: format!("{} / {base}", row[0]),
                values: vec![number(row[3]), number(row[4])],
                goal: number(row[5]),
            }
        });
    let rows: Vec<Row> = rows.collect();
    let ticks = ["0.1", "0.2", "0.5", "1", "2", "5"];
    let title = "Ratios of the table; a stroke is the goal, at most or for RDB at least";
    dots(title, 500.0, (0.02, 10.0), &ticks, &["AMD", "Intel"], &rows)
}

/// Draws the end of a session of the page: the listing.
fn list(page: &str) -> String {
    let (_, listing) = page
        .split_once("$ valkeybloom list 127.0.0.1:6379 --sort bytes --advice\n")
        .expect("the session");
    let (listing, _) = listing.split_once("```").expect("the session ends");
    session(&format!(
        "$ valkeybloom list 127.0.0.1:6379 --sort bytes --advice\n{listing}"
    ))
}

fn dashboard(page: &str) -> String {
    let rows = table(page, "| seconds | items |");
    let column = |at: usize| -> Vec<(f64, f64)> {
        let rows = rows.iter();
        let points = rows.map(|row| {
            (
                number(row[0]).expect("seconds"),
                number(row[at]).expect("a value"),
            )
        });
        points.collect()
    };
    let panel = |title: &'static str, at, ticks: &[(f64, &str)]| Panel {
        title,
        points: column(at),
        ticks: ticks
            .iter()
            .map(|(value, name)| (*value, (*name).to_owned()))
            .collect(),
    };
    panels(
        "A filter grows from 10,000 items at 1 %, over 48 s",
        &[
            panel(
                "valkeybloom_items",
                1,
                &[(0.0, "0"), (60e3, "60 k"), (120e3, "120 k")],
            ),
            panel(
                "100 * valkeybloom_items / valkeybloom_capacity_items",
                2,
                &[(0.0, "0 %"), (50.0, "50 %"), (100.0, "100 %")],
            ),
            panel(
                "valkeybloom_error_rate_now",
                3,
                &[(0.0, "0"), (0.005, "0.5 %"), (0.01, "1 %")],
            ),
            panel(
                "valkeybloom_bytes",
                4,
                &[(0.0, "0"), (150e3, "150 kB"), (300e3, "300 kB")],
            ),
        ],
    )
}

/// Returns a cell's number for a logarithmic axis, which has no zero.
fn above_zero(cell: &str) -> Option<f64> {
    number(cell).filter(|number| *number > 0.0)
}

fn count_min(page: &str) -> String {
    let rows = table(page, "| error, probability | stream |")
        .into_iter()
        .map(|row| {
            let promised = number(row[2]).expect("a count");
            let share = |cell: &&str| above_zero(cell).map(|over| over / promised);
            Row {
                name: format!("{}, {}", row[0], row[1]),
                values: row[3..6].iter().map(share).collect(),
                goal: None,
            }
        });
    let rows: Vec<Row> = rows.collect();
    let ticks = ["0.001", "0.01", "0.1", "1"];
    let series = ["median", "99 %", "maximum"];
    dots(
        "Over-estimates stay below the promised error (1), far below it where few items dominate (no mark: 0)",
        250.0,
        (0.001, 1.5),
        &ticks,
        &series,
        &rows,
    )
}

fn top_k(page: &str) -> String {
    let rows = table(page, "| k, width × depth |").into_iter().map(|row| {
        let low = |cell: &&str| {
            let (_, low) = cell.split_once(", ").expect("two shares");
            above_zero(low)
        };
        Row {
            name: format!("k = {}", row[0]),
            values: row[2..].iter().map(low).collect(),
            goal: None,
        }
    });
    let rows: Vec<Row> = rows.collect();
    let ticks = ["0.001", "0.01", "0.1", "1", "10", "100"];
    let series = ["Zipf 1.0", "Zipf 1.5", "k items make half"];
    dots(
        "In wide sketches, counts of listed items are less than 1 % (line) too low (no mark: 0 %)",
        180.0,
        (0.0003, 100.0),
        &ticks,
        &series,
        &rows,
    )
}

fn digests(page: &str) -> String {
    let table = table(page, "| compression | stream |");
    let quantiles = [0.5, 0.9, 0.99, 0.999, 0.9999];
    let rows = table
        .iter()
        .filter(|row| row[1].starts_with("lognormal, σ"));
    let drawn = rows.map(|row| {
        let errors = row[2..].iter().map(|cell| number(cell).expect("an error"));
        Curve {
            name: format!("compression {}", row[0]),
            points: quantiles
                .into_iter()
                .zip(errors)
                .map(|(q, e)| (1.0 - q, e))
                .collect(),
            name_at: 0.0,
        }
    });
    let drawn: Vec<Curve> = drawn.collect();
    let x = Axis {
        ends: (0.5, 1e-4),
        logarithmic: true,
        pixels: (80.0, 680.0),
        ticks: ticks(&quantiles.map(|quantile| 1.0 - quantile), |rest| {
            format!("p{}", (1e6 * (1.0 - rest)).round() / 1e4)
        }),
    };
    let y = Axis {
        ends: (1e-4, 10.0),
        logarithmic: true,
        pixels: (350.0, 40.0),
        ticks: ticks(&[1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0], |error| {
            format!("{error} %")
        }),
    };
    curves(
        "The error in rank shrinks towards the tail, and with the compression (lognormal values)",
        &x,
        &y,
        &drawn,
        &[],
    )
}
