//! Attackers who have read the code, with and without the seed of an object.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use siphasher::sip::SipHasher13;
use valkeybloom_sketches::Seed;

use crate::harness::{Client, Reply, Server, int, ok};
use crate::support::protocols::field;

const CAPACITY: usize = 1000;
const RATE: &str = "0.01";

/// A filter as anybody can compute it from the seed and the reply of BF.DEBUG.
struct Twin {
    bits: u64,
    hashes: u64,
    set: HashSet<u64>,
}

impl Twin {
    fn of(client: &mut Client, key: &str) -> Self {
        let debug = client.cmd(&format!("BF.DEBUG {key}"));
        let filter = debug.as_array()[1].text();
        let number = |name: &str| -> u64 {
            let mut fields = filter.split(' ').filter_map(|field| field.split_once(':'));
            let found = fields.find(|(field, _)| *field == name);
            found
                .expect("the field is there")
                .1
                .parse()
                .expect("a number")
        };
        Self {
            bits: number("bits"),
            hashes: number("hashes"),
            set: HashSet::new(),
        }
    }

    fn positions(&self, item: &str) -> Vec<u64> {
        const P: u64 = u64::MAX - 58;
        let (left, right) = Seed::FIXED.as_bytes().split_at(16);
        let [a, b] = [left, right].map(|key| {
            let key = key.try_into().expect("16 bytes");
            let mut hasher = SipHasher13::new_with_key(key);
            item.as_bytes().hash(&mut hasher);
            hasher.finish()
        });
        let position = |i: u64| match i {
            0 => a,
            1 => b,
            i => a.wrapping_add(b.wrapping_mul(i)) % P,
        };
        (0..self.hashes).map(|i| position(i) % self.bits).collect()
    }

    /// Takes an item in if it sets as many bits as an item can.
    fn take_if_all_are_new(&mut self, item: &str) -> bool {
        let positions: HashSet<u64> = self.positions(item).into_iter().collect();
        let worst = positions.len() as u64 == self.hashes && positions.is_disjoint(&self.set);
        if worst {
            self.set.extend(positions);
        }
        worst
    }

    fn claims(&self, item: &str) -> bool {
        let mut positions = self.positions(item).into_iter();
        positions.all(|position| self.set.contains(&position))
    }
}

/// Returns the share of these that an object says it has.
fn share(client: &mut Client, key: &str, items: &[String]) -> f64 {
    let mut found = 0;
    for items in items.chunks(1000) {
        let mut ask: Vec<&[u8]> = vec![b"BF.MEXISTS", key.as_bytes()];
        ask.extend(items.iter().map(String::as_bytes));
        let reply = client.call(&ask);
        found += reply.as_array().iter().map(Reply::as_int).sum::<i64>();
    }
    let [found, all] = [found, i64::try_from(items.len()).expect("not many")]
        .map(|count| f64::from(i32::try_from(count).expect("not many")));
    found / all
}

fn reserve(client: &mut Client, key: &str, random_seed: bool) {
    let random = if random_seed { "yes" } else { "no" };
    let set = format!("CONFIG SET bf.bloom-use-random-seed {random}");
    assert_eq!(client.cmd(&set), ok());
    let reserve = format!("BF.RESERVE {key} {RATE} {CAPACITY} NONSCALING");
    assert_eq!(client.cmd(&reserve), ok());
}

/// Adds items to each of the keys. Returns how many were new to each.
fn add(client: &mut Client, keys: [&str; 2], items: &[String]) -> [i64; 2] {
    keys.map(|key| {
        for item in items {
            assert!(!client.cmd(&format!("BF.ADD {key} {item}")).is_error());
        }
        field(client, key, "ITEMS")
    })
}

/// Returns names that no attacker has chosen.
fn strangers() -> Vec<String> {
    (0..50_000)
        .map(|number| format!("stranger-{number}"))
        .collect()
}

#[test]
fn chosen_items_fill_an_object_whose_seed_is_known() {
    let server = Server::start();
    let mut client = server.client();
    reserve(&mut client, "known", false);
    reserve(&mut client, "random", true);
    let mut copy = Twin::of(&mut client, "known");
    let items = (0_u64..).map(|number| format!("chosen-{number}"));
    // Three bits in ten are free at the end: some thousands of tries find an item for them.
    let chosen: Vec<String> = items
        .filter(|item| copy.take_if_all_are_new(item))
        .take(CAPACITY)
        .collect();
    let [new, _] = add(&mut client, ["known", "random"], &chosen);
    assert_eq!(new, 1000, "none of them can be taken for another");

    let strangers = strangers();
    let known = share(&mut client, "known", &strangers);
    let random = share(&mut client, "random", &strangers);
    eprintln!("strangers found: {known} where the seed is known, else {random}");
    assert!(known > 0.05, "{known}");
    assert!(random < 0.015, "{random}");
    // Every answer for a stranger is the computed one.
    let expected = strangers.iter().filter(|item| copy.claims(item)).count();
    let reported = share(&mut client, "known", &strangers) * 50_000.0;
    let expected = f64::from(u32::try_from(expected).expect("not many"));
    assert!(
        (reported - expected).abs() < 0.5,
        "{reported}, not {expected}"
    );
}

#[test]
fn false_positives_can_be_computed_where_the_seed_is_known() {
    let server = Server::start();
    let mut client = server.client();
    reserve(&mut client, "known", false);
    reserve(&mut client, "random", true);
    let members: Vec<String> = (0..CAPACITY - 100)
        .map(|number| format!("member-{number}"))
        .collect();
    let mut copy = Twin::of(&mut client, "known");
    for item in &members {
        let positions = copy.positions(item);
        copy.set.extend(positions);
    }
    add(&mut client, ["known", "random"], &members);
    let items = (0_u64..).map(|number| format!("forged-{number}"));
    let forged: Vec<String> = items.filter(|item| copy.claims(item)).take(5000).collect();
    let known = share(&mut client, "known", &forged);
    let random = share(&mut client, "random", &forged);
    eprintln!("forged items found: {known} where the seed is known, else {random}");
    assert!(known > 0.999_999, "all of them");
    assert!(random < 0.02, "{random}");
    // None of them can be added: a link that was never seen is held for one that was.
    let add = format!("BF.ADD known {}", forged[0]);
    assert_eq!(client.cmd(&add), int(0));
    let add = format!("BF.MADD random {}", forged.join(" "));
    let added = client.cmd(&add);
    let added = added.as_array().iter().filter(|new| **new == int(1));
    assert!(added.count() >= 100, "until it is full");
}
