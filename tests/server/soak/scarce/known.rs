//! Acknowledged items, and the check that they stay.

use std::collections::{BTreeMap, HashSet};

use crate::harness::{Client, Reply, digest, int};
use crate::soak::Random;

#[derive(Default)]
pub struct Known {
    /// The items that each object was seen to take, and how many of these it called new.
    pub objects: BTreeMap<String, (HashSet<usize>, i64)>,
    /// The last command that was executed.
    pub last: Vec<Vec<u8>>,
}

impl Known {
    /// Adds items to a random key, new or not. Returns the text of a refusal. An error means that the connection
    /// ended without a reply.
    pub fn try_write(
        &mut self,
        client: &mut Client,
        random: &mut Random,
        count: usize,
    ) -> std::io::Result<Option<String>> {
        let key = format!("key-{}", random.below(10));
        let items: Vec<usize> = (0..count).map(|_| random.below(1_000_000)).collect();
        let words: Vec<String> = items.iter().map(|item| format!("item-{item}")).collect();
        let mut args: Vec<&[u8]> = vec![b"BF.INSERT", key.as_bytes(), b"CAPACITY"];
        args.push(random.pick(&["100", "30000"]).as_bytes());
        match key.as_str() {
            "key-7" => args.extend([b"SCALETO", &b"20000"[..]]),
            "key-8" => args.push(b"COUNTING"),
            // None of its periods ends while a test runs.
            "key-9" => args.extend([b"WINDOW", &b"1000000000000"[..], b"PERIODS", b"2"]),
            _ => {}
        }
        args.push(b"ITEMS");
        args.extend(words.iter().map(String::as_bytes));
        let answers = match client.try_call(&args)? {
            Reply::Error(text) => return Ok(Some(text)),
            answers => answers,
        };
        let (known, cardinality) = self.objects.entry(key.clone()).or_default();
        for (item, answer) in items.iter().zip(answers.as_array()) {
            let new = answer.as_int();
            assert!(new == 0 || !known.contains(item), "{item} was denied");
            *cardinality += new;
            known.insert(*item);
        }
        self.last = args.into_iter().map(<[u8]>::to_vec).collect();
        Ok(None)
    }

    #[track_caller]
    pub fn write(
        &mut self,
        client: &mut Client,
        random: &mut Random,
        count: usize,
    ) -> Option<String> {
        let written = self.try_write(client, random, count);
        written.expect("the server replies")
    }

    /// Checks that all known items are there, and possibly `more`, which were not acknowledged.
    #[track_caller]
    pub fn is_there_perhaps_with(&self, client: &mut Client, more: i64) {
        for (key, (items, cardinality)) in &self.objects {
            let card = client.cmd(&format!("BF.CARD {key}")).as_int();
            let beyond = card - cardinality;
            assert!((0..=more).contains(&beyond), "{key}: {card} {cardinality}");
            let words: Vec<String> = items.iter().map(|item| format!("item-{item}")).collect();
            let answers = client.cmd(&format!("BF.MEXISTS {key} {}", words.join(" ")));
            let denied = answers.as_array().iter().filter(|a| **a != int(1)).count();
            assert_eq!(denied, 0, "items of {key} are denied");
        }
    }

    #[track_caller]
    pub fn is_there(&self, client: &mut Client) {
        self.is_there_perhaps_with(client, 0);
        let keys = i64::try_from(self.objects.len()).expect("a few");
        assert_eq!(client.cmd("DBSIZE"), int(keys));
    }

    pub fn items(&self) -> usize {
        self.objects.values().map(|(items, _)| items.len()).sum()
    }

    pub fn digests(&self, client: &mut Client) -> Vec<String> {
        self.objects.keys().map(|key| digest(client, key)).collect()
    }

    /// Returns the digests as they would be if an executed command were applied once more.
    pub fn digests_with_a_repeat(&self, client: &mut Client, command: &[Vec<u8>]) -> Vec<String> {
        let key = String::from_utf8(command[1].clone()).expect("keys are text");
        let copy = "repeated";
        assert_eq!(client.cmd(&format!("COPY {key} {copy}")), int(1));
        let mut args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        args[1] = copy.as_bytes();
        assert!(!client.call(&args).is_error());
        let keys = self.objects.keys();
        let digests = keys.map(|name| digest(client, if *name == key { copy } else { name }));
        let digests = digests.collect();
        assert_eq!(client.cmd(&format!("DEL {copy}")), int(1));
        digests
    }
}
