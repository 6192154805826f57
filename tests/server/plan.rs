//! examples/plan.rs: how many items of a list are new to a filter, counted without adding them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::example;
use crate::harness::{Client, Server, digest, int, ok};
use crate::pages;

const KEY: &str = "addresses";

/// Address number `n`, as the example writes it.
fn address(n: u64) -> String {
    let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    format!("Name.{mixed:x}+{n}@mail{}.example.org", mixed % 997)
}

/// Returns the numbers of a list of 100,000 addresses below 70,000: some come more than once, some never.
fn numbers() -> impl Iterator<Item = u64> {
    let mut state = 1_u64;
    (0..100_000).map(move |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 70_000
    })
}

/// Returns the list as people would send it.
fn list() -> String {
    let mut lines = Vec::new();
    for (line, n) in numbers().enumerate() {
        let address = address(n);
        match line % 5 {
            0 => lines.push(format!("  {address}\t\r")),
            1 => lines.extend([address.replace("mail", "MAIL"), String::new()]),
            _ => lines.push(address),
        }
    }
    lines.join("\n")
}

fn call(client: &mut Client, command: &str, items: &[String]) -> crate::harness::Reply {
    let mut words = vec![command.as_bytes(), KEY.as_bytes()];
    words.extend(items.iter().map(String::as_bytes));
    client.call(&words)
}

/// Runs the example: its status, and its numbers by their names.
fn plan(server: &str, list: &Path, options: &[&str]) -> (i32, HashMap<String, i64>) {
    let output = Command::new(example::program("plan"))
        .arg(list)
        .args(["--server", server])
        .args(options)
        .output()
        .expect("the example runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors, "", "{options:?}");
    let reported = String::from_utf8_lossy(&output.stdout);
    let numbers = reported.lines().map(|line| {
        let (name, number) = line.rsplit_once(' ').expect("a name and a number");
        (name.trim().to_owned(), number.parse().expect("a number"))
    });
    let code = output.status.code().expect("it ends by itself");
    (code, numbers.collect())
}

#[test]
fn a_list_is_counted_without_writing_and_then_added() {
    let mut server = Server::start();
    let mut client = server.client();
    // A known seed, so that the claims are the same in every run; and small, so that it grows.
    let seed: Vec<u8> = (0..32).collect();
    let reserved = client.call(&[
        b"BF.INSERT",
        KEY.as_bytes(),
        b"CAPACITY",
        b"10000",
        b"ERROR",
        b"0.01",
        b"SEED",
        &seed,
    ]);
    assert!(!reserved.is_error(), "{reserved:?}");
    let known: Vec<String> = (40_000..80_000).map(address).collect();
    for batch in known.chunks(10_000) {
        assert!(!call(&mut client, "BF.MADD", batch).is_error());
    }
    let before = (digest(&mut client, KEY), client.cmd("BF.CARD addresses"));
    let card = before.1.as_int();

    // The true counts, by the server and by the example.
    let known: HashSet<String> = known.into_iter().collect();
    let items: Vec<String> = numbers().map(address).collect();
    let distinct: HashSet<&String> = items.iter().collect();
    let truly_new = distinct.iter().filter(|item| !known.contains(**item));
    let truly_new = i64::try_from(truly_new.count()).expect("a small number");
    let missing = call(&mut client, "BF.MISSING", &items).as_int();
    let mut once: Vec<String> = distinct.iter().copied().cloned().collect();
    once.sort();
    let in_batches: i64 = once
        .chunks(1000)
        .map(|batch| call(&mut client, "BF.MISSING", batch).as_int())
        .sum();
    assert_eq!(missing, in_batches);
    assert!(missing <= truly_new, "{missing} of {truly_new}");
    assert!(
        truly_new - missing <= truly_new / 100,
        "{missing} of {truly_new}"
    );

    // The example may only read.
    let user = client.cmd("ACL SETUSER reader on >secret ~* resetchannels -@all +bf.scandump");
    assert_eq!(user, ok());
    let reader = format!("redis://reader:secret@127.0.0.1:{}/", server.port());
    let writer = format!("redis://127.0.0.1:{}/", server.port());
    let file = server.dir().join("list.txt");
    fs::write(&file, list()).expect("the folder can be written to");
    let just = (card + missing).to_string();
    let short = (card + missing - 1).to_string();

    let (code, reported) = plan(&reader, &file, &["--limit", &just]);
    assert_eq!(code, 0);
    assert_eq!(reported["addresses in the list"], 100_000);
    assert_eq!(reported["distinct"], i64::try_from(distinct.len()).unwrap());
    assert_eq!(reported["in the filter"], card);
    assert_eq!(reported["new"], missing);
    assert!(reported.contains_key("limit, kept"), "{reported:?}");
    let predicted = reported["in the filter with them"];
    assert!(predicted > card && predicted <= card + missing);

    // Past the limit nothing is added; nor was anything before.
    let (code, reported) = plan(&writer, &file, &["--limit", &short, "--insert"]);
    assert_eq!(code, 1);
    assert!(reported.contains_key("limit, passed"), "{reported:?}");
    assert_eq!(
        before,
        (digest(&mut client, KEY), client.cmd("BF.CARD addresses"))
    );

    // A copy in a file gives the same answer, and is the filter.
    let saved = server.dir().join("saved");
    let path = saved.to_str().expect("a path of ASCII");
    let (_, reported) = plan(&reader, &file, &["--save", path]);
    assert_eq!(reported["new"], missing);
    let (_, reported) = plan("redis://nowhere/", &file, &["--load", path]);
    assert_eq!(reported["new"], missing);
    assert_eq!(reported["in the filter with them"], predicted);
    let dump = fs::read(&saved).expect("it was saved");
    assert_eq!(client.call(&[b"BF.LOAD", b"copy", &dump]), ok());
    assert_eq!(digest(&mut client, "copy"), before.0);

    let (code, reported) = plan(&writer, &file, &["--limit", &just, "--insert"]);
    assert_eq!(code, 0);
    assert_eq!(reported["on the server now"], predicted);
    assert_eq!(client.cmd("BF.CARD addresses"), int(predicted));
    assert_eq!(call(&mut client, "BF.MISSING", &items), int(0));

    // Once more, and after a restart: there is nothing new in it.
    server.restart_saving();
    let (code, reported) = plan(&writer, &file, &["--insert"]);
    assert_eq!((code, reported["new"]), (0, 0));
    assert_eq!(reported["on the server now"], predicted);
}

#[test]
fn an_uncertain_count_is_an_error() {
    // So small a filter claims the second item falsely with one seed in twenty, and then is not full.
    let server = Server::with(&[("bf.bloom-use-random-seed", "no")]);
    let mut client = server.client();
    let url = format!("redis://127.0.0.1:{}/", server.port());
    let file = server.dir().join("list.txt");
    fs::write(&file, "a@example.org\nb@example.org\n").expect("the folder can be written to");
    let refused = |list: &Path, why: &str| {
        let output = Command::new(example::program("plan"))
            .arg(list)
            .args(["--insert", "--server", &url])
            .output()
            .expect("the example runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(why), "{text}");
    };
    refused(&file, "not found");
    assert_eq!(client.cmd("SET addresses text"), ok());
    refused(&file, "WRONGTYPE");
    client.cmd("DEL addresses");
    assert_eq!(
        client.cmd("BF.RESERVE addresses 0.000001 1 NONSCALING"),
        ok()
    );
    refused(&file, "Full");
    assert_eq!(client.cmd("BF.CARD addresses"), int(0));
    refused(&server.dir().join("none"), "No such file");
}

/// docs/in-process.md, with the hash keys that its numbers are of.
#[test]
fn the_session_of_the_page() {
    let server = Server::with(&[("bf.bloom-use-random-seed", "no")]);
    let url = format!("redis://127.0.0.1:{}/", server.port());
    let page = "docs/in-process.md";
    let mut reported = Vec::new();
    for line in pages::block(page, "", "sh").lines() {
        let (line, _) = line.split_once(" #").unwrap_or((line, ""));
        if let Some(command) = line.strip_prefix("redis-cli ") {
            assert_eq!(server.client().cmd(command.trim_end()), ok());
        } else if let Some((_, options)) = line.split_once("--example plan -- ") {
            let output = Command::new(example::program("plan"))
                .args(options.split(' '))
                .args(["--server", &url])
                .current_dir(server.dir())
                .output()
                .expect("the example runs");
            reported.push(String::from_utf8(output.stdout).expect("a text"));
        } else if line.contains("seq ") {
            let shell = Command::new("sh")
                .args(["-c", line])
                .current_dir(server.dir())
                .status();
            assert!(shell.is_ok_and(|status| status.success()), "{line}");
        } else {
            assert_eq!(line.trim_end(), "./build.sh serve");
        }
    }
    assert_eq!(reported.join("\n"), pages::block(page, "", "text"));
}

/// The program of docs/in-process.md, which is an example, sends back what the server would hold after the same commands.
#[test]
fn a_filter_is_fetched_and_sent_back() {
    let source = include_str!("../../examples/library.rs");
    let (_, program) = source
        .split_once("\n\n")
        .expect("a program below its description");
    assert_eq!(
        program,
        pages::block("docs/in-process.md", "As a library", "rust")
    );
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.RESERVE seen 0.000001 10"), ok());
    // Three filters, each of them in a chunk of its own.
    for n in 0..50 {
        assert_eq!(client.cmd(&format!("BF.ADD seen {n}")), int(1));
    }
    assert_eq!(client.cmd("COPY seen expected"), int(1));
    let output = Command::new(example::program("library"))
        .arg(format!("redis://127.0.0.1:{}/", server.port()))
        .args(["7", "new", "new"])
        .output()
        .expect("the example runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let reported = String::from_utf8(output.stdout).expect("a text");
    let expected = "found: true\nfound: false\nfound: false\n\
        added: Ok(Present)\nadded: Ok(New)\nadded: Ok(Present)\n";
    assert_eq!(reported, expected);
    assert_eq!(client.cmd("BF.ADD expected new"), int(1));
    assert_eq!(digest(&mut client, "seen"), digest(&mut client, "expected"));
    assert_eq!(client.cmd("DBSIZE"), int(2));
}
