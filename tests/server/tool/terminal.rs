//! Progress of the program: a bar on a terminal, lines elsewhere, colours where they are wanted.

use std::fs;
use std::process::{Command, Stdio};

use crate::example::valkeybloom;
use crate::harness::Server;

use super::{add, lines, numbered, run, run_line, url};

/// Returns the output on a terminal.
fn on_terminal(words: &str, no_color: bool) -> String {
    of_terminal(&format!("{} {words}", valkeybloom().display()), no_color)
}

/// Returns the output of a line of a shell on a terminal.
fn of_terminal(line: &str, no_color: bool) -> String {
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
    let list = lines(&server, "list", &numbered("item", 0..300_000));
    let to = url(&server);
    let words = format!("build {list} --to {to} --key seen --rate 0.01 --replace");
    let shown = on_terminal(&words, false);
    for step in ["counting", "filling", "sending"] {
        let bar = format!("{step} [==============================] 100 %  ");
        assert!(shown.contains(&bar), "{shown}");
    }
    for part in ["300,000 items, ", "/s, 0s left"] {
        assert!(shown.contains(part), "{shown}");
    }

    let plain = run_line(&words);
    let steps: Vec<&str> = plain.err.lines().collect();
    assert_eq!(steps.len(), 3, "{}", plain.err);
    let ends = ["filling: 300,000 items, ", "/s, done"];
    let is_filling = steps[1].starts_with(ends[0]) && steps[1].ends_with(ends[1]);
    assert!(is_filling, "{}", steps[1]);
    assert!(!plain.err.contains('\r') && !plain.err.contains('\u{1b}'));
    let quiet = run_line(&format!("{words} --quiet"));
    assert_eq!((&quiet.out[..], &quiet.err[..]), ("", ""));
    // JSON is alone on its stream.
    run_line(&format!("{words} --json")).json();
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    assert!(on_terminal("size --help", false).contains('\u{1b}'));
    assert!(!on_terminal("size --help", true).contains('\u{1b}'));
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
        let example = format!("\n  valkeybloom {name} ");
        let begins = help.contains(&format!("Examples:{example}")) || name == "build";
        assert!(begins && help.contains(&example), "{help}");
        let page = page(&format!("valkeybloom-{name}.1"));
        assert!(page.contains("Examples:"), "{name}");
    }
    assert!(page("_valkeybloom").starts_with("#compdef valkeybloom"));
    assert!(page("valkeybloom.fish").contains("complete -c valkeybloom"));
    let version = concat!("valkeybloom ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run(&["--version"]).done(), version);
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
        let is_row = |line: &&str| line.starts_with("key") || line.starts_with('x');
        let rows = shown.lines().filter(is_row);
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
