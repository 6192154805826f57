//! What a union of objects has to hold, and what it may hold.

use super::{Kind, Model, Table};

/// Returns the fingerprint that a table of fewer bits, or as many, has of an item with a fingerprint of `bits`.
fn prefix(fingerprint: u64, bits: u32, of: &Table) -> Option<u64> {
    let more = bits.checked_sub(of.step.bits)?;
    Some(fingerprint >> more)
}

/// Returns what the tables of an object hold of the item with a fingerprint of `bits`: the sum of counts, or the latest
/// period.
fn held(kind: Kind, tables: &[Table], fingerprint: u64, bits: u32) -> Option<u64> {
    let held = tables.iter().filter_map(|table| {
        let at = prefix(fingerprint, bits, table)?;
        table.entries.get(&at).copied()
    });
    held.reduce(|one, other| match kind {
        Kind::Counting => one.saturating_add(other),
        Kind::Scaled | Kind::Window { .. } => one.max(other),
    })
}

impl Model {
    /// Returns the union of these objects, if each has one table, these have fingerprints of one length, and nothing expires:
    /// then it is known to the last entry.
    fn known_union(sources: &[&Self]) -> Option<Self> {
        let mut union = sources[0].clone();
        let is_window = union.window().is_some();
        if is_window || sources.iter().any(|source| source.tables.len() > 1) {
            return None;
        }
        for source in &sources[1..] {
            if source.tables[0].step.bits != union.tables[0].step.bits {
                return None;
            }
            for (fingerprint, held) in &source.tables[0].entries {
                let ours = union.tables[0].entries.entry(*fingerprint).or_insert(*held);
                *ours = (*ours).max(*held);
            }
        }
        let table = &mut union.tables[0];
        if table.entries != sources[0].tables[0].entries {
            table.step.most = table.step.most.max(table.entries.len() as u64);
        }
        Some(union)
    }

    /// Checks that an object that BF.MERGE made of others, the destination first, holds what they hold and nothing else.
    ///
    /// # Panics
    /// It does not.
    pub fn check_union(&self, sources: &[&Self]) {
        let kind = self.kind;
        let mut oldest = 0;
        if let Some((_, periods, _)) = self.window() {
            let reached = sources.iter().map(|source| source.reached(periods)).max();
            oldest = reached.expect("sources") + 1 - periods;
        }
        if let Some(union) = Self::known_union(sources) {
            assert_eq!(self.tables, union.tables, "the union is known");
            return;
        }
        for source in sources {
            for table in &source.tables {
                for (fingerprint, least) in &table.entries {
                    let found = held(kind, &self.tables, *fingerprint, table.step.bits);
                    assert!(
                        *least < oldest && kind != Kind::Counting || found >= Some(*least),
                        "{fingerprint:#x} of {:?} is there with {found:?}, not {least}",
                        table.step
                    );
                }
            }
        }
        for table in &self.tables {
            let mut left = table.entries.clone();
            let theirs = sources.iter().flat_map(|source| &source.tables);
            for theirs in theirs {
                for (fingerprint, held) in &theirs.entries {
                    let Some(at) = prefix(*fingerprint, theirs.step.bits, table) else {
                        continue;
                    };
                    let Some(unexplained) = left.get_mut(&at) else {
                        continue;
                    };
                    if kind == Kind::Counting {
                        *unexplained = unexplained.saturating_sub(*held);
                        if *unexplained == 0 {
                            left.remove(&at);
                        }
                    } else if *unexplained == *held {
                        left.remove(&at);
                    }
                }
            }
            let step = table.step;
            assert!(left.is_empty(), "no source explains {left:x?} of {step:?}");
        }
    }
}
