//! Additions whose answers can be asked for again: which commands are sent, and what their replies mean.
//!
//! An [`Once`] names the receipts, and an [`Addition`] is one call of the program's. A driver asks for the next command,
//! passes on its reply or refusal, and gives the addition back at its end, whatever became of it.
//!
//! A consumer has one receipt, and says the position of each call. All others get receipts from the object: one for each
//! call in flight, which later calls take again. If such a call ends without all answers, its items are *debts*: the next
//! call that has one of them asks its receipt first. So a program that calls again is told what the failed call was not.

mod debts;
mod items;

use std::collections::TryReserveError;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use valkeybloom_protocol::batch::next_command;
use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_sketches::{Forgotten, Receipt};

pub use crate::tag::receipt_prefix;
pub use items::Items;

use debts::{Debts, Line};

/// How long a receipt may be idle to be taken again: less than the server keeps it.
const LONGEST_IDLE: Duration = Duration::from_secs(3600);

/// The mark of an item whose answer no call waits for.
const NOBODY: usize = usize::MAX;

/// Whose receipts are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipts<'a> {
    /// The receipt of this consumer, which begins at a position.
    Consumer(&'a [u8], u64),
    /// Receipts of the object's own. The number is random.
    Own(u128),
    /// None: an answer is lost with its reply.
    Off,
}

/// How items are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adding {
    /// Whether a missing filter is created, with the server's parameters.
    pub creates: bool,
    /// Whether items are added without a receipt if the server takes none.
    pub may_lack: bool,
}

/// Additions to one filter.
#[derive(Debug)]
pub struct Once {
    /// A consumer's receipt, or what the names of own ones begin with.
    name: Arc<[u8]>,
    /// Where the consumer begins; `None` without a consumer.
    begin: Option<u64>,
    adding: Adding,
    is_off: bool,
    /// The number of own receipts so far.
    made: u64,
    /// Own receipts that no call uses. The last was used last.
    free: Vec<Line>,
    debts: Debts,
}

/// A call that adds items.
#[derive(Debug)]
pub struct Addition {
    name: Arc<[u8]>,
    begin: Option<u64>,
    adding: Adding,
    /// Whether items are added without receipts.
    is_off: bool,
    /// What is asked again, and then the call's own items.
    parts: Vec<Part>,
    /// The items whose answers were known.
    settled: Items,
    answers: Vec<Option<bool>>,
}

/// Items whose answers are in one receipt.
#[derive(Debug)]
struct Part {
    /// The failed command that is asked for again.
    debt: Option<u64>,
    line: Line,
    items: Arc<Items>,
    /// For each item, the index of the answer in the call, or [`NOBODY`].
    places: Vec<usize>,
    /// The answers of the first items.
    answers: Vec<bool>,
    /// The end of the items that were sent.
    sent: usize,
    fate: Fate,
}

/// What is known of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It ends at the part's line.
    Known,
    /// The items that were sent may be in it.
    Open,
    /// It is not used any more, and the items that were sent are not in it.
    Gone,
}

/// A command to send.
#[derive(Debug)]
pub struct Command<'a> {
    /// The words before the items, without the key, which is the second word.
    pub words: Vec<Vec<u8>>,
    items: &'a Items,
    range: Range<usize>,
}

impl Command<'_> {
    /// Returns the items.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.items.iter(self.range.clone())
    }
}

/// What a refusal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The receipt lacks answers before the position.
    Forgotten(Forgotten),
    /// The server does not have `ONCE`, which the program needs.
    Lacking,
    /// The server takes no receipt, and the addition goes on without one.
    Without,
    /// Anything else.
    Other,
}

/// Returns whether a server's error says that it does not have `ONCE`.
pub fn is_lacking(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("unknown argument") || text.contains("unknown command")
}

/// What to say about [`Refusal::Lacking`].
pub const LACKING: &str =
    "the server has no BF.INSERT … ONCE: load the module valkeybloom, of a version with ONCE";

impl Once {
    /// Makes an object for the filter at a key.
    pub fn new(key: &[u8], receipts: Receipts<'_>, adding: Adding) -> Self {
        let mut name = receipt_prefix(key);
        let mut begin = None;
        match receipts {
            Receipts::Consumer(consumer, from) => {
                name.extend_from_slice(consumer);
                begin = Some(from);
            }
            Receipts::Own(random) => name.extend(format!("own-{random:032x}-").bytes()),
            Receipts::Off => {}
        }
        Self {
            name: name.into(),
            begin,
            adding,
            is_off: receipts == Receipts::Off,
            made: 0,
            free: Vec::new(),
            debts: Debts::default(),
        }
    }

    /// Returns whether the answers are kept in receipts.
    pub fn has_receipts(&self) -> bool {
        !self.is_off
    }

    /// Returns whether answers of failed calls are missing.
    pub fn has_debts(&self) -> bool {
        !self.debts.failed.is_empty()
    }

    /// Returns the words of the command that reads where a consumer's receipt ends; `None` without a consumer. Its reply is
    /// passed to [`position_in`](Self::position_in).
    pub fn position_words(&self) -> Option<[Vec<u8>; 4]> {
        let name = self.begin.map(|_| self.name.to_vec())?;
        // The last byte of the head is a line feed.
        let end = (Receipt::HEAD_BYTES - 2).to_string().into_bytes();
        Some([b"GETRANGE".to_vec(), name, b"0".to_vec(), end])
    }

    /// Returns the first position without an answer, which is where the consumer begins if there is no receipt. `None` if the
    /// bytes are not a receipt's.
    pub fn position_in(&self, head: &[u8]) -> Option<u64> {
        if head.is_empty() {
            return self.begin;
        }
        Receipt::end_in(head)
    }

    /// Begins a call without items. `at` is the position of a consumer's first item.
    pub fn begin(&mut self, at: u64, now: Duration) -> Addition {
        let is_fresh = |line: &Line| now.saturating_sub(line.used) < LONGEST_IDLE;
        let free = self.free.pop().filter(is_fresh);
        if free.is_none() {
            // The others were used even earlier.
            self.free.clear();
        }
        let line = free.unwrap_or_else(|| {
            self.made += 1;
            Line {
                number: self.made,
                position: at,
                used: now,
            }
        });
        Addition {
            name: self.name.clone(),
            begin: self.begin,
            adding: self.adding,
            is_off: self.is_off,
            parts: vec![Part::new(line, None, Arc::default(), Fate::Known)],
            settled: Items::default(),
            answers: Vec::new(),
        }
    }

    /// Appends an item to a call. One that a copy of the filter claims is not new, unless a failed call added it.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn push(
        &mut self,
        to: &mut Addition,
        item: &[u8],
        is_claimed: bool,
    ) -> Result<(), TryReserveError> {
        let index = to.answers.len();
        to.answers.try_reserve(1)?;
        to.answers.push(None);
        if self.has_debts() && self.settle(to, item, index) {
            return Ok(());
        }
        if is_claimed {
            to.answers[index] = Some(false);
            return Ok(());
        }
        let Some(own) = to.parts.last_mut() else {
            return Ok(());
        };
        own.places.try_reserve(1)?;
        if let Some(items) = Arc::get_mut(&mut own.items) {
            items.push(item)?;
        }
        own.places.push(index);
        Ok(())
    }

    /// Lets a call get the answers of an item that failed calls did not get. Returns whether there are some.
    fn settle(&mut self, to: &mut Addition, item: &[u8], index: usize) -> bool {
        let debts = &mut self.debts;
        let places = debts.places.remove(item).unwrap_or_default();
        debts.count -= places.len();
        for (id, place) in &places {
            let Some(debt) = debts.failed.get_mut(id) else {
                continue;
            };
            debt.left -= 1;
            if debt.answers.is_some() {
                to.answers[index] = Some(true);
                // Without memory, nobody is told if the call fails.
                let _ = to.settled.push(item);
                debts.remove_if_paid(*id);
                continue;
            }
            let is_it = |part: &Part| part.debt == Some(*id);
            let at = to.parts.iter().position(is_it).unwrap_or_else(|| {
                debt.calls += 1;
                let part = Part::new(debt.line, Some(*id), debt.items.clone(), Fate::Open);
                to.parts.insert(0, part);
                0
            });
            to.parts[at].places[*place] = index;
        }
        !places.is_empty()
    }

    /// Ends a call. `is_told` says whether the program gets the answers that are known.
    pub fn end(&mut self, addition: Addition, is_told: bool, now: Duration) {
        self.is_off |= addition.is_off;
        if self.is_off || self.begin.is_some() {
            return;
        }
        let mut untold = if is_told {
            Items::default()
        } else {
            addition.settled
        };
        for part in addition.parts {
            let line = Line {
                used: now,
                ..part.line
            };
            let known = part.answers.len();
            match part.debt {
                Some(id) if self.debts.failed.contains_key(&id) => {
                    self.end_asking(id, &part, line, is_told);
                }
                _ => {
                    for ((item, place), is_new) in part
                        .items
                        .iter(0..known)
                        .zip(&part.places)
                        .zip(&part.answers)
                    {
                        if *is_new && *place != NOBODY && !is_told {
                            let _ = untold.push(item);
                        }
                    }
                    match part.fate {
                        Fate::Known if part.debt.is_none() => self.free.push(line),
                        Fate::Open => {
                            if let Some(items) = part.items.part(known..part.sent) {
                                self.debts.insert(line, items, None);
                            }
                        }
                        Fate::Known | Fate::Gone => {}
                    }
                }
            }
        }
        let answers = Some(vec![true; untold.len()]);
        let nowhere = Line {
            number: 0,
            position: 0,
            used: now,
        };
        self.debts.insert(nowhere, untold, answers);
    }

    /// Ends the part of a call that asked for the answers of a failed command.
    fn end_asking(&mut self, id: u64, part: &Part, line: Line, is_told: bool) {
        let debts = &mut self.debts;
        let Some(debt) = debts.failed.get_mut(&id) else {
            return;
        };
        debt.calls -= 1;
        if part.fate == Fate::Gone {
            debts.remove(id);
            return;
        }
        let is_known = part.fate == Fate::Known;
        if is_known && debt.answers.is_none() {
            debt.answers = Some(part.answers.clone());
            self.free.push(line);
        }
        // Another call may have got the answers meanwhile.
        let answers = debt.answers.clone();
        let is_new = |place| {
            answers
                .as_ref()
                .is_none_or(|answers| answers.get(place) == Some(&true))
        };
        for (place, index) in part.places.iter().enumerate() {
            if !is_new(place) {
                debts.forget(id, place);
            } else if *index != NOBODY && !(is_told && is_known) {
                debts.note(id, place);
            }
        }
        debts.remove_if_paid(id);
    }
}

impl Part {
    fn new(line: Line, debt: Option<u64>, items: Arc<Items>, fate: Fate) -> Self {
        Self {
            debt,
            line,
            places: vec![NOBODY; items.len()],
            answers: Vec::new(),
            sent: items.len(),
            items,
            fate,
        }
    }

    fn is_answered(&self) -> bool {
        self.answers.len() == self.items.len()
    }
}

impl Addition {
    /// Sets whether a missing filter is created.
    pub fn set_creates(&mut self, creates: bool) {
        self.adding.creates = creates;
    }

    /// Returns the command to send next; `None` at the end. Its key is to be put in the second place.
    pub fn command(&mut self) -> Option<Command<'_>> {
        let begin = self.begin;
        let part = self.parts.iter_mut().find(|part| !part.is_answered())?;
        let first = part.answers.len();
        let (count, _) = next_command(part.items.iter(first..part.items.len()).map(<[u8]>::len));
        // A failed command is asked for as it was sent.
        part.sent = part.sent.max(first + count);
        part.fate = Fate::Open;
        let mut words: Vec<Vec<u8>> = Vec::new();
        let mut word = |word: &[u8]| words.push(word.to_vec());
        if self.is_off && self.adding.creates {
            word(b"BF.MADD");
        } else {
            word(BF_INSERT.as_bytes());
            if !self.adding.creates {
                word(b"NOCREATE");
            }
            if !self.is_off {
                let (
                    name,
                    Line {
                        number, position, ..
                    },
                ) = (&self.name, part.line);
                let number = begin.map_or_else(|| number.to_string(), |_| String::new());
                word(b"ONCE");
                word(&[name, number.as_bytes()].concat());
                word(position.to_string().as_bytes());
                if begin == Some(position) && position > 0 {
                    word(b"BEGIN");
                }
            }
            word(b"ITEMS");
        }
        Some(Command {
            words,
            items: &part.items,
            range: first..first + count,
        })
    }

    /// Takes the answers to the first items of the command that was sent, and returns these. An error may follow.
    pub fn take(&mut self, answers: impl IntoIterator<Item = bool>) -> Vec<&[u8]> {
        let Some(part) = self.parts.iter_mut().find(|part| !part.is_answered()) else {
            return Vec::new();
        };
        let first = part.answers.len();
        let left = part.sent - first;
        for is_new in answers.into_iter().take(left) {
            if let Some(answer) = self.answers.get_mut(part.places[part.answers.len()]) {
                // Several failed calls may have had the item, which was new to one of them.
                *answer = Some(is_new || *answer == Some(true));
            }
            part.answers.push(is_new);
            part.line.position = part.line.position.saturating_add(1);
        }
        if part.answers.len() == part.sent {
            part.fate = Fate::Known;
        }
        part.items.iter(first..part.answers.len()).collect()
    }

    /// Takes a server's error. `is_element` says whether it stood in a reply, after the answers that were taken.
    pub fn refuse(&mut self, text: &str, is_element: bool) -> Refusal {
        let Some(part) = self.parts.iter_mut().find(|part| !part.is_answered()) else {
            return Refusal::Other;
        };
        if let Some(forgotten) = Forgotten::read(text) {
            part.fate = Fate::Gone;
            return Refusal::Forgotten(forgotten);
        }
        if is_element {
            part.fate = Fate::Known;
            return Refusal::Other;
        }
        // The server looks at the receipt before it makes these errors, so it had no answers for the items.
        if text.trim_start_matches("ERR ") == "not found" || text.starts_with("WRONGTYPE") {
            part.fate = Fate::Gone;
            return Refusal::Other;
        }
        let lacks_once = is_lacking(text);
        let text = text.to_ascii_lowercase();
        let is_receipt_refused = text.starts_with("noperm") || text.starts_with("crossslot");
        if self.is_off {
            Refusal::Other
        } else if self.adding.may_lack && (lacks_once || is_receipt_refused) {
            self.is_off = true;
            Refusal::Without
        } else if lacks_once {
            part.fate = Fate::Gone;
            Refusal::Lacking
        } else {
            Refusal::Other
        }
    }

    /// Returns the indices of the items that were sent last and have no answers. One that is larger than all indices stands
    /// for an item of an earlier call.
    pub fn unanswered(&self) -> &[usize] {
        let part = self.parts.iter().find(|part| !part.is_answered());
        part.map_or(&[], |part| &part.places[part.answers.len()..part.sent])
    }

    /// Returns the answers that are known, in the order of the call's items.
    pub fn answers(&self) -> Vec<Option<bool>> {
        let mut answers = self.answers.clone();
        for part in &self.parts {
            for place in &part.places[part.answers.len()..] {
                // Another failed command that had the item may yet turn out to have added it.
                if let Some(answer @ Some(false)) = answers.get_mut(*place) {
                    *answer = None;
                }
            }
        }
        answers
    }
}
