//! Objects move between the nodes of a cluster.

use crate::harness::{Builder, Client, Reply, Server, digest, error, int, ok, wait_until};
use crate::hostile::{Forged, ForgedFilter};
use crate::ledger;
use crate::persistence::{Population, load_chunks};

fn node() -> Builder {
    Server::builder()
        .config("cluster-enabled", "yes")
        .config("cluster-node-timeout", "30000")
}

/// Two primaries, all slots with the first.
fn cluster() -> (Server, Server) {
    let (first, second) = (node().start(), node().start());
    let mut client = first.client();
    assert_eq!(client.cmd("CLUSTER ADDSLOTSRANGE 0 16383"), ok());
    // Without it both would claim the same epoch for a while.
    let epoch = second.client().cmd("CLUSTER SET-CONFIG-EPOCH 2");
    assert_eq!(epoch, ok());
    let meet = format!("CLUSTER MEET 127.0.0.1 {}", second.port());
    assert_eq!(client.cmd(&meet), ok());
    for server in [&first, &second] {
        wait_until("the nodes know each other", || {
            let info = server.client().cmd("CLUSTER INFO").text();
            let fields = ["cluster_state:ok", "cluster_known_nodes:2"];
            fields.iter().all(|field| info.contains(field))
        });
    }
    (first, second)
}

fn id(server: &Server) -> String {
    server.client().cmd("CLUSTER MYID").text()
}

/// Makes an object whose dump is larger than an AOF's BF.LOAD may be: three filters of 30 MiB.
fn large(client: &mut Client, key: &str) {
    let mut filter = ForgedFilter::new(1_000_000, 1_000_000, Vec::new());
    filter.bitmap_bytes = 30 << 20;
    let mut object = Forged::new();
    object.expansion = 1;
    object.filters = vec![filter; 3];
    load_chunks(client, key, &[(1, object.header())]);
    let mut cursor = 1;
    for block in 0..6 {
        let chunk = vec![b'0' + block; 15 << 20];
        cursor += chunk.len() as u64;
        load_chunks(client, key, &[(cursor, chunk)]);
    }
    assert_eq!(client.cmd(&format!("BF.CARD {key}")), int(3_000_000));
}

/// The number of the slot that stays with the first node, which would become a replica of the other
/// without any. No key of these tests is in it.
const STAYS: u32 = 0;

#[test]
fn slots_migrate_at_one_go() {
    let (first, second) = cluster();
    let (mut near, mut far) = (first.client(), second.client());
    let population = Population::new(&mut near);
    large(&mut near, "large");
    assert_eq!(
        near.cmd(&format!("CLUSTER COUNTKEYSINSLOT {STAYS}")),
        int(0)
    );
    let migrate = format!(
        "CLUSTER MIGRATESLOTS SLOTSRANGE 1 16383 NODE {}",
        id(&second)
    );
    let version = first.version();
    if !version.valkey || version.major < 9 {
        let refused = near.cmd(&migrate).text();
        assert!(refused.starts_with("ERR unknown subcommand"), "{refused}");
        population.is_unchanged(&mut near);
        return;
    }
    let expected = digest(&mut near, "large");
    // What comes from another node is obeyed, as what comes from a primary.
    let tight = "CONFIG SET bf.bloom-filter-max-memory-usage 1 bf.bloom-memory-usage-limit 1";
    assert_eq!(far.cmd(tight), ok());
    assert_eq!(near.cmd("BF.RESERVE busy 0.0001 1000"), ok());
    assert_eq!(near.cmd(&migrate), ok());
    // Writes go on until the slots are the other's.
    let mut added = 0;
    wait_until("the slots have moved", || {
        match near.cmd(&format!("BF.ADD busy {added}")) {
            Reply::Error(text) => {
                assert!(text.starts_with("MOVED "), "{text}");
                true
            }
            reply => {
                assert!(matches!(reply, Reply::Int(_)), "{reply:?}");
                added += 1;
                false
            }
        }
    });
    assert!(added > 0);
    let jobs = near.cmd("CLUSTER GETSLOTMIGRATIONS");
    let job = jobs.as_array()[0].as_array();
    let state = job.chunks_exact(2).find(|pair| pair[0].text() == "state");
    assert_eq!(state.map(|pair| pair[1].text()).as_deref(), Some("success"));

    wait_until("the other serves the slots", || {
        !far.cmd("BF.CARD large").is_error()
    });
    let loose = "CONFIG SET bf.bloom-filter-max-memory-usage 64mb bf.bloom-memory-usage-limit 0";
    assert_eq!(far.cmd(loose), ok());
    assert_eq!(digest(&mut far, "large"), expected);
    population.is_unchanged(&mut far);
    for item in 0..added {
        assert_eq!(far.cmd(&format!("BF.EXISTS busy {item}")), int(1));
    }
    population.finish_loading(&mut far, str::to_owned);
    ledger::is_balanced(&mut far);
    wait_until("the first has let go of the keys", || {
        near.cmd("DBSIZE") == int(0)
    });
    ledger::is_balanced(&mut near);
}

#[test]
fn keys_migrate_one_by_one() {
    let (first, second) = cluster();
    let (mut near, mut far) = (first.client(), second.client());
    let (from, to) = (id(&first), id(&second));
    let population = Population::new(&mut near);
    large(&mut near, "large");
    let expected = digest(&mut near, "large");
    let keys: Vec<&str> = population.keys().chain(["large"]).collect();
    for key in &keys {
        let slot = near.cmd(&format!("CLUSTER KEYSLOT {key}")).as_int();
        let importing = format!("CLUSTER SETSLOT {slot} IMPORTING {from}");
        assert_eq!(far.cmd(&importing), ok());
        let migrating = format!("CLUSTER SETSLOT {slot} MIGRATING {to}");
        assert_eq!(near.cmd(&migrating), ok());
        let migrate = format!("MIGRATE 127.0.0.1 {} {key} 0 60000", second.port());
        assert_eq!(near.cmd(&migrate), ok(), "{key}");
        let ask = error(&format!("ASK {slot} 127.0.0.1:{}", second.port()));
        assert_eq!(near.cmd(&format!("BF.CARD {key}")), ask);
        for client in [&mut far, &mut near] {
            let owner = format!("CLUSTER SETSLOT {slot} NODE {to}");
            assert_eq!(client.cmd(&owner), ok());
        }
    }
    assert_eq!(digest(&mut far, "large"), expected);
    population.is_copied(&mut far, str::to_owned);
    population.finish_loading(&mut far, str::to_owned);
    assert_eq!(near.cmd("DBSIZE"), int(0));
    ledger::is_balanced(&mut far);
    ledger::is_balanced(&mut near);
}
