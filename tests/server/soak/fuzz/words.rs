//! Words that are nearly a command, and a model that predicts the replies.

use std::collections::BTreeMap;

use valkeybloom_protocol::error::{Error, Field};
use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Limits, MergeError, Object, Params, Refusal, dump};

use super::super::{Budget, Random, dump_of};
use super::grammar::{Grammar, KEYS, Library, OTHERS};
use super::model::{ARITY, Model, defaults};
use super::{Command, Target, command};
use crate::harness::{Client, Reply, Server, bulk, simple};
use crate::support::pieces::pieces;

/// So many commands go out at once.
const BATCH: usize = 256;

/// Objects that are handed back by BF.LOAD and BF.LOADCHUNK.
const CREATIONS: [&str; 9] = [
    "BF.INSERT a CAPACITY 20 ERROR 0.01 ITEMS 1 2 3 4 5 6 7",
    "BF.INSERT a CAPACITY 2 EXPANSION 1 ITEMS 1 2 3 4 5 6 7 8 9",
    "BF.INSERT a CAPACITY 5 ERROR 0.001 NONSCALING ITEMS 1 2 3 4 5",
    "BF.INSERT a CAPACITY 3 TIGHTENING 0.9 EXPANSION 3 ITEMS 10 11 12 13 14 15 16 17",
    "BF.INSERT a CAPACITY 50",
    "BF.INSERT a CAPACITY 3 COUNTING ITEMS 1 2 3 4 5 6 7 1 2",
    "BF.INSERT a SCALETO 4 EXPANSION 1 ITEMS 1 2 3 4 5",
    "BF.INSERT a CAPACITY 5 WINDOW 1000000000000 PERIODS 2 TTL 2000000000000 ITEMS 1 2 3 4 5 6 7",
    "BF.INSERT a CAPACITY 5 NONSCALING WINDOW 10000000000000 PERIODS 3 ITEMS 1 2 3",
];

/// The words of objects of tables.
const TABLES: [&str; 3] = ["COUNTING", "WINDOW", "SCALETO"];

/// A union within the limit of a value, and one beyond it.
const UNIONS: [&str; 6] = [
    "BF.INSERT a CAPACITY 10000 ITEMS 1",
    "BF.INSERT b CAPACITY 8000 ERROR 0.001 ITEMS 2",
    "BF.MERGE c a",
    "BF.MERGE a b",
    "DEL a",
    "DEL b",
];

fn split(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// The errors that a fuzzer meets sooner or later if it reaches everything. Only filters stacked at loose rates are refused
/// for their rates: `refusals` has a row for that.
const ERRORS: [Error; 48] = [
    Error::WRONG_TYPE,
    Error::BUSY,
    Error::STILL_LOADING,
    Error::NOT_FOUND,
    Error::EXISTS,
    Error::Refused(Refusal::MemoryLimit),
    Error::Refused(Refusal::RateTooSmall),
    Error::Refused(Refusal::Full),
    Error::UNKNOWN_FIELD,
    Error::BAD_CHUNK,
    Error::UNDECODABLE,
    Error::UNSUPPORTED_VERSION,
    Error::UNKNOWN_OPTION,
    Error::SEED,
    Error::FIXED_EXPANSION,
    Error::FIXED_SCALE_TO,
    Error::SCALE_TO_MEMORY,
    Error::SCALE_TO_RATE,
    Error::NO_WINDOW,
    Error::NO_COUNTERS,
    Error::LONG_TTL,
    Error::NO_FEED,
    Error::FEED_UNKNOWN,
    Error::HALF_WINDOW,
    Error::COUNTING_WINDOW,
    Error::Unlike(MergeError::Seeds),
    Error::Unlike(MergeError::Kinds),
    Error::Bad(Field::ERROR_RATE),
    Error::Bad(Field::CAPACITY),
    Error::Bad(Field::EXPANSION),
    Error::Bad(Field::TIGHTENING),
    Error::Bad(Field::CURSOR),
    Error::Bad(Field::TTL),
    Error::Bad(Field::WINDOW),
    Error::Bad(Field::PERIODS),
    Error::Bad(Field::SCALE_TO),
    Error::Range(Field::SCALE_TO),
    Error::FIXED_GROWTH_TO,
    Error::GROWTH_TO_MEMORY,
    Error::GROWTH_TO_RATE,
    Error::Bad(Field::MAX_COUNT),
    Error::Range(Field::ERROR_RATE),
    Error::Range(Field::CAPACITY),
    Error::Range(Field::TIGHTENING),
    Error::Range(Field::TTL),
    Error::Range(Field::WINDOW),
    Error::Range(Field::PERIODS),
    Error::Range(Field::MAX_COUNT),
];

/// A connection in each protocol, and the model of what both work on.
pub struct Talk {
    clients: [Client; 2],
    pub model: Model,
    commands: u64,
    /// How often each error was returned.
    errors: BTreeMap<String, u64>,
    /// How often each command got a reply other than an error, a 0 or an empty one.
    granted: BTreeMap<String, u64>,
}

impl Talk {
    pub fn with(server: &Server) -> Self {
        Self {
            clients: [server.client(), server.client3()],
            model: Model::default(),
            commands: 0,
            errors: BTreeMap::new(),
            granted: BTreeMap::new(),
        }
    }

    /// Sends commands, whose replies have to be those of the model.
    pub fn say(&mut self, commands: &[Command], resp3: bool) -> Vec<Reply> {
        let client = &mut self.clients[usize::from(resp3)];
        let replies = client.call_all(commands);
        for (number, (words, reply)) in commands.iter().zip(&replies).enumerate() {
            let due = self.model.run(words, resp3);
            if *reply != due && without_feed(words, reply) != due {
                // The commands for this key, shortened.
                let of_key = commands[..=number]
                    .iter()
                    .filter(|c| c.get(1) == words.get(1));
                for said in of_key {
                    eprintln!("{}", shown(said));
                }
                panic!(
                    "{reply:?} and not {due:?} to {}, RESP3 {resp3}",
                    shown(words)
                );
            }
            let error = match reply {
                Reply::Array(replies) => replies.last().unwrap_or(reply),
                reply => reply,
            };
            if let Reply::Error(text) = error {
                *self.errors.entry(text.clone()).or_default() += 1;
            } else if ![Reply::Int(0), Reply::Bool(false), Reply::Nil].contains(error) {
                let name = String::from_utf8_lossy(&words[0]).to_lowercase();
                *self.granted.entry(name).or_default() += 1;
            }
        }
        self.commands += commands.len() as u64;
        replies
    }

    pub fn library(&mut self) -> Library {
        let mut library = Library {
            dumps: Vec::new(),
            pieces: Vec::new(),
            lengths: Vec::new(),
            tables: Vec::new(),
        };
        for line in CREATIONS {
            self.say(&[command(&split(line))], false);
            let pieces = pieces(&mut self.clients[0], "a");
            library.dumps.push(dump_of(&pieces));
            self.say(&[command(&[b"DEL", b"a"])], false);
            if TABLES.iter().any(|word| line.contains(word)) {
                library.tables.push(pieces);
                continue;
            }
            let header = pieces[0].1.clone();
            // One chunk for each filter.
            let filters: Vec<&[u8]> = pieces[1..].iter().map(|(_, bits)| &bits[..]).collect();
            let lengths = filters.iter().map(|bits| bits.len()).collect();
            let bits = filters.concat();
            library.pieces.push((header, bits));
            library.lengths.push(lengths);
        }
        // Limits do not admit it.
        let params = Params {
            capacity: 20_000,
            ..defaults().params
        };
        let large = Object::plain(&params, Seed::FIXED, Limits::NONE).expect("there is memory");
        library
            .dumps
            .push(dump::encode(&large).expect("there is memory"));
        library
    }

    /// Nothing that an object holds is denied.
    fn nothing_is_forgotten(&mut self) {
        let questions = self.model.known().map(|(key, items)| {
            let words = [b"BF.MEXISTS".to_vec(), key.clone()];
            words.into_iter().chain(items.iter().cloned()).collect()
        });
        let questions: Vec<Command> = questions.collect();
        for replies in self.say(&questions, true) {
            let are_found = replies
                .as_array()
                .iter()
                .all(|reply| *reply == Reply::Bool(true));
            assert!(are_found, "an item is forgotten");
        }
        let questions = questions.iter().flat_map(|words| {
            let ask = |name: &[u8]| command(&[name, &words[1]]);
            [
                command(&[b"BF.INFO", &words[1], b"ALL"]),
                ask(b"BF.DEBUG"),
                ask(b"BF.CARD"),
            ]
        });
        let questions: Vec<Command> = questions.collect();
        self.say(&questions, false);
    }
}

/// Returns a reply without what the model does not know of feeds: their cursors, and how long somebody reads them.
fn without_feed(words: &Command, reply: &Reply) -> Reply {
    let of_feed = |title: &Reply| [simple("Feed bytes"), simple("Feed readers")].contains(title);
    let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
    let field = words.get(2).map(|field| field.to_ascii_uppercase());
    let of_field = field.is_some_and(|field| field.starts_with(b"FEED"));
    match reply {
        Reply::Array(parts) if is("BF.READ") && parts.len() == 3 => {
            let begin = std::iter::once(bulk(""));
            Reply::Array(begin.chain(parts[1..].iter().cloned()).collect())
        }
        Reply::Array(_) | Reply::Map(_) if is("BF.INFO") && of_field => {
            Reply::Error(Error::UNKNOWN_FIELD.to_string())
        }
        Reply::Array(parts) if is("BF.INFO") => {
            let (rows, _) = parts.as_chunks::<2>();
            let rows = rows.iter().filter(|[title, _]| !of_feed(title));
            Reply::Array(rows.flatten().cloned().collect())
        }
        Reply::Map(rows) if is("BF.INFO") => {
            let rows = rows.iter().filter(|(title, _)| !of_feed(title));
            Reply::Map(rows.cloned().collect())
        }
        other => other.clone(),
    }
}

fn shown(words: &Command) -> String {
    let words = words.iter().take(40);
    let words = words.map(|word| format!("\"{}\"", word[..word.len().min(100)].escape_ascii()));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn random_commands_get_the_replies_of_the_model() {
    let target = Target::new();
    let mut random = Random::new("random_commands_get_the_replies_of_the_model");
    let mut talk = Talk::with(&target.server);
    for line in ["SET string x", "RPUSH list a b", "XADD stream 1-1 f v"] {
        assert!(!talk.clients[0].cmd(line).is_error());
    }
    for key in OTHERS {
        talk.model.has_other(key);
    }
    let library = talk.library();
    talk.say(&UNIONS.map(|line| command(&split(line))), false);

    let mut rounds = Budget::rounds(1000);
    for round in &mut rounds {
        let mut commands = Vec::new();
        let mut grammar = Grammar {
            random: &mut random,
            library: &library,
        };
        while commands.len() < BATCH {
            grammar.next(&mut commands);
        }
        talk.say(&commands, random.one_in(2));
        if round % 64 == 63 {
            talk.nothing_is_forgotten();
        }
    }
    talk.nothing_is_forgotten();
    let commands = talk.commands;
    let refused = talk.errors.values().sum::<u64>();
    eprintln!(
        "random_commands_get_the_replies_of_the_model: {} rounds, {commands} commands, {refused} of them refused: {:#?}",
        rounds.done(),
        talk.errors
    );
    eprintln!("granted: {:?}", talk.granted);
    assert!(refused < commands / 2, "most are refused");
    let names = || ARITY.map(|(name, ..)| name).into_iter();
    let names = || names().filter(|name| name.starts_with("bf."));
    let arity = names().map(|name| format!("ERR wrong number of arguments for '{name}' command"));
    let errors = ERRORS.map(|error| error.to_string());
    for text in errors.into_iter().chain(arity) {
        assert!(talk.errors.contains_key(&text), "{text} never came up");
    }
    for name in names() {
        assert!(talk.granted.contains_key(name), "{name} was never granted");
    }
    let [mut client, _] = talk.clients;
    // Under keys that the words use, for the sums over all keys.
    for (number, key) in KEYS[8..].iter().enumerate() {
        let name = format!("odd-{number}");
        client.call(&[b"COPY", key, name.as_bytes()]);
        client.call(&[b"DEL", key]);
    }
    target.ends_unharmed(client);
}
