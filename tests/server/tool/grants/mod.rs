//! The permissions of docs/tool.md: with them a user can do each thing, and with one less the error names it and the
//! server.

mod listing;

use std::collections::BTreeMap;

use crate::harness::{Client, Server, int};

use super::{Way, add, file, left, lines, numbered, run};

const MANUAL: &str = include_str!("../../../../docs/tool.md");

/// Returns the grants in each line of the manual.
fn documented() -> BTreeMap<&'static str, Vec<&'static str>> {
    let (_, rest) = MANUAL
        .split_once("<!-- grants: held against servers by a test -->\n```text\n")
        .expect("the mark");
    let (lines, _) = rest.split_once("```").expect("the block ends");
    let lines = lines.lines().map(|line| {
        let at = line.find(" +").expect("a permission");
        (line[..at].trim(), line[at..].split_whitespace().collect())
    });
    lines.collect()
}

/// Returns the permissions of some lines of the manual.
fn grants(of: &[&str]) -> Vec<&'static str> {
    let all = documented();
    of.iter().flat_map(|line| all[line].clone()).collect()
}

/// Returns all but one of them.
fn without(grants: &[&'static str], grant: &str) -> Vec<&'static str> {
    let rest = grants.iter().copied().filter(|other| *other != grant);
    rest.collect()
}

fn set_user(client: &mut Client, grants: &[&str]) {
    let rules = format!(
        "reset on >secret ~app:* ~{{app:*}}:once:* -@all {}",
        grants.join(" ")
    );
    client.ok(format!("ACL SETUSER u {rules}"));
}

/// Has the next run begin anew.
fn delete_receipts(client: &mut Client) {
    // That of a refused command may expire meanwhile.
    for name in client.cmd("KEYS *:once:*").as_array() {
        client.cmd(&format!("DEL {}", name.text()));
    }
    assert!(client.cmd("KEYS *:once:*").as_array().is_empty());
}

fn url(server: &Server) -> String {
    format!("redis://u:secret@127.0.0.1:{}", server.port())
}

/// Returns the words in which a server refuses a command to a user.
fn refusal(grant: &str) -> String {
    format!("'{}' command", grant.trim_start_matches('+'))
}

/// What Redis 7 answers to a script that lacks a permission. It does not name it.
const UNNAMED: &str = "ERR The user executing the script can't run this command or subcommand";

/// Requires that an error names the permission and the server.
#[track_caller]
fn assert_names(run: &super::Run, grant: &str, server: &Server) {
    let at = format!("127.0.0.1:{}: ", server.port());
    let is_named = |line: &str| line.contains("NOPERM ") && line.contains(&refusal(grant));
    let is_redis = !server.version().valkey;
    let lines = run.err.lines().filter(|line| line.contains(&at));
    let count = lines
        .filter(|line| is_named(line) || is_redis && line.contains(UNNAMED))
        .count();
    assert!(
        run.status == 1 && count > 0,
        "without {grant}: {}{}",
        run.out,
        run.err
    );
}

/// Returns runs that size, build and remove, with the manual's lines of the permissions that they need. `list` has items
/// to add and remove, and `to` is the server.
fn sizing_and_building<'a>(list: &'a str, to: &'a str) -> Vec<(Vec<&'static str>, Vec<&'a str>)> {
    let build = ["build", list, "--to", to, "--key", "app:seen"];
    let build_with = |options: &[&'static str]| [&build[..], options].concat();
    let filter =
        |options: &[&'static str]| [&build_with(&["--rate", "0.000001"])[..], options].concat();
    let bloom = "--as bloom, also";
    vec![
        (vec!["build", bloom], filter(&[])),
        (vec!["build", bloom], filter(&["--ttl", "1h"])),
        (
            vec!["build", bloom, "build --window, also"],
            filter(&["--window", "1h", "--periods", "3"]),
        ),
        (
            vec!["build", "--as cuckoo, also"],
            build_with(&["--as", "cuckoo", "--items", "10"]),
        ),
        (
            vec!["build", "--as cms, also"],
            build_with(&["--as", "cms", "--rate", "0.1"]),
        ),
        (
            vec!["build", "--as topk, also"],
            build_with(&["--as", "topk", "--k", "9"]),
        ),
        (
            vec!["build", "--as tdigest, also"],
            build_with(&["--as", "tdigest"]),
        ),
        (vec!["build", bloom], filter(&["--replace"])),
        (vec!["build --add"], build_with(&["--add"])),
        (
            vec!["--add, where it counts"],
            vec!["build", list, "--to", to, "--key", "app:bloom", "--add"],
        ),
        (vec!["size of"], vec!["size", "of", to, "app:seen"]),
        (
            vec!["remove"],
            vec!["remove", list, "--from", to, "--key", "app:bloom"],
        ),
        (
            vec!["remove, cuckoo filters"],
            vec!["remove", list, "--from", to, "--key", "app:cuckoo"],
        ),
    ]
}

#[test]
fn sizing_and_building_need_the_documented_permissions_and_no_more() {
    let server = Server::start();
    let mut client = server.client();
    let numbers: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let (list, to) = (&*lines(&server, "list", &numbers), &*url(&server));
    // Without these items.
    client.ok("BF.RESERVE app:bloom 0.000001 10 COUNTING");
    client.ok("CF.RESERVE app:cuckoo 10");
    let runs = sizing_and_building(list, to);
    let filter = &runs[0].1;
    for (of, words) in &runs {
        let all = grants(of);
        let (expires, replaces) = (words.contains(&"--ttl"), words.contains(&"--replace"));
        let is_new = of[0] == "build" && !replaces;
        let mut run_as = |grants: &[&str]| {
            if is_new {
                client.cmd("DEL app:seen");
            }
            delete_receipts(&mut client);
            set_user(&mut client, grants);
            run(words)
        };
        run_as(&all).done();
        for grant in &all {
            let run = run_as(&without(&all, grant));
            match *grant {
                // Without it, temporary keys stay until they expire.
                "+unlink" => {
                    run.done();
                    for (key, _) in left(&mut server.client()) {
                        let deleted = server.client().cmd(&format!("DEL {key}"));
                        assert_eq!(deleted, int(1));
                    }
                }
                // A time to live makes one of the two needless.
                "+persist" if expires => drop(run.done()),
                // Without it, a repetition of the last step is not known.
                "+set" if of[0] == "build" => drop(run.done()),
                grant => assert_names(&run, grant, &server),
            }
        }
        assert_eq!(left(&mut client), []);
        if !is_new {
            // The filter was not replaced.
            client.expect("BF.CARD app:seen", int(10));
        } else if !words.contains(&"--as") {
            set_user(&mut client, &all);
            run(filter).done();
        }
    }
}

/// Keys of every family need what the manual says for them all, and each of these is needed for one of them.
#[test]
fn showing_and_adding_need_the_documented_permissions_and_no_more() {
    let server = Server::start();
    let mut client = server.client();
    let (list, to) = (&*file(&server, "list", "1\n2\n"), url(&server));
    let made = [
        ("bloom", "BF.RESERVE app:bloom 0.01 9"),
        ("cuckoo", "CF.RESERVE app:cuckoo 9"),
        ("cms", "CMS.INITBYDIM app:cms 9 2"),
        ("topk", "TOPK.RESERVE app:topk 3"),
        ("tdigest", "TDIGEST.CREATE app:tdigest"),
    ];
    let keys = made.map(|(family, _)| format!("app:{family}"));
    for ((family, made), key) in made.into_iter().zip(&keys) {
        client.ok(made);
        let fills = match family {
            "bloom" => "+bf.insert",
            family => grants(&[&format!("--as {family}, also")])[1],
        };
        let mut all = match family {
            "bloom" | "cuckoo" => grants(&["build --add"])[..1].to_vec(),
            _ => grants(&["--add to sketches"]),
        };
        all.push(fills);
        let mut add = |grants: &[&str]| {
            delete_receipts(&mut client);
            set_user(&mut client, grants);
            run(&["build", list, "--to", &to, "--key", key, "--add"])
        };
        add(&all).done();
        for grant in &all {
            let run = add(&without(&all, grant));
            match *grant {
                // Without it, receipts stay until they expire.
                "+unlink" => drop(run.done()),
                grant => assert_names(&run, grant, &server),
            }
        }
    }
    let all = grants(&["show"]);
    let mut show = |grants: &[&str]| {
        set_user(&mut client, grants);
        keys.each_ref().map(|key| run(&["show", &to, key]))
    };
    for run in show(&all) {
        run.done();
    }
    for grant in &all {
        let runs = show(&without(&all, grant));
        let refused = runs.iter().filter(|run| run.status != 0);
        let named = refused.map(|run| assert_names(run, grant, &server)).count();
        assert!(named > 0, "{grant}");
    }
}

#[test]
fn runs_that_share_a_filter_need_the_documented_permissions_and_no_more() {
    let server = Server::start();
    let mut client = server.client();
    let (list, to) = (&*file(&server, "list", "1\n2\n"), url(&server));
    let all = grants(&["unique --to"]);
    let mut runs = 0;
    let mut unique = |grants: &[&str]| {
        delete_receipts(&mut client);
        set_user(&mut client, grants);
        runs += 1;
        let out = server.dir().join(format!("out-{runs}"));
        let out = out.to_str().expect("it is ASCII");
        run(&[
            "unique", list, "--to", &to, "--key", "app:seen", "--out", out,
        ])
    };
    unique(&all).done();
    for grant in &all {
        let run = unique(&without(&all, grant));
        match *grant {
            // Without it, receipts stay until they expire.
            "+unlink" => drop(run.done()),
            grant => assert_names(&run, grant, &server),
        }
    }
}

#[test]
fn filtering_needs_the_documented_permissions_and_no_more() {
    let server = Server::start();
    let mut client = server.client();
    let (list, to) = (&*file(&server, "list", "1\n2\n"), url(&server));
    client.ok("BF.RESERVE app:bloom 0.01 9");
    client.ok("CF.RESERVE app:cuckoo 9");
    for (line, key, options) in [
        ("filter", "app:bloom", &[][..]),
        ("filter, cuckoo filters", "app:cuckoo", &[]),
        ("filter --copy", "app:bloom", &["--copy"]),
    ] {
        let all = grants(&[line]);
        let mut filter = |grants: &[&str]| {
            set_user(&mut client, grants);
            run(&[&["filter", list, "--to", &to, "--key", key], options].concat())
        };
        filter(&all).done();
        for grant in &all {
            assert_names(&filter(&without(&all, grant)), grant, &server);
        }
    }
}

/// Two servers, and a source with every kind of key: small and large, Bloom filters and others, expiring or not.
struct Pair {
    from: Server,
    to: Server,
    source: Vec<&'static str>,
    target: Vec<&'static str>,
    options: Vec<&'static str>,
}

impl Pair {
    fn new(options: &[&'static str]) -> Self {
        let [from, to] = [(); 2].map(|()| Server::start());
        let mut near = from.client();
        add(&mut near, "app:small", &numbered("item", 0..10));
        near.expect("CF.ADD app:cuckoo item", int(1));
        near.ok("BF.RESERVE other 0.01 100");
        // Above 16 MiB a filter goes by chunks.
        for key in ["app:large", "app:expires"] {
            near.ok(format!("BF.RESERVE {key} 0.01 15000000 NONSCALING"));
        }
        near.expect("EXPIRE app:expires 10000", int(1));
        let mut lines = vec!["move, target"];
        if options.contains(&"--verify") {
            lines.push("--verify, target also");
        }
        Self {
            from,
            to,
            source: grants(&["move, source"]),
            target: grants(&lines),
            options: [options, &["--match", "app:*"]].concat(),
        }
    }

    fn run(&self, source: &[&str], target: &[&str]) -> super::Run {
        set_user(&mut self.from.client(), source);
        set_user(&mut self.to.client(), target);
        let mut far = self.to.client();
        far.cmd("FLUSHALL");
        run(&[
            &["move", &url(&self.from), &url(&self.to)],
            &self.options[..],
        ]
        .concat())
    }

    #[track_caller]
    fn came(&self, run: super::Run) {
        run.done();
        self.to.client().expect("DBSIZE", int(4));
    }
}

#[test]
fn moving_needs_the_documented_permissions_and_no_more() {
    for options in [&[][..], &["--replace"], &["--verify"]] {
        let pair = Pair::new(options);
        pair.came(pair.run(&pair.source, &pair.target));
        for grant in &pair.source {
            let run = pair.run(&without(&pair.source, grant), &pair.target);
            match *grant {
                // No key has changed; and DUMP takes filters of any size.
                "+type" | "+bf.scandump" => pair.came(run),
                grant => assert_names(&run, grant, &pair.from),
            }
        }
        for grant in &pair.target {
            let run = pair.run(&pair.source, &without(&pair.target, grant));
            match *grant {
                // Values compared in chunks can be compared by DUMP, and moved by it if no upload can begin.
                "+set" | "+bf.scandump" | "+bf.loadchunk" | "+eval" | "+pexpire" => {
                    pair.came(run);
                }
                "+unlink" => {
                    run.done();
                    let mut far = pair.to.client();
                    let temporary = left(&mut far).len();
                    far.expect("DBSIZE", int(4 + i64::try_from(temporary).unwrap()));
                }
                grant => assert_names(&run, grant, &pair.to),
            }
        }
        // A temporary key that could neither expire nor be deleted is not made.
        let target = without(&without(&pair.target, "+pexpire"), "+unlink");
        pair.came(pair.run(&pair.source, &target));
    }
}

/// PTTL does for PEXPIRETIME; and Bloom filters can do without DUMP or RESTORE, other values can't.
#[test]
fn documented_substitutes_for_a_permission_suffice() {
    let pair = Pair::new(&["--verify"]);
    let source = [without(&pair.source, "+pexpiretime"), vec!["+pttl"]].concat();
    let target = [without(&pair.target, "+pexpiretime"), vec!["+pttl"]].concat();
    pair.came(pair.run(&source, &target));
    let source = without(&pair.source, "+dump");
    let target = without(&pair.target, "+restore");
    for (source, target, grant, refuses) in [
        (&source, &pair.target, "+dump", &pair.from),
        (&pair.source, &target, "+restore", &pair.to),
    ] {
        let run = pair.run(source, target);
        assert_names(&run, grant, refuses);
        assert_eq!(run.failed(1), "1 of 4 keys could not be moved");
        pair.to.client().expect("EXISTS app:cuckoo", int(0));
        pair.to.client().expect("DBSIZE", int(3));
    }
    let source = without(&pair.source, "+bf.scandump");
    let target = without(&pair.target, "+bf.loadchunk");
    pair.came(pair.run(&source, &target));
    // With neither of them, the reason is that of the chunks.
    let target = without(&target, "+restore");
    let run = pair.run(&pair.source, &target);
    assert_names(&run, "+bf.loadchunk", &pair.to);
    assert_eq!(run.failed(1), "4 of 4 keys could not be moved");
}

/// Both servers have keys of every kind, and the source has one more, the only one to be reported.
#[test]
fn comparing_needs_the_documented_permissions_and_no_more() {
    let mut pair = Pair::new(&[]);
    pair.came(pair.run(&pair.source, &pair.target));
    add(&mut pair.from.client(), "app:new", &numbered("item", 0..10));
    pair.source = grants(&["compare, source"]);
    pair.target = grants(&["compare, target"]);
    let compare = |source: &[&str], target: &[&str]| {
        set_user(&mut pair.from.client(), source);
        set_user(&mut pair.to.client(), target);
        let words = ["compare", &url(&pair.from), &url(&pair.to), "--quiet"];
        run(&[&words[..], &pair.options].concat())
    };
    let works = |run: super::Run| {
        assert_eq!(run.out, "only at source app:new\n", "{}", run.err);
        assert_eq!(run.failed(1), "1 of 5 keys is not the same");
    };
    works(compare(&pair.source, &pair.target));
    for grant in &pair.source {
        let run = compare(&without(&pair.source, grant), &pair.target);
        match *grant {
            // Each does for the other, and a key whose size is unknown is compared by itself.
            "+bf.scandump" | "+memory|usage" => works(run),
            grant => assert_names(&run, grant, &pair.from),
        }
    }
    for grant in &pair.target {
        let run = compare(&pair.source, &without(&pair.target, grant));
        match *grant {
            "+bf.scandump" | "+memory|usage" => works(run),
            grant => assert_names(&run, grant, &pair.to),
        }
    }
    let [source, target] = [&pair.source, &pair.target]
        .map(|all| [without(all, "+pexpiretime"), vec!["+pttl"]].concat());
    works(compare(&source, &target));
    // BF.INFO names the parameter that differs.
    add(&mut pair.to.client(), "app:small", &numbered("other", 0..1));
    for (more, reason) in [
        (&[][..], "its header differs at the target"),
        (
            &["+bf.info"],
            "Number of items inserted is 11 at the target, not 10",
        ),
    ] {
        let run = compare(
            &[&pair.source, more].concat(),
            &[&pair.target, more].concat(),
        );
        let lines = format!("only at source app:new\ndifferent app:small: {reason}\n");
        assert_eq!(run.out, lines, "{}", run.err);
    }
}

/// TYPE at the source is for a key that changes on the way.
#[test]
fn a_key_that_changes_needs_its_type() {
    let pair = Pair::new(&[]);
    set_user(&mut pair.from.client(), &without(&pair.source, "+type"));
    set_user(&mut pair.to.client(), &pair.target);
    let mut writer = pair.from.client();
    let way = Way::before(&pair.from, "DUMP", 1, move || {
        writer.ok("SET app:cuckoo text");
    });
    let from = way.url().replace("redis://", "redis://u:secret@");
    let run = run(&["move", &from, &url(&pair.to), "--match", "app:cuckoo"]);
    assert!(run.err.contains(&refusal("+type")), "{}", run.err);
    assert_eq!(run.failed(1), "1 of 1 keys could not be moved");
}
