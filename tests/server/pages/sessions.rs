//! Sessions on the pages have the server's replies, and every other fenced block is checked, too.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use super::{page, pages, root};
use crate::example::valkeybloom_http;
use crate::harness::{Client, Reply, error};
use crate::support::protocols::with_fixed_seed;

/// The placeholder of a page for bytes that are not worth printing. The next command that has it sends them.
const LEFT_OUT: &str = "\"…\"";

/// Replays what was typed into the servers' command line client.
pub struct Console {
    client: Client,
    left_out: Vec<u8>,
}

impl Console {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            left_out: Vec::new(),
        }
    }

    /// Types a line, and requires the reply that a page has.
    #[track_caller]
    pub fn type_in(&mut self, line: &str, expected: &str) {
        let reply = self.reply(line);
        let mut shown = written(&reply, 0);
        if expected.contains(LEFT_OUT) {
            shown = shown.replace(&quoted(&self.left_out), LEFT_OUT);
        }
        assert_eq!(shown, expected, "{line}");
    }

    /// Types a line.
    #[track_caller]
    pub fn reply(&mut self, line: &str) -> Reply {
        let words = words(line, &self.left_out);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reply = self.client.call(&words);
        if let Reply::Array(replies) = &reply {
            let first = replies.iter().find_map(|reply| match reply {
                Reply::Bulk(bytes) if !bytes.is_empty() => Some(bytes),
                _ => None,
            });
            if let Some(bytes) = first {
                self.left_out.clone_from(bytes);
            }
        }
        reply
    }
}

/// Returns the commands and replies of a block; the list is empty if the block is not a session.
pub fn session(block: &str) -> Vec<(&str, &str)> {
    let Some(typed) = block.strip_prefix("> ") else {
        return Vec::new();
    };
    let exchanges = typed.split("\n> ");
    exchanges
        .map(|exchange| exchange.split_once('\n').expect("a reply follows"))
        .collect()
}

/// Returns the words of a line, as the client takes them apart.
fn words(line: &str, left_out: &[u8]) -> Vec<Vec<u8>> {
    let (mut words, mut rest) = (Vec::new(), line);
    while !rest.is_empty() {
        let (word, behind) = if let Some(behind) = rest.strip_prefix(LEFT_OUT) {
            (left_out.to_vec(), behind)
        } else if let Some(text) = rest.strip_prefix('"') {
            unquoted(text)
        } else {
            let (word, behind) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
            (word.into(), behind)
        };
        words.push(word);
        rest = behind.strip_prefix(' ').unwrap_or(behind);
    }
    words
}

/// Returns the bytes up to the quote that ends them, and the text after it.
fn unquoted(text: &str) -> (Vec<u8>, &str) {
    let (mut bytes, mut rest) = (Vec::new(), text);
    loop {
        let end = rest.find(['"', '\\']).expect("the quote ends");
        bytes.extend(rest[..end].bytes());
        let escape = rest[end..].strip_prefix('\\');
        let Some(escape) = escape else {
            return (bytes, &rest[end + 1..]);
        };
        let digits = escape.strip_prefix('x').expect("the only escape on a page");
        bytes.push(u8::from_str_radix(&digits[..2], 16).expect("two digits"));
        rest = &digits[2..];
    }
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

/// Returns a reply of RESP2 as the client writes it, in a list that is indented so far.
fn written(reply: &Reply, indent: usize) -> String {
    match reply {
        Reply::Nil => "(nil)".to_owned(),
        Reply::Int(number) => format!("(integer) {number}"),
        Reply::Error(text) => format!("(error) {text}"),
        Reply::Bulk(bytes) => quoted(bytes),
        Reply::Array(replies) if replies.is_empty() => "(empty array)".to_owned(),
        Reply::Array(replies) => {
            let width = replies.len().to_string().len();
            let inner = indent + width + 2;
            let lines = replies
                .iter()
                .enumerate()
                .map(|(index, reply)| format!("{:>width$}) {}", index + 1, written(reply, inner)));
            let between = format!("\n{}", " ".repeat(indent));
            lines.collect::<Vec<_>>().join(&between)
        }
        other => other.text(),
    }
}

#[test]
fn sessions_are_what_the_server_says() {
    let server = with_fixed_seed();
    let mut replayed = 0;
    for page in pages() {
        let mut last = None;
        let mut console = Console::new(server.client());
        for block in page.blocks() {
            // Each section starts with an empty server.
            if last.replace(block.section) != Some(block.section) {
                console.type_in("FLUSHALL", "OK");
            }
            if block.language == "text" {
                for (command, reply) in session(block.text) {
                    console.type_in(command, reply);
                    replayed += 1;
                }
            }
        }
    }
    assert!(replayed > 100, "{replayed} commands were found");
}

/// Blocks that are neither sessions nor lines for a shell, how many, and the tests that replay them.
const ELSEWHERE: &[(&str, &str, usize, &str)] = &[
    ("crates/javascript/README.md", "js", 1, "tools/js.sh"),
    ("crates/javascript/README.md", "text", 1, "tools/js.sh"),
    ("crates/python/README.md", "python", 2, "of crates/python"),
    (
        "crates/sketches/README.md",
        "rust",
        1,
        "Readme, of crates/sketches",
    ),
    ("docs/builds.md", "python", 5, "sharded, of crates/python"),
    ("docs/c.md", "c", 2, "tools/c.sh"),
    ("docs/c.md", "go", 1, "tools/c.sh"),
    ("docs/c.md", "js", 1, "tests/clients/node/lines.js"),
    ("docs/c.md", "php", 1, "tools/c.sh"),
    ("docs/c.md", "ruby", 1, "tools/c.sh"),
    ("docs/commands.md", "lua", 1, "scripting"),
    ("docs/container.md", "dockerfile", 1, "deployments"),
    ("docs/http.md", "text", 2, "http"),
    ("docs/in-process.md", "rust", 1, "plan"),
    ("docs/in-process.md", "toml", 1, "pages"),
    ("docs/javascript.md", "html", 1, "tools/js.sh"),
    ("docs/javascript.md", "js", 6, "tools/js.sh"),
    ("docs/javascript.md", "text", 5, "tools/js.sh"),
    ("docs/moving-in.md", "console", 7, "tool::rehearsed"),
    ("docs/near.md", "python", 4, "of crates/python"),
    ("docs/near.md", "rust", 1, "NearPage, of crates/client"),
    ("docs/near.md", "text", 3, "of crates/python"),
    ("docs/once.md", "python", 1, "of crates/python"),
    ("docs/once.md", "rust", 1, "OncePage, of crates/client"),
    ("docs/python.md", "python", 5, "of crates/python"),
    ("docs/recipes.md", "python", 14, "recipes, of crates/python"),
    ("docs/recipes.md", "text", 7, "recipes, of crates/python"),
    ("docs/releasing.md", "ini", 1, "tools/package-test.sh"),
    ("docs/releasing.md", "text", 1, "tools/package-test.sh"),
    ("docs/sharded.md", "js", 1, "sharded"),
    ("docs/sharded.md", "python", 2, "sharded, of crates/python"),
    ("docs/tool.md", "console", 20, "tool::manual"),
    ("docs/tool.md", "text", 1, "tool::grants"),
    ("docs/unique.md", "console", 7, "tool::manual"),
    ("docs/vectors.md", "json", 1, "vectors"),
];

#[test]
fn every_block_is_checked() {
    let mut others: BTreeMap<(String, String), usize> = BTreeMap::new();
    let crates = fs::read_dir(root().join("crates")).expect("there is a folder");
    let names = crates.map(|entry| entry.expect("it can be read").file_name());
    let readmes = names.map(|name| format!("crates/{}/README.md", name.display()));
    let readmes = readmes.filter(|path| root().join(path).exists());
    for page in pages().into_iter().chain(readmes.map(|path| page(&path))) {
        for block in page.blocks() {
            match block.language {
                "sh" => block.text.lines().for_each(check_shell_line),
                "text" if !session(block.text).is_empty() => {}
                language => {
                    let place = (page.path.clone(), language.to_owned());
                    *others.entry(place).or_default() += 1;
                }
            }
        }
    }
    let expected = ELSEWHERE.iter();
    let expected = expected
        .map(|(page, language, count, _)| ((String::from(*page), String::from(*language)), *count));
    assert_eq!(others, expected.collect());
}

/// Requires that build.sh has the command, that cargo has the example or the bench, or that it is a line that
/// another test replays.
#[track_caller]
fn check_shell_line(line: &str) {
    let (line, _) = line.split_once(" #").unwrap_or((line, ""));
    let words: Vec<&str> = line.split_whitespace().collect();
    let behind = |word: &str| {
        let at = words.iter().position(|own| *own == word);
        at.and_then(|at| words.get(at + 1)).copied()
    };
    let is_known = match words[..] {
        // Nothing, what takes the module to where a server is, or what tests in plan, tool, crates/python and
        // tools/package-test.sh run.
        []
        | [
            "#" | "gpg" | "npm" | "pip" | "valkey-server" | "seq" | "(seq" | "valkeybloom",
            ..,
        ] => true,
        ["./build.sh", command, ..] => {
            let script = page("build.sh").text;
            let (_, commands) = script.split_once("\ncase $command in").expect("a list");
            commands.contains(&format!("\n    {command}) "))
        }
        ["cargo", "install", ..] => {
            let folder = behind("--path").expect("a folder of this workspace");
            let manifest = page(&format!("{folder}/Cargo.toml")).text;
            manifest.contains("[[bin]]")
        }
        ["cargo", ..] => {
            let name = behind("--example").map(|name| format!("examples/{name}"));
            let package = behind("-p").and_then(|name| name.strip_prefix("valkeybloom-"));
            let folder = package.map_or(String::new(), |name| format!("crates/{name}/"));
            let name = name.or(behind("--bench").map(|name| format!("{folder}benches/{name}")));
            let name = name.unwrap_or_else(|| panic!("no program: {line}"));
            let files = [format!("{name}.rs"), format!("{name}/main.rs")];
            files.iter().any(|file| root().join(file).exists())
        }
        ["valkeybloom-http", ..] => {
            let help = Command::new(valkeybloom_http()).arg("--help").output();
            let help = String::from_utf8(help.expect("the program runs").stdout).expect("a text");
            let mut options = words.iter().filter(|word| word.starts_with("--"));
            options.all(|option| help.contains(&format!(" {option} ")))
        }
        // The unit, its configuration in the packages, and a file of the user's own.
        ["systemctl", .., unit] => root().join(format!("crates/http/{unit}.service")).exists(),
        ["install", .., from, _] => {
            let name = from.strip_prefix("/usr/share/doc/valkeybloom/examples/");
            let file = name.map_or(from.into(), |name| root().join("crates/http").join(name));
            file.exists()
        }
        ["docker", ..] => root().join("Dockerfile").exists(),
        ["redis-cli", ..] => {
            // The types of other modules have no name here.
            let reply = with_fixed_seed().client().cmd(&words[1..].join(" "));
            let unknown = format!("ERR unknown type name '{}'", words[words.len() - 1]);
            !reply.is_error() || reply == error(&unknown)
        }
        _ => false,
    };
    assert!(is_known, "{line}");
}

#[test]
fn the_library_has_the_documented_name_and_the_documented_client() {
    let text = page("docs/in-process.md");
    let blocks = text.blocks();
    let block = blocks.iter().find(|block| block.language == "toml");
    let line = block.expect("a block").text.lines().last().expect("a line");
    let manifest = page("crates/sketches/Cargo.toml").text;
    let (name, _) = line.split_once(" = { path = ").expect("a dependency");
    assert!(
        manifest.contains(&format!("\nname = \"{name}\"\n")),
        "{line}"
    );
    assert!(line.contains("/crates/sketches\""), "{line}");
    let workspace = page("Cargo.toml").text;
    let (_, version) = workspace
        .split_once("\nredis = { version = ")
        .expect("a dependency");
    let (version, _) = version.split_once(',').expect("features");
    for text in [text.text, page("docs/near.md").text] {
        assert!(text.contains(&format!("redis = {version}")), "{version}");
    }
}

/// Returns the fenced block of a section in this language that is not a session of commands.
pub fn block(path: &str, section: &str, language: &str) -> String {
    let page = page(path);
    let mut blocks = page.blocks().into_iter().filter(|block| {
        block.section == section && block.language == language && session(block.text).is_empty()
    });
    let block = blocks.next().expect("there is such a block");
    format!("{}\n", block.text)
}
