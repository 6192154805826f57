//! A call that adds items: the commands to send, and what their replies mean.

use std::collections::TryReserveError;
use std::ops::Range;
use std::sync::Arc;

use valkeybloom_protocol::batch::next_command;
use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_sketches::Forgotten;

use super::debts::Cursor;
use super::items::Items;

/// The mark of an item whose answer no call waits for.
const NOBODY: usize = usize::MAX;

/// How items are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adding {
    /// Whether a missing filter is created, with the server's parameters.
    pub creates: bool,
    /// Whether items are added without a receipt if the server takes none.
    pub may_lack: bool,
}

/// The form of the commands of a filter.
#[derive(Clone, Debug)]
pub struct Form {
    /// A consumer's receipt, or what the names of own ones begin with.
    pub name: Arc<[u8]>,
    /// Where the consumer begins; `None` without a consumer.
    pub begin: Option<u64>,
    pub adding: Adding,
    /// Whether items are added without receipts.
    pub is_off: bool,
}

impl Form {
    /// Returns the words before the items, without the key.
    fn words(&self, cursor: Cursor) -> Vec<Vec<u8>> {
        if self.is_off && self.adding.creates {
            return vec![b"BF.MADD".to_vec()];
        }
        let mut words = vec![BF_INSERT.as_bytes().to_vec()];
        if !self.adding.creates {
            words.push(b"NOCREATE".to_vec());
        }
        if !self.is_off {
            let mut name = self.name.to_vec();
            if self.begin.is_none() {
                name.extend(cursor.receipt.to_string().bytes());
            }
            let position = cursor.position.to_string().into_bytes();
            words.extend([b"ONCE".to_vec(), name, position]);
            if cursor.position > 0 && self.begin == Some(cursor.position) {
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

/// What is known of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It ends at the part's cursor.
    Known,
    /// The items that were sent may be in it.
    Open,
    /// It is not used any more, and the items that were sent are not in it.
    Gone,
}

/// Items whose answers are in one receipt.
#[derive(Debug)]
pub struct Part {
    /// The failed command that is sent again; `None` for the call's own items.
    pub debt: Option<u64>,
    pub cursor: Cursor,
    pub items: Arc<Items>,
    /// For each item, the index of the answer in the call, or [`NOBODY`].
    places: Vec<usize>,
    /// The answers of the first items.
    pub answers: Vec<bool>,
    /// The end of the items that were sent.
    pub sent: usize,
    pub fate: Fate,
}

impl Part {
    /// Creates the part of a call's own items, without any.
    fn own(cursor: Cursor) -> Self {
        Self {
            debt: None,
            cursor,
            items: Arc::default(),
            places: Vec::new(),
            answers: Vec::new(),
            sent: 0,
            fate: Fate::Known,
        }
    }

    /// Creates the part that sends a failed command again.
    fn repeating(id: u64, cursor: Cursor, items: Arc<Items>) -> Self {
        Self {
            debt: Some(id),
            places: vec![NOBODY; items.len()],
            sent: items.len(),
            items,
            fate: Fate::Open,
            ..Self::own(cursor)
        }
    }

    fn is_answered(&self) -> bool {
        self.answers.len() == self.items.len()
    }

    /// Returns the places of the items whose answers the call waits for.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        let places = self.places.iter().enumerate();
        let awaited = places.filter(|(_, index)| **index != NOBODY);
        awaited.map(|(place, _)| place)
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
    /// The failed commands that are sent again, and then the call's own items.
    pub(super) parts: Vec<Part>,
    /// The new items whose answers were known.
    pub(super) settled: Items,
    answers: Vec<Option<bool>>,
}

impl Addition {
    /// Creates a call without items. The answers of its own items follow a cursor.
    pub(super) fn new(form: Form, cursor: Cursor) -> Self {
        Self {
            form,
            parts: vec![Part::own(cursor)],
            settled: Items::default(),
            answers: Vec::new(),
        }
    }

    /// Appends an item whose answer is not known yet, and returns its index.
    pub(super) fn push(&mut self) -> Result<usize, TryReserveError> {
        self.answers.try_reserve(1)?;
        self.answers.push(None);
        Ok(self.answers.len() - 1)
    }

    /// Sends an item, unless a copy of the filter claims it.
    pub(super) fn send(
        &mut self,
        index: usize,
        item: &[u8],
        is_claimed: bool,
    ) -> Result<(), TryReserveError> {
        if is_claimed {
            self.answers[index] = Some(false);
        } else if let Some(own) = self.parts.last_mut() {
            own.places.try_reserve(1)?;
            if let Some(items) = Arc::get_mut(&mut own.items) {
                items.push(item)?;
            }
            own.places.push(index);
        }
        Ok(())
    }

    /// Notes that an item was new to a failed call.
    pub(super) fn settle(&mut self, index: usize, item: &[u8]) {
        self.answers[index] = Some(true);
        // Without memory, the answer is lost if this call fails, too.
        let _ = self.settled.push(item);
    }

    /// Has a failed command sent again, for the answer to the item at a place. `begin` returns where the answers are, and
    /// the command's items; it is called once for each command.
    pub(super) fn repeat(
        &mut self,
        id: u64,
        place: usize,
        index: usize,
        begin: impl FnOnce() -> Option<(Cursor, Arc<Items>)>,
    ) {
        let known = self.parts.iter().position(|part| part.debt == Some(id));
        let at = known.or_else(|| {
            let (cursor, items) = begin()?;
            self.parts.insert(0, Part::repeating(id, cursor, items));
            Some(0)
        });
        if let Some(at) = at {
            self.parts[at].places[place] = index;
        }
    }

    /// Sets whether a missing filter is created.
    pub fn set_creates(&mut self, creates: bool) {
        self.form.adding.creates = creates;
    }

    /// Returns whether the commands have receipts: sent again, such a command gets the same answers.
    pub fn has_receipts(&self) -> bool {
        !self.form.is_off
    }

    /// Returns the command to send next; `None` at the end. Its key is to be put in the second place.
    pub fn command(&mut self) -> Option<Command<'_>> {
        let part = unanswered_of(&mut self.parts)?;
        let first = part.answers.len();
        let (count, _) = next_command(part.items.iter(first..part.items.len()).map(<[u8]>::len));
        // A failed command is sent again as it was.
        part.sent = part.sent.max(first + count);
        part.fate = Fate::Open;
        Some(Command {
            words: self.form.words(part.cursor),
            items: &part.items,
            range: first..first + count,
        })
    }

    /// Takes the answers to the first items of the command that was sent, and returns these. An error may follow.
    pub fn take(&mut self, answers: impl IntoIterator<Item = bool>) -> Vec<&[u8]> {
        let Some(part) = unanswered_of(&mut self.parts) else {
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
            part.cursor.position = part.cursor.position.saturating_add(1);
        }
        if part.answers.len() == part.sent {
            part.fate = Fate::Known;
        }
        part.items.iter(first..part.answers.len()).collect()
    }

    /// Takes a server's error. `is_element` says whether it stood in a reply, after the answers that were taken.
    pub fn refuse(&mut self, text: &str, is_element: bool) -> Refusal {
        let Some(part) = unanswered_of(&mut self.parts) else {
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
        if self.form.is_off {
            Refusal::Other
        } else if self.form.adding.may_lack && (lacks_once || is_receipt_refused) {
            self.form.is_off = true;
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

/// Returns the part whose items are sent next.
fn unanswered_of(parts: &mut [Part]) -> Option<&mut Part> {
    parts.iter_mut().find(|part| !part.is_answered())
}
