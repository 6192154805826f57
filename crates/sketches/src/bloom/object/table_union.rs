//! Unions of objects of tables.
//!
//! A prefix of a fingerprint is a fingerprint, so the tables of the first object take the fingerprints of all others: each goes
//! to the longest table that does not have more bits. The union is made in one pass over all of them in order, in which a
//! fingerprint comes before those that it is a prefix of.
//!
//! - Of two periods the later stays. A fingerprint that a shorter one claims for as long is left out.
//! - Counts of fingerprints that a shorter one claims are added to those of that one, for each object; of the objects' counts
//!   the largest stays. So no table of a union claims what another one holds.
//!
//! So merging again changes nothing.

use crate::bloom::law::{Limits, TableStep};
use crate::table::{Filling, Merge, Merged, Payload, Period, Refused, Table};

use super::claims::{Claim, Claims, Prefix, Sums};
use super::clock::Clock;
use super::merge::{MergeError, NO_MEMORY, TOO_LARGE, reserved};
use super::part::{Part, refusal};
use super::tables::Tables;

/// The entries from which the number of all is estimated; half as many at least.
const SAMPLE: u64 = 1 << 16;
/// A sample is one of at most this many parts.
const SAMPLE_PARTS: u64 = 16;

/// Turns the numbers of an object's periods into those of the union's.
#[derive(Clone, Copy, Debug, Default)]
struct Shift {
    add: u64,
    subtract: u64,
}

impl Shift {
    const fn of(self, period: u64) -> u64 {
        (period + self.add).saturating_sub(self.subtract)
    }
}

/// The periods of a union; zeros without a window.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// The [lead](Clock::lead) by which the first object is set back.
    lead: u64,
    /// The period before the newest of all objects.
    current: Period,
    /// The first period that the union has.
    oldest: Period,
    /// The first period that counts as a change.
    changing: Period,
}

/// A table of an object in a union.
struct Member<'t> {
    /// The number of the object.
    object: usize,
    part: &'t Part,
    shift: Shift,
    /// The number of the table of the union to which its fingerprints go, and the bits that they have there.
    target: usize,
    bits: u32,
}

impl<'t> Member<'t> {
    /// Chooses the target of a table among the tables of the union.
    fn new(object: usize, part: &'t Part, shift: Shift, steps: &[TableStep]) -> Self {
        let is_own = |step: &TableStep| object == 0 && step.number == part.step.number;
        // The first object's own tables stay apart.
        let own = steps.iter().position(is_own);
        let target = own.unwrap_or_else(|| longest_within(steps, part.step.bits));
        Self {
            object,
            part,
            shift,
            target,
            bits: steps[target].bits,
        }
    }
}

impl Tables {
    /// Returns the union with others, or `None` if this object already equals it. With `now_ms`, objects whose periods are
    /// ahead of the clock are set back first. Items expired at `now_ms` are no reason to report a change. Items that had
    /// expired when the newest of the objects was last written are left out.
    pub fn union(
        &self,
        others: &[&Self],
        now_ms: Option<u64>,
        limits: Limits,
    ) -> Result<Option<Self>, MergeError> {
        let mut shifts = reserved(1 + others.len())?;
        let span = if let Some(clock) = self.clock() {
            self.span(others, clock, now_ms, &mut shifts)
        } else {
            shifts.resize(1 + others.len(), Shift::default());
            Span::default()
        };
        let objects = [self].into_iter().chain(others.iter().copied());
        let union = Union::of(objects.zip(shifts.iter().copied()), self, span)?;
        let Some(sizes) = union.sizes()? else {
            return Ok(None);
        };
        let parts = union.fill(&sizes, limits)?;
        self.united(parts, span, limits).map(Some)
    }

    /// Returns the periods of a union, and appends the shift of each object.
    fn span(
        &self,
        others: &[&Self],
        clock: Clock,
        now_ms: Option<u64>,
        shifts: &mut Vec<Shift>,
    ) -> Span {
        let lead = |tables: &Self| now_ms.map_or(0, |now_ms| tables.lead(now_ms));
        let ahead = |tables: &Self| tables.ahead.saturating_add(lead(tables));
        let (own_lead, mut current) = (lead(self), self.reached(clock));
        shifts.push(Shift::default());
        for other in others {
            let shift = Shift {
                add: ahead(self),
                subtract: ahead(other),
            };
            current = current.max(Period(shift.of(other.reached(clock).0)));
            shifts.push(shift);
        }
        let first = clock.oldest(current);
        let expired = now_ms.map(|now_ms| clock.period_at(now_ms).0 + own_lead);
        let expired = expired.map(|current| clock.oldest(Period(current)));
        Span {
            lead: own_lead,
            current,
            oldest: first,
            changing: expired.map_or(first, |expired| expired.max(first)),
        }
    }

    /// Returns the object of these tables, which may be fuller than they were made for. So it requests the rate that they
    /// keep, with those that may follow.
    fn united(&self, mut parts: Vec<Part>, span: Span, limits: Limits) -> Result<Self, MergeError> {
        for part in &mut parts {
            part.step.most = part.step.most.max(part.table.fingerprints());
        }
        let mut union = self.with_parts(parts);
        union.set_back(span.lead, span.oldest);
        union
            .raise_rate_to_claimed()
            .map_err(|_| MergeError::Rates)?;
        let is_within = |part: &Part| part.table.memory_bytes() <= limits.filter_bytes;
        if union.memory_bytes() > limits.object_bytes || !union.parts().iter().all(is_within) {
            return Err(TOO_LARGE);
        }
        Ok(union)
    }
}

/// Gives the shortest table at most `least` bits. Returns whether it had more.
fn shorten(steps: &mut [TableStep], least: Option<u32>) -> bool {
    let shortest = steps.iter_mut().min_by_key(|step| step.bits);
    let Some((least, shortest)) = least.zip(shortest) else {
        return false;
    };
    let is_shorter = least < shortest.bits;
    shortest.bits = shortest.bits.min(least);
    is_shorter
}

/// Returns the number of the longest table of at most `bits` bits.
fn longest_within(steps: &[TableStep], bits: u32) -> usize {
    let shorter = (0..steps.len()).filter(|target| steps[*target].bits <= bits);
    let longest = shorter.max_by_key(|target| steps[*target].bits);
    longest.unwrap_or(0)
}

const fn refused(why: Refused) -> MergeError {
    MergeError::Refused(refusal(why))
}

/// A union that is being made.
struct Union<'u> {
    /// The steps of its tables.
    steps: Vec<TableStep>,
    /// Whether one of the first object's tables gets fewer bits.
    is_shorter: bool,
    /// In the order of the bits of their targets.
    members: Vec<Member<'u>>,
    payload: Payload,
    /// The number of objects. The first one is the one that becomes the union.
    objects: usize,
    span: Span,
}

impl<'u> Union<'u> {
    /// Chooses the tables of the union of objects. `first` is the first of them.
    fn of(
        objects: impl Iterator<Item = (&'u Tables, Shift)> + Clone,
        first: &Tables,
        span: Span,
    ) -> Result<Self, MergeError> {
        let has_items = |part: &Part, shift: Shift| {
            let last = part.table.periods().last();
            part.table.fingerprints() > 0
                && last.is_none_or(|(last, _)| shift.of(last.0) >= span.oldest.0)
        };
        let parts = objects.clone().enumerate();
        let parts = parts.flat_map(|(object, (tables, shift))| {
            let parts = tables.parts().iter();
            parts.map(move |part| (object, part, shift))
        });
        let sources = parts.filter(|(_, part, shift)| has_items(part, *shift));
        let mut steps = reserved(first.parts().len())?;
        let newest = first.parts().len() - 1;
        for (number, part) in first.parts().iter().enumerate() {
            if number == newest || has_items(part, Shift::default()) {
                steps.push(part.step);
            }
        }
        let least = sources.clone().map(|(_, part, _)| part.step.bits).min();
        let is_shorter = shorten(&mut steps, least);
        let mut members = reserved(sources.clone().count())?;
        members
            .extend(sources.map(|(object, part, shift)| Member::new(object, part, shift, &steps)));
        members.sort_unstable_by_key(|member| (member.bits, member.target, member.object));
        Ok(Self {
            steps,
            is_shorter,
            members,
            payload: first.shape().payload(),
            objects: objects.count(),
            span,
        })
    }

    /// Returns about how many entries each table will have, or `None` if the union is the first object. The number follows from
    /// the first fingerprints, if these are many; a table has at least as many entries as one of its sources.
    fn sizes(&self) -> Result<Option<Vec<u64>>, MergeError> {
        let of_member = |member: &Member| member.part.table.entries();
        let all: u64 = self.members.iter().map(of_member).sum();
        let mut sizes: Vec<u64> = reserved(self.steps.len())?;
        // A power of two: all fingerprints with the same prefix are in the same part, so a part that differs is a change.
        let sample = all.div_ceil(SAMPLE).next_power_of_two().min(SAMPLE_PARTS);
        for parts in [sample, 1] {
            sizes.clear();
            sizes.resize(self.steps.len(), 0);
            let is_changed = self.pass(parts, |prefix, value| {
                sizes[prefix.target] += self.payload.entries(value) * parts;
                Ok(())
            })?;
            if is_changed || self.is_shorter {
                break;
            }
            if parts == 1 {
                return Ok(None);
            }
        }
        for member in &self.members {
            let size = &mut sizes[member.target];
            *size = (*size).clamp(of_member(member), all);
        }
        Ok(Some(sizes))
    }

    /// Makes the tables, of about this many entries.
    fn fill(&self, sizes: &[u64], limits: Limits) -> Result<Vec<Part>, MergeError> {
        let mut bytes = Tables::BASE_BYTES + self.steps.len() as u64 * Tables::ENTRY_BYTES;
        // Stops before the tables take much more than the limits admit.
        let mut charge = |less: u64, more: u64| {
            if more == less {
                return Ok(());
            }
            bytes = bytes + more - less;
            let is_within = more <= limits.filter_bytes && bytes <= limits.object_bytes;
            is_within.then_some(()).ok_or(TOO_LARGE)
        };
        let mut fillings = reserved(self.steps.len())?;
        for (step, entries) in self.steps.iter().zip(sizes) {
            let filling = Filling::new(step.bits, self.payload, *entries, self.span.current);
            let filling = filling.map_err(refused)?;
            charge(0, filling.memory_bytes())?;
            fillings.push(filling);
        }
        let is_changed = self.pass(1, |prefix, value| {
            let filling = &mut fillings[prefix.target];
            let before = filling.memory_bytes();
            filling.push(prefix.fingerprint(), value).map_err(refused)?;
            charge(before, filling.memory_bytes())
        })?;
        debug_assert!(is_changed || self.is_shorter, "a change was found");
        let (mut parts, newest) = (reserved(self.steps.len())?, self.steps.len() - 1);
        for (number, (step, filling)) in self.steps.iter().zip(fillings).enumerate() {
            let table = Table::filled(filling).map_err(refused)?;
            if table.fingerprints() > 0 || number == newest {
                parts.push(Part { step: *step, table });
            }
        }
        Ok(parts)
    }

    /// Passes each fingerprint of the first part of the union, of `parts` equal ones, to `emit`, with its value. Those of a table
    /// come in order. Returns whether the union differs from the first object there.
    fn pass(
        &self,
        parts: u64,
        emit: impl FnMut(Prefix, u64) -> Result<(), MergeError>,
    ) -> Result<bool, MergeError> {
        let mut sources = reserved(self.members.len())?;
        for Member { part, bits, .. } in &self.members {
            sources.push(part.table.source(*bits, parts));
        }
        if sources.is_empty() {
            return Ok(false);
        }
        let all = Merge::new(&sources).ok_or(NO_MEMORY)?;
        match self.payload {
            Payload::Count => self.add_up(all, emit),
            Payload::Nothing | Payload::Period(_) => self.take_latest(all, emit),
        }
    }

    /// Passes the latest period of each fingerprint, unless one with fewer bits claims it for as long.
    fn take_latest(
        &self,
        all: Merge,
        emit: impl FnMut(Prefix, u64) -> Result<(), MergeError>,
    ) -> Result<bool, MergeError> {
        let mut claims = Claims {
            open: reserved(self.steps.len())?,
            changing: self.span.changing.0,
            is_changed: false,
            emit,
        };
        let mut current: Option<Claim> = None;
        for merged in all {
            let member = &self.members[merged.source];
            let period = member.shift.of(merged.value);
            if period < self.span.oldest.0 {
                continue;
            }
            let prefix = member.prefix(merged.key);
            if current.is_none_or(|claim| claim.prefix != prefix)
                && let Some(ended) = current.replace(Claim::new(prefix))
            {
                claims.close(ended)?;
            }
            if let Some(claim) = &mut current {
                let by = if member.object == 0 {
                    &mut claim.own
                } else {
                    &mut claim.other
                };
                *by = (*by).max(Some(period));
            }
        }
        if let Some(last) = current {
            claims.close(last)?;
        }
        Ok(claims.is_changed)
    }

    /// Passes the sum of the counts of each fingerprint and of those that it is a prefix of: the largest of all objects.
    fn add_up(
        &self,
        mut all: Merge,
        mut emit: impl FnMut(Prefix, u64) -> Result<(), MergeError>,
    ) -> Result<bool, MergeError> {
        let mut is_changed = false;
        let mut sums = Sums {
            of_objects: reserved(self.objects)?,
            counted: reserved(self.objects)?,
        };
        sums.of_objects.resize(self.objects, 0);
        while let Some(first) = all.next() {
            let member = &self.members[first.source];
            let prefix = member.prefix(first.key);
            let largest = if prefix.claims_next(&all) {
                let has_sum = self.sum_claimed(prefix, first, &mut all, &mut sums);
                let (largest, has_others) = sums.take();
                is_changed |= has_others && has_sum != Some(largest);
                largest
            } else {
                is_changed |= member.object > 0;
                first.value
            };
            emit(prefix, largest)?;
        }
        Ok(is_changed)
    }

    /// Adds up the counts of the first fingerprint that a prefix claims and of all others. Returns the sum of the first object,
    /// if that has the prefix itself and no longer fingerprint.
    fn sum_claimed(
        &self,
        prefix: Prefix,
        first: Merged,
        all: &mut Merge,
        sums: &mut Sums,
    ) -> Option<u64> {
        let mut is_own = false;
        let mut current = Some(first);
        while let Some(Merged { key, source, value }) = current {
            let member = &self.members[source];
            if member.object == 0 {
                is_own = sums.of_objects[0] == 0 && prefix == member.prefix(key);
            }
            sums.add(member.object, value);
            current = prefix.claims_next(all).then(|| all.next()).flatten();
        }
        is_own.then_some(sums.of_objects[0])
    }
}

impl Member<'_> {
    /// Returns the fingerprint of the union with this key.
    #[inline]
    const fn prefix(&self, key: u64) -> Prefix {
        Prefix {
            key,
            bits: self.bits,
            target: self.target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::law::{Growth, Params, Tightening};
    use crate::bloom::object::{Kind, Shape, Window};
    use crate::hash::{Hasher, Seed};
    use crate::number::Fraction;
    use crate::table::Held;

    /// The period of the window's end.
    const CURRENT: Period = Period(100);

    /// A table: the bits of its fingerprints, and each with its value.
    type Content<'c> = (u32, &'c [(u64, u64)]);

    fn object(kind: Kind, contents: &[Content]) -> Tables {
        let params = Params {
            capacity: 1000,
            error_rate: Fraction::HALF,
            tightening: Tightening::QUARTER,
            growth: Growth::from_expansion(2),
        };
        let shape = Shape { params, kind };
        let parts = (0..).zip(contents).map(|(number, (bits, all))| {
            let entries = all.len() as u64;
            let mut filling = Filling::new(*bits, shape.payload(), entries, CURRENT).unwrap();
            for (fingerprint, value) in *all {
                filling.push(*fingerprint, *value).unwrap();
            }
            let (bits, most) = (*bits, 1000);
            Part {
                step: TableStep { number, most, bits },
                table: Table::filled(filling).unwrap(),
            }
        });
        let hasher = Hasher::Sip(Seed::FIXED);
        Tables::of_parts(&shape, hasher, parts.collect(), Period::default()).unwrap()
    }

    /// Requires that the union of objects has this content, and that merging either of them again changes nothing.
    #[track_caller]
    fn assert_union(kind: Kind, [first, other]: [&[Content]; 2], expected: &[Content]) {
        let [first, other] = [first, other].map(|contents| object(kind, contents));
        let union = first.union(&[&other], None, Limits::NONE).unwrap().unwrap();
        let found = union.parts().iter().map(|Part { step, table }| {
            let all = table.iter(0..1 << step.bits);
            let pair = |held: Held| (held.fingerprint, held.value);
            (step.bits, all.map(pair).collect::<Vec<_>>())
        });
        let expected = expected.iter().map(|(bits, all)| (*bits, all.to_vec()));
        assert!(
            found.clone().eq(expected),
            "{:?}",
            found.collect::<Vec<_>>()
        );
        for source in [&first, &other, &union] {
            let again = union.union(&[source], None, Limits::NONE);
            assert!(again.unwrap().is_none(), "it is changed again");
        }
    }

    #[test]
    fn the_later_period_stays_unless_a_shorter_fingerprint_claims_it_for_as_long() {
        let first: [Content; 2] = [(20, &[(5, 95), (6, 97)]), (24, &[(0x71, 99)])];
        let other: [Content; 2] = [
            (20, &[(5, 96), (7, 98)]),
            (24, &[(0x61, 97), (0x62, 98), (0x71, 98)]),
        ];
        let union: [Content; 2] = [
            (20, &[(5, 96), (6, 97), (7, 98)]),
            (24, &[(0x62, 98), (0x71, 99)]),
        ];
        let window = Window::new(1000, 10).unwrap();
        assert_union(Kind::Windowed(window), [&first, &other], &union);
    }

    #[test]
    fn counts_of_claimed_fingerprints_are_added_and_the_largest_sum_stays() {
        let first: [Content; 2] = [(20, &[(5, 2), (6, 1)]), (24, &[(0x71, 4)])];
        let other: [Content; 2] = [
            (20, &[(5, 3), (7, 1)]),
            (24, &[(0x61, 2), (0x62, 3), (0x71, 2)]),
        ];
        let union: [Content; 2] = [(20, &[(5, 3), (6, 5), (7, 4)]), (24, &[])];
        assert_union(Kind::Counting, [&first, &other], &union);
    }

    /// A third of all fingerprints of 40 bits ends before the prefix of one that is in a third of those of 44 bits.
    #[test]
    fn a_sample_of_equal_objects_reports_no_change() {
        let border = (1 << 40) / 3;
        let numbers = (0..3 * SAMPLE - 2).chain([border]);
        let own: Vec<_> = numbers.map(|number| (number, 0)).collect();
        let first = object(Kind::ScaledTo, &[(40, &own)]);
        let other = object(Kind::ScaledTo, &[(44, &[(border << 4, 0)])]);
        let union = first.union(&[&other], None, Limits::NONE);
        assert!(union.unwrap().is_none());
    }
}
