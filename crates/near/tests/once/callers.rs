//! Several callers that add the same items at the same time.

use std::collections::HashMap;

use valkeybloom_near::once::{Addition, Once, Refusal};
use valkeybloom_testing::support::Rng;

use super::{Sent, Server, next, own};

/// A call, with its items.
type Call = (Addition, Vec<Vec<u8>>);

/// Callers that use one receipt.
struct Callers {
    rng: Rng,
    once: Once,
    server: Server,
    /// How many callers learned that an item is new.
    told: HashMap<Vec<u8>, usize>,
    /// The items of failed calls whose answers are not known.
    failed: Vec<Vec<u8>>,
}

impl Callers {
    /// Begins a call with new items and failed ones.
    fn begin(&mut self, new: usize) -> Call {
        let new = (0..new).map(|_| self.rng.below(500).to_string().into_bytes());
        let mut items: Vec<Vec<u8>> = new.collect();
        for _ in 0..self.rng.below(4).min(self.failed.len()) {
            let which = self.rng.below(self.failed.len());
            items.push(self.failed.swap_remove(which));
        }
        let mut addition = self.once.begin(0);
        for item in &items {
            // A copy of the set may have it or not.
            let is_claimed = self.server.items.contains(item) && self.rng.below(2) == 0;
            (self.once.push(&mut addition, item, is_claimed)).unwrap();
        }
        (addition, items)
    }

    /// Sends a command of a call, once or twice, and takes the reply. Returns false if one of them is lost.
    fn send(&mut self, addition: &mut Addition, (words, items): Sent, loses: bool) -> bool {
        let is_lost = loses && self.rng.below(3) == 0;
        if is_lost && self.rng.below(2) != 0 {
            return false;
        }
        let reply = self.server.reply(&words, &items);
        if self.rng.below(4) == 0 {
            assert_eq!(self.server.reply(&words, &items), reply);
        }
        if !is_lost {
            addition.take(reply.0);
        }
        !is_lost
    }

    /// Ends a call, whose answers the program gets if it `tells`.
    fn end(&mut self, (addition, items): Call, tells: bool) {
        for (item, answer) in items.into_iter().zip(addition.answers()) {
            match answer.filter(|_| tells) {
                Some(answer) => *self.told.entry(item).or_default() += usize::from(answer),
                None => self.failed.push(item),
            }
        }
        self.once.end(addition, tells);
    }
}

/// Sixteen callers add items in batches. Commands and replies get lost, clients send commands again, no receipt
/// vanishes. A caller whose call failed calls again, with any of its items among others. It gets the answers that are known,
/// or none.
#[test]
fn each_item_is_new_to_one_caller() {
    const CALLERS: usize = 16;
    for seed in 0..400 {
        let mut callers = Callers {
            rng: Rng::new(seed),
            once: own(),
            server: Server::default(),
            told: HashMap::new(),
            failed: Vec::new(),
        };
        let mut open: Vec<Option<Call>> = (0..CALLERS).map(|_| None).collect();
        for step in 1.. {
            let ends = step > 1000;
            let caller = callers.rng.below(CALLERS);
            let Some((mut addition, items)) = open[caller].take() else {
                if !ends || !callers.failed.is_empty() {
                    let new = if ends { 0 } else { callers.rng.below(5) };
                    open[caller] = Some(callers.begin(new));
                } else if open.iter().all(Option::is_none) {
                    break;
                }
                continue;
            };
            let Some(sent) = next(&mut addition) else {
                assert!(!addition.answers().contains(&None));
                callers.end((addition, items), true);
                continue;
            };
            if callers.send(&mut addition, sent, !ends) {
                open[caller] = Some((addition, items));
                continue;
            }
            if callers.rng.below(2) == 0 {
                let refusal = addition.refuse("READONLY You can't write");
                assert_eq!(refusal, Refusal::Other);
            }
            callers.end((addition, items), seed % 2 == 0);
        }
        assert_eq!(callers.told.len(), callers.server.items.len());
        let wrong: Vec<_> = (callers.told.iter().filter(|(_, times)| **times != 1)).collect();
        assert_eq!(wrong, [], "seed {seed}");
        assert!(seed % 2 == 0 || !callers.once.has_debts(), "seed {seed}");
    }
}
