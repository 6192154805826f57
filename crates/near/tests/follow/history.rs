//! What a server would have answered when: the oracle of answers from a copy.

use std::time::Duration;

use super::server::Server;

/// Some items, and when the server last had each answer for each.
pub struct History {
    items: Vec<Vec<u8>>,
    /// The current answers.
    answers: Vec<bool>,
    /// When the server last would have denied and claimed an item, if it would not now.
    last: Vec<[Option<Duration>; 2]>,
    /// When the key last got another filter.
    pub replaced: Option<Duration>,
}

impl History {
    pub fn new(items: Vec<Vec<u8>>, server: &Server) -> Self {
        let answers = items.iter().map(|item| server.contains(item)).collect();
        let last = vec![[None; 2]; items.len()];
        Self {
            items,
            answers,
            last,
            replaced: None,
        }
    }

    pub fn item(&self, index: usize) -> &[u8] {
        &self.items[index]
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Notes what changed at a time.
    pub fn note(&mut self, server: &Server, now: Duration) {
        for ((item, answer), last) in self.items.iter().zip(&mut self.answers).zip(&mut self.last) {
            let current = server.contains(item);
            if current != *answer {
                last[usize::from(*answer)] = Some(now);
                *answer = current;
            }
        }
    }

    /// Returns whether the server would have given an answer at some moment of the last `age`.
    pub fn gave(&self, index: usize, answer: bool, now: Duration, age: Duration) -> bool {
        let last = self.last[index][usize::from(answer)];
        self.answers[index] == answer || last.is_some_and(|last| last + age > now)
    }
}
