//! `valkeybloom filter`, beside what the filters hold.

use super::*;

/// Each record is printed if its item was added, in the order of the file, wherever it is looked up.
#[test]
fn records_whose_items_are_in_a_filter_are_printed() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("BF.RESERVE bloom 0.000000001 100000");
    client.ok("BF.RESERVE window 0.000000001 100000 WINDOW 3600000 PERIODS 2");
    // Fingerprints of a byte claim some others: a server and a copy claim the same ones.
    client.ok("CF.RESERVE cuckoo 100000");
    let all = numbered("item", 0..30_000);
    let (added, others) = all.split_at(10_000);
    add(&mut client, "bloom", added);
    add(&mut client, "window", added);
    for batch in added.chunks(1000) {
        client.call_with("CF.INSERT cuckoo ITEMS", batch);
    }
    let rows = added.iter().zip(others).enumerate();
    let rows = rows.flat_map(|(id, (one, other))| {
        [other, one].map(|item| format!("{{\"item\":\"{item}\",\"id\":{id}}}\n"))
    });
    let rows: Vec<String> = rows.collect();
    let path = file(&server, "rows.jsonl", rows.concat());
    let expected = |skip: usize| -> String { rows.iter().skip(skip).step_by(2).cloned().collect() };
    let url = url(&server);
    let filter = |key: &str, options: &[&str]| {
        let words = [
            "filter", "-q", "--to", &url, "--key", key, "--field", "item", &path,
        ];
        run(&[&words[..], options].concat()).done()
    };
    for key in ["bloom", "window"] {
        assert!(filter(key, &[]) == expected(1), "{key}");
        assert!(filter(key, &["--not"]) == expected(0), "{key}");
        assert!(filter(key, &["--copy"]) == expected(1), "{key}");
        assert!(filter(key, &["--copy", "--not"]) == expected(0), "{key}");
    }
    let by_server = filter("cuckoo", &[]);
    assert!(filter("cuckoo", &["--copy"]) == by_server);
    let mut printed = by_server.lines();
    assert!(
        expected(1)
            .lines()
            .all(|row| printed.any(|other| other == row))
    );
}

/// A missing key answers as an empty filter does.
#[test]
fn a_filter_that_is_gone_during_the_run_ends_it() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("BF.RESERVE bloom 0.01 100000");
    client.ok("CF.RESERVE cuckoo 100000");
    let all = numbered("item", 0..200_000);
    let added: Vec<String> = all.iter().step_by(2).cloned().collect();
    add(&mut client, "bloom", &added);
    for batch in added.chunks(1000) {
        client.call_with("CF.INSERT cuckoo ITEMS", batch);
    }
    let path = lines(&server, "list", &all);
    for (key, option) in [
        ("bloom", "--json"),
        ("bloom", "--not"),
        ("cuckoo", "--json"),
        ("cuckoo", "--not"),
    ] {
        let filter = |to: &str| run(&["filter", &path, "-q", "--to", to, "--key", key, option]);
        let whole = filter(&url(&server)).done();
        let mut other = server.client();
        // In the second block.
        let way = Way::new(&server, 2_500_000, move || {
            other.ok(format!("RENAME {key} kept"));
        });
        let run = filter(&way.url());
        assert!(whole.starts_with(&run.out), "{key} {option}");
        let failed = run.failed(1);
        assert!(
            failed.starts_with(&format!("{key} does not exist at ")),
            "{failed}"
        );
        client.ok(format!("RENAME kept {key}"));
    }
}

#[test]
fn a_key_that_is_no_filter_is_named() {
    session::replay("filter-refused.txt", &[&Server::start()]);
}
