//! Servers that load some of the families: what they have, and what becomes of the data of the others.

use std::collections::BTreeSet;

use crate::acl::has_categories;
use crate::harness::{
    Builder, Client, Plugin, Reply, Server, array, error, int, nil, ok, simple, wait_in_sync,
    wait_until,
};
use crate::support::aof::{rewrite_aof, with_command_log};
use crate::support::commands::{self, Command};
use crate::support::configured::configure;

/// A family: its name, the prefix of its commands, its type, and a command that makes a value under its name.
pub struct Family {
    /// Its commands and values have an ACL category of this name, too.
    pub name: &'static str,
    pub prefix: &'static str,
    kind: &'static str,
    make: &'static str,
}

const fn family(
    name: &'static str,
    prefix: &'static str,
    kind: &'static str,
    make: &'static str,
) -> Family {
    Family {
        name,
        prefix,
        kind,
        make,
    }
}

pub const FAMILIES: [Family; 5] = [
    family("bloom", "bf.", "bloomfltr", "BF.RESERVE bloom 0.01 100"),
    family("cuckoo", "cf.", "MBbloomCF", "CF.RESERVE cuckoo 100"),
    family("cms", "cms.", "CMSk-TYPE", "CMS.INITBYDIM cms 10 2"),
    family("topk", "topk.", "TopK-TYPE", "TOPK.RESERVE topk 2"),
    family("tdigest", "tdigest.", "TDIS-TYPE", "TDIGEST.CREATE tdigest"),
];

const ALL: &str = "bloom,cuckoo,cms,topk,tdigest";

/// The settings that every server has.
const SHARED: [&str; 7] = [
    "bf.bloom-defrag-enabled",
    "bf.bloom-filter-max-memory-usage",
    "bf.bloom-info-alias",
    "bf.bloom-large-item-threshold",
    "bf.bloom-memory-usage-limit",
    "bf.bloom-new-filters",
    "bf.families",
];

/// Returns a server that loads these families.
pub fn with_families(families: &str) -> Builder {
    Server::builder().module_args(&["families", families])
}

fn texts(reply: &Reply) -> BTreeSet<String> {
    reply.as_array().iter().map(Reply::text).collect()
}

fn families(client: &mut Client) -> String {
    client.cmd("CONFIG GET bf.families").as_array()[1].text()
}

fn settings(client: &mut Client) -> BTreeSet<String> {
    let reported = client.cmd("CONFIG GET bf.*");
    let pairs = reported.as_array().chunks(2);
    pairs.map(|pair| pair[0].text()).collect()
}

/// Returns the family of a setting, or `None` if all families share it.
fn family_of(setting: &str) -> Option<&'static str> {
    if SHARED.contains(&setting) {
        None
    } else if setting.starts_with("bf.cf-") {
        Some("cuckoo")
    } else if setting.starts_with("bf.cms-") {
        Some("cms")
    } else {
        Some("bloom")
    }
}

/// Makes a value of each family, and returns their payloads.
fn payloads(client: &mut Client) -> Vec<Vec<u8>> {
    let payloads = FAMILIES.map(|family| {
        client.ok(family.make);
        client
            .cmd(&format!("DUMP {}", family.name))
            .as_bytes()
            .to_vec()
    });
    payloads.to_vec()
}

/// Requires that a server makes and restores values of a family if it is selected, and else knows neither its commands nor
/// its types.
#[track_caller]
fn assert_serves(server: &Server, family: &Family, payload: &[u8], is_selected: bool) {
    let mut client = server.client();
    let name = family.name;
    let (made, restored, kind) = if is_selected {
        (ok(), ok(), family.kind)
    } else {
        let (command, args) = family.make.split_once(' ').expect("several words");
        let args = args.replace(' ', "' '");
        let unknown =
            format!("ERR unknown command '{command}', with args beginning with: '{args}' ");
        (error(&unknown), error("ERR Bad data format"), "none")
    };
    client.expect(family.make, &made);
    client.cmd(&format!("DEL {name}"));
    let of = format!("{name} of {}", families(&mut client));
    assert_eq!(client.restore(name, payload), restored, "{of}");
    client.expect(format!("TYPE {name}"), simple(kind));
    if has_categories(&server.version()) {
        let category = client.cmd(&format!("ACL CAT {name}"));
        assert_eq!(!category.is_error(), is_selected, "{of}");
    }
}

#[test]
fn a_server_has_what_its_families_have() {
    let full = Server::start();
    assert_eq!(families(&mut full.client()), ALL);
    let payloads = payloads(&mut full.client());
    let all_settings = settings(&mut full.client());
    for selected in [
        "bloom",
        "cuckoo",
        "cms",
        "topk",
        "tdigest",
        "bloom,cuckoo",
        "cuckoo,cms,topk,tdigest",
        ALL,
    ] {
        let server = with_families(selected).start();
        let mut client = server.client();
        let is_selected = |name: &str| selected.split(',').any(|word| word == name);
        assert_eq!(families(&mut client), selected);

        let has = |setting: &&String| family_of(setting).is_none_or(is_selected);
        let expected: BTreeSet<_> = all_settings.iter().filter(has).cloned().collect();
        assert_eq!(settings(&mut client), expected, "{selected}");

        let names = FAMILIES.iter().filter(|family| is_selected(family.name));
        let prefixes: Vec<_> = names.map(|family| family.prefix).collect();
        let commands = commands::all().map(Command::name);
        let (present, absent): (BTreeSet<_>, BTreeSet<_>) =
            commands.partition(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        let listed = client.cmd("COMMAND LIST FILTERBY MODULE bf");
        assert_eq!(texts(&listed), present, "{selected}");
        for name in &absent {
            client.expect(format!("COMMAND INFO {name}"), array([nil()]));
            client.expect(format!("COMMAND DOCS {name}"), array([]));
        }

        let mut sections = BTreeSet::from(["bf_bloom_defrag_metrics".to_owned()]);
        if is_selected("bloom") {
            sections.insert("bf_bloom_feed_metrics".to_owned());
        }
        for (family, payload) in FAMILIES.iter().zip(&payloads) {
            if is_selected(family.name) {
                sections.insert(format!("bf_{}_core_metrics", family.name));
            }
            assert_serves(&server, family, payload, is_selected(family.name));
        }
        let info = client.cmd("INFO bf").text();
        let headings = info.lines().filter_map(|line| line.strip_prefix("# "));
        let headings: BTreeSet<String> = headings.map(str::to_owned).collect();
        assert_eq!(headings, sections, "{selected}");
        assert_eq!(client.cmd("INFO bloom").text(), info, "{selected}");
    }
}

/// Settings of a family that is loaded are given as ever, before and after the families.
#[test]
fn settings_of_a_family_are_given_beside_the_families() {
    let value = |server: &Server, name: &str| {
        let reported = server.client().cmd(&format!("CONFIG GET {name}"));
        reported.as_array()[1].text()
    };
    let args = [
        "cf-initial-size 64",
        "families cuckoo",
        "bloom-memory-usage-limit 1mb",
    ];
    let server = Server::builder()
        .module_args(&args)
        .before_module("bf.cf-bucket-size 4")
        .start();
    assert_eq!(value(&server, "bf.cf-initial-size"), "64");
    assert_eq!(value(&server, "bf.cf-bucket-size"), "4");
    assert_eq!(value(&server, "bf.bloom-memory-usage-limit"), "1048576");
}

/// Returns the lines of a log from the module, without what the server writes before them.
fn said(log: &str) -> Vec<&str> {
    let lines = log.lines().filter_map(|line| line.split_once("<module> "));
    lines.map(|(_, text)| text).collect()
}

#[test]
fn wrong_families_are_refused_with_the_valid_ones() {
    let valid = "argument must be 'bloom', 'cuckoo', 'cms', 'topk' or 'tdigest', or several of these, \
         separated by commas";
    for (args, why) in [
        ("families bf", format!("families: {valid}")),
        ("families bloom,cukoo", format!("families: {valid}")),
        ("families \"\"", format!("families: {valid}")),
        ("families ,", format!("families: {valid}")),
        ("families bloom,", format!("families: {valid}")),
        ("families bloom,,cms", format!("families: {valid}")),
        ("families \"bloom cms\"", format!("families: {valid}")),
        // CONFIG REWRITE would write it as two words.
        ("families \"bloom, cms\"", format!("families: {valid}")),
        ("families all", format!("families: {valid}")),
        ("BF.Families none", format!("BF.Families: {valid}")),
        ("families", "no value for families".to_owned()),
        ("families bloom cms", "no value for cms".to_owned()),
        (
            "families bloom cf-bucket-size 4",
            "cf-bucket-size is a setting of cuckoo, which is not loaded".to_owned(),
        ),
        (
            "families cuckoo ERROR_RATE 0.1",
            "ERROR_RATE is a setting of bloom, which is not loaded".to_owned(),
        ),
    ] {
        let log = Server::builder().module_args(&[args]).try_start().err();
        let log = log.unwrap_or_else(|| panic!("it starts with {args}"));
        assert_eq!(said(&log), [format!("\"bf\" not loaded: {why}")], "{args}");
        assert!(log.contains("Can't load module from"), "{args}");
    }
    for value in ["bf", "\"\"", "bloom,"] {
        let line = format!("bf.families {value}");
        for builder in [
            Server::builder().before_module(&line),
            Server::builder().after_module(&line),
        ] {
            let log = builder.try_start().err();
            let log = log.unwrap_or_else(|| panic!("it starts with {line}"));
            assert!(log.contains(valid), "{line}:\n{log}");
        }
    }
    // No module takes a line about a family that is not loaded.
    let builder = with_families("bloom").after_module("bf.cf-bucket-size 4");
    let log = builder.try_start().err();
    let log = log.unwrap_or_else(|| panic!("it starts with another family's setting"));
    assert!(
        log.contains("Module Configuration detected without loadmodule directive"),
        "{log}"
    );
}

/// Another module may serve a family that is not loaded here, in either order.
#[test]
fn another_module_may_serve_a_family_that_is_left_out() {
    let plugin = Plugin::build("sketches.c");
    for builder in [
        with_families("bloom,topk").before_module(&plugin.line()),
        with_families("bloom,topk").after_module(&plugin.line()),
    ] {
        let server = builder.start();
        let mut client = server.client();
        client.expect("CMS.INFO k", simple("served"));
        client.expect("BF.ADD k a", int(1));
        assert_eq!(said(&server.log()), Vec::<&str>::new());
    }
}

/// The line that stands in a log before data is read without a family.
fn warning(family: &Family) -> String {
    let prefix = family.prefix.to_uppercase();
    let kinds = match family.name {
        "bloom" => "bloomfltr, MBbloom--, bloomfltx",
        _ => family.kind,
    };
    let name = family.name;
    format!(
        "families that are not loaded: {name} ({prefix}*, {kinds}). If the data has their values or commands, \
         loading stops there: add the family to bf.families"
    )
}

fn others(family: &Family) -> String {
    let names = FAMILIES.map(|family| family.name);
    let others = names.into_iter().filter(|name| *name != family.name);
    others.collect::<Vec<_>>().join(",")
}

fn digest_of_all(server: &Server) -> String {
    server.client().cmd("DEBUG DIGEST").text()
}

/// Returns whether a log has a text, in any case of letters, after the line that names a family.
fn names_before(log: &str, line: &str, text: &str) -> bool {
    let after = log.split_once(line).map(|(_, after)| after.to_lowercase());
    after.is_some_and(|after| after.contains(&text.to_lowercase()))
}

/// Files and logs with a value of a family that is not loaded: the server does not start, its log names the family,
/// and nothing is lost.
#[test]
fn a_server_does_not_start_without_a_family_of_its_data() {
    for family in &FAMILIES {
        let kind = family.kind;
        let unknown_type = format!("no matching module type '{kind}'");
        let unknown_command = format!("unknown command '{}", family.prefix);
        let file = Server::start();
        let preamble = Server::with(&[("appendonly", "yes")]);
        preamble.client().ok(family.make);
        rewrite_aof(&preamble);
        preamble.client().ok("FLUSHALL");
        for (mut server, why) in [
            (file, &unknown_type),
            (preamble, &unknown_type),
            (with_command_log(), &unknown_command),
        ] {
            server.client().ok(family.make);
            let before = digest_of_all(&server);
            server.shutdown_save();
            configure(&server, &format!("bf.families {}\n", others(family)));
            let log = server.try_start_again().expect_err("a family is missing");
            // The server reads a broken file again, to check it.
            let mut lines = said(&log);
            lines.dedup();
            assert_eq!(lines, [warning(family)], "{log}");
            assert!(names_before(&log, lines[0], why), "{why}:\n{log}");
            configure(&server, &format!("bf.families {ALL}\n"));
            server.start_again();
            assert_eq!(digest_of_all(&server), before, "{kind}");
        }
    }
}

/// A replica without a family of its primary's data.
#[test]
fn a_replica_without_a_family_follows_until_a_value_of_it_arrives() {
    let primary = Server::start();
    let mut client = primary.client();
    let topk = &FAMILIES[3];
    let line = warning(topk);
    client.expect("BF.ADD bloom a", int(1));
    let replica = Server::replica_of(&primary)
        .module_args(&["families", &others(topk)])
        .start();
    wait_in_sync(&primary, &replica);
    assert_eq!(said(&replica.log()), [&line]);
    // Its log has the errors of the family's commands, and it lacks their values.
    client.ok(topk.make);
    client.expect("BF.ADD bloom b", int(1));
    wait_in_sync(&primary, &replica);
    replica.client().expect("EXISTS topk", int(0));
    replica.client().expect("BF.EXISTS bloom b", int(1));
    wait_until("the log names the command", || {
        replica.log_contains("unknown command 'TOPK.RESERVE'")
    });
    drop(replica);

    for load in ["disabled", "on-empty-db", "swapdb"] {
        let mut replica = with_families(&others(topk))
            .config("repl-diskless-load", load)
            .start();
        replica.client().follow(primary.port());
        wait_until("the replica has ended", || {
            Client::connect(replica.port()).is_err()
        });
        let log = replica.log();
        let why = "no matching module type 'TopK-TYPE'";
        assert!(names_before(&log, &line, why), "{load}:\n{log}");
        replica.kill();
    }
}
