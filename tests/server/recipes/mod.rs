//! docs/recipes.md: its programs, and what it says of many clients at once. Its sessions are replayed by
//! `pages`, as those of all pages.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, ScopedJoinHandle};

use crate::example;
use crate::harness::{Client, Server, error, int, ok, spaced};
use crate::pages;
use crate::soak;
use crate::support::Rng;
use crate::support::protocols::with_fixed_seed;

const PAGE: &str = "docs/recipes.md";

/// Runs a program of a page in Python, followed by a test of it. Its first argument is the server's port.
#[track_caller]
pub fn python(program: &str, test: &str, server: &Server) {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/recipes/python");
    let mut command = Command::new("python3");
    command.args(["-B", "-c"]).env("PYTHONPATH", modules);
    interpret(command, &format!("{program}\n{test}"), server);
}

/// Runs a program of a page in Node, between a client and a test of it. Its first argument is the server's port.
#[track_caller]
pub fn node(program: &str, test: &str, server: &Server) {
    let mut command = Command::new("node");
    command.arg("--eval");
    let client = include_str!("node.js");
    interpret(command, &[client, program, test].join("\n"), server);
}

#[track_caller]
fn interpret(mut command: Command, program: &str, server: &Server) {
    let run = command.arg(program).arg(server.port().to_string());
    let output = run.output().expect("the interpreter is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

const SCRAPY: &str = "A duplicate filter for Scrapy";

/// The sections whose programs run in Python, each with what follows its program: a test of it.
const PROGRAMS: [(&str, &str); 6] = [
    ("A guard for a cache", include_str!("guard.py")),
    ("Taken user names", include_str!("names.py")),
    (
        "Trending items of the last hour",
        include_str!("trending.py"),
    ),
    ("A rate limit", include_str!("limit.py")),
    (
        "Latency percentiles of the last day",
        include_str!("latency.py"),
    ),
    (SCRAPY, include_str!("dupefilter.py")),
];

#[test]
fn programs_do_what_the_page_says() {
    for (section, test) in PROGRAMS {
        let program = pages::block(PAGE, section, "python");
        python(&program, test, &with_fixed_seed());
    }
}

/// With a Python that has Scrapy and redis-py.
#[test]
#[ignore = "installs Scrapy: ./build.sh scrapy"]
fn a_crawl_by_scrapy_itself() {
    let server = with_fixed_seed();
    let program = pages::block(PAGE, SCRAPY, "python");
    std::fs::write(server.dir().join("bloom.py"), program).expect("the folder can be written to");
    let crawl = |site: &str, scheduler: &[&str]| {
        let python = std::env::var_os("SCRAPY_PYTHON").expect("./build.sh scrapy sets it");
        let output = Command::new(python)
            .args(["-B", "-c", include_str!("crawl.py")])
            .args([&server.port().to_string(), site])
            .args(scheduler)
            .current_dir(server.dir())
            .output()
            .expect("there is a Python");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let text = String::from_utf8(output.stdout).expect("a text");
        let (site, requests) = text.split_once('\n').expect("a port first");
        let mut requests: Vec<String> = requests.lines().map(str::to_owned).collect();
        requests.sort();
        (site.to_owned(), requests)
    };
    // A spider's first request does not go through the filter, and a page links back to it.
    let pages = (0..200).map(|page| format!("/{page}"));
    let mut pages: Vec<String> = pages.chain(["/0".to_owned()]).collect();
    pages.sort();
    let (site, requests) = crawl("0", &[]);
    assert_eq!(requests, pages, "each page is fetched once");
    let (_, requests) = crawl(&site, &[]);
    assert_eq!(requests, ["/0"], "and not again");
    // The scheduler of scrapy-redis. Without persistence it deletes the filter at the end.
    let (_, requests) = crawl(&site, &["persist"]);
    assert_eq!(requests, ["/0"], "nor by another scheduler");
    let (_, requests) = crawl(&site, &["clear"]);
    assert_eq!(requests, ["/0"], "nor again");
    for _ in 0..2 {
        let (_, requests) = crawl(&site, &["clear"]);
        assert_eq!(requests, pages, "each page is fetched anew");
    }
}

/// Returns the example's output, without the times.
fn without_times(text: &str) -> Vec<&str> {
    let lines = text.lines();
    lines
        .map(|line| line.split(" yes ").next().expect("split gives one part"))
        .collect()
}

#[test]
fn a_million_addresses_are_counted() {
    let mut server = with_fixed_seed();
    let urls = |server: &Server, words: &[&str]| {
        let output = Command::new(example::program("urls"))
            .args(words)
            .arg(server.port().to_string())
            .output()
            .expect("the example runs");
        String::from_utf8(output.stdout).expect("a text")
    };
    let before = urls(&server, &[]);
    server.restart_saving();
    let after = urls(&server, &["ask"]);
    let reported = format!("{before}\n{after}");
    let page = pages::block(PAGE, "A crawler", "text");
    assert_eq!(without_times(&reported), without_times(&page));
}

fn reserve(client: &mut Client, key: &str, capacity: u64) {
    let reserved = client.cmd(&format!("BF.RESERVE {key} 0.001 {capacity}"));
    assert_eq!(reserved, ok());
}

fn add_all<T: ToString>(client: &mut Client, key: &str, items: impl IntoIterator<Item = T>) {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    for batch in items.chunks(100) {
        client.run(format!("BF.MADD {key} {}", batch.join(" ")));
    }
}

/// Writers and readers go on while the filter is rebuilt and swapped in. Acknowledged items stay found.
#[test]
fn a_filter_is_swapped_under_load() {
    let server = with_fixed_seed();
    reserve(&mut server.client(), "users", 10);
    let (database, acknowledged) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let done = AtomicBool::new(false);
    let write = |first: u64| {
        let mut client = server.client();
        for id in (first..).step_by(2).take_while(|_| !done.load(SeqCst)) {
            database.lock().unwrap().push(id);
            let insert = format!("BF.INSERT users:next NOCREATE ITEMS {id}");
            let inserted = client.cmd(&insert);
            let none = error("ERR not found");
            assert!(inserted == none || !inserted.is_error(), "{inserted:?}");
            client.run(format!("BF.ADD users {id}"));
            acknowledged.lock().unwrap().push(id);
        }
    };
    let read = |name: &str| {
        let (mut client, mut random) = (server.client(), soak::random(name));
        while !done.load(SeqCst) {
            let id = {
                let ids = acknowledged.lock().unwrap();
                match ids.len() {
                    0 => continue,
                    count => ids[random.below(count)],
                }
            };
            client.expect(format!("BF.EXISTS users {id}"), int(1));
        }
    };
    thread::scope(|scope| {
        let threads = [
            scope.spawn(|| write(0)),
            scope.spawn(|| write(1)),
            scope.spawn(|| read("swap, a reader")),
            scope.spawn(|| read("swap, another reader")),
        ];
        let mut client = server.client();
        loop {
            reserve(&mut client, "users:next", 1000);
            let ids = database.lock().unwrap().clone();
            add_all(&mut client, "users:next", &ids);
            client.ok("RENAME users:next users");
            let failed = threads.iter().any(ScopedJoinHandle::is_finished);
            if ids.len() > 2000 || failed {
                break;
            }
        }
        done.store(true, SeqCst);
        for thread in threads {
            thread.join().expect("it has seen nothing wrong");
        }
    });
    let ids = database.into_inner().unwrap();
    let mut client = server.client();
    client.expect(format!("BF.MISSING users {}", spaced(ids)), int(0));
}

#[test]
fn a_day_is_the_union_of_its_hours() {
    let server = with_fixed_seed();
    let mut client = server.client();
    reserve(&mut client, "hour:empty", 20_000);
    let mut random = Rng::new(24);
    let mut day = HashSet::new();
    for hour in 0..24 {
        let key = format!("hour:{hour}");
        client.expect(format!("COPY hour:empty {key}"), int(1));
        let visitors: Vec<usize> = (0..1000).map(|_| random.below(30_000)).collect();
        add_all(&mut client, &key, &visitors);
        day.extend(visitors);
        // The job runs every hour, and once more.
        for _ in 0..2 {
            client.ok(format!("BF.MERGE day {key}"));
        }
    }
    client.expect(format!("BF.MISSING day {}", spaced(&day)), int(0));
    assert_eq!(client.cmd("BF.INFO day FILTERS").as_array(), [int(1)]);
    let (count, different) = (client.cmd("BF.CARD day").as_int(), day.len());
    let off = count.abs_diff(i64::try_from(different).unwrap());
    assert!(off <= different as u64 / 50, "{count} of {different}");
    // Twenty of as many strangers are claimed at the requested rate; four deviations more are hardly ever.
    let strangers = spaced((0..20_000).map(|n| format!("stranger{n}")));
    let denied = client.cmd(&format!("BF.MISSING day {strangers}"));
    assert!(denied.as_int() >= 20_000 - 38, "{denied:?}");
}
