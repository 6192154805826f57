//! The fields of BF.INFO.

use crate::harness::{Client, Reply, Server, array, bulk, error, int, map, nil, simple};
use crate::support::protocols::{field, in_both_protocols, rate, table, truth};

#[test]
fn info_returns_all_fields_in_order_and_each_alone() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        client.ok("BF.RESERVE s 0.01 100 EXPANSION 3");
        client.ok("BF.RESERVE f 0.02 100 NONSCALING");
        client.expect("BF.ADD s a", truth(resp3, true));
        client.expect("BF.ADD f a", truth(resp3, true));

        let size = |client: &mut Client, key| int(field(client, key, "SIZE"));
        let of_scaling = rate(resp3, estimated_rate(client, "s", 0.005));
        let of_fixed = rate(resp3, estimated_rate(client, "f", 0.02));
        let scaling = vec![
            ("CAPACITY", "Capacity", int(100)),
            ("SIZE", "Size", size(client, "s")),
            ("FILTERS", "Number of filters", int(1)),
            ("ITEMS", "Number of items inserted", int(1)),
            ("EXPANSION", "Expansion rate", int(3)),
            ("ERROR", "Error rate", rate(resp3, 0.01)),
            ("TIGHTENING", "Tightening ratio", rate(resp3, 0.5)),
            // Of twelve filters; a thirteenth would exceed 64 MiB.
            (
                "MAXSCALEDCAPACITY",
                "Max scaled capacity",
                int(100 * (3_i64.pow(12) - 1) / 2),
            ),
            ("ESTIMATEDERROR", "Estimated error rate", of_scaling),
            ("KIND", "Kind", bulk("plain")),
        ];
        let fixed = vec![
            ("CAPACITY", "Capacity", int(100)),
            ("SIZE", "Size", size(client, "f")),
            ("FILTERS", "Number of filters", int(1)),
            ("ITEMS", "Number of items inserted", int(1)),
            ("EXPANSION", "Expansion rate", nil()),
            ("ERROR", "Error rate", rate(resp3, 0.02)),
            ("ESTIMATEDERROR", "Estimated error rate", of_fixed),
            ("KIND", "Kind", bulk("plain")),
        ];
        assert_info(client, resp3, "s", scaling);
        assert_info(client, resp3, "f", fixed);
    });
}

/// Returns the estimated rate of a filter that was made for a rate. It is very low with one item of a hundred; the core's
/// tests check the value.
#[track_caller]
fn estimated_rate(client: &mut Client, key: &str, made_for: f64) -> f64 {
    let reported = match client.cmd(&format!("BF.INFO {key} ESTIMATEDERROR")) {
        Reply::Map(pairs) => match pairs[0].1 {
            Reply::Double(reported) => reported,
            ref other => panic!("not a double: {other:?}"),
        },
        other => other.as_array()[0].text().parse().expect("a number"),
    };
    assert!((0.0..made_for / 10.0).contains(&reported), "{reported}");
    reported
}

/// Requires these fields of a filter, each a word, a title and a value: each alone, and all in each selection.
#[track_caller]
fn assert_info(
    client: &mut Client,
    resp3: bool,
    key: &str,
    rows: Vec<(&str, &'static str, Reply)>,
) {
    for (word, title, value) in &rows {
        let alone = if resp3 {
            map([(simple(title), value.clone())])
        } else {
            array([value.clone()])
        };
        client.expect(format!("BF.INFO {key} {word}"), &alone);
        let lower = word.to_lowercase();
        client.expect(format!("bf.info {key} {lower}"), &alone);
    }
    let rows = rows.into_iter().map(|(_, title, value)| (title, value));
    let rows: Vec<_> = rows.collect();
    // RedisBloom's five, and valkey-bloom's in its order.
    let mut peer = rows[..rows.len() - 2].to_vec();
    peer.swap(4, 5);
    for (fields, expected) in [
        ("five", &rows[..5]),
        ("valkey-bloom", &peer),
        ("all", &rows),
    ] {
        client.ok(format!("CONFIG SET bf.bloom-info-fields {fields}"));
        for (words, rows) in [("", expected), (" all", &rows)] {
            client.expect(format!("BF.INFO {key}{words}"), table(resp3, rows.to_vec()));
        }
    }
    client.ok("CONFIG SET bf.bloom-info-fields five");
}

#[test]
fn growth_may_go_to_the_max_scaled_capacity_and_no_further() {
    let (_server, mut client) = Server::with_client();
    let limit = "CONFIG SET bf.bloom-memory-usage-limit";
    client.ok(format!("{limit} 100000"));
    let create = "BF.INSERT full CAPACITY 100 EXPANSION 1";
    client.expect(create, array([]));
    let within = field(&mut client, "full", "MAXSCALEDCAPACITY");
    let to = |n: i64| create.replace("full", &format!("v{n} VALIDATESCALETO {n}"));
    client.expect(to(within), array([]));
    let beyond = "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit";
    client.expect(to(within + 1), error(beyond));
}

#[test]
fn debug_returns_the_sizes_of_every_filter() {
    let (_server, mut client) = Server::with_client();
    client.ok("BF.RESERVE s 0.000001 10 EXPANSION 2");
    for item in 0..65 {
        client.expect(format!("BF.ADD s {item}"), int(1));
    }
    let reported = client.cmd("BF.DEBUG s");
    assert_eq!(reported.as_array()[0], bulk("size:65"));
    let filters = reported.as_array()[1..].iter().map(Reply::text);
    let filters: Vec<String> = filters.collect();
    for (filter, sizes) in filters
        .iter()
        .zip(["10 size:10", "20 size:20", "40 size:35"])
    {
        let sizes = format!(" hashwidth:64 capacity:{sizes} ratio:");
        assert!(filter.contains(&sizes), "{filter}");
    }
    assert_eq!(filters.len(), 3);
}
