//! Commands that are measured.

use valkeybloom_testing::harness::Client;

use super::side::send;

/// A command that is measured.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Its words, in which `#` stands for a random number.
    pub(super) words: Vec<String>,
    /// The exclusive upper bound of the random numbers.
    pub(super) range: u64,
    pub(super) pipeline: usize,
    pub(super) requests: u64,
    before: &'static str,
    pub(super) beside: &'static str,
}

impl Case {
    pub(super) fn new([name, command, before, beside]: [&'static str; 4], requests: u64) -> Self {
        let fewer = command.strip_prefix('~');
        let command = fewer.unwrap_or(command);
        let (command, times) = command.rsplit_once('*').unwrap_or((command, "1"));
        let times = times.parse().expect("a number");
        let random = command.split_once('#').map_or("1", |(_, random)| random);
        let range = random.split(' ').next().expect("a word");
        let words = command.replace(&format!("#{range}"), "#");
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let first = words.iter().position(|word| word.contains('#'));
        let (start, each) = words.split_at(first.unwrap_or(words.len()));
        Self {
            name,
            words: [start, &vec![each; times].concat()].concat(),
            range: range.parse().expect("a number"),
            pipeline: if times > 1 { 4 } else { 32 },
            requests: requests / if fewer.is_some() { 15 } else { 1 },
            before,
            beside,
        }
    }

    pub(super) fn command(&self) -> &str {
        &self.words[0]
    }

    pub(super) fn is_native(&self) -> bool {
        !self.command().contains('.')
    }

    /// Returns the number of the database that the case uses.
    pub(super) fn database(&self) -> &'static str {
        if self.words[1] == "#" { "1" } else { "0" }
    }

    /// Prepares a round.
    pub(super) fn begin(&self, client: &mut Client) {
        client.run(format!("SELECT {}", self.database()));
        if self.database() == "1" {
            client.run("FLUSHDB SYNC");
        }
        for line in self.before.split(" / ").filter(|line| !line.is_empty()) {
            send(client, line);
        }
    }
}
