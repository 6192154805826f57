//! Random commands on sketches: replicas, logs and files agree, and answers keep to what was added.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use super::{Budget, Random};
use crate::harness::{Client, Reply, Server, digest, wait_in_sync};
use crate::support::sums;

const KEYS: usize = 4;

/// The additions to a sketch.
#[derive(Clone)]
enum Added {
    /// To a count-min sketch or a top-k list: the number of each item.
    Counts(HashMap<Vec<u8>, i64>),
    /// To a t-digest.
    Values(Vec<f64>),
}

/// A primary, its replica, and the additions to each key of the primary.
struct Run {
    primary: Server,
    replica: Server,
    client: Client,
    random: Random,
    keys: BTreeMap<String, Added>,
}

impl Run {
    fn new(random: Random) -> Self {
        let log = [
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("auto-aof-rewrite-percentage", "0"),
        ];
        let primary = Server::with(&log);
        let replica = Server::replica_of(&primary).start();
        wait_in_sync(&primary, &replica);
        Self {
            client: primary.client(),
            primary,
            replica,
            random,
            keys: BTreeMap::new(),
        }
    }

    fn key(&mut self, family: &str) -> String {
        format!("{family}:{}", self.random.below(KEYS))
    }

    fn item(&mut self) -> Vec<u8> {
        match self.random.below(60) {
            0 => Vec::new(),
            1 => vec![0; self.random.below(3)],
            2 => {
                let length = self.random.below(300);
                self.random.bytes(length)
            }
            // Some items are much more frequent than others.
            number => format!("item{}", number * number / 60).into_bytes(),
        }
    }

    fn value(&mut self) -> f64 {
        let value = *self.random.pick(&[0.0, 1.0, -1.0, 2.5, 1e300, -1e-300]);
        match self.random.below(3) {
            0 => value,
            1 => f64::from(u16::try_from(self.random.below(1000)).unwrap_or_default()),
            _ => value * f64::from(u16::try_from(self.random.below(100)).unwrap_or_default()),
        }
    }

    /// Creates a sketch, unless there is one.
    fn create(&mut self, family: &str) {
        let key = self.key(family);
        let mut size = |most| 1 + self.random.below(most);
        let line = match family {
            "cms" => format!("CMS.INITBYDIM {key} {} {}", size(40), size(8)),
            "topk" => {
                let (k, width, depth) = (size(12), size(30), size(8));
                let decay = self.random.pick(&["0.9", "0.5", "1", "0.999", "0.99999"]);
                format!("TOPK.RESERVE {key} {k} {width} {depth} {decay}")
            }
            _ => format!("TDIGEST.CREATE {key} COMPRESSION {}", size(150)),
        };
        let added = match family {
            "tdigest" => Added::Values(Vec::new()),
            _ => Added::Counts(HashMap::new()),
        };
        let created = self.client.cmd(&line);
        assert_eq!(created.is_error(), self.keys.contains_key(&key), "{line}");
        self.keys.entry(key).or_insert(added);
    }

    /// Adds to a sketch. An increment after the first one may be wrong.
    fn add(&mut self, family: &str) {
        let key = self.key(family);
        let mut words = Vec::new();
        let mut additions = Vec::new();
        let command = match family {
            "cms" => "CMS.INCRBY",
            "topk" => *self.random.pick(&["TOPK.ADD", "TOPK.INCRBY"]),
            _ => "TDIGEST.ADD",
        };
        let mut is_wrong = false;
        for index in 0..=self.random.below(20) {
            if family == "tdigest" {
                let value = self.value();
                words.push(value.to_string().into_bytes());
                additions.push((Vec::new(), value, 0));
                continue;
            }
            let item = self.item();
            words.push(item.clone());
            if command == "TOPK.ADD" {
                additions.push((item, 0.0, 1));
                continue;
            }
            if index > 0 && self.random.one_in(100) {
                words.push(b"x".to_vec());
                is_wrong = true;
                break;
            }
            let most = *self.random.pick(&[2, 100, 100_000]);
            let count = self.random.below(most);
            words.push(count.to_string().into_bytes());
            additions.push((item, 0.0, i64::try_from(count).expect("few")));
        }
        let mut call: Vec<&[u8]> = vec![command.as_bytes(), key.as_bytes()];
        call.extend(words.iter().map(Vec::as_slice));
        let reply = self.client.call(&call);
        let Some(added) = self.keys.get_mut(&key) else {
            assert!(reply.is_error(), "{call:?}");
            return;
        };
        if is_wrong && family == "cms" {
            assert!(reply.is_error(), "{call:?}");
            return;
        }
        assert!(!reply.is_error(), "{call:?}: {reply:?}");
        for (item, value, count) in additions {
            match added {
                Added::Counts(counts) => *counts.entry(item).or_default() += count,
                Added::Values(values) => values.push(value),
            }
        }
    }

    fn merge(&mut self) {
        let keys: Vec<String> = (0..3).map(|_| self.key("tdigest")).collect();
        let is_override = self.random.one_in(2);
        let word = if is_override { " OVERRIDE" } else { "" };
        let line = format!("TDIGEST.MERGE {} 2 {} {}{word}", keys[0], keys[1], keys[2]);
        let merged = self.client.cmd(&line);
        let of = |key: &String| match self.keys.get(key) {
            Some(Added::Values(values)) => Some(values.clone()),
            _ => None,
        };
        let sources = of(&keys[1]).zip(of(&keys[2]));
        assert_eq!(merged.is_error(), sources.is_none(), "{line}: {merged:?}");
        if let Some((one, other)) = sources {
            let own = of(&keys[0]).filter(|_| !is_override).unwrap_or_default();
            let values = [own, one, other].concat();
            self.keys.insert(keys[0].clone(), Added::Values(values));
        }
        let keys: Vec<String> = (0..2).map(|_| self.key("cms")).collect();
        let line = format!("CMS.MERGE {} 2 {0} {}", keys[0], keys[1]);
        let merged = self.client.cmd(&line);
        if !merged.is_error()
            && let (Added::Counts(own), Added::Counts(other)) =
                (self.keys[&keys[0]].clone(), self.keys[&keys[1]].clone())
        {
            let mut sum = own;
            for (item, count) in other {
                *sum.entry(item).or_default() += count;
            }
            self.keys.insert(keys[0].clone(), Added::Counts(sum));
        }
    }

    /// Copies, renames, deletes, dumps and restores keys, and empties a digest.
    fn handle(&mut self) {
        let family = *self.random.pick(&["cms", "topk", "tdigest"]);
        let (from, to) = (self.key(family), self.key(family));
        let Some(added) = self.keys.get(&from).cloned() else {
            return;
        };
        match self.random.below(5) {
            0 if from != to => {
                self.client.cmd(&format!("COPY {from} {to} REPLACE"));
                self.keys.insert(to, added);
            }
            1 => {
                self.client.cmd(&format!("RENAME {from} {to}"));
                self.keys.remove(&from);
                self.keys.insert(to, added);
            }
            2 => {
                let delete = *self.random.pick(&["DEL", "UNLINK"]);
                self.client.cmd(&format!("{delete} {from}"));
                self.keys.remove(&from);
            }
            3 => {
                let payload = self.client.cmd(&format!("DUMP {from}"));
                let restore: [&[u8]; 5] = [
                    b"RESTORE",
                    to.as_bytes(),
                    b"0",
                    payload.as_bytes(),
                    b"REPLACE",
                ];
                assert!(!self.client.call(&restore).is_error());
                self.keys.insert(to, added);
            }
            _ if family == "tdigest" => {
                self.client.cmd(&format!("TDIGEST.RESET {from}"));
                self.keys.insert(from, Added::Values(Vec::new()));
            }
            _ => {}
        }
    }

    /// Compares the answers with the additions.
    fn check(&mut self) {
        for (key, added) in &self.keys {
            match added {
                Added::Counts(counts) if key.starts_with("cms") => {
                    for (item, count) in counts {
                        let query: [&[u8]; 3] = [b"CMS.QUERY", key.as_bytes(), item];
                        let estimate = self.client.call(&query).as_array()[0].as_int();
                        let least = (*count).min(i64::from(u32::MAX));
                        assert!(estimate >= least, "{key}: {estimate} of {count}");
                    }
                }
                Added::Counts(counts) => {
                    let listed = self.client.cmd(&format!("TOPK.LIST {key} WITHCOUNT"));
                    let pairs = listed.as_array().chunks_exact(2);
                    let pairs = pairs.map(|pair| (pair[0].as_bytes(), pair[1].as_int()));
                    for (item, listed) in pairs {
                        let count = counts.get(item).copied().unwrap_or_default();
                        assert!(listed <= count, "{key}: {listed} of {count}");
                    }
                }
                Added::Values(values) => check_digest(&mut self.client, key, values),
            }
        }
    }

    fn digests(&self, client: &mut Client) -> Vec<String> {
        self.keys.keys().map(|key| digest(client, key)).collect()
    }

    fn dumps(&self, client: &mut Client) -> Vec<Reply> {
        let dump = |key: &String| client.cmd(&format!("DUMP {key}"));
        self.keys.keys().map(dump).collect()
    }
}

/// Compares a digest's answers with its values.
fn check_digest(client: &mut Client, key: &str, values: &[f64]) {
    let mut number = |line: String| client.cmd(&line).text().parse::<f64>().expect("a number");
    let (least, most) = (
        number(format!("TDIGEST.MIN {key}")),
        number(format!("TDIGEST.MAX {key}")),
    );
    let (mut low, mut high) = (f64::NAN, f64::NAN);
    for value in values {
        (low, high) = (low.min(*value), high.max(*value));
    }
    // The two zeros are equal, and so are two NaN.
    let same = |one: f64, other: f64| {
        one.partial_cmp(&other) != Some(Ordering::Less)
            && one.partial_cmp(&other) != Some(Ordering::Greater)
    };
    assert!(same(least, low) && same(most, high), "{key}");
    let info = client.cmd(&format!("TDIGEST.INFO {key}"));
    let observations = info.as_array()[13].as_int();
    assert_eq!(observations, i64::try_from(values.len()).expect("few"));
    let quantiles = "0 0.001 0.1 0.25 0.5 0.75 0.9 0.999 1";
    let reply = client.cmd(&format!("TDIGEST.QUANTILE {key} {quantiles}"));
    let answers = reply.as_array().iter();
    let answers: Vec<f64> = answers
        .map(|answer| answer.text().parse().expect("a number"))
        .collect();
    assert!(
        values.is_empty() || answers.is_sorted(),
        "{key}: {answers:?}"
    );
    let within = |answer: &f64| (low..=high).contains(answer);
    assert!(
        values.is_empty() || answers.iter().all(within),
        "{key}: {answers:?}"
    );
}

#[test]
fn random_sketches_are_the_same_everywhere() {
    let mut random = Random::new("sketches");
    for _ in Budget::rounds(2) {
        let mut run = Run::new(random.branch());
        for _ in 0..600 {
            let family = *run.random.pick(&["cms", "topk", "tdigest"]);
            match run.random.below(20) {
                0..3 => run.create(family),
                3..16 => run.add(family),
                16 => run.merge(),
                17 => run.handle(),
                _ if run.random.one_in(10) => run.check(),
                _ => {}
            }
        }
        run.check();
        sums::is_balanced(&mut run.client);
        wait_in_sync(&run.primary, &run.replica);
        let before = run.digests(&mut run.primary.client());
        let mut far = run.replica.client();
        assert_eq!(run.digests(&mut far), before, "the replica differs");
        sums::is_balanced(&mut far);
        // Everything is in the log, which was never rewritten.
        run.primary.kill();
        run.primary.start_again();
        run.client = run.primary.client();
        assert_eq!(
            run.digests(&mut run.primary.client()),
            before,
            "the log differs"
        );
        // A file holds digests in their compressed form, like a dump.
        let dumps = run.dumps(&mut run.primary.client());
        assert!(!run.client.cmd("DEBUG RELOAD").is_error());
        assert_eq!(
            run.dumps(&mut run.primary.client()),
            dumps,
            "the file differs"
        );
        sums::is_balanced(&mut run.client);
        run.check();
    }
}
