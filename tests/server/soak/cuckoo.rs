//! Cuckoo filters live through whatever a server does to them: what was added and not removed is never denied.

use std::collections::BTreeMap;

use super::{Budget, Random};
use crate::harness::{Client, Reply, Server, digest, int, ok, wait_in_sync};
use crate::persistence::rewrite_aof;

/// How often items are in.
type Items = BTreeMap<usize, i64>;

const KEYS: usize = 6;

struct Life {
    random: Random,
    objects: BTreeMap<String, Items>,
}

impl Life {
    fn key(&mut self) -> String {
        format!("k{}", self.random.below(KEYS))
    }

    /// A key that is there, or any other.
    fn known(&mut self) -> String {
        let keys: Vec<String> = self.objects.keys().cloned().collect();
        if keys.is_empty() {
            return self.key();
        }
        keys[self.random.below(keys.len())].clone()
    }

    fn add(&mut self, client: &mut Client) {
        let key = self.key();
        let count = 1 + self.random.below(40);
        let numbers: Vec<usize> = (0..count).map(|_| self.random.below(600)).collect();
        let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
        let command = ["CF.INSERT", "CF.INSERTNX"][self.random.below(2)];
        let capacity = 8 + self.random.below(300);
        let line = format!(
            "{command} {key} CAPACITY {capacity} ITEMS {}",
            words.join(" ")
        );
        let reply = client.cmd(&line);
        if reply.is_error() {
            assert_eq!(reply.text(), "ERR Maximum expansions reached");
            return;
        }
        let items = self.objects.entry(key).or_default();
        for (number, reply) in numbers.iter().zip(reply.as_array()) {
            match reply.as_int() {
                1 => *items.entry(*number).or_default() += 1,
                0 => assert_eq!(command, "CF.INSERTNX"),
                other => assert_eq!(other, -1),
            }
        }
    }

    /// Removes only what is in, so that nothing else is removed.
    fn remove(&mut self, client: &mut Client) {
        let key = self.known();
        let Some(items) = self.objects.get_mut(&key) else {
            return;
        };
        let begin = self.random.below(600);
        let some: Vec<usize> = items.range(begin..).map(|(n, _)| *n).take(25).collect();
        for number in some {
            assert_eq!(client.cmd(&format!("CF.DEL {key} {number}")), int(1));
            let count = items.get_mut(&number).expect("it is in");
            *count -= 1;
            if *count == 0 {
                items.remove(&number);
            }
        }
    }

    fn step(&mut self, client: &mut Client) {
        let (key, other) = (self.known(), self.key());
        let is_there = self.objects.contains_key(&key);
        match self.random.below(20) {
            0..=8 => self.add(client),
            9..=13 => self.remove(client),
            14 if is_there => assert_eq!(client.cmd(&format!("CF.COMPACT {key}")), ok()),
            15 if is_there && key != other => {
                assert_eq!(client.cmd(&format!("COPY {key} {other} REPLACE")), int(1));
                self.objects.insert(other, self.objects[&key].clone());
            }
            16 if is_there && key != other => {
                assert_eq!(client.cmd(&format!("RENAME {key} {other}")), ok());
                let items = self.objects.remove(&key).expect("it is there");
                self.objects.insert(other, items);
            }
            17 if is_there => {
                let dump = client.cmd(&format!("DUMP {key}"));
                let words: [&[u8]; 5] = [
                    b"RESTORE",
                    other.as_bytes(),
                    b"0",
                    dump.as_bytes(),
                    b"REPLACE",
                ];
                assert_eq!(client.call(&words), ok());
                self.objects.insert(other, self.objects[&key].clone());
            }
            18 if is_there && key != other => {
                let pieces = crate::cuckoo::chunks(client, &key);
                client.cmd(&format!("DEL {other}"));
                self.objects.remove(&other);
                if !pieces.is_empty() {
                    crate::cuckoo::load(client, &other, &pieces);
                    self.objects.insert(other, self.objects[&key].clone());
                }
            }
            19 if is_there => {
                assert_eq!(client.cmd(&format!("UNLINK {key}")), int(1));
                self.objects.remove(&key);
            }
            _ => {}
        }
    }

    fn check(&mut self, client: &mut Client) {
        let mut sums = [0, 0];
        for (key, items) in &self.objects {
            let told = crate::cuckoo::field(client, key, "Number of items inserted");
            assert_eq!(told, items.values().sum::<i64>(), "{key}");
            sums = [sums[0] + 1, sums[1] + told];
            for (number, count) in items {
                let told = client.cmd(&format!("CF.COUNT {key} {number}")).as_int();
                assert!(told >= *count, "{key} {number}: {told} of {count}");
            }
            if !items.is_empty() {
                let words: Vec<String> = items.keys().map(usize::to_string).collect();
                let reply = client.cmd(&format!("CF.MEXISTS {key} {}", words.join(" ")));
                assert!(reply.as_array().iter().all(|reply| *reply == Reply::Int(1)));
            }
        }
        let info = client.cmd("INFO bf").text();
        for (name, sum) in [
            ("num_objects", sums[0]),
            ("num_items_across_objects", sums[1]),
        ] {
            let line = format!("bf_cuckoo_{name}:{sum}\r\n");
            assert!(info.contains(&line), "no {line} in {info}");
        }
    }
}

#[test]
fn cuckoo_filters_deny_nothing() {
    let mut server = Server::with(&[("appendonly", "yes"), ("bf.cf-max-expansions", "12")]);
    let mut life = Life {
        random: Random::new("cuckoo_filters_deny_nothing"),
        objects: BTreeMap::new(),
    };
    for round in Budget::rounds(20) {
        let mut client = server.client();
        for _ in 0..60 {
            life.step(&mut client);
        }
        life.check(&mut client);
        match round % 5 {
            0 => assert_eq!(client.cmd("DEBUG RELOAD"), ok()),
            1 => server.restart(),
            2 => {
                rewrite_aof(&server);
                server.restart();
            }
            3 => {
                let replica = Server::replica_of(&server).start();
                wait_in_sync(&server, &replica);
                for _ in 0..60 {
                    life.step(&mut client);
                }
                wait_in_sync(&server, &replica);
                let mut other = replica.client();
                for key in life.objects.keys() {
                    assert_eq!(digest(&mut other, key), digest(&mut client, key), "{key}");
                }
            }
            _ => {}
        }
        life.check(&mut server.client());
    }
}
