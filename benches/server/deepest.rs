//! Measures how long each command takes on the worst accepted objects, with the rows of `tests/server/blocking.rs`.

use std::fmt::Write as _;

use crate::harness::Client;
use crate::harness::worst::{CALLS, ITEMS, OBJECTS, Worst, is_named, name_of, prepare, suits};
use crate::times::command_ms;
use crate::{run, server};

const TIMES: usize = 5;

/// Returns a table of commands: the least time of each on the object where it comes closest to what the rule allows, and
/// the time that the rule allows there.
pub(crate) fn table(wanted: &dyn Fn(&str) -> bool) -> String {
    if !wanted("blocking") {
        return String::new();
    }
    let mut rows: Vec<Option<(f64, f64, &str)>> = CALLS.iter().map(|_| None).collect();
    let server = server();
    let mut client = server.client();
    for object in &OBJECTS {
        run(&mut client, "FLUSHALL");
        object.make(&mut client);
        let bytes = client.cmd("MEMORY USAGE deep SAMPLES 0").as_int();
        let bytes = f64::from(i32::try_from(bytes).expect("below 2 GiB"));
        for (row, call) in rows.iter_mut().zip(&CALLS) {
            if !suits(call, object) {
                continue;
            }
            let times = (0..TIMES).map_while(|_| time(&server, &mut client, call, object));
            // The rule is for a quiet machine, and whatever disturbs adds time.
            let Some(ms) = times.min_by(f64::total_cmp) else {
                continue;
            };
            let allowed = allowed_ms(call, bytes);
            if row.is_none_or(|(worst, of_worst, _)| ms / allowed > worst / of_worst) {
                *row = Some((ms, allowed, object.name));
            }
        }
    }
    let mut table = "| command | ms | the rule | worst object |\n|---|---|---|---|\n".to_owned();
    for (call, row) in CALLS.iter().zip(rows) {
        let line = call.replace("*100000", "10,000 items × 100,000");
        let line = line.replace("*1", "10,000 items × 1");
        let line = line
            .replace("*shares", "10,000 shares")
            .replace("*numbers", "10,000 numbers")
            .replace('*', "10,000 items")
            .replace('@', "its ");
        let (ms, allowed, object) = row.expect("a row for each command");
        let allowed = if is_named(call) {
            "named".to_owned()
        } else {
            format!("{allowed:.0}")
        };
        writeln!(table, "| {line} | {ms:.2} | {allowed} | {object} |").expect("a String takes all");
    }
    table
}

/// Returns the time that the rule allows: 10 ms, 25 µs per item, and 2 ns per byte for commands that pass over the
/// object.
#[allow(clippy::cast_precision_loss, reason = "few items")]
fn allowed_ms(call: &str, bytes: f64) -> f64 {
    let items = if call.contains('*') {
        ITEMS as f64
    } else {
        1.0
    };
    let passes = [
        "merge",
        "load",
        "dump",
        "restore",
        "copy deep",
        "digest",
        "chunk",
        "list",
    ];
    let touched = if passes.iter().any(|word| call.contains(word)) {
        2.0 * bytes
    } else {
        0.0
    };
    10.0 + 0.025 * items + 2e-6 * touched
}

/// Returns the milliseconds of one call, or `None` if the call does not apply to the object.
fn time(server: &crate::Server, client: &mut Client, call: &str, object: &Worst) -> Option<f64> {
    let words = prepare(client, call, object)?;
    run(client, "CONFIG RESETSTAT");
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    client.call(&words);
    let name = match name_of(call) {
        "debug" => "debug",
        "memory" => "memory|usage",
        name => name,
    };
    Some(command_ms(server, name))
}
