//! Parsers for the BF commands with options, one type each. Malformed arguments are refused here, before a key is
//! opened.

mod info;
mod maker;
mod once;
pub mod redisbloom;
mod transfer;

use std::ops::Range;

use crate::error::{Error, Field};
use crate::words::{CommandWords, Cursor, Origin, require_count};
use valkeybloom_sketches::bloom::{Growth, Kind, New, Params, Shape, Tightening, Window};
use valkeybloom_sketches::{Fraction, Seed};

pub use info::{InfoField, InfoFields, InfoRequest};
pub use maker::{Defaults, Maker};
pub use once::{ANSWERED_ANSWERS, ANSWERED_RECEIPT, Once, is_answered};
pub use transfer::{Load, Read, ScanDump, chunk_cursor};

use maker::Wanted;

/// Parses words by `RedisBloom`'s grammar, if the maker's is; `None` for words of this module. A server that follows
/// `RedisBloom` may get these from a primary or a log: `RedisBloom`'s grammar refuses every form that this module
/// replicates, or reads the same in it.
fn by_redisbloom<R>(
    maker: Maker,
    origin: Origin,
    parse: impl FnOnce() -> Result<R, Error>,
) -> Result<Option<R>, Error> {
    match (maker, origin) {
        (Maker::Own | Maker::ValkeyBloom, _) => Ok(None),
        (Maker::RedisBloom, Origin::Client) => parse().map(Some),
        (Maker::RedisBloom, Origin::Elsewhere) => Ok(parse().ok()),
    }
}

/// The options for an object's kind and growth, which may come in any order.
#[derive(Default)]
struct ShapeWords {
    expansion: Option<u32>,
    nonscaling: bool,
    period_ms: Option<u64>,
    periods: Option<u64>,
    counting: bool,
    scale_to: Option<u64>,
}

impl ShapeWords {
    /// Takes an option with its value. Returns `false` for an option that is not a field of this type.
    fn take<W: CommandWords + ?Sized>(
        &mut self,
        option: &[u8],
        from: &mut Cursor<W>,
    ) -> Result<bool, Error> {
        if option.eq_ignore_ascii_case(b"EXPANSION") {
            self.expansion = Some(from.expansion()?);
        } else if option.eq_ignore_ascii_case(b"NONSCALING") {
            self.nonscaling = true;
        } else if option.eq_ignore_ascii_case(b"WINDOW") {
            self.period_ms = Some(from.positive(Field::WINDOW)?);
        } else if option.eq_ignore_ascii_case(b"PERIODS") {
            let periods = from.positive(Field::PERIODS)?;
            let few = periods <= Window::MAX_PERIODS;
            self.periods = Some(few.then_some(periods).ok_or(Error::Bad(Field::PERIODS))?);
        } else if option.eq_ignore_ascii_case(b"COUNTING") {
            self.counting = true;
        } else if option.eq_ignore_ascii_case(b"SCALETO") {
            self.scale_to = Some(from.positive(Field::SCALE_TO)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns the shape. `params` has the capacity that is given, or else the default one.
    fn into_shape(self, mut params: Params, is_capacity_given: bool) -> Result<Shape, Error> {
        let growth = match self.expansion {
            _ if self.nonscaling => Growth::Fixed,
            Some(expansion) => Growth::from_expansion(expansion),
            None => params.growth,
        };
        let window = match (self.period_ms, self.periods) {
            (None, None) => None,
            (Some(period_ms), Some(periods)) => {
                let window = Window::new(period_ms, periods);
                Some(window.ok_or(Error::Bad(Field::WINDOW))?)
            }
            _ => return Err(Error::HALF_WINDOW),
        };
        let kind = match (window, self.counting) {
            (None, false) if self.scale_to.is_some() => Kind::ScaledTo,
            (None, false) => Kind::Plain,
            (None, true) => Kind::Counting,
            (Some(window), false) => Kind::Windowed(window),
            (Some(_), true) => return Err(Error::COUNTING_WINDOW),
        };
        params.growth = growth;
        let mut shape = Shape { params, kind };
        if let Some(scale_to) = self.scale_to {
            if growth == Growth::Fixed {
                return Err(Error::FIXED_GROWTH_TO);
            }
            // A table takes memory for what is in it, so all that counts is how far it is to grow.
            let capacity = scale_to.div_ceil(shape.most_periods());
            let given = is_capacity_given.then_some(params.capacity);
            shape.params.capacity = capacity.max(given.unwrap_or(0));
        }
        shape.params.tightening = shape.tightening();
        Ok(shape)
    }
}

/// The options of BF.INSERT that describe a new object.
#[derive(Default)]
struct NewWords {
    capacity: Option<u64>,
    error_rate: Option<Fraction>,
    tightening: Option<Fraction>,
    seed: Option<Seed>,
    shape: ShapeWords,
}

impl NewWords {
    /// Takes an option with its value. Returns `false` for an option that is not a field of this type.
    fn take<W: CommandWords + ?Sized>(
        &mut self,
        option: &[u8],
        from: &mut Cursor<W>,
    ) -> Result<bool, Error> {
        if option.eq_ignore_ascii_case(b"CAPACITY") {
            self.capacity = Some(from.positive(Field::CAPACITY)?);
        } else if option.eq_ignore_ascii_case(b"ERROR") {
            self.error_rate = Some(from.fraction(Field::ERROR_RATE)?);
        } else if option.eq_ignore_ascii_case(b"TIGHTENING") {
            self.tightening = Some(from.fraction(Field::TIGHTENING)?);
        } else if option.eq_ignore_ascii_case(b"SEED") {
            self.seed = Some(from.seed()?);
        } else {
            return self.shape.take(option, from);
        }
        Ok(true)
    }

    /// Returns the object that is described; missing parameters take the defaults.
    fn into_wanted(self, defaults: Params, origin: Origin) -> Result<Wanted, Error> {
        let tightening = self.tightening.map(|ratio| tightening(ratio, origin));
        let params = Params {
            capacity: self.capacity.unwrap_or(defaults.capacity),
            error_rate: self.error_rate.unwrap_or(defaults.error_rate),
            tightening: tightening.unwrap_or(defaults.tightening),
            growth: defaults.growth,
        };
        Ok(Wanted {
            expansion: self.shape.expansion,
            scales_to: self.shape.scale_to.is_some(),
            tightening: self.tightening,
            seeded: self.seed.is_some(),
            shape: self.shape.into_shape(params, self.capacity.is_some())?,
        })
    }
}

/// The request of BF.RESERVE.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserve {
    /// The object to create, or the reason why it can't be created.
    pub create: Result<New, Error>,
    /// SCALETO: the number of items that the object must be able to grow to.
    pub grow_to: Option<u64>,
    /// The key's time to live in milliseconds.
    pub ttl_ms: Option<u64>,
    /// NX: whether an existing filter is accepted.
    pub unless_exists: bool,
}

impl Reserve {
    /// Parses the words; missing options take the defaults.
    ///
    /// # Errors
    /// The error of the first argument that is wrong.
    pub fn parse<W: CommandWords + ?Sized>(
        words: &W,
        defaults: Defaults,
        origin: Origin,
    ) -> Result<Self, Error> {
        let parse = || redisbloom::reserve(words);
        if let Some(given) = by_redisbloom(defaults.maker, origin, parse)? {
            return Ok(Self {
                create: given.wanted(defaults.params).by(defaults, origin),
                grow_to: None,
                ttl_ms: None,
                unless_exists: false,
            });
        }
        require_count(words.count() >= 4)?;
        let mut from = Cursor::after_key(words);
        let error_rate = from.fraction(Field::ERROR_RATE)?;
        let capacity = from.positive(Field::CAPACITY)?;
        let (mut seconds_ms, mut ms, mut unless_exists) = (None, None, false);
        let mut shape = ShapeWords::default();
        while let Some(option) = from.take() {
            if option.eq_ignore_ascii_case(b"EX") {
                let seconds = from.positive(Field::TTL)?.checked_mul(1000);
                seconds_ms = Some(seconds.ok_or(Error::Bad(Field::TTL))?);
            } else if option.eq_ignore_ascii_case(b"PX") {
                ms = Some(from.positive(Field::TTL)?);
            } else if option.eq_ignore_ascii_case(b"NX") {
                unless_exists = true;
            } else if !shape.take(option, &mut from)? {
                return Err(Error::UNKNOWN_OPTION);
            }
        }
        // BF.INSERT takes both: clients send it both, and the peers do not scale the filter.
        if shape.nonscaling && shape.expansion.is_some_and(|expansion| expansion > 0) {
            return Err(Error::FIXED_EXPANSION);
        }
        let params = Params {
            capacity,
            error_rate,
            ..defaults.params
        };
        let grow_to = shape.scale_to;
        let wanted = Wanted {
            expansion: shape.expansion,
            scales_to: grow_to.is_some(),
            shape: shape.into_shape(params, true)?,
            tightening: None,
            seeded: false,
        };
        if seconds_ms.is_some() && ms.is_some() {
            return Err(Error::TWO_TTLS);
        }
        Ok(Self {
            create: wanted.by(defaults, origin),
            grow_to,
            ttl_ms: seconds_ms.or(ms),
            unless_exists,
        })
    }
}

/// Returns the name of a kind in BF.INFO.
pub const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Plain => "plain",
        Kind::Windowed(_) => "window",
        Kind::Counting => "counting",
        Kind::ScaledTo => "scaleto",
    }
}

/// Requires that items of an object of this kind can have a time to live, if they have one.
///
/// # Errors
/// [`Error::NO_WINDOW`]
#[inline]
pub fn require_suits(kind: Kind, ttl_ms: Option<u64>) -> Result<(), Error> {
    match kind {
        Kind::Windowed(_) => Ok(()),
        _ if ttl_ms.is_some() => Err(Error::NO_WINDOW),
        _ => Ok(()),
    }
}

/// Requires that a time to live is not longer than the window, if there is one.
///
/// # Errors
/// [`Error::LONG_TTL`]
pub fn require_ttl_within(kind: Kind, ttl_ms: Option<u64>) -> Result<(), Error> {
    match kind {
        Kind::Windowed(window) if ttl_ms > Some(window.ms()) => Err(Error::LONG_TTL),
        _ => Ok(()),
    }
}

/// Returns the tightening that a ratio stands for. A client's ratio applies to this module's law; a replicated or stored
/// one also encodes its law.
fn tightening(ratio: Fraction, origin: Origin) -> Tightening {
    match origin {
        Origin::Client => Tightening::ours(ratio),
        Origin::Elsewhere => Tightening::from_stored(ratio),
    }
}

/// The time of a write, and its items' time to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// AT: milliseconds since the epoch. Only a primary or an AOF may send it.
    pub at_ms: Option<u64>,
    /// TTL: the items' time to live in milliseconds.
    pub ttl_ms: Option<u64>,
    /// SATURATE: whether a full non-scaling object takes the items. Only a primary or an AOF may send it.
    pub saturate: bool,
}

/// The request of BF.INSERT.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Insert {
    /// The object to create under an empty key, or the reason why it can't be created; `None` with NOCREATE.
    pub create: Option<Result<New, Error>>,
    /// The new object's seed, if given.
    pub seed: Option<Seed>,
    /// VALIDATESCALETO: the capacity that the object must be able to grow to.
    pub scale_to: Option<u64>,
    /// SCALETO: the number of items that the object must be able to grow to.
    pub grow_to: Option<u64>,
    /// The time of the write, and the items' time to live.
    pub moment: Moment,
    /// ONCE: the receipt of the answers.
    pub once: Option<Once>,
    /// The indices of the items among the words.
    pub items: Range<usize>,
}

impl Insert {
    /// Parses the words; missing options take the defaults.
    ///
    /// # Errors
    /// The error of the first argument that is wrong.
    pub fn parse<W: CommandWords + ?Sized>(
        words: &W,
        defaults: Defaults,
        origin: Origin,
    ) -> Result<Self, Error> {
        let parse = || redisbloom::insert(words);
        if let Some((given, items)) = by_redisbloom(defaults.maker, origin, parse)? {
            let create = || given.wanted(defaults.params).by(defaults, origin);
            return Ok(Self {
                create: (!given.nocreate).then(create),
                once: given.once,
                items,
                ..Self::default()
            });
        }
        require_count(words.count() >= 2)?;
        let mut from = Cursor::after_key(words);
        let (mut request, mut new) = (Self::default(), NewWords::default());
        let mut nocreate = false;
        while let Some(option) = from.take() {
            if option.eq_ignore_ascii_case(b"ITEMS") {
                request.items = from.rest();
                require_count(!request.items.is_empty())?;
                break;
            }
            if option.eq_ignore_ascii_case(b"VALIDATESCALETO") {
                request.scale_to = Some(from.positive(Field::CAPACITY)?);
            } else if option.eq_ignore_ascii_case(b"TTL") {
                request.moment.ttl_ms = Some(from.positive(Field::TTL)?);
            } else if option.eq_ignore_ascii_case(b"AT") {
                request.moment.at_ms = Some(from.time()?);
            } else if option.eq_ignore_ascii_case(b"SATURATE") {
                request.moment.saturate = true;
            } else if option.eq_ignore_ascii_case(b"NOCREATE") {
                nocreate = true;
            } else if option.eq_ignore_ascii_case(b"ONCE") && request.once.is_none() {
                request.once = Some(Once::take(&mut from)?);
            } else if !new.take(option, &mut from)? {
                return Err(Error::UNKNOWN_OPTION);
            }
        }
        request.seed = new.seed;
        request.grow_to = new.shape.scale_to;
        let wanted = new.into_wanted(defaults.params, origin)?;
        if request.scale_to.is_some() && wanted.shape.params.growth == Growth::Fixed {
            return Err(Error::FIXED_SCALE_TO);
        }
        request.create = (!nocreate).then(|| wanted.by(defaults, origin));
        once::require_answers(request.once, &request.items)?;
        Ok(request)
    }

    /// Returns the index of the receipt's key among a client's words, if they have one. It is the one that
    /// [`parse`](Self::parse) finds in words that it does not refuse, because the server permits or refuses a command by
    /// its keys. No value before ONCE can be ONCE or the word before the items, so values are searched like options.
    pub fn receipt<W: CommandWords + ?Sized>(words: &W, maker: Maker) -> Option<usize> {
        let ends = |word: &[u8]| match maker {
            Maker::Own | Maker::ValkeyBloom => word.eq_ignore_ascii_case(b"ITEMS"),
            Maker::RedisBloom => redisbloom::begins_items(word),
        };
        let mut options = (2..words.count()).take_while(|index| !ends(words.word(*index)));
        let once = options.find(|index| words.word(*index).eq_ignore_ascii_case(b"ONCE"))?;
        Some(once + 1).filter(|receipt| *receipt < words.count())
    }
}
