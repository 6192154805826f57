//! Filters with counters or a window that are filled from files.

use std::fs;

use crate::harness::{Server, int, ok};

use super::{add, found, info, numbered, run, url};

/// Whatever BF.RESERVE can make; and a filter of another kind stays, unless it is meant.
#[test]
fn counters_and_windows_are_built_and_kept() {
    let server = Server::start();
    let mut client = server.client();
    let items = numbered("item", 0..300);
    let path = server.dir().join("list");
    fs::write(&path, items.join("\n")).expect("the folder can be written to");
    let path = path.to_str().expect("a path of ASCII");
    let to = url(&server);
    let words = [
        "build",
        path,
        "--to",
        &to,
        "--rate",
        "0.001",
        "--replace",
        "--key",
    ];
    let build = |key: &'static str, options: &str| {
        let options = options.split(' ').filter(|word| !word.is_empty());
        run(&words
            .into_iter()
            .chain([key])
            .chain(options)
            .collect::<Vec<_>>())
    };
    let window = "WINDOW 100000000000 PERIODS 3";
    for (key, options, reserve) in [
        ("counted", "--counting", "COUNTING"),
        ("counted", "--counting --nonscaling", "NONSCALING COUNTING"),
        ("lately", "--window 100000000s --periods 3", window),
    ] {
        build(key, options).done();
        assert_eq!(
            client.cmd(&format!("BF.RESERVE due 0.001 300 {reserve}")),
            ok()
        );
        add(&mut client, "due", &items);
        for field in ["Size", "Number of filters", "Capacity", "Expansion rate"] {
            let due = info(&mut client, "due", field);
            assert_eq!(
                info(&mut client, key, field),
                due,
                "{key} {options} {field}"
            );
        }
        assert_eq!(found(&mut client, key, &items), 300);
        assert_eq!(client.cmd("DEL due"), int(1));
    }
    assert_eq!(client.call(&[b"BF.DEL", b"counted", b"item 7"]), int(1));
    assert_eq!(info(&mut client, "lately", "Window"), int(100_000_000_000));
    assert_eq!(info(&mut client, "lately", "Periods"), int(3));
    assert_eq!(client.cmd("BF.RESERVE plain 0.01 100"), ok());

    let at = server.port();
    for (key, options, has) in [
        ("counted", "", "counts its items: build it with --counting"),
        (
            "counted",
            "--window 1h --periods 2",
            "counts its items: build it with --counting",
        ),
        (
            "lately",
            "",
            "has a window: build it with --window and --periods",
        ),
        (
            "lately",
            "--counting",
            "has a window: build it with --window and --periods",
        ),
    ] {
        assert_eq!(
            build(key, options).failed(1),
            format!("{key} at 127.0.0.1:{at} {has}, or replace it with --change-kind")
        );
    }
    assert_eq!(client.cmd("TYPE counted").text(), "bloomfltx");
    for (key, options) in [("counted", "--change-kind"), ("plain", "--counting")] {
        build(key, options).done();
    }
    assert_eq!(client.cmd("TYPE counted").text(), "bloomfltr");
    let why = build("lately", "--window 1h --periods 60001").failed(2);
    assert_eq!(why, "a window has 1 to 60000 periods");
}

/// Where the user may not read the settings, it names both.
#[test]
fn the_limit_that_refused_a_build_is_named() {
    let server = Server::start();
    let mut client = server.client();
    let path = server.dir().join("list");
    let items = numbered("item", 0..300).join("\n");
    fs::write(&path, items).expect("the folder can be written to");
    let path = path.to_str().expect("a path of ASCII");
    let at = server.port();
    let (filter, object) = (
        "bf.bloom-filter-max-memory-usage",
        "bf.bloom-memory-usage-limit",
    );
    for (limits, user, named) in [
        ([100, 0], "", filter.to_owned()),
        ([67_108_864, 400], "", object.to_owned()),
        ([100, 67_108_864], "", filter.to_owned()),
        ([100, 400], "", format!("{filter} and {object}")),
        (
            [67_108_864, 400],
            "u:secret@",
            format!("{filter} or {object} there, whichever it exceeds"),
        ),
    ] {
        let set = format!("CONFIG SET {filter} {} {object} {}", limits[0], limits[1]);
        assert_eq!(client.cmd(&set), ok());
        let user_may = "ACL SETUSER u on >secret ~* +@all -config";
        assert_eq!(client.cmd(user_may), ok());
        let to = format!("redis://{user}127.0.0.1:{at}");
        let why = run(&[
            "build", path, "--to", &to, "--rate", "0.001", "--key", "new",
        ]);
        let why = why.failed(1);
        let (_, raise) = why.split_once("; raise ").expect("a way out");
        let due = if user.is_empty() {
            named + " there, or use more shards"
        } else {
            named
        };
        assert_eq!(raise, due);
    }
}
