//! Clusters of real servers.

use std::time::Duration;

use super::{Builder, Server, ok, wait_in_sync, wait_until};

pub fn node() -> Builder {
    Server::builder()
        .config("cluster-enabled", "yes")
        .config("cluster-node-timeout", "30000")
}

/// Makes these nodes one cluster. They have an epoch each.
pub fn meet(nodes: &[&Server]) {
    for (at, node) in nodes.iter().enumerate() {
        let mut client = node.client();
        for other in &nodes[at + 1..] {
            client.ok(format!("CLUSTER MEET 127.0.0.1 {}", other.port()));
        }
    }
    let known = format!("cluster_known_nodes:{}\r", nodes.len());
    for node in nodes {
        wait_until("the nodes know each other", || {
            let info = node.client().cmd("CLUSTER INFO").text();
            let fields = ["cluster_state:ok", "cluster_slots_assigned:16384", &known];
            fields.iter().all(|field| info.contains(field))
        });
    }
}

/// Makes a node a whole cluster.
pub fn alone(node: &Server) {
    node.client().ok("CLUSTER ADDSLOTSRANGE 0 16383");
    meet(&[node]);
}

/// Starts `count` nodes that know each other. The first `primaries` of them share the slots.
#[track_caller]
pub fn nodes(count: usize, primaries: usize, node_timeout: Duration) -> Vec<Server> {
    let timeout = node_timeout.as_millis().to_string();
    let start = |_| {
        node()
            .config("cluster-node-timeout", &timeout)
            .config("cluster-require-full-coverage", "no")
            .config("cluster-allow-replica-migration", "no")
            .config("cluster-replica-validity-factor", "0")
            .start()
    };
    let nodes: Vec<Server> = (0..count).map(start).collect();
    for (at, node) in nodes.iter().enumerate() {
        let mut client = node.client();
        client.ok(format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
        if at < primaries {
            let (from, to) = (at * SLOTS / primaries, (at + 1) * SLOTS / primaries - 1);
            client.ok(format!("CLUSTER ADDSLOTSRANGE {from} {to}"));
        }
    }
    meet(&nodes.iter().collect::<Vec<_>>());
    nodes
}

/// Three primaries with a third of the slots each, and a replica of each.
pub struct Cluster {
    /// First those that start as primaries, then their replicas in the same order.
    pub nodes: Vec<Server>,
}

pub const SHARDS: usize = 3;
pub const SLOTS: usize = 16_384;

impl Cluster {
    /// Starts a cluster in which a replica takes over after its primary has not answered for `node_timeout`.
    #[track_caller]
    pub fn start(node_timeout: Duration) -> Self {
        let nodes = nodes(2 * SHARDS, SHARDS, node_timeout);
        for shard in 0..SHARDS {
            let replicate = format!("CLUSTER REPLICATE {}", id(&nodes[shard]));
            assert_eq!(nodes[SHARDS + shard].client().cmd(&replicate), ok());
        }
        let cluster = Self { nodes };
        cluster.in_sync();
        cluster
    }

    /// Returns the number of the node that is the primary of a shard now.
    pub fn primary(&self, shard: usize) -> usize {
        let mut found = None;
        wait_until("the shard has one primary", || {
            let is_primary = |at: &usize| is_primary(&self.nodes[*at]);
            let mut primaries = [shard, shard + SHARDS].into_iter().filter(is_primary);
            found = primaries.next();
            found.is_some() && primaries.next().is_none()
        });
        found.expect("one was found")
    }

    /// Returns the primaries, each with its replica, once it has all that its primary has.
    pub fn in_sync(&self) -> Vec<(&Server, &Server)> {
        let shards = (0..SHARDS).map(|shard| {
            let primary = self.primary(shard);
            let replica = (primary + SHARDS) % (2 * SHARDS);
            (&self.nodes[primary], &self.nodes[replica])
        });
        let shards: Vec<_> = shards.collect();
        for (primary, replica) in &shards {
            wait_in_sync(primary, replica);
            // The nodes hear some seconds later of who follows whom, and refuse others until then.
            let (primary_id, replica_id) = (id(primary), id(replica));
            for node in &self.nodes {
                wait_until("every node knows who replicates whom", || {
                    let reported = node.client().cmd("CLUSTER NODES").text();
                    let line = reported.lines().find(|line| line.starts_with(&replica_id));
                    line.is_some_and(|line| line.contains(&format!("slave {primary_id} ")))
                });
            }
        }
        shards
    }
}

pub fn is_primary(server: &Server) -> bool {
    server.info("replication")["role"] == "master"
}

pub fn id(server: &Server) -> String {
    server.client().cmd("CLUSTER MYID").text()
}
