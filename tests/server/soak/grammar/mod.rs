//! Random commands in everything that a peer's grammar takes, on each way that they come: from a client, in the peer's
//! log, over its link, and in what this module logs and sends of them. The generators compose words for a meaning, so they know it without parsing.

mod own;
mod redisbloom;
mod valkey_bloom;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Budget, Random};
use crate::harness::{Builder, Client, Reply, array, digest, error, int, wait_until};
use crate::support::aof::{Command, Log, command, on_log_of, wire};
use crate::support::configured::{MAKERS, made_by};
use crate::support::primary::on_link_of;

use own::Own;
use redisbloom::RedisBloom;
use valkey_bloom::ValkeyBloom;

/// Commands of a round.
const COMMANDS: usize = 1500;
/// Items with numbers.
const ITEMS: usize = 300;

/// A client's command, the reply to it, and the command that the peer sends its replicas and writes to its log.
struct Step {
    command: Command,
    reply: Reply,
    sent: Option<Command>,
}

/// Commands of a client, and what the values are after them.
trait Peer {
    /// The value of `bf.bloom-new-filters` for clients.
    const NAME: &str;
    /// The values with which the peer's commands mean the same.
    const READERS: &[&str];

    fn new(random: Random) -> Self;

    /// Adds the next command, or some that belong together.
    fn step(&mut self, steps: &mut Vec<Step>);

    /// Checks what a server holds.
    fn check(&self, client: &mut Client);
}

/// A command that is being composed.
struct Words<'r> {
    random: &'r mut Random,
    all: Command,
}

impl<'r> Words<'r> {
    fn new(random: &'r mut Random, name: &str, key: &[u8]) -> Self {
        let all = vec![name.into(), key.to_vec()];
        Self { random, all }
    }

    fn add(&mut self, word: impl Into<Vec<u8>>) {
        self.all.push(word.into());
    }

    fn add_number(&mut self, number: u64) {
        self.add(number.to_string());
    }

    /// Adds the words of a line.
    fn add_line(&mut self, line: &str) {
        self.all.extend(line.split_whitespace().map(Into::into));
    }

    /// Adds one of the words between bars.
    fn add_any(&mut self, among: &str) {
        let word = any(self.random, among);
        self.add(word);
    }

    /// Adds a word in any letter case.
    fn add_cased(&mut self, word: &str) {
        let random = &mut *self.random;
        let letters = word.bytes();
        let letters = letters.map(|letter| letter ^ if random.one_in(2) { 0x20 } else { 0 });
        self.all.push(letters.collect());
    }

    /// Adds items, and returns them.
    fn add_items(&mut self) -> Vec<Vec<u8>> {
        let items = items(self.random);
        self.all.extend_from_slice(&items);
        items
    }

    /// Adds items, or the only item of BF.ADD, and returns them.
    fn add_items_of(&mut self, name: &str) -> Vec<Vec<u8>> {
        let mut items = items(self.random);
        if name == "BF.ADD" {
            items.truncate(1);
        }
        self.all.extend_from_slice(&items);
        items
    }

    /// Returns a step whose command is sent as it came, or not at all.
    fn step(self, reply: Reply, is_sent: bool) -> Step {
        let sent = is_sent.then(|| self.all.clone());
        let command = self.all;
        Step {
            command,
            reply,
            sent,
        }
    }

    /// Returns a step that is refused.
    fn refused(self, text: &str) -> Step {
        self.step(error(text), false)
    }
}

/// Returns one of the words between bars.
fn any(random: &mut Random, among: &str) -> Vec<u8> {
    let words: Vec<&str> = among.split('|').collect();
    random.pick(&words).as_bytes().to_vec()
}

/// Returns a key of this prefix, new or used lately; or now and then one of others.
fn key(random: &mut Random, made: &mut usize, prefix: char, others: &str) -> Vec<u8> {
    if !others.is_empty() && random.one_in(12) {
        return any(random, others);
    }
    *made += usize::from(random.one_in(4));
    let back = random.below(12.min(*made) + 1);
    format!("{prefix}{}", *made - back).into_bytes()
}

/// Takes out a value that has become too large, or any one now and then, and deletes its key.
fn delete_some<V>(
    random: &mut Random,
    values: &mut BTreeMap<Vec<u8>, V>,
    is_large: impl Fn(&V) -> bool,
    steps: &mut Vec<Step>,
) {
    let index = random.below(40 * values.len().max(1));
    let mut keys = values.iter().enumerate();
    let gone = keys.find(|(place, (_, value))| *place == index || is_large(value));
    if let Some((_, (key, _))) = gone {
        let key = key.clone();
        values.remove(&key);
        steps.push(Words::new(random, "DEL", &key).step(int(1), true));
    }
}

/// Returns items: few enough that they come again, and some that look like something else.
fn items(random: &mut Random) -> Vec<Vec<u8>> {
    let count = *random.pick(&[1, 1, 2, 5, 30]);
    let item = |_| match random.below(20) {
        0 => any(
            random,
            "|ITEMS|NOCREATE|i|\0|a\0b|\r\n|NONSCALING|EXPANSION",
        ),
        1 => vec![b'x'; 300],
        _ => item(random.below(ITEMS)),
    };
    (0..count).map(item).collect()
}

fn item(number: usize) -> Vec<u8> {
    format!("item-{number}").into_bytes()
}

/// Returns the replies to additions. The first item that there is no room for is the last.
fn replies(items: &[Vec<u8>], mut add: impl FnMut(&[u8]) -> Option<bool>) -> Vec<Reply> {
    let mut replies = Vec::new();
    for item in items {
        let Some(is_new) = add(item) else {
            replies.push(error("ERR non scaling filter is full"));
            break;
        };
        replies.push(int(is_new.into()));
    }
    replies
}

/// Returns the reply to a query, whose key follows the command's name.
fn ask(client: &mut Client, name: &str, key: &[u8], words: &[Vec<u8>]) -> Reply {
    let mut command: Vec<&[u8]> = vec![name.as_bytes(), key];
    command.extend(words.iter().map(Vec::as_slice));
    client.call(&command)
}

/// Returns the server's digest of each value.
fn digests(client: &mut Client) -> Vec<(String, String)> {
    let keys = client.cmd("KEYS *");
    let keys: BTreeSet<String> = keys.as_array().iter().map(Reply::text).collect();
    let pair = |key: String| (digest(client, &key), key);
    keys.into_iter().map(pair).collect()
}

/// Encloses some of the commands in transactions.
fn in_transactions(random: &mut Random, mut commands: &[Command]) -> Vec<Command> {
    let mut enclosed = Vec::new();
    while !commands.is_empty() {
        let (these, others) = commands.split_at(commands.len().min(1 + random.below(20)));
        let is_enclosed = random.one_in(2);
        enclosed.extend(is_enclosed.then(|| command("MULTI")));
        enclosed.extend_from_slice(these);
        enclosed.extend(is_enclosed.then(|| command("EXEC")));
        commands = others;
    }
    enclosed
}

/// Returns a server that logs commands.
fn logging(maker: &str) -> Builder {
    made_by(maker)
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("aof-use-rdb-preamble", "no")
        .config("auto-aof-rewrite-percentage", "0")
}

/// Checks a server that has replayed a log, and one that has followed a link and then replays what it logged of that.
/// They refuse nothing.
fn check_on_each_way(maker: &str, sent: &[Command], mut check: impl FnMut(&mut Client)) {
    let replayed = on_log_of(made_by(maker), &[], &wire(sent));
    check(&mut replayed.client());
    let mut follower = on_link_of(logging(maker), sent);
    check(&mut follower.client());
    wait_until("the log has its base", || {
        let info = follower.info("persistence");
        info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
    });
    for server in [&replayed, &follower] {
        assert!(!server.log_contains("CRITICAL"), "{}", server.log());
        let mut errors = server.info("errorstats");
        // While a server loads, it refuses requests.
        errors.remove("errorstat_LOADING");
        assert!(errors.is_empty(), "{errors:?}");
    }
    follower.restart();
    check(&mut follower.client());
}

/// Sends commands as a client, and replays what the peer sends of them, and what this module does. Returns what this
/// module sends.
fn run<P: Peer>(random: &mut Random) -> Vec<Command> {
    let mut peer = P::new(random.branch());
    let mut steps = Vec::new();
    while steps.len() < COMMANDS {
        peer.step(&mut steps);
    }
    let server = logging(P::NAME)
        .config("bf.bloom-use-random-seed", "no")
        .config("bf.bloom-filter-max-memory-usage", "100gb")
        .start();
    let mut client = server.client();
    let commands: Vec<Command> = steps.iter().map(|step| step.command.clone()).collect();
    for (step, reply) in steps.iter().zip(client.call_all(&commands)) {
        let line = step.command.join(&b' ');
        assert_eq!(reply, step.reply, "{}", line.escape_ascii());
    }
    peer.check(&mut client);
    let own = Log::of(&server).since();
    let held = digests(&mut client);
    let sent: Vec<Command> = steps.into_iter().filter_map(|step| step.sent).collect();
    let sent = in_transactions(random, &sent);
    for maker in MAKERS {
        let theirs = P::READERS.contains(&maker).then_some(&sent);
        for commands in [Some(&own), theirs].into_iter().flatten() {
            check_on_each_way(maker, commands, |client| {
                peer.check(client);
                assert_eq!(digests(client), held, "{maker}");
            });
        }
    }
    own
}

/// Runs rounds while there is time, and checks what this module sends in each.
fn run_rounds<P: Peer>(check: impl Fn(&[Command])) {
    let (mut random, mut budget) = (Random::new(P::NAME), Budget::rounds(1));
    for _ in budget.by_ref() {
        check(&run::<P>(&mut random));
    }
    let done = budget.done() * COMMANDS as u64;
    eprintln!("{}: {done} commands on each way", P::NAME);
}

#[test]
fn redisbloom_s_words_mean_the_same_on_each_way() {
    run_rounds::<RedisBloom>(|_| {});
}

#[test]
fn valkey_bloom_s_words_mean_the_same_on_each_way() {
    run_rounds::<ValkeyBloom>(|_| {});
}

#[test]
fn what_this_module_sends_means_the_same_under_each_setting() {
    run_rounds::<Own>(|sent| {
        for word in ["AT", "TTL", "SATURATE", "WINDOW", "COUNTING", "SCALETO"] {
            let is_sent = |command: &Command| command.contains(&word.into());
            assert!(sent.iter().any(is_sent), "{word} was not sent");
        }
    });
}

/// RedisBloom's filters may lack chunks for ever, and take additions all the while.
#[test]
fn half_loaded_filters_hold_what_they_hold_at_redisbloom() {
    let mut random = Random::new("half loaded");
    for _ in Budget::rounds(1) {
        let (mut sent, mut held) = (Vec::new(), Vec::new());
        for key in (0..100).map(item) {
            let (commands, draft) = redisbloom::loading(&mut random, &key);
            sent.extend(commands);
            held.push((key, draft));
        }
        check_on_each_way("redisbloom", &sent, |client| {
            for (key, draft) in &held {
                redisbloom::check_bloom(client, key, draft);
            }
        });
    }
}

/// Words that a client can't send: the times of writes.
#[test]
fn times_mean_the_same_under_each_setting() {
    const PERIOD_MS: u64 = 1 << 40;
    let mut random = Random::new("times");
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = u64::try_from(now.expect("after 1970").as_millis()).expect("64 bits");
    let first = now / PERIOD_MS * PERIOD_MS;
    let mut sent = vec![command(&format!(
        "BF.INSERT k CAPACITY 10 ERROR 0.01 TIGHTENING 0.5000000000000001 SEED 0123456789abcdef0123456789abcdef \
         EXPANSION 2 WINDOW {PERIOD_MS} PERIODS 9 AT {first}"
    ))];
    for period in 0..5 {
        let at = first + period * PERIOD_MS + random.next() % PERIOD_MS;
        let ttl = 1 + random.next() % (3 * PERIOD_MS);
        let options = match random.below(2) {
            0 => String::new(),
            _ => format!("TTL {ttl} "),
        };
        let mut added = command(&format!("BF.INSERT k NOCREATE AT {at} {options}ITEMS x"));
        added.extend((0..20 * period).map(|item| format!("{period}-{item}").into()));
        sent.push(added);
    }
    let mut held = Vec::new();
    for maker in MAKERS {
        check_on_each_way(maker, &sent, |client| {
            let answers = client.cmd("BF.MEXISTS k x 4-1 4-79");
            assert_eq!(answers, array([int(1), int(1), int(1)]));
            held.push(digests(client));
        });
    }
    held.dedup();
    assert_eq!(held.len(), 1, "{held:?}");
}
