//! docs/t-digest.md has a row for each command, field of INFO and error.

use super::commands::syntax;
use super::sessions::Console;
use super::tables::table;
use super::{code, command_names, docs, field, page};
use crate::harness::{Reply, Server};

const PAGE: &str = "docs/t-digest.md";

#[test]
fn commands_match_the_server() {
    let server = Server::start();
    let mut client = server.client();
    let mark = "<!-- commands: held against COMMAND DOCS by a test -->";
    let mut names = Vec::new();
    for row in &table(PAGE, mark) {
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
    names.sort();
    assert_eq!(names, command_names(&mut client, "TDIGEST."));
}

#[test]
fn fields_of_info_match_the_server() {
    let server = Server::start();
    let mut client = server.client();
    client.cmd("TDIGEST.CREATE k");
    let info = client.cmd("TDIGEST.INFO k");
    let names = info.as_array().iter().step_by(2).map(Reply::text);
    let text = page(PAGE).text;
    let (_, fields) = text.split_once("`TDIGEST.INFO` returns:").expect("a table");
    let rows = super::table(fields);
    let described: Vec<&str> = rows.iter().flat_map(|row| code(&row[0])).collect();
    assert_eq!(described, names.collect::<Vec<_>>());
}

#[test]
fn errors_match_the_server() {
    let server = Server::start();
    for client in [server.client(), server.client3()] {
        let mut console = Console::new(client);
        console.reply("FLUSHALL");
        for key in ["k", "full"] {
            console.reply(&format!("TDIGEST.CREATE {key}"));
            console.reply(&format!("TDIGEST.ADD {key} 1"));
        }
        // From one value to 2⁶².
        for _ in 0..62 {
            let doubled = console.reply("TDIGEST.MERGE full 1 full");
            assert!(!doubled.is_error(), "{doubled:?}");
        }
        for row in table(PAGE, "<!-- errors: held against a server by a test -->") {
            let reply = console.reply(&row[1]);
            assert_eq!(reply, Reply::Error(row[0].clone()), "{}", row[1]);
        }
    }
}
