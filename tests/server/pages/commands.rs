//! Each command has a section on a page, with what the server says of it.

use std::collections::BTreeSet;

use super::sessions::{Console, session};
use super::{Page, code, command_names, docs, field, page, table};
use crate::harness::{Client, Reply, Server};
use crate::support::commands::{self, Access};
use crate::support::protocols::with_fixed_seed;

/// The pages whose sections are commands.
const PAGES: &[&str] = &["docs/commands.md"];

/// Returns whether a heading is the name of a command.
fn is_command(heading: &str) -> bool {
    let (prefix, name) = heading.split_once('.').unwrap_or_default();
    let mut letters = prefix.chars().chain(name.chars());
    !prefix.is_empty() && letters.all(|letter| letter.is_ascii_uppercase() || letter == '_')
}

/// Returns an argument of COMMAND DOCS as a manual writes it.
pub fn syntax(argument: &Reply) -> String {
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

/// Collects the words that an argument of COMMAND DOCS consists of or begins with.
fn tokens(argument: &Reply, into: &mut BTreeSet<String>) {
    into.extend(field(argument, "token").map(Reply::text));
    let parts = field(argument, "arguments").map_or(&[][..], Reply::as_array);
    for part in parts {
        tokens(part, into);
    }
}

/// Returns the options that a section's table explains.
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
    let server = with_fixed_seed();
    let mut client = server.client();
    let pages: Vec<Page> = PAGES.iter().map(|path| page(path)).collect();
    let sections = pages.iter().flat_map(Page::sections);
    let mut described = Vec::new();
    for (name, section) in sections.filter(|(name, _)| is_command(name)) {
        described.push(name.to_owned());
        let docs = docs(&mut client, name);
        let arguments = field(&docs, "arguments")
            .expect("it has arguments")
            .as_array();
        let mut words = vec![name.to_owned()];
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
        let repeats = section.contains("\n**Sent again**: ");
        assert_eq!(repeats, writes(&mut client, name), "{name} sent again");

        let mut known = BTreeSet::new();
        for argument in arguments {
            tokens(argument, &mut known);
        }
        assert_eq!(options(section), known, "options of {name}");
    }
    described.sort();
    let families = ["BF.", "CMS.", "TDIGEST.", "TOPK."];
    let expected = families.map(|prefix| command_names(&mut client, prefix));
    assert_eq!(described, expected.concat());
}

/// Returns whether a command may change a key.
pub fn writes(client: &mut Client, name: &str) -> bool {
    let info = client.cmd(&format!("COMMAND INFO {name}"));
    let flags = &info.as_array()[0].as_array()[2];
    flags.as_array().iter().any(|flag| flag.text() == "write")
}

#[test]
fn fields_of_info_have_their_names() {
    let server = with_fixed_seed();
    let mut client = server.client();
    let page = page("docs/commands.md");
    let sections = page.sections();
    // A filter with a window has all fields but those of one that is being read. The table of the section has their names
    // in this column.
    for (creations, info, column) in [
        (
            &[
                "BF.RESERVE filter 0.01 100 WINDOW 1000 PERIODS 2",
                "BF.RESERVE read 0.01 100",
                "BF.READ read $",
            ][..],
            "BF.INFO filter ALL",
            1,
        ),
        (&["TDIGEST.CREATE digest"], "TDIGEST.INFO digest", 0),
    ] {
        for line in creations {
            client.cmd(line);
        }
        let reply = client.cmd(info);
        let read = client.cmd("BF.INFO read ALL");
        let of_feed = read.as_array().iter().step_by(2).map(Reply::text);
        let of_feed = of_feed.filter(|name| column == 1 && name.starts_with("Feed "));
        let names = reply.as_array().iter().step_by(2).map(Reply::text);
        let names = names.chain(of_feed);
        let command = info.split(' ').next();
        let section = sections.iter().find(|(name, _)| Some(*name) == command);
        let (_, section) = section.expect("a section");
        // ALL is an option, and not a field.
        let rows = table(section).into_iter();
        let rows = rows.filter(|row| !row[column].is_empty());
        let described = rows.map(|row| row[column].trim_matches('`').to_owned());
        assert_eq!(described.collect::<Vec<_>>(), names.collect::<Vec<_>>());
    }
}

/// Returns a reply's type in the words of the page.
fn kind(reply: &Reply) -> String {
    let of_one = |reply: &Reply| match reply {
        Reply::Int(_) => "integer",
        Reply::Bool(_) => "boolean",
        Reply::Double(_) => "double",
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

/// Returns the types that a section names for RESP2, and for RESP3; "an empty array" may come in both.
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
    command.starts_with("BF.INFO ") && command.split(' ').count() == 3 && !command.ends_with(" ALL")
}

#[test]
fn replies_have_the_types_that_the_page_names() {
    let server = with_fixed_seed();
    let pages: Vec<Page> = PAGES.iter().map(|path| page(path)).collect();
    let sections = || pages.iter().flat_map(Page::sections);
    for (name, section) in sections().filter(|(name, _)| is_command(name)) {
        let clients = [server.client(), server.client3()];
        for ((protocol, client), promised) in (2..).zip(clients).zip(promised(section)) {
            let mut console = Console::new(client);
            console.reply("FLUSHALL");
            let mut seen = BTreeSet::new();
            let blocks = pages.iter().flat_map(Page::blocks);
            for block in blocks.filter(|block| block.section == name) {
                for (command, _) in session(block.text) {
                    let reply = console.reply(command);
                    let own = command.split(' ').next() == Some(name) && !is_single_field(command);
                    if own && !reply.is_error() {
                        seen.insert(kind(&reply));
                    }
                }
            }
            assert_eq!(seen, promised, "{name} in RESP{protocol}");
        }
    }
}

/// Returns the rows of a section's table of errors: texts and commands.
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

/// A refused command changes nothing.
#[test]
fn errors_are_those_of_the_server() {
    let pages: Vec<Page> = PAGES.iter().map(|path| page(path)).collect();
    for (page, connect) in pages.iter().flat_map(|page| {
        let protocols: [fn(&Server) -> Client; 2] = [Server::client, Server::client3];
        protocols.map(|connect| (page, connect))
    }) {
        let server = with_fixed_seed();
        let mut console = Console::new(connect(&server));
        // The keys of the examples.
        for block in page
            .blocks()
            .iter()
            .filter(|block| block.section == "Errors")
        {
            for (command, _) in session(block.text) {
                let reply = console.reply(command);
                assert!(!reply.is_error(), "{command}: {reply:?}");
            }
        }
        for (name, section) in page.sections() {
            for (text, command) in errors(section) {
                // Errors of every command precede all sections.
                let own = command.split(' ').next() == Some(name) || name.is_empty();
                assert!(own, "{command} in the section of {name}");
                let before = console.reply("DEBUG DIGEST");
                let reply = console.reply(&command);
                assert_eq!(reply, Reply::Error(text), "{command}");
                assert_eq!(console.reply("DEBUG DIGEST"), before, "{command}");
            }
        }
    }
}

#[test]
fn commands_that_write_at_maxmemory_are_named() {
    let removing = commands::all().filter(|command| matches!(command.access, Access::Remove));
    let removing: Vec<_> = removing
        .map(|command| command.name().to_uppercase())
        .collect();
    let text = page("docs/commands.md").text;
    let (_, named) = text.split_once("except for ").expect("the exceptions");
    let (named, _) = named.split_once(". ").expect("the end of a sentence");
    assert_eq!(code(named), removing);
}

/// The texts in the source, some with placeholders.
#[test]
fn no_error_is_missing() {
    let source = concat!(
        include_str!("../../../crates/protocol/src/error.rs"),
        include_str!("../../../crates/protocol/src/cms.rs"),
        include_str!("../../../crates/protocol/src/cuckoo.rs"),
        include_str!("../../../crates/protocol/src/tdigest.rs"),
        include_str!("../../../crates/protocol/src/topk.rs")
    );
    let codes = ["ERR ", "OOM ", "WRONGTYPE ", "BUSYKEY "];
    let texts = source.split('"').skip(1).step_by(2);
    let texts: Vec<&str> = texts
        .filter(|text| codes.iter().any(|code| text.starts_with(code)))
        .collect();
    assert!(texts.len() > 25, "they are found: {texts:?}");
    let paths = PAGES.iter().chain(&["docs/cuckoo.md"]);
    let pages: Vec<Page> = paths.map(|path| page(path)).collect();
    let written: Vec<&str> = pages.iter().flat_map(|page| code(&page.text)).collect();
    for text in texts {
        let is_text = |written: &&&str| match text.split_once('{') {
            None => **written == text || written.starts_with(&format!("{text} for '")),
            Some((start, rest)) => {
                let (_, end) = rest.rsplit_once('}').expect("the last gap ends");
                written.starts_with(start) && written.ends_with(end)
            }
        };
        assert!(
            written.iter().find(is_text).is_some(),
            "{text} is on no page"
        );
    }
}
