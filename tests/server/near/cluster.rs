//! A filter of a cluster, whose slot moves and whose primary ends.

use std::time::Duration;

use redis::cluster::ClusterClientBuilder;
use redis::cluster_read_routing::RandomReplicaStrategy;
use tokio::runtime::Runtime;
use valkeybloom_client::Near;

use super::KEY;
use super::task::{becomes_equal, manager, many_items, quick};
use crate::cluster::{Router, migrate_keys, slot};
use crate::harness::cluster::{Cluster, SHARDS, SLOTS, id};
use crate::harness::{int, ok};
use crate::sharded::connect_with;

/// Adds some of the items whose answers are compared, and waits until the copy has them.
#[track_caller]
fn add_and_compare(near: &Near, router: &mut Router, part: usize, after: &str) {
    for item in many_items().iter().skip(part * 20).take(20) {
        assert_eq!(router.cmd(&format!("BF.ADD {KEY} {item}")), int(1));
    }
    let exists = |item: &str| router.cmd(&format!("BF.EXISTS {KEY} {item}")) == int(1);
    becomes_equal(near, exists, after);
}

#[test]
fn a_filter_is_followed_to_where_its_slot_goes() {
    let mut cluster = Cluster::start(Duration::from_secs(3));
    let mut router = Router::of(&cluster);
    let runtime = Runtime::new().expect("a runtime");
    assert_eq!(router.cmd("BF.RESERVE k 0.000001 1000"), ok());
    let near = runtime.block_on(async {
        let by_replicas =
            |client: ClusterClientBuilder| client.read_routing_strategy(RandomReplicaStrategy);
        Near::follow(connect_with(&cluster, by_replicas).await, KEY, quick())
    });
    assert_eq!(runtime.block_on(near.ready()), Ok(()));
    add_and_compare(&near, &mut router, 0, "adds");
    assert_eq!(near.stats().follower.resyncs, 0);
    // The connection reads from replicas, but no command of a copy does.
    for replica in &cluster.nodes[SHARDS..] {
        let info = replica.client().cmd("INFO commandstats").text();
        let info = info.to_lowercase();
        for name in ["bf.read", "bf.scandump", "bf.exists"] {
            assert!(!info.contains(&format!("cmdstat_{name}:")), "{name}");
        }
    }

    let slot = slot(KEY.as_bytes());
    let from = (0..SHARDS)
        .find(|at| slot < (at + 1) * SLOTS / SHARDS)
        .expect("each has a node");
    let to = (from + 1) % SHARDS;
    let (near_node, far_node) = (&cluster.nodes[from], &cluster.nodes[to]);
    let refused = runtime.block_on(async {
        let plain = manager(far_node.port(), false).await;
        Near::follow(plain, KEY, quick()).ready().await
    });
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("MOVED ") && refused.ends_with("; use a cluster client"),
        "{refused}"
    );
    let (mut here, mut there) = (near_node.client(), far_node.client());
    there.ok(format!(
        "CLUSTER SETSLOT {slot} IMPORTING {}",
        id(near_node)
    ));
    here.ok(format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(far_node)));
    add_and_compare(&near, &mut router, 1, "a move that has begun");
    assert_eq!(migrate_keys(&mut here, far_node, slot, 10), 1);
    add_and_compare(&near, &mut router, 2, "a key that has moved");
    for client in [&mut there, &mut here] {
        client.ok(format!("CLUSTER SETSLOT {slot} NODE {}", id(far_node)));
    }
    add_and_compare(&near, &mut router, 3, "a slot that has moved");
    assert!(near.stats().follower.resyncs > 0);
    assert_eq!(runtime.block_on(near.add("more")), Ok(true));
    assert_eq!(runtime.block_on(near.contains("more")), Ok(true));

    cluster.in_sync();
    cluster.nodes[to].kill();
    add_and_compare(&near, &mut router, 4, "a failover");
    assert_eq!(runtime.block_on(near.contains("more")), Ok(true));
}
