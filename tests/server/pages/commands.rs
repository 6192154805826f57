//! docs/commands.md has a section for each command, with what the server says of it.

use std::collections::BTreeSet;

use super::sessions::{Console, session};
use super::{code, command_names, docs, field, page, server, table};
use crate::harness::{Reply, Server};

const PAGE: &str = "docs/commands.md";

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

/// The words that an argument of COMMAND DOCS consists of or begins with.
fn tokens(argument: &Reply, into: &mut BTreeSet<String>) {
    into.extend(field(argument, "token").map(Reply::text));
    let parts = field(argument, "arguments").map_or(&[][..], Reply::as_array);
    parts.iter().for_each(|part| tokens(part, into));
}

/// The options that a section's table explains.
fn options(section: &str) -> BTreeSet<String> {
    let (_, options) = section.split_once("\n| option |").unwrap_or_default();
    let rows = table(&format!("| option |{options}")).into_iter();
    let names = rows.flat_map(|row| {
        code(&row[0])
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    names.collect()
}

#[test]
fn sections_say_what_the_server_documents() {
    let server = server();
    let mut client = server.client();
    let page = page(PAGE);
    let sections = page.sections();
    let mut described = Vec::new();
    for (name, section) in sections.iter().filter(|(name, _)| name.starts_with("BF.")) {
        described.push((*name).to_owned());
        let docs = docs(&mut client, name);
        let arguments = field(&docs, "arguments")
            .expect("it has arguments")
            .as_array();
        let mut words = vec![(*name).to_owned()];
        words.extend(arguments.iter().map(syntax));
        let start = format!(
            "\n`{}`\n\n{}\n",
            words.join(" "),
            field(&docs, "summary").expect("a summary").text()
        );
        assert!(section.starts_with(&start), "expected: {start}");
        let complexity = field(&docs, "complexity").expect("a complexity").text();
        let line = format!("\n**Complexity**: {complexity}\n");
        assert!(section.contains(&line), "{name}: expected {line}");

        let mut known = BTreeSet::new();
        arguments
            .iter()
            .for_each(|argument| tokens(argument, &mut known));
        assert_eq!(options(section), known, "options of {name}");
    }
    described.sort();
    assert_eq!(described, command_names(&mut client));
}

/// A reply's type in the words of the page.
fn kind(reply: &Reply) -> String {
    let of_one = |reply: &Reply| match reply {
        Reply::Int(_) => "integer",
        Reply::Bool(_) => "boolean",
        Reply::Bulk(_) => "bulk string",
        Reply::Simple(_) => "simple string",
        Reply::Map(_) => "map",
        Reply::Nil => "null",
        Reply::Array(_) => "array",
        other => panic!("what is {other:?}?"),
    };
    if let Reply::Array(replies) = reply {
        // A list that ends early ends in an error.
        let kinds = replies.iter().filter(|reply| !reply.is_error()).map(of_one);
        let kinds: Vec<&str> = kinds.collect::<BTreeSet<_>>().into_iter().collect();
        if let [kind] = kinds[..] {
            return format!("array of {kind}s");
        }
    }
    of_one(reply).to_owned()
}

/// The types that a section names for RESP2, and for RESP3; "an empty array" may come in both.
fn promised(section: &str) -> [BTreeSet<String>; 2] {
    let (_, reply) = section.split_once("\n**Reply**: ").expect("a reply");
    let (types, _) = reply.split_once('.').expect("the sentence ends");
    let (types, empty) = types.split_once(", or an empty ").unwrap_or((types, ""));
    let (of_resp2, of_resp3) = types.split_once(", in RESP3 ").unwrap_or((types, types));
    [of_resp2, of_resp3].map(|types| {
        let names = code(types)
            .into_iter()
            .chain(code(empty).into_iter().take(1));
        names.map(str::to_owned).collect()
    })
}

/// BF.INFO with a field is a list of one value in RESP2, whatever that is.
fn is_single_field(command: &str) -> bool {
    command.starts_with("BF.INFO ") && command.split(' ').count() == 3
}

#[test]
fn replies_have_the_types_that_the_page_names() {
    let server = server();
    let page = page(PAGE);
    for resp3 in [false, true] {
        for (name, section) in page.sections() {
            if !name.starts_with("BF.") {
                continue;
            }
            let client = if resp3 {
                server.client3()
            } else {
                server.client()
            };
            let mut console = Console::new(client);
            console.reply("FLUSHALL");
            let mut seen = BTreeSet::new();
            let blocks = page.blocks();
            for block in blocks.iter().filter(|block| block.section == name) {
                for (command, _) in session(block.text) {
                    let reply = console.reply(command);
                    let own = command.split(' ').next() == Some(name) && !is_single_field(command);
                    if own && !reply.is_error() {
                        seen.insert(kind(&reply));
                    }
                }
            }
            let [of_resp2, of_resp3] = promised(section);
            let promised = if resp3 { of_resp3 } else { of_resp2 };
            assert_eq!(seen, promised, "{name}, RESP3: {resp3}");
        }
    }
}

/// The rows of a section's table of errors: texts and commands.
fn errors(section: &str) -> Vec<(String, String)> {
    let Some((_, rows)) = section.split_once("\n| error | for example |\n") else {
        return Vec::new();
    };
    let rows = table(&format!("| error | for example |\n{rows}")).into_iter();
    rows.map(|row| {
        let only = |cell: &str| match code(cell)[..] {
            [text] => text.to_owned(),
            _ => panic!("one text: {cell}"),
        };
        (only(&row[0]), only(&row[1]))
    })
    .collect()
}

fn in_both_protocols(check: impl Fn(Console)) {
    for connect in [Server::client, Server::client3] {
        check(Console::new(connect(&server())));
    }
}

#[test]
fn errors_are_those_of_the_server() {
    let page = page(PAGE);
    let blocks = page.blocks();
    let setting = blocks.iter().find(|block| block.section == "Errors");
    let setting = session(setting.expect("the keys of the examples").text);
    in_both_protocols(|mut console| {
        for (command, _) in &setting {
            let reply = console.reply(command);
            assert!(!reply.is_error(), "{command}: {reply:?}");
        }
        for (name, section) in page.sections() {
            for (text, command) in errors(section) {
                // Those of every command stand above all sections.
                let own = command.split(' ').next() == Some(name) || name.is_empty();
                assert!(own, "{command} in the section of {name}");
                let reply = console.reply(&command);
                assert_eq!(reply, Reply::Error(text), "{command}");
            }
        }
    });
}

/// The texts in the source, of which some have gaps.
#[test]
fn no_error_is_missing() {
    let source = include_str!("../../../src/reply.rs");
    let codes = ["ERR ", "OOM ", "WRONGTYPE ", "BUSYKEY "];
    let texts = source.split('"').skip(1).step_by(2);
    let texts: Vec<&str> = texts
        .filter(|text| codes.iter().any(|code| text.starts_with(code)))
        .collect();
    assert!(texts.len() > 25, "they are found: {texts:?}");
    let page = page(PAGE).text;
    let told = code(&page);
    for text in texts {
        let is_text = |told: &&&str| match text.split_once('{') {
            None => **told == text || told.starts_with(&format!("{text} for '")),
            Some((start, rest)) => {
                let (_, end) = rest.split_once('}').expect("the gap ends");
                told.starts_with(start) && told.ends_with(end)
            }
        };
        assert!(told.iter().find(is_text).is_some(), "{text} is on no page");
    }
}
