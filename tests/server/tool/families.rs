//! `build --as` and `show`: sketches and cuckoo filters of files, and what they hold.

use crate::harness::{Server, array, bulk, int};
use crate::support::protocols::with_fixed_seed;

use super::session::replay;
use super::{Way, file, left, run, run_line, url};

/// A table of requests, in which a page is requested as often as its number says.
fn table(server: &Server) -> String {
    let requests = (1..=20).flat_map(|page| (0..page).map(move |request| (page, request)));
    let lines = requests.map(|(page, request)| {
        let ms = page * 100 + request;
        format!("{ms}.5,\"page,{page}\",\"a \"\"b\"\"\r\nc\"\r\n")
    });
    let table = "ms,page,note\r\n".to_owned() + &lines.collect::<String>();
    file(server, "log.csv", table)
}

#[test]
fn every_family_is_built_of_a_column_and_added_to() {
    let server = with_fixed_seed();
    table(&server);
    replay("families.txt", &[&server]);
}

/// As `list` describes it, and what is in it.
#[test]
fn what_a_key_holds_is_shown() {
    let server = with_fixed_seed();
    table(&server);
    replay("show.txt", &[&server]);
    for key in ["top", "ms", "counts", "cuckoo", "bloom"] {
        let listed = run(&["list", &url(&server), "--match", key, "--json"]).json();
        let mut shown = run(&["show", &url(&server), key, "--json"]).json();
        let object = shown.as_object_mut().expect("an object");
        object.retain(|field, _| !["top", "quantiles"].contains(&&field[..]));
        assert_eq!(shown, listed["keys"][0], "{key}");
    }
}

/// Readers see the old filter or sketch until the new one is whole.
#[test]
fn what_is_built_is_in_place_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let log = table(&server);
    let [first, last] = [[1, 0], [0, 1]].map(|found| array(found.map(int)));
    let (digest, filter) = ("--as tdigest", "--rate 1e-12 --change-kind");
    for (options, made, query, old, new) in [
        (
            digest,
            ["TDIGEST.CREATE k", "TDIGEST.ADD k 7"],
            "TDIGEST.MAX k",
            bulk("7"),
            bulk("2019.5"),
        ),
        (
            filter,
            ["BF.RESERVE k 0.01 10", "BF.ADD k old"],
            "BF.MEXISTS k old 2019.5",
            first,
            last,
        ),
    ] {
        client.run("FLUSHALL");
        client.run_all(made);
        let mut reader = server.client();
        // The last command before it is there. Those before create temporary keys, of a filter two.
        let last = if options == filter { 3 } else { 2 };
        let way = Way::before(&server, "EVAL", last, move || {
            reader.expect(query, old);
            let beside = left(&mut reader);
            assert!(matches!(beside[..], [(_, 1..=300_000)]), "{beside:?}");
        });
        let line = format!("build {log} --column ms {options} --replace --key k --to");
        run_line(&format!("{line} {}", way.url())).done();
        client.expect(query, &new);
    }
}
