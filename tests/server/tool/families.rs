//! `build --as` and `show`: sketches and cuckoo filters of files, and what they hold.

use std::fs;

use crate::harness::{Client, Server, array, bulk, int, ok};

use super::terminal::of_terminal;
use super::{Way, left, run, run_line, url};
use crate::example::valkeybloom;

/// A table of requests, in which a page is requested as often as its number says.
fn table(server: &Server) -> String {
    let requests = (1..=20).flat_map(|page| (0..page).map(move |request| (page, request)));
    let lines = requests.map(|(page, request)| {
        let ms = page * 100 + request;
        format!("{ms}.5,\"page, {page}\",\"a \"\"b\"\"\r\nc\"\r\n")
    });
    let table = "ms,page,note\r\n".to_owned() + &lines.collect::<String>();
    let path = server.dir().join("log.csv");
    fs::write(&path, table).expect("the folder can be written to");
    path.to_str().expect("ASCII").to_owned()
}

#[test]
fn every_family_is_built_of_a_column_and_added_to() {
    let server = Server::start();
    let mut client = server.client();
    let (log, to) = (table(&server), url(&server));
    for (options, column, ask, once, twice) in [
        (
            "--as bloom --rate 0.0001",
            "page",
            "BF.EXISTS",
            int(1),
            int(1),
        ),
        ("--as cuckoo", "page", "CF.COUNT", int(1), int(1)),
        (
            "--as cms --rate 0.001",
            "page",
            "CMS.QUERY",
            array([int(20)]),
            array([int(40)]),
        ),
        (
            "--as topk --k 20",
            "page",
            "TOPK.QUERY",
            array([int(1)]),
            array([int(1)]),
        ),
        (
            "--as tdigest --compression 1000",
            "ms",
            "TDIGEST.MAX",
            bulk("2019.5"),
            bulk("2019.5"),
        ),
    ] {
        let build = |options: &str| {
            let line = format!("build {log} --column {column} --to {to} --key k --json {options}");
            run_line(&line).json()
        };
        let report = build(&format!("{options} --ttl 1h"));
        assert_eq!(report["items"], 210, "{options}");
        let counts_new = options.contains("bloom") || options.contains("cuckoo");
        assert_eq!(
            report.get("new").and_then(serde_json::Value::as_u64),
            counts_new.then_some(20)
        );
        let answer = |client: &mut Client| {
            let item: &[u8] = b"page, 20";
            let words = [ask.as_bytes(), b"k", item];
            let words = if column == "ms" { &words[..2] } else { &words };
            client.call(words)
        };
        assert_eq!(answer(&mut client), once, "{options}");
        assert!(
            (3_500_000..=3_600_000).contains(&client.cmd("PTTL k").as_int()),
            "{options}"
        );
        // Replaced, it has the items of the file alone; added to, those of both.
        let held = build(&format!("{options} --replace"))["replaced"].clone();
        let due = match options {
            _ if counts_new => 20,
            "--as topk --k 20" => 20,
            _ => 210,
        };
        assert_eq!(held, due, "{options}");
        assert_eq!(answer(&mut client), once, "{options}");
        assert_eq!(client.cmd("PTTL k"), int(-1));
        assert_eq!(build("--add")["items"], 210, "{options}");
        assert_eq!(answer(&mut client), twice, "{options}");
        assert_eq!(client.cmd("DBSIZE"), int(1));
        assert_eq!(client.cmd("DEL k"), int(1));
    }
}

/// A filter of one item is made as small as the server makes it.
#[test]
fn a_single_item_makes_a_cuckoo_filter() {
    let server = Server::start();
    let path = server.dir().join("one");
    fs::write(&path, "item").expect("the folder can be written to");
    let (path, to) = (path.to_str().expect("ASCII"), url(&server));
    run_line(&format!("build {path} --as cuckoo --to {to} --key one")).done();
    assert_eq!(server.client().cmd("CF.EXISTS one item"), int(1));
}

/// Readers see the old sketch until the new one is whole, and a run that fails leaves the old one.
#[test]
fn a_sketch_is_in_place_at_once_or_not_at_all() {
    let server = Server::start();
    let mut client = server.client();
    let (log, to) = (table(&server), url(&server));
    assert_eq!(client.cmd("TDIGEST.CREATE ms"), ok());
    assert_eq!(client.cmd("TDIGEST.ADD ms 7"), ok());
    let mut reader = server.client();
    let way = Way::before(&server, "PERSIST", 1, move || {
        assert_eq!(reader.cmd("TDIGEST.MAX ms"), bulk("7"));
        let beside = left(&mut reader);
        assert!(matches!(beside[..], [(_, 1..=300_000)]), "{beside:?}");
    });
    let line = format!("build {log} --column ms --as tdigest --replace --key ms --to");
    run_line(&format!("{line} {}", way.url())).done();
    assert_eq!(client.cmd("TDIGEST.MAX ms"), bulk("2019.5"));

    let line = format!("build {log} --column page --as tdigest --replace --key ms --to {to}");
    let why = run_line(&line).failed(1);
    assert_eq!(why, format!("{log}, record 1 is not a number: \"page, 1\""));
    assert_eq!(client.cmd("TDIGEST.MAX ms"), bulk("2019.5"));
    // A sketch that the server does not take, a filter that is full.
    assert_eq!(
        client.cmd("CONFIG SET bf.bloom-memory-usage-limit 50000"),
        ok()
    );
    let line = format!("build {log} --as cms --rate 0.0001 --key big --to {to}");
    let why = run_line(&line).failed(1);
    let start = format!("could not build big at 127.0.0.1:{}: CMS: ", server.port());
    let end = "; raise bf.bloom-filter-max-memory-usage or bf.bloom-memory-usage-limit there, \
        whichever it exceeds";
    assert!(why.starts_with(&start) && why.ends_with(end), "{why}");
    assert_eq!(client.cmd("CF.RESERVE few 4 EXPANSION 0"), ok());
    let line = format!("build {log} --column page --add --key few --to {to}");
    let why = run_line(&line).failed(1);
    let end = "ERR the filter is full; build a larger one, with more --items";
    assert!(
        why.starts_with(&format!("could not add {log}, record ")),
        "{why}"
    );
    assert!(why.ends_with(end), "{why}");
    assert_eq!(client.cmd("DBSIZE"), int(2));
}

#[test]
fn what_a_key_holds_is_shown() {
    let server = Server::start();
    let mut client = server.client();
    let (log, to) = (table(&server), url(&server));
    let at = format!("127.0.0.1:{}", server.port());
    for (key, column, options) in [
        ("top", "page", "--as topk --k 3"),
        ("ms", "ms", "--as tdigest"),
        ("counts", "page", "--as cms --rate 0.01"),
        ("cuckoo", "page", "--as cuckoo"),
        ("bloom", "page", "--rate 0.01"),
    ] {
        let line = format!("build {log} --column {column} --to {to} --key {key} {options}");
        run_line(&line).done();
        let listed = run(&["list", &to, "--match", key, "--json"]).json();
        let mut shown = run(&["show", &to, key, "--json"]).json();
        let object = shown.as_object_mut().expect("an object");
        let contents = [object.remove("top"), object.remove("quantiles")];
        assert_eq!(shown, listed["keys"][0], "{key}");
        let held = contents.iter().flatten().count();
        assert_eq!(held, usize::from(["top", "ms"].contains(&key)), "{key}");
    }
    let top = run(&["show", &to, "top"]).done();
    let (figures, lines) = top.split_once("\n\n").expect("figures and contents");
    assert!(
        figures.starts_with("key       top\ntype      TopK-TYPE\nitems     3\n"),
        "{figures}"
    );
    assert_eq!(
        lines,
        "20  \"page, 20\"\n19  \"page, 19\"\n18  \"page, 18\"\n"
    );
    let ms = run(&["show", &to, "ms", "--json"]).json();
    let quantiles = ms["quantiles"].as_array().expect("a list");
    for pair in quantiles {
        let quantile = pair["quantile"].as_f64().expect("a number");
        let asked = client.cmd(&format!("TDIGEST.QUANTILE ms {quantile}"));
        let value: f64 = asked.as_array()[0].text().parse().expect("a number");
        assert_eq!(pair["value"].as_f64(), Some(value));
    }
    assert_eq!(
        (quantiles[0]["value"].as_f64(), quantiles.len()),
        (Some(100.5), 11)
    );

    // On a terminal there are bars, as wide as it allows.
    let shown = |key: &str| {
        let line = format!("stty cols 40; {} show {to} {key}", valkeybloom().display());
        of_terminal(&line, true).replace('\r', "")
    };
    let top = shown("top");
    let bars = |shown: &str| {
        let lines = shown.trim_end().lines().skip_while(|line| !line.is_empty());
        let bars = lines.skip(1).map(|line| {
            assert!(line.chars().count() <= 40, "{shown}");
            line.matches('█').count()
        });
        bars.collect::<Vec<_>>()
    };
    assert_eq!(bars(&top), [24, 22, 21], "{top}");
    let ms = bars(&shown("ms"));
    assert!(ms.is_sorted() && ms.len() == 11 && ms[10] == 22, "{ms:?}");

    // An empty digest has no quantiles, and an empty list no items.
    assert_eq!(client.cmd("TDIGEST.CREATE none"), ok());
    assert_eq!(client.cmd("TOPK.RESERVE nothing 3"), ok());
    for (key, field) in [("none", "quantiles"), ("nothing", "top")] {
        let shown = run(&["show", &to, key, "--json"]).json();
        assert_eq!(shown[field], serde_json::json!([]), "{key}");
        assert!(!run(&["show", &to, key]).done().contains("\n\n"), "{key}");
    }
    assert_eq!(client.cmd("SET text text"), ok());
    for (key, why) in [
        ("gone", format!("gone does not exist at {at}")),
        (
            "text",
            format!("text at {at} is no filter or sketch but of type string: name another key"),
        ),
    ] {
        assert_eq!(run(&["show", &to, key]).failed(1), why);
    }
}
