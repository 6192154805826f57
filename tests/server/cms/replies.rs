//! The replies of each command, in both protocols.

use crate::harness::{Client, Reply, Server, array, error, int};
use crate::scripting::takes_an_error_for_the_list;
use crate::support::protocols::{in_both_protocols, table};

const OVERFLOW: &str = "CMS: INCRBY overflow";
const UNDERFLOW: &str = "CMS: INCRBY underflow";

fn ints(numbers: &[i64]) -> Reply {
    array(numbers.iter().map(|number| int(*number)))
}

/// Requires the fields of CMS.INFO.
#[track_caller]
fn has_info(client: &mut Client, resp3: bool, key: &str, fields: &[(&str, i64)]) {
    let rows = fields.iter().map(|(name, value)| (*name, int(*value)));
    client.expect(format!("CMS.INFO {key}"), table(resp3, rows.collect()));
}

#[test]
fn negative_increments_subtract() {
    in_both_protocols(&Server::start(), |client, resp3| {
        for (key, size) in [("one", 1), ("two", 2), ("four", 4), ("eight", 8)] {
            client.ok(format!("CMS.INITBYDIM {key} 1000 5 CELL_SIZE {size}"));
            let counted = client.cmd(&format!("CMS.INCRBY {key} a 10 a -4 b -1 a -7 a -6"));
            let under = || error(UNDERFLOW);
            assert_eq!(counted, array([int(10), int(6), under(), under(), int(0)]));
            client.expect(format!("CMS.INCRBY {key} a -1"), array([under()]));
            let mut fields = vec![("width", 1000), ("depth", 5), ("count", 0)];
            if size != 4 {
                fields.push(("cell_size", size));
            }
            has_info(client, resp3, key, &fields);
        }
    });
}

#[test]
fn counters_overflow_without_a_change() {
    in_both_protocols(&Server::start(), |client, resp3| {
        for (size, most) in [(1, 255), (2, 65_535), (4, u32::MAX.into()), (8, i64::MAX)] {
            client.ok(format!("CMS.INITBYDIM k 10 3 CELL_SIZE {size}"));
            let over = || error(OVERFLOW);
            client.expect(
                format!("CMS.INCRBY k a {most} a 1 a 0"),
                array([int(most), over(), int(most)]),
            );
            let mut fields = vec![("width", 10), ("depth", 3), ("count", most)];
            if size != 4 {
                fields.push(("cell_size", size));
            }
            has_info(client, resp3, "k", &fields);
            client.expect("CMS.INCRBY k a 9223372036854775807", array([over()]));
            has_info(client, resp3, "k", &fields);
            client.expect("DEL k", int(1));
        }
        // The count has a largest value, too.
        client.cmd("CMS.INITBYDIM k 1000 3 CELL_SIZE 8");
        client.expect(
            "CMS.INCRBY k a 9223372036854775807 b 1",
            array([int(i64::MAX), error(OVERFLOW)]),
        );
        client.expect("CMS.QUERY k b", ints(&[0]));
    });
}

#[test]
fn merging_adds_weighted_counts() {
    in_both_protocols(&Server::start(), |client, resp3| {
        for key in ["a", "b", "weights", "d"] {
            client.ok(format!("CMS.INITBYDIM {key} 1000 5"));
        }
        client.cmd("CMS.INCRBY a x 1 y 2");
        client.cmd("CMS.INCRBY b y 10 z 20");
        client.cmd("CMS.INCRBY weights w 5");
        client.cmd("CMS.INCRBY d gone 99");
        let query = "CMS.QUERY d x y z w gone";
        client.ok("CMS.MERGE d 2 a b");
        client.expect(query, ints(&[1, 12, 20, 0, 0]));
        has_info(
            client,
            resp3,
            "d",
            &[("width", 1000), ("depth", 5), ("count", 33)],
        );
        client.ok("CMS.MERGE d 3 a b d weights 2 -1 1");
        client.expect(query, ints(&[3, 6, 0, 0, 0]));
        // The destination is a source each time that it is named, with what it held before.
        client.ok("CMS.MERGE d 3 d d a");
        client.expect(query, ints(&[7, 14, 0, 0, 0]));
        // RedisBloom can't merge a key with this name.
        client.ok("CMS.MERGE d 2 weights weights WEIGHTS 1 2");
        client.expect(query, ints(&[0, 0, 0, 15, 0]));
        client.ok("CMS.MERGE d 1 a WEIGHTS 0");
        has_info(
            client,
            resp3,
            "d",
            &[("width", 1000), ("depth", 5), ("count", 0)],
        );
        // A key that is named ten thousand times.
        let often = vec!["a"; 10_000].join(" ");
        client.ok(format!("CMS.MERGE d 10000 {often}"));
        client.expect(query, ints(&[10_000, 20_000, 0, 0, 0]));
    });
}

#[test]
fn an_error_element_raises_or_is_returned_by_a_script() {
    let server = Server::start();
    let raises = takes_an_error_for_the_list(&server);
    let mut client = server.client();
    client.cmd("CMS.INITBYDIM k 10 3 CELL_SIZE 1");
    let run =
        |client: &mut Client, script: &str| client.call(&[b"EVAL", script.as_bytes(), b"1", b"k"]);
    let script = "return redis.call('CMS.INCRBY', KEYS[1], 'a', 5, 'b', 300)";
    let reply = run(&mut client, script);
    if raises {
        let has_ended = reply.is_error() && reply.text().contains(OVERFLOW);
        assert!(has_ended, "{reply:?}");
    } else {
        assert_eq!(reply, array([int(5), error(OVERFLOW)]));
    }
    client.expect("CMS.QUERY k a b", ints(&[5, 0]));
    let script = "return redis.call('CMS.INCRBY', KEYS[1], 'a', 5)";
    assert_eq!(run(&mut client, script), ints(&[10]));
}
