//! docs/cuckoo.md has a row for each command and setting, and for each error; docs/count-min.md for each setting.

use std::collections::BTreeMap;

use super::commands::{syntax, writes};
use super::sessions::Console;
use super::tables::table;
use super::{command_names, docs, field, page};
use crate::harness::{Reply, Server};

const PAGE: &str = "docs/cuckoo.md";

#[test]
fn commands_match_the_server() {
    let (_server, mut client) = Server::with_client();
    let rows = table(
        PAGE,
        "<!-- commands: held against COMMAND DOCS by a test -->",
    );
    let mut names = Vec::new();
    for row in &rows {
        let [written, summary] = &row[..] else {
            panic!("two cells: {row:?}");
        };
        let name = written.split(' ').next().expect("a command");
        let docs = docs(&mut client, name);
        let arguments = field(&docs, "arguments").expect("it has arguments");
        let mut words = vec![name.to_owned()];
        words.extend(arguments.as_array().iter().map(syntax));
        assert_eq!(*written, words.join(" "));
        assert_eq!(*summary, field(&docs, "summary").expect("a summary").text());
        names.push(name.to_owned());
    }
    let page = page(PAGE);
    let (_, repeated) = page.text.split_once("\n**Sent again**: ").expect("it");
    let (repeated, _) = repeated.split_once("\n\n").expect("a paragraph");
    for name in &names {
        let is_there = repeated.split([' ', '\n']).any(|word| word == name);
        assert_eq!(is_there, writes(&mut client, name), "{name} sent again");
    }
    names.sort();
    assert_eq!(names, command_names(&mut client, "CF."));
}

#[test]
fn settings_match_the_server() {
    let (_server, mut client) = Server::with_client();
    for (page, settings) in [(PAGE, "bf.cf-*"), ("docs/count-min.md", "bf.cms-*")] {
        let rows = table(page, "<!-- settings: held against CONFIG GET by a test -->");
        let rows = rows.into_iter().map(|row| (row[0].clone(), row[1].clone()));
        let reported = client.cmd(&format!("CONFIG GET {settings}"));
        let reported = reported
            .as_array()
            .chunks(2)
            .map(|pair| (pair[0].text(), pair[1].text()));
        assert_eq!(
            rows.collect::<BTreeMap<_, _>>(),
            reported.collect::<BTreeMap<_, _>>()
        );
    }
}

#[test]
fn errors_match_the_server() {
    let server = Server::start();
    for client in [server.client(), server.client3()] {
        let mut console = Console::new(client);
        console.reply("FLUSHALL");
        console.reply("CF.RESERVE full 4 EXPANSION 0");
        console.reply("CF.INSERT full ITEMS foo foo foo foo");
        console.reply("CF.RESERVE most 4");
        console.reply(&format!("CF.INSERT most ITEMS {}", ["foo"; 200].join(" ")));
        console.reply("CF.ADD k a");
        for row in table(PAGE, "<!-- errors: held against a server by a test -->") {
            // Tests cannot run out of memory, so that row has no command.
            if !row[1].is_empty() {
                let before = console.reply("DEBUG DIGEST");
                let reply = console.reply(&row[1]);
                assert_eq!(reply, Reply::Error(row[0].clone()), "{}", row[1]);
                assert_eq!(console.reply("DEBUG DIGEST"), before, "{}", row[1]);
            }
        }
    }
}
