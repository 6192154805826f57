//! The pages, README.md and docs/: what their tables, links and sessions say is so.

mod commands;
mod cuckoo;
mod links;
mod pictures;
mod sessions;
pub mod tables;

use std::fs;
use std::path::PathBuf;

pub use sessions::block;

use crate::harness::{Client, Reply};

/// A page by its path in the repository.
struct Page {
    path: String,
    text: String,
}

/// A fenced block.
struct Block<'p> {
    /// The heading above it.
    section: &'p str,
    language: &'p str,
    text: &'p str,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn page(path: &str) -> Page {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    Page {
        path: path.to_owned(),
        text,
    }
}

/// README.md and the pages of docs/.
fn pages() -> Vec<Page> {
    let docs = fs::read_dir(root().join("docs")).expect("there is a folder");
    let names = docs.map(|entry| PathBuf::from(entry.expect("it can be read").file_name()));
    let names = names.filter(|name| name.extension().is_some_and(|end| end == "md"));
    let mut paths: Vec<String> = names
        .map(|name| format!("docs/{}", name.display()))
        .collect();
    paths.push("README.md".to_owned());
    paths.sort();
    paths.iter().map(|path| page(path)).collect()
}

impl Page {
    /// Sections of the second level: heading and text, the text before the first heading under "".
    fn sections(&self) -> Vec<(&str, &str)> {
        let mut parts = self.text.split("\n## ");
        let intro = ("", parts.next().expect("split gives one part"));
        let sections = parts.map(|part| part.split_once('\n').expect("text below the heading"));
        std::iter::once(intro).chain(sections).collect()
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        let sections = self.sections().into_iter();
        sections
            .flat_map(|(section, text)| {
                let fenced = text.split("\n```").skip(1).step_by(2);
                fenced.map(move |block| {
                    let (language, text) = block.split_once('\n').expect("a fence ends its line");
                    Block {
                        section,
                        language,
                        text,
                    }
                })
            })
            .collect()
    }
}

/// Returns the rows below the head of the first table in a text, split into cells.
fn table(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|line| {
        let line = line.trim_matches('|').replace("\\|", "\u{1}");
        let cells = line.split('|').map(str::trim);
        cells.map(|cell| cell.replace('\u{1}', "|")).collect()
    })
    .collect()
}

/// Returns the parts of a cell in backticks.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Returns a field of a flat array of names and values.
fn field<'r>(reply: &'r Reply, name: &str) -> Option<&'r Reply> {
    let mut pairs = reply.as_array().chunks(2);
    let pair = pairs.find(|pair| pair[0].text() == name);
    pair.map(|pair| &pair[1])
}

/// Returns the reply of COMMAND DOCS for a command.
fn docs(client: &mut Client, command: &str) -> Reply {
    let command = command.to_lowercase();
    let all = client.cmd(&format!("COMMAND DOCS {command}"));
    let docs = field(&all, &command);
    docs.unwrap_or_else(|| panic!("{command} is documented"))
        .clone()
}

/// Returns the names of the module's commands that begin so, in capitals and in order.
fn command_names(client: &mut Client, prefix: &str) -> Vec<String> {
    let listed = client.cmd("COMMAND LIST FILTERBY MODULE bf");
    let names = listed.as_array().iter().map(Reply::text);
    let mut names: Vec<String> = names.map(|name| name.to_uppercase()).collect();
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    names
}
