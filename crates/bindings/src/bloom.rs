//! Bloom filters.

use std::borrow::Cow;

use valkeybloom_protocol::bloom::{Defaults, Insert, Maker, Moment, Reserve};
use valkeybloom_protocol::bloom::{require_suits, require_ttl_within};
use valkeybloom_protocol::error::{Error as Refused, Field};
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::bloom::chunks::{self, LoadError, Value};
use valkeybloom_sketches::bloom::{Added, Dialect, Growth, New, Object};
use valkeybloom_sketches::bloom::{Params, Tightening, Time, Window};
use valkeybloom_sketches::{Fraction, Seed};

use super::batch::{Batch, copied, writer};
use super::decode::undecodable;
use super::error::{Code, Error};
use super::family::{Chunked, Family, family};
use super::host::now_ms;
use super::limits;
use super::random_seed;
use super::words::Command;

/// Defaults for missing options of BF.RESERVE.
const DEFAULTS: Defaults = Defaults {
    params: Params {
        capacity: 100,
        error_rate: Fraction::HALF,
        tightening: Tightening::HALF,
        growth: Growth::from_expansion(2),
    },
    maker: Maker::Own,
};

family! {
    /// A Bloom filter of any kind, in this module's form or a peer's.
    ///
    /// A method with a [`Moment`] takes the time of an addition, and the items' time to live. If there is no time and the
    /// filter has a window, the clock is read.
    Bloom(Object), "Bloom filter"
}

/// Parses options of BF.INSERT: AT, TTL, each with its value.
///
/// # Errors
/// [`Code::Refused`], also for the other options of BF.INSERT.
pub fn parse_moment(options: &[&[u8]]) -> Result<Moment, Error> {
    const NAMES: [&[u8]; 2] = [b"AT", b"TTL"];
    let is_known = |name: &&[u8]| NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    if !options.iter().step_by(2).all(is_known) {
        return Err(Refused::UNKNOWN_OPTION.into());
    }
    let words = Command([&[b"BF.INSERT", b"key"], options, &[b"ITEMS", b"item"]]);
    Ok(Insert::parse(&words, DEFAULTS, Origin::Elsewhere)?.moment)
}

/// Makes a moment of numbers: those of the options AT and TTL.
///
/// # Errors
/// [`Code::Refused`] for a time to live of 0.
pub fn moment(at_ms: Option<u64>, ttl_ms: Option<u64>) -> Result<Moment, Error> {
    if ttl_ms == Some(0) {
        return Err(Refused::Range(Field::TTL).into());
    }
    Ok(Moment {
        at_ms,
        ttl_ms,
        ..Moment::default()
    })
}

/// Returns the time that a window has reached at least: an earlier one would move its periods back.
fn reached_ms(object: &Object, window: Window) -> Option<u64> {
    Some(object.reached_period()?.saturating_mul(window.period_ms()))
}

/// Returns the time of a write that puts a late item into its own period.
fn late(window: Window, time: Time, reached_ms: u64) -> Result<Time, Error> {
    let (own, current) = (window.target(time, 0), window.period_at(reached_ms));
    if own < window.oldest(current) {
        let text = "the item has expired: the window has later items";
        return Err(Error::new(Code::Refused, text));
    }
    Ok(Time {
        now_ms: reached_ms,
        ttl_ms: Some((own + window.periods() - current) * window.period_ms()),
    })
}

impl Bloom {
    /// Creates the filter of BF.RESERVE with these words after the key: the error rate, the capacity, and options. The
    /// seed has 32 bytes; without one, it is random.
    ///
    /// # Errors
    /// [`Code::Refused`] or [`Code::NoMemory`].
    pub fn reserve(words: &[&[u8]], seed: Option<&[u8]>) -> Result<Self, Error> {
        let words = Command::new(&[b"BF.RESERVE", b"key"], words);
        let request = Reserve::parse(&words, DEFAULTS, Origin::Client)?;
        if request.ttl_ms.is_some() || request.unless_exists {
            let text = "EX, PX and NX are for keys of a server";
            return Err(Error::new(Code::Refused, text));
        }
        let seed = match seed {
            Some(bytes) => Seed::new(bytes.try_into().map_err(|_| Refused::SEED)?),
            None => random_seed()?,
        };
        Self::make(&request.create?, seed)
    }

    fn make(new: &New, seed: Seed) -> Result<Self, Error> {
        let made = Object::make(new, seed, limits::CREATION);
        Ok(Self(made.map_err(Refused::from)?))
    }

    /// Returns the time of a write, and frees the items that have expired by then.
    ///
    /// The clock may be set back, and then all items of a window move back with it, as on a server. A time that the
    /// caller names is that of an item: it moves no others.
    #[inline]
    fn begin(&mut self, moment: &Moment) -> Result<Time, Error> {
        if self.0.is_plain() && *moment == Moment::default() {
            return Ok(Time::default());
        }
        let Moment { at_ms, ttl_ms, .. } = *moment;
        let shape = self.0.shape();
        require_suits(shape.kind, ttl_ms)?;
        require_ttl_within(shape.kind, ttl_ms)?;
        let mut time = Time { now_ms: 0, ttl_ms };
        if let Some(window) = shape.window() {
            time.now_ms = at_ms.unwrap_or_else(now_ms);
            let reached_ms = at_ms.and_then(|_| reached_ms(&self.0, window));
            if let Some(reached_ms) = reached_ms.filter(|reached| *reached > time.now_ms) {
                time = late(window, time, reached_ms)?;
            }
            self.0.tidy(time.now_ms);
        }
        Ok(time)
    }

    /// Adds an item. Returns whether it was new.
    ///
    /// # Errors
    /// [`Code::Refused`] or [`Code::NoMemory`]. Then nothing has changed.
    #[inline]
    pub fn add(&mut self, item: &[u8], moment: &Moment) -> Result<bool, Error> {
        let time = self.begin(moment)?;
        let added = self.0.add(item, time, limits::of_bloom(&self.0));
        Ok(added.map_err(Refused::from)? == Added::New)
    }

    /// Adds items in order. Returns how many were new. Writes 1 for each that was new, 0 for each other, until `answers`
    /// is full. The answers for items that were not added stay as they are.
    ///
    /// # Errors
    /// [`Code::Refused`] or [`Code::NoMemory`]. Then the items before the first one without room are added.
    pub fn add_each(
        &mut self,
        batch: &Batch,
        moment: &Moment,
        answers: &mut [u8],
    ) -> Result<u64, Error> {
        let time = self.begin(moment)?;
        let (mut new, mut answer) = (0, writer(answers));
        batch.visit(&mut |items| {
            let mut refused = Ok(());
            let limits = limits::of_bloom(&self.0);
            self.0.add_each(items, time, limits, |added| match added {
                Ok(added) => {
                    let is_new = u8::from(added == Added::New);
                    new += u64::from(is_new);
                    answer(is_new);
                }
                Err(refusal) => refused = Err(Refused::from(refusal).into()),
            });
            refused
        })?;
        Ok(new)
    }

    /// Returns whether the filter claims an item. False is certain; true is wrong at the error rate.
    #[inline]
    pub fn contains(&self, item: &[u8], at_ms: Option<u64>) -> bool {
        self.0.contains(item, || at_ms.unwrap_or_else(now_ms))
    }

    /// Looks items up. Writes 1 for each item that the filter claims, 0 for each other, until `answers` is full.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn contains_each(
        &self,
        batch: &Batch,
        at_ms: Option<u64>,
        answers: &mut [u8],
    ) -> Result<(), Error> {
        let now = at_ms.unwrap_or_else(|| if self.0.is_plain() { 0 } else { now_ms() });
        let mut answer = writer(answers);
        batch.visit_all(|items| {
            let outcome = |claimed: bool| answer(claimed.into());
            self.0.contains_each(items, || now, outcome);
        })
    }

    /// Takes one off the count of an item. Returns whether the item was there.
    ///
    /// # Errors
    /// [`Code::Refused`]: the filter does not count.
    pub fn remove(&mut self, item: &[u8]) -> Result<bool, Error> {
        self.require_counters()?;
        Ok(self.0.remove(item))
    }

    /// Returns an upper bound on the count of an item.
    ///
    /// # Errors
    /// [`Code::Refused`]: the filter does not count.
    pub fn count(&self, item: &[u8]) -> Result<u64, Error> {
        self.require_counters()?;
        Ok(self.0.count(item))
    }

    fn require_counters(&self) -> Result<(), Error> {
        if self.0.shape().is_counting() {
            Ok(())
        } else {
            Err(Refused::NO_COUNTERS.into())
        }
    }

    /// Returns the union of filters, at least one, as BF.MERGE makes it. Items are of `at_ms` or now; if a window has
    /// later items than `at_ms`, of their time.
    ///
    /// # Errors
    /// [`Code::Refused`] if there is no exact union, with the reason, or [`Code::NoMemory`].
    pub fn union(filters: &[&Self], at_ms: Option<u64>) -> Result<Self, Error> {
        let first = filters.first().ok_or(Error::NOTHING_TO_MERGE)?;
        let mut objects = Vec::new();
        objects.try_reserve_exact(filters.len())?;
        objects.extend(filters.iter().map(|filter| &filter.0));
        let reached_ms = |filter: &&Self| reached_ms(&filter.0, filter.0.shape().window()?);
        let now = at_ms.map_or_else(now_ms, |at_ms| {
            let reached = filters.iter().filter_map(reached_ms);
            reached.fold(at_ms, u64::max)
        });
        let union =
            Object::union(&objects, Some(now), limits::CREATION).map_err(Refused::Unlike)?;
        let mut union = union.map_or_else(|| first.try_clone(), |union| Ok(Self(union)))?;
        union.0.tidy(now);
        Ok(union)
    }
    /// Removes all items. The seed and the parameters stay.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn clear(&mut self) -> Result<(), Error> {
        let shape = self.0.shape();
        let new = match Dialect::of(&self.0) {
            Dialect::RedisBloom => New::RedisBloom {
                params: shape.params,
                factor: shape.params.growth.expansion(),
            },
            Dialect::Bloomfltr | Dialect::Bloomfltx => New::Own(shape),
        };
        let seed = self.0.hasher().seed().copied().unwrap_or(Seed::FIXED);
        *self = Self::make(&new, seed)?;
        Ok(())
    }

    /// Returns the number of items, as BF.CARD does.
    pub fn items(&self, at_ms: Option<u64>) -> u64 {
        self.0.items(|| at_ms.unwrap_or_else(now_ms))
    }

    /// Returns the rate of false positives at present, estimated from the contents.
    pub fn estimated_rate(&self, at_ms: Option<u64>) -> f64 {
        let now = at_ms.unwrap_or_else(now_ms);
        self.0.estimated_rate(|| now)
    }

    /// Returns the bytes of the seed; `None` for filters of `RedisBloom`, which have none.
    pub fn seed(&self) -> Option<&[u8; 32]> {
        self.0.hasher().seed().map(Seed::as_bytes)
    }
}

impl Chunked for Bloom {
    type Loading = Value;

    fn chunk(&self, cursor: u64) -> Result<(u64, Vec<u8>), Error> {
        let (next, chunk) = chunks::piece(&self.0, cursor).ok_or(Error::NO_MEMORY)?;
        let bytes = match chunk {
            Cow::Borrowed(chunk) => copied(chunk)?,
            Cow::Owned(chunk) => chunk,
        };
        Ok((next, bytes))
    }

    fn begin(header: &[u8]) -> Result<Value, Error> {
        chunks::begin(header, limits::CREATION).map_err(|error| match error {
            LoadError::Decode(error) => error.into(),
            LoadError::TooLarge => Error::NO_MEMORY,
        })
    }

    fn load(loading: &mut Value, cursor: u64, chunk: &[u8]) -> Result<(), Error> {
        match loading {
            Value::Complete(object) => Ok(chunks::overwrite(object, cursor, chunk)?),
            Value::Partial(partial) => {
                if let Some(object) = partial.load(cursor, chunk)? {
                    *loading = Value::Complete(object);
                }
                Ok(())
            }
        }
    }

    fn end(loading: Value) -> Result<Self, Error> {
        match loading {
            Value::Complete(object) => Ok(Self(object)),
            Value::Partial(_) => Err(undecodable("the filter lacks chunks")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn at(at_ms: u64) -> Moment {
        Moment {
            at_ms: Some(at_ms),
            ..Moment::default()
        }
    }

    #[test]
    fn options_of_a_server_alone_are_refused() {
        for option in ["EX 60", "px 60", "NX", "EXPANSION 4 EX 60"] {
            let mut words: Vec<&[u8]> = vec![b"0.01", b"1000"];
            words.extend(option.split(' ').map(str::as_bytes));
            let refused = Bloom::reserve(&words, None).unwrap_err();
            assert_eq!(refused.code(), Code::Refused, "{option}");
        }
        let seed = format!("SEED {}", "0".repeat(32));
        for options in [
            "CAPACITY 5",
            "ERROR 0.5",
            "SATURATE",
            "NOCREATE",
            "NONSCALING",
            "TTL 5 NOCREATE",
            "AT 5 SCALETO 9",
            "ID 5",
            "ITEMS a",
            "WINDOW 5 PERIODS 5",
            &seed,
        ] {
            let words: Vec<_> = options.split(' ').map(str::as_bytes).collect();
            assert!(parse_moment(&words).is_err(), "{options}");
        }
        let words: [&[u8]; 4] = [b"at", b"1", b"Ttl", b"2"];
        assert!(parse_moment(&words).is_ok());
    }

    #[test]
    fn late_items_go_to_their_own_period_and_move_no_others() {
        let now = 1000 * HOUR;
        let words: [&[u8]; 6] = [b"0.001", b"1000", b"WINDOW", b"3600000", b"PERIODS", b"24"];
        let mut day = Bloom::reserve(&words, None).unwrap();
        for age in (0..24).rev() {
            day.add(&[age], &at(now - u64::from(age) * HOUR)).unwrap();
        }
        let late = now - 12 * HOUR;
        assert!(day.add(b"late", &at(late)).unwrap());
        assert!(!day.add(b"late", &at(late)).unwrap());
        let soon = Moment {
            ttl_ms: Some(22 * HOUR),
            ..at(late)
        };
        assert!(day.add(b"soon", &soon).unwrap());
        let expired = Moment {
            ttl_ms: Some(11 * HOUR),
            ..at(late)
        };
        for moment in [at(now - 25 * HOUR), at(0), expired] {
            let refused = day.add(b"expired", &moment).unwrap_err();
            assert_eq!(refused.code(), Code::Refused);
        }
        assert!(day.add(b"new", &at(now)).unwrap());
        let union = Bloom::union(&[&day, &day], Some(late)).unwrap();
        for day in [&day, &union] {
            let found = |item: &[u8], time: u64| day.contains(item, Some(time));
            for age in 0..24 {
                let last = now + (23 - u64::from(age)) * HOUR;
                assert!(found(&[age], now) && found(&[age], last), "{age}");
                assert!(!found(&[age], last + HOUR), "{age}");
            }
            assert!(found(b"late", now + 11 * HOUR) && !found(b"late", now + 12 * HOUR));
            assert!(found(b"soon", now + 9 * HOUR) && !found(b"soon", now + 10 * HOUR));
            assert!(found(b"new", now) && !found(b"expired", now));
        }
        day.add(b"next", &at(now + HOUR)).unwrap();
        assert!(day.add(b"expired", &at(now - 23 * HOUR)).is_err());
    }
}
