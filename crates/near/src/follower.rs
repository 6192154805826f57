//! What a follower does, step by step.

use std::time::Duration;

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::Probe;
use valkeybloom_sketches::bloom::{Limits, Object};

use crate::copy::LocalCopy;
use crate::error_kind::ErrorKind;
use crate::loading::{Loaded, Loading, Mark, Misfit, REPLACED};
use crate::{Options, POLL_ITEMS, Reply, Request, State, Stats, Step};

/// The longest time until the filter is fetched again, unless polls are rarer.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The longest time between two attempts to reach a server, or a key that has no filter to follow, unless polls are rarer:
/// attempts cost little, and lookups have to ask the server as long as the follower does not know that the filter is back.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The time within which a follower begins anew, in polls. So a thousand followers that lose their feeds together do
/// not fetch together.
const SPREAD: u32 = 20;

/// The shortest time between two polls, or two fetches.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// The longest time that an option can be, 136 years: sums of such times do not overflow.
const LONGEST_OPTION: Duration = Duration::from_secs(u32::MAX as u64);

/// The bytes of an item in a reply of `BF.READ`.
const ITEM_BYTES: usize = size_of::<Probe>();

/// A copy of a server's filter, and what it takes to keep it fresh.
///
/// A driver repeats [`next`](Self::next): it sends the command and passes the reply to [`take`](Self::take), or waits. It
/// sends no other command of the follower in the meantime. All commands of a follower go to the same server: no other knows
/// its cursors.
#[derive(Debug, Default)]
pub struct Follower {
    options: Options,
    phase: Phase,
    /// What answers, while it is fresh.
    answers: Answers,
    /// When the answers stop being fresh.
    fresh_until: Duration,
    /// When the poll was sent that the answers are from, once there was one.
    read_at: Option<Duration>,
    /// When the next command is due.
    due: Duration,
    /// When the last command was sent.
    sent: Duration,
    /// When the program last wrote an item that could not be kept until the copy has it.
    unkept: Option<Duration>,
    /// The number of failures since the copy was fresh last.
    failures: u32,
    /// How often a copy was begun anew since then.
    restarts: u32,
    stats: Stats,
}

/// What answers lookups.
#[derive(Debug, Default)]
enum Answers {
    #[default]
    None,
    /// There is no such key, so the filter has no items.
    Missing,
    Copy(Box<LocalCopy>),
}

/// What is being done about the copy.
#[derive(Debug, Default)]
enum Phase {
    /// The feed's cursor is to be taken.
    #[default]
    Begin,
    /// The server refused the feed, and will probably refuse it again. A request for the cursor is repeated now and then.
    Refused,
    /// The filter is being fetched. Without a feed, an older copy may answer meanwhile.
    Fetch(Box<Loading>),
    /// The copy is read from this cursor on. The first `counted` items of the feed are in the copy already.
    Follow { cursor: Box<[u8]>, counted: u64 },
}

impl Follower {
    /// Returns a follower without a copy. It begins to fetch one at once.
    pub fn new(options: Options) -> Self {
        let bounded = |time: Duration| time.min(LONGEST_OPTION);
        let interval = |time: Duration| time.clamp(SHORTEST_INTERVAL, LONGEST_OPTION);
        Self {
            options: Options {
                every: interval(options.every),
                max_age: bounded(options.max_age),
                confirm: options.confirm,
                refresh: options.refresh.map(interval),
                lag: bounded(options.lag),
            },
            ..Self::default()
        }
    }

    /// Returns whether the filter claims an item, or `None` if the server has to be asked.
    #[inline]
    pub fn contains(&self, item: &[u8], now: Duration) -> Option<bool> {
        if !self.is_fresh(now) {
            return None;
        }
        let claimed = match &self.answers {
            Answers::Copy(copy) => copy.claims(item)?,
            Answers::Missing => false,
            Answers::None => return None,
        };
        self.confirmed(claimed)
    }

    /// Returns a copy's answer; `None` if only the server denies items.
    #[inline]
    fn confirmed(&self, claimed: bool) -> Option<bool> {
        (claimed || !self.options.confirm).then_some(claimed)
    }

    /// Passes the result of [`contains`](Self::contains) for each item to `answer`.
    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now: Duration,
        mut answer: impl FnMut(Option<bool>),
    ) {
        let is_fresh = self.is_fresh(now);
        match &self.answers {
            Answers::Copy(copy) if is_fresh => {
                copy.claims_each(items, |found| {
                    answer(found.and_then(|found| self.confirmed(found)));
                });
            }
            Answers::Missing if is_fresh => items.for_each(|_| answer(self.confirmed(false))),
            _ => items.for_each(|_| answer(None)),
        }
    }

    /// Notes that the server has an item, which the program added, so that lookups claim it before the copy has it.
    pub fn keep(&mut self, item: &[u8], now: Duration) {
        let is_kept = match &mut self.answers {
            Answers::Copy(copy) => copy.keep(item, now),
            Answers::None | Answers::Missing => false,
        };
        if !is_kept {
            self.suspend_answers(now);
        }
    }

    /// Returns whether the copy answers: it claims items, and denies others unless only the server does.
    #[inline]
    pub fn is_fresh(&self, now: Duration) -> bool {
        now < self.fresh_until
    }

    /// Returns how old the copy is: the time since the last complete poll was sent. `None` before the first one.
    pub fn age(&self, now: Duration) -> Option<Duration> {
        self.read_at.map(|read_at| now.saturating_sub(read_at))
    }

    /// Returns what the follower is doing.
    pub fn state(&self, now: Duration) -> State {
        match (&self.phase, &self.answers) {
            (Phase::Refused, _) => State::Refused,
            _ if self.read_at.is_none() => State::Syncing,
            _ if !self.is_fresh(now) => State::Stale,
            (_, Answers::Missing) => State::Missing,
            _ => State::Following,
        }
    }

    /// Returns what the follower has done.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the copy and its cursor. Returns `None` before the copy has caught up for the first time, and if there is no
    /// such key.
    pub fn copy(&self) -> Option<(&Object, Option<&[u8]>)> {
        let Answers::Copy(copy) = &self.answers else {
            return None;
        };
        let cursor = match &self.phase {
            Phase::Follow { cursor, .. } => Some(&cursor[..]),
            _ => None,
        };
        self.read_at.map(|_| (&copy.object, cursor))
    }

    /// Returns what to do next.
    pub fn next(&mut self, now: Duration) -> Step {
        if now < self.due {
            return Step::Wait(self.due);
        }
        self.sent = now;
        Step::Send(match &self.phase {
            Phase::Begin | Phase::Refused => Request::Read(Box::from(*b"$")),
            Phase::Follow { cursor, .. } => Request::Read(cursor.clone()),
            Phase::Fetch(loading) => Request::Chunk {
                cursor: loading.next,
                with_id: loading.has_ids,
            },
        })
    }

    /// Takes what became of the command that [`next`](Self::next) returned last. `random` is from 0 to 1.
    pub fn take(&mut self, reply: Reply<'_>, now: Duration, random: f64) {
        let random = random.clamp(0.0, 1.0);
        let at = Arrival { now, random };
        let taken = match (std::mem::take(&mut self.phase), reply) {
            (Phase::Begin | Phase::Refused, Reply::News { cursor, items, .. }) => {
                let cursor = cursor.into();
                self.fetch(Some(Mark { cursor, items }), true, now);
                Ok(())
            }
            (Phase::Fetch(loading), Reply::Chunk { cursor, bytes, id }) => {
                self.stats.bytes += bytes.len() as u64;
                self.due = now;
                let begun = loading.begun;
                match loading.load(cursor, id, bytes) {
                    Ok(Loaded::Complete(object, mark)) => self.hold(object, mark, begun, at),
                    Ok(Loaded::More(loading)) => {
                        self.phase = Phase::Fetch(loading);
                        Ok(())
                    }
                    Err(misfit @ Misfit::NotPlain) => {
                        self.refuse(&misfit.to_string(), LONGEST_PAUSE, at);
                        Ok(())
                    }
                    Err(misfit) => Err(misfit.to_string()),
                }
            }
            (
                Phase::Follow { counted, .. },
                Reply::News {
                    cursor,
                    items,
                    hashes,
                },
            ) => self.apply(counted, cursor, items, hashes, at),
            (_, Reply::News { .. } | Reply::Chunk { .. }) => Err("an unexpected reply".to_owned()),
            (phase, Reply::Refused(text)) => {
                self.take_refusal(phase, text, at);
                Ok(())
            }
            (phase, Reply::Lost(why)) => {
                self.lose(phase, why, at);
                Ok(())
            }
        };
        if let Err(why) = taken {
            self.begin_anew(&why, at);
        }
    }

    /// Begins to fetch the filter, from a server that may have ids.
    fn fetch(&mut self, mark: Option<Mark>, has_ids: bool, now: Duration) {
        self.phase = Phase::Fetch(Box::new(Loading::new(mark, has_ids, now)));
        self.due = now;
    }

    /// Takes the filter that was fetched since `begun` for the copy.
    fn hold(
        &mut self,
        object: Object,
        mark: Option<Mark>,
        begun: Duration,
        at: Arrival,
    ) -> Result<(), String> {
        self.stats.fetches += 1;
        let items = object.items(|| 0);
        match &mut self.answers {
            Answers::Copy(copy) => {
                if !copy.replace(object) {
                    self.suspend_answers(at.now);
                }
            }
            answers => *answers = Answers::Copy(Box::new(LocalCopy::of(object))),
        }
        let Some(mark) = mark else {
            self.rest(begun, at);
            return Ok(());
        };
        let counted = items.checked_sub(mark.items).ok_or(REPLACED)?;
        let cursor = mark.cursor;
        self.phase = Phase::Follow { cursor, counted };
        // It has to catch up first.
        self.fresh_until = Duration::ZERO;
        self.read_at = None;
        Ok(())
    }

    /// Adds the new items to the copy.
    fn apply(
        &mut self,
        counted: u64,
        next: &[u8],
        items: u64,
        hashes: &[u8],
        at: Arrival,
    ) -> Result<(), String> {
        self.stats.polls += 1;
        self.stats.bytes += hashes.len() as u64;
        let Answers::Copy(copy) = &mut self.answers else {
            return Err("there is no copy".to_owned());
        };
        let (new, []) = hashes.as_chunks::<ITEM_BYTES>() else {
            return Err("half a hash".to_owned());
        };
        let skipped = usize::try_from(counted).unwrap_or(usize::MAX);
        let skipped = skipped.min(new.len());
        let probes = new[skipped..].iter().map(probe);
        let added = copy.object.replay_each(probes, WITHOUT_LIMITS);
        added.map_err(|refusal| Error::from(refusal).to_string())?;
        let counted = counted - skipped as u64;
        self.stats.items += new.len() as u64;
        let is_complete = (new.len() as u64) < POLL_ITEMS;
        let is_equal = items.checked_add(counted) == Some(copy.object.items(|| 0));
        if !is_equal || is_complete && counted > 0 {
            return Err("the copy has another number of items than the filter".to_owned());
        }
        let cursor = next.into();
        self.phase = Phase::Follow { cursor, counted };
        self.due = at.now;
        if is_complete {
            self.stay_fresh_for(self.sent, self.options.max_age);
            self.due = self.sent + at.shortened(self.options.every);
        }
        Ok(())
    }

    /// Notes that the answers are what the server had at a time, and that they are good for a while.
    fn stay_fresh_for(&mut self, had: Duration, age: Duration) {
        (self.failures, self.restarts) = (0, 0);
        self.read_at = Some(had);
        // The server that is read from had all that was written before. The clock may be coarse.
        let until = had.saturating_sub(self.options.lag);
        let mut is_behind = false;
        if let Answers::Copy(copy) = &mut self.answers {
            copy.forget_before(until, !self.options.lag.is_zero());
            is_behind = self.unkept.is_some() && copy.is_behind();
        }
        if self.unkept.is_none_or(|unkept| unkept < until) && !is_behind {
            self.unkept = None;
            self.fresh_until = had + age;
        }
    }

    /// Keeps what answers until it is fetched anew.
    fn rest(&mut self, begun: Duration, at: Arrival) {
        let refresh = self.options.refresh.unwrap_or(LONGEST_DELAY);
        self.stay_fresh_for(begun, refresh + self.options.max_age);
        let due = begun + at.shortened(refresh);
        self.fetch(None, true, due.max(at.now));
    }

    /// Takes an error of the server.
    fn take_refusal(&mut self, phase: Phase, text: &str, at: Arrival) {
        let has_feed = !matches!(&phase, Phase::Fetch(loading) if loading.mark.is_none());
        match ErrorKind::of(text) {
            ErrorKind::NotFound => self.hold_nothing(has_feed, at),
            ErrorKind::Denied if has_feed && self.options.refresh.is_some() => {
                self.fetch(None, true, at.now);
            }
            ErrorKind::LacksIds if !has_feed => self.fetch(None, false, at.now),
            ErrorKind::Denied | ErrorKind::Shut => self.refuse(text, LONGEST_DELAY, at),
            ErrorKind::Unfit => self.refuse(text, LONGEST_PAUSE, at),
            ErrorKind::Outdated => self.begin_anew(text, at),
            ErrorKind::LacksIds | ErrorKind::Other => self.lose(phase, text, at),
        }
    }

    /// Takes a missing key for a filter without items.
    fn hold_nothing(&mut self, has_feed: bool, at: Arrival) {
        self.drop_copy(at.now);
        self.answers = Answers::Missing;
        if has_feed {
            self.phase = Phase::Begin;
            self.stay_fresh_for(self.sent, self.options.max_age);
            self.due = self.sent + at.shortened(self.options.every);
        } else {
            self.rest(self.sent, at);
        }
    }

    /// Drops the copy, and begins anew after a delay, because the reason will hardly go away before.
    fn refuse(&mut self, why: &str, delay: Duration, at: Arrival) {
        self.fail(why);
        self.drop_copy(at.now);
        self.phase = Phase::Refused;
        self.due = at.now + at.shortened(delay.max(self.options.every));
    }

    /// Drops the copy, and begins anew after a random delay.
    fn begin_anew(&mut self, why: &str, at: Arrival) {
        self.fail(why);
        self.stats.resyncs += 1;
        self.restarts = self.restarts.saturating_add(1);
        self.drop_copy(at.now);
        self.phase = Phase::Begin;
        let delay = self.delay(SPREAD, self.restarts, LONGEST_DELAY);
        self.due = at.now + delay.mul_f64(at.random);
    }

    /// Tries again after a delay. The next reply may come from another server, so what was fetched is dropped.
    fn lose(&mut self, phase: Phase, why: &str, at: Arrival) {
        self.fail(why);
        self.phase = match phase {
            Phase::Fetch(_) => Phase::Begin,
            phase => phase,
        };
        self.due = at.now + at.shortened(self.delay(1, self.failures, LONGEST_PAUSE));
    }

    fn fail(&mut self, why: &str) {
        self.failures = self.failures.saturating_add(1);
        self.stats.errors += 1;
        self.stats.last_error = Some(why.to_owned());
    }

    /// Returns a delay of some polls, which doubles with each failure after the first, up to `longest`.
    fn delay(&self, polls: u32, failures: u32, longest: Duration) -> Duration {
        let doublings = failures.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let every = self.options.every;
        let delay = every.saturating_mul(polls.saturating_mul(factor));
        delay.min(longest.max(every))
    }

    fn drop_copy(&mut self, now: Duration) {
        if matches!(&self.answers, Answers::Copy(copy) if copy.lacks_own()) {
            self.suspend_answers(now);
        }
        self.answers = Answers::None;
        self.fresh_until = Duration::ZERO;
        self.read_at = None;
    }

    /// Suspends local answers until the copy holds every item that the program added.
    fn suspend_answers(&mut self, now: Duration) {
        self.unkept = Some(now);
        self.fresh_until = Duration::ZERO;
    }
}

/// A copy is limited by the memory of its program alone: it takes every item that the server took.
const WITHOUT_LIMITS: Limits = Limits {
    saturate: true,
    ..Limits::NONE
};

fn probe(bytes: &[u8; ITEM_BYTES]) -> Probe {
    let whole = u128::from_le_bytes(*bytes);
    #[allow(clippy::cast_possible_truncation, reason = "each half has 64 bits")]
    Probe::from_hashes(whole as u64, (whole >> 64) as u64)
}

/// When a reply came, and a random number from 0 to 1.
#[derive(Clone, Copy)]
struct Arrival {
    now: Duration,
    random: f64,
}

impl Arrival {
    /// Returns a time that is shorter by up to a tenth.
    fn shortened(&self, time: Duration) -> Duration {
        time.mul_f64(1.0 - self.random / 10.0)
    }
}
