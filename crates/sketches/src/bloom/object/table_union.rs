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

use super::merge::{MergeError, NO_MEMORY, TOO_LARGE, reserved};
use super::part::{Part, refusal};
use super::tables::{Tables, oldest};
use super::window::Window;

/// The entries from which the number of all is estimated, at least.
const SAMPLE: u64 = 1 << 16;
/// The part of the entries that is enough, at least.
const SAMPLED_PART: u64 = 16;

/// What takes the numbers of an object's periods to those of the union's.
#[derive(Clone, Copy, Debug, Default)]
struct Move {
    added: u64,
    taken: u64,
}

impl Move {
    const fn of(self, period: u64) -> u64 {
        (period + self.added).saturating_sub(self.taken)
    }
}

/// The periods of a union; zeros without a window.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// By how many periods the first object is set back with the clock.
    back: u64,
    /// The period before the newest of all objects.
    current: Period,
    /// The first period that the union has.
    oldest: Period,
    /// The first period that counts as a change.
    changing: Period,
}

/// The tables of an object in a union.
struct Member<'t> {
    /// The number of the object.
    object: usize,
    part: &'t Part,
    moved: Move,
    /// The number of the table of the union to which its fingerprints go, and the bits that they have there.
    target: usize,
    bits: u32,
}

impl Tables {
    /// Returns the union with others, or `None` if this object already equals it. If `now_ms` is given, the periods of objects
    /// that were not set back with the clock are, and items that have expired by then do not count as a change. Items that
    /// have expired in the latest period in which any of them was written are left out.
    pub fn union(
        &self,
        others: &[&Self],
        now_ms: Option<u64>,
        limits: Limits,
    ) -> Result<Option<Self>, MergeError> {
        let mut moves = reserved(1 + others.len())?;
        let span = if let Some(window) = self.shape().window() {
            self.span(others, window, now_ms, &mut moves)
        } else {
            moves.resize(1 + others.len(), Move::default());
            Span::default()
        };
        let (mut steps, mut members) = (Vec::new(), Vec::new());
        let objects = [self].into_iter().chain(others.iter().copied());
        for (object, (tables, moved)) in objects.zip(moves).enumerate() {
            let newest = tables.parts().len() - 1;
            for (number, part) in tables.parts().iter().enumerate() {
                let is_live = |period: &Period| moved.of(period.0) >= span.oldest.0;
                let has_live = part
                    .table
                    .periods()
                    .last()
                    .is_none_or(|(last, _)| is_live(last));
                let has_items = part.table.fingerprints() > 0 && has_live;
                if object == 0 && (has_items || number == newest) {
                    steps.try_reserve(1).map_err(|_| NO_MEMORY)?;
                    steps.push(part.step);
                }
                if has_items {
                    members.try_reserve(1).map_err(|_| NO_MEMORY)?;
                    members.push(Member {
                        object,
                        part,
                        moved,
                        target: 0,
                        bits: 0,
                    });
                }
            }
        }
        let is_shorter = shorten(&mut steps, &members);
        choose_targets(&mut members, &steps);
        members.sort_unstable_by_key(|member| (member.bits, member.target, member.object));
        let union = Union {
            steps: &steps,
            members: &members,
            payload: self.shape().payload(),
            objects: 1 + others.len(),
            span,
        };
        let Some(sizes) = union.sizes(is_shorter)? else {
            return Ok(None);
        };
        let Some(parts) = union.fill(&sizes, is_shorter, limits)? else {
            return Ok(None);
        };
        self.united(parts, span, limits).map(Some)
    }

    /// Returns the periods of a union, and what takes those of each object to them.
    fn span(
        &self,
        others: &[&Self],
        window: Window,
        now_ms: Option<u64>,
        moves: &mut Vec<Move>,
    ) -> Span {
        let lead = |tables: &Self| now_ms.map_or(0, |now_ms| tables.lead(window, now_ms));
        let (back, mut current) = (lead(self), self.reached(window));
        let ahead = self.ahead.saturating_add(back);
        moves.push(Move::default());
        for other in others {
            let shift = Move {
                added: ahead,
                taken: other.ahead.saturating_add(lead(other)),
            };
            current = current.max(Period(shift.of(other.reached(window).0)));
            moves.push(shift);
        }
        let first = oldest(window, current);
        let expired = now_ms.map(|now_ms| self.period_at(window, now_ms).0 + back);
        let expired = expired.map(|current| oldest(window, Period(current)));
        Span {
            back,
            current,
            oldest: first,
            changing: expired.map_or(first, |expired| expired.max(first)),
        }
    }

    /// Returns the union of these tables: requests a rate that tables which are fuller than they were made for keep, with those
    /// that may follow.
    fn united(&self, mut parts: Vec<Part>, span: Span, limits: Limits) -> Result<Self, MergeError> {
        for part in &mut parts {
            part.step.most = part.step.most.max(part.table.fingerprints());
        }
        let mut union = self.with_parts(parts);
        union.set_back(span.back, span.oldest);
        union.request_own_rate().ok_or(MergeError::Rates)?;
        let is_within = |part: &Part| part.table.memory_bytes() <= limits.filter_bytes;
        if union.memory_bytes() > limits.object_bytes || !union.parts().iter().all(is_within) {
            return Err(TOO_LARGE);
        }
        Ok(union)
    }
}

/// Gives the shortest table as few bits as the shortest of the members has. Returns whether it had more.
fn shorten(steps: &mut [TableStep], members: &[Member]) -> bool {
    let least = members.iter().map(|member| member.part.step.bits).min();
    let shortest = steps.iter_mut().min_by_key(|step| step.bits);
    let (Some(least), Some(shortest)) = (least, shortest) else {
        return false;
    };
    let is_shorter = least < shortest.bits;
    shortest.bits = shortest.bits.min(least);
    is_shorter
}

/// Chooses the table of the union that each member goes to.
fn choose_targets(members: &mut [Member<'_>], steps: &[TableStep]) {
    for member in members {
        let step = member.part.step;
        // The first object's own tables stay apart.
        let own = steps.iter().position(|own| own.number == step.number);
        let own = own.filter(|_| member.object == 0);
        member.target = own.unwrap_or_else(|| longest_within(steps, step.bits));
        member.bits = steps[member.target].bits;
    }
}

/// Returns the number of the longest table of at most `bits` bits.
fn longest_within(steps: &[TableStep], bits: u32) -> usize {
    let shorter = (0..steps.len()).filter(|target| steps[*target].bits <= bits);
    shorter
        .max_by_key(|target| steps[*target].bits)
        .unwrap_or(0)
}

const fn refused(why: Refused) -> MergeError {
    MergeError::Refused(refusal(why))
}

/// A union that is being made.
struct Union<'u> {
    /// The steps of its tables.
    steps: &'u [TableStep],
    /// In the order of the bits of their targets.
    members: &'u [Member<'u>],
    payload: Payload,
    /// The number of objects. The first one is the one that becomes the union.
    objects: usize,
    span: Span,
}

impl Union<'_> {
    /// Returns about how many entries each table will have, or `None` if the union is the first object. The number follows from
    /// the first fingerprints, if these are many; a table has at least as many entries as one of its sources.
    fn sizes(&self, is_shorter: bool) -> Result<Option<Vec<u64>>, MergeError> {
        let of_member = |member: &Member| member.part.table.entries();
        let all: u64 = self.members.iter().map(of_member).sum();
        let mut sizes: Vec<u64> = reserved(self.steps.len())?;
        for part in [all.div_ceil(SAMPLE).min(SAMPLED_PART), 1] {
            sizes.clear();
            sizes.resize(self.steps.len(), 0);
            let is_changed = self.pass(part, |target, _, held| {
                sizes[target] += self.payload.entries(held) * part;
                Ok(())
            })?;
            if is_changed || is_shorter {
                break;
            }
            if part <= 1 {
                return Ok(None);
            }
        }
        for member in self.members {
            let size = &mut sizes[member.target];
            *size = (*size).clamp(of_member(member), all);
        }
        Ok(Some(sizes))
    }

    /// Makes the tables, of about this many entries. Returns `None` if they are the first object's.
    fn fill(
        &self,
        sizes: &[u64],
        is_shorter: bool,
        limits: Limits,
    ) -> Result<Option<Vec<Part>>, MergeError> {
        let mut fillings = reserved(self.steps.len())?;
        for (step, entries) in self.steps.iter().zip(sizes) {
            let filling = Filling::new(step.bits, self.payload, *entries, self.span.current);
            fillings.push(filling.map_err(refused)?);
        }
        let is_changed = self.pass(1, |target, fingerprint, held| {
            let filling = &mut fillings[target];
            filling.push(fingerprint, held).map_err(refused)?;
            // So no more is allocated than the limit admits.
            if filling.memory_bytes() > limits.filter_bytes {
                return Err(TOO_LARGE);
            }
            Ok(())
        })?;
        if !is_changed && !is_shorter {
            return Ok(None);
        }
        let (mut parts, newest) = (reserved(self.steps.len())?, self.steps.len() - 1);
        for (number, (step, filling)) in self.steps.iter().zip(fillings).enumerate() {
            let table = Table::filled(filling);
            let table = table.map_err(refused)?;
            if table.fingerprints() > 0 || number == newest {
                parts.push(Part { step: *step, table });
            }
        }
        Ok(Some(parts))
    }

    /// Passes each fingerprint of the first part of the union, of `parts` equal ones, to `emit`, with the number of its table and
    /// what is kept of it. Those of a table come in order. Returns whether the union differs from the first object there.
    fn pass(
        &self,
        parts: u64,
        emit: impl FnMut(usize, u64, u64) -> Result<(), MergeError>,
    ) -> Result<bool, MergeError> {
        let mut sources = reserved(self.members.len())?;
        for Member { part, bits, .. } in self.members {
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
        mut emit: impl FnMut(usize, u64, u64) -> Result<(), MergeError>,
    ) -> Result<bool, MergeError> {
        let has_periods = matches!(self.payload, Payload::Period(_));
        let mut is_changed = false;
        // The fingerprints that the current one begins with, each with fewer bits than the next.
        let mut claims: Vec<Claim> = reserved(self.steps.len())?;
        let mut end = |claim: Claim| {
            while claims
                .pop_if(|shorter| !shorter.prefix.claims(claim.prefix.key))
                .is_some()
            {}
            let held = claim.own.max(claim.other);
            let is_claimed = |by: &Claim| by.own.max(by.other) >= held;
            if claims.last().is_some_and(is_claimed) {
                return Ok(());
            }
            let counts = |held: u64| !has_periods || held >= self.span.changing.0;
            is_changed |= claim.other > claim.own && claim.other.is_some_and(counts);
            claims.push(claim);
            let prefix = claim.prefix;
            emit(prefix.target, prefix.fingerprint(), held.unwrap_or(0))
        };
        let mut current: Option<Claim> = None;
        for Merged { key, source, held } in all {
            let member = &self.members[source];
            let held = if has_periods {
                member.moved.of(held)
            } else {
                0
            };
            if held < self.span.oldest.0 {
                continue;
            }
            let prefix = prefix(key, member);
            if current.is_none_or(|claim| claim.prefix != prefix) {
                let begun = Claim {
                    prefix,
                    own: None,
                    other: None,
                };
                current.replace(begun).map_or(Ok(()), &mut end)?;
            }
            if let Some(claim) = &mut current {
                let by = if member.object == 0 {
                    &mut claim.own
                } else {
                    &mut claim.other
                };
                *by = (*by).max(Some(held));
            }
        }
        current.map_or(Ok(()), &mut end)?;
        Ok(is_changed)
    }

    /// Passes the sum of the counts of each fingerprint and of those that it is a prefix of: the largest of all objects.
    fn add_up(
        &self,
        mut all: Merge,
        mut emit: impl FnMut(usize, u64, u64) -> Result<(), MergeError>,
    ) -> Result<bool, MergeError> {
        let mut is_changed = false;
        // The sum of each object, and the objects that have one.
        let (mut sums, mut counted) = (reserved(self.objects)?, reserved(self.objects)?);
        sums.resize(self.objects, 0_u64);
        while let Some(first) = all.next() {
            let prefix = prefix(first.key, &self.members[first.source]);
            let mut largest = first.held;
            let claims_next = |all: &Merge| all.next_key().is_some_and(|key| prefix.claims(key));
            if claims_next(&all) {
                // Whether the first object has the fingerprint as it is, and no longer one.
                let mut is_own = false;
                let mut current = Some(first);
                while let Some(Merged { key, source, held }) = current {
                    let member = &self.members[source];
                    if member.object == 0 {
                        is_own = sums[0] == 0 && prefix == self::prefix(key, member);
                    }
                    if sums[member.object] == 0 {
                        counted.push(member.object);
                    }
                    sums[member.object] = sums[member.object].saturating_add(held);
                    current = claims_next(&all).then(|| all.next()).flatten();
                }
                largest = counted
                    .iter()
                    .map(|object| sums[*object])
                    .max()
                    .unwrap_or(0);
                let has_others = counted.iter().any(|object| *object > 0);
                is_changed |= has_others && !(is_own && sums[0] == largest);
                for object in counted.drain(..) {
                    sums[object] = 0;
                }
            } else {
                is_changed |= self.members[first.source].object > 0;
            }
            emit(prefix.target, prefix.fingerprint(), largest)?;
        }
        Ok(is_changed)
    }
}

/// Returns the fingerprint of a member's with this key.
#[inline]
const fn prefix(key: u64, member: &Member) -> Prefix {
    Prefix {
        key,
        bits: member.bits,
        target: member.target,
    }
}

/// A fingerprint of a table of the union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    /// Its bits, followed by zeros.
    key: u64,
    bits: u32,
    /// The number of the table.
    target: usize,
}

impl Prefix {
    /// Returns whether a fingerprint begins with this one.
    #[inline]
    const fn claims(self, key: u64) -> bool {
        (key ^ self.key) >> (u64::BITS - self.bits) == 0
    }

    #[inline]
    const fn fingerprint(self) -> u64 {
        self.key >> (u64::BITS - self.bits)
    }
}

/// A fingerprint, and until which periods the first object and the others claim it.
#[derive(Clone, Copy, Debug)]
struct Claim {
    prefix: Prefix,
    own: Option<u64>,
    other: Option<u64>,
}
