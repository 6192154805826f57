//! Arguments to requests: a cursor over the words of a command, and a type for each command that
//! has options. What is malformed is refused here, before a key is looked at.

use std::ops::Range;

use crate::bloom::{Fraction, Growth, Params, Seed};
use crate::reply::{Error, Field};

/// The words of a command, its name first.
pub trait Words {
    /// How many.
    fn count(&self) -> usize;
    /// The word at an index below the count.
    fn word(&self, index: usize) -> &[u8];
}

impl Words for [&[u8]] {
    fn count(&self) -> usize {
        self.len()
    }

    fn word(&self, index: usize) -> &[u8] {
        self[index]
    }
}

/// The words not yet taken.
struct Cursor<'a, W: ?Sized> {
    words: &'a W,
    next: usize,
}

impl<'a, W: Words + ?Sized> Cursor<'a, W> {
    /// Behind the command's name and key.
    fn behind_key(words: &'a W) -> Self {
        Self { words, next: 2 }
    }

    fn take(&mut self) -> Option<&'a [u8]> {
        let word = (self.next < self.words.count()).then(|| self.words.word(self.next))?;
        self.next += 1;
        Some(word)
    }

    fn rest(self) -> Range<usize> {
        self.next..self.words.count()
    }

    fn fraction(&mut self, field: Field) -> Result<Fraction, Error> {
        let number = self
            .take()
            .and_then(text)
            .and_then(|text| text.parse().ok());
        Fraction::new(number.ok_or(Error::Bad(field))?).ok_or(Error::Range(field))
    }

    fn capacity(&mut self) -> Result<u64, Error> {
        match self.take().and_then(integer).map(u64::try_from) {
            Some(Ok(0)) => Err(Error::Range(Field::Capacity)),
            Some(Ok(capacity)) => Ok(capacity),
            _ => Err(Error::Bad(Field::Capacity)),
        }
    }

    fn expansion(&mut self) -> Result<u32, Error> {
        let expansion = self.take().and_then(integer).map(u32::try_from);
        expansion
            .and_then(Result::ok)
            .ok_or(Error::Bad(Field::Expansion))
    }

    fn seed(&mut self) -> Result<Seed, Error> {
        let bytes = self.take().and_then(|word| word.try_into().ok());
        bytes.map(Seed::new).ok_or(Error::Seed)
    }
}

fn text(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}

/// A whole number as the server's own commands read it: digits, perhaps a minus before them.
pub fn integer(word: &[u8]) -> Option<i64> {
    text(word)
        .filter(|text| !text.starts_with('+'))?
        .parse()
        .ok()
}

/// What a command says of growth: EXPANSION and NONSCALING, in any order.
#[derive(Default)]
struct GrowthWords {
    expansion: Option<u32>,
    nonscaling: bool,
}

impl GrowthWords {
    /// Takes an option, or tells that it is another.
    fn take<W: Words + ?Sized>(
        &mut self,
        option: &[u8],
        from: &mut Cursor<W>,
    ) -> Result<bool, Error> {
        if option.eq_ignore_ascii_case(b"EXPANSION") {
            self.expansion = Some(from.expansion()?);
        } else if option.eq_ignore_ascii_case(b"NONSCALING") {
            self.nonscaling = true;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn settle(&self, default: Growth) -> Result<Growth, Error> {
        match (self.nonscaling, self.expansion) {
            (true, None | Some(0)) => Ok(Growth::Fixed),
            (true, Some(_)) => Err(Error::FixedExpansion),
            (false, Some(expansion)) => Ok(Growth::from_expansion(expansion)),
            (false, None) => Ok(default),
        }
    }
}

/// BF.RESERVE.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserve {
    /// The object to make.
    pub params: Params,
}

impl Reserve {
    /// Reads the words; what they do not say is the defaults'.
    ///
    /// # Errors
    /// What the contract says of each argument.
    pub fn parse<W: Words + ?Sized>(words: &W, defaults: Params) -> Result<Self, Error> {
        if words.count() < 4 {
            return Err(Error::Arity);
        }
        let mut from = Cursor::behind_key(words);
        let error_rate = from.fraction(Field::ErrorRate)?;
        let capacity = from.capacity()?;
        let mut growth = GrowthWords::default();
        while let Some(option) = from.take() {
            if !growth.take(option, &mut from)? {
                return Err(Error::UnknownOption);
            }
        }
        let params = Params {
            capacity,
            error_rate,
            growth: growth.settle(defaults.growth)?,
            ..defaults
        };
        Ok(Self { params })
    }
}

/// BF.INSERT.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The object to make if there is none; `None` if none is to be made.
    pub create: Option<Params>,
    /// Its seed, if it was given.
    pub seed: Option<Seed>,
    /// How many items it has to be able to hold.
    pub scale_to: Option<u64>,
    /// The indices of the items among the words.
    pub items: Range<usize>,
}

impl Insert {
    /// Reads the words; what they do not say is the defaults'.
    ///
    /// # Errors
    /// What the contract says of each argument.
    pub fn parse<W: Words + ?Sized>(words: &W, defaults: Params) -> Result<Self, Error> {
        if words.count() < 2 {
            return Err(Error::Arity);
        }
        let mut from = Cursor::behind_key(words);
        let (mut capacity, mut error_rate, mut tightening) = (None, None, defaults.tightening);
        let (mut nocreate, mut seed, mut scale_to) = (false, None, None);
        let mut growth = GrowthWords::default();
        let mut items = 0..0;
        while let Some(option) = from.take() {
            if option.eq_ignore_ascii_case(b"ITEMS") {
                items = from.rest();
                if items.is_empty() {
                    return Err(Error::Arity);
                }
                break;
            }
            if option.eq_ignore_ascii_case(b"CAPACITY") {
                capacity = Some(from.capacity()?);
            } else if option.eq_ignore_ascii_case(b"ERROR") {
                error_rate = Some(from.fraction(Field::ErrorRate)?);
            } else if option.eq_ignore_ascii_case(b"TIGHTENING") {
                tightening = from.fraction(Field::Tightening)?;
            } else if option.eq_ignore_ascii_case(b"SEED") {
                seed = Some(from.seed()?);
            } else if option.eq_ignore_ascii_case(b"VALIDATESCALETO") {
                scale_to = Some(from.capacity()?);
            } else if option.eq_ignore_ascii_case(b"NOCREATE") {
                nocreate = true;
            } else if !growth.take(option, &mut from)? {
                return Err(Error::UnknownOption);
            }
        }
        if nocreate && (capacity.is_some() || error_rate.is_some()) {
            return Err(Error::NoCreate);
        }
        let params = Params {
            capacity: capacity.unwrap_or(defaults.capacity),
            error_rate: error_rate.unwrap_or(defaults.error_rate),
            tightening,
            growth: growth.settle(defaults.growth)?,
        };
        if scale_to.is_some() && params.growth == Growth::Fixed {
            return Err(Error::FixedScaleTo);
        }
        Ok(Self {
            create: (!nocreate).then_some(params),
            seed,
            scale_to,
            items,
        })
    }
}

/// A field of BF.INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoField {
    /// Items that the filters are made for.
    Capacity,
    /// Bytes of memory.
    Size,
    /// Filters in the stack.
    Filters,
    /// Items that it took.
    Items,
    /// The growth factor.
    Expansion,
    /// The rate that was asked for.
    Error,
    /// The ratio of successive rates.
    Tightening,
    /// Items that it can come to hold.
    MaxScaledCapacity,
}

impl InfoField {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 8] = [
        Self::Capacity,
        Self::Size,
        Self::Filters,
        Self::Items,
        Self::Expansion,
        Self::Error,
        Self::Tightening,
        Self::MaxScaledCapacity,
    ];

    fn word(self) -> &'static [u8] {
        match self {
            Self::Capacity => b"CAPACITY",
            Self::Size => b"SIZE",
            Self::Filters => b"FILTERS",
            Self::Items => b"ITEMS",
            Self::Expansion => b"EXPANSION",
            Self::Error => b"ERROR",
            Self::Tightening => b"TIGHTENING",
            Self::MaxScaledCapacity => b"MAXSCALEDCAPACITY",
        }
    }

    /// Reads the words of BF.INFO: the field that they ask for, or `None` for all.
    ///
    /// # Errors
    /// [`Error::Arity`] or [`Error::UnknownField`].
    pub fn parse<W: Words + ?Sized>(words: &W) -> Result<Option<Self>, Error> {
        if !(2..=3).contains(&words.count()) {
            return Err(Error::Arity);
        }
        let mut from = Cursor::behind_key(words);
        let Some(word) = from.take() else {
            return Ok(None);
        };
        let field = Self::ALL
            .into_iter()
            .find(|f| word.eq_ignore_ascii_case(f.word()));
        field.map(Some).ok_or(Error::UnknownField)
    }
}
