//! `valkeybloom watch` on a terminal, played by `script`.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use vt100::Parser;

use crate::example::valkeybloom;
use crate::harness::{Server, int, wait_until};

use super::fake_server::scanned;
use super::{add, numbered, url};

/// The program on a terminal.
struct Terminal {
    script: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<Parser>>,
    folder: PathBuf,
}

impl Terminal {
    fn start(server: &Server, address: &str, (width, height): (u16, u16), options: &str) -> Self {
        let folder = server.dir().to_owned();
        let line = format!(
            "trap : HUP; stty cols {width} rows {height}; stty -g >{0}/before; sh -c 'echo $$ >{0}/pid; exec {1} watch {address} \
             {options}' 2>{0}/errors; echo $? >{0}/status; stty -g >{0}/after",
            folder.display(),
            valkeybloom().display()
        );
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script is there");
        let keyboard = script.stdin.take().expect("a pipe");
        let mut out = script.stdout.take().expect("a pipe");
        let screen = Arc::new(Mutex::new(Parser::new(
            height.min(1000),
            width.min(1000),
            0,
        )));
        let shown = Arc::clone(&screen);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                shown.lock().expect("no panic").process(&buffer[..count]);
            }
        });
        Self {
            script,
            keyboard,
            screen,
            folder,
        }
    }

    fn text(&self) -> String {
        let screen = self.screen.lock().expect("no panic");
        let (_, width) = screen.screen().size();
        let rows = screen.screen().rows(0, width);
        rows.collect::<Vec<_>>().join("\n")
    }

    #[track_caller]
    fn wait_for(&self, what: &str, condition: impl Fn(&str) -> bool) {
        let mut last = String::new();
        wait_until(what, || {
            let text = self.text();
            if text != last {
                eprintln!("--- waiting: {what}\n{text}");
                last = text;
            }
            condition(&last)
        });
    }

    fn press(&mut self, keys: &str) {
        self.keyboard
            .write_all(keys.as_bytes())
            .expect("the terminal is there");
        self.keyboard.flush().expect("the terminal is there");
    }

    fn pid(&self) -> String {
        let pid = fs::read_to_string(self.folder.join("pid")).expect("it has started");
        pid.trim().to_owned()
    }

    /// Waits for the end, requires that the terminal is as it was, and returns the status.
    #[track_caller]
    fn ended(mut self) -> i32 {
        wait_until("the program ends", || {
            self.script.try_wait().expect("it runs").is_some()
        });
        let file = |name: &str| fs::read_to_string(self.folder.join(name)).expect("it was written");
        assert_eq!(file("before"), file("after"));
        wait_until("the screen is restored", || {
            let screen = self.screen.lock().expect("no panic");
            !screen.screen().alternate_screen() && !screen.screen().hide_cursor()
        });
        file("status").trim().parse().expect("a number")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The program ends with its terminal.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// Returns the first words of the lines with rows.
fn rows(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let rows = lines
        .get(2..lines.len().saturating_sub(1))
        .unwrap_or_default();
    rows.iter()
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn keys_scroll_sort_and_filter() {
    let server = Server::start();
    let mut client = server.client();
    for number in 0..30 {
        let items = numbered("item", 0..number + 1);
        add(&mut client, &format!("key:{number:02}"), &items);
    }
    let mut terminal = Terminal::start(&server, &url(&server), (100, 13), "--interval 100ms");
    // Ten rows fit. `s` sorts by type, then by items. A filter is typed, erased, dropped and typed again.
    for (keys, first, last, part) in [
        ("", "key:00", "key:09", "  by key"),
        ("\x1b[6~", "key:10", "key:19", ""),
        ("\x1b[F", "key:20", "key:29", ""),
        ("\x1b[A", "key:19", "key:28", ""),
        ("\x1b[H", "key:00", "key:09", ""),
        ("ss", "key:29", "key:20", ""),
        ("r", "key:00", "key:09", "  by items ↑  30 keys, "),
        // Control keys but Ctrl-C do nothing: Ctrl-Q, Ctrl-R and Ctrl-S.
        (
            "\x11\x12\x13/x\x7f:\x11\x12\x131",
            "key:10",
            "key:19",
            "\n/:1",
        ),
        ("\x1b", "key:00", "key:09", ""),
        ("/:2\r", "key:20", "key:29", "  10 shown  30 keys, "),
    ] {
        terminal.press(keys);
        terminal.wait_for(&format!("{first} to {last} after {keys:?}"), |text| {
            let rows = rows(text);
            let ends = (rows.len() == 10).then(|| (rows[0], rows[9]));
            ends == Some((first, last)) && text.contains(part)
        });
    }
    // Changes arrive, with their number per second.
    add(&mut client, "key:20", &numbered("other", 0..1000));
    terminal.wait_for("a change", |text| {
        text.lines()
            .any(|line| line.starts_with("key:20") && line.contains('+'))
    });
    terminal.press("q");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn named_keys_are_watched() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["one", "two", "three"] {
        add(&mut client, key, &numbered("item", 0..3));
    }
    let options = "one two none --interval 100ms";
    let mut terminal = Terminal::start(&server, &url(&server), (80, 10), options);
    terminal.wait_for("two keys", |text| rows(text) == ["one", "two"]);
    client.expect("DEL one", int(1));
    terminal.wait_for("one key", |text| rows(text) == ["two"]);
    terminal.press("\x03");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_small_terminal_has_the_first_columns() {
    let server = Server::start();
    // Wide characters take two columns of a terminal.
    for key in ["a-key-with-a-long-name", "日本語テキスト"] {
        add(&mut server.client(), key, &numbered("item", 0..3));
    }
    for (size, shown) in [
        // The last columns go, and the key has what is left.
        ((45, 5), "key       type       items  items/s  capacity\n"),
        ((45, 5), "a-ke…ame  bloomfltr      3"),
        ((44, 5), "key                type       items  items/s\n"),
        ((44, 5), "a-key-wi…ong-name  bloomfltr      3"),
        ((20, 5), "a-ke…name  bloomfltr"),
        ((8, 4), "a-ke…ame"),
        ((8, 5), "日本…ト"),
        ((8, 2), "arro…end"),
        ((1, 1), "…"),
    ] {
        let mut terminal = Terminal::start(&server, &url(&server), size, "");
        terminal.wait_for("what fits", |text| text.contains(shown));
        terminal.press("\x1b");
        assert_eq!(terminal.ended(), 0);
    }
}

/// Each cell of a screen takes memory, so a part of an absurd one is drawn.
#[test]
fn a_terminal_may_claim_any_size() {
    let server = Server::start();
    add(&mut server.client(), "seen", &numbered("item", 0..3));
    let mut terminal = Terminal::start(&server, &url(&server), (65_535, 65_535), "");
    terminal.wait_for("the row", |text| rows(text).contains(&"seen"));
    terminal.press("q");
    assert_eq!(terminal.ended(), 0);
}

/// Every way out leaves the terminal as it was.
#[test]
fn signals_restore_the_terminal() {
    let server = Server::start();
    add(&mut server.client(), "seen", &numbered("item", 0..3));
    for signal in ["-TERM", "-HUP", "-INT"] {
        let terminal = Terminal::start(&server, &url(&server), (80, 10), "");
        terminal.wait_for("the row", |text| rows(text) == ["seen"]);
        let kill = Command::new("kill")
            .args([signal, &terminal.pid()])
            .status();
        assert!(kill.expect("kill is there").success());
        assert_eq!(terminal.ended(), 0, "{signal}");
    }
}

/// A terminal goes with the program that plays it, whatever signals that sends.
#[test]
fn a_terminal_that_goes_away_ends_it() {
    let server = Server::start();
    add(&mut server.client(), "seen", &numbered("item", 0..3));
    // Errors can't be written then, as for a user who closes a window.
    let terminal = Terminal::start(&server, &url(&server), (80, 10), "2>/dev/tty");
    terminal.wait_for("the row", |text| rows(text) == ["seen"]);
    let process = Path::new("/proc").join(terminal.pid());
    assert!(process.exists());
    let status = terminal.folder.join("status");
    drop(terminal);
    wait_until("the program ends", || !process.exists());
    let mut ended = String::new();
    wait_until("the shell notes how", || {
        ended = fs::read_to_string(&status).unwrap_or_default();
        ended.ends_with('\n')
    });
    // It notices the signal or the loss first.
    assert!(["0\n", "1\n"].contains(&&*ended), "{ended}");
}

#[test]
fn a_lost_connection_is_reported_and_made_again() {
    let mut server = Server::start();
    add(&mut server.client(), "seen", &numbered("item", 0..3));
    server.client().ok("SAVE");
    let mut terminal = Terminal::start(&server, &url(&server), (120, 10), "--interval 50ms");
    terminal.wait_for("the row", |text| rows(text) == ["seen"]);
    server.kill();
    terminal.wait_for("the loss", |text| {
        text.contains("connecting again: ") && rows(text) == ["seen"]
    });
    server.start_again();
    terminal.wait_for("the row again", |text| {
        !text.contains("connecting again") && rows(text) == ["seen"]
    });
    server.kill();
    terminal.wait_for("the loss", |text| text.contains("connecting again: "));
    terminal.press("q");
    assert_eq!(terminal.ended(), 0);
}

/// Another attempt would fail as well.
#[test]
fn a_lasting_failure_ends_it() {
    let server = Server::start();
    let mut client = server.client();
    add(&mut client, "seen", &numbered("item", 0..3));
    let errors = || fs::read_to_string(server.dir().join("errors")).expect("it was written");
    let endless = scanned(&["*2\r\n$1\r\n5\r\n*0\r\n"]);
    assert_eq!(Terminal::start(&server, &endless, (80, 10), "").ended(), 1);
    assert_eq!(
        errors(),
        format!("valkeybloom: could not list the keys of {endless}: SCAN does not end there\n")
    );
    let url = format!("redis://watcher:first@127.0.0.1:{}", server.port());
    for (changes, why) in [
        (&["ACL SETUSER watcher -scan"][..], ": NOPERM "),
        (
            &[
                "ACL SETUSER watcher resetpass >second",
                "CLIENT KILL USER watcher",
            ],
            ": the server refuses user and password",
        ),
    ] {
        client.ok("ACL SETUSER watcher reset on >first ~* +@all");
        let terminal = Terminal::start(&server, &url, (80, 10), "--interval 20ms");
        terminal.wait_for("the row", |text| rows(text) == ["seen"]);
        client.run_all(changes);
        assert_eq!(terminal.ended(), 1);
        assert!(errors().contains(why), "{}", errors());
    }
}

/// While nothing changes, nothing is drawn.
#[test]
fn only_changes_are_drawn() {
    let server = Server::start();
    let mut client = server.client();
    add(&mut client, "seen", &numbered("item", 0..3));
    let mut terminal = Terminal::start(&server, &url(&server), (80, 10), "--interval 20ms");
    terminal.wait_for("a second listing", |text| text.contains("+0.0"));
    // From now on, it has what is drawn.
    *terminal.screen.lock().expect("no panic") = Parser::new(10, 80, 0);
    let commands = || -> u64 {
        let stats = server.info("stats");
        stats["total_commands_processed"].parse().expect("a number")
    };
    let first = commands();
    wait_until("ten more listings", || commands() > first + 200);
    assert_eq!(terminal.text().trim(), "");
    terminal.press("q");
    assert_eq!(terminal.ended(), 0);
}

/// A server that isn't there is reported before the screen is touched.
#[test]
fn a_server_that_is_not_there_is_reported() {
    let server = Server::start();
    let terminal = Terminal::start(&server, "127.0.0.1:1", (80, 10), "");
    assert_eq!(terminal.ended(), 1);
    let errors = fs::read_to_string(server.dir().join("errors")).expect("it was written");
    let start = "valkeybloom: could not connect to 127.0.0.1:1: ";
    assert!(errors.starts_with(start), "{errors}");
}
