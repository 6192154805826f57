//! `valkeybloom unique`, beside sets of lines and the system's own programs.

mod refused;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_valkeybloom");

fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["unique", "--quiet"]).stdin(Stdio::null());
    command
}

/// A folder of files, which goes with it.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), bytes).expect("it can be written");
        self.path(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("it is there")
    }

    fn command(&self, words: &str) -> Command {
        let mut command = program();
        command.current_dir(self.0.path());
        command.args(words.split(' '));
        command
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().expect("it runs")
    }

    #[track_caller]
    fn done(&self, words: &str) -> Vec<u8> {
        let output = self.run(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {errors}");
        output.stdout
    }

    /// Returns the error of a run with status 1.
    #[track_caller]
    fn failed(&self, words: &str) -> String {
        failure_of(&self.run(words))
    }

    /// Returns what a line of a shell prints.
    fn shell(&self, line: &str) -> Vec<u8> {
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", line]).current_dir(self.0.path()).output();
        output.expect("there is a shell").stdout
    }
}

#[track_caller]
fn failure_of(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let text = errors.strip_prefix("valkeybloom: ").expect("an error");
    text.trim_end().to_owned()
}

/// Returns lines of which a share has come before, the same ones for a seed.
fn lines(count: usize, different: u64, mut seed: u64) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..count {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let number = (seed >> 33) % different;
        let width = (number % 40) as usize;
        writeln!(text, "{number:0width$}").expect("memory takes all");
    }
    text
}

/// Returns the first of equal lines.
fn firsts(text: &[u8]) -> Vec<u8> {
    let mut seen = HashSet::new();
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines
        .filter(|line| seen.insert(*line))
        .flatten()
        .copied()
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).expect("memory takes all");
    packed.finish().expect("memory takes all")
}

#[test]
fn lines_are_those_of_a_set_and_of_awk_for_any_number_of_threads() {
    let files = Files::new();
    let text = lines(400_000, 150_000, 1);
    files.write("list", &text);
    let expected = firsts(&text);
    assert!(files.shell("awk '!s[$0]++' list") == expected);
    for threads in ["1", "2", "3", "8"] {
        assert!(files.done(&format!("list --threads {threads}")) == expected);
    }
    files.write("unique", &expected);
    assert!(files.shell("LC_ALL=C sort unique") == files.shell("LC_ALL=C sort -u list"));
    let counts = files.done("list --count");
    files.write("counts", counts);
    let sorted = files.shell("LC_ALL=C sort -k2 counts");
    assert!(sorted == files.shell("LC_ALL=C sort list | uniq -c | LC_ALL=C sort -k2"));
    assert!(files.done("list --duplicates") == files.shell("awk 's[$0]++' list"));
}

#[test]
fn files_are_one_list_and_those_that_are_known_come_before() {
    let files = Files::new();
    let parts: Vec<_> = (0..4).map(|seed| lines(30_000, 40_000, seed)).collect();
    for (part, name) in parts.iter().zip(["a", "b", "c", "d"]) {
        files.write(name, part);
    }
    assert!(files.done("a b c d") == firsts(&parts.concat()));
    let expected =
        files.shell("awk 'FILENAME ~ /[ab]/ { s[$0] = 1 } FILENAME ~ /[cd]/ && !s[$0]++' a b c d");
    assert!(!expected.is_empty());
    assert!(files.done("--known a --known b c d") == expected);
    // A known line is none of the input's, and the second of two equal ones is a duplicate.
    files.write("known", "x\ny\n");
    files.write("list", "x\nz\nz\ny\nw\n");
    assert_eq!(files.done("--known known list"), b"z\nw\n");
    assert_eq!(files.done("--known known list --duplicates"), b"x\nz\ny\n");
}

#[test]
fn lines_are_bytes_and_get_their_last_end() {
    let files = Files::new();
    for (text, expected) in [
        (&b""[..], &b""[..]),
        (b"\n\n\n", b"\n"),
        (b"a", b"a\n"),
        (b"a\nb\na", b"a\nb\n"),
        (
            b"\xff\xfe\x80\n\xff\n\xff\xfe\x80\n",
            b"\xff\xfe\x80\n\xff\n",
        ),
        (b"a\r\na\nb\nb\r\n", b"a\r\nb\n"),
        (b" a\na\n", b" a\na\n"),
        (b"\xef\xbb\xbfa\na\n", b"a\n"),
    ] {
        // The two first bytes of UTF-16 are refused at the beginning.
        let text = [b"first\n", text].concat();
        let expected = [b"first\n", expected].concat();
        files.write(
            "list",
            &text[usize::from(text[6..].starts_with(b"\xef")) * 6..],
        );
        let expected = &expected[usize::from(text[6..].starts_with(b"\xef")) * 6..];
        assert_eq!(files.done("list"), expected, "{text:?}");
    }
    files.write("zeros", b"a\nb\0c\0a\nb\0\0\0c");
    assert_eq!(files.done("-0 zeros"), b"a\nb\0c\0\0");
}

#[test]
fn the_field_of_a_line_and_the_column_of_a_record_are_items() {
    let files = Files::new();
    files.write(
        "a.jsonl",
        "{\"t\":\"A\",\"n\":1}\n{\"t\":\"\\u0041\",\"n\":2}\n\n{\"t\":\"B\"}\n{\"t\":2}\n{\"t\":2}",
    );
    let expected = b"{\"t\":\"A\",\"n\":1}\n{\"t\":\"B\"}\n{\"t\":2}\n";
    assert_eq!(files.done("--field t a.jsonl"), expected);
    files.write("b.jsonl", "{\"t\":1}\n{}\n{\"t\":null}\nno\n{\"t\":1}\n");
    let failed = files.failed("--field t b.jsonl");
    assert_eq!(failed, "could not read b.jsonl, line 2: it has no field t");
    let failed = files.failed("--field t --missing drop b.jsonl");
    let expected = "could not read b.jsonl, line 4: it is not JSON: expected ident, column 2";
    assert_eq!(failed, expected);
    for (options, expected) in [
        ("--missing drop --bad drop", "{\"t\":1}\n"),
        ("--missing keep --bad drop", "{\"t\":1}\n{}\n{\"t\":null}\n"),
        ("--missing drop --bad keep", "{\"t\":1}\nno\n"),
        ("--missing drop --bad drop --duplicates", "{\"t\":1}\n"),
        ("--missing drop --bad drop --count", "      2 {\"t\":1}\n"),
    ] {
        let found = files.done(&format!("--field t b.jsonl {options}"));
        assert_eq!(String::from_utf8_lossy(&found), expected, "{options}");
    }
    files.write("c.csv", "id,url\r\n1,\"a\nb\"\r\n2,c\r\n3,\"a\nb\"\r\n");
    files.write("d.csv", "id,url\n4,c\n5,d\n6,\"d\"");
    let expected = "id,url\r\n1,\"a\nb\"\r\n2,c\r\n5,d\n";
    let found = files.done("--column url c.csv d.csv");
    assert_eq!(String::from_utf8_lossy(&found), expected);
    files.done("--column url c.csv d.csv --out out");
    assert_eq!(files.read("out/c.csv"), b"id,url\r\n1,\"a\nb\"\r\n2,c\r\n");
    assert_eq!(files.read("out/d.csv"), b"id,url\n5,d\n");
    files.write("e.csv", "url,id\nx,1\n");
    files.write("two.tsv", "id\turl\nx\t1\n");
    files.write("three.tsv", "id\turl\t\nx\t2\t3\n");
    for others in ["c.csv e.csv", "three.tsv two.tsv"] {
        let failed = files.failed(&format!("--column url {others}"));
        assert!(
            failed.contains("different names in their first lines"),
            "{failed}"
        );
    }
    for digit in "0123456789abcdef".chars() {
        files.write("f", format!("x{digit}z\ny{digit}z\n"));
        let found = files.done(&format!("--column 2 --delimiter {digit} f"));
        assert_eq!(found, format!("x{digit}z\n").as_bytes());
    }
}

#[test]
fn each_input_has_a_file_that_is_compressed_as_it_is() {
    let files = Files::new();
    let parts: Vec<_> = (0..3).map(|seed| lines(20_000, 30_000, seed)).collect();
    files.write("plain", &parts[0]);
    files.write("list.gz", gzip(&parts[1]));
    files.write("empty.gz", gzip(b""));
    files.write(
        "list.zst",
        zstd::encode_all(&parts[2][..], 1).expect("memory takes all"),
    );
    files.done("plain list.gz empty.gz list.zst --out made/out");
    let mut whole = files.shell("cd made/out && cat plain && gzip -dc list.gz");
    let zst = files.read("made/out/list.zst");
    whole.extend(zstd::decode_all(&zst[..]).expect("it is zstd"));
    assert!(whole == firsts(&parts.concat()));
    let line = "gzip -dc made/out/empty.gz && echo is gzip";
    assert_eq!(files.shell(line), b"is gzip\n");
    // Two runs do not write into one folder.
    let lock = File::open(files.path("made/out")).expect("a folder");
    lock.lock().expect("it can be locked");
    let failed = files.failed("plain --out made/out");
    assert_eq!(failed, "another run is writing into made/out");
    let failed = files.failed("plain --state made/out");
    assert_eq!(failed, "another run is writing into made/out");
    // Not by dropping it: a child that another test has just forked may still have it.
    lock.unlock().expect("it is locked");
    // Nothing else is left, and nothing is written over.
    let names = b"empty.gz\nlist.gz\nlist.zst\nplain\n";
    assert_eq!(files.shell("ls -A made/out"), names);
    let failed = files.failed("plain --out made/out");
    assert!(failed.starts_with("made/out/plain exists"), "{failed}");
    let failed = files.failed("made/out/plain --out made/out");
    assert!(failed.starts_with("made/out/plain exists"), "{failed}");
}

#[test]
fn a_run_that_is_killed_goes_on_and_writes_the_same() {
    let kills = std::env::var("KILLS").map_or(20, |kills| kills.parse().expect("a number"));
    let files = Files::new();
    let names = ["a", "b.gz", "c", "d"];
    let parts: Vec<_> = (0..4).map(|seed| lines(15_000, 22_000, seed)).collect();
    for (name, part) in names.iter().zip(&parts) {
        let packed = if name.ends_with("gz") {
            gzip(part)
        } else {
            part.clone()
        };
        files.write(name, packed);
    }
    files.done("a b.gz c d --out expected");
    let mut seed = 7_u64;
    let mut killed = 0;
    while killed < kills {
        // Until the folder is whole, which a kill after the last step does not change.
        loop {
            let mut child = files
                .command("a b.gz c d --out out")
                .spawn()
                .expect("it runs");
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let reads = seed >> 56;
            // The number of bytes that the process has read is its clock.
            let io = format!("/proc/{}/io", child.id());
            let is_running = |child: &mut Child| child.try_wait().expect("it is a child").is_none();
            while is_running(&mut child) && read_bytes(&io) < reads * 10_000 {
                thread::yield_now();
            }
            child.kill().expect("it can be killed");
            let status = child.wait().expect("it ends");
            // All files have their names, and the state is removed.
            if status.success() || files.shell("ls -A out") == b"a\nb.gz\nc\nd\n" {
                break;
            }
            killed += 1;
        }
        for name in names {
            assert!(files.read(&format!("out/{name}")) == files.read(&format!("expected/{name}")));
        }
        fs::remove_dir_all(files.path("out")).expect("it is there");
    }
}

/// Returns how many bytes a process has read; all, if it has ended.
fn read_bytes(io: &str) -> u64 {
    let text = fs::read_to_string(io).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|bytes| bytes.parse().ok())
        .unwrap_or(u64::MAX)
}

#[test]
fn one_pass_drops_what_its_filter_claims() {
    let files = Files::new();
    let text = lines(200_000, 100_000, 5);
    files.write("list", &text);
    let expected = firsts(&text);
    for threads in ["1", "3"] {
        let found = files.done(&format!("list --one-pass --threads {threads}"));
        assert!(found == expected);
    }
    assert!(files.shell(&format!("cat list | {PROGRAM} unique -q -")) == expected);
    let others = files.shell("awk 's[$0]++' list");
    assert!(files.done("list --one-pass --duplicates") == others);
    // At a rate of a half, many are lost, and the figures say so.
    let found = files.done("list --one-pass --rate 0.5 --json --dry-run");
    let found: serde_json::Value = serde_json::from_slice(&found).expect("it is JSON");
    let lines = expected.split_inclusive(|byte| *byte == b'\n').count() as u64;
    let kept = found["kept"].as_u64().expect("a number");
    assert!(
        kept < lines && found["wrongly_dropped"].as_f64().expect("a number") > 0.0,
        "{found}"
    );
    assert_eq!(found["records"], 200_000);
}

/// The lines of docs/recipes.md, with files of its names.
#[test]
fn the_recipe_removes_the_duplicates_of_a_corpus() {
    const RECIPES: &str = include_str!("../../../../docs/recipes.md");
    let (_, rest) = RECIPES
        .split_once("## Duplicates in a corpus")
        .expect("the recipe");
    let (recipe, _) = rest.split_once("\n## ").expect("another one");
    let files = Files::new();
    let text = |number: u64| number * number % 1501;
    let (mut seen, mut expected) = (HashSet::new(), Vec::new());
    for part in 1..=3 {
        let numbers = part * 400..part * 400 + 400;
        let row = |number| format!("{{\"id\":{number},\"text\":\"{}\"}}\n", text(number));
        let rows: String = numbers.clone().map(row).collect();
        let packed = zstd::encode_all(rows.as_bytes(), 1).expect("memory takes all");
        files.write(&format!("part-{part}.jsonl.zst"), packed);
        let firsts = numbers.filter(|number| seen.insert(text(*number)));
        expected.push(firsts.map(row).collect::<String>());
    }
    // Those with a server have tests in tests/server.
    let lines = recipe
        .lines()
        .filter_map(|line| line.strip_prefix("valkeybloom unique "))
        .filter(|line| !line.contains("--to "));
    assert_eq!(
        lines.map(|line| files.done(line)).collect::<Vec<_>>(),
        [b"", b""]
    );
    for (name, expected) in ["unique/part-1", "unique/part-2", "new/part-3"]
        .iter()
        .zip(expected)
    {
        let packed = files.read(&format!("{name}.jsonl.zst"));
        let found = zstd::decode_all(&packed[..]).expect("it is zstd");
        assert!(
            !expected.is_empty() && found == expected.as_bytes(),
            "{name}"
        );
    }
}

/// A run that fails ends, even if more could come through the pipe.
#[test]
fn a_failure_is_not_kept_waiting_by_an_open_pipe() {
    let files = Files::new();
    let mut command = files.command("- --field t --threads 2");
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let mut pipe = child.stdin.take().expect("a pipe");
    // More than a block, which is passed on once it is whole.
    let lines = "no\n".repeat(350_000);
    // The run may end before it has read all.
    let _ = pipe.write_all(lines.as_bytes());
    let failed = failure_of(&child.wait_with_output().expect("it ends"));
    drop(pipe);
    assert_eq!(
        failed,
        "could not read -, line 1: it is not JSON: expected ident, column 2"
    );
}

#[test]
fn long_and_empty_lines_take_little_memory() {
    let files = Files::new();
    let long = "x".repeat(50_000_000);
    files.write("list", format!("short\n{long}\nshort\n"));
    let (found, memory) = measured(&files, "list");
    assert!(found == format!("short\n{long}\n").as_bytes());
    assert!(memory < 2 * 50_000_000, "{memory}");
    files.write("empty", "\n".repeat(5_000_000));
    let (found, memory) = measured(&files, "empty");
    assert_eq!(found, b"\n");
    assert!(memory < 250_000_000, "{memory}");
}

/// Returns the output of a run, and the memory that it says it took.
fn measured(files: &Files, name: &str) -> (Vec<u8>, u64) {
    let mut command = Command::new(PROGRAM);
    command
        .args(["unique", "--json", "--threads", "2"])
        .arg(files.path(name));
    let output = command.output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = errors.lines().last().expect("a line");
    let report: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
    (output.stdout, report["memory"].as_u64().expect("a number"))
}
