//! A call that adds items: the commands to send, and what their replies mean.
//!
//! A call has a [`Part`] for each failed command that it sends again, and one for its own items. The part's [`Fate`] says
//! what [`Once::end`](super::Once::end) does with its receipt and its items:
//!
//! | event | fate | at the end, own items | at the end, a failed command |
//! |---|---|---|---|
//! | nothing is sent yet | `Known` | the receipt is free | |
//! | a command is sent | `Open` | those without an answer become a debt | it stays a debt |
//! | all answers came, or an item was refused | `Known` | the receipt is free | the debt has its answers, and the receipt is free |
//! | the receipt, the filter or `ONCE` is missing | `Abandoned` | the receipt is not used again | its answers are gone |
//! | any other error, or no reply | stays `Open` | as above | as above |

use std::collections::TryReserveError;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use valkeybloom_protocol::batch::next_command;
use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_sketches::Forgotten;

use super::debts::{Cursor, Place, Repeat};
use super::items::Items;

/// How items are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adding {
    /// Whether a missing filter is created, with the server's parameters.
    pub creates: bool,
    /// Whether items are added without receipts if the server refuses these.
    pub may_skip_receipts: bool,
}

/// The form of the commands of a filter.
#[derive(Clone, Debug)]
pub struct Form {
    /// A consumer's receipt, or what the names of own ones begin with.
    pub name: Arc<[u8]>,
    /// Where the consumer begins; `None` without a consumer.
    pub begin: Option<u64>,
    pub adding: Adding,
    pub without_receipts: bool,
}

impl Form {
    /// Returns the words before a part's items, without the key.
    fn words(&self, part: &Part) -> Vec<Vec<u8>> {
        if self.without_receipts && self.adding.creates {
            return vec![b"BF.MADD".to_vec()];
        }
        let mut words = vec![BF_INSERT.as_bytes().to_vec()];
        if !self.adding.creates {
            words.push(b"NOCREATE".to_vec());
        }
        if !self.without_receipts {
            let Cursor { receipt, position } = part.cursor;
            let mut name = self.name.to_vec();
            if self.begin.is_none() {
                name.extend(receipt.to_string().bytes());
            }
            // New items begin an own receipt anew if it has expired since its last use. A failed command must not: its
            // answers would be lost silently, as they are at position 0, where a receipt begins in any case.
            let is_new = part.repeat.is_none();
            let begins = self.begin.map_or(is_new, |begin| begin == position);
            words.extend([b"ONCE".to_vec(), name, position.to_string().into_bytes()]);
            if position > 0 && begins {
                words.push(b"BEGIN".to_vec());
            }
        }
        words.push(b"ITEMS".to_vec());
        words
    }
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

/// What is known of a part's receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It ends at the part's cursor.
    Known,
    /// The items that were sent may be in it.
    Open,
    /// It is not used any more, and has no answers that matter.
    Abandoned,
}

/// Items whose answers are in one receipt.
#[derive(Debug)]
pub struct Part {
    /// The failed command that is sent again; `None` for the call's own items.
    pub repeat: Option<Repeat>,
    pub cursor: Cursor,
    pub items: Arc<Items>,
    /// For each item, the index of its answer in the call; `None` if only an earlier call had the item.
    indices: Vec<Option<usize>>,
    /// The answers of the first items.
    pub answers: Vec<bool>,
    /// The end of the items that were sent.
    sent: usize,
    pub fate: Fate,
}

impl Part {
    /// Creates the part of a call's own items, without any.
    fn own(cursor: Cursor) -> Self {
        Self {
            repeat: None,
            cursor,
            items: Arc::default(),
            indices: Vec::new(),
            answers: Vec::new(),
            sent: 0,
            fate: Fate::Known,
        }
    }

    /// Creates the part that sends a failed command again.
    fn repeating(repeat: Repeat) -> Self {
        let count = repeat.items.len();
        Self {
            items: repeat.items.clone(),
            indices: vec![None; count],
            sent: count,
            fate: Fate::Open,
            cursor: repeat.cursor,
            repeat: Some(repeat),
            answers: Vec::new(),
        }
    }

    fn is_answered(&self) -> bool {
        self.answers.len() == self.items.len()
    }

    /// Returns the places of the items that were sent and have no answers.
    pub fn unanswered(&self) -> Range<usize> {
        self.answers.len()..self.sent
    }

    /// Returns the places of the items whose answers the call waits for.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        (0..self.indices.len()).filter(|place| self.indices[*place].is_some())
    }

    /// Returns the new items whose answers the call waited for.
    pub fn new_items(&self) -> impl Iterator<Item = &[u8]> {
        let is_new = |place: &usize| self.answers.get(*place) == Some(&true);
        let new = self.awaited().filter(is_new);
        new.map(|place| self.items.get(place))
    }
}

/// A call that adds items.
#[derive(Debug)]
pub struct Addition {
    pub(super) form: Form,
    /// The failed commands, which are sent first.
    pub(super) repeated: Vec<Part>,
    pub(super) own: Part,
    /// The new items whose answers were known.
    pub(super) settled: Items,
    /// Whether the server has answered commands without receipts, so that later calls begin so.
    pub(super) is_answered_without_receipts: bool,
    answers: Vec<Option<bool>>,
}

impl Addition {
    /// Creates a call without items. The answers of its own items follow a cursor.
    pub(super) fn new(form: Form, cursor: Cursor) -> Self {
        Self {
            form,
            repeated: Vec::new(),
            own: Part::own(cursor),
            settled: Items::default(),
            is_answered_without_receipts: false,
            answers: Vec::new(),
        }
    }

    /// Appends an item whose answer is not known yet, and returns its index.
    pub(super) fn push(&mut self) -> Result<usize, TryReserveError> {
        self.answers.try_reserve(1)?;
        self.answers.push(None);
        Ok(self.answers.len() - 1)
    }

    /// Appends an item to the call's own, unless a copy of the filter claims it.
    pub(super) fn push_own(
        &mut self,
        index: usize,
        item: &[u8],
        is_claimed: bool,
    ) -> Result<(), TryReserveError> {
        if is_claimed {
            self.answers[index] = Some(false);
            return Ok(());
        }
        self.own.indices.try_reserve(1)?;
        // Nobody shares the items of a call before it ends.
        Arc::make_mut(&mut self.own.items).push(item)?;
        self.own.indices.push(Some(index));
        Ok(())
    }

    /// Notes that an item was new to a failed call.
    pub(super) fn settle(&mut self, index: usize, item: &[u8]) {
        self.answers[index] = Some(true);
        // Without memory, the answer is lost if this call fails, too.
        let _ = self.settled.push(item);
    }

    /// Has a failed command sent again, for the answer to the item at a place. `begin` is called once for each command.
    pub(super) fn repeat(
        &mut self,
        place: Place,
        index: usize,
        begin: impl FnOnce() -> Option<Repeat>,
    ) {
        let is_of = |part: &Part| part.repeat.as_ref().map(Repeat::id) == Some(place.id);
        let at = self.repeated.iter().position(is_of).or_else(|| {
            self.repeated.push(Part::repeating(begin()?));
            Some(self.repeated.len() - 1)
        });
        if let Some(at) = at {
            self.repeated[at].indices[place.index] = Some(index);
        }
    }

    /// Sets whether a missing filter is created.
    pub fn set_creates(&mut self, creates: bool) {
        self.form.adding.creates = creates;
    }

    /// Returns whether the commands have receipts: sent again, such a command gets the same answers.
    pub fn has_receipts(&self) -> bool {
        !self.form.without_receipts
    }

    /// Returns the command to send next; `None` at the end. Its key is to be put in the second place.
    pub fn command(&mut self) -> Option<Command<'_>> {
        let part = next_part(&mut self.repeated, &mut self.own)?;
        let first = part.answers.len();
        let (count, _) = next_command(part.items.iter(first..part.items.len()).map(<[u8]>::len));
        // A failed command is sent again as it was.
        part.sent = part.sent.max(first + count);
        part.fate = Fate::Open;
        Some(Command {
            words: self.form.words(part),
            items: &part.items,
            range: first..first + count,
        })
    }

    /// Takes the answers to the first items of the command that was sent, and returns these. An error may follow.
    pub fn take(&mut self, answers: impl IntoIterator<Item = bool>) -> Vec<&[u8]> {
        let Some(part) = next_part(&mut self.repeated, &mut self.own) else {
            return Vec::new();
        };
        self.is_answered_without_receipts |= self.form.without_receipts;
        let unanswered = part.unanswered();
        for (place, is_new) in unanswered.clone().zip(answers) {
            if let Some(index) = part.indices[place] {
                // Several failed calls may have had the item, which was new to one of them.
                let answer = &mut self.answers[index];
                *answer = Some(is_new || *answer == Some(true));
            }
            part.answers.push(is_new);
            part.cursor = part.cursor.after(1);
        }
        if part.unanswered().is_empty() {
            part.fate = Fate::Known;
        }
        part.items
            .iter(unanswered.start..part.answers.len())
            .collect()
    }

    /// Takes the refusal of an item, which stood in a reply after the answers that were taken.
    pub fn refuse_item(&mut self) {
        if let Some(part) = next_part(&mut self.repeated, &mut self.own) {
            part.fate = Fate::Known;
        }
    }

    /// Takes a server's error, which came in place of a reply.
    pub fn refuse(&mut self, text: &str) -> Refusal {
        let Some(part) = next_part(&mut self.repeated, &mut self.own) else {
            return Refusal::Other;
        };
        if let Some(forgotten) = Forgotten::read(text) {
            part.fate = Fate::Abandoned;
            return Refusal::Forgotten(forgotten);
        }
        // The filter or the receipt is gone, and with it the items of a failed command, or the answers to them.
        if text.trim_start_matches("ERR ") == "not found" || text.starts_with("WRONGTYPE") {
            part.fate = Fate::Abandoned;
            return Refusal::Other;
        }
        let lacks_once = is_lacking(text);
        let text = text.to_ascii_lowercase();
        let is_receipt_refused = text.starts_with("noperm") || text.starts_with("crossslot");
        if self.form.without_receipts {
            Refusal::Other
        } else if self.form.adding.may_skip_receipts && (lacks_once || is_receipt_refused) {
            self.form.without_receipts = true;
            Refusal::Without
        } else if lacks_once {
            part.fate = Fate::Abandoned;
            Refusal::Lacking
        } else {
            Refusal::Other
        }
    }

    /// Returns the indices of the items without an answer that the last error is about: the refused item, or else those of
    /// the command. If only items of earlier calls failed, it is about all items without an answer.
    pub fn failed(&self) -> Vec<usize> {
        let mut parts = self.repeated.iter().chain([&self.own]);
        let Some(part) = parts.find(|part| !part.is_answered()) else {
            return Vec::new();
        };
        let failed = match &part.indices[part.unanswered()] {
            [refused @ Some(_), ..] if part.fate == Fate::Known => slice::from_ref(refused),
            all => all,
        };
        let answers = self.answers();
        let is_open = |index: &usize| answers[*index].is_none();
        let failed: Vec<usize> = failed.iter().copied().flatten().filter(is_open).collect();
        if failed.is_empty() {
            return (0..answers.len()).filter(is_open).collect();
        }
        failed
    }

    /// Returns the answers that are known, in the order of the call's items.
    pub fn answers(&self) -> Vec<Option<bool>> {
        let mut answers = self.answers.clone();
        // Another failed command that had the item may yet turn out to have added it.
        for part in &self.repeated {
            for index in part.indices[part.answers.len()..].iter().flatten() {
                if answers[*index] == Some(false) {
                    answers[*index] = None;
                }
            }
        }
        answers
    }
}

/// Returns the part whose items are sent next.
fn next_part<'p>(repeated: &'p mut [Part], own: &'p mut Part) -> Option<&'p mut Part> {
    let mut parts = repeated.iter_mut().chain([own]);
    parts.find(|part| !part.is_answered())
}
