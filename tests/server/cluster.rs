//! Objects move between the nodes of a cluster.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::cuckoo;
use crate::harness::cluster::{Cluster, SHARDS, SLOTS, id, meet, node};
use crate::harness::{
    Client, PATIENCE, Reply, Server, digest, error, int, ok, wait_in_sync, wait_until,
};
use crate::sketches::{answer_beyond_limits, beyond_limits};
use crate::support::commands;
use crate::support::forged::{Forged, ForgedFilter, file};
use crate::support::periods::LASTING_WINDOW;
use crate::support::pieces::load_chunks;
use crate::support::population::Population;
use crate::support::sums;

/// Returns two primaries, all slots with the first.
fn pair() -> (Server, Server) {
    let (first, second) = (node().start(), node().start());
    let mut client = first.client();
    assert_eq!(client.cmd("CLUSTER ADDSLOTSRANGE 0 16383"), ok());
    // Without it both would claim the same epoch for a while.
    let epoch = second.client().cmd("CLUSTER SET-CONFIG-EPOCH 2");
    assert_eq!(epoch, ok());
    meet(&[&first, &second]);
    (first, second)
}

impl Cluster {
    /// Primaries and replicas have the same objects, and INFO's sums are right on all of them.
    #[track_caller]
    pub fn is_sound(&self) {
        for (primary, replica) in self.in_sync() {
            let (mut from, mut to) = (primary.client(), replica.client());
            assert_eq!(to.cmd("READONLY"), ok());
            let keys = from.cmd("KEYS *");
            for key in keys.as_array() {
                let key = key.text();
                assert_eq!(digest(&mut from, &key), digest(&mut to, &key), "{key}");
            }
            assert_eq!(to.cmd("DBSIZE"), from.cmd("DBSIZE"));
            sums::is_balanced(&mut from);
            sums::is_balanced(&mut to);
        }
    }

    pub fn router(&self) -> Router {
        let ports = self.nodes[..SHARDS].iter().map(Server::port);
        Router {
            ports: ports.collect(),
            owners: HashMap::new(),
            connections: HashMap::new(),
            asked: 0,
            moved: 0,
        }
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
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            let carry = if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            crc << 1 ^ carry
        })
    });
    usize::from(crc) % SLOTS
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
    assert_eq!(client.cmd(&format!("BF.CARD {key}")), int(3_000_000));
}

/// The number of the slot that stays with the first node, which would become a replica of the other
/// without any. No key of these tests is in it.
const STAYS: u32 = 0;

#[test]
fn slots_migrate_atomically() {
    let (first, second) = pair();
    let (mut near, mut far) = (first.client(), second.client());
    let population = Population::new(&mut near);
    large(&mut near, "large");
    let sketches = beyond_limits(&mut near);
    let sketches: Vec<_> = sketches.iter().map(|(key, value)| (*key, value)).collect();
    fs::write(first.dir().join("dump.rdb"), file(&sketches)).unwrap();
    assert_eq!(near.cmd("DEBUG RELOAD NOSAVE NOFLUSH"), ok());
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
    // Keys from another node are accepted whatever the limits, like commands from a primary.
    let tight = "CONFIG SET bf.bloom-filter-max-memory-usage 1 bf.bloom-memory-usage-limit 1 \
        bf.cf-max-expansions 1";
    assert_eq!(far.cmd(tight), ok());
    assert_eq!(near.cmd("BF.RESERVE busy 0.0001 1000"), ok());
    let counted = "BF.RESERVE counted 0.000001 1000 COUNTING";
    assert_eq!(near.cmd(counted), ok());
    let passing = format!("BF.RESERVE passing 0.000001 1000 {LASTING_WINDOW}");
    assert_eq!(near.cmd(&passing), ok());
    assert_eq!(near.cmd(&migrate), ok());
    assert_eq!(near.cmd("CF.RESERVE cuckoo-busy 64 EXPANSION 2"), ok());
    // Writes continue until the slots have moved; every third item that can be removed is removed at once. Either
    // node may serve a write.
    let (mut added, mut windowed, mut counted, mut cuckoo_added) = (0, 0, 0, 0);
    wait_until("the slots have moved", || {
        let done = [
            format!("BF.ADD busy {added}"),
            format!("BF.INSERT passing TTL 1 ITEMS {added}"),
            format!("BF.MADD counted {added} {added}"),
            format!("CF.ADD cuckoo-busy {added}"),
        ]
        .map(|line| match near.cmd(&line) {
            Reply::Error(text) => {
                assert!(text.starts_with("MOVED "), "{text}");
                0
            }
            _ => 1,
        });
        if added % 3 == 0 {
            near.cmd(&format!("BF.DEL counted {added}"));
            near.cmd(&format!("CF.DEL cuckoo-busy {added}"));
        }
        (added, windowed) = (added + done[0], windowed + done[1]);
        (counted, cuckoo_added) = (counted + done[2], cuckoo_added + done[3]);
        done != [1; 4]
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
    answer_beyond_limits(&mut far);
    let payload = sketches[0].1.clone().payload([9, 0]);
    let restored = far.call(&[b"RESTORE", b"later", b"0", &payload]);
    assert_eq!(restored, error("ERR Bad data format"));
    population.is_unchanged(&mut far);
    for item in 0..added {
        assert_eq!(far.cmd(&format!("BF.EXISTS busy {item}")), int(1));
    }
    for item in 0..windowed {
        assert_eq!(far.cmd(&format!("BF.EXISTS passing {item}")), int(1));
    }
    for item in (0..cuckoo_added).filter(|item| item % 3 != 0) {
        assert_eq!(far.cmd(&format!("CF.EXISTS cuckoo-busy {item}")), int(1));
    }
    let left = (0..cuckoo_added).filter(|item| item % 3 != 0).count();
    let reported = cuckoo::field(&mut far, "cuckoo-busy", "Number of items inserted");
    let late = reported - i64::try_from(left).expect("few");
    assert!((0..=1).contains(&late), "{reported} of {left}");
    // The last removal may have come too late.
    for item in 0..counted - 1 {
        let twice = if item % 3 == 0 { 1 } else { 2 };
        assert_eq!(
            far.cmd(&format!("BF.COUNT counted {item}")),
            int(twice),
            "{item}"
        );
    }
    population.finish_loading(&mut far, str::to_owned);
    sums::is_balanced(&mut far);
    wait_until("the first has let go of the keys", || {
        near.cmd("DBSIZE") == int(0)
    });
    sums::is_balanced(&mut near);
}

#[test]
fn keys_migrate_one_by_one() {
    let (first, second) = pair();
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
    sums::is_balanced(&mut far);
    sums::is_balanced(&mut near);
}

/// Sends a node all commands of one key for one of our keys, and a core type's command for another key of the slot in
/// the same state: both are redirected in the same words, or neither is. Returns the code and the port of the
/// redirection of reads, and that of writes.
#[track_caller]
fn answers_alike(
    client: &mut Client,
    asking: bool,
    bloom: impl Fn(usize) -> String,
    set: impl Fn(usize) -> String,
) -> [Option<(String, String)>; 2] {
    let mut sent_on = [None, None];
    // The keys of merges are in several slots.
    let own = commands::all().filter(|command| command.sources().is_empty());
    let own = own.map(|command| (command.example.to_owned(), command.writes()));
    for (number, (line, writes)) in own.enumerate() {
        let core = if writes {
            "SADD {} a"
        } else {
            "SMISMEMBER {} a"
        };
        let [core, own] = [(core, set(number)), (&line, bloom(number))].map(|(line, key)| {
            if asking {
                assert_eq!(client.cmd("ASKING"), ok());
            }
            elsewhere(&client.cmd(&line.replace("{}", &key)))
        });
        assert_eq!(own, core, "{line}");
        sent_on[usize::from(writes)] = own.map(|text| {
            let word = text.split(' ').next().expect("some text");
            let port = text.rsplit(':').next().expect("some text");
            (word.to_owned(), port.to_owned())
        });
    }
    sent_on
}

/// The commands of several keys, a core type's first; each with the name of a key that the cluster has.
const MERGES: [(&str, &str); 4] = [
    ("SUNIONSTORE <to> <from>", "set"),
    ("BF.MERGE <to> <from>", "bloom"),
    ("CMS.MERGE <to> 1 <from>", "cms"),
    ("TDIGEST.MERGE <to> 1 <from>", "tdigest"),
];

/// Sends a node the commands of several keys, one of them missing, and compares the code of the redirection with a
/// core type's.
#[track_caller]
fn merges_alike(client: &mut Client, tag: &str, round: usize) -> Option<String> {
    let answers = MERGES.map(|(command, name)| {
        let (own, other) = (format!("{{{tag}}}{name}"), format!("{{{tag}-2}}{name}"));
        let line = |to: &str, from: &str| command.replace("<to>", to).replace("<from>", from);
        let apart = client.cmd(&line(&own, &other));
        assert!(apart.text().starts_with("CROSSSLOT "), "{apart:?}");
        // A script reaches no other slot, either.
        let apart = line(&own, &other);
        let script: [&[u8]; 4] = [
            b"EVAL",
            b"return redis.call(unpack(ARGV))",
            b"1",
            own.as_bytes(),
        ];
        let words: Vec<_> = script
            .into_iter()
            .chain(apart.split(' ').map(str::as_bytes))
            .collect();
        let in_script = client.call(&words);
        assert!(in_script.is_error(), "{apart}: {in_script:?}");
        let name = command.split(' ').next().expect("a word").to_lowercase();
        let in_script = in_script.text().replace(&name, "");
        let to = format!("{own}-merged-{round}");
        let redirected = elsewhere(&client.cmd(&line(&to, &own)));
        (redirected, in_script)
    });
    for (answer, (command, _)) in answers.iter().zip(MERGES) {
        assert_eq!(answer, &answers[0], "{command}");
    }
    let redirected = answers[0].0.as_ref()?;
    redirected.split(' ').next().map(str::to_owned)
}

/// Returns the redirection or error of a node for a slot that is not, or not wholly, its own.
fn elsewhere(reply: &Reply) -> Option<String> {
    let codes = ["MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN", "CROSSSLOT"];
    let Reply::Error(text) = reply else {
        return None;
    };
    let code = text.split(' ').next()?;
    codes.contains(&code).then(|| text.clone())
}

#[test]
fn clients_are_redirected_as_for_a_core_type() {
    let cluster = Cluster::start(Duration::from_secs(30));
    let tag = "tag";
    let slot = slot(b"tag");
    let shard = (0..SHARDS).find(|shard| slot < (shard + 1) * SLOTS / SHARDS);
    let shard = shard.expect("a shard has it");
    let other = (shard + 1) % SHARDS;
    let (owner, target) = (&cluster.nodes[shard], &cluster.nodes[other]);
    let replica = &cluster.nodes[shard + SHARDS];
    let (mut near, mut far, mut behind) = (owner.client(), target.client(), replica.client());
    assert_eq!(
        near.cmd("CLUSTER KEYSLOT tag"),
        int(i64::try_from(slot).unwrap())
    );
    assert_eq!(near.cmd(&format!("BF.ADD {{{tag}}}bloom a")), int(1));
    assert_eq!(near.cmd(&format!("SADD {{{tag}}}set a")), int(1));
    for create in ["CMS.INITBYDIM {tag}cms 10 5", "TDIGEST.CREATE {tag}tdigest"] {
        assert_eq!(near.cmd(create), ok());
    }
    wait_in_sync(owner, replica);

    let there = |client: &mut Client, asking| {
        let key = |name: &'static str| move |_| format!("{{{tag}}}{name}");
        answers_alike(client, asking, key("bloom"), key("set"))
    };
    // Names that nothing was written under yet, since writes that are served make a key.
    let round = std::cell::Cell::new(0);
    let missing = |client: &mut Client, asking| {
        round.set(round.get() + 1);
        let key = |name: &'static str| {
            let round = round.get();
            move |number| format!("{{{tag}}}{name}-{round}-{number}")
        };
        answers_alike(client, asking, key("bloom"), key("set"))
    };
    let merging = |client: &mut Client| {
        round.set(round.get() + 1);
        merges_alike(client, tag, round.get())
    };
    let to = |code: &str, server: &Server| Some((code.to_owned(), server.port().to_string()));
    let all = |sent: Option<(String, String)>| [sent.clone(), sent];

    assert_eq!(there(&mut near, false), all(None));
    assert_eq!(missing(&mut near, false), all(None));
    assert_eq!(merging(&mut near), None);
    assert_eq!(merging(&mut far).as_deref(), Some("MOVED"));
    for client in [&mut far, &mut behind] {
        assert_eq!(there(client, false), all(to("MOVED", owner)));
        assert_eq!(missing(client, false), all(to("MOVED", owner)));
        // From a script and a transaction, too.
        let [own, core] = ["BF.ADD", "SADD"].map(|command| {
            let script = format!("return redis.call('{command}', KEYS[1], 'a')");
            client.call(&[b"EVAL", script.as_bytes(), b"1", b"{tag}x"])
        });
        assert_eq!(elsewhere(&own), elsewhere(&core));
        assert!(own.text().starts_with("MOVED "), "{own:?}");
        let [own, core] = ["BF.ADD", "SADD"].map(|command| {
            assert_eq!(client.cmd("MULTI"), ok());
            let queued = client.cmd(&format!("{command} {{tag}}x a"));
            assert!(elsewhere(&queued).is_some(), "{queued:?}");
            (queued, client.cmd("EXEC"))
        });
        assert_eq!(own, core);
        assert!(own.1.text().starts_with("EXECABORT "), "{own:?}");
    }
    // Words of two slots, in a script.
    let [own, core] = ["BF.ADD", "SADD"].map(|command| {
        let script = format!("return redis.call('{command}', KEYS[1], 'a')");
        near.call(&[b"EVAL", script.as_bytes(), b"2", b"{tag}x", b"{other}x"])
    });
    assert_eq!(own, core);
    assert!(own.text().starts_with("CROSSSLOT "), "{own:?}");
    assert_eq!(behind.cmd("READONLY"), ok());
    let served = [None, to("MOVED", owner)];
    assert_eq!(there(&mut behind, false), served);
    assert_eq!(missing(&mut behind, false), served);

    let importing = format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(owner));
    assert_eq!(far.cmd(&importing), ok());
    let migrating = format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(target));
    assert_eq!(near.cmd(&migrating), ok());
    assert_eq!(there(&mut near, false), all(None));
    assert_eq!(missing(&mut near, false), all(to("ASK", target)));
    assert_eq!(merging(&mut near).as_deref(), Some("TRYAGAIN"));
    assert_eq!(there(&mut far, false), all(to("MOVED", owner)));
    assert_eq!(missing(&mut far, false), all(to("MOVED", owner)));
    assert_eq!(missing(&mut far, true), all(None));

    assert!(migrate_keys(&mut near, target, slot, 1000) > 0);
    assert_eq!(there(&mut near, false), all(to("ASK", target)));
    assert_eq!(there(&mut far, false), all(to("MOVED", owner)));
    assert_eq!(there(&mut far, true), all(None));
    for client in [&mut far, &mut near] {
        let settled = format!("CLUSTER SETSLOT {slot} NODE {}", id(target));
        assert_eq!(client.cmd(&settled), ok());
    }
    assert_eq!(there(&mut near, false), all(to("MOVED", target)));
    assert_eq!(there(&mut far, false), all(None));

    // A slot without an owner.
    assert_eq!(far.cmd(&format!("CLUSTER DELSLOTS {slot}")), ok());
    for sent_on in [there(&mut far, false), missing(&mut far, false)] {
        let codes = sent_on.map(|sent| sent.map(|(code, _)| code));
        assert_eq!(
            codes,
            [const { "CLUSTERDOWN" }; 2].map(|code| Some(code.to_owned()))
        );
    }
}

/// Moves up to `most` keys of a slot. Returns how many there were.
#[track_caller]
pub fn migrate_keys(from: &mut Client, to: &Server, slot: usize, most: usize) -> usize {
    let keys = from.cmd(&format!("CLUSTER GETKEYSINSLOT {slot} {most}"));
    let keys: Vec<String> = keys.as_array().iter().map(Reply::text).collect();
    if !keys.is_empty() {
        let migrate = format!(
            "MIGRATE 127.0.0.1 {}  0 60000 KEYS {}",
            to.port(),
            keys.join(" ")
        );
        assert_eq!(from.cmd(&migrate), ok());
    }
    keys.len()
}
