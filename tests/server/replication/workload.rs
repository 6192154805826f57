//! Writes of every kind, at random.

use crate::harness::{Client, Reply};
use crate::soak::fuzz::Command;
use crate::soak::fuzz::grammar::Grammar;
use crate::support::Rng;

/// Adds three items one by one, and then two of them again with a new one.
const SCRIPT: &str = "for i = 1, 3 do redis.call('BF.ADD', KEYS[1], ARGV[1] .. i) end \
    return redis.call('BF.MADD', KEYS[1], ARGV[1], ARGV[1] .. '1', ARGV[1])";

/// A fixed sequence of writes of every kind.
pub struct Workload {
    random: Rng,
    grammar: Grammar,
}

impl Workload {
    pub fn new(seed: u64) -> Self {
        Self {
            random: Rng::new(seed),
            grammar: Grammar::new(),
        }
    }

    /// Returns a script or function that writes.
    fn script(&mut self) -> Command {
        let start = *self
            .random
            .pick(&[["EVAL", SCRIPT, "1"], ["FCALL", "adds", "1"]]);
        let [key, item] = ["name", "item"].map(|rule| self.grammar.word(&mut self.random, rule));
        let start = start.map(|word| word.as_bytes().to_vec());
        start.into_iter().chain([key, item]).collect()
    }

    /// Sends the next write. It may fail, as a client's may.
    pub fn step(&mut self, client: &mut Client) {
        let mut commands = Vec::new();
        match self.random.below(20) {
            0..12 => self.grammar.next(&mut self.random, &mut commands),
            12..18 => commands.push(self.grammar.words(&mut self.random, "keyspace")),
            18 => commands.push(self.script()),
            _ => {
                let [from, to] = [(); 2].map(|()| self.grammar.word(&mut self.random, "name"));
                if let Reply::Bulk(dump) = client.call(&[b"DUMP", &from]) {
                    let ttl = *self.random.pick(&["0", "0", "2", "900000"]);
                    let restore = [b"RESTORE".to_vec(), to, ttl.into(), dump];
                    commands.push([&restore[..], &[b"REPLACE".to_vec()]].concat());
                }
            }
        }
        if self.random.one_in(10) {
            commands.insert(0, vec![b"MULTI".to_vec()]);
            commands.push(vec![b"EXEC".to_vec()]);
        }
        client.call_all(&commands);
    }

    pub fn run(&mut self, client: &mut Client, steps: usize) {
        let library = format!(
            "#!lua name=bloom\nredis.register_function('adds', function(KEYS, ARGV) {SCRIPT} end)"
        );
        let load: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()];
        assert!(!client.call(&load).is_error());
        for _ in 0..steps {
            self.step(client);
        }
    }
}
