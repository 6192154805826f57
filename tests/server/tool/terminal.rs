//! Progress of the program: a bar on a terminal, lines elsewhere, colours where they are wanted.

use std::fs;
use std::process::{Command, Stdio};

use crate::example::valkeybloom;
use crate::harness::Server;

use super::{add, command, ended, numbered, run, url};

/// Returns the output on a terminal.
fn on_terminal(words: &[&str], no_color: bool) -> String {
    let line = format!("{} {}", valkeybloom().display(), words.join(" "));
    of_terminal(&line, no_color)
}

/// Returns the output of a line of a shell on a terminal.
pub fn of_terminal(line: &str, no_color: bool) -> String {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", line, "/dev/null"]);
    script
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    if no_color {
        script.env("NO_COLOR", "1");
    }
    let output = script.output().expect("script is there");
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn progress_is_a_bar_on_a_terminal_and_lines_elsewhere() {
    let server = Server::start();
    let list = server.dir().join("list");
    fs::write(&list, numbered("item", 0..300_000).join("\n"))
        .expect("the folder can be written to");
    let list = list.to_str().expect("ASCII");
    let address = url(&server);
    let words = [
        "build",
        list,
        "--to",
        &address,
        "--key",
        "seen",
        "--rate",
        "0.01",
        "--replace",
    ];
    let shown = on_terminal(&words, false);
    for step in ["counting", "filling", "sending"] {
        assert!(
            shown.contains(&format!("{step} [==============================] 100 %  ")),
            "{shown}"
        );
    }
    assert!(
        shown.contains("300,000 items, ") && shown.contains("/s, 0s left"),
        "{shown}"
    );

    let plain = run(&words);
    let lines: Vec<&str> = plain.err.lines().collect();
    assert_eq!(lines.len(), 3, "{}", plain.err);
    assert!(
        lines[1].starts_with("filling: 300,000 items, ") && lines[1].ends_with("/s, done"),
        "{}",
        lines[1]
    );
    assert!(!plain.err.contains('\r') && !plain.err.contains('\u{1b}'));
    let quiet = run(&[&words[..], &["--quiet"]].concat());
    assert_eq!((&quiet.out[..], &quiet.err[..]), ("", ""));
    // JSON is alone on its stream.
    run(&[&words[..], &["--json"]].concat()).json();
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    assert!(on_terminal(&["size", "--help"], false).contains('\u{1b}'));
    assert!(!on_terminal(&["size", "--help"], true).contains('\u{1b}'));
    assert!(!run(&["size", "--help"]).done().contains('\u{1b}'));
}

#[test]
fn every_subcommand_has_help_with_examples_and_pages() {
    let server = Server::start();
    let folder = server.dir().join("pages");
    run(&["pages", folder.to_str().expect("ASCII")]).done();
    let page = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
    for name in [
        "size", "build", "remove", "move", "compare", "list", "show", "watch",
    ] {
        let help = run(&[name, "--help"]).done();
        assert!(
            help.contains(&format!("Examples:\n  valkeybloom {name} ")) || name == "build",
            "{help}"
        );
        assert!(help.contains(&format!("\n  valkeybloom {name} ")), "{help}");
        assert!(
            page(&format!("valkeybloom-{name}.1")).contains("Examples:"),
            "{name}"
        );
    }
    assert!(page("_valkeybloom").starts_with("#compdef valkeybloom"));
    assert!(page("valkeybloom.fish").contains("complete -c valkeybloom"));
    let version = ended(command(&["--version"])).done();
    assert_eq!(
        version,
        format!("valkeybloom {}\n", env!("CARGO_PKG_VERSION"))
    );
}

/// The key is cut to what the other columns leave of the terminal, and keeps eight columns however narrow it is.
#[test]
fn a_table_fits_its_terminal() {
    let server = Server::start();
    let key = "x".repeat(100);
    add(&mut server.client(), &key, &numbered("item", 0..3));
    let table = |width: usize| {
        let program = valkeybloom().display().to_string();
        let line = format!("stty cols {width}; {program} list {} --quiet", url(&server));
        let shown = of_terminal(&line, true);
        let rows = shown
            .lines()
            .filter(|line| line.starts_with("key") || line.starts_with('x'));
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    for (width, cell) in [(90, "xx…xx"), (10, "xxxx…xxx  ")] {
        let [head, row] = &table(width)[..] else {
            panic!("not a row and its head")
        };
        assert!(row.contains(cell), "{row}");
        assert_eq!(head.chars().count(), row.chars().count());
        assert!(width == 10 || row.chars().count() <= width, "{row}");
    }
    assert!(table(300)[1].starts_with(&key));
}
