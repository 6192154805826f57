//! Unions of counters.
//!
//! Of two counts of an item the larger stays. An object may have an item in any of its tables, so two objects are aligned
//! first: if a shorter table of either object has the prefix of an entry, the entry moves to that table, and its count is
//! added there. Then both objects have an item in the same table, and each table takes the larger counts. In a union no table
//! claims what another one holds, and merging again changes nothing.

use std::mem;

use crate::bloom::law::Limits;
use crate::machine::memory;
use crate::table::{Payload, Refused, Table};

use super::merge::{MergeError, NO_MEMORY};
use super::table_union::refused;
use super::tables::Tables;

/// The tables of two objects, of the same bits.
type Sides<'t> = [Vec<&'t mut Table>; 2];

impl Tables {
    /// Returns the union of counters with others, or `None` if this object already equals it.
    pub(super) fn union_of_counts(
        &self,
        others: &[&Self],
        limits: Limits,
    ) -> Result<Option<Self>, MergeError> {
        let mut union = self.try_clone().ok_or(NO_MEMORY)?;
        union.free_unused();
        let mut changed = false;
        for other in others {
            let shortest = other.parts_in_use().filter(|part| !part.is_empty());
            let Some(shortest) = shortest.map(|part| part.step.bits).min() else {
                continue;
            };
            changed |= union.shorten_to(shortest)?;
            let mut theirs = union.laid_out(other).map_err(refused)?;
            let ours = union.parts.iter_mut().map(|part| &mut part.table);
            let mut sides = [ours.collect(), theirs.iter_mut().collect()];
            changed |= align(&mut sides).map_err(refused)?;
            let [ours, theirs] = sides;
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                let raise = |fingerprint, count| {
                    changed |= ours.raise(fingerprint, count)?;
                    Ok(())
                };
                theirs.each_within(0..=u64::MAX, raise).map_err(refused)?;
            }
        }
        if !changed {
            return Ok(None);
        }
        union.united(limits).map(Some)
    }

    /// Returns another object's counts in tables that have as many bits as those of this one. None of the other's is shorter
    /// than all of these.
    fn laid_out(&self, other: &Self) -> Result<Vec<Table>, Refused> {
        let parts = self.parts();
        let empty = |bits: u32| Table::new(bits, Payload::Count);
        let tables = memory::collected(parts.iter().map(|part| empty(part.step.bits)));
        let mut tables = tables.ok_or(Refused::OutOfMemory)?;
        for part in other.parts_in_use() {
            let Some(target) = self.longest_within(part.step.bits) else {
                continue;
            };
            let (bits, table) = (parts[target].step.bits, &mut tables[target]);
            if bits == part.step.bits && table.fingerprints() == 0 {
                *table = part.table.try_clone().ok_or(Refused::OutOfMemory)?;
            } else {
                part.table
                    .each_prefix(bits, |prefix, count| add(table, prefix, count))?;
            }
        }
        Ok(tables)
    }
}

/// Adds to the count of a fingerprint.
fn add(table: &mut Table, fingerprint: u64, count: u64) -> Result<(), Refused> {
    let held = table.count_of(fingerprint);
    table.raise(fingerprint, held.saturating_add(count))?;
    Ok(())
}

/// Moves each entry to the shortest table that has its prefix on either side, if there is one. Returns whether the first
/// side changed.
fn align(sides: &mut Sides<'_>) -> Result<bool, Refused> {
    let bits: Vec<u32> = sides[0].iter().map(|table| table.bits()).collect();
    let mut order: Vec<usize> = (0..bits.len()).collect();
    order.sort_by_key(|index| bits[*index]);
    let mut changed = false;
    for place in 1..order.len() {
        let (index, shorter) = (order[place], &order[..place]);
        let claimant = |sides: &Sides<'_>, fingerprint: u64| {
            shorter.iter().find_map(|shorter| {
                let prefix = fingerprint >> (bits[index] - bits[*shorter]);
                let claims = |side: &Vec<&mut Table>| side[*shorter].contains(prefix, 0);
                sides.iter().any(claims).then_some((*shorter, prefix))
            })
        };
        for side in 0..sides.len() {
            let table = &sides[side][index];
            let mut moved = 0;
            table.each_within(0..=u64::MAX, |fingerprint, _| {
                moved += u64::from(claimant(sides, fingerprint).is_some());
                Ok(())
            })?;
            if moved == 0 {
                continue;
            }
            let left = table.fingerprints() - moved;
            let left = Table::filled(bits[index], Payload::Count, left, 0, |filling| {
                table.each_within(0..=u64::MAX, |fingerprint, count| {
                    match claimant(sides, fingerprint) {
                        Some(_) => Ok(()),
                        None => filling.push(fingerprint, count),
                    }
                })
            })?;
            let before = mem::replace(sides[side][index], left);
            before.each_within(0..=u64::MAX, |fingerprint, count| {
                match claimant(sides, fingerprint) {
                    Some((shorter, prefix)) => add(sides[side][shorter], prefix, count),
                    None => Ok(()),
                }
            })?;
            changed |= side == 0;
        }
    }
    Ok(changed)
}
