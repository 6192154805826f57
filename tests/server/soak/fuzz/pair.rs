//! Two servers with the same keys. One is spoken to in RESP2, the other in RESP3.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::slice;

use super::{Command, command};
use crate::harness::{Client, Reply, Server, array, bulk, int};
use crate::support;
use crate::support::commands::BLOOM;

/// The least number of different errors. There are some that need luck.
const ERRORS: usize = 60;

/// What was acknowledged of a key.
#[derive(Clone, Default)]
struct Known {
    /// Items that it must find.
    items: HashSet<Vec<u8>>,
    /// The number of items that were new.
    count: i64,
    /// The number is not known: items were loaded, merged or removed, or may count twice because they expire at different
    /// times.
    is_uncounted: bool,
}

pub struct Pair {
    clients: [Client; 2],
    known: HashMap<Vec<u8>, Known>,
    /// How often each command was refused, got a 0 or an empty reply, or another one.
    seen: BTreeMap<String, [u64; 3]>,
    errors: BTreeSet<String>,
}

impl Pair {
    pub fn with(servers: [&Server; 2]) -> Self {
        let mut clients = [servers[0].client(), servers[1].client3()];
        for client in &mut clients {
            for line in ["SET string x", "RPUSH list a b", "XADD stream 1-1 f v"] {
                client.run(line);
            }
        }
        Self {
            clients,
            known: HashMap::new(),
            seen: BTreeMap::new(),
            errors: BTreeSet::new(),
        }
    }

    /// Sends commands to both servers, which have to agree. Counts what was granted and refused.
    pub fn fire(&mut self, commands: &[Command]) {
        let replies = self.say(commands);
        for (words, reply) in commands.iter().zip(&replies) {
            let name = String::from_utf8_lossy(&words[0]).to_lowercase();
            let kind = match last(reply) {
                Reply::Error(text) => {
                    self.errors.insert(text.clone());
                    0
                }
                Reply::Int(0) | Reply::Bool(false) | Reply::Nil => 1,
                _ => 2,
            };
            self.seen.entry(name).or_default()[kind] += 1;
        }
    }

    /// Sends commands to both servers, which have to agree. Returns the replies in RESP3.
    fn say(&mut self, commands: &[Command]) -> Vec<Reply> {
        let [replies, replies3] = self
            .clients
            .each_mut()
            .map(|client| client.call_all(commands));
        for (number, words) in commands.iter().enumerate() {
            let [reply, reply3] = [&replies[number], &replies3[number]];
            let name = String::from_utf8_lossy(&words[0]).to_uppercase();
            let agree = || in_resp2(reply) == in_resp2(reply3);
            let fault = if !is_of_server(&name, words) && !agree() {
                "the servers differ"
            } else if !self.learn(&name, words, reply3) {
                "the reply has another length"
            } else {
                continue;
            };
            // The commands for this key, shortened.
            let said = commands[..=number]
                .iter()
                .filter(|said| said.get(1) == words.get(1));
            said.for_each(|said| eprintln!("{}", shown(said)));
            panic!("{fault}: {reply:?} in RESP2, {reply3:?} in RESP3");
        }
        replies3
    }

    /// Learns what a reply acknowledges. Returns whether it has a reply for each item up to a refusal.
    fn learn(&mut self, name: &str, words: &Command, reply: &Reply) -> bool {
        if reply.is_error() {
            return true;
        }
        let replies = match reply {
            Reply::Array(replies) => replies,
            reply => slice::from_ref(reply),
        };
        let key = &words[1];
        let is_marker = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"ITEMS");
        let items = match name {
            "BF.INSERT" => words[2..].splitn(2, is_marker).nth(1).unwrap_or_default(),
            _ => &words[2..],
        };
        match name {
            "BF.ADD" | "BF.MADD" | "BF.INSERT" | "BF.RESERVE" if *reply != Reply::Nil => {
                let known = self.known.entry(key.clone()).or_default();
                known.is_uncounted |= words.iter().any(|word| word.eq_ignore_ascii_case(b"TTL"));
                for (item, reply) in items.iter().zip(replies) {
                    if let Reply::Bool(is_new) = reply {
                        known.items.insert(item.clone());
                        known.count += i64::from(*is_new);
                    }
                }
            }
            "BF.LOAD" | "BF.LOADCHUNK" | "BF.MERGE" => {
                // Chunks may overwrite an object whose bits had claimed items that were added.
                let sources = if name == "BF.MERGE" { &words[1..] } else { &[] };
                let all = sources.iter().filter_map(|key| self.known.get(key));
                let items = all.flat_map(|known| known.items.iter().cloned());
                let known = Known {
                    items: items.collect(),
                    is_uncounted: true,
                    count: 0,
                };
                self.known.insert(key.clone(), known);
            }
            // Other items may have the same fingerprint.
            "BF.DEL" | "BF.MDEL" if replies.contains(&Reply::Bool(true)) => {
                let known = self.known.get_mut(key).expect("it has items");
                known.items.clear();
                known.is_uncounted = true;
            }
            "DEL" => drop(self.known.remove(key)),
            "COPY" if *reply == int(1) => {
                if let Some(known) = self.known.get(key).cloned() {
                    self.known.insert(words[2].clone(), known);
                }
            }
            _ => {}
        }
        let has_each = ["BF.MADD", "BF.INSERT", "BF.MEXISTS", "BF.MDEL"].contains(&name);
        !has_each || replies.len() == items.len() || last(reply).is_error()
    }

    /// Checks that every key finds the items that were added, and counts them.
    pub fn nothing_is_forgotten(&mut self) {
        for (key, known) in self.known.clone() {
            if known.items.is_empty() {
                continue;
            }
            let items: Command = known.items.into_iter().collect();
            let questions: [&[u8]; 2] = [b"BF.MEXISTS", b"BF.MISSING"];
            let questions = questions.map(|name| [command(&[name, &key]), items.clone()].concat());
            let replies = self.say(&questions);
            let is_found = |reply: &Reply| *reply == Reply::Bool(true);
            let key_text = key.escape_ascii();
            assert!(
                replies[0].as_array().iter().all(is_found),
                "{key_text} forgot an item"
            );
            assert_eq!(replies[1], int(0), "{key_text} misses items");
            if !known.is_uncounted {
                let card = self.say(&[command(&[b"BF.CARD", &key])]);
                assert_eq!(card, [int(known.count)], "{key_text} counts its items");
            }
        }
    }

    /// Checks that all that can come up has done so.
    pub fn ends_complete(&self, test: &str) {
        let (seen, errors) = (&self.seen, &self.errors);
        eprintln!("{test}: {seen:?}, {} errors: {errors:#?}", errors.len());
        let total = |kind: usize| seen.values().map(|seen| seen[kind]).sum::<u64>();
        assert!(total(0) < total(1) + total(2), "most are refused");
        for name in BLOOM.iter().map(support::commands::Command::name) {
            let [refused, _, granted] = seen[&name];
            assert!(refused > 0 && granted > 0, "{name}: {:?}", seen[&name]);
        }
        assert!(errors.len() >= ERRORS, "some errors never came up");
    }
}

/// Returns the reply to the last item, or the reply itself.
fn last(reply: &Reply) -> &Reply {
    match reply {
        Reply::Array(replies) => replies.last().unwrap_or(&Reply::Nil),
        reply => reply,
    }
}

/// Returns a reply the way RESP2 has it, without what depends on who reads a feed, and when: the last rows of BF.INFO, and
/// cursors of BF.READ.
fn in_resp2(reply: &Reply) -> Reply {
    let of_feed = |part: &&Reply| matches!(part, Reply::Simple(title) if title.starts_with("Feed"));
    let is_cursor =
        |text: &[u8]| text.get(16) == Some(&b'-') && text[..16].iter().all(u8::is_ascii_hexdigit);
    match reply {
        Reply::Bool(value) => int(i64::from(*value)),
        Reply::Double(value) => bulk(format!("{value:?}")),
        Reply::Bulk(text) if is_cursor(text) => bulk("a cursor"),
        Reply::Array(parts) => array(parts.iter().take_while(|part| !of_feed(part)).map(in_resp2)),
        Reply::Map(rows) if rows.len() == 1 => in_resp2(&array([rows[0].1.clone()])),
        Reply::Map(rows) => in_resp2(&array(rows.iter().cloned().flat_map(<[Reply; 2]>::from))),
        reply => reply.clone(),
    }
}

/// Returns whether servers may reply differently: of feeds by who reads them, and when.
fn is_of_server(name: &str, words: &Command) -> bool {
    let of_feed = |field: &Vec<u8>| field.to_ascii_uppercase().starts_with(b"FEED");
    name == "BF.INFO" && words.get(2).is_some_and(of_feed)
}

fn shown(words: &Command) -> String {
    let words = words.iter().take(40);
    let words = words.map(|word| format!("\"{}\"", word[..word.len().min(100)].escape_ascii()));
    words.collect::<Vec<_>>().join(" ")
}
