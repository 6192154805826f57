//! Measures saving and loading of a gibibyte of filters, compared with the same number of bytes in strings.

use std::time::Instant;

use crate::harness::Server;
use crate::objects::{fill_random, random};
use crate::times::median;
use crate::{Goal, Line, run, server};

const OBJECTS: usize = 17;
const CAPACITY: u64 = 45_000_000;
const ROUNDS: usize = 5;

pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> Vec<Line> {
    let cases = ["RDB save of 1 GiB", "RDB load of 1 GiB"];
    if !cases.iter().any(|case| wanted(case)) {
        return Vec::new();
    }
    let (filters, strings) = (server(), server());
    let bytes = fill_random(&mut filters.client(), "key0", CAPACITY);
    for turn in 0..OBJECTS {
        let key = format!("key{turn}");
        if turn > 0 {
            run(&mut filters.client(), &format!("COPY key0 {key}"));
        }
        let text = random(bytes);
        let set: [&[u8]; 3] = [b"SET", key.as_bytes(), &text];
        assert!(!strings.client().call(&set).is_error());
    }
    // Seconds to save and to load. The servers take turns, so that a machine that gets slower does so for both.
    let (mut ours, mut native) = ([vec![], vec![]], [vec![], vec![]]);
    for round in 0..=ROUNDS {
        for (server, seconds_of) in [(&filters, &mut ours), (&strings, &mut native)] {
            let (save, load) = (
                seconds(server, "SAVE"),
                seconds(server, "DEBUG RELOAD NOSAVE"),
            );
            // The first round does not count, because it touches memory that was not in use before.
            if round > 0 {
                seconds_of[0].push(save);
                seconds_of[1].push(load);
            }
        }
    }
    #[allow(clippy::cast_precision_loss, reason = "a gibibyte")]
    let megabytes = (OBJECTS * bytes) as f64 / 1e6;
    let rates = ours.into_iter().zip(native);
    let lines = cases.into_iter().zip(rates).map(|(case, (ours, native))| {
        let pairs = ours.iter().zip(&native);
        Line {
            case: case.to_owned(),
            ratio: median(pairs.map(|(ours, native)| native / ours).collect()),
            measured: format!("{:.0} MB/s", megabytes / median(ours)),
            compared_with: format!("strings: {:.0} MB/s", megabytes / median(native)),
            goal: Goal::AtLeast(0.9),
        }
    });
    lines.filter(|line| wanted(&line.case)).collect()
}

fn seconds(server: &Server, command: &str) -> f64 {
    let mut client = server.client();
    let start = Instant::now();
    run(&mut client, command);
    start.elapsed().as_secs_f64()
}
