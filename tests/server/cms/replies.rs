//! The replies of each command, in both protocols.

use crate::harness::{Client, Reply, Server, array, error, int};
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
