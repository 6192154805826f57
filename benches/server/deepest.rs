//! How long the worst command of each kind takes, on the deepest objects that there are.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use valkeybloom::bloom::{
    Fraction, Growth, Kind, Limits, Object, Params, Seed, Shape, Tightening, Time, Window, dump,
};

use crate::blocking::command_ms;
use crate::harness::{Client, Server};
use crate::{median, run, server};

const TIMES: usize = 10;

/// Milliseconds of a period: none passes while it is measured.
const PERIOD_MS: u64 = 600_000;

/// How an object is made.
type Make = fn() -> Object;

const OBJECTS: [(&str, Make); 4] = [
    ("capacity 1, expansion 1, 300,000 items", stacked),
    ("valkey-bloom's, capacity 10, expansion 1, full", theirs),
    ("1,440 periods of 20 items", windowed),
    ("counters, capacity 1, expansion 1, 50,000 items", counting),
];

/// The commands, each on `deep`; `*` stands for ten thousand items that are not in it.
const COMMANDS: [&str; 8] = [
    "BF.EXISTS deep stranger",
    "BF.MEXISTS deep *",
    "BF.MADD deep *",
    "BF.INFO deep",
    "BF.CARD deep",
    "BF.INSERT reach CAPACITY 1 ERROR 0.000000001 EXPANSION 1 VALIDATESCALETO 100000 ITEMS item",
    "BF.MERGE deep loaded",
    "DUMP deep",
];

fn grown(kind: Kind, tightening: Tightening, capacity: u64, items: u64) -> Object {
    let shape = Shape {
        params: Params {
            capacity,
            error_rate: Fraction::new(0.01).expect("a rate"),
            tightening,
            growth: Growth::from_expansion(1),
        },
        kind,
    };
    let mut object =
        Object::new(&shape, Seed::FIXED, Time::default(), Limits::NONE).expect("there is memory");
    let items: Vec<_> = (0..items).map(u64::to_le_bytes).collect();
    let items = items.iter().map(<[u8; 8]>::as_slice);
    object.add_each(items, Time::default(), None, || Limits::NONE, |_| ());
    object
}

fn stacked() -> Object {
    grown(Kind::Plain, Tightening::HALF, 1, 300_000)
}

/// It ends where its rate becomes too small for a double.
fn theirs() -> Object {
    let tightening = Tightening::of_valkey_bloom(Fraction::HALF);
    grown(Kind::Plain, tightening, 10, 20_000)
}

fn counting() -> Object {
    grown(Kind::Counting, Tightening::HALF, 1, 50_000)
}

/// The last period is the current one.
fn windowed() -> Object {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let now_ms = u64::try_from(now.as_millis()).expect("before long");
    let periods = 1440;
    let window = Window::new(PERIOD_MS, periods).expect("a window");
    let mut object = grown(Kind::Windowed(window), Tightening::HALF, 10, 0);
    for period in 0..periods {
        let time = Time::at(now_ms - (periods - 1 - period) * PERIOD_MS);
        object.tidy(time.now_ms);
        for item in 0..20 {
            let item = (period << 32 | item).to_le_bytes();
            let added = object.add(&item, time, None, || Limits::NONE);
            added.expect("there is room");
        }
    }
    object
}

/// A table of commands and objects.
pub(crate) fn table() -> String {
    let server = server();
    let mut table = "| command, the main thread's ms |".to_owned();
    let mut rows = COMMANDS.map(|command| {
        let name = command.replace(" deep", "").replace('*', "10,000 items");
        format!(
            "| {} |",
            if name.contains("VALIDATE") {
                "BF.INSERT VALIDATESCALETO"
            } else {
                &name
            }
        )
    });
    let mut client = server.client();
    for (name, make) in OBJECTS {
        let object = make();
        let filters = object.all_filters().count();
        write!(table, " {name}: {filters} filters |").expect("a String takes all");
        let bytes = dump::encode(&object).expect("there is memory");
        for (row, command) in rows.iter_mut().zip(COMMANDS) {
            let ms = worst_ms(&server, &mut client, &bytes, command);
            write!(row, " {ms:.2} |").expect("a String takes all");
        }
    }
    let rule = "|---".repeat(OBJECTS.len() + 1);
    format!("{table}\n{rule}|\n{}\n", rows.join("\n"))
}

/// The median of what a command takes, each time on a new copy of the object.
fn worst_ms(server: &Server, client: &mut Client, object: &[u8], command: &str) -> f64 {
    let words: Vec<&str> = command.split(' ').collect();
    let strangers: Vec<String> = (0..10_000).map(|item| format!("stranger:{item}")).collect();
    let mut call: Vec<&[u8]> = Vec::new();
    for word in &words {
        if *word == "*" {
            call.extend(strangers.iter().map(String::as_bytes));
        } else {
            call.push(word.as_bytes());
        }
    }
    let times = (0..TIMES).map(|_| {
        for key in ["deep", "loaded"] {
            let loaded = client.call(&[b"BF.LOAD", key.as_bytes(), object]);
            assert!(!loaded.is_error(), "{loaded:?}");
        }
        run(client, "BF.MADD loaded other:1 other:2 other:3");
        run(client, "CONFIG RESETSTAT");
        let reply = client.call(&call);
        assert!(!reply.is_error(), "{command}: {reply:?}");
        let spent = command_ms(server, command);
        run(client, "FLUSHALL");
        spent
    });
    median(times.collect())
}
