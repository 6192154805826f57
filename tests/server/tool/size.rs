//! The sizes that the program predicts are those of filters on servers.

use serde_json::Value;

use crate::harness::{Client, Reply, Server, int, spaced};

use super::session::replay;
use super::{add, info, numbered, run, run_line, url};

fn number(json: &Value, name: &str) -> i64 {
    json[name]
        .as_i64()
        .unwrap_or_else(|| panic!("no {name} in {json}"))
}

#[test]
fn a_server_makes_what_was_planned() {
    let server = Server::start();
    let mut client = server.client();
    for options in [
        "bloom 1000 0.01",
        "bloom 40k 0.001 --nonscaling",
        "bloom 20000 0.01 --growing-from 50",
        "bloom 20000 0.02 --growing-from 100 --expansion 1",
        "bloom 3000 0.01 --counting",
        "bloom 20k 0.01 --window 1h --periods 24",
        "bloom 1 0.5",
        "bloom 5000 0.01 --growing-from 100 --kind redisbloom",
        "bloom 5000 0.01 --growing-from 100 --kind valkey-bloom",
    ] {
        let planned = run_line(&format!("size --json {options}")).json();
        let maker = planned["setting"].as_str();
        let maker = maker.unwrap_or("bf.bloom-new-filters own");
        client.ok(format!("CONFIG SET {maker}"));
        let command = planned["command"].as_str().expect("a command");
        client.ok(command);
        let assert_taken = |taken: i64, name| {
            let planned = number(&planned, name);
            // Of RedisBloom's filters, Size is RedisBloom's figure, which leaves out what only this module has.
            if options.contains("--kind redisbloom") {
                assert!(taken <= planned, "{options}: {taken} {planned}");
            } else {
                assert_eq!(taken, planned, "{options}");
            }
        };
        assert_taken(size(&mut client), "bytes_when_made");

        // Of a window, that is the capacity of a period.
        let most = if options.contains("--window") {
            info(&mut client, "key", "Capacity").as_int()
        } else {
            number(&planned, "items")
        };
        fill(&mut client, most);
        let filters = info(&mut client, "key", "Number of filters").as_int();
        assert_eq!(filters, number(&planned, "filters"), "{options}");
        if planned["fingerprint_bits"].is_null() {
            assert_taken(size(&mut client), "bytes_when_full");
            assert_planned_hashes(&mut client, &planned, options);
        } else {
            assert_planned_table(&mut client, &planned, options);
        }
        client.cmd("DEL key");
    }
}

/// A filter that does not grow takes the planned items, although not each of its slots can be used; one that grows does so up
/// to the filter at which adds stop. With 255 slots in a bucket, each slot is used.
#[test]
fn a_cuckoo_filter_takes_what_was_planned() {
    let server = Server::start();
    let mut client = server.client();
    let full = "--bucket-size 255 --max-iterations 65535";
    for (options, most, is_all) in [
        ("1000 --nonscaling --max-filters 2", 1000, false),
        ("40k --nonscaling --bucket-size 1", 40_000, false),
        ("3000 --nonscaling --max-iterations 5", 3000, false),
        ("5000 --nonscaling --bucket-size 4", 5000, false),
        (&format!("510 --max-filters 2 {full}"), 511, true),
        (
            &format!("1020 --growing-from 510 --max-filters 3 {full}"),
            1021,
            true,
        ),
    ] {
        client.ok("FLUSHALL");
        let planned = run_line(&format!("size cuckoo --json {options}")).json();
        let filters = options
            .split_once("--max-filters ")
            .map_or("32", |(_, rest)| &rest[..1]);
        client.ok(format!("CONFIG SET bf.cf-max-expansions {filters}"));
        client.ok(planned["command"].as_str().expect("a command"));
        for item in 0..most {
            client.expect(format!("CF.ADD key {item}"), int(1));
        }
        assert!(number(&planned["limit"], "items") >= if is_all { most - 1 } else { most });
        let next = client.cmd(&format!("CF.ADD key {most}"));
        assert_eq!(next.is_error(), is_all, "{options}: {next:?}");
    }
    // One filter less than advised is too few.
    for (options, needed) in [
        ("1000 --max-filters 1", 2),
        ("1020 --growing-from 510 --max-filters 2", 3),
    ] {
        let refused = run_line(&format!("size cuckoo {options} {full}")).failed(1);
        let advice = format!("set bf.cf-max-expansions to {needed} there, or reserve");
        assert!(refused.contains(&advice), "{refused}");
    }
}

fn size(client: &mut Client) -> i64 {
    info(client, "key", "Size").as_int()
}

/// Adds items to the object `key` until it counts `most`.
pub fn fill(client: &mut Client, most: i64) {
    let mut next = 0;
    loop {
        let held = info(client, "key", "Number of items inserted").as_int();
        if held >= most {
            break;
        }
        let lack = u32::try_from((most - held).min(1000)).expect("few");
        add(client, "key", &numbered("item", next..next + lack));
        next += lack;
    }
}

/// Requires that a full object has a table of about the planned size.
#[track_caller]
fn assert_planned_table(client: &mut Client, planned: &Value, options: &str) {
    // This size is expected of a table, which never has exactly that.
    let (taken, bytes) = (size(client), number(planned, "bytes_when_full"));
    assert!(
        (taken - bytes).abs() * 20 < bytes,
        "{options}: {taken} {bytes}"
    );
    let lines = client.cmd("BF.DEBUG key");
    let bits = format!(" fingerprint:{} ", planned["fingerprint_bits"][0]);
    assert!(
        lines.as_array()[1].text().contains(&bits),
        "{options}: {lines:?}"
    );
}

/// Requires that the filters of a full object have the planned hash functions, and that it can grow as far as planned.
#[track_caller]
fn assert_planned_hashes(client: &mut Client, planned: &Value, options: &str) {
    let debug = client.cmd("BF.DEBUG key");
    let lines = debug.as_array().iter().skip(1).map(Reply::text);
    let hashes = lines.map(|line| {
        let (_, rest) = line.split_once("hashes:").expect("it tells its hashes");
        rest.split(' ').next().expect("a number").to_owned()
    });
    let planned_hashes = planned["hash_functions"].as_array().expect("a list");
    let planned_hashes: Vec<String> = planned_hashes.iter().map(ToString::to_string).collect();
    assert_eq!(hashes.collect::<Vec<_>>(), planned_hashes, "{options}");

    let limit = &planned["limit"]["items"];
    if info(client, "key", "Expansion rate") != Reply::Nil {
        let reach = info(client, "key", "Max scaled capacity").as_int();
        assert_eq!(limit.as_i64(), Some(reach), "{options}");
    }
}

/// The limits refuse what the program says that they refuse, and admit it as it says.
#[test]
fn errors_of_the_limits_name_a_way_out() {
    let server = Server::start();
    let mut client = server.client();
    let refused = run(&["size", "100M", "0.01"]);
    let command = refused
        .out
        .lines()
        .find_map(|line| line.strip_prefix("command"));
    let command = command.expect("a command").trim().to_owned();
    let why = refused.failed(1);
    let (_, setting) = why.split_once("set ").expect("a way out");
    let (setting, _) = setting.split_once(" there").expect("a way out");
    let too_large = "ERR operation exceeds bloom object memory limit";
    assert_eq!(client.cmd(&command).text(), too_large);
    let (name, bytes) = setting.split_once(" to ").expect("a name and a value");
    client.ok(format!("CONFIG SET {name} {bytes}"));
    client.ok(&command);

    // The number of bytes is the least that suffices, for the program and for the server.
    let planned = [
        "bloom 100k 0.01 --growing-from 1000",
        "cuckoo 5000 --growing-from 1k --expansion 2",
        "cms 0.001 0.01",
        "topk 100",
        "tdigest 100",
    ];
    let object = ("--object-limit", "bf.bloom-memory-usage-limit");
    let filter = ("--filter-limit", "bf.bloom-filter-max-memory-usage");
    let limits = planned.map(|planned| [(planned, object), (planned, filter)]);
    for (planned, (option, name)) in limits.into_iter().flatten() {
        let limited = |bytes: u64| run_line(&format!("size --json {planned} {option} {bytes}"));
        let why = limited(1500).failed(1);
        assert!(why.contains(&format!("set {name} to ")), "{why}");
        let enough = why.split([' ', ',']).find_map(|word| word.parse().ok());
        let enough = enough.expect("a number of bytes");
        let accepted = limited(enough).json();
        assert_eq!(limited(enough - 1).failed(1), why);

        // The first filter of a filter that grows is within the limits.
        if !planned.contains("--growing-from") {
            let command = accepted["command"].as_str().expect("a command");
            client.ok(
                "CONFIG SET bf.bloom-filter-max-memory-usage 64mb bf.bloom-memory-usage-limit 0",
            );
            client.cmd("DEL key");
            client.ok(format!("CONFIG SET {name} {}", enough - 1));
            assert!(client.cmd(command).is_error(), "{planned} {name}");
            client.ok(format!("CONFIG SET {name} {enough}"));
            client.ok(command);
        }
    }
}

/// Among them, the shards of docs/sharded.md.
#[test]
fn plans_beyond_the_limits_are_refused_or_sharded() {
    replay("size.txt", &[&Server::start()]);
}

#[test]
fn an_existing_filter_is_sized() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("BF.RESERVE grown 0.01 100");
    add(&mut client, "grown", &numbered("item", 0..5000));
    client.ok("BF.RESERVE counted 0.01 1000 COUNTING NONSCALING");
    client.ok("BF.RESERVE lately 0.01 1000 WINDOW 3600000 PERIODS 24");
    for key in ["grown", "counted", "lately"] {
        let reported = run(&["size", "--json", "of", &url(&server), key]).json();
        for (name, field) in [
            ("items", "Number of items inserted"),
            ("capacity", "Capacity"),
            ("bytes", "Size"),
            ("filters", "Number of filters"),
        ] {
            assert_eq!(
                number(&reported, name),
                info(&mut client, key, field).as_int(),
                "{key}"
            );
        }
        assert_eq!(reported["error_rate"], 0.01);
        if key == "lately" {
            let items = info(&mut client, key, "Items in current period").as_int();
            assert_eq!(number(&reported, "items_in_the_period"), items);
            let text = run(&["size", "of", &url(&server), key]).done();
            assert!(text.contains("\nitems in the period"), "{text}");
        }
        assert_eq!(reported["type"], client.cmd(&format!("TYPE {key}")).text());
    }
    let reported = run(&["size", "--json", "of", &url(&server), "grown"]).json();
    let items = number(&reported, "items");
    client.ok(format!("BF.RESERVE anew 0.01 {items}"));
    let anew = info(&mut client, "anew", "Size").as_int();
    assert_eq!(number(&reported, "bytes_if_reserved_for_its_items"), anew);
    assert_eq!(
        number(&reported, "saved_by_that"),
        number(&reported, "bytes") - anew
    );
    let reach = info(&mut client, "grown", "Max scaled capacity").as_int();
    assert_eq!(number(&reported, "can_grow_to"), reach);
}

/// The bytes of a sketch are those that INFO counts, once its list or its nodes have filled it.
#[test]
fn a_server_makes_the_sketches_that_were_planned() {
    let server = Server::start();
    let mut client = server.client();
    for (options, full) in [
        ("cms 0.001 0.01", ""),
        ("cms 0.5 0.5", ""),
        ("cms 0.01 1e-9 --cell-size 8", ""),
        ("topk 1 --width 1 --depth 1 --decay 1", "TOPK.ADD"),
        ("topk 100", "TOPK.ADD"),
        ("topk 1000 --width 10k --depth 5 --decay 0.925", "TOPK.ADD"),
        ("cuckoo 1000", ""),
        (
            "cuckoo 5000 --bucket-size 4 --growing-from 1k --expansion 2",
            "",
        ),
        ("tdigest", "TDIGEST.ADD"),
        ("tdigest 1", "TDIGEST.ADD"),
        ("tdigest 2500", "TDIGEST.ADD"),
    ] {
        let family = options.split(' ').next().expect("a family");
        let planned = run_line(&format!("size --json {options}")).json();
        let command = planned["command"].as_str().expect("a command");
        client.ok(command);
        if !full.is_empty() {
            client.run(format!("{full} key {}", spaced(0..20_000)));
        }
        let info = server.info("bf");
        let bytes = &info[&format!("bf_{family}_total_memory_bytes")];
        let bytes: i64 = bytes.parse().expect("a number");
        let is_cuckoo = family == "cuckoo";
        let planned = number(
            &planned,
            if is_cuckoo {
                "bytes_when_made"
            } else {
                "bytes"
            },
        );
        let range = if full.is_empty() {
            // The allocator rounds up.
            planned..=planned + planned / 4 + 32
        } else {
            // The items of a list are not in the plan; a digest has the nodes that it needs.
            planned / 3..=planned + planned / 4 + 64_000
        };
        assert!(range.contains(&bytes), "{options}: {bytes} of {planned}");
        client.cmd("DEL key");
    }
}
