//! What other programs wrote and answered on Valkey 9.1, in `tests/data`: values of every family, the commands that made
//! them, and their replies.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::harness::{Client, Reply, Server, ok};
use crate::support::aof::{Command, command};
use crate::support::forged::{rdb_version, seal};
use crate::support::pieces::Pieces;
use crate::support::sums;

/// RDB version and checksum at the end of a DUMP.
const FOOTER_BYTES: usize = 10;

/// A folder of recordings.
#[derive(PartialEq)]
pub struct Recording {
    folder: &'static str,
    is_repaired: bool,
}

const fn recording(folder: &'static str) -> Recording {
    Recording {
        folder,
        is_repaired: false,
    }
}

pub const VALKEY_BLOOM: Recording = recording("valkey-bloom-1.0");
pub const REDISBLOOM: Recording = recording("redisbloom-8.8");
pub const CUCKOO: Recording = recording("redisbloom-8.8-cuckoo");
pub const COUNTS: Recording = recording("redisbloom-8.8-cmstopk");
pub const DIGESTS: Recording = recording("redisbloom-8.8-tdigest");
pub const VALKEY_BLOOM_STREAM: Recording = recording("valkey-bloom-1.0-stream");
pub const REDISBLOOM_STREAM: Recording = recording("redisbloom-8.8-stream");
/// Commands of all families, each with the bytes of its reply in both protocols.
pub const REPLIES: Recording = recording("redisbloom-8.8-replies");
/// T-digests, with the cases in which 8.8 lost a lone observation as a later build recorded them.
pub const REPAIRED_DIGESTS: Recording = Recording {
    is_repaired: true,
    ..DIGESTS
};

/// The recordings of Bloom filters.
pub const PROGRAMS: [&Recording; 2] = [&VALKEY_BLOOM, &REDISBLOOM];

/// The recordings of all families, each with a file and two logs.
pub const ALL: [&Recording; 5] = [&VALKEY_BLOOM, &REDISBLOOM, &CUCKOO, &COUNTS, &DIGESTS];

/// A command, and its recorded reply.
pub type Step = (Command, Value);

impl Recording {
    pub fn data(&self, name: &str) -> PathBuf {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        data.join(self.folder).join(name)
    }

    pub fn json(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.data(name)).expect("the file is there");
        serde_json::from_str(&text).expect("the file is JSON")
    }

    /// Returns the recorded values in the order in which they were made.
    pub fn objects(&self) -> Vec<Recorded> {
        let all = self.json("objects.json");
        let objects: Vec<_> = if all.get("cases").is_some() {
            // Its means overflowed there. They are mended, so the bytes differ.
            let cases = self.cases().into_iter();
            let finite = cases.filter(|(name, _)| name != "overflow");
            finite.flat_map(|(_, case)| named(&case["keys"])).collect()
        } else if let Some(order) = all["order"].as_array() {
            let object = |key: &Value| (text(key).to_owned(), all["objects"][text(key)].clone());
            order.iter().map(object).collect()
        } else {
            named(&all).into_iter().collect()
        };
        let objects = objects.into_iter();
        objects
            .map(|(key, value)| Recorded::new(key, value))
            .collect()
    }

    /// Returns the commands that made the values, in their order.
    pub fn steps(&self) -> Vec<Step> {
        if self.folder == DIGESTS.folder {
            let cases = self.cases();
            let steps = cases.values().flat_map(|case| list(&case["history"]));
            let step = |step: &Value| (words(&step[0]), step[1].clone());
            return steps.map(step).collect();
        }
        let objects = self.objects();
        objects.iter().flat_map(Recorded::steps).collect()
    }

    /// Returns the cases of t-digests, each with a history over several keys.
    fn cases(&self) -> Map<String, Value> {
        let mut cases = named(&self.json("objects.json")["cases"]);
        if self.is_repaired {
            cases.extend(named(&self.json("repaired.json")["cases"]));
        }
        cases
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn named(value: &Value) -> Map<String, Value> {
    value.as_object().expect("a value for each name").clone()
}

pub fn hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("a text");
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// Returns a text, a number or bytes.
pub fn word(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        Value::Number(number) => number.to_string().into_bytes(),
        other => hex(&other["hex"]),
    }
}

pub fn words(value: &Value) -> Command {
    list(value).iter().map(word).collect()
}

/// Returns the words after the key of a BF.INFO with these fields, and the fields without those that depend on the program.
fn bloom_info(info: &Value) -> (Vec<Vec<u8>>, Value) {
    match fields(info) {
        // RedisBloom's own, in which sizes are equal, too.
        recorded if recorded.len() == 5 => (vec![], Value::Object(recorded)),
        mut recorded => {
            recorded.retain(|name, _| name != "Size" && name != "Max scaled capacity");
            (vec![b"ALL".to_vec()], Value::Object(recorded))
        }
    }
}

#[track_caller]
pub fn call(client: &mut Client, command: &[Vec<u8>]) -> Reply {
    client.call(&command.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// A value that another program had.
pub struct Recorded {
    pub key: String,
    pub value: Value,
    /// Queries that change nothing, and the reply to each.
    asked: (Vec<Command>, Vec<Value>),
}

impl Recorded {
    fn new(key: String, value: Value) -> Self {
        let mut new = Self {
            key,
            value,
            asked: Default::default(),
        };
        new.asked = new.asked().into_iter().unzip();
        new
    }

    pub fn type_name(&self) -> &str {
        text(&self.value["type"])
    }

    /// Returns the number of items in a Bloom filter.
    pub fn card(&self) -> i64 {
        self.value["card"].as_i64().expect("a number")
    }

    /// Returns cursors and chunks, where the program has them.
    pub fn chunks(&self) -> Pieces {
        let pairs = self.value["scandump"].as_array().into_iter().flatten();
        let pairs = pairs.map(|pair| (pair[0].as_u64().expect("a cursor"), hex(&pair[1])));
        pairs.filter(|(cursor, _)| *cursor != 0).collect()
    }

    /// Returns items that it was given, and others.
    pub fn probe(&self) -> Vec<Vec<u8>> {
        list(&self.value["probe"]).iter().map(hex).collect()
    }

    /// Returns the items that a Bloom filter was given.
    pub fn added(&self) -> Vec<Vec<u8>> {
        let added = self.value["added"].as_u64().expect("a number");
        let mut probe = self.probe();
        probe.truncate(usize::try_from(added).expect("few"));
        probe
    }

    /// Returns the dumps, compressed and plain, under a version of the RDB form.
    pub fn payloads(&self, version: [u8; 2]) -> impl Iterator<Item = Vec<u8>> {
        let dumps = ["dump_plain", "dump"].map(|name| self.value.get(name).map(hex));
        let dumps = dumps.into_iter().flatten();
        dumps.map(move |dump| seal(dump[..dump.len() - FOOTER_BYTES].to_vec(), version))
    }

    /// Returns whether its state depends on random numbers of the other program.
    pub fn hangs_on_chance(&self) -> bool {
        self.value["exact"] == "replay"
    }

    /// Returns whether an observation was lost before it was dumped.
    fn has_lost(&self) -> bool {
        let info = &self.value["info_after_dump"];
        info[5] == 0 && info[7] == 1
    }

    fn steps(&self) -> Vec<Step> {
        let (steps, probe) = (list(&self.value["made"]), self.probe());
        let of = |step: &Value| {
            let mut command = vec![word(&step[0]), self.key.clone().into_bytes()];
            command.extend(words(&step[1]));
            // Items of cuckoo filters are numbers of the probe.
            if self.type_name() == "MBbloomCF" {
                let numbers = list(&step[2]).iter().filter_map(Value::as_u64);
                let numbers = numbers.map(|number| usize::try_from(number).expect("few"));
                command.extend(numbers.map(|number| probe[number].clone()));
            }
            (command, list(step).last().expect("a reply").clone())
        };
        steps.iter().map(of).collect()
    }

    /// Returns queries that change nothing, and their answers.
    fn asked(&self) -> Vec<Step> {
        // A recorded stream has Bloom filters alone, without their type.
        match self.value["type"].as_str() {
            Some("MBbloomCF") => self.asked_of_cuckoo(),
            Some("CMSk-TYPE") => self.asked_of_counts(),
            Some("TopK-TYPE") => self.asked_of_top(),
            Some("TDIS-TYPE") => self.asked_of_digest(),
            _ => self.asked_of_bloom(),
        }
    }

    /// Returns a query and its answer.
    fn ask(&self, name: &str, words: &[Vec<u8>], answer: &Value) -> Step {
        let begin = command(&format!("{name} {}", self.key));
        ([&begin, words].concat(), answer.clone())
    }

    /// Returns a query for each item of the probe, with the answers of this name.
    fn ask_each(&self, name: &str, answers: &str) -> Vec<Step> {
        let pairs = self.probe().into_iter().zip(list(&self.value[answers]));
        pairs
            .map(|(item, answer)| self.ask(name, &[item], answer))
            .collect()
    }

    /// Returns a query for all items of the probe, whose answers are recorded as digits.
    fn ask_digits(&self, name: &str) -> Step {
        let digits = text(&self.value["answers"]).bytes();
        let digits = digits.map(|digit| digit - b'0').collect();
        self.ask(name, &self.probe(), &digits)
    }

    fn asked_of_cuckoo(&self) -> Vec<Step> {
        let mut asked = self.ask_each("CF.COUNT", "counts");
        asked.push(self.ask_digits("CF.MEXISTS"));
        asked.push(self.ask("CF.INFO", &[], &self.value["info"]));
        asked.push(self.ask("CF.DEBUG", &[], &self.value["debug"]));
        asked
    }

    fn asked_of_counts(&self) -> Vec<Step> {
        let mut asked = self.ask_each("CMS.QUERY", "query");
        for (_, answer) in &mut asked {
            *answer = json!([answer]);
        }
        asked.push(self.ask("CMS.QUERY", &self.probe(), &self.value["query"]));
        asked.push(self.ask("CMS.INFO", &[], &self.value["info"]));
        asked
    }

    fn asked_of_top(&self) -> Vec<Step> {
        // RedisBloom cuts items at a zero byte, and can't find what it has cut.
        let whole = |name: &str, answers: &str| {
            let mut pairs = self.ask_each(name, answers);
            pairs.retain(|(command, _)| !command[2].contains(&0));
            let items = pairs.iter().map(|(command, _)| command[2].clone());
            let items: Vec<_> = items.collect();
            let answers = pairs.into_iter().map(|(_, answer)| answer).collect();
            self.ask(name, &items, &answers)
        };
        vec![
            whole("TOPK.QUERY", "query"),
            whole("TOPK.COUNT", "count"),
            self.ask("TOPK.LIST", &[b"WITHCOUNT".to_vec()], &self.value["list"]),
            self.ask("TOPK.INFO", &[], &self.value["info"]),
        ]
    }

    fn asked_of_digest(&self) -> Vec<Step> {
        let of_name = |name: &str| {
            let command = format!("TDIGEST.{}", name.to_uppercase());
            match &self.value[name] {
                Value::Array(pair) => self.ask(&command, &words(&pair[0]), &pair[1]),
                answer => self.ask(&command, &[], answer),
            }
        };
        let names = [
            "min",
            "max",
            "quantile",
            "cdf",
            "rank",
            "revrank",
            "byrank",
            "byrevrank",
        ];
        let mut asked: Vec<Step> = names.map(of_name).into();
        for cut in list(&self.value["trimmed_mean"]) {
            let words = [&cut[0], &cut[1]].map(word);
            asked.push(self.ask("TDIGEST.TRIMMED_MEAN", &words, &cut[2]));
        }
        if !self.has_lost() {
            asked.push(self.ask("TDIGEST.INFO", &[], &self.value["info_after_dump"]));
        }
        asked
    }

    fn asked_of_bloom(&self) -> Vec<Step> {
        let mut asked = vec![
            self.ask_digits("BF.MEXISTS"),
            self.ask("BF.CARD", &[], &self.value["card"]),
        ];
        let (words, fields) = bloom_info(&self.value["info"]);
        asked.push(self.ask("BF.INFO", &words, &fields));
        if self.value["debug"].is_array() {
            asked.push(self.ask("BF.DEBUG", &[], &self.value["debug"]));
        }
        asked
    }

    /// Checks that the value has its recorded bytes, and gives its recorded answers, false positives included.
    #[track_caller]
    pub fn is_there(&self, client: &mut Client) {
        // A list has addresses in its bytes; the core's tests compare the others.
        if self.value["type"] != "TopK-TYPE" && !self.has_lost() {
            self.has_bytes(client, "dump");
        }
        let (commands, answers) = &self.asked;
        let replies = client.call_all(commands);
        for ((command, answer), reply) in commands.iter().zip(answers).zip(replies) {
            let name = command[0].escape_ascii();
            let gaps = self.has_lost() || has_gaps(&self.key);
            assert!(
                agrees(&reply, answer, gaps),
                "{} {name}: {reply:?}, {answer}",
                self.key
            );
        }
    }

    /// Checks that its DUMP is a recorded one, but for the RDB version. Servers may compress differently, but these do
    /// not.
    #[track_caller]
    pub fn has_bytes(&self, client: &mut Client, name: &str) {
        let value = |dump: &[u8]| dump[..dump.len() - FOOTER_BYTES].to_vec();
        let own = client.cmd(&format!("DUMP {}", self.key));
        assert!(
            value(own.as_bytes()) == value(&hex(&self.value[name])),
            "{} has another dump",
            self.key
        );
    }
}

/// Returns whether answers for a t-digest may be missing: the outermost node has weight 2, a sum overflows, or a node has
/// weight 0 in place of a lost observation.
pub fn has_gaps(key: &str) -> bool {
    let case = key.split(':').next().expect("a name");
    ["ends", "huge", "oneloaded", "overflow"].contains(&case)
}

/// Returns the recorded fields of BF.INFO.
fn fields(info: &Value) -> Map<String, Value> {
    match info {
        Value::Object(fields) => fields.clone(),
        flat => {
            let pairs = list(flat).chunks(2);
            let pairs = pairs.map(|pair| (text(&pair[0]).to_owned(), pair[1].clone()));
            pairs.collect()
        }
    }
}

/// Returns whether a reply is the recorded one, in either protocol. Of recorded fields with names, others may be around.
/// With `gaps`, there may be an answer where the recording lacks one.
pub fn agrees(own: &Reply, recorded: &Value, gaps: bool) -> bool {
    match (own, recorded) {
        (Reply::Map(pairs), _) => {
            let flat = pairs.iter().flat_map(|(name, value)| [name, value]);
            agrees(&Reply::Array(flat.cloned().collect()), recorded, gaps)
        }
        (Reply::Array(own), Value::Array(recorded)) => {
            let mut pairs = own.iter().zip(recorded);
            own.len() == recorded.len() && pairs.all(|(own, recorded)| agrees(own, recorded, gaps))
        }
        (Reply::Array(own), Value::Object(recorded)) => recorded.iter().all(|(name, recorded)| {
            let field = own.chunks(2).find(|pair| pair[0].text() == *name);
            field.is_some_and(|pair| agrees(&pair[1], recorded, gaps))
        }),
        (Reply::Error(own), _) => recorded["error"] == *own,
        (Reply::Nil, _) => recorded.is_null(),
        (Reply::Int(own), Value::Number(recorded)) => {
            let recorded = recorded.as_i64();
            recorded == Some(*own) || gaps && recorded == Some(i64::MIN)
        }
        (Reply::Bool(own), Value::Number(recorded)) => recorded.as_u64() == Some(u64::from(*own)),
        (Reply::Simple(own), Value::String(recorded)) => own == recorded,
        (Reply::Double(own), Value::String(recorded)) => same_number(*own, recorded, gaps),
        (Reply::Bulk(own), _) => {
            let cut = own.split(|byte| *byte == 0).next().expect("a first part");
            let digits = std::str::from_utf8(own)
                .ok()
                .and_then(|own| own.parse().ok());
            // The digits of numbers are the server's.
            cut == word(recorded)
                || digits
                    .zip(recorded.as_str())
                    .is_some_and(|(own, recorded)| same_number(own, recorded, gaps))
        }
        _ => false,
    }
}

fn same_number(own: f64, recorded: &str, gaps: bool) -> bool {
    let recorded = recorded.parse::<f64>();
    recorded.is_ok_and(|recorded| {
        let is_missing = recorded.is_nan() && (own.is_nan() || gaps);
        is_missing || own.to_bits() == recorded.to_bits()
    })
}

/// Reads the data set, and keeps using it.
#[track_caller]
pub fn all_are_there(server: &Server, recorded: &[Recorded]) {
    for mut client in [server.client(), server.client3()] {
        for object in recorded {
            object.is_there(&mut client);
        }
    }
    sums::is_balanced(&mut server.client());
}

/// Restores a recorded payload under the RDB version of this server. Returns it.
#[track_caller]
pub fn restore(client: &mut Client, object: &Recorded) {
    for payload in object.payloads(rdb_version(client)) {
        let restore = format!("RESTORE {} 0", object.key);
        assert_eq!(
            client.call_with(&restore, &[&payload[..], b"REPLACE"]),
            ok(),
            "{restore}"
        );
    }
}

/// Returns a server for each program, with what that wrote, and a check that another one has all of it.
pub fn stand_ins() -> Vec<(Server, impl Fn(&Server))> {
    let stand_in = |program: &'static Recording| {
        let recorded = program.objects();
        let (server, mut client) = Server::with_client();
        for object in &recorded {
            restore(&mut client, object);
        }
        (server, move |to: &Server| all_are_there(to, &recorded))
    };
    PROGRAMS.into_iter().map(stand_in).collect()
}
