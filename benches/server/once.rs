//! Measures what a receipt costs: BF.INSERT of new items with ONCE, compared with BF.INSERT of as many without it. The
//! positions ascend, and the receipt is full from the start.

use crate::harness::{Client, Server, spaced};
use crate::times::{cpu_seconds, median};
use crate::{Goal, Line, run, server};

const ROUNDS: usize = 9;

/// The items of all commands of a round.
const ITEMS: usize = 400_000;

/// The commands that are sent together, at most, and the items in them.
const PIPELINE: usize = 32;
const TOGETHER: usize = 4_000;

/// The items of a command, and the largest acceptable ratio.
const ROWS: [(usize, f64); 3] = [(1, 1.6), (100, 1.2), (1000, 1.15)];

fn name(items: usize) -> String {
    format!("BF.INSERT {items} new, ONCE")
}

pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> Vec<Line> {
    let rows = ROWS.into_iter().filter(|(items, _)| wanted(&name(*items)));
    let rows: Vec<(usize, f64)> = rows.collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let server = server();
    let mut client = server.client();
    let line = |(items, goal): (usize, f64)| {
        let rounds = (0..ROUNDS)
            .map(|_| [true, false].map(|once| measure(&server, &mut client, items, once)));
        let rounds: Vec<[f64; 2]> = rounds.collect();
        let figure = |which: usize| {
            let ns = median(rounds.iter().map(|round| round[which]).collect());
            format!("{ns:.0} ns")
        };
        Line {
            case: name(items),
            measured: figure(0),
            compared_with: format!("BF.INSERT {items} new: {}", figure(1)),
            ratio: median(rounds.iter().map(|[once, plain]| once / plain).collect()),
            goal: Goal::AtMost(goal),
        }
    };
    rows.into_iter().map(line).collect()
}

/// Returns the server's nanoseconds for a command.
fn measure(server: &Server, client: &mut Client, items: usize, once: bool) -> f64 {
    run(client, "DEL new receipt");
    run(client, "BF.RESERVE new 0.01 1000000");
    let option = |position: usize| {
        if once {
            format!("ONCE receipt {position} ")
        } else {
            String::new()
        }
    };
    let mut next = 100_000;
    let answered = spaced(0..next);
    run(
        client,
        &format!("BF.INSERT new {}ITEMS {answered}", option(0)),
    );
    let together = PIPELINE.min(TOGETHER / items);
    let calls = ITEMS / items / together;
    let before = cpu_seconds(server);
    for _ in 0..calls {
        let commands = (0..together).map(|_| {
            let first = next;
            next += items;
            let line = format!(
                "BF.INSERT new {}ITEMS {}",
                option(first),
                spaced(first..next)
            );
            line.split(' ')
                .map(|word| word.as_bytes().to_vec())
                .collect()
        });
        let commands: Vec<Vec<Vec<u8>>> = commands.collect();
        let replies = client.call_all(&commands);
        assert!(replies.iter().all(|reply| reply.as_array().len() == items));
    }
    // While it waits for commands, the server takes next to no time.
    let seconds = cpu_seconds(server) - before;
    #[allow(clippy::cast_precision_loss, reason = "some hundred thousand")]
    let commands = (calls * together) as f64;
    seconds * 1e9 / commands
}
