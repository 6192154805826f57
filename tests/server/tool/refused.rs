//! Errors of the program: one line, with what failed, where, and what to do.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

use crate::harness::{Plugin, Server, int, ok, wait_in_sync};

use super::{Run, add, command, ended, numbered, run, url};

fn list(server: &Server, name: &str, bytes: &[u8]) -> PathBuf {
    let path = server.dir().join(name);
    fs::write(&path, bytes).expect("the folder can be written to");
    path
}

/// Returns the words of a command line. `LIST` stands for a list of a hundred items and `TO` for the server.
fn words<'w>(line: &'w str, list: &'w str, to: &'w str) -> Vec<&'w str> {
    let words = line.split(' ').map(|word| match word {
        "LIST" => list,
        "TO" => to,
        word => word,
    });
    words.collect()
}

/// Lines that make no sense, and what their errors say.
const INVALID: &[(&str, &str)] = &[
    ("", "Usage: valkeybloom"),
    ("grow", "unrecognized subcommand 'grow'"),
    ("size", "<ITEMS>, <RATE>"),
    ("size 0 0.01", "not between 1 and 2⁶³−1"),
    ("size 1T 0.01", "the units are k, M and G"),
    ("size 1.5 0.01", "not a whole number"),
    ("size -1 0.01", "not between 1 and 2⁶³−1"),
    ("list x --rate -1", "not between 0 and 2⁶⁴−1"),
    ("build f --to x --key k --rate -1", "not between 0 and 1"),
    (
        "build f --to x --key k --rate 0.1 --shards -1",
        "not between 1 and",
    ),
    ("size bloom 1 0.1 --expansion 5G", "too large"),
    ("watch x --interval -1", "not a time, like 1h"),
    ("size 1 1", "not between 0 and 1"),
    ("size 1 one", "not a number"),
    ("size bloom 1 0.1 --window 1h", "--periods <N>"),
    (
        "size bloom 1 0.1 --window 1h --periods 60001",
        "a window has 1 to 60000 periods",
    ),
    (
        "size bloom 1 0.1 --window 0s --periods 2",
        "less than a millisecond",
    ),
    (
        "size bloom 1 0.1 --window 1h --periods 2 --counting",
        "cannot be used with",
    ),
    (
        "size bloom 1 0.1 --nonscaling --expansion 2",
        "cannot be used with",
    ),
    (
        "size bloom 1 0.1 --filter-limit 64x",
        "not an amount of memory, like 64mb",
    ),
    ("build --to x --key k --rate 0.1", "<FILE>..."),
    (
        "build - --to x --key k --rate 0.1",
        "the input can be read only once, because not all of it is files: pass --items",
    ),
    ("build f --to x --key k", "--rate <P>"),
    (
        "build f --to x --key k --rate 0.1 --add",
        "cannot be used with",
    ),
    (
        "build f --to x --key {k} --rate 0.1 --shards 2",
        "the name of a sharded filter can't hold braces",
    ),
    ("move redis://x", "<TO>"),
    ("move x y --type string", "invalid value 'string'"),
    (
        "move http://u:secret@x/ y",
        "not a server address: write redis://user:password@host:port/database",
    ),
    ("compare redis://x", "<TARGET>"),
    ("compare x y --replace", "unexpected argument '--replace'"),
    (
        "compare http://u:secret@x/ y",
        "not a server address: write redis://user:password@host:port/database",
    ),
    ("move x y --cert f", "--cert-key <FILE>"),
    (
        "build f --itms 1",
        "'--itms' found; tip: to pass '--itms' as a value, use '-- --itms'; see --help",
    ),
    ("move x y --type a", "'--type <TYPE>' [possible values: "),
    (
        "build f",
        "were not provided: --to <URL>, --key <KEY>, --rate <P>; see --help",
    ),
    (
        "move x y redis://u:secret@z/",
        "unexpected argument 'redis://z/' found",
    ),
    (
        "build f --to x --key k --add --allow-few",
        "cannot be used with",
    ),
    (
        "build f --to x --key k --add --as cms",
        "cannot be used with",
    ),
    (
        "build f --to x --key k --as heap",
        "[possible values: bloom, ",
    ),
    ("build f --to x --key k --as cms", "--rate <P>"),
    ("build f --to x --key k --as topk", "--k <N>"),
    (
        "build f --to x --key k --as tdigest --rate 0.1",
        "--rate is of no use to a t-digest",
    ),
    (
        "build f --to x --key k --rate 0.1 --probability 0.1",
        "--probability is of no use to a Bloom filter",
    ),
    (
        "build f --to x --key k --as cuckoo --shards 2",
        "--shards is of no use to a cuckoo filter",
    ),
    (
        "build f --to x --key k --rate 0.1 --column 0",
        "columns are counted from 1",
    ),
    (
        "build f --to x --key k --rate 0.1 --column 1 --zero",
        "cannot be used with",
    ),
    (
        "remove f --from x --key k --delimiter ;",
        "--column <NAME|N>",
    ),
];

#[test]
fn invalid_words_are_refused() {
    for (line, why) in INVALID {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let run = run(&words);
        assert_eq!(run.status, 2, "{line}: {}", run.err);
        assert!(run.err.contains(why), "{line}: {}", run.err);
        assert!(!run.err.contains("secret"), "{line}: {}", run.err);
        assert_eq!(run.out, "", "{line}");
        // Without words there is help; all else is one line.
        if !words.is_empty() {
            let line = run.failed(2);
            let run = super::run(&[&words[..], &["--json"]].concat());
            assert_eq!(error_of(&run), line);
            assert_eq!(run.failed(2), line);
        }
    }
}

/// Returns the error in the object of `--json`, which is alone on its stream.
fn error_of(run: &Run) -> String {
    let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
    reported["error"].as_str().expect("a text").to_owned()
}

/// Whenever a run fails, `--json` has what it found out by then, and the error.
#[test]
fn json_has_the_error() {
    let server = Server::start();
    let list = list(&server, "list", b"item");
    let to = url(&server);
    for line in [
        "size 100M 0.01",
        "size of TO none",
        "build LIST --to 127.0.0.1:1 --key k --rate 0.01",
        "build none --to TO --key k --rate 0.01",
        "move 127.0.0.1:1 TO",
    ] {
        let line = format!("{line} --json");
        let run = run(&words(&line, list.to_str().expect("ASCII"), &to));
        let error = error_of(&run);
        assert_eq!(run.err, format!("valkeybloom: {error}\n"), "{line}");
        assert_eq!(run.status, 1, "{line}");
        if line.contains("100M") {
            let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
            assert_eq!(reported["command"], "BF.RESERVE key 0.01 100000000");
        }
    }
    // A refused key has both.
    let (from, mut far) = (Server::start(), server.client());
    add(&mut from.client(), "seen", &numbered("item", 0..10));
    assert_eq!(far.cmd("CONFIG SET maxmemory 1"), ok());
    let run = run(&["move", &url(&from), &to, "--json"]);
    assert_eq!(error_of(&run), "1 of 1 keys could not be moved");
    let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
    assert_eq!(reported["keys"][0]["outcome"], "refused");
}

/// `head` reads some lines, and goes away.
#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    const AFTER_SIGPIPE: i32 = 128 + 13;
    let server = Server::start();
    add(&mut server.client(), "k", &numbered("item", 0..3));
    let address = url(&server);
    for line in [
        "list TO",
        "list TO --csv",
        "list TO --json",
        "list TO --prometheus",
        "size 1k 0.01",
        "size 1k 0.01 --json",
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = command(&words(line, "", &address));
        command.arg("--quiet").stdout(writer);
        let child = command.stderr(Stdio::piped()).spawn().expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(err, "", "{line}");
        assert_eq!(output.status.code(), Some(AFTER_SIGPIPE), "{line}");
    }
}

/// A list that came out empty must not cost the filter that is there.
#[test]
fn an_input_without_items_replaces_nothing() {
    let server = Server::start();
    let mut client = server.client();
    add(&mut client, "seen", &numbered("item", 0..10));
    let to = url(&server);
    for (name, bytes, options) in [
        ("empty", &b""[..], ""),
        ("lines", b"\n\r\n\n", ""),
        ("told", b"", " --items 5"),
        ("zeros", b"\0\0", " --zero"),
        ("sharded", b"", " --shards 2"),
    ] {
        let list = list(&server, name, bytes);
        let line = format!("build LIST --to TO --key seen --rate 0.01 --replace{options}");
        let words = words(&line, list.to_str().expect("ASCII"), &to);
        let why = run(&words).failed(1);
        assert_eq!(
            why,
            "there are no items: to build it without any, add --allow-few"
        );
        assert_eq!(client.cmd("BF.CARD seen"), int(10));
        assert_eq!(client.cmd("DBSIZE"), int(1));
    }
    let list = list(&server, "empty", b"");
    let line = "build LIST --to TO --key seen --rate 0.01 --replace --allow-few";
    run(&words(line, list.to_str().expect("ASCII"), &to)).done();
    assert_eq!(client.cmd("BF.CARD seen"), int(0));
}

/// As valkey-bloom: it has filters, and takes no chunks.
#[test]
fn the_error_names_a_module_without_chunks() {
    let chunkless = Plugin::build("chunkless.c");
    let bare = Server::builder()
        .without_module()
        .before_module(&chunkless.line())
        .start();
    let list = list(&bare, "list", b"item");
    let at = format!("127.0.0.1:{}", bare.port());
    let lacks = "ERR unknown command 'BF.LOADCHUNK'; \
        the module there takes no filters in chunks: load valkeybloom instead";
    let line = "build LIST --to TO --key seen --rate 0.01";
    let why = run(&words(line, list.to_str().expect("ASCII"), &at)).failed(1);
    assert_eq!(why, format!("could not build seen at {at}: {lacks}"));
}

#[test]
fn refused_builds_and_removals_name_the_reason() {
    let server = Server::start();
    let mut client = server.client();
    let replica = Server::replica_of(&server).start();
    // An empty line counts, too.
    let items = numbered("item", 1..101).join("\r\n\n");
    let list = list(&server, "list", items.as_bytes());
    let list = list.to_str().expect("ASCII");
    assert_eq!(client.cmd("ACL SETUSER reader on >right"), ok());
    assert_eq!(client.cmd("SET text text"), ok());
    assert_eq!(client.cmd("BF.RESERVE full 0.000001 42 NONSCALING"), ok());
    assert_eq!(client.cmd("BF.RESERVE old 0.000001 10"), ok());
    add(&mut client, "old", &numbered("item", 0..10));
    wait_in_sync(&server, &replica);
    let (at, of_replica) = (server.port(), replica.port());
    let nobody = format!("redis://reader:wrong@127.0.0.1:{at}");
    let (to, follower) = (url(&server), url(&replica));
    let rate = "build LIST --key old --rate 0.01 --replace --to TO";
    for (line, to, why) in [
        (
            rate,
            &nobody,
            format!(
                "could not connect to 127.0.0.1:{at}: WRONGPASS user or password is wrong; \
             check user and password: redis://user:password@host:port"
            ),
        ),
        (
            rate,
            &follower,
            format!(
                "could not build old at 127.0.0.1:{of_replica}: READONLY You can't write against a read only replica; \
             this is a replica: name its primary"
            ),
        ),
        (
            "build LIST --key text --rate 0.01 --to TO",
            &to,
            format!(
                "text at 127.0.0.1:{at} is no filter or sketch but of type string: name another key"
            ),
        ),
        (
            "build LIST --key none --add --to TO",
            &to,
            format!("none is not there at 127.0.0.1:{at}: build it without --add"),
        ),
        (
            "build LIST --key old --rate 0.01 --replace --items 100M --to TO",
            &to,
            format!(
                "could not build old at 127.0.0.1:{at}: ERR operation exceeds bloom object memory limit; \
             raise bf.bloom-filter-max-memory-usage there, or use more shards"
            ),
        ),
        (
            "build LIST --key old --rate 0.000001 --replace --items 42 --nonscaling --to TO",
            &to,
            format!(
                "the filter is full at {list}, line 85: pass more --items, or let it grow, without --nonscaling"
            ),
        ),
        (
            "build LIST --key full --add --to TO",
            &to,
            format!(
                "could not add {list}, line 85 to full at 127.0.0.1:{at}: ERR non scaling filter is full; \
             build a larger one: `valkeybloom size` tells how large"
            ),
        ),
        (
            "remove LIST --key text --from TO",
            &to,
            format!(
                "text at 127.0.0.1:{at} has type string, which is not a filter: name another key"
            ),
        ),
        (
            "remove LIST --key none --from TO",
            &to,
            format!("none does not exist at 127.0.0.1:{at}"),
        ),
        (
            "remove LIST --zero --key old --from TO",
            &to,
            format!(
                "could not remove {list}, item 1 from old at 127.0.0.1:{at}: \
                 ERR filter was not made with COUNTING"
            ),
        ),
        (
            "build none --key old --rate 0.01 --to TO",
            &to,
            "could not read none: No such file or directory (os error 2)".to_owned(),
        ),
    ] {
        assert_eq!(run(&words(line, list, to)).failed(1), why, "{line}");
    }
    // The old filter is unchanged, and no temporary key is left.
    assert_eq!(client.cmd("BF.CARD old"), int(10));
    assert_eq!(client.cmd("DBSIZE"), int(3));
}

#[test]
fn errors_name_what_a_server_lacks() {
    let server = Server::start();
    let mut client = server.client();
    let bare = Server::builder().without_module().start();
    let list = list(&server, "list", b"item");
    let list = list.to_str().expect("ASCII");
    assert_eq!(
        client.cmd("ACL SETUSER reader on >right ~* +@read +bf.info"),
        ok()
    );
    add(&mut client, "old", &numbered("item", 0..10));
    let (at, of_bare) = (server.port(), bare.port());
    let reader = format!("redis://reader:right@127.0.0.1:{at}");
    let (to, plain) = (url(&server), url(&bare));
    let rate = "build LIST --key old --rate 0.01 --replace --to TO";
    let why = run(&words(rate, list, &reader)).failed(1);
    assert!(
        why.starts_with(&format!("could not build old at 127.0.0.1:{at}: NOPERM ")),
        "{why}"
    );
    assert!(
        why.ends_with("; grant it with ACL SETUSER, or name another user"),
        "{why}"
    );
    let why = run(&words(rate, list, &plain)).failed(1);
    assert!(
        why.starts_with(&format!(
            "could not find filters at 127.0.0.1:{of_bare}: ERR unknown command 'BF.INFO'"
        )),
        "{why}"
    );
    assert!(
        why.ends_with("; load the module there, or add the command's family to its bf.families"),
        "{why}"
    );

    assert_eq!(client.cmd("CONFIG SET maxmemory 1"), ok());
    assert_eq!(
        run(&words(rate, list, &to)).failed(1),
        format!(
            "could not build old at 127.0.0.1:{at}: OOM command not allowed when used memory > 'maxmemory'; \
         raise maxmemory, or free memory"
        )
    );
    assert_eq!(client.cmd("CONFIG SET maxmemory 0"), ok());
    // The old filter is unchanged, and no temporary key is left.
    assert_eq!(client.cmd("BF.CARD old"), int(10));
    assert_eq!(client.cmd("DBSIZE"), int(1));
}

/// A file of another program is refused as a list of items to add or to remove.
#[test]
fn a_file_that_is_no_list_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.RESERVE seen 0.000001 100 COUNTING"), ok());
    add(&mut client, "seen", &numbered("item", 0..10));
    // As `printf 'item 1\n' | xz` writes it, with lines in it.
    let packed = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F\x04\xc0\x0b\x07!\x01\n\nitem 1\nitem 2\n";
    let path = list(&server, "list.xz", packed);
    let path = path.to_str().expect("ASCII");
    let to = url(&server);
    for line in [
        "build LIST --to TO --key seen --rate 0.01 --counting --replace",
        "build LIST --to TO --key seen --rate 0.01 --counting --replace --items 3",
        "build LIST --to TO --key seen --add",
        "build LIST --to TO --key seen --add --column 1",
        "remove LIST --from TO --key seen",
        "remove LIST --from TO --key seen --zero",
    ] {
        let why = run(&words(line, path, &to)).failed(1);
        let due = format!("could not read {path}: it looks like xz: decompress it first");
        assert_eq!(why, due, "{line}");
        assert_eq!(client.cmd("BF.CARD seen"), int(10));
        assert_eq!(client.cmd("DBSIZE"), int(1));
    }
}

/// The error for a cut or broken file names the line that could not be read, and nothing changes.
#[test]
fn errors_of_broken_files_name_the_line() {
    let server = Server::start();
    let mut client = server.client();
    let text = numbered("item", 0..200_000).join("\n");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut packed, text.as_bytes()).expect("memory takes all");
    let gzip = packed.finish().expect("memory takes all");
    let zstd = zstd::encode_all(text.as_bytes(), 1).expect("memory takes all");
    for (name, bytes) in [
        ("cut.gz", &gzip[..gzip.len() / 2]),
        ("cut.zst", &zstd[..zstd.len() / 2]),
    ] {
        let path = list(&server, name, bytes);
        let path = path.to_str().expect("ASCII");
        let why = run(&[
            "build",
            path,
            "--to",
            &url(&server),
            "--key",
            "seen",
            "--rate",
            "0.01",
        ])
        .failed(1);
        let line = why
            .strip_prefix(&format!("could not read {path}, line "))
            .expect(&why);
        let line: u32 = line
            .split(':')
            .next()
            .and_then(|line| line.parse().ok())
            .expect(&why);
        assert!((50_000..150_000).contains(&line), "{why}");
    }
    assert_eq!(client.cmd("DBSIZE"), int(0));
}

#[test]
fn refused_moves_name_the_reason() {
    let [from, to] = [(); 2].map(|()| Server::start());
    let bare = Server::builder().without_module().start();
    let why = run(&["move", &url(&from), &url(&bare)]).failed(1);
    assert!(
        why.ends_with("; load the module there, or add the command's family to its bf.families"),
        "{why}"
    );
    let replica = Server::replica_of(&to).start();
    wait_in_sync(&to, &replica);
    add(&mut from.client(), "seen", &numbered("item", 0..10));
    let mut far = to.client();
    let wrong = format!("redis://:wrong@127.0.0.1:{}", to.port());
    assert_eq!(far.cmd("ACL SETUSER default >right"), ok());
    assert_eq!(far.cmd("ACL SETUSER default resetpass >right"), ok());
    for (from, to) in [(&url(&from), &wrong), (&wrong, &url(&from))] {
        let why = run(&["move", from, to]).failed(1);
        assert!(why.contains("WRONGPASS "), "{why}");
        assert!(!why.contains("wrong@"), "{why}");
    }
    assert_eq!(far.cmd("ACL SETUSER default nopass"), ok());

    let why = run(&["move", &url(&from), &url(&replica)]).failed(1);
    assert_eq!(
        why,
        format!(
            "could not write to 127.0.0.1:{}: READONLY You can't write against a read only replica; \
         this is a replica: name its primary",
            replica.port()
        )
    );
    // Reading from a replica is allowed.
    run(&["move", &url(&replica), &url(&from)]).done();

    assert_eq!(far.cmd("CONFIG SET maxmemory 1"), ok());
    let reported = run(&["move", &url(&from), &url(&to)]);
    assert!(
        reported.err.contains(&format!(
            "refused seen: 127.0.0.1:{}: OOM command not allowed when used memory > 'maxmemory'; \
         raise maxmemory, or free memory\n",
            to.port()
        )),
        "{}",
        reported.err
    );
    assert_eq!(reported.failed(1), "1 of 1 keys could not be moved");
    assert_eq!(far.cmd("CONFIG SET maxmemory 0"), ok());
    assert_eq!(
        far.cmd("CONFIG SET bf.bloom-filter-max-memory-usage 1000"),
        ok()
    );
    assert_eq!(far.cmd("DBSIZE"), int(0));

    // Limits bind clients: RESTORE is accepted, chunks are refused.
    assert_eq!(far.cmd("ACL SETUSER default -restore"), ok());
    let reported = run(&["move", &url(&from), &url(&to)]);
    assert!(
        reported
            .err
            .contains("ERR operation exceeds bloom object memory limit; raise "),
        "{}",
        reported.err
    );
    assert_eq!(reported.status, 1);
    assert_eq!(far.cmd("DBSIZE"), int(0));
    let mut nobody = command(&["size", "of", "127.0.0.1:1", "seen"]);
    nobody.env("NO_COLOR", "1");
    let why = ended(nobody).failed(1);
    assert!(
        why.starts_with("could not connect to 127.0.0.1:1: "),
        "{why}"
    );
}
