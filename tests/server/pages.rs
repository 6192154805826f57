//! The README's tables say what the server says.

use crate::harness::{Client, Reply, Server};

const README: &str = include_str!("../../README.md");

/// The rows of the table behind a mark, split into cells, code marks and escapes taken off.
fn table(mark: &str) -> Vec<Vec<String>> {
    let (_, rest) = README.split_once(mark).expect("the README has this mark");
    let lines = rest
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<String>> = lines
        .skip(2)
        .map(|line| {
            let line = line.trim_matches('|').replace("\\|", "\u{1}");
            let cells = line.split('|').map(|cell| cell.trim().trim_matches('`'));
            cells.map(|cell| cell.replace('\u{1}', "|")).collect()
        })
        .collect();
    assert!(!rows.is_empty(), "no table behind {mark}");
    rows
}

/// A field of a flat array of names and values.
fn field<'r>(reply: &'r Reply, name: &str) -> Option<&'r Reply> {
    let flat = reply.as_array();
    let mut pairs = flat.chunks(2);
    pairs
        .find(|pair| pair[0].text() == name)
        .map(|pair| &pair[1])
}

/// An argument of COMMAND DOCS as a manual writes it.
fn syntax(argument: &Reply) -> String {
    let text = |name| field(argument, name).map(Reply::text);
    let parts = || {
        let parts = field(argument, "arguments").expect("it has parts");
        parts.as_array().iter().map(syntax).collect::<Vec<_>>()
    };
    let flags = field(argument, "flags").map_or(&[][..], Reply::as_array);
    let has = |flag: &str| flags.iter().any(|own| own.text() == flag);

    let mut written = match text("type").expect("every argument has a type").as_str() {
        "pure-token" => String::new(),
        "oneof" => parts().join(" | "),
        "block" => parts().join(" "),
        _ => text("name").expect("every argument has a name"),
    };
    if has("multiple") {
        written = format!("{written} [{written} ...]");
    }
    if let Some(token) = text("token") {
        let between = if written.is_empty() { "" } else { " " };
        written = format!("{token}{between}{written}");
    }
    if has("optional") {
        format!("[{written}]")
    } else {
        written
    }
}

fn docs(client: &mut Client, command: &str) -> Reply {
    let all = client.cmd(&format!("COMMAND DOCS {command}"));
    field(&all, command)
        .expect("the server documents it")
        .clone()
}

#[test]
fn the_commands() {
    let server = Server::start();
    let mut client = server.client();
    let rows = table("<!-- commands: held against COMMAND DOCS by a test -->");
    for row in &rows {
        let [written, summary] = &row[..] else {
            panic!("two cells: {row:?}");
        };
        let name = written.split(' ').next().expect("a command").to_lowercase();
        let docs = docs(&mut client, &name);
        let arguments = field(&docs, "arguments").expect("it has arguments");
        let mut words = vec![name.to_uppercase()];
        words.extend(arguments.as_array().iter().map(syntax));
        assert_eq!(*written, words.join(" "));
        assert_eq!(*summary, field(&docs, "summary").expect("a summary").text());
    }
    let listed = client.cmd("COMMAND LIST FILTERBY MODULE bf");
    assert_eq!(
        listed.as_array().len(),
        rows.len(),
        "every command has a row"
    );
}

#[test]
fn the_settings() {
    let server = Server::start();
    let mut client = server.client();
    let rows = table("<!-- settings: held against CONFIG GET by a test -->");
    let mut value = |name: &str| {
        let reply = client.cmd(&format!("CONFIG GET {name}"));
        reply.as_array().get(1).map(Reply::text)
    };
    for row in &rows {
        let default = Some(row[2].clone());
        assert_eq!(value(&row[0]), default, "{}", row[0]);
        if !row[1].is_empty() {
            assert_eq!(value(&row[1]), default, "{}", row[1]);
        }
    }
    let listed = client.cmd("CONFIG GET bf.*");
    assert_eq!(
        listed.as_array().len(),
        2 * rows.len(),
        "every setting has a row"
    );
}

#[test]
fn the_sizes() {
    let server = Server::start();
    let mut client = server.client();
    let mut info = |key: &str, name: &str| {
        let reply = client.cmd(&format!("BF.INFO {key} {name}"));
        reply.as_array()[0].as_int()
    };
    let mut connection = server.client();
    for row in table("<!-- sizes: held against BF.INFO by a test -->") {
        let rate = &row[0];
        let fits: i64 = row[4].replace(',', "").parse().expect("a number of items");
        for command in [
            format!("BF.RESERVE flat{rate} {rate} 1000000 NONSCALING"),
            format!("BF.RESERVE one{rate} {rate} 1000000"),
            format!("BF.RESERVE grown{rate} {rate} 1000"),
            format!("BF.RESERVE most{rate} {rate} {fits} NONSCALING"),
        ] {
            assert_eq!(connection.cmd(&command).text(), "OK", "{command}");
        }
        let over = format!("BF.RESERVE over{rate} {rate} {} NONSCALING", fits + 100);
        assert!(connection.cmd(&over).is_error(), "{over}");

        let mut item = 0_u64;
        while info(&format!("grown{rate}"), "ITEMS") < 1_023_000 {
            let lacking = 1_023_000 - info(&format!("grown{rate}"), "ITEMS");
            let batch = lacking.clamp(1, 5000);
            let items: Vec<String> = (0..batch)
                .map(|_| {
                    item += 1;
                    item.to_string()
                })
                .collect();
            connection.cmd(&format!("BF.MADD grown{rate} {}", items.join(" ")));
        }
        #[allow(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let mut per_item = |key: String| {
            let (bytes, capacity) = (info(&key, "SIZE"), info(&key, "CAPACITY"));
            format!("{:.2}", bytes as f64 / capacity as f64)
        };
        assert_eq!(row[1], per_item(format!("flat{rate}")), "{rate} NONSCALING");
        assert_eq!(row[2], per_item(format!("one{rate}")), "{rate} one filter");
        assert_eq!(row[3], per_item(format!("grown{rate}")), "{rate} grown");
        connection.cmd("FLUSHALL");
    }
}

#[test]
fn which_filter() {
    let server = Server::start();
    let mut client = server.client();
    for row in table("<!-- which: held against BF.INFO by a test -->") {
        assert_eq!(client.cmd(&row[1]).text(), "OK", "{}", row[1]);
        let info = client.cmd("BF.INFO key");
        let number = |name| field(&info, name).expect("it is told").as_int();
        #[allow(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let per_item = number("Size") as f64 / number("Capacity") as f64;
        assert_eq!(row[2], format!("{per_item:.2}"), "{}", row[1]);
        client.cmd("DEL key");
    }
}

/// A reply as the command line client writes it.
fn written(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "(nil)".to_owned(),
        Reply::Int(number) => format!("(integer) {number}"),
        Reply::Array(replies) => {
            let lines = replies.iter().enumerate();
            let lines = lines.map(|(index, reply)| format!("{}) {}", index + 1, written(reply)));
            lines.collect::<Vec<_>>().join("\n")
        }
        simple => simple.text(),
    }
}

#[test]
fn the_examples() {
    let server = Server::start();
    let mut client = server.client();
    let (_, rest) = README
        .split_once("<!-- examples: replayed by a test -->")
        .expect("the README has this mark");
    let (section, _) = rest.split_once("\n## ").expect("a section follows");
    let mut replayed = 0;
    for block in section.split("```text\n").skip(1) {
        let (block, _) = block.split_once("```").expect("the block ends");
        for exchange in block.split("> ").skip(1) {
            let (command, reply) = exchange.split_once('\n').expect("a reply follows");
            assert_eq!(written(&client.cmd(command)), reply.trim_end(), "{command}");
            replayed += 1;
        }
    }
    assert_eq!(replayed, section.matches("\n> ").count());
}
