//! Runs that are refused, or fail: states of other runs, files that can't be read or written, words.

use std::fs;

use super::{Files, PROGRAM, gzip, lines};

/// Returns files that a run ended on between its passes and its end, because the second one can't be written.
fn unfinished_run() -> Files {
    let files = Files::new();
    files.write("a", "1\n2\n1\n");
    files.write("b", "2\n3\n2\n");
    fs::create_dir_all(files.path("out/b.valkeybloom-unfinished")).expect("a folder");
    let failed = files.failed("a b --out out");
    assert!(failed.starts_with("could not write out/b: "), "{failed}");
    assert_eq!(files.read("out/a"), b"1\n2\n");
    files
}

/// Another run's state came into the output's folder after this run was killed.
#[test]
fn a_run_that_continues_leaves_the_state_of_another_one() {
    let files = unfinished_run();
    fs::rename(files.path("out"), files.path("of-another")).expect("it is there");
    fs::create_dir_all(files.path("out/b.valkeybloom-unfinished")).expect("a folder");
    files.failed("a b --out out --state elsewhere");
    let states = ["of-another", "out"].map(|folder| files.path(folder).join(".valkeybloom-unique"));
    fs::copy(&states[0], &states[1]).expect("it is there");
    let failed = files.failed("a b --out out --state elsewhere");
    let expected = "out/.valkeybloom-unique exists, and is not of this run";
    assert!(failed.starts_with(expected), "{failed}");
    fs::remove_file(&states[1]).expect("it is there");
    fs::remove_dir(files.path("out/b.valkeybloom-unfinished")).expect("it is empty");
    files.done("a b --out out --state elsewhere");
    assert_eq!(files.read("out/b"), b"3\n");
}

#[test]
fn a_state_of_other_files_or_options_is_refused() {
    let files = unfinished_run();
    let is_other = |words: &str| {
        let failed = files.failed(words);
        assert!(
            failed.contains("is of a run with other files or options"),
            "{words}: {failed}"
        );
    };
    is_other("b a --out out");
    is_other("a b --out out --duplicates");
    is_other("a b --out out --known a");
    // Its outputs would be taken for those of the run with the state.
    fs::remove_file(files.path("out/a")).expect("it is there");
    for words in ["--one-pass", "--state elsewhere"] {
        let failed = files.failed(&format!("a b --out out {words}"));
        let expected = "out/.valkeybloom-unique exists, and is not of this run";
        assert!(failed.starts_with(expected), "{words}: {failed}");
    }
    // Another content of the same size, at another time, even if the file does not say so.
    fs::remove_dir_all(files.path("out")).expect("it is there");
    fs::create_dir_all(files.path("out/b.valkeybloom-unfinished")).expect("a folder");
    files.failed("a b --out out");
    files.shell("cp -p b old");
    files.write("b", "2\n4\n2\n");
    is_other("a b --out out");
    files.shell("touch -r old b");
    is_other("a b --out out");
}

/// The standard input has lines that the first pass of the other run has not seen.
#[test]
fn a_state_of_a_file_that_was_read_from_elsewhere_is_refused() {
    let files = Files::new();
    files.write("list", "1\n2\n2\n1\n");
    let line = format!("{PROGRAM} unique -q - --state . 2>&1");
    files.shell(&format!("{{ read line; {line} >/dev/full; }} <list"));
    let printed = files.shell(&format!("{{ {line}; }} <list"));
    let printed = String::from_utf8_lossy(&printed);
    let expected = "is of a run with other files or options";
    assert!(printed.contains(expected), "{printed}");
    assert_eq!(
        files.shell(&format!("{{ read line; {line}; }} <list")),
        b"2\n1\n"
    );
}

#[test]
fn a_damaged_state_is_refused() {
    let files = unfinished_run();
    fs::remove_file(files.path("out/a")).expect("it is there");
    fs::remove_dir(files.path("out/b.valkeybloom-unfinished")).expect("it is empty");
    let state = files.read("out/.valkeybloom-unique");
    for at in [0, 30, state.len() - 20, state.len() - 1] {
        let mut damaged = state.clone();
        damaged[at] ^= 1;
        files.write("out/.valkeybloom-unique", damaged);
        files.failed("a b --out out");
        files.write("out/.valkeybloom-unique", &state[..at]);
        files.failed("a b --out out");
    }
    // Whole states, with one word instead of suspects and a seed, and with suspects that do not ascend.
    let content = zstd::decode_all(&state[..]).expect("it is zstd");
    let words = content.len() - 4 * 16;
    for changed in [
        [&content[..words], &[7; 16]].concat(),
        [
            &content[..words],
            &content[words + 16..words + 32],
            &content[words..words + 16],
            &content[words + 32..],
        ]
        .concat(),
    ] {
        let changed = zstd::encode_all(&changed[..], 1).expect("memory takes all");
        files.write("out/.valkeybloom-unique", changed);
        let failed = files.failed("a b --out out");
        assert!(failed.contains("it is damaged"), "{failed}");
    }
    files.write("out/.valkeybloom-unique", &state);
    files.done("a b --out out");
    assert_eq!(files.read("out/b"), b"3\n");
}

#[test]
fn what_could_not_be_read_or_written_is_no_success() {
    let files = Files::new();
    let text = lines(200_000, 100_000, 3);
    files.write("list", &text);
    let failed = files.failed("list missing");
    assert!(
        failed.starts_with("could not read missing: No such file"),
        "{failed}"
    );
    for (output, error) in [
        ("/dev/full", "No space left"),
        ("list", "the standard output is one of the files"),
    ] {
        let line = format!("{PROGRAM} unique -q list 2>&1 >>{output}; echo $?");
        let errors = String::from_utf8(files.shell(&line)).expect("it is UTF-8");
        assert!(errors.starts_with("valkeybloom: "), "{errors}");
        assert!(errors.contains(error) && errors.ends_with("\n1\n"));
    }
    assert!(files.read("list") == text);
    // A reader that goes away.
    let line = format!("{{ {PROGRAM} unique -q list; echo $? >&3; }} 3>status | head -n 1");
    assert_eq!(
        files.shell(&line),
        &text[..=text.iter().position(|byte| *byte == b'\n').unwrap()]
    );
    assert_eq!(files.read("status"), b"141\n");
    // A compressed file that is cut short.
    let packed = gzip(&text);
    files.write("cut.gz", &packed[..packed.len() / 2]);
    files.failed("cut.gz --out cut");
    assert!(!files.path("cut/cut.gz").exists());
}

#[test]
fn a_line_after_a_file_without_a_last_newline_is_its_own() {
    let files = Files::new();
    files.write("names", "id,url");
    files.write("rows", "id,url\r\n1,a\r\n2,a\r3,b");
    assert_eq!(
        files.done("names rows --column url --bad keep"),
        b"id,url\n1,a\r\n3,b\n"
    );
}

#[test]
fn words_that_name_no_run_are_refused() {
    let files = Files::new();
    files.write("list", "x\n");
    fs::create_dir(files.path("folder")).expect("it can be made");
    files.write("folder/list", "x\n");
    files.write("list.valkeybloom-unfinished", "x\n");
    files.write(".valkeybloom-unique", "x\n");
    for (words, error) in [
        ("list folder/list --out out", "two files have the name list"),
        (
            "list.valkeybloom-unfinished list --out out",
            "a name that this program gives",
        ),
        (
            ".valkeybloom-unique --out out",
            "a name that this program gives",
        ),
        ("list --rate 0.1 --out new", "add --one-pass or --to"),
        (
            "list --one-pass --to 127.0.0.1 --key k --out new",
            "'--one-pass' cannot be used with '--to <URL>'",
        ),
        ("list --threads 1025", "1025 is not in 1..=1024"),
    ] {
        let output = files.run(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && errors.contains(error),
            "{words}: {errors}"
        );
    }
    assert!(!files.path("new").exists());
}

#[test]
fn a_pipe_is_read_once() {
    let files = Files::new();
    files.write("list", "x\n");
    let errors = files.shell(&format!("cat list | {PROGRAM} unique --count - 2>&1"));
    let errors = String::from_utf8_lossy(&errors).into_owned();
    assert!(errors.contains("write it to a file first"), "{errors}");
    files.shell("mkfifo pipe");
    for (words, name) in [
        ("- -", "-"),
        ("- /dev/stdin", "/dev/stdin"),
        ("list --known /dev/stdin --known - --one-pass", "-"),
        ("pipe list ./pipe --one-pass", "./pipe"),
    ] {
        let errors = files.shell(&format!("echo a | {PROGRAM} unique {words} 2>&1; true"));
        let twice =
            format!("valkeybloom: could not read {name}: it is a pipe that is read already\n");
        assert_eq!(String::from_utf8_lossy(&errors), twice);
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_refused() {
    let files = Files::new();
    // The first file is a pipe into which the second one's change is timed: it is read in between.
    files.write("grows", lines(1000, 1000, 1));
    let line =
        "2>&1 >/dev/null & exec 3>pipe; echo more >>grows; echo a >&3; exec 3>&-; wait $!; echo $?";
    let line = format!("mkfifo pipe; {PROGRAM} unique -q pipe grows --one-pass {line}");
    let errors = String::from_utf8(files.shell(&line)).expect("it is UTF-8");
    let expected = "valkeybloom: could not read grows: it changed while it was read\n1\n";
    assert_eq!(errors, expected);
}
