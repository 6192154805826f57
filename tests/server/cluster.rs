//! Objects move between the nodes of a cluster.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use std::{fs, io};

use crc::{CRC_16_XMODEM, Crc};

use crate::harness::cluster::{Cluster, SHARDS, SLOTS, id, meet, node};
use crate::harness::{Client, PATIENCE, Reply, Server, digest, error, int, ok, wait_until};
use crate::sketches::{answer_beyond_limits, beyond_limits};
use crate::support::commands;
use crate::support::forged::{Forged, ForgedFilter, file};
use crate::support::pieces::load_chunks;
use crate::support::population::Population;
use crate::support::sums;

/// Returns two primaries, all slots with the first.
pub fn pair() -> (Server, Server) {
    let (first, second) = (node().start(), node().start());
    let mut client = first.client();
    client.ok("CLUSTER ADDSLOTSRANGE 0 16383");
    // Without it both would claim the same epoch for a while.
    second.client().ok("CLUSTER SET-CONFIG-EPOCH 2");
    meet(&[&first, &second]);
    (first, second)
}

/// Primaries and replicas have the same objects, and INFO's sums are right on all of them.
#[track_caller]
pub fn is_sound(cluster: &Cluster) {
    for (primary, replica) in cluster.in_sync() {
        let (mut from, mut to) = (primary.client(), replica.client());
        to.ok("READONLY");
        let keys = from.cmd("KEYS *");
        for key in keys.as_array() {
            let key = key.text();
            assert_eq!(digest(&mut from, &key), digest(&mut to, &key), "{key}");
        }
        to.expect("DBSIZE", from.cmd("DBSIZE"));
        sums::is_balanced(&mut from);
        sums::is_balanced(&mut to);
    }
}

/// A client that follows its keys through a cluster, as every client of one does.
pub struct Router {
    /// The ports of some nodes.
    ports: Vec<u16>,
    /// The node last reported to have a slot.
    owners: HashMap<usize, u16>,
    connections: HashMap<u16, Client>,
    /// The number of redirections by ASK.
    pub asked: u64,
    pub moved: u64,
}

impl Router {
    pub fn of(cluster: &Cluster) -> Self {
        let ports = cluster.nodes[..SHARDS].iter().map(Server::port);
        Self {
            ports: ports.collect(),
            owners: HashMap::new(),
            connections: HashMap::new(),
            asked: 0,
            moved: 0,
        }
    }

    /// Returns the reply of the node that has the key of a command, its second word, and that node's port.
    #[track_caller]
    pub fn call(&mut self, args: &[&[u8]]) -> (Reply, u16) {
        let slot = slot(args[1]);
        let start = Instant::now();
        let mut asking = None;
        let mut attempts = 0;
        loop {
            let owner = self.owners.get(&slot);
            let port = *owner.unwrap_or(&self.ports[attempts % self.ports.len()]);
            attempts += 1;
            let port = asking.unwrap_or(port);
            let reply = self.call_at(port, asking.take().is_some(), args);
            let Ok(Reply::Error(text)) = reply else {
                if let Ok(reply) = reply {
                    return (reply, port);
                }
                // The node is gone. Another one may know where the slot is by now.
                self.connections.remove(&port);
                self.owners.remove(&slot);
                retry(start, "the node is gone");
                continue;
            };
            let target = || -> u16 {
                let (_, port) = text.rsplit_once(':').expect("a node has a port");
                port.parse().expect("a port is a number")
            };
            match text.split(' ').next() {
                Some("ASK") => {
                    self.asked += 1;
                    asking = Some(target());
                }
                Some("MOVED") => {
                    self.moved += 1;
                    self.owners.insert(slot, target());
                    // Two nodes may redirect to each other until both are up to date.
                    if attempts > 2 {
                        retry(start, &text);
                    }
                }
                Some("CLUSTERDOWN" | "TRYAGAIN" | "LOADING" | "MASTERDOWN") => {
                    self.owners.remove(&slot);
                    retry(start, &text);
                }
                _ => return (Reply::Error(text), port),
            }
        }
    }

    #[track_caller]
    pub fn cmd(&mut self, line: &str) -> Reply {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.call(&words).0
    }

    /// Returns whether a replica has what was last written through the connection to this node.
    pub fn is_replicated(&mut self, port: u16) -> bool {
        let reply = self.call_at(port, false, &[b"WAIT", b"1", b"500"]);
        reply.is_ok_and(|reply| matches!(reply, Reply::Int(1..)))
    }

    fn call_at(&mut self, port: u16, asking: bool, args: &[&[u8]]) -> io::Result<Reply> {
        use std::collections::hash_map::Entry;
        let client = match self.connections.entry(port) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Client::connect(port)?),
        };
        if asking {
            assert_eq!(client.try_call(&[b"ASKING"])?, ok());
        }
        client.try_call(args)
    }
}

#[track_caller]
fn retry(start: Instant, why: &str) {
    assert!(start.elapsed() < PATIENCE, "tried in vain: {why}");
    std::thread::sleep(Duration::from_millis(5));
}

/// Returns the slot of a key: CRC-16/XMODEM of what is in its first braces, or of all of it.
pub fn slot(key: &[u8]) -> usize {
    let open = key.iter().position(|&byte| byte == b'{');
    let tag = open.and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    let crc = Crc::<u16>::new(&CRC_16_XMODEM);
    usize::from(crc.checksum(tag.unwrap_or(key))) % SLOTS
}

/// Makes an object whose dump is larger than an AOF's BF.LOAD may be: three filters of 30 MiB.
fn large(client: &mut Client, key: &str) {
    let mut filter = ForgedFilter::new(1_000_000, 1_000_000, Vec::new());
    filter.bitmap_bytes = Some(30 << 20);
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
    client.expect(format!("BF.CARD {key}"), int(3_000_000));
}

/// The number of the slot that stays with the first node, which would become a replica of the other
/// without any. No key of these tests is in it.
const STAYS: u32 = 0;

/// Returns the state of the latest migration of slots.
fn migration(client: &mut Client) -> String {
    let jobs = client.cmd("CLUSTER GETSLOTMIGRATIONS");
    let mut pairs = jobs.as_array()[0].as_array().chunks_exact(2);
    let state = pairs.find(|pair| pair[0].text() == "state");
    state.expect("a migration has a state")[1].text()
}

#[test]
fn slots_migrate_atomically() {
    let (first, second) = pair();
    let (mut near, mut far) = (first.client(), second.client());
    let migrate = format!(
        "CLUSTER MIGRATESLOTS SLOTSRANGE 1 16383 NODE {}",
        id(&second)
    );
    let version = first.version();
    if !version.valkey || version.major < 9 {
        let refused = near.cmd(&migrate).text();
        assert!(refused.starts_with("ERR unknown subcommand"), "{refused}");
        return;
    }
    let population = Population::new(&mut near);
    large(&mut near, "large");
    let sketches = beyond_limits(&mut near);
    let sketches: Vec<_> = sketches.iter().map(|(key, value)| (*key, value)).collect();
    fs::write(first.dir().join("dump.rdb"), file(&sketches)).unwrap();
    near.ok("DEBUG RELOAD NOSAVE NOFLUSH");
    near.expect(format!("CLUSTER COUNTKEYSINSLOT {STAYS}"), int(0));
    let expected = digest(&mut near, "large");
    // Keys from another node are accepted whatever the limits, like commands from a primary.
    let tight = "CONFIG SET bf.bloom-filter-max-memory-usage 1 bf.bloom-memory-usage-limit 1 \
        bf.cf-max-expansions 1";
    far.ok(tight);
    // An import that was aborted leaves no trace. This client begins one in place of a node, and goes away.
    let mut source = second.client();
    source.ok(format!(
        "CLUSTER SYNCSLOTS ESTABLISH SOURCE {} NAME {} SLOTSRANGE 1 16383",
        id(&first),
        "0".repeat(40)
    ));
    assert_eq!(migration(&mut far), "waiting-for-ack");
    drop(source);
    wait_until("the import is aborted", || migration(&mut far) == "failed");
    near.ok(&migrate);
    wait_until("the other serves the slots", || {
        !far.cmd("BF.CARD large").is_error()
    });
    // The first hears of it from the other.
    wait_until("the first calls the migration a success", || {
        migration(&mut near) == "success"
    });

    far.ok("CONFIG SET bf.bloom-filter-max-memory-usage 64mb bf.bloom-memory-usage-limit 0");
    assert_eq!(digest(&mut far, "large"), expected);
    answer_beyond_limits(&mut far);
    let payload = sketches[0].1.clone().payload([9, 0]);
    let restored = far.restore("later", &payload);
    assert_eq!(restored, error("ERR Bad data format"));
    population.is_unchanged(&mut far);
    population.finish_loading(&mut far, str::to_owned);
    sums::is_balanced(&mut far);
    wait_until("the first has let go of the keys", || {
        near.cmd("DBSIZE") == int(0)
    });
    sums::is_balanced(&mut near);
}

/// The commands of every family follow their keys, which the server finds by what they declare.
#[test]
fn commands_are_redirected_by_their_keys() {
    let (first, second) = pair();
    let (mut near, mut far) = (first.client(), second.client());
    let slot = slot(b"tag");
    let lines = commands::all().map(|command| {
        let line = command.on("{tag}k");
        let in_one_slot = line.replace("other another", "{tag}other {tag}another");
        (command, line, in_one_slot)
    });
    let lines: Vec<_> = lines.collect();
    let moved = error(&format!("MOVED {slot} 127.0.0.1:{}", first.port()));
    for (command, line, in_one_slot) in &lines {
        far.expect(in_one_slot, &moved);
        if !command.sources().is_empty() {
            // One source elsewhere is enough, whichever it is.
            for sources in ["{tag}other another", "other {tag}another"] {
                let line = line.replace("other another", sources);
                let apart = near.cmd(&line).text();
                assert!(apart.starts_with("CROSSSLOT "), "{line}: {apart}");
            }
        }
    }
    far.ok(format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(&first)));
    near.ok(format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(&second)));
    let ask = error(&format!("ASK {slot} 127.0.0.1:{}", second.port()));
    for (command, _, line) in &lines {
        near.expect(line, &ask);
        far.expect(line, &moved);
        far.ok("ASKING");
        let reply = far.cmd(line);
        let is_redirected = reply.is_error()
            && ["MOVED ", "ASK "]
                .iter()
                .any(|code| reply.text().starts_with(code));
        assert!(!is_redirected, "{line}: {reply:?}");
        // Some of the keys of a merge are there.
        let is_partly_there = reply.is_error() && reply.text().starts_with("TRYAGAIN ");
        assert_eq!(is_partly_there, !command.sources().is_empty(), "{line}");
    }
}

/// Moves up to `most` keys of a slot. Returns how many there were.
#[track_caller]
pub fn migrate_keys(from: &mut Client, to: &Server, slot: usize, most: usize) -> usize {
    let keys = from.cmd(&format!("CLUSTER GETKEYSINSLOT {slot} {most}"));
    let keys: Vec<String> = keys.as_array().iter().map(Reply::text).collect();
    if !keys.is_empty() {
        from.ok(format!(
            "MIGRATE 127.0.0.1 {}  0 60000 KEYS {}",
            to.port(),
            keys.join(" ")
        ));
    }
    keys.len()
}
