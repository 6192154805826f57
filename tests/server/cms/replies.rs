//! Increments and fields for counters of each size, in both protocols.

use crate::harness::{Server, array, error, int};
use crate::support::protocols::{in_both_protocols, table};

#[test]
fn counters_of_each_size_keep_their_range() {
    let [over, under] = ["over", "under"].map(|kind| error(&format!("CMS: INCRBY {kind}flow")));
    in_both_protocols(&Server::start(), |client, resp3| {
        for (size, most) in [(1, 255), (2, 65_535), (4, u32::MAX.into()), (8, i64::MAX)] {
            client.ok(format!("CMS.INITBYDIM k 1000 3 CELL_SIZE {size}"));
            let line = format!("CMS.INCRBY k a {most} a 1 a 0 b -1 a -{most} a -1 a {most}");
            let most = int(most);
            let [full, refused] = [&most, &over].map(Clone::clone);
            let expected = [
                full,
                refused,
                most.clone(),
                under.clone(),
                int(0),
                under.clone(),
                most.clone(),
            ];
            client.expect(line, array(expected));
            client.expect("CMS.INCRBY k a 9223372036854775807", array([over.clone()]));
            let mut fields = vec![("width", int(1000)), ("depth", int(3)), ("count", most)];
            if size != 4 {
                fields.push(("cell_size", int(size)));
            }
            client.expect("CMS.INFO k", table(resp3, fields));
            // The count has a largest value, too.
            if size == 8 {
                client.expect("CMS.INCRBY k b 1", array([over.clone()]));
                client.expect("CMS.QUERY k b", array([int(0)]));
            }
            client.expect("DEL k", int(1));
        }
    });
}
